use super::*;
use recordings::kernel_log::read;
use std::sync::Arc;

fn signs(text: &str) -> Signs {
    Signs { log: Some(Arc::new(read(text))), ..Signs::default() }
}

/// Returns the sentences about the killed processes in a log.
fn said(text: &str) -> String {
    kills(&read(text)).sentences.join(" ")
}

fn must_say(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part}\nin: {said}");
    }
}

/// The kernel's report of a failed request on a 32-bit board. Low memory is a single zone, most of which is CMA.
const BOARD: &str = "\
[  301.1] app invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[  301.2] Mem-Info:
[  301.3] DMA free:420000kB boost:6000kB min:9000kB low:9900kB high:10000kB active_anon:0kB inactive_anon:0kB active_file:70000kB inactive_file:300kB writepending:69000kB present:786432kB managed:700000kB free_cma:415500kB
[  301.4] lowmem_reserve[]: 0 0 3000 3000
[  301.5] HighMem free:2000000kB min:512kB low:4500kB high:8500kB active_anon:1000kB present:3264512kB managed:3264512kB free_cma:0kB
[  301.6] Free swap  = 102396kB
[  301.7] Total swap = 102396kB
[  301.8] Out of memory: Killed process 77 (app) total-vm:9000kB, anon-rss:2000kB, file-rss:100kB, shmem-rss:0kB
";

#[test]
fn a_request_of_the_kernel_beside_free_high_memory_and_cma_is_explained() {
    must_say(
        &said(BOARD),
        &[
            "The kernel killed app (PID 77), which had 2100 kB in memory (line 1, 301.1).",
            "app asked for a page (GFP_KERNEL), which zone DMA alone can serve, not HighMem (2000000 kB free).",
            "420000 kB are free in DMA, but 415500 of them are CMA, which only pages that can be moved may take: 4500 kB are left, under its \
         min mark of 9000 kB.",
            "Without a boost of 6000 kB (watermark_boost_factor) that mark would be 3000 kB.",
            "Swap is empty (102396 kB free); programs have 0 kB in this zone that could go there; of 70300 kB of files there 69000 are not yet \
         written to disk.",
        ],
    );
    let figures = kills(&read(BOARD)).figures;
    let of = |name: &str| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
    assert_eq!(
        (of("DMA: free"), of("DMA: CMA"), of("DMA: left for this request")),
        (Some(420_000.0), Some(415_500.0), Some(4500.0))
    );
}

#[test]
fn a_computer_whose_swap_is_full_is_told_with_its_largest_process() {
    let text = recordings::kernel_log::samples::GLOBAL_6_1;
    must_say(
        &said(text),
        &[
            "The kernel killed java (PID 2210), which had 12400400 kB in memory",
            "postgres asked for a page (GFP_HIGHUSER_MOVABLE|__GFP_COMP), which zones DMA, DMA32 and Normal can serve.",
            "73512 kB are free in DMA and DMA32, which keep 119400 kB from requests that a higher zone could serve (lowmem_reserve): too little \
         is left there.",
            "Memory was: memory of programs 80 %, huge pages 13 %.",
            "59504 kB are free in Normal, but 2048 are kept for blocks that cannot be waited for (highatomic): 57456 kB are left, under its min \
         mark of 61392 kB.",
            "Swap is full (0 of 999420 kB free)",
            "Of the processes java had the most: 12400400 kB in memory and 996000 kB in swap, 100 % of what all had.",
        ],
    );
}

#[test]
fn many_processes_of_one_name_are_told_together() {
    let text = recordings::kernel_log::samples::GLOBAL_2_6_32;
    must_say(
        &said(text),
        &["Of the processes 2 processes httpd together had the most: 800000 kB in memory", "Swap is full"],
    );
}

#[test]
fn limits_of_cgroups_are_told_and_not_memory_of_the_computer() {
    let new = said(recordings::kernel_log::samples::CGROUP_5_15);
    must_say(
        &new,
        &[
            "The cgroup /kube/pod7 was at its limit: 1048576 of 1048576 kB, 9876 times. The process was in /kube/pod7/c1, below it.",
            "It held: memory of programs 976562 kB, shared memory and tmpfs 40000 kB,",
            "It may not use swap.",
            "node (main) (PID 4242)",
        ],
    );
    assert!(!new.contains("zone"), "{new}");
    let old = said(recordings::kernel_log::samples::CGROUP_4_4);
    must_say(
        &old,
        &[
            "The cgroup /docker/a1b2 was at its limit: 524288 of 524288 kB",
            "memory of programs 520000 kB, files 4096 kB",
        ],
    );
    let both = said(&recordings::kernel_log::samples::CGROUP_4_4.replace("limit 1048576kB", "limit 524288kB"));
    must_say(&both, &["at its limit of memory and swap together: 524288 of 524288 kB"]);
}

#[test]
fn a_block_that_cannot_be_had_is_a_matter_of_pieces() {
    let text = recordings::kernel_log::samples::FAILURE_5_10;
    let finding = allocation_failed(&signs(text)).unwrap().unwrap();
    must_say(
        &finding.sentence,
        &[
            "A request for memory failed (line 1, 3312.500001).",
            "kworker/0:1 asked for 16 pages in one block (order 4) (GFP_KERNEL|__GFP_COMP)",
            "Memory is in pieces: 109340 kB are free in DMA32, but in no block of 64 kB; those of 128 kB that are free are kept for others.",
        ],
    );
    assert_eq!(kills(&read(text)), Told::default());
    assert_eq!(allocation_failed(&Signs::default()), Err("kernel log".into()));
}

#[test]
fn requests_that_cannot_wait_and_devices_of_32_bits_are_told_apart() {
    let zones = "\
Mem-Info:
Node 0 DMA free:60kB min:44kB low:56kB high:68kB present:15992kB managed:15360kB free_cma:0kB
lowmem_reserve[]: 0 1918 15884 15884 15884
Node 0 DMA32 free:1700kB min:5628kB low:7624kB high:9620kB active_anon:1990000kB present:2080640kB managed:1996800kB free_cma:0kB
lowmem_reserve[]: 0 0 13966 13966 13966
Node 0 Normal free:9000000kB min:61392kB low:75740kB high:90088kB present:14680064kB managed:14301556kB free_cma:0kB
lowmem_reserve[]: 0 0 0 0 0
Total swap = 0kB
Free swap  = 0kB
";
    let dma32 = format!(
        "X: page allocation failure: order:0, mode:0xcc4(GFP_KERNEL|GFP_DMA32), nodemask=(null),cpuset=/,mems_allowed=0\n{zones}"
    );
    let finding = allocation_failed(&signs(&dma32)).unwrap().unwrap();
    must_say(
        &finding.sentence,
        &[
            "which zones DMA and DMA32 alone can serve, not Normal (9000000 kB free).",
            "1700 kB are free in DMA32, under its min mark of 5628 kB.",
            "There is no swap",
        ],
    );
    let atomic = format!(
        "X: page allocation failure: order:0, mode:0x820(GFP_ATOMIC), nodemask=(null)\n{}",
        zones.replace("9000000", "20000")
    );
    let finding = allocation_failed(&signs(&atomic)).unwrap().unwrap();
    must_say(
        &finding.sentence,
        &[
            "A request that cannot wait for reclaim failed",
            "20000 kB are free in Normal, under 23022 kB, the part of its min mark that even such a request must leave.",
        ],
    );
}

#[test]
fn several_reports_of_one_kind_are_told_once_with_their_first_and_last() {
    let again = BOARD.replace("301.", "977.").replace("(app)", "(other)").replace("process 77", "process 78");
    let text = format!("{BOARD}{again}{}", recordings::kernel_log::samples::CGROUP_5_15);
    must_say(
        &said(&text),
        &[
            "The kernel killed 2 processes: app, other (2 reports, from line 1, 301.1 to line 9, 977.1).",
            "The cgroup /kube/pod7 was at its limit",
        ],
    );
    assert_eq!(kills(&read(&text)).kills, 3);
    must_say(
        &said("Out of memory: Killed process 9 (a) total-vm:1kB, anon-rss:1kB, file-rss:0kB\n"),
        &["The kernel killed 1 process: a for want of memory"],
    );
}

#[test]
fn tasks_that_stood_still_are_an_illness_where_they_reclaimed() {
    let text = "\
[  242.1] INFO: task jbd2/sda1-8:312 blocked for more than 120 seconds.
[  242.2]  io_schedule+0x16/0x40
[  243.1] INFO: task jbd2/sda1-8:312 blocked for more than 241 seconds.
";
    let finding = stood_still(&signs(text)).unwrap().unwrap();
    assert_eq!(finding.weight, Weight::Notice);
    must_say(
        &finding.sentence,
        &["more than 241 s without an end (2 times: jbd2/sda1-8 (2))", "not reclaim, as far as"],
    );
    let finding = stood_still(&signs(&text.replace("io_schedule", "shrink_lruvec"))).unwrap().unwrap();
    assert_eq!(finding.weight, Weight::Illness);
    assert_eq!(stood_still(&signs("[ 1.0] usb 1-1: new\n")), Ok(None));
}

#[test]
fn a_node_that_is_out_of_memory_is_no_container_at_its_limit() {
    let said = said("Warning  SystemOOM  12m  kubelet  System OOM encountered, victim process: python3, pid: 22110\n");
    must_say(
        &said,
        &["The kernel killed python3", "the whole node was out of memory", "no container had to reach its limit"],
    );
    assert!(!said.contains("at its own limit"), "{said}");
}

/// A larger reserve helps requests that cannot wait for reclaim. A request that can wait, and fails for want of a block,
/// finds no block in the reserve.
#[test]
fn a_larger_reserve_is_advised_for_requests_that_cannot_wait() {
    let failure = |flags: &str| {
        format!(
            "[  1.0] ifconfig: page allocation failure: order:4, mode:0x40dc0({flags}), nodemask=(null)\n[  1.1] Mem-Info:\n"
        )
    };
    for (flags, is_advised) in [("GFP_KERNEL|__GFP_COMP", false), ("GFP_ATOMIC|__GFP_COMP", true)] {
        let steps = crate::doctor::advice::next("allocation-failed", &signs(&failure(flags)));
        let is_there = steps.iter().any(|step| step.show().contains("min_free_kbytes"));
        assert_eq!(is_there, is_advised, "{flags}: {steps:?}");
    }
}

#[test]
fn a_report_without_its_beginning_says_what_cannot_be_known_and_what_the_rest_tells() {
    let new = recordings::kernel_log::samples::GLOBAL_6_1;
    let of = |lines: std::ops::Range<usize>| {
        let text: Vec<&str> = new.lines().take(lines.end).skip(lines.start).collect();
        signs(&text.join("\n"))
    };
    let told = kills(of(11..48).log.as_deref().unwrap());
    let text = told.sentences.join(" ");
    for part in [
        "The kernel killed java (PID 2210)",
        "The beginning of the report is missing: who asked for how much",
        "Less than the min mark is free in Normal (59504 kB, min 61392 kB).",
        "Swap is full (0 of 999420 kB free).",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(told.figures.iter().any(|it| it.name == "Normal: min"), "{:?}", told.figures);
    // Neither a process nor a kill is there: the report may be of the killer or of a failed request.
    let finding = allocation_failed(&of(11..36)).unwrap().unwrap();
    assert_eq!((finding.cause, finding.weight), ("allocation-failed", Weight::Illness));
    assert!(finding.sentence.contains("its killer was called, or a request failed, or somebody asked"), "{finding:?}");
    let enough = signs(
        "Node 0 Normal free:90000kB min:600kB low:700kB high:800kB present:900000kB managed:900000kB\nlowmem_reserve[]: 0 0 0 0\n",
    );
    let finding = allocation_failed(&enough).unwrap().unwrap();
    assert_eq!(finding.weight, Weight::Notice);
    assert!(finding.sentence.contains("none is under its min mark: Normal has 90000 kB free."), "{finding:?}");
    // A report that a user asked for is no finding.
    let asked = format!("sysrq: Show Memory\n{}", new.lines().take(36).skip(8).collect::<Vec<_>>().join("\n"));
    assert_eq!(allocation_failed(&signs(&asked)), Ok(None));
}

#[test]
fn kubernetes_is_quoted_with_limits_and_with_pods_that_are_not_named() {
    must_say(
        &said(
            "  app:\n    Container ID:  x\n    Last State: Terminated\n      Reason:  OOMKilled\n    Restart Count:  12\n    Limits:\n      memory:  512Mi\n",
        ),
        &[
            "The kernel killed app (line 4), as Kubernetes tells it (OOMKilled). Of app: its limit is 512Mi, it was restarted 12 times in all.",
        ],
    );
    must_say(
        &said("eviction manager: must evict pod(s) to reclaim memory\n"),
        &["kubelet set out to evict pods for want of memory (line 1); which it evicted is not in the log."],
    );
    must_say(&said("kubelet System OOM encountered\n"), &["The kernel killed a process (line 1), as kubelet tells it"]);
}

use super::*;

fn only(text: &str) -> Report {
    let mut reports = read(text).reports;
    assert_eq!(reports.len(), 1, "{reports:#?}");
    reports.remove(0)
}

fn set(nodes: &[u32]) -> Option<BTreeSet<u32>> {
    Some(nodes.iter().copied().collect())
}

const OLD: &str = include_str!("samples/2.6.32-global.txt");
const NEW: &str = include_str!("samples/6.1-global.txt");
const CGROUP_1: &str = include_str!("samples/4.4-cgroup.txt");
const CGROUP_2: &str = include_str!("samples/5.15-cgroup.txt");
const FAILURE: &str = include_str!("samples/5.10-failure.txt");

#[test]
fn a_report_of_2_6_32_is_read() {
    let report = only(OLD);
    assert_eq!((report.kind, report.task.as_deref(), report.order), (Kind::OutOfMemory, Some("httpd"), Some(0)));
    assert_eq!(report.gfp.as_ref().map(|gfp| (gfp.highest, gfp.may_sleep)), Some((ZoneKind::Movable, true)));
    assert_eq!((&report.nodes, report.at.as_deref(), report.line), (&set(&[0]), Some("Nov 26 10:00:00"), 2));
    assert_eq!((report.counters["active_anon"], report.counters["pagetables"]), (443_014, 14_418));
    let kinds: Vec<ZoneKind> = report.zones.iter().map(|zone| zone.kind).collect();
    assert_eq!(kinds, [ZoneKind::Dma, ZoneKind::Dma32]);
    let dma32 = &report.zones[1];
    assert_eq!((dma32.kib("free"), dma32.kib("min"), dma32.kib("present")), (44_672, 44_720, 2_052_192));
    assert_eq!((&*report.zones[0].reserve, dma32.blocks.len()), (&[0, 2004, 2004, 2004][..], 11));
    assert_eq!((dma32.blocks[0].count, &*dma32.blocks[0].kinds), (10_438, ""));
    assert_eq!((report.swap, report.pages["RAM"]), ([Some(2_097_144), Some(0)], 524_284));
    let names: Vec<(&str, u64)> = report.tasks.iter().map(|task| (&*task.name, task.rss_pages)).collect();
    assert_eq!(names, [("udevd", 1), ("httpd", 101_000), ("httpd", 99_000), ("Web Content", 5)]);
    let kill = &report.kills[0];
    assert_eq!((report.kills.len(), kill.pid, &*kill.name, kill.rss_kib()), (1, 4711, "httpd", Some(404_016)));
    assert_eq!(read(OLD).release.as_deref(), Some("2.6.32-431.el6.x86_64"));
}

#[test]
fn a_report_of_6_1_is_read_through_the_prefixes_of_all_loggers() {
    let expected = only(NEW);
    assert_eq!(expected.gfp.as_ref().map(Gfp::name), Some("GFP_HIGHUSER_MOVABLE|__GFP_COMP"));
    assert_eq!((expected.constraint.as_deref(), &expected.nodes), (Some("CONSTRAINT_NONE"), &set(&[0])));
    assert_eq!(expected.huge, [HugePages { total: 1024, free: 1024, size_kib: 2048 }]);
    let normal = &expected.zones[2];
    assert_eq!((normal.kind, normal.kib("reserved_highatomic"), normal.kib("boost")), (ZoneKind::Normal, 2048, 2048));
    assert_eq!((&*normal.blocks[1].kinds, normal.blocks[1].count, expected.page_kib()), ("UMEH", 1203, 4));
    assert_eq!((expected.slabs["kmalloc-4k"], expected.slabs.len()), (50_016, 3));
    let task = expected.tasks.last().unwrap();
    assert_eq!((task.rss_pages, task.page_table_bytes, &*task.name), (3_100_100, Some(25_276_416), "java"));
    assert_eq!((expected.kills[0].rss_kib(), expected.kills[0].is_of_cgroup), (Some(12_400_400), false));
    let plain = |line: &str| line.split_once("] ").map_or(line, |(_, text)| text).to_owned();
    for before in [
        "",
        "<4>",
        "<6>[   12.000001] ",
        "[Thu Nov 26 10:00:00 2026] ",
        "kern  :warn  : [   12.000001] ",
        "Nov 26 10:00:00 host kernel: ",
        "[   12.000001][ T1234] ",
        "2026-11-26T10:00:00.000001+01:00 host kernel: [   12.000001] ",
    ] {
        let text: String = NEW.lines().map(|line| format!("{before}{}\n", plain(line))).collect();
        let found = only(&text);
        assert_eq!(Report { at: expected.at.clone(), ..found }, expected, "{before}");
        assert!(text.lines().any(tells));
    }
}

#[test]
fn reports_of_cgroups_are_read() {
    let old = only(CGROUP_1);
    let cgroup = old.cgroup.as_ref().unwrap();
    assert_eq!((cgroup.limited.as_deref(), cgroup.of_task.as_deref()), (Some("/docker/a1b2"), Some("/docker/a1b2")));
    let memory = Limit { usage_kib: 524_288, limit_kib: Some(524_288), failures: 1234 };
    assert_eq!((cgroup.limits["memory"], cgroup.limits["kmem"].limit_kib), (memory, None));
    assert_eq!((cgroup.stats["rss"], cgroup.stats["cache"]), (520_000 * 1024, 4096 * 1024));
    assert_eq!((old.kills.len(), old.kills[0].is_of_cgroup, old.zones.len()), (1, true, 0));
    let new = only(CGROUP_2);
    let cgroup = new.cgroup.as_ref().unwrap();
    assert_eq!(new.constraint.as_deref(), Some("CONSTRAINT_MEMCG"));
    assert_eq!((cgroup.limited.as_deref(), cgroup.of_task.as_deref()), (Some("/kube/pod7"), Some("/kube/pod7/c1")));
    assert_eq!(
        (cgroup.stats["anon"], cgroup.stats["shmem"], cgroup.stats["pgfault"]),
        (1_000_000_000, 40_960_000, 123_456)
    );
    assert_eq!((cgroup.limits["swap"].limit_kib, cgroup.limits["memory"].failures), (Some(0), 9876));
    assert_eq!((new.tasks.len(), new.kills[0].pid, &*new.kills[0].name), (2, 4242, "node (main)"));
}

#[test]
fn a_failed_allocation_is_read() {
    let log = read(FAILURE);
    let report = &log.reports[0];
    assert_eq!((report.kind, report.order, report.task.as_deref()), (Kind::Failure, Some(4), Some("kworker/0:1")));
    assert_eq!((report.gfp.as_ref().map(Gfp::name), report.zones.len()), (Some("GFP_KERNEL|__GFP_COMP"), 2));
    assert_eq!((log.kills.len(), log.reports.len()), (0, 1));
    let old =
        only("swapper: page allocation failure. order:1, mode:0x20\nPid: 0, comm: swapper Not tainted 2.6.32 #1\n");
    assert_eq!((old.order, old.gfp.map(|gfp| (gfp.may_sleep, gfp.is_high))), (Some(1), Some((false, true))));
    let stalls = only(
        "java: page allocation stalls for 12345ms, order:0, mode:0x14200ca(GFP_HIGHUSER_MOVABLE), nodemask=(null)\n",
    );
    assert_eq!((stalls.kind, stalls.order), (Kind::Stalled(12_345), Some(0)));
}

#[test]
fn several_reports_in_a_log_and_cut_ones_are_told_apart() {
    let three = format!("{NEW}{CGROUP_2}[   99.0] usb 1-1: new device\n{FAILURE}");
    let found = read(&three).reports;
    let kinds: Vec<(Kind, bool)> = found.iter().map(|it| (it.kind, it.cgroup.is_some())).collect();
    assert_eq!(kinds, [(Kind::OutOfMemory, false), (Kind::OutOfMemory, true), (Kind::Failure, false)]);
    assert_eq!(found[1].line, NEW.lines().count() + 1);
    // The log lacks the beginning of the report, or its end.
    let lines: Vec<&str> = NEW.lines().collect();
    let memory = lines.iter().position(|line| line.contains("Mem-Info")).unwrap();
    let late = only(&lines[memory..].join("\n"));
    assert_eq!((late.kind, late.gfp.is_none(), late.kills.len()), (Kind::OutOfMemory, true, 1));
    for end in 1..lines.len() {
        let early = only(&lines[..end].join("\n"));
        assert_eq!(early.task.as_deref(), Some("postgres"), "{end}");
    }
    // The log has only the line that reports the kill.
    let alone = read(lines.iter().rev().find(|line| line.contains("Killed process")).unwrap());
    assert_eq!((alone.reports.len(), alone.kills.len(), alone.kills[0].rss_kib()), (0, 1, Some(12_400_400)));
}

#[test]
fn blocked_tasks_and_stuck_cpus_are_named() {
    let text = "\
[  242.1] INFO: task jbd2/sda1-8:312 blocked for more than 120 seconds.
[  242.1]       Not tainted 5.4.0-42-generic #46-Ubuntu
[  242.2] Call Trace:
[  242.2]  io_schedule+0x16/0x40
[  242.3] INFO: task bash:999 blocked in I/O wait for more than 241 seconds.
[  242.4]  ? balance_pgdat+0x1/0x2
[  242.4]  shrink_lruvec+0x2a0/0x5d0
[  250.0] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [kswapd0:45]
[  251.0] BUG: soft lockup - CPU#3 stuck for 67s! [mysqld:812]
";
    let log = read(text);
    let blocked: Vec<_> = log.blocked.iter().map(|it| (&*it.task, it.seconds, it.is_in_reclaim)).collect();
    assert_eq!(blocked, [("jbd2/sda1-8:312", 120, false), ("bash:999", 241, true)]);
    let stuck: Vec<_> = log.stuck.iter().map(|it| (&*it.task, it.seconds, it.is_in_reclaim)).collect();
    assert_eq!(stuck, [("kswapd0:45", 22, true), ("mysqld:812", 67, false)]);
    assert!(text.lines().next().is_some_and(tells) && log.reports.is_empty());
}

#[test]
fn nodes_and_constraints_with_commas_are_read() {
    let text = "a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), nodemask=0,2-3, order=0, oom_score_adj=0\n\
                oom-kill:constraint=CONSTRAINT_MEMORY_POLICY,nodemask=1,3,cpuset=a,b,mems_allowed=0-3,global_oom,task_memcg=/x,task=a,pid=1,uid=0\n";
    assert_eq!(only(text.lines().next().unwrap()).nodes, set(&[0, 2, 3]));
    let report = only(text);
    assert_eq!((report.nodes, report.cgroup), (set(&[1, 3]), None));
    let old = "b invoked oom-killer: gfp_mask=0xd0, order=0, oom_adj=0\nb cpuset=/ mems_allowed=0-1\n";
    assert_eq!(only(old).nodes, set(&[0, 1]));
}

#[test]
fn lines_of_other_texts_are_not_taken_for_a_log() {
    for text in [
        "[1, 2]",
        "{\"schema\": 1}",
        "procs ---memory---",
        "MemTotal: 5 kB",
        "",
        "[ 1 ] 2",
        "kernel",
        "nr_free_pages 7",
    ] {
        assert!(!tells(text) && !holds(text), "{text}");
    }
    assert!(
        holds("[    0.000000] Linux version 6.1")
            && holds("Nov 26 10:00:00 host kernel: usb 1-1: new")
            && holds("anon 4096")
    );
    assert_eq!(read("[    0.000000] Linux version 6.1\n"), Log::default());
}

#[test]
fn spoilt_numbers_and_tables_are_left_out() {
    let huge = "18446744073709551615";
    for text in [NEW.to_owned(), CGROUP_1.to_owned(), FAILURE.to_owned()] {
        for (from, to) in [
            ("total_vm      rss", "total_vm"),
            ("*4kB", "*99999999999kB"),
            ("free:", &format!("free:{huge}")),
            ("rss:", &format!("rss:{huge}")),
            ("order=0", "order=2147483647"),
            ("Node 0", "Node 4294967295"),
            ("mems_allowed=0", "mems_allowed=0-4294967295"),
        ] {
            let log = read(&text.replace(from, to));
            assert!(log.reports.iter().all(|report| report.page_kib() == 4), "{from}");
        }
    }
}

#[test]
fn a_report_that_a_mail_program_wrapped_is_read_as_before() {
    // Wraps each line at a word, as mail programs do.
    let wrap = |line: &str, width: usize| {
        let mut lines = vec![String::new()];
        for word in line.split_inclusive(' ') {
            if lines.last().unwrap().len() + word.trim_end().len() > width && !lines.last().unwrap().trim().is_empty() {
                lines.push(String::new());
            }
            lines.last_mut().unwrap().push_str(word);
        }
        lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
    };
    let expected = only(NEW);
    for width in [60, 72, 78] {
        let text = NEW.lines().map(|line| wrap(line, width)).collect::<Vec<_>>().join("\n");
        let found = only(&text);
        assert_eq!((&found.task, &found.counters, &found.zones), (&expected.task, &expected.counters, &expected.zones));
        assert_eq!((&found.tasks, &found.constraint), (&expected.tasks, &expected.constraint), "{width}");
        assert_eq!((&found.kills[0].name, &found.kills[0].kib), (&expected.kills[0].name, &expected.kills[0].kib));
    }
}

#[test]
fn a_name_that_is_cut_is_joined_or_unknown_and_never_made_up() {
    let kill = |text: &str| read(text).kills.remove(0);
    let told = |text: &str| (kill(text).pid, kill(text).name, kill(text).rss_kib());
    let sizes = "total-vm:9kB, anon-rss:4kB, file-rss:0kB";
    let whole = (1234, "Web Content".to_owned(), Some(4));
    assert_eq!(told(&format!("Out of memory: Killed process 1234 (Web\nContent) {sizes}\n")), whole);
    assert_eq!(told(&format!("[ 1.000001] Out of memory: Killed process 1234 (\nWeb Content) {sizes}\n")), whole);
    assert_eq!(told("[ 1.000001] Out of memory: Killed process 1234 (We\n\nThanks!\n"), (1234, String::new(), None));
    assert_eq!(told("Out of memory: Killed process 1234 (\n"), (1234, String::new(), None));
}

#[test]
fn lines_that_kubernetes_quotes_are_those_of_the_kernel() {
    let said = "Memory cgroup out of memory: Killed process 4711 (java) total-vm:9kB, anon-rss:4kB";
    for before in [
        "I0102 15:04:05.000000    1234 log_monitor.go:160] ",
        "E0102 15:04:05.000000    1234 manager.go:9] \"",
        "Nov 26 10:00:00 node1 kubelet[812]: I1126 10:00:00.123456     812 kmsg.go:123] ",
        "Nov 26 10:00:00 node1 node-problem-detector[8]: ",
        "Warning  OOMKilling  3m  kernel-monitor, node1  ",
        "I0102 15:04:05.000000    1 log_monitor.go:160] New status generated: Message:",
    ] {
        let line = format!("{before}{said}\n");
        assert!(tells(&line));
        let kill = read(&line).kills.remove(0);
        assert_eq!(
            (kill.pid, &*kill.name, kill.rss_kib(), kill.is_of_cgroup),
            (4711, "java", Some(4), true),
            "{before}"
        );
    }
}

/// Returns the lines of a log from line `first` to line `last`, counted from 1.
fn part(log: &str, first: usize, last: usize) -> String {
    log.lines().take(last).skip(first - 1).fold(String::new(), |text, line| text + line + "\n")
}

#[test]
fn a_report_without_its_beginning_is_recognised_at_each_of_its_lines() {
    for (log, last) in [(NEW, 48), (OLD, OLD.lines().count())] {
        let begin = 1 + log.lines().position(|line| line.contains("Mem-Info")).unwrap();
        let kill = 1 + log.lines().position(|line| line.contains("Out of memory: Kill")).unwrap();
        for first in begin..kill {
            let report = only(&part(log, first, last));
            let is_killed = report.kills.len() == 1;
            assert!(report.is_cut && report.kind == Kind::OutOfMemory && is_killed, "{first}: {report:?}");
        }
    }
    assert!(!only(NEW).is_cut && !only(FAILURE).is_cut);
    // Without the table of processes and without a kill, the reason for the report is unknown.
    let report = only(&part(NEW, 12, 36));
    assert_eq!((report.kind, report.is_cut, report.zones.len()), (Kind::Shown, true, 3));
    // The table of processes without its heading, and without a kill.
    for log in [NEW, OLD] {
        let heading = 1 + log.lines().position(|line| line.contains("total_vm")).unwrap();
        let [with, without] = [heading, heading + 1].map(|first| only(&part(log, first, heading + 3)).tasks);
        assert_eq!(with.len(), 3);
        let known = |tasks: &[Task]| {
            tasks.iter().map(|it| (it.pid, it.rss_pages, it.swap_pages, it.name.clone())).collect::<Vec<_>>()
        };
        assert_eq!(known(&with), known(&without));
    }
    // A user asked for these.
    for asked in ["[  100.000001] sysrq: Show Memory\n", "SysRq : Show Memory\n"] {
        let report = only(&format!("{asked}{}", part(NEW, 9, 36)));
        assert_eq!((report.kind, report.is_cut), (Kind::Shown, false));
    }
}

#[test]
fn lines_of_other_texts_are_not_taken_for_lines_inside_of_a_report() {
    for line in [
        "Node 0, zone   Normal      3    4    5    6    7    8    9    1    2    0    0",
        "  pages free     3952",
        "Swap:       8191996     1000    8190996",
        "MemFree:         1180508 kB",
        "  1801 postgres  20   0  216084   8408   6000 S   0.0   0.1   0:00.10 postgres",
        "[1] 4711",
        "free: 12",
        "8000000 K free swap",
    ] {
        assert!(!tells(line), "{line}");
    }
}

#[test]
fn words_that_a_terminal_broke_are_joined_without_a_space() {
    let wrapped = |text: &str, width: usize| {
        let lines = text.lines().flat_map(|line| {
            let all: Vec<char> = line.chars().collect();
            all.chunks(width).map(|part| part.iter().collect::<String>()).collect::<Vec<_>>()
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let plain = CGROUP_2.replace("\n               ", "\n[90001.000006] ");
    let expected = only(&plain);
    for width in [80, 97, 100, 120, 132] {
        let report = only(&wrapped(&plain, width));
        assert_eq!(report.kills[0].name, expected.kills[0].name, "{width}");
        assert_eq!((&report.cgroup, &report.constraint), (&expected.cgroup, &expected.constraint), "{width}");
        assert_eq!(report.tasks, expected.tasks, "{width}");
    }
    // A mail program breaks between words.
    let log = "[ 1.000001] Out of memory: Killed process 4711 (Web Content) total-vm:2220084kB, anon-rss:980000kB\n";
    let mailed = log.replace("total-vm:2220084kB, ", "total-vm:2220084kB,\n");
    assert_eq!(read(&mailed).kills, read(log).kills);
    let mailed = log.replace("(Web Content)", "(Web\nContent)");
    assert_eq!(read(&mailed).kills[0].name, "Web Content");
}

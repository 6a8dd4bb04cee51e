//! Tests of workloads on a small simulated machine: they run, verify their data, and give the expected results.

mod tasks;

use engine::access::choices::{HugeDefrag, HugePages, Khugepaged};
use lab::figure::{Row, names};
use lab::job::Job;
use lab::progress::Progress;
use lab::{find, grounds};
use placed::Node;
use std::sync::Arc;

/// The scale at which a machine has 8 MiB of memory.
const SCALE: &str = "1/64";

fn job(workload: &str, params: &str) -> Job {
    Job::simulated(
        workload,
        find::kernel("highwater").expect("an embedded kernel"),
        Arc::new(find::machine("randread-512m").expect("an embedded machine")),
        Node::parse("params.toml", params).expect("TOML"),
        SCALE.parse().expect("a fraction"),
    )
}

fn run(workload: &str, params: &str) -> Vec<Row> {
    let job = job(workload, params);
    let workload = grounds::find(workload).expect("it is listed");
    workload.check(&job).expect("the parameters are right");
    workload.run(&job, &Progress::default()).expect("the run ends").rows
}

fn refused(workload: &str, params: &str) -> String {
    grounds::find(workload).expect("it is listed").check(&job(workload, params)).expect_err("it is wrong").to_string()
}

fn value(rows: &[Row], name: &str) -> f64 {
    let names = || rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>();
    rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row `{name}` in {:?}", names())).value
}

#[test]
fn uniform_reads_hit_as_much_of_the_file_as_memory_holds() {
    let rows = run("randread", "file_percent = 400\ntasks = 4\noperations = 4000\n");
    let ratio = value(&rows, "Hit ratio");
    assert!((15.0..=25.0).contains(&ratio), "{ratio} % hit where memory is a fourth of the file, less its reserve");
    assert!(value(&rows, "pgsteal_kswapd") + value(&rows, "pgsteal_direct") > 0.0, "memory was never full");
    assert!(value(&rows, "Ops randread-before") > 0.0 && value(&rows, "Ops randread-after") > 0.0);
    assert!(value(&rows, "Read p50") >= 80.0, "three of four reads take what the disk takes");
    assert!(value(&rows, "Read p99.9") <= value(&rows, "Read max"));
}

#[test]
fn reads_of_a_file_that_fits_never_fill_memory_and_hit_in_the_end() {
    let rows = run("randread", "file_percent = 25\ntasks = 2\noperations = 20_000\n");
    assert!(!rows.iter().any(|row| row.name == "Ops randread-after"), "memory counts as full");
    assert!(value(&rows, "Hit ratio") > 98.0, "512 pages, each read in once, for 40000 reads");
    assert!(value(&rows, "Read p50") < 5.0, "a hit waits for a disk");
}

#[test]
fn a_hit_in_place_costs_no_copy_and_no_system_call() {
    let of = |access: &str| {
        let rows =
            run("randread", &format!("access = \"{access}\"\nfile_percent = 25\ntasks = 2\noperations = 4000\n"));
        ["Hit ratio", "Read p50"].map(|name| value(&rows, name))
    };
    let ([copied_hits, copied], [in_place_hits, in_place]) = (of("copy"), of("in-place"));
    assert!((copied_hits - in_place_hits).abs() < 1.0, "{copied_hits} % hit and {in_place_hits} %");
    // The difference is what the machine file states for a copy and a system call.
    assert!((0.55..0.65).contains(&(copied - in_place)), "{copied} us and {in_place} us");
}

#[test]
fn a_zipf_choice_hits_more_often_than_a_uniform_one() {
    let of = |distribution: &str| run("randread", &format!("{distribution}tasks = 4\noperations = 4000\n"));
    let (uniform, zipf) = (of(""), of("distribution = \"zipf\"\ntheta = 0.99\n"));
    assert!(value(&zipf, "Hit ratio") > value(&uniform, "Hit ratio") + 20.0);
}

#[test]
fn a_file_written_at_random_reads_back_as_it_was_written_last() {
    // 2000 operations of each task fill memory before the end. Fewer operations would not touch enough pages.
    let rows = run("randwrite", "file_percent = 150\ntasks = 3\nsync_every = 100\noperations = 2000\n");
    assert_eq!(value(&rows, "Pages verified"), 2048.0 * 1.5);
    assert!(value(&rows, "pgpgout") > 0.0 && value(&rows, "Sync p50") > value(&rows, "Write p50"));
}

#[test]
fn memory_that_does_not_fit_is_touched_in_swap() {
    let rows = run("anon", "region_percent = 150\ntasks = 2\noperations = 2000\n");
    let ratio = value(&rows, "Hit ratio");
    assert!((40.0..=75.0).contains(&ratio), "{ratio} % without a fault where two thirds fit");
    assert!(value(&rows, "pswpin") > 0.0 && value(&rows, "pswpout") > 0.0);
}

#[test]
fn tasks_that_touch_memory_keep_step() {
    for seed in 1..=3 {
        let job = Job { seed, ..job("anon", "region_percent = 150\ntasks = 4\ntouch_s = 1\n") };
        let rows = grounds::find("anon").expect("it is listed").run(&job, &Progress::default()).expect("it ends").rows;
        let [sum, slowest] = ["Ops anon", "Ops anon-slowest-task"].map(|name| value(&rows, name));
        // The run takes a second, and no task is more than two steps ahead of the slowest.
        assert!(sum - 4.0 * slowest <= 4.0 * 128.0 + 1.0, "seed {seed}: {sum} in all, {slowest} of the slowest task");
    }
}

#[test]
fn a_pass_leaves_the_hot_set_in_memory() {
    let rows = run("scan", "hot_percent = 40\ncold_percent = 200\ntasks = 2\nalone_s = 1\n");
    assert_eq!(value(&rows, "Hit ratio alone"), 100.0);
    assert!(value(&rows, "Hit ratio beside") > 99.0);
    assert!(value(&rows, "Ops scan-pass") > 0.0);
}

#[test]
fn programs_that_end_leave_their_memory_and_swap_to_the_one_that_stays() {
    let rows = run("exits", "stays_percent = 30\nprogram_percent = 90\nprograms = 2\ntouches_after = 3000\n");
    // The remaining program has 614 pages. After each program ends, 3000 touches bring all of them back from swap.
    let (out, back) = (value(&rows, "pswpout"), value(&rows, "pswpin"));
    assert!(out > 614.0 && back > 0.0, "{out} pages out and {back} in");
    assert!(back <= out, "what was of a program that ended is wanted by nobody: {out} pages out and {back} in");
    assert!(!rows.iter().any(|row| row.name.starts_with("thp_")), "none of it may be huge");
}

#[test]
fn programs_with_huge_pages_get_them_while_memory_has_some() {
    let mut job = job("exits", "stays_percent = 30\nprogram_percent = 50\nprograms = 1\nhuge_pages = true\n");
    job.scale = "1/16".parse().expect("a fraction");
    job.kernel = find::kernel("6.1-classic").expect("an embedded kernel");
    let rows = grounds::find("exits").expect("it is listed").run(&job, &Progress::default()).expect("it ends").rows;
    // The program uses 16 MiB in eight ranges.
    assert!(value(&rows, "thp_fault_alloc") > 0.0 && value(&rows, "thp_fault_alloc") <= 8.0);
}

#[test]
fn a_private_mapping_copies_what_is_stored_to_and_keeps_the_file() {
    let of = |store_percent: u64| {
        let params = format!(
            "region_percent = 60\ntasks = 1\noperations = 3000\nprivate_file = true\nstore_percent = {store_percent}\n"
        );
        run("anon", &params)
    };
    let (read, stored) = (of(0), of(100));
    assert_eq!(value(&read, "pswpout"), 0.0, "there is no anonymous page");
    assert!(value(&stored, "pgfault") > value(&read, "pgfault"), "a store to a page that was read faults again");
}

#[test]
fn a_forked_process_keeps_the_pages_that_its_parent_stores_to() {
    let of = |forked: bool| {
        let params = format!("region_percent = 40\ntasks = 2\noperations = 3000\nforked = {forked}\n");
        run("anon", &params)
    };
    let (alone, forked) = (of(false), of(true));
    assert_eq!((value(&alone, "pgfault"), value(&alone, "pswpout")), (0.0, 0.0), "all pages are in memory");
    let copies = value(&forked, "pgfault");
    assert!((700.0..=819.0).contains(&copies), "the first store to a page copies it: {copies}");
    let told = refused("anon", "forked = true\nprivate_file = true\n");
    assert!(told.contains("`forked` and `private_file` are both set"), "{told}");
}

#[test]
fn dropped_pages_are_read_in_once_more() {
    let of = |every: u64| {
        let params = format!("file_percent = 25\ntasks = 1\noperations = 20_000\ndrop_caches_every = {every}\n");
        value(&run("randread", &params), "pgpgin")
    };
    // 512 pages fit in memory, and 10,000 reads touch all pages of the file.
    assert_eq!(of(0), 2048.0);
    assert_eq!(of(10_000), 2.0 * 2048.0);
}

/// Returns the parameters for a small build of `compile`.
fn small_build(more: &str) -> String {
    let build = [
        ("tree_files", "400"),
        ("tree_file_kib", "12"),
        ("units", "12"),
        ("headers", "20"),
        ("headers_kib", "2560"),
        ("text_mib", "8"),
        ("memory_mib", "[64, 128]"),
        ("unit_ms", "20"),
        ("object_kib", "60"),
        ("link_mib", "[0, 0]"),
        ("link_ms", "0"),
    ];
    let line =
        |(key, value): (&str, &str)| format!("{key} = {{ value = {value}, from = \"assumed\", source = \"small\" }}\n");
    format!("{more}[build]\n{}", build.map(line).concat())
}

#[test]
fn compilers_read_what_they_share_once_where_memory_holds_it() {
    let at = |scale: &str| {
        let job = Job { scale: scale.parse().expect("a fraction"), ..job("compile", &small_build("jobs = 3\n")) };
        let workload = grounds::find("compile").expect("it is listed");
        workload.check(&job).expect("the parameters are right");
        workload.run(&job, &Progress::default()).expect("the run ends").rows
    };
    let rows = at("1/16");
    assert_eq!(value(&rows, "pswpout"), 0.0, "three compilers of 8 MiB fit into 32");
    // The compiler's code has 512 KiB. There are 20 headers of one or two pages, and twelve sources of three pages.
    // Together they have less than 1 MiB.
    assert!(value(&rows, "pgpgin") < 1024.0, "{} KiB", value(&rows, "pgpgin"));
    assert!(refused("compile", &small_build("jobs = 13\n")).contains("jobs is 13"));
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    for (workload, params) in [
        ("randread", "operations = 500\n"),
        ("randwrite", "operations = 300\n"),
        ("anon", "operations = 300\n"),
        ("exits", "programs = 1\n"),
        ("scan", "cold_percent = 100\nalone_s = 0\n"),
        ("scan", "cold_percent = 100\nalone_s = 0\naccess = \"in-place\"\n"),
    ] {
        let outcome = |seed| {
            let job = Job { seed, ..job(workload, params) };
            grounds::find(workload).expect("it is listed").run(&job, &Progress::default()).expect("the run ends")
        };
        assert_eq!(outcome(1), outcome(1), "{workload}");
        assert_ne!(outcome(1).fingerprint, outcome(2).fingerprint, "{workload}");
    }
}

#[test]
fn every_row_of_a_run_was_known_before_it() {
    for (workload, params) in [
        ("randread", "operations = 500\n"),
        ("randwrite", "operations = 300\nsync_every = 50\n"),
        ("anon", "operations = 300\n"),
        ("exits", "programs = 1\nhuge_pages = true\n"),
        ("compile", &small_build("")),
        ("scan", "cold_percent = 100\nalone_s = 0\n"),
    ] {
        let known = grounds::find(workload).expect("it is listed").row_names(&job(workload, params)).expect("known");
        let unknown: Vec<_> = names(run(workload, params)).into_iter().filter(|row| !known.contains(row)).collect();
        assert!(unknown.is_empty(), "{workload}: {unknown:?} are not among {known:?}");
    }
}

#[test]
fn what_makes_no_run_is_refused_before_it_runs() {
    let prefix = "machine `randread-512m` at scale 1/64: ";
    assert_eq!(
        refused("anon", "region_percent = 900\n"),
        format!("{prefix}18432 pages of regions do not fit 90 % of 2048 pages of memory and 4096 of swap")
    );
    assert!(refused("randread", "tasks = 0\n").starts_with(&format!("{prefix}0 tasks")));
    assert!(refused("randread", "distribution = \"zipf\"\ntheta = 0.0\n").contains("theta"));
    assert!(refused("randwrite", "file_mib = 0\n").contains("a file of 0 pages"));
    assert!(refused("exits", "stores_per_touch = 0\n").contains("stores_per_touch is 0"));
    assert!(refused("exits", "program_percent = 900\n").contains("of two programs do not fit"));
    assert_eq!(refused("scan", "hot = 1\n").split(": ").next(), Some("params.toml:1"));
}

/// Returns a job of the workload `highalloc` at scale 1/16, a machine with 32 MiB of memory. All parts of the load are
/// so small that the job takes some seconds. `params` and `build` are lines that are added to the parameters.
fn blocks_under_load(params: &str, build: &str) -> Job {
    let sourced = |pairs: &[(&str, &str)]| -> String {
        let line = |(key, value): &(&str, &str)| {
            format!("{key} = {{ value = {value}, from = \"assumed\", source = \"small\" }}\n")
        };
        pairs.iter().map(line).collect()
    };
    let [of_load, of_build] = [
        sourced(&[
            ("copies", "2"),
            ("inodes", "32000"),
            ("inodes_per_page", "16"),
            ("inode_readahead_pages", "32"),
            ("look_up_us", "5"),
            ("held_mib", "2"),
        ]),
        sourced(&[
            ("tree_files", "16000"),
            ("tree_file_kib", "12"),
            ("units", "40"),
            ("headers", "20"),
            ("headers_kib", "2560"),
            ("text_mib", "8"),
            ("memory_mib", "[16, 48]"),
            ("unit_ms", "290"),
            ("object_kib", "60"),
            ("link_mib", "[64, 16]"),
            ("link_ms", "1000"),
        ]),
    ];
    let params = format!("{params}warm_up_s = 3\nbefore_kill_s = 1\n{of_load}[build]\n{of_build}{build}");
    Job { scale: "1/16".parse().expect("a fraction"), ..job("highalloc", &params) }
}

#[test]
fn blocks_are_asked_for_under_load_and_when_it_is_gone() {
    let workload = grounds::find("highalloc").expect("it is listed");
    for params in ["", "unmovable_per_mille = 20\n"] {
        let job = blocks_under_load(params, "");
        workload.check(&job).expect("the parameters are right");
        // The end of the run checks that no memory is left over, and that every page has a place.
        let rows = workload.run(&job, &Progress::default()).expect("the run ends").rows;
        let [first, second, rested] = ["Pass 1", "Pass 2", "while Rested"].map(|name| value(&rows, name));
        assert!(
            [first, second].iter().all(|percent| *percent < rested) && rested <= 100.0,
            "{first} {second} {rested}"
        );
        assert!(rested >= 40.0, "{rested} % of memory in which nothing else is");
        // `updatedb` looks up three trees of 1000 files, and a sixteenth of the inodes.
        assert_eq!(value(&rows, "Files that updatedb looked up"), 5000.0);
        assert!(value(&rows, "Units compiled") > 20.0);
        assert!(value(&rows, "Pass 1 failure p50") <= value(&rows, "Pass 1 failure max"));
        assert!(value(&rows, "Pass 1 begins with: slabs") > 0.0);
        let known = workload.row_names(&job).expect("known");
        let unknown: Vec<_> = names(rows).into_iter().filter(|row| !known.contains(row)).collect();
        assert!(unknown.is_empty(), "{unknown:?} are not among {known:?}");
    }
}

#[test]
fn compilers_have_huge_pages_where_their_memory_may() {
    let given = |build: &str| {
        let mut job = blocks_under_load("", build);
        job.kernel.choices.access.huge_pages = HugePages::Always;
        let rows = grounds::find("highalloc").expect("it is listed").run(&job, &Progress::default());
        value(&rows.expect("the run ends").rows, "thp_fault_alloc")
    };
    assert_eq!(given(""), 0.0, "they take it in small chunks");
    assert!(given("huge_pages = true\n") > 0.0);
}

fn huge_pages_beside_a_copy(params: &str, change: impl FnOnce(&mut Job)) -> Vec<Row> {
    let of =
        |name: &str, value: u64| format!("{name} = {{ value = {value}, from = \"assumed\", source = \"a test\" }}\n");
    let fixed =
        [("tasks", 4), ("touch_s", 2), ("store_percent", 50), ("touch_ns", 80), ("sample", 64)].map(|(n, v)| of(n, v));
    let mut job = job("thp", &format!("{}{params}", fixed.concat()));
    job.scale = "1/16".parse().expect("a fraction");
    job.machine = Arc::new(find::machine("thp-4g").expect("an embedded machine"));
    job.kernel = find::kernel("3.6-contended-v5").expect("an embedded kernel");
    change(&mut job);
    let workload = grounds::find("thp").expect("it is listed");
    workload.check(&job).expect("the parameters are right");
    let rows = workload.run(&job, &Progress::default()).expect("the run ends").rows;
    let known = workload.row_names(&job).expect("known");
    let unknown: Vec<_> = names(rows.clone()).into_iter().filter(|row| !known.contains(row)).collect();
    assert!(unknown.is_empty(), "{unknown:?} are not among {known:?}");
    rows
}

/// Huge pages make a touch faster by the cost of the page-table walks that they save. If walks cost nothing, they save
/// nothing.
#[test]
fn huge_pages_are_worth_what_walks_cost() {
    let run = |huge_pages, walks: bool| {
        let rows = huge_pages_beside_a_copy("", |job| {
            job.kernel.choices.access.huge_pages = huge_pages;
            if !walks {
                Arc::make_mut(&mut job.machine).cpu.tlb = None;
            }
        });
        ["Touches", "Coverage mean", "Minor Faults"].map(|name| value(&rows, name))
    };
    let ([always, covered, few], [never, bare, many]) = (run(HugePages::Always, true), run(HugePages::Never, true));
    assert!(covered > 50.0 && bare == 0.0 && few < many / 2.0, "{covered} {bare} {few} {many}");
    // A touch takes 80 ns, and a walk 40 or 5 ns. Hundreds of pages do not fit into the TLB and need walks.
    assert!(always > 1.15 * never && always < 1.5 * never, "{always} {never}");
    let ([always, ..], [never, ..]) = (run(HugePages::Always, false), run(HugePages::Never, false));
    assert!((always / never - 1.0).abs() < 0.02, "{always} {never}: no walk costs anything");
}

/// If faults take only free huge pages, fewer faults get one. khugepaged makes up for this if it runs.
#[test]
fn khugepaged_covers_what_faults_did_not_get() {
    let run = |khugepaged| {
        let rows = huge_pages_beside_a_copy("", |job| {
            let access = &mut job.kernel.choices.access;
            (access.huge_defrag, access.khugepaged) = (HugeDefrag::Never, khugepaged);
            (access.khugepaged_scan_sleep_ms, access.khugepaged_alloc_sleep_ms) = (10, 10);
        });
        ["Coverage filled", "Coverage end", "thp_collapse_alloc"].map(|name| value(&rows, name))
    };
    let ([filled, end, made], [filled_without, end_without, none]) = (run(Khugepaged::On), run(Khugepaged::Off));
    assert!(filled_without < 50.0 && end_without <= filled_without && none == 0.0, "{filled_without} {end_without}");
    assert!(filled < end && end > 80.0 && made > 10.0, "{filled} {end} {made}");
}

/// Parameters of the workload `simon`, with sizes at full scale. A process of 150 MiB ends after two seconds. A kernel
/// without the fault that the experiment `simon` shows then fills the freed memory with files.
const SERVER: &str = "daemons_mib = 100\nprocess_mib = 150\nfiles_mib = 350\nfile_kib = 16\nreaders = 4\nends_s = 2\njudged_from_s = 4\n\
    judged_s = 2\nprint_every_s = 1\n";

#[test]
fn what_a_process_leaves_is_used_for_files() {
    let rows = run("simon", SERVER);
    let (before, after) = (value(&rows, "Free Normal at 1 s"), value(&rows, "Free mean"));
    assert!(value(&rows, "Ops simon") > 100.0);
    // Of 8 MiB, the process, the daemons and files leave 1 MiB, and slabs take a part of it.
    assert!(before < 3.0 && after < 2.0, "{before} MiB free with the process, {after} MiB after it");
    assert!(value(&rows, "Kswapd calls") > 0.0 && value(&rows, "Kswapd longest call") < 2.0);
    assert!(value(&rows, "Free least") <= after && after <= value(&rows, "Free most"));
}

#[test]
fn a_server_waits_for_its_clients_unless_it_sends_nothing() {
    let rate = |params: &str| value(&run("simon", &format!("{SERVER}{params}")), "Ops simon");
    let of_one = rate("clients = 1\nclient_ms = 100\n");
    assert!((5.0..20.0).contains(&of_one), "{of_one} files a second for one client, who takes 0.1 s");
    let unsent = rate("clients = 1\nclient_ms = 0\n");
    assert!(unsent > 100.0, "{unsent} files a second, and none is sent");
}

#[test]
fn a_server_whose_process_ends_too_late_is_refused() {
    let found = refused("simon", "ends_s = 10\njudged_from_s = 10\n");
    assert!(
        found.ends_with("`judged_from_s` is 10: the process ends at 10 s, and memory is judged after that"),
        "{found}"
    );
    for name in ["readers", "clients"] {
        assert!(refused("simon", &format!("{name} = 0\n")).ends_with(&format!("`{name}` is 0: must be at least 1")));
    }
    assert!(refused("simon", "readers = 100000\n").ends_with("`readers` is 100000: must be at most 4096"));
    let endless = refused("simon", "client_ms = 9223372036854775807\n");
    assert!(endless.contains("`client_ms` is longer than ") && endless.ends_with(" s"), "{endless}");
    for files_mib in [1_000_000, u64::MAX >> 1] {
        let found = refused("simon", &format!("files_mib = {files_mib}\n"));
        assert!(found.ends_with("files, and 1048576 are the most") || found.contains("the device has room"), "{found}");
    }
    assert!(refused("simon", "file_kib = 1048576\n").ends_with("a file must take a quarter of memory at most"));
}

/// A page that a compiler touches once can leave memory for good. A page that it touches again comes back from swap.
#[test]
fn what_compilers_touch_again_comes_back_from_swap() {
    let swapped = |again: u64| {
        let small = "copies=10+inodes=5000+warm_up_s=10+before_kill_s=1+build.units=60";
        let word = format!("highalloc+{small}+build.touched_again_percent={again}");
        let job = Job {
            kernel: find::kernel("3.3.6").expect("an embedded kernel"),
            machine: Arc::new(find::machine("highalloc-4g").expect("an embedded machine")),
            params: find::experiment(&word).expect("an embedded experiment").params,
            ..job("highalloc", "")
        };
        let workload = grounds::find("highalloc").expect("it is listed");
        let rows = workload.run(&job, &Progress::default()).expect("the run ends").rows;
        [value(&rows, "Swap Outs"), value(&rows, "Swap Ins")]
    };
    let [once, again] = [0, 25].map(swapped);
    assert!(once[0] > 0.0 && once[1] == 0.0, "{once:?}");
    assert!(again[0] > 0.0 && again[1] > 0.0, "{again:?}");
}

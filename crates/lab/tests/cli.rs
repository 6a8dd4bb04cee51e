//! Tests of messages and exit statuses for users who mistype a word, misplace a file or stop reading the output.

use std::{
    fs,
    process::{Command, Output, Stdio},
};

fn highwater(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the binary was built for this test")
}

/// Runs a command that must end with `status` and must not print to standard output. Returns its message.
fn message(status: i32, arguments: &[&str]) -> String {
    let output = highwater(arguments);
    let text = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    text
}

/// Runs a command that must succeed. Returns its output. Standard error must have only the start and the end of runs.
fn print(arguments: &[&str]) -> String {
    let output = highwater(arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    let is_progress = |line: &str| line.starts_with("started: ") || line.starts_with("ended: ");
    assert!(output.status.success() && text.lines().all(is_progress), "{arguments:?}: {text}");
    String::from_utf8(output.stdout).expect("reports are UTF-8")
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("a temporary file");
        path
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }
}

#[test]
fn help_and_version_end_well_and_nothing_at_all_is_wrong_usage() {
    let help = print(&["--help"]);
    assert!(help.contains("Simulate:\n  run ") && help.contains("Reports:\n  report "), "{help}");
    assert!(print(&["compare", "--help"]).contains("--published"));
    assert!(print(&["--version"]).starts_with("highwater "));
    assert!(message(2, &[]).contains("Usage"));
    assert!(message(2, &["comprae"]).contains("compare"));
}

/// Since 6.1, reclaim takes the sizes of its lists from sums that are up to two seconds old. An earlier version of this
/// program therefore reported an OOM with swappiness 0 on a small machine, while half of swap was free. The run must
/// succeed.
#[test]
fn swappiness_0_exhausts_no_memory_for_being_small() {
    for kernel in ["6.1-classic", "6.18-classic"] {
        print(&["run", "anon", "--kernel", kernel, "--set", "lru.swappiness=0", "--scale", "1/64"]);
    }
}

#[cfg(not(feature = "linux"))]
#[test]
fn without_the_feature_linux_grounds_of_real_time_are_refused() {
    for ground in ["host", "linux"] {
        let text = message(2, &["compare", "randread", "--on", ground]);
        let expected =
            format!("error: this `highwater` was built without the feature `linux`, which the ground `{ground}`");
        assert!(text.starts_with(&expected), "{text}");
    }
    let simulated = print(&["compare", "randread", "--on", "host,sim", "--scale", "1/64"]);
    assert!(simulated.contains("host: skipped: ") && simulated.contains("fingerprint "), "{simulated}");
}

#[test]
fn list_and_explain_know_what_is_embedded() {
    let text = print(&["list"]);
    for name in ["kernels\n", "  3.10-rc4-vanilla ", "experiments\n", "  parallelio "] {
        assert!(text.contains(name), "{text}");
    }
    let facts = text.lines().skip_while(|line| !line.starts_with("  parallelio  ")).nth(1).expect("a line below");
    assert!(facts.trim_start().starts_with("sim · 177 published figures · 25 s of CPU time"), "{facts}");
    assert!(text.lines().any(|line| line.trim() == "sim, host, linux, guest · 6 s of CPU time"), "{text}");
    let of_ping = text.lines().skip_while(|line| !line.starts_with("  ping  ")).nth(1).expect("a line below");
    assert!(of_ping.contains(" variants · "), "{of_ping}");
    assert!(text.lines().any(|line| line.trim_start().starts_with("sim, host, linux, guest")), "{text}");
    let text = print(&["explain", "mm1-mmotm-20130606"]);
    assert!(text.contains("base: 3.10-rc4-vanilla") && text.contains("\n[reclaim]\n"), "{text}");
    assert!(print(&["explain", "parallelio"]).contains("Mel Gorman"));
    // An experiment and a machine may have the same name.
    let text = print(&["explain", "randread-4k"]);
    assert!(text.starts_with("experiment randread-4k\n") && text.contains("\nmachine randread-4k\n"), "{text}");
}

#[test]
fn work_says_when_it_starts_and_ends_where_nobody_can_see_it_go_on() {
    let output = highwater(&["compare", "randread", "--kernels", "highwater", "--scale", "1/16", "--jobs", "1"]);
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().collect();
    let [start, end] = lines.as_slice() else { panic!("{text}") };
    assert_eq!(*start, "started: randread of about 63 s of virtual time, 1 run");
    assert!(end.starts_with("ended: randread of about 63 s of virtual time, 1 run, ") && end.ends_with(" s"), "{end}");
}

#[test]
fn unknown_names_come_with_the_nearest_known() {
    let text = message(2, &["compare", "paralelio"]);
    assert_eq!(text, "error: no experiment is called `paralelio`: did you mean `parallelio`?\n");
    let text = message(2, &["compare", "parallelio", "--kernels", "3.10-rc4-vanila"]);
    assert_eq!(text, "error: no kernel is called `3.10-rc4-vanila`: did you mean `3.10-rc4-vanilla`?\n");
    let text = message(2, &["compare", "parallelio", "--machine", "./none.toml"]);
    assert_eq!(text, "error: cannot read ./none.toml: there is no such file\n");
    assert!(message(2, &["explain", "vanila"]).contains("did you mean `3.10-rc4-vanilla`?"));
}

#[test]
fn a_very_long_name_is_neither_compared_nor_shown_whole() {
    let folder = Folder::new();
    let file = folder.file("long.toml", &format!("base = \"{}\"\n[lru]\nbatch = 31\n", "long".repeat(1 << 18)));
    let started = std::time::Instant::now();
    let text = message(2, &["explain", &file]);
    assert!(text.contains("no kernel is called `longlong") && text.contains("… (1048576 bytes)`"), "{text}");
    assert!(text.len() < 3000 && started.elapsed().as_secs() < 2, "{} bytes, {:?}", text.len(), started.elapsed());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_without_end_is_refused() {
    for arguments in [
        &["explain", "/dev/zero"][..],
        &["compare", "/dev/zero"],
        &["compare", "parallelio", "--kernel", "/dev/zero"],
        &["compare", "parallelio", "--machine", "/dev/zero"],
    ] {
        assert_eq!(message(2, arguments), "error: cannot read /dev/zero: it has more than 16 MiB\n");
    }
}

#[cfg(all(feature = "linux", target_os = "linux"))]
#[test]
fn a_file_that_may_not_grow_is_told_and_not_the_end_of_the_process() {
    let folder = Folder::new();
    let command = format!("ulimit -f 0; exec {} list > {}", env!("CARGO_BIN_EXE_highwater"), folder.path("list"));
    let output = Command::new("sh").args(["-c", &command]).output().expect("a shell is there");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("cannot write the report: "), "{output:?}");
}

/// A report is written as a directory in MMTests' form while `ulimit -f` limits the size of files. The report's head is
/// longer than the limit, so writing stops midway. Then no file of the report is left.
#[cfg(all(feature = "linux", target_os = "linux"))]
#[test]
fn a_directory_of_mmtests_is_there_as_a_whole_or_not_at_all() {
    let folder = Folder::new();
    let [saved, new, empty] = ["saved.json", "new", "empty"].map(|name| folder.path(name));
    print(&["run", "parallelio", "--kernel", "highwater", "--scale", "1/64", "--format", "json", "--output", &saved]);
    fs::create_dir(&empty).expect("a folder");
    for path in [&new, &empty] {
        let highwater = env!("CARGO_BIN_EXE_highwater");
        let command = format!("ulimit -f 1; exec {highwater} report {saved} --format mmtests --output {path}");
        let output = Command::new("sh").args(["-c", &command]).output().expect("a shell is there");
        let text = String::from_utf8_lossy(&output.stderr);
        let expected = format!("error: cannot write to {path}: file too large\n");
        assert!(output.status.code() == Some(1) && text == expected, "{output:?}");
    }
    let count = |path: &str| fs::read_dir(path).expect("a folder").count();
    assert_eq!((count(&empty), fs::exists(&new).expect("a folder")), (0, false));
    for path in [&new, &empty] {
        print(&["report", &saved, "--format", "mmtests", "--output", path]);
        assert_eq!(count(path), 2, "the head, and a folder of the kernel");
    }
    assert_eq!(fs::read_dir(folder.0.path()).expect("a folder").count(), 3, "nothing temporary stays");
    let file = folder.path("saved.json/new");
    let told = message(2, &["report", &saved, "--format", "mmtests", "--output", &file]);
    assert_eq!(told, format!("error: cannot write to {file}: not a directory\n"));
}

#[test]
fn an_unknown_key_of_a_kernel_file_is_told_with_file_and_line() {
    let folder = Folder::new();
    let kernel = folder.file("mine.toml", "base = \"3.10-rc4-vanilla\"\n[reclaim]\nkswapd_flor = \"one\"\n");
    for arguments in [vec!["explain", &kernel], vec!["compare", "parallelio", "--kernel", &kernel]] {
        let expected =
            format!("error: {kernel}:3: unknown key `kswapd_flor` in [reclaim]: did you mean `kswapd_floor`?\n");
        assert_eq!(message(2, &arguments), expected);
    }
}

#[test]
fn a_base_is_sought_beside_its_file_then_among_the_embedded() {
    let folder = Folder::new();
    folder.file("ours.toml", "base = \"3.10-rc4-vanilla\"\n[lru]\nbatch = 31\n");
    let kernel = folder.file("mine.toml", "base = \"ours\"\nabout = \"with a larger batch\"\n");
    let text = print(&["explain", &kernel]);
    assert!(text.contains("base: ours -> 3.10-rc4-vanilla"), "{text}");
    assert!(text.contains(&folder.path("ours.toml:3")), "{text}");
    let orphan = folder.file("orphan.toml", "base = \"oours\"\n[lru]\nbatch = 31\n");
    let text = message(2, &["explain", &orphan]);
    assert!(text.starts_with(&format!("error: {orphan}:1: no kernel is called `oours`")), "{text}");
    // If a file sets nothing but a base, the base shows the kind of the file.
    let machine = folder.file("large.toml", "base = \"kanyzone-4g\"\n");
    let text = print(&["explain", &folder.file("larger.toml", "base = \"large\"\n")]);
    assert!(text.starts_with("machine larger\n  base: large -> kanyzone-4g; "), "{text}");
    fs::write(&machine, "base = \"kanyzone-4q\"\n").expect("a temporary file");
    let text = message(2, &["explain", &machine]);
    let expected = format!("error: {machine}:1: no kernel or machine is called `kanyzone-4q`");
    assert!(text.starts_with(&expected) && text.contains("did you mean `kanyzone-4g`?"), "{text}");
    let text = print(&["explain", "kanyzone-4g+cpu.count=2"]);
    assert!(text.starts_with("machine kanyzone-4g+cpu.count=2"), "{text}");
    let circle = folder.file("round.toml", "base = \"about\"\n");
    folder.file("about.toml", "base = \"round\"\n");
    assert!(message(2, &["explain", &circle]).contains("circle: round -> about -> round"));
    let own = folder.file("own.toml", "base = \"own\"\n");
    assert!(message(2, &["explain", &own]).contains("circle: own -> own"));
    for text in ["base = \"again.toml\"\n", "base = \"again.toml\"\n[cpu]\ncount = 2\n"] {
        let again = folder.file("again.toml", text);
        let told =
            format!("error: {again}:1: the bases go round in a circle: `again.toml` is the file {again} again\n");
        assert_eq!(message(2, &["explain", &again]), told);
    }
}

#[test]
fn broken_files_are_refused_without_a_panic() {
    let folder = Folder::new();
    fs::write(folder.path("bytes.toml"), [0xff, 0xfe, 0]).expect("a temporary file");
    for (name, text) in
        [("empty.toml", ""), ("half.toml", "[recl"), ("list.toml", "[[reclaim]]\n"), ("key.toml", "reclaim = 1\n")]
    {
        folder.file(name, text);
    }
    assert!(message(2, &["explain", &folder.path("bytes.toml")]).contains("not UTF-8"));
    assert!(message(2, &["explain", &folder.path("half.toml")]).contains("half.toml:1: not TOML"));
    assert!(message(2, &["explain", &folder.path("list.toml")]).contains("is a section"));
    assert!(message(2, &["explain", &folder.path("key.toml")]).contains("is a section"));
    assert!(message(2, &["explain", &folder.path("none.toml")]).contains("no such file"));
    assert!(message(2, &["explain", &folder.path("")]).contains("cannot read"));
    let empty = folder.path("empty.toml");
    for arguments in [vec!["explain", &empty], vec!["compare", "parallelio", "--kernel", &empty]] {
        let expected = "the file has no value and no base: expected `base = \"…\"` or a [section]";
        assert_eq!(message(2, &arguments), format!("error: {empty}:1: {expected}\n"));
    }
}

#[test]
fn an_output_that_cannot_be_written_is_told_before_the_run() {
    let folder = Folder::new();
    for option in ["--output", "--profile"] {
        let path = folder.path("missing/report.txt");
        let text = message(2, &["compare", "parallelio", option, &path]);
        assert_eq!(text, format!("error: cannot write to {path}: no such file or directory\n"));
    }
    let kept = folder.file("kept.txt", "an older report\n");
    let fresh = folder.path("fresh.txt");
    for path in [&kept, &fresh] {
        message(2, &["compare", "parallelio", "--kernels", "none", "--output", path]);
    }
    assert_eq!(fs::read_to_string(&kept).expect("it is still there"), "an older report\n");
    assert!(!std::path::Path::new(&fresh).exists(), "a report that never came leaves no file");
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_leaves_no_file_behind_and_nohup_works() {
    use std::{os::unix::process::ExitStatusExt as _, thread::sleep, time::Duration};

    let highwater = env!("CARGO_BIN_EXE_highwater");
    for (ahead, signal, number) in [("", "TERM", 15), ("", "INT", 2), ("", "HUP", 1), ("trap '' HUP;", "HUP", 15)] {
        let folder = Folder::new();
        let [report, plot, store] = ["report.txt", "plot.svg", "store"].map(|name| folder.path(name));
        // Tests may run in the background or with `nohup`, where some signals are ignored. This run is to receive them.
        let heard = if ahead.is_empty() { "INT,TERM,HUP" } else { "INT,TERM" };
        let script = format!(
            "{ahead} exec env --default-signal={heard} {highwater} compare parallelio --output {report} --plot {plot} --store {store}"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("sh");
        while !std::path::Path::new(&store).exists() {
            assert_eq!(child.try_wait().expect("a child"), None, "it runs for seconds");
            sleep(Duration::from_millis(5));
        }
        sleep(Duration::from_millis(50));
        let send = |signal: &str| Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(send(signal).expect("kill").success());
        if !ahead.is_empty() {
            sleep(Duration::from_millis(100));
            assert!(std::path::Path::new(&report).exists(), "what is ignored ends nothing");
            assert!(send("TERM").expect("kill").success());
        }
        let status = child.wait().expect("a child");
        assert_eq!(status.signal(), Some(number), "{signal}: it ends by the signal, as shells want to know: {status}");
        let left = fs::read_dir(folder.0.path()).expect("a folder").map(|it| it.expect("an entry").file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["store"], "{signal}");
        assert_eq!(fs::read_dir(&store).expect("a folder").count(), 0, "{signal}");
    }
}

#[test]
fn wrong_numbers_are_refused() {
    for (option, value) in [
        ("--scale", "1/0"),
        ("--scale", "tiny"),
        ("--runs", "0"),
        ("--seed", "x"),
        ("--jobs", "0"),
        ("--jobs", "-1"),
        ("--runs", "-1"),
        ("--seed", "-1"),
        ("--scale", "-1"),
        ("--format", "xml"),
    ] {
        let text = message(2, &["compare", "parallelio", option, value]);
        assert!(text.contains(option) && text.contains(&format!("'{value}'")), "{option} {value}: {text}");
        assert!(!text.contains("-- "), "a way to pass what is wrong: {text}");
    }
}

#[test]
fn one_kernel_runs_with_changed_values_too() {
    let hit_ratio = |set: &str| -> f64 {
        let kernel = ["run", "randread", "--kernel", "highwater", "--scale", "1/16", "--rows", "Hit ratio"];
        let report = print(&[&kernel[..], &["--set", "params.operations=20000", "--set", set]].concat());
        let figure = report.lines().find_map(|line| line.strip_prefix("Hit ratio")?.split_whitespace().nth(1));
        figure.and_then(|figure| figure.parse().ok()).unwrap_or_else(|| panic!("no figure in {report}"))
    };
    let (small, large) = (hit_ratio("params.file_percent=50"), hit_ratio("params.file_percent=400"));
    assert!(small > 2.0 * large, "{small} % hit of a file half as large as memory, {large} of one four times as large");
    assert!(message(2, &["run", "randread", "--kernel", "highwater", "--set", "params.none=1"]).contains("`none`"));
}

#[test]
fn experiments_between_commas_have_a_table_each() {
    let of = |more: &[&str]| {
        let all = ["compare", "randread,anon,randread", "--kernels", "6.18-classic", "--scale", "1/64"];
        print(&[&all, more].concat())
    };
    let text = of(&[]);
    let alone = |name| print(&["compare", name, "--kernels", "6.18-classic", "--scale", "1/64"]);
    assert_eq!(text, format!("{}\n{}", alone("randread"), alone("anon")), "each as it is alone, and once");
    let json: serde_json::Value = serde_json::from_str(&of(&["--format", "json"])).expect("JSON");
    assert_eq!((json[0]["experiment"].as_str(), json[1]["experiment"].as_str()), (Some("randread"), Some("anon")));
    let csv = of(&["--format", "csv", "--rows", "Ops anon,Ops randread"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines[0].starts_with("experiment,group,name,") && lines[1].starts_with("randread,Ops,Ops randread"),
        "{csv}"
    );
    assert!(lines.last().is_some_and(|line| line.starts_with("anon,Ops,Ops anon")), "{csv}");
    let page = of(&["--format", "html"]);
    for title in ["randread: Figures", "anon: Figures", "randread: Where time goes"] {
        assert!(page.contains(title), "{title}");
    }
    assert!(of(&["--dry-run"]).matches("1 to run").count() == 2);
    let told = message(2, &["compare", "randread,anon", "--rows", "Ops anon,no such"]);
    assert!(told.contains("no row has `no such`"), "{told}");
    for option in ["--profile", "--plot", "--series", "--trace"] {
        let told = message(2, &["compare", "randread,anon", option, "out.svg"]);
        assert!(told.contains(&format!("{option} works with one experiment: 2 were named")), "{told}");
    }
    assert!(
        message(2, &["compare", "randread,anno"])
            .contains("anno: no experiment is called `anno`: did you mean `anon`?")
    );
    let unknown = message(2, &["compare", "randread,scan", "--set", "params.operations=3"]);
    assert!(unknown.starts_with("error: scan: ") && unknown.contains("`operations`"), "{unknown}");
}

#[test]
fn an_experiment_that_fails_costs_neither_the_others_nor_an_earlier_report() {
    let folder = Folder::new();
    let (store, saved) = (folder.path("store"), folder.file("saved.json", "an earlier one"));
    let small = ["--kernels", "6.18-classic", "--scale", "1/64", "--store", &store];
    print(&[&["compare", "anon"], &small[..]].concat());
    for run in fs::read_dir(&store).expect("a store") {
        fs::write(run.expect("readable").path(), "damaged").expect("it is there");
    }
    let several = ["compare", "anon,randread", "--format", "json", "--output", &saved];
    let output = highwater(&[&several, &small[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("error: anon: 6.18-classic, seed 1: "), "{told}");
    let both: serde_json::Value = serde_json::from_str(&fs::read_to_string(&saved).expect("a report")).expect("JSON");
    assert_eq!(both[0]["columns"][0]["failed"][0], serde_json::json!({ "why": "damaged", "runs": 1, "of": 1 }));
    assert!(both[1]["rows"].as_array().is_some_and(|rows| !rows.is_empty()), "{both}");
    // If no run ended well, there is nothing to report.
    fs::write(&saved, "an earlier one").expect("it is there");
    let alone = ["compare", "anon", "--format", "json", "--output", &saved];
    assert_eq!(highwater(&[&alone, &small[..]].concat()).status.code(), Some(1));
    assert_eq!(fs::read_to_string(&saved).expect("it stays"), "an earlier one");
    assert_eq!(fs::read_dir(&store).expect("a store").count(), 2, "what the other found is kept");
}

#[test]
fn a_column_that_fails_costs_only_itself() {
    let folder = Folder::new();
    let store = folder.path("store");
    let small = ["randread", "--scale", "1/64", "--store", &store];
    print(&[&["run", "--kernel", "highwater"], &small[..]].concat());
    let of_run = fs::read_dir(&store).expect("a store").next().expect("a run").expect("readable").path();
    fs::write(&of_run, "damaged").expect("it is there");
    let compare = [&["compare", "--kernels", "highwater,6.18-classic"], &small[..]].concat();
    for (format, failed, figure) in [
        ("table", "highwater failed: ", "6.18-classic, has"),
        ("markdown", "| Ops randread | ops/s | higher | failed: ", "6.18-classic has "),
        ("csv", "Ops,Ops randread,ops/s,higher,highwater,,,", "Ops,Ops randread,ops/s,higher,6.18-classic,1"),
        ("json", "\"failed\": [", "\"6.18-classic\": {"),
        ("html", "highwater failed: ", "6.18-classic has "),
    ] {
        let output = highwater(&[&compare[..], &["--format", format]].concat());
        let (text, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{format}: {told}");
        assert!(text.contains(failed) && text.contains("damaged"), "{format}: {text}");
        assert!(text.contains(figure) || format == "table" && text.contains("6.18-classic has "), "{format}: {text}");
        assert!(told.contains("error: highwater, seed 1: ") && told.contains("replay: highwater run"), "{told}");
    }
    let saved = folder.path("saved.json");
    highwater(&[&compare[..], &["--format", "json", "--output", &saved]].concat());
    let again = print(&["report", &saved, "--format", "table"]);
    assert!(again.contains("highwater failed: ") && again.contains("failed (1 of 1)"), "{again}");
    assert!(again.contains("randread: 2 kernels by Ops randread") && !again.contains("pgfault"), "{again}");
    assert!(print(&["report", &saved, "--format", "table", "--all"]).contains("pgfault"));
    // Other verbs that run plans report failures in the same way.
    let ranked = highwater(&["rank", "randread", "--kernels", "6.18-classic", "--scale", "1/64", "--store", &store]);
    let text = String::from_utf8_lossy(&ranked.stdout);
    assert_eq!((ranked.status.code(), text.contains("no figure")), (Some(1), true), "{text}");
    let sweep = folder.file(
        "sweep.toml",
        "experiments = [\"randread\"]\nkernels = [\"highwater\", \"6.18-classic\"]\nscales = [\"1/64\"]\n",
    );
    let swept = highwater(&["sweep", &sweep, "--store", &store]);
    let text = String::from_utf8_lossy(&swept.stdout);
    assert!(
        swept.status.code() == Some(1) && text.contains("highwater failed: ") && text.contains("Ops randread"),
        "{text}"
    );
    fs::remove_file(of_run).expect("it is there");
    print(&compare);
}

#[test]
fn a_slip_in_the_rows_is_told_before_the_run() {
    let text = message(2, &["compare", "parallelio", "--rows", "swaptotal,memcachedtest"]);
    assert!(
        text.starts_with(
            "error: no row has `memcachedtest` in its name, and no block is called so; near are `Ops memcachetest-0M`"
        ),
        "{text}"
    );
    assert!(!text.contains("the rows by block"), "the near names are enough: {text}");
    let text = message(2, &["compare", "parallelio", "--rows", "xyzzy"]);
    assert!(text.contains("\n  Ops  ") && text.contains("\n  vmstat  "), "{text}");
    assert!(text.lines().skip(1).all(|line| line.chars().count() <= 100), "{text}");
    let locks = message(2, &["compare", "randread", "--rows", "lru contended"]);
    assert!(locks.ends_with("--rows lru contended: rows of locks are there with --locks\n"), "{locks}");
    assert!(message(2, &["compare", "randread", "--rows", "Ops randred"]).contains("Ops randread-at-full"));
    let scaled = message(2, &["compare", "parallelio", "--scale", "1/16", "--rows", "memcachetest-715M"]);
    assert!(
        scaled.contains("Ops memcachetest-44M") && scaled.ends_with("\nSizes in names are those at --scale 1/16.\n"),
        "{scaled}"
    );
}

#[test]
fn rows_of_a_saved_report_are_listed_once_and_one_slip_of_several_costs_nothing() {
    let folder = Folder::new();
    let saved = folder.path("saved.json");
    print(&["run", "randread", "--kernel", "highwater", "--scale", "1/64", "--format", "json", "--output", &saved]);
    let beside = ["run", "randread", "--kernel", "highwater", "--scale", "1/64", "--column", &saved];
    let text = message(2, &[&beside[..], &["--rows", "swaptotal,pgfree,hit"]].concat());
    assert!(text.starts_with("error: no row has `swaptotal` or `pgfree` in its name, and no block"), "{text}");
    assert_eq!(text.matches("pgscan_kswapd").count(), 1, "{text}");
    let output = highwater(&["report", &saved, "--format", "table", "--rows", "swaptotal,pgscan_kswapd"]);
    let (told, text) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(told.starts_with("warning: no row has `swaptotal` in its name, and no block"), "{told}");
    let block = print(&["report", &saved, "--format", "text", "--rows", "Duration"]);
    assert!(block.contains("\nElapsed ") && !block.contains("pgscan_kswapd"), "a block is meant by its name: {block}");
    assert!(output.status.success() && text.contains("pgscan_kswapd") && !text.contains("pgfault"), "{text}");
    assert!(message(2, &["report", &saved, "--rows", "swaptotal"]).contains("no row has `swaptotal`"));
}

/// Each command gets a named pipe, to which no process writes, in place of a file. The command refuses the pipe,
/// because opening it would wait for ever. A pipe with a writer, such as standard input, is read.
#[cfg(unix)]
#[test]
fn a_pipe_is_no_file_unless_somebody_writes_to_it() {
    use std::time::{Duration, Instant};

    let folder = Folder::new();
    let pipe = folder.path("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let store = folder.path("store");
    for arguments in [
        &["sweep", &pipe, "--store", &store][..],
        &["report", &pipe],
        &["doctor", &pipe],
        &["run", "randread", "--kernel", "highwater", "--column", &pipe],
        &["run", "randread", "--kernel", &pipe],
        &["run", "randread", "--kernel", "highwater", "--machine", &pipe],
        &["run", &pipe, "--kernel", "highwater"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary was built for this test");
        let begun = Instant::now();
        while child.try_wait().expect("a child").is_none() {
            if begun.elapsed() > Duration::from_secs(60) {
                child.kill().expect("a child");
                panic!("{arguments:?} waits for a pipe");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let output = child.wait_with_output().expect("a child");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains("pipe.toml: ") && text.contains("it is not a regular file"), "{arguments:?}: {text}");
    }
    // A shell's `<(…)` and standard input are pipes that are read.
    let sweep =
        folder.file("sweep.toml", "experiments = \"randread\"\nkernels = [\"highwater\"]\nscales = [\"1/64\"]\n");
    let dry = |file: &str| format!("{} sweep {file} --store {store} --dry-run", env!("CARGO_BIN_EXE_highwater"));
    let script = format!("(sleep 0.1; cat {sweep}) | {}", dry("/dev/stdin"));
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("1 of 1 run\n"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[cfg(unix)]
#[test]
fn a_pipe_is_written_to_where_somebody_reads_it() {
    let folder = Folder::new();
    let pipe = folder.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    // `timeout` ends a command that waits for a reader.
    let explain = |ahead: &str| {
        let highwater = env!("CARGO_BIN_EXE_highwater");
        let script =
            format!("{ahead} timeout 60 {highwater} explain ping --output {pipe}; status=$?; wait; exit $status");
        Command::new("sh").args(["-c", &script]).output().expect("sh")
    };
    let alone = explain("");
    let told = String::from_utf8_lossy(&alone.stderr);
    assert_eq!(alone.status.code(), Some(2), "{told}");
    assert_eq!(told, format!("error: cannot write to {pipe}: it is a pipe that nobody reads\n"));
    // The reader opens the pipe a little later.
    let read = explain(&format!("(sleep 0.1; cat {pipe}) &"));
    let text = String::from_utf8_lossy(&read.stdout);
    assert!(
        read.status.success() && text.contains("experiment ping"),
        "{text}{}",
        String::from_utf8_lossy(&read.stderr)
    );
}

#[test]
fn figures_in_print_have_no_scale() {
    let text = message(2, &["compare", "parallelio", "--published", "--scale", "1/16"]);
    assert_eq!(text, "error: --published: published figures are of full size, not of --scale 1/16\n");
}

#[test]
fn lists_without_a_name_are_wrong_usage() {
    for argument in ["--kernels=", "--rows=", "--kernels=3.10-rc4-vanilla,", "--rows= "] {
        let text = message(2, &["compare", "parallelio", argument]);
        assert!(text.contains("expected names with commas between them, found none"), "{argument}: {text}");
    }
}

#[test]
fn a_series_is_no_parquet_file() {
    let folder = Folder::new();
    let path = folder.path("free.parquet");
    let text = message(2, &["compare", "randread", "--series", &path]);
    assert_eq!(text, "error: --series writes CSV, which no file that ends in .parquet should hold\n");
    assert!(!std::path::Path::new(&path).exists());
}

#[test]
fn report_and_profile_do_not_overwrite_each_other() {
    let folder = Folder::new();
    let (path, other) = (folder.path("both.txt"), folder.path("./both.txt"));
    let text = message(2, &["compare", "parallelio", "--output", &path, "--profile", &other]);
    assert_eq!(text, "error: --output and --profile name the same file: each would overwrite the other\n");
    assert!(!std::path::Path::new(&path).exists(), "a report that never came leaves no file");
}

/// A command reads a file and is told to write to the same file, which `--output` or `--series` names by the same path,
/// by a path with `./`, by a symbolic link, or by a hard link. The command must fail and leave the file as it was.
#[cfg(unix)]
#[test]
fn what_is_read_is_not_overwritten() {
    let folder = Folder::new();
    let saved = folder.path("saved.json");
    let run = ["run", "randread", "--kernel", "highwater", "--scale", "1/64"];
    print(&[&run[..], &["--format", "json", "--output", &saved]].concat());
    let text = |path: &str| fs::read_to_string(path).expect("it is still there");
    let before = text(&saved);
    let [other, link, name] = ["./saved.json", "link.json", "name.svg"].map(|name| folder.path(name));
    std::os::unix::fs::symlink("saved.json", &link).expect("a link");
    fs::hard_link(&saved, &name).expect("a name");
    for path in [&saved, &other, &link, &name] {
        for arguments in [
            &["report", &saved, "--output", path][..],
            &["doctor", &saved, "--output", path],
            &[&run[..], &["--column", &saved, "--output", path]].concat(),
            &[&run[..], &["--column", &saved, "--series", path]].concat(),
        ] {
            let told = message(2, arguments);
            let option = arguments[arguments.len() - 2];
            let expected = format!("error: {option} would overwrite {saved}, which is read as a ");
            let swapped = format!("error: {option} would overwrite {path}, which is read as a ");
            assert!(told.starts_with(&expected) || told.starts_with(&swapped), "{arguments:?}: {told}");
            assert_eq!(text(&saved), before);
        }
    }
    let plot = message(2, &[&run[..], &["--column", &saved, "--plot", &name]].concat());
    assert!(plot.starts_with("error: --plot would overwrite ") && plot.ends_with("read as a saved report\n"), "{plot}");
    let base = folder.file("base.toml", "base = \"highwater\"\n[lru]\nbatch = 20\n");
    let kernel = folder.file("kernel.toml", "base = \"base\"\n[lru]\nrotation = \"one-by-one\"\n");
    let machine = folder.file("machine.toml", "base = \"ping-8g\"\n");
    let sweep =
        folder.file("sweep.toml", "experiments = \"randread\"\nkernels = [\"highwater\"]\nscales = [\"1/64\"]\n");
    let store = folder.path("store");
    let of_kernel = ["run", "randread", "--scale", "1/64", "--kernel", &kernel];
    for (arguments, role) in [
        (&[&of_kernel[..], &["--output", &kernel]].concat()[..], "a kernel"),
        (&[&of_kernel[..], &["--trace", &base]].concat(), "the base of a kernel"),
        (&[&run[..], &["--machine", &machine, "--output", &machine]].concat(), "a machine"),
        (&["compare", &kernel, "--output", &kernel], "an experiment"),
        (&["explain", &machine, "--output", &machine], "what is explained"),
        (&["diff", "highwater", &kernel, "--output", &kernel], "a kernel"),
        (&["sweep", &sweep, "--store", &store, "--output", &sweep], "a sweep"),
    ] {
        let told = message(2, arguments);
        assert!(told.ends_with(&format!("which is read as {role}\n")), "{arguments:?}: {told}");
    }
    assert!([&base, &kernel, &machine, &sweep].into_iter().all(|path| !text(path).is_empty()));
}

#[cfg(unix)]
#[test]
fn a_file_that_standard_input_comes_from_is_not_overwritten() {
    let folder = Folder::new();
    let keys = folder.path("keys");
    fs::write(&keys, "1\n2\n1\n").expect("it can be written");
    for (verb, role) in [("replay", "a trace"), ("doctor", "the input"), ("import", "the input")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.args([verb, "-", "--output", &keys]).stdin(fs::File::open(&keys).expect("a file"));
        let output = command.output().expect("the binary was built for this test");
        let told = String::from_utf8_lossy(&output.stderr);
        let real = fs::canonicalize(&keys).expect("a file");
        let expected = format!("error: --output would overwrite {}, which is read as {role}\n", real.display());
        assert!(output.status.code() == Some(2) && told.ends_with(&expected), "{verb}: {told}");
        assert_eq!(fs::read_to_string(&keys).expect("a file"), "1\n2\n1\n");
    }
}

#[cfg(unix)]
#[test]
fn a_log_that_is_imported_is_not_overwritten() {
    let folder = Folder::new();
    let [saved, logs] = ["saved.json", "logs"].map(|name| folder.path(name));
    let run = ["run", "parallelio", "--kernel", "3.10-rc4-vanilla", "--scale", "1/64"];
    print(&[&run[..], &["--format", "json", "--output", &saved]].concat());
    print(&["report", &saved, "--format", "mmtests", "--output", &logs]);
    let stamps = folder.path("logs/3.10-rc4-vanilla/iter-0/tests-timestamp");
    let before = fs::read(&stamps).expect("a log");
    for option in ["--output", "--series"] {
        let output = highwater(&["import", &logs, option, &stamps]);
        let told = String::from_utf8_lossy(&output.stderr);
        let expected = format!("error: {option} would overwrite {stamps}, which is read as a recording\n");
        assert!(output.status.code() == Some(2) && told.ends_with(&expected), "{told}");
        assert!(output.stdout.is_empty() && fs::read(&stamps).expect("a log") == before);
    }
    // A file among the logs that is no log itself may be overwritten.
    let report = folder.path("logs/report.json");
    for _ in 0..2 {
        print(&["import", &logs, "--output", &report]);
    }
}

#[cfg(unix)]
#[test]
fn a_report_is_no_file_of_a_store() {
    let folder = Folder::new();
    let store = folder.path("store");
    let run = ["run", "randread", "--kernel", "highwater", "--scale", "1/64", "--store", &store];
    print(&run);
    let of_run = fs::read_dir(&store).expect("a store").next().expect("a run").expect("a run").path();
    let (of_run, before) = (of_run.to_str().expect("UTF-8").to_owned(), fs::read(&of_run).expect("a run"));
    let (name, all) = (folder.path("name.parquet"), folder.path("store/all.parquet"));
    fs::hard_link(&of_run, &name).expect("a name");
    for arguments in [
        &[&run[..], &["--output", &of_run]].concat()[..],
        &[&run[..], &["--output", &all]].concat(),
        &["results", &store, "--format", "parquet", "--output", &all],
        &["results", &store, "--format", "parquet", "--output", &name],
    ] {
        let told = message(2, arguments);
        let is_told = told.contains(" in the folder of a store, ") || told.contains(" read as a run of the store");
        assert!(told.starts_with("error: --output ") && is_told, "{told}");
        assert!(fs::read(&of_run).expect("a run") == before && !std::path::Path::new(&all).exists(), "{arguments:?}");
    }
    // A store may have other files beside those of runs.
    print(&[&run[..], &["--output", &folder.path("store/report.txt")]].concat());
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        return eprintln!("skipped: there is no /dev/full");
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    let output = command.arg("--help").stdout(full).output().expect("the binary was built for this test");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no space left on device"), "{output:?}");
}

#[test]
fn a_list_of_a_wrong_length_is_told_with_what_was_expected() {
    let folder = Folder::new();
    for (list, found) in [("[1, 2]", 2), ("[1, 2, 3, 4]", 4)] {
        let kernel =
            folder.file("mine.toml", &format!("base = \"highwater\"\n[memory]\nlowmem_reserve_ratio = {list}\n"));
        let expected =
            format!("error: {kernel}:3: `lowmem_reserve_ratio`: expected a list of 3 values, found {found}\n");
        assert_eq!(message(2, &["explain", &kernel]), expected);
    }
}

#[test]
fn no_value_of_a_machine_points_to_a_comment_that_is_not_shown() {
    for machine in ["parallelio-8g", "randread-512m"] {
        assert!(!print(&["explain", machine]).contains("see above"));
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    for arguments in [["explain", "3.10-rc4-vanilla"].as_slice(), &["list"], &["--help"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.args(arguments).stdout(writer).stderr(Stdio::piped());
        let output = command.output().expect("the binary was built for this test");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn counters_over_time_are_written_and_change_no_report() {
    let folder = Folder::new();
    let file = folder.path("series.csv");
    let run = ["run", "postmark", "--kernel", "2.6.37-kanyzone", "--scale", "1/64"];
    let alone = print(&run);
    assert_eq!(alone, print(&[&run[..], &["--series", &file, "--every", "0.5"]].concat()));
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "column,seed,seconds,name,value,per_second");
    for name in [",nr_free_pages_dma32,", ",sda_in_flight,", ",pgfree,"] {
        let of: Vec<&&str> = lines.iter().filter(|line| line.contains(name)).collect();
        assert!(of.len() > 20 && of[0].starts_with("2.6.37-kanyzone,1,"), "{name}: {of:?}");
    }
    assert!(message(2, &[&run[..], &["--every", "2"]].concat()).contains("--series"));
    assert!(message(2, &[&run[..], &["--series", &file, "--every", "0"]].concat()).contains("0.001"));
    assert!(message(2, &[&run[..], &["--series", &file, "--output", &file]].concat()).contains("same file"));
}

#[test]
fn memory_over_time_is_drawn_and_written_and_changes_no_report() {
    let folder = Folder::new();
    let (svg, csv) = (folder.path("memory.svg"), folder.path("buddyinfo.csv"));
    let alone = print(&QUICK);
    let both = ["--memory-map", &svg, "--buddyinfo", &csv, "--every", "0.5"];
    assert_eq!(alone, print(&[&QUICK[..], &both].concat()));
    let picture = fs::read_to_string(&svg).unwrap();
    assert!(picture.contains("2.6.37-kanyzone\n") && picture.contains("handed out, or huge"), "{picture}");
    let text = fs::read_to_string(&csv).unwrap();
    assert!(
        text.starts_with("column,seed,seconds,node,zone,migrate_type,order,free_blocks,pageblocks,mark\n"),
        "{text}"
    );
    let of = text.lines().filter(|line| line.starts_with("2.6.37-kanyzone,1,") && line.contains(",Movable,10,"));
    assert!(of.count() > 20, "{text}");
    let wrong = |more: &[&str]| message(2, &[&QUICK[..], more].concat());
    assert!(wrong(&["--memory-map", &folder.path("memory.png")]).contains("--memory-map writes SVG"));
    assert!(wrong(&["--memory-map", &svg, "--buddyinfo", &svg]).contains("same file"));
    for option in ["--memory-map", "--buddyinfo"] {
        let text = message(2, &["compare", "randread", "--on", "host", option, &svg]);
        assert_eq!(text, format!("error: {option} works on the grounds `sim` and `guest` alone, not on `host`\n"));
    }
}

#[test]
fn generations_over_time_are_written_and_change_no_report() {
    let folder = Folder::new();
    let (file, csv) = (folder.path("generations.txt"), folder.path("buddyinfo.csv"));
    let run = ["run", "postmark", "--kernel", "7.2-mglru", "--scale", "1/64"];
    let alone = print(&run);
    assert_eq!(alone, print(&[&run[..], &["--lru-gen", &file, "--buddyinfo", &csv, "--every", "0.5"]].concat()));
    let text = fs::read_to_string(&file).unwrap();
    let times: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# ")?.strip_suffix(" s, 7.2-mglru, seed 1")).collect();
    // Both files have samples of the same times.
    let table = fs::read_to_string(&csv).unwrap();
    let mut of_sibling: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split(',').nth(2)).collect();
    of_sibling.dedup();
    assert!(times.len() > 20 && times == of_sibling, "{times:?} {of_sibling:?}");
    // Each sample has a head, a cgroup, a node, and at least two generations. At least two generations have a line for
    // each of four tiers.
    for moment in text.split_terminator("\n\n") {
        let lines: Vec<&str> = moment.lines().collect();
        assert!(lines[1] == "memcg     0 /" && lines[2].starts_with(" node     "), "{moment}");
        let tiers = lines.iter().filter(|line| line.ends_with(['x', 'p'])).count();
        assert!(tiers >= 8 && tiers % 4 == 0 && lines.len() >= 3 + 2 + tiers, "{moment}");
    }
    let last = text.split_terminator("\n\n").last().unwrap();
    let pages = |moment: &str| -> u64 {
        let rows = moment.lines().skip(3).filter(|line| !line.ends_with(['x', 'p']) && !line.starts_with(" node"));
        rows.map(|row| row.split_whitespace().skip(2).map(|pages| pages.parse::<u64>().unwrap()).sum::<u64>()).sum()
    };
    assert!(pages(last) > 1000, "{last}");
    let classic = message(2, &[&QUICK[..], &["--lru-gen", &file]].concat());
    assert_eq!(
        classic,
        "error: kernel `2.6.37-kanyzone` has no generations, which --lru-gen shows: they need lru.policy = \"multigen\"\n"
    );
    let both = ["compare", "postmark", "--kernels", "7.2-mglru,2.6.37-kanyzone", "--scale", "1/64", "--lru-gen", &file];
    assert_eq!(message(2, &both), classic);
    assert_eq!(fs::read_to_string(&file).unwrap(), text, "what was refused writes nothing");
    assert!(message(2, &[&run[..], &["--lru-gen", &file, "--output", &file]].concat()).contains("same file"));
    let on_host = message(2, &["compare", "randread", "--on", "host", "--lru-gen", &file]);
    assert_eq!(on_host, "error: --lru-gen works on the grounds `sim` and `guest` alone, not on `host`\n");
}

#[test]
fn a_kernel_has_a_standing_in_every_experiment() {
    let rank = ["rank", "anon,randread", "--kernels", "3.10-rc4-vanilla,highwater", "--scale", "1/64", "--runs", "4"];
    let text = print(&rank);
    let line =
        |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    let words: Vec<&str> = line("anon ").split_whitespace().collect();
    assert_eq!((&words[1..4], words.last()), (&["Ops", "anon,", "ops/s"][..], Some(&"better")), "{text}");
    assert!(line("randread ").contains("3.10-rc4-vanilla"), "{text}");
    assert!(text.contains("anon: Ops anon, ops/s (more is better)") && text.contains("seeds 1 to 4"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&print(&[&rank[..], &["--format", "json"]].concat())).unwrap();
    let first = &json["experiments"][0];
    assert_eq!(
        (&json["of"], &first["row"], &first["better"]),
        (&"highwater".into(), &"Ops anon".into(), &"higher".into())
    );
    assert_eq!((&first["places"][0]["kernel"], &first["places"][1]["verdict"]), (&"highwater".into(), &"worse".into()));
    let markdown = print(&[&rank[..], &["--format", "markdown", "--summary"]].concat());
    let head: Vec<&str> = markdown.lines().next().unwrap_or_default().split('|').map(str::trim).collect();
    assert_eq!(head[..4], ["", "experiment", "main figure", "highwater"], "{markdown}");
    assert!(!markdown.contains("###"), "{markdown}");
    let csv = print(&[&rank[..], &["--format", "csv"]].concat());
    assert!(csv.starts_with("experiment,row,unit,better,place,kernel,median,"), "{csv}");
    assert!(csv.contains("\nanon,Ops anon,ops/s,higher,1,highwater,") && csv.lines().count() == 5, "{csv}");
    let one = print(&["rank", "anon", "--kernels", "3.10-rc4-vanilla,highwater", "--scale", "1/64", "--summary"]);
    assert!(one.lines().any(|line| line.ends_with("not compared")), "one seed has no verdict: {one}");
    assert!(one.contains("seed 1: a verdict needs 4 seeds"), "{one}");
    let twice = ["anon", "anon", "--kernels", "3.10-rc4-vanilla,highwater,3.10-rc4-vanilla", "--dry-run"];
    let twice = print(&[&["rank"], &twice[..]].concat());
    assert!(twice.starts_with("rank: 2 to run\n  anon highwater\n  anon 3.10-rc4-vanilla\nabout "), "{twice}");
    let some = print(&["rank", "--dry-run"]);
    assert!(some.lines().count() < 70 && some.contains("\nthp ") && some.contains("\ncolumns: highwater, "), "{some}");
    let count = some.split([' ', '\n']).nth(1).unwrap_or_default();
    assert!(some.starts_with("rank: ") && some.lines().nth(1).is_some_and(|line| line.starts_with("about ")), "{some}");
    let every = print(&["rank", "--dry-run", "--all"]);
    assert!(every.starts_with(&format!("rank: {count} to run\n  ")), "{every}");
    assert!(every.contains("thp highwater") && every.contains("ping 2.6.23-rc5"), "{every}");
}

#[test]
fn an_import_has_a_file_for_each_of_its_outputs() {
    let file = Folder::new();
    let same = file.path("same");
    assert!(message(2, &["import", "/nowhere", "--output", &same, "--series", &same]).contains("name the same file"));
}

#[test]
fn a_standing_needs_a_row_and_another_kernel() {
    let folder = Folder::new();
    let text = "about = \"a\"\nmachine = \"randread-512m\"\nworkload = \"anon\"\nkernels = [\"highwater\"]\n";
    let without = folder.file("without.toml", text);
    assert!(message(2, &["rank", &without]).contains("it has no `main_row`"));
    let unknown = folder.file("unknown.toml", &format!("{text}main_row = \"Ops anno\"\n"));
    assert!(
        message(2, &["rank", &unknown, "--kernels", "3.3.6", "--scale", "1/64"])
            .contains("no run has the row `Ops anno`")
    );
    let run = message(2, &["run", &unknown, "--kernel", "highwater", "--scale", "1/64"]);
    let expected = format!(
        "error: {unknown}:5: `main_row`: no run has the row `Ops anno`; the rows by block:\n  Ops       Ops anon, "
    );
    assert!(run.starts_with(&expected), "{run}");
    assert!(message(2, &["rank", "anon", "--kernels", "highwater"]).contains("at least one other kernel"));
    assert!(message(2, &["rank", "anon", "--plot", "a.svg"]).contains("unexpected argument '--plot'"));
    assert!(!print(&["rank", "--help"]).contains("--plot"));
}

#[test]
fn what_has_no_figures_in_print_has_no_fidelity() {
    assert_eq!(print(&["fidelity", "ping", "ping", "--dry-run"]), print(&["fidelity", "ping", "--dry-run"]));
    let text = message(2, &["fidelity", "randread"]);
    assert!(text.contains("`randread` has no published figures") && text.contains("parallelio"), "{text}");
}

#[test]
fn verbs_that_simulate_share_their_options() {
    let of_seeds = ["--seed", "--runs", "--jobs"];
    let of_experiments =
        ["--set", "--scale", "--machine", "--rows", "--on", "--dir", "--no-limit", "--swap", "--output"];
    for verb in ["run", "compare", "variants", "ablate", "fidelity", "rank", "swarm"] {
        let help = print(&[verb, "--help"]);
        let is_experiment = !["fidelity", "rank", "swarm"].contains(&verb);
        for option in of_seeds.iter().chain(of_experiments.iter().filter(|_| is_experiment)) {
            assert!(
                help.contains(&format!(" {option} ")) || help.contains(&format!(" {option}\n")),
                "{verb}: {option}"
            );
        }
    }
    assert!(print(&["swarm"]).contains("fingerprint"), "the seed is 1 where none is given");
}

#[test]
fn variants_and_ablations_run_with_changed_values_too() {
    assert!(message(2, &["variants", "simon", "--set", "params.none=1"]).contains("`none`"));
    let several = message(2, &["variants", "simon", "--set", "params.client_ms=1,2"]);
    assert!(several.contains("variant `nothing is sent`: it sets `params.client_ms` itself"), "{several}");
    let run = ["run", "highalloc", "--kernel", "3.6-revert-v5", "--dry-run", "--variant"];
    let alone = print(&[&run[..], &["patch 7"]].concat());
    assert!(alone.contains("3.6-revert-v5+compact.capture=after-each-group"), "{alone}");
    assert!(message(2, &[&run[..], &["patch"]].concat()).contains("`patch` may be `patch 2 alone`"));
    let all = print(&["variants", "highalloc", "--kernels", "3.6-revert-v5,3.6-capture-v5", "--dry-run"]);
    let of = |variant: &str| all.lines().filter(|line| line.ends_with(variant)).count();
    assert_eq!([of(", as it is"), of(", 2 CPUs"), of(", patch 2 alone")], [2, 2, 1], "{all}");
    let some = ["variants", "highalloc", "--kernels", "3.6-revert-v5", "--dry-run", "--variant"];
    let patches = print(&[&some[..], &["PATCH"]].concat());
    assert_eq!(patches.lines().filter(|line| line.contains(" alone")).count(), 5, "{patches}");
    assert!(patches.contains(", as it is\n") && !patches.contains("CPUs"), "{patches}");
    assert!(message(2, &[&some[..], &["none"]].concat()).contains("no variant is called `none`; there are"));
    let (from, to) = ("2.6.37-kanyzone", "2.6.37-kanyzone+lru.swappiness=10");
    let ablate = ["ablate", "postmark", "--scale", "1/64", "--from", from, "--to", to];
    let with = |more: &[&'static str]| [&ablate[..], more].concat();
    let rows = ["--rows", "order > 0"];
    let wrong = |more: &[&'static str]| message(2, &with(&[&rows[..], more].concat()));
    assert!(wrong(&["--set", "lru.batch=1,2"]).contains("one value for a key, not 2"));
    assert!(wrong(&["--on", "linux"]).contains("which the running kernel does not have"));
    assert!(wrong(&["--set", "lru.swappiness=0"]).contains("no value differs"));
    assert!(wrong(&["--set", "params.none=0"]).contains("`none`"));
    let missing = message(2, &with(&[]));
    assert!(missing.contains("--rows is missing: say which rows to explain; the rows by block:\n"), "{missing}");
    let text = print(&with(&[&rows[..], &["--set", "params.files=50", "--set", "lru.batch=3"]].concat()));
    assert!(text.contains("with 2.6.37-kanyzone+lru.batch=3, ") && !text.contains("lru.batch=3 "), "{text}");
    // Notes have no place in CSV: they are warnings.
    let output = highwater(&with(&[&rows[..], &["--set", "params.files=50", "--format", "csv"]].concat()));
    let csv = String::from_utf8(output.stdout).expect("reports are UTF-8");
    let (head, lines) = csv.split_once('\n').expect("it has lines");
    assert!(head.starts_with("row,unit,from,to,key,old,new,alone,") && lines.contains(",lru.swappiness,"), "{csv}");
}

#[test]
fn a_changed_value_without_a_comment_is_not_said_to_be_from_its_base() {
    let folder = Folder::new();
    // The first example in the README.
    let kernel = folder.file("mine.toml", "base = \"3.10-rc4-vanilla\"\n\n[reclaim]\nkswapd_floor = \"one\"\n");
    let text = print(&["diff", "3.10-rc4-vanilla", &kernel]);
    assert!(text.ends_with(&format!("reclaim.kswapd_floor  zero -> one  {kernel}:4\n")), "{text}");
}

/// The fastest run that can make a profile, a series and a trace.
const QUICK: [&str; 6] = ["run", "postmark", "--kernel", "2.6.37-kanyzone", "--scale", "1/64"];

#[test]
fn a_file_that_cannot_be_written_costs_neither_the_table_nor_the_other_files() {
    if !std::path::Path::new("/dev/full").exists() {
        return eprintln!("skipped: there is no /dev/full");
    }
    let (folder, table) = (Folder::new(), print(&QUICK));
    let profile = folder.path("profile.txt");
    for option in ["--series", "--profile", "--trace", "--output"] {
        let mut arguments = [&QUICK[..], &[option, "/dev/full"]].concat();
        if option != "--profile" {
            arguments.extend(["--profile", &profile]);
        }
        let output = highwater(&arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{option}: {told}");
        assert!(told.ends_with("\nerror: cannot write to /dev/full: no space left on device\n"), "{option}: {told}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), table, "{option}");
    }
    assert!(fs::read_to_string(&profile).expect("it was written").contains("kswapd0;"));
}

#[test]
fn no_standard_output_is_a_failure_before_the_run() {
    let binary = env!("CARGO_BIN_EXE_highwater");
    for command in ["list", "--version", "compare parallelio", "swarm --count 1000000"] {
        let mut shell = Command::new("sh");
        let output = shell.arg("-c").arg(format!("exec {binary} {command} >&-")).output().expect("there is a shell");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), &*told),
            (Some(1), "error: cannot write the report: standard output is closed\n")
        );
    }
    let mut shell = Command::new("sh");
    let status = shell.arg("-c").arg(format!("exec {binary} list > /dev/null")).status().expect("there is a shell");
    assert!(status.success());
}

#[test]
fn verbs_that_no_help_shows_are_not_suggested() {
    for word in ["compar", "apar"] {
        assert!(!message(2, &[word]).contains("apart"), "{word}");
    }
}

#[test]
fn a_key_is_told_where_it_belongs() {
    let set = |set: &str| message(2, &["compare", "ping", "--set", set]);
    for (wrong, right) in [
        ("swappiness=1", "`lru.swappiness`"),
        ("vm.swappiness=1", "`lru.swappiness`"),
        ("cpu.count=1", "`machine.cpu.count`"),
        ("hogs=1", "`params.hogs`"),
        ("packets=1", "`params.packets`"),
        ("params.swappiness=1", "`lru.swappiness`"),
        ("foo.bar=1", "`highwater explain 2.6.23-rc5` lists the keys of kernels"),
    ] {
        assert!(set(wrong).contains(right), "{wrong}: {}", set(wrong));
    }
    let twice = set("params.packets=abc,10");
    assert!(twice.starts_with("error: --set params.packets=abc: expected a whole number"), "{twice}");
}

/// The policy `own` stands for a policy that a calling program supplies to the library. The command `highwater`
/// supplies none, so it refuses `own` as wrong usage.
#[test]
fn a_policy_that_nobody_brought_is_wrong_usage() {
    let kernel = "highwater+lru.policy=own";
    let by_kernel = message(2, &["compare", "randread", "--scale", "1/64", "--kernels", kernel]);
    assert!(by_kernel.contains("kernel `highwater+lru.policy=own`"), "{by_kernel}");
    assert!(by_kernel.contains("this program has brought no policy"), "{by_kernel}");
    let set = ["--set", "lru.policy=lru,own", "--kernels", "highwater"];
    let by_set = message(2, &[&["compare", "randread", "--scale", "1/64"][..], &set].concat());
    assert!(by_set.contains("this program has brought no policy"), "{by_set}");
    for dry in [
        &["run", "randread", "--kernel", kernel, "--dry-run"][..],
        &["ablate", "randread", "--from", "highwater", "--to", kernel],
    ] {
        let told = message(2, dry);
        assert!(told.contains("this program has brought no policy"), "{dry:?}: {told}");
    }
}

#[test]
fn what_cannot_end_is_refused() {
    let set = |experiment: &str, set: &str| message(2, &["compare", experiment, "--set", set]);
    for (experiment, wrong, told) in [
        ("randread", "params.full_s=18446744074", "a run of 18446744134 s: at most 36000 s"),
        ("randread", "params.full_s=9223372036854775807", "s: at most 36000 s"),
        ("randread", "params.file_percent=99999999", "the device has room for"),
        ("randread", "params.operations=9223372036854775807", "operations: at most"),
        ("randwrite", "params.file_mib=9223372036854775807", "the device has room for"),
        ("anon", "params.touch_s=99999999999", "at most 36000 s"),
        ("scan", "params.alone_s=99999999999", "at most 36000 s"),
        ("scan", "params.cold_percent=9999999999999", "the device has room for"),
        ("parallelio", "params.run_s=99999999999", "at most 36000 s"),
        ("parallelio", "params.steps=99999999999", "at most"),
        ("parallelio", "params.operation_ns=1", "operations: at most"),
        ("streaming", "params.percent=9999999999999", "pages"),
        ("streaming", "params.tasks=9999999999", "`tasks` is 9999999999"),
        ("ping", "params.packets=4294967295", "at most 36000 s"),
        ("ping", "params.page_ns=0", "`page_ns` must be above 0"),
        ("simon", "params.judged_s=99999999999", "s: at most 36000 s"),
        ("simon", "params.files_mib=9223372036854775807", "the device has room for"),
        ("simon", "params.process_mib=70000000000", "`process_mib` is 70000000000: must be at most 1048576"),
        ("simon", "params.daemons_mib=9223372036854775807", "must be at most 1048576"),
        ("postmark", "params.hog_mib=9223372036854775807", "must be at most 1048576"),
        ("postmark", "params.transactions=9223372036854775807", "operations: at most"),
        ("postmark", "params.files=9223372036854775807", "the device has room for"),
        ("postmark", "params.hog_sleep_s=9223372036854775807", "at most 36000 s"),
        ("multibuild", "params.builds=9223372036854775807", "operations: at most"),
        ("multibuild", "params.unit_ms=9223372036854775807", "at most 36000 s"),
        ("highalloc", "params.warm_up_s=9223372036854775807", "at most 36000 s"),
        ("highalloc", "params.every_ms=9223372036854775807", "at most 36000 s"),
        ("highalloc", "params.copies=9223372036854775807", "the device has room for"),
        ("highalloc", "params.build.units=9223372036854775807", "operations: at most"),
        ("highalloc", "params.inodes=9223372036854775807", "must be at most 16777216"),
        ("highalloc", "params.build.touched_again_percent=101", "is at most 100"),
        ("highalloc", "params.order=11", "`order` is 11: must be at most 10"),
        ("thp", "params.touch_s=9223372036854775807", "at most 36000 s"),
        ("thp", "params.tasks=9223372036854775807", "operations: at most"),
        ("thp", "params.tasks=257", "`tasks` is 257: must be at most 256"),
        ("thp", "params.file_percent=9223372036854775807", "the device has room for"),
        ("thp", "params.program_percent=9223372036854775807", "operations: at most"),
        ("livelock", "params.call_ns=9223372036854775807", "a wait of"),
        ("livelock", "params.hog_uses_percent_per_s=9223372036854775807", "operations: at most"),
        ("livelock", "params.read_beside_percent=9223372036854775807", "the device has room for"),
        ("thp", "machine.cpu.tlb.entries_4k=9223372036854775807", "translations of a size"),
    ] {
        let text = set(experiment, wrong);
        assert!(text.contains(told) && !text.contains("bug"), "{experiment} {wrong}: {text}");
    }
    for theta in ["nan", "inf", "-inf", "0", "-1", "1e300"] {
        let theta = format!("params.theta={theta}");
        for experiment in ["randread", "anon", "scan"] {
            let text = message(2, &["compare", experiment, "--set", "params.distribution=zipf", "--set", &theta]);
            assert!(text.contains("must be above 0 and at most 10"), "{experiment} {theta}: {text}");
        }
    }
}

#[test]
fn a_disk_that_is_too_slow_at_a_scale_is_wrong_usage() {
    let slow = "machine.disk.device.read_bandwidth_bytes_per_s=100000";
    let arguments = ["compare", "randwrite", "--scale", "1/64", "--kernels", "highwater", "--set", slow];
    for dry in [&[][..], &["--dry-run"]] {
        let text = message(2, &[&arguments, dry].concat());
        let told = "at scale 1/64: its disk is none: read_bandwidth_bytes_per_s is 1562: must be at least 4096";
        assert!(text.contains(told) && !text.contains("replay"), "{text}");
    }
}

#[test]
fn too_small_a_scale_is_wrong_usage_of_every_experiment() {
    const ALL: [&str; 11] = [
        "parallelio",
        "ping",
        "postmark",
        "multibuild",
        "highalloc",
        "thp",
        "streaming",
        "simon",
        "anon",
        "scan",
        "randread",
    ];
    for experiment in ALL {
        let text = message(2, &["compare", experiment, "--scale", "1/65536"]);
        assert!(text.contains("at scale 1/65536: ") && !text.contains("replay"), "{experiment}: {text}");
    }
}

#[test]
fn a_run_says_at_its_start_how_long_it_is() {
    let arguments = ["run", "anon", "--kernel", "highwater", "--scale", "1/64", "--set", "params.touch_s=1"];
    let output = highwater(&[&arguments[..], &["--set", "params.region_percent=20"]].concat());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.starts_with("started: anon of about 1 s of virtual time, 1 run"), "{text}");
    // The time that programs take in addition to their pauses is not known before a run. Three packets take 20 ms.
    let title = |arguments: &[&str]| print(arguments).lines().next().unwrap_or_default().to_owned();
    assert_eq!(title(&["compare", "exhaust", "--dry-run"]), "exhaust: 2 to run");
    let ping = ["run", "ping", "--kernel", "highwater", "--set", "params.packets=3", "--dry-run"];
    assert_eq!(title(&ping), "ping of about 1 s of virtual time: 1 to run");
}

#[test]
fn a_key_is_explained_with_its_values_and_who_has_which() {
    let text = print(&["explain", "reclaim.kswapd_floor"]);
    assert!(
        text.starts_with("reclaim.kswapd_floor\n  ") && text.contains("\n  default: zero, as in 2.6.23-rc5\n"),
        "{text}"
    );
    for line in ["\n  zero  ", "\n  one   "] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // Kernels are grouped by value. Each group has the source of its first kernel.
    let by_value = |text: &str, value: &str| {
        let all = text.split("\nkernels\n").nth(1).unwrap_or_default().to_owned();
        let from = all.find(&format!("  {value} ")).unwrap_or_else(|| panic!("{value}: {all}"));
        all[from..].to_owned()
    };
    let zero = by_value(&text, "zero");
    assert!(zero.contains("2.6.23-rc5, ") && zero.contains("crates/engine/kernels/2.6.23-rc5.toml:"), "{text}");
    assert!(by_value(&text, "one").contains("mm1-mmotm-20130606"), "{text}");
    // If a user writes the key in another way, the explanation begins with the key's name.
    for asked in ["reclaim.swappiness", "swappiness"] {
        let text = print(&["explain", asked]);
        let head = format!("`{asked}` means the key `lru.swappiness`\n\nlru.swappiness\n");
        assert!(text.starts_with(&head) && text.contains("a whole number from 0 to 200"), "{text}");
        assert!(by_value(&text, "60").contains("6.18-classic"), "{text}");
    }
    let cpus = print(&["explain", "machine.cpu.count"]);
    assert!(cpus.contains("Number of logical CPUs.") && cpus.contains("parallelio-8g"), "{cpus}");
    let hogs = print(&["explain", "params.hogs"]);
    assert!(
        hogs.contains("\n  16 (assumed: ") && hogs.contains("  Number of hogs, the tasks that write memory. `--set"),
        "{hogs}"
    );
    assert!(message(2, &["explain", "swapiness"]).contains("did you mean `lru.swappiness`?"));
}

#[test]
fn names_that_people_know_are_answered_and_words_list_what_has_them() {
    let known = print(&["explain", "/proc/sys/vm/swappiness"]);
    assert!(known.starts_with("/proc/sys/vm/swappiness: Modelled") && known.contains("\nlru.swappiness\n"), "{known}");
    assert!(known.contains("\nsee also\n  lru.family_balance  "), "{known}");
    for name in ["zswap", "memory.swap.high", "vfs_cache_pressure", "vm.overcommit_memory", "ksm"] {
        assert!(print(&["explain", name]).starts_with(&format!("{name}: Not modelled")), "{name}");
    }
    assert!(print(&["explain", "machine.swap"]).contains("\n  machine.disk.swap_slots  "));
    for (name, told) in [("machine.xyzzy", "explain MACHINE` shows"), ("params.xyzzy", "explain EXPERIMENT` shows")] {
        assert!(message(2, &["explain", name]).contains(told), "{name}");
    }
    let list = print(&["explain", "kswapd"]);
    for line in ["\nkeys of kernels\n", "\n  reclaim.kswapd_floor  ", "names with it:\n"] {
        assert!(list.contains(line), "{line}: {list}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&print(&["explain", "6.18-classic", "--format", "json"])).expect("JSON");
    let rows = json["sections"][0]["parts"][0]["rows"].as_array().expect("rows");
    let policy = rows.iter().find(|row| row["key"] == "policy").expect("it has a policy");
    assert_eq!((&policy["block"], &policy["value"]), (&"lru".into(), &"\"classic\"".into()));
    let markdown = print(&["diff", "6.1-classic", "6.18-classic", "--format", "markdown"]);
    assert!(markdown.starts_with("## 6.1-classic to 6.18-classic\n") && markdown.contains("\n|"), "{markdown}");
    assert!(message(2, &["run", "randread", "--kernel", "5.13"]).contains("nearest are `5.12-mainline` and `5.15`"));
}

/// With `lru.swappiness = 0` multi-gen LRU swaps nothing, so that two of the four tasks of `anon` are killed, and the
/// memory of the others fits.
#[test]
fn a_run_whose_tasks_were_killed_in_part_is_not_compared() {
    let text = print(&[
        "compare",
        "anon",
        "--kernels",
        "5.15,6.1-mglru",
        "--set",
        "lru.swappiness=0",
        "--scale",
        "1/16",
        "--runs",
        "6",
    ]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("ops/s, but tasks of it were killed, so that this is not compared."), "{text}");
    let killed = text.lines().filter(|line| line.contains("killed for lack of memory"));
    assert!(killed.clone().count() > 0 && killed.clone().all(|line| line.ends_with(", in: 6.1-mglru")), "{text}");
    assert!(!["6.1-mglru is better", "memory never filled"].iter().any(|it| words.contains(it)), "{text}");
}

#[test]
fn names_that_an_experiment_has_wrong_are_told_with_file_and_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("e.toml");
    let right = "about = \"a\"\nmachine = \"randread-512m\"\nworkload = \"anon\"\nkernels = [\"6.1-classic\"]\n";
    for (from, to, line, told) in [
        ("randread-512m", "randread-513m", 2, "no machine is called `randread-513m`"),
        ("anon", "anan", 3, "no workload is called `anan`"),
        ("6.1-classic", "6.1-clasic", 4, "no kernel is called `6.1-clasic`"),
    ] {
        std::fs::write(&file, right.replace(from, to)).expect("a temporary file");
        let path = file.to_str().expect("UTF-8");
        let found = message(2, &["compare", path]);
        assert!(found.contains(&format!("{path}:{line}: {told}")), "{found}");
    }
}

#[test]
fn a_column_that_cannot_begin_costs_only_itself() {
    let set = ["--set", "machine.disk.swap_slots=0,131071", "--scale", "1/64"];
    let text = highwater(&[&["compare", "anon", "--kernels", "6.18-classic"][..], &set].concat());
    let (told, out) = (String::from_utf8_lossy(&text.stderr), String::from_utf8_lossy(&text.stdout));
    assert_eq!(text.status.code(), Some(1), "{told}");
    assert!(told.contains("pages of regions do not fit") && told.contains("  replay: highwater run anon"), "{told}");
    let words = out.replace('\n', " ");
    assert!(out.contains("failed (1 of 1)") && words.contains("machine.disk.swap_slots = 131071 has "), "{out}");
    let none = ["compare", "anon", "--kernels", "6.18-classic", "--set", "machine.disk.swap_slots=0"];
    assert!(message(2, &none).contains("pages of regions do not fit"));
}

#[test]
fn settings_without_effect_columns_that_are_the_same_and_runs_without_reclaim_are_told() {
    let small = ["--scale", "1/64", "--set", "params.operations=200", "--set", "params.file_percent=20"];
    let compare = ["compare", "randread", "--kernels", "6.18-classic", "--set", "multigen.tiers=2,4"];
    let text = highwater(&[&compare[..], &small].concat());
    let (told, text) = (String::from_utf8_lossy(&text.stderr), String::from_utf8_lossy(&text.stdout));
    assert!(told.starts_with("warning: multigen.tiers: unused with lru.policy = classic\nstarted: "), "{told}");
    assert!(text.contains("\nmultigen.tiers: unused with lru.policy = classic\n"), "{text}");
    let same = "these columns are the same run: 6.18-classic+multigen.tiers=2, 6.18-classic+multigen.tiers=4\n";
    assert!(text.contains(same) && text.contains("no page was reclaimed: memory never filled"), "{text}");
    let run = ["run", "randread", "--set", "reclaim.zone_reclaim_mode=1", "--dry-run"];
    let told = String::from_utf8_lossy(&highwater(&run).stderr).into_owned();
    assert_eq!(told, "warning: reclaim.zone_reclaim_mode: unused with memory nodes = 1\n");
}

#[test]
fn one_experiment_that_is_too_small_at_a_scale_is_left_out_of_a_ranking() {
    let rank = ["rank", "multibuild", "randread", "--kernels", "6.1-classic", "--scale", "1/64", "--dry-run"];
    let output = highwater(&rank);
    let (told, text) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(told.starts_with("warning: multibuild is left out: machine `multibuild-1g` at scale 1/64: too"), "{told}");
    assert!(output.status.success() && text.starts_with("rank: 2 to run\n  randread "), "{text}");
    assert!(message(2, &["rank", "multibuild", "--scale", "1/64", "--dry-run"]).contains("too small for multibuild"));
}

#[test]
fn a_run_without_a_kernel_takes_the_first_of_its_experiment() {
    let first = print(&["compare", "randread", "--dry-run"]).lines().nth(1).map(str::to_owned);
    assert_eq!(print(&["run", "randread", "--dry-run"]).lines().nth(1).map(str::to_owned), first);
}

/// Checks that the counts of `stat` during a command agree with the kernel's files, read by hand, and that the end of
/// the command is reported.
#[cfg(feature = "linux")]
#[test]
fn stat_says_what_the_kernel_counted_while_a_command_ran() {
    let folder = Folder::new();
    let (saved, bytes) = (folder.path("saved.json"), folder.path("bytes"));
    let faults = || {
        let text = fs::read_to_string("/proc/vmstat").expect("the kernel has counters");
        let line = text.lines().find_map(|line| line.strip_prefix("pgfault ")).expect("it counts faults");
        line.parse::<f64>().expect("a number")
    };
    let before = faults();
    let copy = ["dd", "if=/dev/zero", &format!("of={bytes}"), "bs=1M", "count=8"];
    let output = highwater(&[&["stat", "--format", "json", "--output", &saved, "--"], &copy[..]].concat());
    let after = faults();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::metadata(&bytes).expect("the command ran").len(), 8 << 20);
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&saved).expect("a report")).expect("JSON");
    let column = report["columns"][0]["id"].as_str().expect("a column");
    let value = |name: &str| {
        let row = report["rows"].as_array().expect("rows").iter().find(|row| row["name"] == name);
        row.unwrap_or_else(|| panic!("no row `{name}`"))["values"][column]["median"].as_f64().expect("a figure")
    };
    let counted = value("Minor Faults") + value("Major Faults");
    assert!(
        value("Minor faults of the command") > 10.0 && counted <= after - before,
        "{counted} of {}",
        after - before
    );
    assert!(value("Kswapd pages scanned") >= 0.0 && value("Elapsed") > 0.0);
    let failed = highwater(&["stat", "--output", &saved, "--", "false"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("the command ended with exit status: 1"));
    let lines = print(&["stat", "--seconds", "0.3", "--every", "0.1", "--output", &saved]);
    assert!(
        (4..=5).contains(&lines.lines().count()) && lines.contains("psi-some"),
        "a heading of two lines, and one each, the last one too: {lines}"
    );
    let some = print(&["stat", "--seconds", "0.05", "--rows", "pgfault"]);
    assert!(some.contains("\npgfault ") && !some.contains("pswpin") && !some.contains("Elapsed"), "{some}");
    assert!(message(2, &["stat", "--cgroup", "12", "--", "true"]).contains("at least 1M"));
    assert!(message(1, &["stat", "--", "/nowhere"]).contains("cannot run `/nowhere`"));
}

#[cfg(feature = "linux")]
#[test]
fn this_computer_is_a_machine() {
    let folder = Folder::new();
    let here = folder.path("here.toml");
    let output = highwater(&["machine", "here", "--limit", "64M", "--output", &here]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&here).unwrap();
    assert!(text.contains("limit_pages = 16384") && text.contains("The nearest kernel file is"), "{text}");
    // The machine file is valid on a computer without swap, too.
    print(&["run", "randread", "--kernel", "6.18-classic", "--machine", &here, "--dry-run"]);
    assert!(message(2, &["machine", "here", "--limit", "1M"]).contains("at least 4096 KiB"));
    assert!(message(2, &["machine", "here", "--dir", "/nowhere"]).contains("/nowhere: no such folder"));
    assert!(message(2, &["machine"]).contains("here"));
}

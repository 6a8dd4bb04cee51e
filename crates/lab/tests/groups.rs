//! Tests of control groups that are given to experiments: on the command line and in experiment and machine files.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

fn highwater(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the binary was built for this test")
}

/// Runs a command that must refuse its input. Returns its message.
fn refused(arguments: &[&str]) -> String {
    let output = highwater(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    text
}

/// Runs a command that must succeed. Returns its report.
fn report(arguments: &[&str]) -> String {
    let output = highwater(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("reports are UTF-8")
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("a temporary file");
    path.to_str().expect("UTF-8").to_owned()
}

/// Writes an experiment with the groups `groups`, and its machine, which has a group `old`. Returns the path of the
/// experiment's file.
fn experiment(folder: &Path, groups: &str) -> String {
    file(folder, "machine.toml", "base = \"randread-512m\"\n[[group]]\nname = \"old\"\nmax_mib = 64\nlow_mib = 2\n");
    let text = format!(
        "about = \"reads\"\nmachine = \"./machine.toml\"\nworkload = \"randread\"\nkernels = [\"6.18-classic\"]\n{groups}\n[params]\n\
         file_percent = 400\ntasks = 2\nfull_s = 1\n"
    );
    file(folder, "experiment.toml", &text)
}

#[test]
fn a_group_of_the_command_line_has_rows_and_counters_over_time() {
    let folder = tempfile::tempdir().unwrap();
    let (series, plot) = (folder.path().join("s.csv"), folder.path().join("p.svg"));
    let [series, plot] = [&series, &plot].map(|path| path.to_str().unwrap());
    let group = ["--group", "pod:max_mib=512", "--group", "readers:parent=pod,max_mib=256,tasks=randread*"];
    let arguments = ["run", "randread", "--kernel", "6.18-classic", "--scale", "1/64", "--all", "--series", series];
    let text = report(&[&arguments[..], &group[..], &["--plot", plot]].concat());
    assert!(text.contains("pod/readers: pgscan") && text.contains("pod: memory.current"), "{text}");
    assert!(!text.contains("unused") && !text.contains("older than"), "{text}");
    let csv = fs::read_to_string(series).unwrap();
    let value = |name: &str| {
        let line = csv.lines().rfind(|line| line.contains(&format!(",{name},"))).unwrap_or_else(|| panic!("no {name}"));
        line.split(',').nth(4).unwrap().parse::<u64>().unwrap()
    };
    // The limit is 256 MiB at full scale: 4 MiB, 1024 pages.
    assert!((900..=1024).contains(&value("pod/readers: memory.peak")), "{}", value("pod/readers: memory.peak"));
    assert!(value("pod/readers: pgscan") > 0 && value("pod/readers: memory.events.max") > 0);
    assert!(value("pod: memory.peak") >= value("pod/readers: memory.peak"));
    let svg = fs::read_to_string(plot).unwrap();
    assert!(svg.contains("Memory, group pod/readers, MiB"), "the picture has a panel of the lowest group");
    let doctor = report(&["doctor", series]);
    assert!(doctor.contains("pod/readers") && doctor.contains("cgroup-limit"), "{doctor}");
}

#[test]
fn groups_of_an_experiment_and_of_the_command_line_lie_over_those_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = experiment(
        folder.path(),
        "[[group]]\nname = \"old\"\nlow_mib = 4\n[[group]]\nname = \"new\"\ntasks = [\"randread 0\"]",
    );
    let rows = ["--rows", "memory.current", "--scale", "1/64"];
    let text = report(&[&["run", &experiment, "--group", "old:tasks=randread 1,max_mib=32"][..], &rows[..]].concat());
    assert!(text.contains("old: memory.current") && text.contains("new: memory.current"), "{text}");
    assert!(!text.contains("unused"), "{text}");
    // A key of the experiment's group can be set, too. Its value is refused by the machine's limit.
    let told = refused(&["run", &experiment, "--set", "machine.group.old.low_mib=65"]);
    assert!(told.contains("`low_mib` of `old` is 65, above its `max_mib`, 64"), "{told}");
}

#[test]
fn tasks_that_nobody_has_and_groups_without_pages_are_told() {
    let group = ["--group", "a:tasks=randread 0,nginx*", "--group", "b:low_mib=1"];
    let arguments = ["run", "randread", "--kernel", "3.10-rc4-vanilla", "--scale", "1/64"];
    let text = report(&[&arguments[..], &group[..]].concat());
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("group `a`: `nginx*` of `tasks` is unused: the workload's tasks are `main`, `randread 0`,"),
        "{text}"
    );
    assert!(flat.contains("unused group `b`: no page was charged to it"), "{text}");
    assert!(flat.contains("[[group]]: these kernels are older than Linux 4.5"), "{text}");
    // A store keeps what is told of a run.
    let folder = tempfile::tempdir().unwrap();
    let store = ["--store", folder.path().to_str().unwrap()];
    let [first, again] = [(); 2].map(|()| report(&[&arguments[..], &group[..], &store[..]].concat()));
    assert_eq!(first, again);
    assert!(again.contains("nginx"), "{again}");
}

#[test]
fn a_run_whose_tasks_were_all_killed_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("kernel.log");
    let arguments = ["anon", "--scale", "1/16", "--group", "a:max_mib=2,oom_group=true,tasks=anon*", "--all"];
    let output = highwater(&[&["run"][..], &arguments, &["--kernel-log", log.to_str().unwrap()]].concat());
    let [text, told] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!(output.status.code(), Some(1), "{text}{told}");
    let row = text.lines().find(|line| line.trim_start().starts_with("Ops anon")).unwrap_or_else(|| panic!("{text}"));
    assert!(row.ends_with("killed (4 of 4)"), "{text}");
    let whole = "seed 1: killed (4 of 4): the out-of-memory killer ended every task of the workload, `anon ";
    assert!(told.contains(whole), "{told}");
    assert_eq!(fs::read_to_string(log).unwrap().matches("Killed process").count(), 4);
    // Beside it, a run with enough memory has figures.
    let beside = ["--set", "machine.group.a.max_mib=2,512"];
    let output = highwater(&[&["compare"][..], &arguments, &["--kernels", "6.18-classic"], &beside].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let row = text.lines().find(|line| line.trim_start().starts_with("Ops anon")).unwrap_or_else(|| panic!("{text}"));
    assert!(row.contains("killed (4 of 4)") && !row.trim_end().ends_with("killed (4 of 4)"), "{text}");
    // Runs that measure kills have not failed.
    report(&["run", "exhaust", "--scale", "1/64"]);
}

#[test]
fn groups_of_version_1_have_a_soft_limit() {
    let run = |group: &str| {
        let rows = ["--rows", "memory.peak", "--format", "csv", "--scale", "1/16", "--kernel", "6.1-classic"];
        let text = report(&[&["run", "randread", "--group", group], &rows[..]].concat());
        let row = text.lines().find(|line| line.contains("a: memory.peak")).unwrap_or_else(|| panic!("{text}"));
        row.split(',').nth(5).unwrap().parse::<f64>().unwrap()
    };
    let [free, soft] = ["a:tasks=randread 0", "a:soft_mib=16,tasks=randread 0"].map(run);
    // The soft limit is 1 MiB at this scale. The group is above it until kswapd runs.
    assert!(soft < 0.8 * free, "{soft} {free}");
    let told = refused(&["run", "randread", "--group", "a:soft_mib=8,low_mib=4"]);
    assert!(told.contains("--group a:low_mib=4: `low_mib` of `a` is of version 2"), "{told}");
}

/// A machine file may say that its groups are of version 1, without a key that only version 1 has.
#[test]
fn a_machine_file_names_the_version_of_its_groups() {
    let folder = tempfile::tempdir().unwrap();
    let machine = |keys: &str| {
        let text =
            format!("base = \"randread-512m\"\n[memory]\ngroup_version = \"v1\"\n[[group]]\nname = \"a\"\n{keys}");
        file(folder.path(), "v1.toml", &text)
    };
    let run = |path: &str| {
        ["run", "randread", "--scale", "1/64", "--machine", path, "--rows", "a: memory"].map(str::to_owned)
    };
    let of_v1 = run(&machine("max_mib = 64\ntasks = [\"randread*\"]\n"));
    let text = report(&of_v1.each_ref().map(String::as_str));
    assert!(text.contains("a: memory.peak"), "{text}");
    let of_both = run(&machine("high_mib = 64\n"));
    let told = refused(&of_both.each_ref().map(String::as_str));
    assert!(told.contains("`high_mib` of `a` is of version 2, but `group_version = \"v1\"` makes"), "{told}");
}

#[test]
fn groups_of_version_1_have_a_limit_of_memory_and_swap_together() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("kernel.log");
    // The four tasks touch 768 MiB. Killed programs leave room for the others.
    let group = "a:max_mib=256,memsw_mib=512,tasks=anon*";
    let arguments = ["run", "anon", "--scale", "1/16", "--kernel", "6.1-classic", "--group", group];
    let rows = ["--rows", "a: memory", "--format", "csv", "--kernel-log", log.to_str().unwrap()];
    let series = folder.path().join("s.csv");
    let over_time = ["--series", series.to_str().unwrap()];
    let text = report(&[&arguments[..], &rows[..], &over_time[..]].concat());
    let value = |name: &str| {
        let row = text.lines().find(|line| line.contains(&format!("a: {name},"))).unwrap_or_else(|| panic!("{text}"));
        row.split(',').nth(5).unwrap().parse::<f64>().unwrap()
    };
    assert!((15.0..=16.0).contains(&value("memory.peak")), "{text}");
    assert!((31.0..=32.0).contains(&value("memory.memsw.max_usage_in_bytes")), "{text}");
    assert!(value("memory.memsw.usage_in_bytes") <= 32.0 && text.contains("a: memory.memsw.failcnt"), "{text}");
    assert!(value("memory.failcnt") > 0.0, "the group swaps before the sum is full: {text}");
    let csv = fs::read_to_string(series).unwrap();
    let largest = |name: &str| {
        let lines = csv.lines().filter(|line| line.contains(&format!(",a: {name},")));
        lines
            .map(|line| line.split(',').nth(4).unwrap().parse::<u64>().unwrap())
            .max()
            .unwrap_or_else(|| panic!("no {name}"))
    };
    // Pages: the limit is 32 MiB at this scale.
    let [swap, both] = ["memory.swap.current", "memory.memsw.usage_in_bytes"].map(largest);
    assert!(swap > 0 && (4096..=8192).contains(&both), "{swap} {both}");
    assert!(largest("memory.failcnt") > 0 && largest("memory.memsw.failcnt") > 0, "{csv}");
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("memory+swap: usage 32768kB, limit 32768kB, failcnt "), "{log}");
    let told = refused(&["run", "randread", "--group", "a:max_mib=8,memsw_mib=4"]);
    assert!(told.contains("--group a:memsw_mib=4: `memsw_mib` of `a` is 4, below its `max_mib`, 8"), "{told}");
    let told = refused(&["run", "randread", "--group", "a:max_mib=8,memsw_mib=16,swap_max_mib=4"]);
    assert!(told.contains("`swap_max_mib` of `a` is of version 2, but `memsw_mib` of `a` makes"), "{told}");
}

#[test]
fn groups_that_cannot_be_are_refused_with_file_and_line_or_the_option() {
    let of_option = |group: &str| refused(&["run", "randread", "--group", group]);
    assert!(of_option("a:max_mb=5").contains("unknown key `max_mb`: did you mean `max_mib`?"));
    assert!(of_option("a:max_mib=5G").contains("`max_mib`: expected a whole number of MiB, found `5G`"));
    assert!(of_option("a b").contains("`a b` is no name of a group"));
    assert!(
        of_option("a:max_mib=1,max_mib=2").contains("`max_mib` is given twice"),
        "{}",
        of_option("a:max_mib=1,max_mib=2")
    );
    let absurd = of_option("a:max_mib=1,memsw_mib=36028797018963968");
    assert!(absurd.starts_with("error: --group a:memsw_mib=36028797018963968: `memsw_mib` of `a` is 36"), "{absurd}");
    let above = of_option("a:max_mib=5,low_mib=6");
    assert!(above.starts_with("error: --group a:low_mib=6: `low_mib` of `a` is 6, above its `max_mib`, 5"), "{above}");
    let parent = of_option("a:parent=b");
    assert!(parent.starts_with("error: --group a:parent=b: `parent` of `a`: there is no [[group]] `b`"), "{parent}");
    assert!(of_option("a/b").starts_with("error: --group a/b: the parent of `a/b` is missing"), "{}", of_option("a/b"));
    let circle = refused(&["run", "randread", "--group", "a:parent=b", "--group", "b:parent=a"]);
    assert!(
        circle.contains("--group b:parent=a: `parent` of `b`: the groups go round in a circle: a -> b -> a"),
        "{circle}"
    );

    let folder = tempfile::tempdir().unwrap();
    let of_file = |groups: &str| {
        let told = refused(&["run", &experiment(folder.path(), groups)]);
        told.rsplit_once("experiment.toml:").map_or(told.clone(), |(_, behind)| behind.to_owned())
    };
    assert!(of_file("[[group]]\nname = \"a\"\nmax = 5").starts_with("7: in [[group]]: unknown key `max`"));
    let low = of_file("[[group]]\nname = \"old\"\nlow_mib = 65");
    assert!(low.starts_with("7: in [[group]]: `low_mib` of `old` is 65, above its `max_mib`, 64"), "{low}");
    let sever = of_file("[[group]]\nname = \"a\"\nparent = \"odl\"");
    assert!(
        sever.starts_with("7: in [[group]]: `parent` of `a`: there is no [[group]] `odl`: did you mean `old`?"),
        "{sever}"
    );
}

//! Tests of the workload `tasks`, whose tasks and steps are described in a parameter file. A description of another
//! workload gives the same results as that workload.

use super::{refused, run, value};
use lab::figure::Row;

/// Returns the names and values of rows.
fn values(rows: &[Row]) -> Vec<(&str, f64)> {
    rows.iter().map(|row| (row.name.as_str(), row.value)).collect()
}

#[test]
fn random_reads_are_those_of_randread() {
    let own = run("randread", "file_percent = 200\ntasks = 4\noperations = 3000\ndistribution = \"zipf\"\n");
    let described = run(
        "tasks",
        r#"
        name = "randread"
        operations = 3000
        fills_memory = true
        file."randread.dat".percent = 200
        [task.randread]
        count = 4
        stream = 3000
        steps = [{ read = "randread.dat", distribution = "zipf", row = "Read" }]
        "#,
    );
    assert_eq!(values(&described), values(&own));
}

#[test]
fn random_writes_are_those_of_randwrite() {
    let own = run("randwrite", "file_percent = 200\ntasks = 4\noperations = 3000\nsync_every = 500\n");
    let described = run(
        "tasks",
        r#"
        name = "randwrite"
        operations = 3000
        fills_memory = true
        file."randwrite.dat".percent = 200
        [task.randwrite]
        count = 4
        stream = 4000
        steps = [{ write = "randwrite.dat", own = true, sync_every = 500, row = "Write", sync_row = "Sync" }]
        "#,
    );
    let hits: Vec<_> = values(&described).into_iter().filter(|(name, _)| *name != "Hit ratio").collect();
    assert_eq!(hits, values(&own), "randwrite has no row of hits");
}

#[test]
fn random_touches_are_those_of_anon() {
    let own = run("anon", "region_percent = 150\ntasks = 4\noperations = 2000\n");
    let described = run(
        "tasks",
        r#"
        name = "anon"
        operations = 2000
        keeps_step = true
        region.own.percent = 150
        [task.anon]
        count = 4
        stream = 5000
        before = [{ map = "own" }]
        steps = [{ touch = "own", store_percent = 50, row = "Touch" }]
        "#,
    );
    assert_eq!(values(&described), values(&own));
}

#[test]
fn tasks_of_several_kinds_wait_for_each_other_and_have_rows_of_their_own() {
    let rows = run(
        "tasks",
        r#"
        name = "store"
        file.log.percent = 20
        file.table.percent = 50
        region.cache.percent = 30
        [task.server]
        count = 2
        rounds = 50
        before = [{ map = "cache" }]
        steps = [
            { touch = "cache", store_percent = 10, operations = 20, row = "Request" },
            { read = "table", distribution = "zipf", operations = 5, think_us = 20, row = "Read" },
            { write = "log", order = "sequential", own = true, sync_every = 10, row = "Append", sync_row = "Commit" },
            { signal = "committed" },
        ]
        [task.cleaner]
        measured = false
        steps = [
            { wait = "committed", count = 10 },
            { read = "log", order = "sequential", kib = 64, percent = 100, row = "Clean" },
        ]
        "#,
    );
    assert!(value(&rows, "Ops store Request") > value(&rows, "Ops store Read"));
    for row in ["Request p99", "Read p99", "Append p99", "Commit p99", "Clean p99"] {
        assert!(value(&rows, row) > 0.0, "{row}");
    }
    assert!(value(&rows, "Commit p50") > value(&rows, "Append p50"), "a sync waits for the disk");
    let log = value(&rows, "Pages verified");
    assert!((300.0..500.0).contains(&log), "{log} pages verified, of 2048 pages of memory 20 %");
}

#[test]
fn a_rate_is_kept_and_a_request_that_begins_late_took_longer() {
    let described = |rate: u64| {
        format!(
            "seconds = 2\nfile.data.percent = 300\n[task.reader]\nsteps = [{{ read = \"data\", rate = {rate}, operations = 1000000, row = \"Read\" }}]\n"
        )
    };
    let slow = run("tasks", &described(100));
    assert!((98.0..=102.0).contains(&value(&slow, "Ops tasks")), "{}", value(&slow, "Ops tasks"));
    let slowest = run("tasks", &described(1).replace("rate = 1,", "rate = 0.001,"));
    assert!(value(&slowest, "Ops tasks") > 0.3, "a task that would sleep for 1000 s ends with the run");
    let too_fast = run("tasks", &described(100_000));
    assert!(value(&too_fast, "Ops tasks") < 50_000.0, "the disk is slower");
    assert!(value(&too_fast, "Read max") > 100.0 * value(&slow, "Read p50"), "the wait for its turn counts");
}

#[test]
fn what_a_description_gets_wrong_is_said_with_its_line() {
    let told = |text: &str| {
        let text =
            format!("seconds = 1\nfile.data.percent = 50\nregion.own.percent = 10\n[task.a]\nsteps = [\n{text}\n]\n");
        refused("tasks", &text)
    };
    let cases = [
        ("{ read = \"data\", wirte = 1 }", "params.toml:6", "unknown key `wirte`: did you mean `write`?"),
        ("{ sleep_us = 1 },\n{ read = \"data\", write = \"data\" }", "params.toml:7", "several actions"),
        ("{ operations = 3 }", "params.toml:6", "no action: expected one of read, write"),
        ("{ read = \"data\", kib = 6 }", "params.toml:6", "`kib` is 6"),
        ("{ read = \"data\", store_percent = 6 }", "params.toml:6", "`store_percent` says nothing about this action"),
        ("{ read = \"data\", operations = 1, for_ms = 1 }", "params.toml:6", "expected one of `operations`"),
        ("{ touch = \"own\", rate = -1.0 }", "params.toml:6", "`rate` is -1"),
        ("{ read = \"other\" }", "params.toml:6", "task `a`, `steps`, step 1: no file is called `other`"),
        ("{ touch = \"other\" }", "params.toml:6", "task `a`, `steps`, step 1: no region is called `other`"),
        ("{ wait = \"never\" }, { read = \"data\" }", "params.toml:6", "no step gives the signal `never`"),
        ("{ read = \"data\", percent = 0 }", "params.toml:6", "`percent` is 0: expected at least 1"),
        ("{ sleep_us = 0 }", "params.toml:6", "`sleep_us` is 0"),
        ("{ signal = \"s\", for_ms = 10 }", "params.toml:6", "`for_ms` says nothing about this action"),
        ("{ drop_caches = true }", "params.toml:4", "task `a`: a round takes no time"),
        ("{ read = \"data\", distribution = \"zipf\", theta = 0.0 }", "params.toml:6", "`theta` is 0"),
    ];
    for (text, place, message) in cases {
        let found = told(text);
        assert!(found.contains(place) && found.contains(message), "{text}: {found}");
    }
    assert!(refused("tasks", "[task.a]\nsteps = [{ sleep_us = 1 }]\n").contains("nothing ends the run"));
    let twice = "seconds = 1\noperations = 1\n[task.a]\nsteps = [{ sleep_us = 1 }]\n";
    assert!(refused("tasks", twice).contains("expected one of `operations`, `seconds` and `full_s`"));
    let many = "seconds = 1\n[task.a]\ncount = 1025\nsteps = [{ sleep_us = 1 }]\n";
    assert!(refused("tasks", many).contains("1025 tasks"), "{}", refused("tasks", many));
    let large = "seconds = 1\nregion.own.percent = 5000\n[task.a]\nbefore = [{ map = \"own\" }]\nsteps = [{ touch = \"own\" }]\n";
    assert!(refused("tasks", large).contains("do not fit"), "{}", refused("tasks", large));
}

#[test]
fn tasks_that_would_wait_for_ever_are_refused() {
    let read = "{ read = \"data\" }";
    let told = |tasks: &str| refused("tasks", &format!("seconds = 1\nfile.data.percent = 50\n{tasks}"));
    let circle = told(&format!(
        "[task.a]\nbefore = [{{ wait = \"b\" }}, {{ signal = \"a\" }}]\nsteps = [{read}]\n\
         [task.b]\nsteps = [{{ wait = \"a\" }}, {read}, {{ signal = \"b\" }}]\n"
    ));
    assert!(circle.contains("task `a` in `before`, step 1, for the signal `b`"), "{circle}");
    assert!(!circle.contains("task `b`"), "no task begins its rounds before all others are ready: {circle}");
    let of_rounds = told(&format!(
        "[task.a]\nsteps = [{{ wait = \"b\" }}, {read}, {{ signal = \"a\" }}]\n\
         [task.b]\nsteps = [{{ wait = \"a\" }}, {read}, {{ signal = \"b\" }}]\n"
    ));
    assert!(of_rounds.contains("task `a` in `steps`, step 1, for the signal `b`; task `b` in `steps`"), "{of_rounds}");
    let at_the_gate = told(&format!(
        "[task.a]\nbefore = [{{ wait = \"b\" }}]\nsteps = [{read}]\n\
         [task.b]\nsteps = [{read}, {{ signal = \"b\" }}]\n"
    ));
    assert!(at_the_gate.contains("task `a` in `before`, step 1, for the signal `b`"), "{at_the_gate}");
    let too_few = told(&format!(
        "[task.a]\nrounds = 3\nsteps = [{read}, {{ signal = \"a\" }}]\n\
         [task.b]\ncount = 2\nsteps = [{{ wait = \"a\", count = 4 }}, {read}]\n"
    ));
    assert!(
        too_few.contains("these tasks wait for ever: task `b` in `steps`, step 1, for the signal `a`"),
        "{too_few}"
    );
    let rows = run(
        "tasks",
        &format!(
            "seconds = 1\nfile.data.percent = 50\n[task.a]\nsteps = [{read}, {{ signal = \"a\" }}, {{ wait = \"b\" }}]\n\
             [task.b]\nmeasured = false\nsteps = [{{ wait = \"a\" }}, {read}, {{ signal = \"b\" }}]\n"
        ),
    );
    assert!(value(&rows, "Ops tasks") > 0.0, "two tasks may take turns");
}

#[test]
fn a_region_that_is_not_mapped_is_named() {
    let job = super::job("tasks", "seconds = 1\nregion.own.percent = 10\n[task.a]\nsteps = [{ touch = \"own\" }]\n");
    let workload = lab::grounds::find("tasks").expect("it is listed");
    let error = workload.run(&job, &lab::progress::Progress::default()).expect_err("nothing is mapped").to_string();
    assert!(error.contains("task `a`: region `own` is used while it is not mapped"), "{error}");
}

#[test]
fn a_job_file_of_fio_runs() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build's folder is writable");
    let path = folder.path().join("mixed.fio");
    let text = "[global]\nrw=randrw\nrwmixread=70\nsize=1g\n[psync]\nnumjobs=2\nfsync=64\n[queue]\nioengine=io_uring\niodepth=4\nrate_iops=2k\n";
    std::fs::write(&path, text.replace("2k", "2000")).expect("the folder is writable");
    let experiment = lab::find::experiment(path.to_str().expect("UTF-8")).expect("it is a job file");
    let mut job = super::job("tasks", "");
    job.params = experiment.params;
    let workload = lab::grounds::find(&experiment.workload).expect("it is listed");
    workload.check(&job).expect("the load fits the machine");
    let rows = workload.run(&job, &lab::progress::Progress::default()).expect("the run ends").rows;
    // A gibibyte is 262,144 pages, at a scale of 1/64 4096; each job passes over its file once.
    assert_eq!(value(&rows, "Pages verified"), 3.0 * 4096.0);
    for row in ["psync read p99", "psync write p99", "psync sync p50", "queue read p99", "Ops mixed queue write"] {
        assert!(value(&rows, row) > 0.0, "{row}");
    }
    assert!(!rows.iter().any(|row| row.name.starts_with("queue sync")), "this job does not sync");
}

#[test]
fn what_is_stored_through_a_shared_mapping_is_verified() {
    let rows = run(
        "tasks",
        r#"
        operations = 500
        file.table.percent = 150
        region.view.file = "table"
        [task.mapped]
        count = 2
        before = [{ map = "view" }]
        steps = [{ touch = "view", store_percent = 60, row = "Touch" }, { sync = "table" }]
        [task.plain]
        steps = [{ read = "table", write_percent = 30, row = "Read" }]
        "#,
    );
    assert_eq!(value(&rows, "Pages verified"), 3072.0);
    assert!(value(&rows, "pgmajfault") > 0.0);
    // The pages are verified, and counted, where nothing writes but stores, too.
    let stores = "operations = 100\nfile.table.percent = 50\nregion.view.file = \"table\"\n[task.mapped]\nbefore = [{ map = \"view\" }]\nsteps = [{ touch = \"view\", store_percent = 100 }]\n";
    assert_eq!(value(&run("tasks", stores), "Pages verified"), 1024.0);
}

#[test]
fn a_child_has_the_memory_as_it_was_at_the_fork_and_its_rows_are_reported() {
    let load = |child: &str| {
        format!(
            r#"
            seconds = 2
            file.dump.percent = 60
            region.data.percent = 60
            [task.store]
            before = [{{ map = "data" }}]
            child_rounds = 10
            child = [{child}]
            steps = [
                {{ fork = true, row = "Fork" }},
                {{ touch = "data", store_percent = 50, operations = 2000, row = "Request" }},
            ]
            "#
        )
    };
    let snapshot = r#"{ touch = "data", order = "sequential", percent = 10, row = "Look" },
        { write = "dump", order = "sequential", kib = 64, percent = 10, row = "Save" }"#;
    let rows = run("tasks", &load(snapshot));
    for row in ["Fork p50", "Request p99", "Look p50", "Save p50"] {
        assert!(value(&rows, row) > 0.0, "{row}");
    }
    assert!(value(&rows, "pswpout") > 0.0, "copies and the written file do not fit beside the data");
    // The run does not wait for a child that goes on for an hour.
    run("tasks", &load("{ sleep_us = 360_000_000 }"));
}

#[test]
fn forks_that_make_no_sense_are_refused() {
    let told = |text: &str| {
        refused("tasks", &format!("seconds = 1\nfile.data.percent = 50\nregion.own.percent = 10\n{text}\n"))
    };
    let reads = "{ read = \"data\" }";
    for (task, message) in [
        (format!("steps = [{reads}, {{ fork = true }}]"), "`steps`: one forks, but the child has no steps"),
        (format!("steps = [{reads}]\nchild = [{reads}]"), "no step starts the child"),
        (
            format!("before = [{{ fork = true }}]\nsteps = [{reads}]\nchild = [{reads}]"),
            "params.toml:5: task `a`, `before`: it forks",
        ),
        (
            format!("steps = [{reads}, {{ fork = true }}]\nchild = [{{ map = \"own\" }}]"),
            "`child`, step 1: a child reads",
        ),
        (
            format!("steps = [{reads}, {{ fork = true }}]\nchild = [{reads}]\nchild_rounds = 0"),
            "`child_rounds`: expected at least 1",
        ),
        (
            format!(
                "steps = [{reads}, {{ fork = true }}]\nchild = [{{ touch = \"view\" }}]\n[region.view]\nfile = \"data\""
            ),
            "a child has none of these",
        ),
    ] {
        let found = told(&format!("[task.a]\n{task}"));
        assert!(found.contains(message), "{task}: {found}");
    }
}

#[test]
fn a_write_of_a_child_that_is_broken_off_leaves_either_contents_and_other_tasks_write_on() {
    // `first` ends, and with it its child, in the middle of a write of four MiB to all of the file.
    let rows = run(
        "tasks",
        r#"
        seconds = 1
        file.data.mib = 16
        region.own.percent = 10
        [task.first]
        measured = false
        rounds = 3
        before = [{ map = "own" }]
        steps = [{ fork = true }, { sleep_us = 40_000 }]
        child = [{ write = "data", kib = 4096 }]
        child_rounds = 1_000_000_000
        [task.second]
        steps = [{ sleep_us = 50_000 }, { write = "data", kib = 64, operations = 10, row = "Write" }]
        "#,
    );
    assert!(value(&rows, "Write p50") > 0.0 && value(&rows, "Pages verified") > 0.0);
}

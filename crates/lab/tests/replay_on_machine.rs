//! Tests of `replay --memory`, of `--what-if`, and of traces as experiments.

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use trace::{Flags, Kind, Metadata, Names, Operation, Request, Writer};

struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a command that must end with a status. Returns what it prints and what it says. Words are split at blanks.
    fn ends(&self, status: i32, line: &str) -> (String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        let output = command.args(line.split(' ')).current_dir(self.0.path()).output().expect("the binary was built");
        let said = String::from_utf8(output.stderr).expect("messages are UTF-8");
        assert_eq!(output.status.code(), Some(status), "{line}: {said}");
        (String::from_utf8(output.stdout).expect("reports are UTF-8"), said)
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ends(0, &format!("{line} --format json")).0).expect("JSON")
    }

    /// Writes a trace with names for `files` files.
    fn trace(&self, name: &str, files: u32, metadata: &Value, requests: &[Request]) {
        let file = fs::File::create(self.path(name)).unwrap();
        let mut writer = Writer::new(file, Kind::Ranges).unwrap();
        requests.iter().for_each(|request| writer.push(request).unwrap());
        let mut names = Names::new();
        (0..files).for_each(|number| {
            names.push(format!("/data/{number}").as_bytes());
        });
        let metadata: Metadata = serde_json::from_value(metadata.clone()).unwrap();
        writer.finish(&names, &Names::new(), &metadata).unwrap();
    }
}

const PAGE: u64 = 4096;

/// Returns a request of the open file with the number of the file and 1.
fn request(operation: Operation, file: u32, offset: u64, len: u64) -> Request {
    Request { operation, file, offset, len, handle: file + 1, ..Request::default() }
}

/// Returns reads of 64 KiB of a file of 16 MiB, from the beginning to the end, as often as `passes` says.
fn passes(passes: u64) -> Vec<Request> {
    let pass = (0..256).map(|n| request(Operation::Read, 0, n * 65_536, 65_536));
    (0..passes).flat_map(|_| pass.clone()).collect()
}

fn figure(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("no {key} in {row}"))
}

#[test]
fn a_load_that_fits_is_read_once_and_one_that_does_not_is_read_again() {
    let desk = Desk::new();
    let metadata = serde_json::json!({"file_bytes": {"0": 16 << 20}, "readahead_kib": {"8:0": 128}});
    desk.trace("twice.hwtrace", 1, &metadata, &passes(2));
    let line = "replay twice.hwtrace --memory 8M,32M --kernels 6.1-classic";
    let (text, _) = desk.ends(0, line);
    let expected = "With a quarter of the memory (8M in place of 32M) and 6.1-classic, the load reads 2.0 times";
    assert!(text.starts_with(expected), "{text}");
    for part in ["refaults", "±10 % memory", "read_ahead_kb is 128, as recorded", "highwater compare twice.hwtrace"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(desk.ends(0, &format!("{line} --jobs 1")).0, text, "a simulation repeats");
    let found = desk.json(line);
    let rows = found["rows"].as_array().unwrap();
    assert_eq!((rows.len(), figure(&rows[1], "pages_read")), (2, 4096.0));
    let small = figure(&rows[0], "pages_read");
    // Two passes over a file that does not fit: nearly all of the second pass is read again.
    assert!(small > 7000.0 && small <= 8192.0, "{found}");
    assert_eq!(figure(&rows[1], "workingset_refault_file"), 0.0);
    assert_eq!((rows[0]["memory_bytes"].as_u64(), rows[0]["kernel"].as_str()), (Some(8 << 20), Some("6.1-classic")));
    assert!(figure(&rows[0], "elapsed_s") > figure(&rows[1], "elapsed_s"));
    let (csv, _) = desk.ends(0, &format!("{line} --format csv"));
    assert!(csv.starts_with("memory_bytes,kernel,values,pages_read,") && csv.lines().count() == 3, "{csv}");
}

#[test]
fn a_load_that_reads_more_than_it_uses_says_why_its_hit_ratio_is_0() {
    let desk = Desk::new();
    let metadata = serde_json::json!({"file_bytes": {"0": 16 << 20}, "readahead_kib": {"8:0": 128}});
    // Readahead reads more than the one page.
    desk.trace("one.hwtrace", 1, &metadata, &[request(Operation::Read, 0, 0, PAGE)]);
    let (text, _) = desk.ends(0, "run one.hwtrace --kernel 6.1-classic");
    assert!(text.contains("Hit ratio") && text.contains("than accessed (1)"), "{text}");
    desk.trace("two.hwtrace", 1, &metadata, &passes(1));
    let (text, _) = desk.ends(0, "run two.hwtrace --kernel 6.1-classic");
    assert!(text.contains("Hit ratio") && !text.contains("than accessed"), "{text}");
}

#[test]
fn what_if_has_a_line_for_each_combination_and_draws_a_picture() {
    let desk = Desk::new();
    desk.trace("load.hwtrace", 1, &serde_json::json!({}), &passes(2));
    let line =
        "replay load.hwtrace --what-if memory=8M,12M read_ahead_kb=16,128 kernel=6.1-classic,6.1-mglru --plot p.svg";
    let found = desk.json(line);
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8, "{found}");
    let values: Vec<&str> = rows.iter().filter_map(|row| row["values"].as_str()).collect();
    assert!(values.contains(&"read_ahead_kb=16") && values.contains(&"read_ahead_kb=128"), "{values:?}");
    assert!(rows.iter().all(|row| figure(row, "pages_read") >= 4096.0), "{found}");
    let picture = fs::read_to_string(desk.path("p.svg")).unwrap();
    assert!(picture.contains("6.1-mglru read_ahead_kb=16") && picture.contains("memory, MiB"));
    let (text, _) = desk.ends(0, "replay load.hwtrace --what-if swappiness=10,60 memory=8M --runs 2");
    let text = text.replace('\n', " ");
    assert!(text.contains("swappiness=10 and swappiness=60 make no difference to this load."), "{text}");
    assert!(text.contains("The figures are medians of 2 seeds."), "{text}");
    let (_, said) = desk.ends(2, "replay load.hwtrace --what-if swapiness=10 memory=8M");
    assert!(said.contains("--what-if swapiness: unknown key: did you mean `swappiness`?"), "{said}");
    let (_, said) = desk.ends(2, "replay load.hwtrace --what-if swappiness=10");
    assert!(said.contains("how much memory? Expected memory=1G,2G"), "{said}");
}

/// Everything that a trace can do to files. Contents are verified after each read, and at the end.
fn lively() -> Vec<Request> {
    use Operation::*;
    let mut all = Vec::new();
    for round in 0..40_u64 {
        let file = 1 + (round % 5) as u32;
        all.push(request(Open, file, 0, 0));
        // A log that grows by pieces that are no whole pages.
        for n in 0..20 {
            all.push(request(Write, file, (round / 5) * 60_000 + n * 3000, 3000));
        }
        all.push(request(Read, file, (round / 5) * 60_000, 60_000));
        all.push(request(Sync, file, 0, 0));
        // A gap, and a read over it.
        all.push(request(Write, file, 600_000 + round * 20_000, 100));
        all.push(request(Read, file, 590_000, 30_000 + round * 20_000));
        // A table that is replaced in parts and as a whole.
        all.push(request(Write, 0, (round * 7 % 100) * PAGE, 3 * PAGE));
        all.push(request(Write, 0, (round * 11 % 100) * PAGE + 100, 50));
        all.push(request(Read, 0, 0, 103 * PAGE));
        if round % 7 == 3 {
            all.push(request(Truncate, file, 10_000, 0));
            all.push(request(Write, file, 9_000, 5_000));
        }
        all.push(request(AdviseRandom, 0, 0, 0));
        all.push(request(AdviseWillNeed, 0, 0, 50 * PAGE));
        all.push(request(AdviseDontNeed, 0, 50 * PAGE, 50 * PAGE));
        all.push(request(AdviseNormal, 0, 0, 0));
        if round % 5 == 4 {
            all.push(request(Delete, file, 0, 0));
        }
        all.push(request(Close, file, 0, 0));
    }
    // A mapping, private and shared, beside the reads.
    for (handle, flags) in [(90, Flags::SHARED), (91, Flags::NONE)] {
        let mapped = |operation, page: u64| Request {
            operation,
            file: 0,
            offset: page * PAGE,
            len: if operation == Map || operation == Unmap { 103 * PAGE } else { PAGE },
            handle,
            flags: if operation == Map { flags } else { Flags::NONE },
            ..Request::default()
        };
        all.push(mapped(Map, 0));
        (0..103).for_each(|n| all.push(mapped(Load, n * 37 % 103)));
        (0..20).for_each(|n| all.push(mapped(Store, n * 5)));
        (0..103).for_each(|n| all.push(mapped(Load, n)));
        all.push(mapped(Unmap, 0));
    }
    all
}

fn row(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
    // Shares of other columns stand in brackets behind the figures.
    line.split_whitespace().rev().find_map(|word| word.parse().ok()).unwrap_or_else(|| panic!("no figure: {line}"))
}

#[test]
fn a_trace_is_an_experiment_whose_contents_are_verified() {
    let desk = Desk::new();
    let sample = |time_us: u64, anon: u64| serde_json::json!({"time_us": time_us, "anon_bytes": anon});
    let metadata =
        serde_json::json!({"file_bytes": {"0": 103 * PAGE}, "rss": [sample(0, 1 << 20), sample(9, 5 << 20)]});
    desk.trace("lively.hwtrace", 6, &metadata, &lively());
    for depth in ["1", "4"] {
        let line = format!("compare ./lively.hwtrace --kernels 6.1-mglru --all --set params.depth={depth}");
        let (text, _) = desk.ends(0, &format!("{line} --set machine.memory.limit_pages=2048"));
        assert!(row(&text, "Pages verified") > 100.0 && row(&text, "Page accesses") > 5000.0, "{text}");
        assert!(row(&text, "Pages written") > 0.0, "{text}");
    }
    // A machine that is too small for the recorded memory.
    let (_, said) = desk.ends(2, "replay lively.hwtrace --memory 4M --kernels 6.1-classic");
    assert!(said.contains("the trace has 5 MiB of memory that is no file"), "{said}");
}

/// Two open files of one file write, read and truncate it, while other tasks use other files.
#[test]
fn a_file_that_two_handles_truncate_is_verified_at_each_depth() {
    use Operation::{Read, Truncate, Write};
    let desk = Desk::new();
    let of = |operation, handle, offset, len| Request { handle, ..request(operation, 0, offset, len) };
    let mut all = Vec::new();
    for _ in 0..40 {
        for n in 0..32_u32 {
            let (handle, at) = (10 + n % 2, u64::from(n));
            all.push(of(Write, handle, at * 3000 % 70_000, 9000));
            all.push(of(Read, 21 - handle, at * 7000 % 60_000, 16_384));
            all.push(request(Write, 1 + n % 3, at * PAGE, 2 * PAGE));
            if n % 5 == 4 {
                all.push(of(Truncate, 21 - handle, at * 1000, 0));
            }
        }
    }
    desk.trace("cut.hwtrace", 4, &serde_json::json!({}), &all);
    for depth in ["1", "4"] {
        let line = format!("compare ./cut.hwtrace --kernels 6.1-mglru --all --set params.depth={depth}");
        let (text, _) = desk.ends(0, &format!("{line} --set machine.memory.limit_pages=1024"));
        assert!(row(&text, "Pages verified") >= 64.0, "{text}");
    }
}

#[test]
fn a_trace_runs_on_every_ground_that_this_computer_permits() {
    let desk = Desk::new();
    let metadata = serde_json::json!({"file_bytes": {"0": 103 * PAGE}});
    desk.trace("lively.hwtrace", 6, &metadata, &lively());
    let mut line =
        "compare ./lively.hwtrace --kernels 6.1-classic --all --set machine.memory.limit_pages=4096".to_owned();
    if cfg!(feature = "linux") {
        let folder = desk.path("files");
        fs::create_dir(&folder).unwrap();
        line += " --on sim,host,linux --dir files";
    }
    let (text, _) = desk.ends(0, &line);
    assert!(row(&text, "Pages verified") > 100.0, "{text}");
}

#[test]
fn wrong_usage_is_refused_before_anything_runs() {
    let desk = Desk::new();
    desk.trace("load.hwtrace", 1, &serde_json::json!({}), &passes(1));
    fs::write(desk.path("keys"), "a\nb\na\n").unwrap();
    for (line, expected) in [
        ("replay keys --memory 16M", "it is a trace of cached objects, which are no files"),
        ("replay load.hwtrace --kernels 6.1-classic", "--kernels is for a trace on a machine"),
        ("replay load.hwtrace --memory 16M --sizes 10%", "cannot be used with"),
        ("replay load.hwtrace --memory 16M --threads 2", "cannot be used with"),
        ("replay load.hwtrace --what-if memory=16M --accesses-max 1000", "cannot be used with"),
        ("replay load.hwtrace --seed 2", "--seed is for a trace on a machine: expected --memory or --what-if"),
        ("replay load.hwtrace --runs 3", "--runs is for a trace on a machine"),
        ("replay load.hwtrace --jobs 1", "--jobs is for a trace on a machine"),
        ("replay load.hwtrace --memory 16", "expected a size from 4M to 1T"),
        ("replay load.hwtrace --memory 16M --kernels 6.18-mglru", "no kernel is called `6.18-mglru`"),
        ("replay load.hwtrace --memory 16M --machine randread-4nodes", "zones, whose sizes --memory cannot choose"),
        ("compare ./none.hwtrace", "none.hwtrace: "),
        ("replay load.hwtrace --warm-up 100%", "no request is left to be counted"),
        ("replay load.hwtrace --warm-up 99999", "none is left to be counted"),
        ("replay load.hwtrace --accesses-max 1000", "more accesses than --accesses-max permits"),
        ("trace info load.hwtrace --follow 0", "--follow 0: expected a number from 1 on"),
        ("replay load.hwtrace --plot x.svg --output x.svg", "--plot and --output name the same file"),
    ] {
        let (printed, said) = desk.ends(2, line);
        assert!(said.contains(expected) && printed.is_empty(), "{line}: {said}");
    }
}

#[test]
fn a_trace_is_read_whole_packed_or_from_a_pipe() {
    let desk = Desk::new();
    desk.trace("load.hwtrace", 1, &serde_json::json!({}), &passes(2));
    let bytes = fs::read(desk.path("load.hwtrace")).unwrap();
    let packed = fs::File::create(desk.path("load.hwtrace.gz")).unwrap();
    let mut packer = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    std::io::Write::write_all(&mut packer, &bytes).unwrap();
    packer.finish().unwrap();
    let plain = desk.json("replay load.hwtrace --policies lru");
    let of_packed = desk.json("replay load.hwtrace.gz --policies lru");
    assert_eq!(plain["rows"], of_packed["rows"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command
        .args(["replay", "-", "--policies", "lru", "--format", "json"])
        .stdin(fs::File::open(desk.path("load.hwtrace")).unwrap());
    let output = command.output().unwrap();
    let piped: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plain["rows"], piped["rows"]);
    let [plain, packed] = ["load.hwtrace", "load.hwtrace.gz"]
        .map(|name| desk.json(&format!("replay {name} --memory 12M --kernels 6.1-classic"))["rows"].clone());
    assert_eq!(plain, packed);
}

#[test]
fn the_command_for_other_reports_works_for_a_trace_that_was_converted() {
    let desk = Desk::new();
    let mut text = "ts,lba,bytes\n".to_owned();
    (0..200).for_each(|n| text += &format!("{n},{},65536\n", n * 128));
    fs::write(desk.path("load.csv"), text).unwrap();
    let line = "replay load.csv --columns time=ts:ms,offset=lba:512,size=bytes --memory 8M --kernels 6.1-classic";
    let found = desk.json(&format!("{line} --machine trace-1g"));
    let notes = found["notes"].as_array().unwrap();
    let told = notes.iter().filter_map(Value::as_str).find(|note| note.starts_with("Other rows")).expect("a note");
    let (_, commands) = told.split_once(": highwater ").unwrap();
    let (convert, compare) = commands.split_once(" && highwater ").unwrap();
    assert_eq!(convert, "trace convert load.csv --columns time=ts:ms,offset=lba:512,size=bytes --output load.hwtrace");
    assert_eq!(compare, "compare load.hwtrace --machine trace-1g --set machine.memory.limit_pages=2048");
    desk.ends(0, convert);
    desk.ends(0, &format!("{compare} --kernels 6.1-classic"));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_no_converted_trace() {
    let desk = Desk::new();
    let is_there = || fs::read_dir(desk.0.path()).unwrap().count() > 0;
    // The converted trace is begun before the trace comes from the pipe, which stays open.
    let mut child = Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(["replay", "-", "--memory", "8M"])
        .env("TMPDIR", desk.0.path())
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let pipe = child.stdin.take();
    while !is_there() {
        assert!(child.try_wait().unwrap().is_none(), "the command waits for the trace");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // A shell makes commands in the background ignore SIGINT. Tests may run there, so SIGTERM is sent.
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("there is a `kill`");
    assert!(told.success() && !child.wait().unwrap().success());
    assert!(!is_there(), "the converted trace stays");
    drop(pipe);
}

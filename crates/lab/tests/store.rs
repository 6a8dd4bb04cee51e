//! Tests that stored runs are not repeated, and that reports from them are the same to the last byte.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn highwater(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the binary was built for this test")
}

/// Runs a command that must succeed. Returns its standard output and standard error.
fn print(arguments: &[&str]) -> (String, String) {
    let output = highwater(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    (String::from_utf8(output.stdout).expect("reports are UTF-8"), said)
}

/// Runs a command that must end with `status`. Returns its message.
fn message(status: i32, arguments: &[&str]) -> String {
    let output = highwater(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    said
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("a temporary file");
        self.path(name)
    }
}

/// Returns the files in a folder with their contents.
fn files(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let of = |path: PathBuf| (path.file_name().expect("a name").into(), fs::read(&path).expect("readable"));
    let mut files: Vec<_> = entries.map(|entry| of(entry.expect("readable").path())).collect();
    files.sort();
    files
}

const SMALL: [&str; 6] = ["compare", "randread", "--scale", "1/64", "--kernels", "highwater,3.10-rc4-vanilla"];

#[test]
fn a_run_that_is_there_is_not_done_again_and_the_report_is_the_same() {
    let folder = Folder::new();
    let store = folder.path("runs");
    let plain = print(&SMALL).0;
    let kept = [SMALL.as_slice(), &["--store", &store]].concat();
    let (first, said) = print(&kept);
    assert!(first == plain && !said.contains("found in the store"), "{said}");
    let before = files(&store);
    assert_eq!(before.len(), 2);
    let (second, said) = print(&kept);
    assert_eq!(second, plain);
    assert!(said.contains("2 runs, 2 found in the store"), "{said}");
    assert_eq!(files(&store), before);
    // With one more seed, the runs in the store are used, and only the new runs are done.
    let (_, said) = print(&[&kept, ["--runs", "2"].as_slice()].concat());
    assert!(said.contains("4 runs, 2 found in the store"), "{said}");
    // A run with any change is another run.
    for more in [["--set", "lru.batch=3"], ["--scale", "1/32"], ["--set", "machine.cpu.count=2"], ["--seed", "9"]] {
        let base = if more[0] == "--scale" { [&SMALL[..2], &SMALL[4..]].concat() } else { SMALL.to_vec() };
        let (_, said) = print(&[&base, ["--store", &store].as_slice(), &more].concat());
        assert!(!said.contains("found in the store"), "{more:?}: {said}");
    }
    // Counters over time are not kept in the store. The run is done again for them, and agrees with the stored one.
    let series = folder.path("series.csv");
    let (third, said) = print(&[&kept, ["--series", &series].as_slice()].concat());
    assert!(third == plain && !said.contains("found in the store"), "{said}");
    // `ablate` also keeps its runs in the store.
    let ablate = ["ablate", "randread", "--scale", "1/64", "--rows", "randread", "--from", "highwater"];
    let ablate = [&ablate, ["--to", "highwater+lru.batch=3", "--store", &store].as_slice()].concat();
    let (first, _) = print(&ablate);
    let (second, said) = print(&ablate);
    assert!(first == second && said.contains(" found in the store"), "{said}");
}

#[test]
fn a_damaged_file_is_named_and_left_alone() {
    let folder = Folder::new();
    let store = folder.path("runs");
    let kept = [SMALL.as_slice(), &["--store", &store]].concat();
    print(&kept);
    let path = Path::new(&store).join(&files(&store)[0].0);
    fs::write(&path, "PAR1 and nothing else").unwrap();
    for arguments in
        [kept.as_slice(), &["results", &store], &["results", "merge", &store, "--into", &folder.path("all")]]
    {
        let said = message(1, arguments);
        assert!(said.contains(&format!("{}: damaged: ", path.display())), "{said}");
    }
    assert_eq!(fs::read(&path).unwrap(), b"PAR1 and nothing else");
    let said = message(2, &[&SMALL, ["--store", path.to_str().unwrap()].as_slice()].concat());
    assert!(said.contains("cannot keep runs in"), "{said}");
    let said = message(2, &["compare", "randread", "--on", "host", "--store", &store]);
    assert!(said.contains("--store keeps simulated runs"), "{said}");
}

const SWEEP: &str = "experiments = [\"randread\"]\nkernels = [\"highwater\", \"3.10-rc4-vanilla\"]\nscales = [\"1/64\"]\n\
    runs = 2\n[set]\nlru.batch = [3, 14]\n";

#[test]
fn parts_of_a_sweep_joined_are_the_whole_to_the_last_byte() {
    let folder = Folder::new();
    let file = folder.file("sweep.toml", SWEEP);
    let [whole, a, b, all] = ["whole", "a", "b", "all"].map(|name| folder.path(name));
    let sweep = |store: &str, more: &[&str]| print(&[&["sweep", &file, "--store", store], more].concat());
    let (report, _) = sweep(&whole, &[]);
    let (part, _) = sweep(&a, &["--shard", "1/2"]);
    assert_eq!(part, "part 1 of 2: 4 runs done, 0 there before; the store has 4 of 8\n");
    sweep(&b, &["--shard", "2/2"]);
    let (merged, _) = print(&["results", "merge", &a, &b, "--into", &all]);
    assert!(merged.ends_with("all: 8 runs\n"), "{merged}");
    assert_eq!(files(&all), files(&whole), "the stores are the same to the last byte");
    let (joined, said) = sweep(&all, &[]);
    assert!(joined == report && said.contains("8 runs, 8 found in the store"), "{said}");
    for format in ["csv", "json", "markdown", "list"] {
        let of = |store| sweep(store, &["--format", format]).0;
        assert_eq!(of(&all), of(&whole), "{format}");
    }
    let parquet = folder.path("joined.parquet");
    sweep(&all, &["--format", "parquet", "--output", &parquet]);
    assert!(fs::read(&parquet).unwrap().starts_with(b"PAR1"));
    // Only a run that was lost is done again.
    fs::remove_file(Path::new(&all).join(&files(&all)[3].0)).unwrap();
    let (joined, said) = sweep(&all, &[]);
    assert!(joined == report && said.contains("8 runs, 7 found in the store"), "{said}");
    let (dry, _) = sweep(&all, &["--dry-run", "--shard", "2/2"]);
    assert!(dry.contains("4 of 8 runs\n  there  randread"), "{dry}");
}

#[test]
fn results_has_the_same_table_and_finds_runs() {
    let folder = Folder::new();
    let store = folder.path("runs");
    let kernels = ["compare", "randread", "--scale", "1/64", "--runs", "2", "--all", "--store", &store];
    let (report, _) = print(&kernels);
    assert_eq!(print(&["results", &store]).0, report, "columns stand as in the comparison");
    let sizes = folder.path("sizes");
    let (report, _) =
        print(&["compare", "anon", "--scale", "1/64", "--set", "lru.batch=4,14", "--all", "--store", &sizes]);
    assert_eq!(print(&["results", &sizes]).0, report, "a value of 4 is before one of 14");
    let long = folder.path("long");
    let set = ["lru.batch=14", "memory.min_free_kbytes=4096", "memory.watermark_boost_factor=0"];
    let set = set.iter().flat_map(|value| ["--set", value]).collect::<Vec<_>>();
    print(&[&["run", "anon", "--kernel", "highwater", "--scale", "1/64", "--store", &long][..], &set].concat());
    let (list, _) = print(&["results", &long, "--format", "list"]);
    assert_eq!(list.lines().count(), 2, "a line for each run: {list}");
    let (page, _) = print(&["results", &store, "--format", "html"]);
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("highwater results "), "{page}");
    print(&["results", "merge", &store, "--into", &sizes]);
    let (page, _) = print(&["results", &sizes, "--format", "html"]);
    assert_eq!((page.matches(">anon").count() > 0, page.matches(">randread").count() > 0), (true, true), "{page}");
    let (csv, _) = print(&["results", &store, "--where", "kernel=highwater", "--where", "seed=2", "--format", "csv"]);
    let mut lines = csv.lines();
    assert!(lines.next().unwrap().starts_with("experiment,machine,scale,kernel,seed,group,name,unit,"), "{csv}");
    assert!(lines.all(|line| line.contains(",highwater,2,")), "{csv}");
    assert_eq!(print(&["results", &store, "--format", "list"]).0.lines().count(), 5);
    assert!(message(2, &["results", &store, "--where", "kernel=none"]).contains("no run has `none`, only"));
    assert!(message(2, &["results", &folder.path("none")]).contains("there is no such folder"));
    let file = folder.path("file");
    fs::write(&file, "").expect("a temporary file");
    assert_eq!(message(2, &["results", &file]), format!("error: {file}: it is not a folder\n"));
    let into = message(2, &["results", "merge", &store, "--into", &file]);
    assert_eq!(into, format!("error: cannot keep runs in {file}: it is not a folder\n"));
    assert!(message(2, &["results", &store, "--format", "parquet"]).contains("needs --output"));
}

/// Returns the command that starts Python (`HIGHWATER_PYTHON` or `python3`); `None` if there is none or if it cannot
/// import these packages.
fn python(packages: &str) -> Option<String> {
    let named = std::env::var("HIGHWATER_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&named).args(["-c", &format!("import {packages}")]).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success()).then_some(named)
}

#[test]
fn duckdb_polars_and_pandas_read_a_store_as_it_lies() {
    let Some(python) = python("duckdb, polars, pandas, pyarrow") else {
        eprintln!("skipped: no python3 with duckdb, polars, pandas and pyarrow (HIGHWATER_PYTHON names another)");
        return;
    };
    let folder = Folder::new();
    let store = folder.path("runs");
    print(&[&SMALL, ["--store", &store, "--set", "lru.batch=3,14"].as_slice()].concat());
    let script = "import sys, duckdb, polars as pl, pandas as pd\n\
        store = sys.argv[1]\n\
        where = \"kernel = 'highwater' and name like '%Hit%' and json_extract_string(\\\"set\\\", '$.\\\"lru.batch\\\"') = '3'\"\n\
        a = duckdb.sql(f\"select sum(value), any_value(seed) from '{store}/*.parquet' where {where}\").fetchall()[0]\n\
        b = pl.read_parquet(f'{store}/*.parquet').filter((pl.col('kernel') == 'highwater') & pl.col('name').str.contains('Hit')\n\
            & (pl.col('set').str.json_path_match('$[\\\"lru.batch\\\"]') == '3'))\n\
        c = pd.read_parquet(store)\n\
        c = c[(c.kernel == 'highwater') & c.name.str.contains('Hit') & c.set.str.contains('\\\"3\\\"')]\n\
        assert b.schema['seed'] == pl.UInt64 and b.schema['value'] == pl.Float64, b.schema\n\
        print(repr(a[0]), a[1], repr(b['value'].sum()), repr(float(c.value.sum())))\n";
    let output = Command::new(python).args(["-c", script, &store]).output().expect("it was there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words[1] == "1" && words[0] == words[2] && words[0] == words[3] && words[0] != "0.0", "{text}");
}

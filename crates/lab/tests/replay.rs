//! Tests of the verb `replay` from end to end.

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).expect("a temporary file");
    }

    /// Runs the command `line`, which must end with the exit status `status`. Returns the command's standard output and
    /// standard error. Words of the line are split at blanks.
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
}

/// Returns the text of a trace that requests a hundred keys in a loop, twenty times.
fn round() -> String {
    (0..2000).map(|n| format!("{}\n", n % 100)).collect()
}

/// Returns the text of a trace in Twitter's form with 3000 requests. Each object (key and value together) has 100 or
/// 1000 bytes.
fn sized() -> String {
    (0..3000_u64)
        .map(|n| {
            let key = n * n % 61 + n % 7;
            format!("{n},k{key},2,{},1,get,0\n", if key % 5 == 0 { 998 } else { 98 })
        })
        .collect()
}

#[test]
fn the_answer_comes_first_and_a_table_follows() {
    let desk = Desk::new();
    desk.file("round", round());
    let (text, said) = desk.ends(0, "replay round --policies lru,optimal,lirs --sizes 20%,50%,100");
    assert_eq!(said, "");
    let expected = "With room for 50 % of the objects, lirs misses least: ";
    assert!(text.starts_with(expected) && text.contains("; lru misses 100.00 %"), "{text}");
    for part in ["20 %", "100", "policy", "optimal", "round: 2,000 requests for 100 different objects."] {
        assert!(text.contains(part), "no {part}: {text}");
    }
    let rows = desk.json("replay round --policies lru,optimal --sizes 50%,100");
    let misses: Vec<u64> = rows["rows"].as_array().unwrap().iter().map(|row| row["misses"].as_u64().unwrap()).collect();
    assert_eq!((misses[0], misses[1], misses[3]), (2000, 100, 100));
    assert!(misses[2] < 1100, "{misses:?}");
    let after = desk.json("replay round --policies lru --sizes 100 --warm-up 5%");
    assert_eq!((&after["warm_up"], &after["rows"][0]["misses"]), (&Value::from(100), &Value::from(0)));
}

#[test]
fn policies_that_miss_equally_often_are_all_named() {
    let desk = Desk::new();
    desk.file("round", round());
    let (text, _) = desk.ends(0, "replay round --policies fifo,lru --sizes 50%");
    let expected = "With room for 50 % of the objects, fifo, lru miss least, and equally often: 100.00 %";
    assert!(text.replace('\n', " ").starts_with(expected) && !text.contains("; lru"), "{text}");
}

#[test]
fn every_policy_replays_and_every_form_is_written() {
    let desk = Desk::new();
    desk.file("round", round());
    let (csv, _) = desk.ends(0, "replay round --policies all --sizes 10%,50% --format csv");
    let policies: Vec<&str> = csv.lines().skip(1).step_by(2).map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(policies, cache::Kind::ALL.map(cache::Kind::name));
    assert!(csv.starts_with("policy,size,capacity,unit,miss_ratio,"), "{csv}");
    assert!(csv.contains("lru,50%,50,objects,1.000000,,1.000000,,2000,"), "{csv}");
    let (one, two) = (desk.ends(0, "replay round --threads 1"), desk.ends(0, "replay round --threads 2"));
    assert_eq!(one, two, "threads change nothing");
    let (page, _) = desk.ends(0, "replay round --format html --plot curves.svg");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("room, % of the objects"), "{page}");
    assert!(fs::read_to_string(desk.path("curves.svg")).unwrap().contains("</svg>"));
    assert!(desk.ends(0, "replay round --format markdown").0.contains("| policy "));
}

#[test]
fn objects_take_the_room_of_their_sizes() {
    let desk = Desk::new();
    desk.file("sized", sized());
    let report = desk.json("replay sized --policies lru,s3-fifo --sizes 10K,50%");
    assert_eq!((&report["unit"], &report["rows"][0]["capacity"]), (&"bytes".into(), &(10 << 10).into()));
    let row = &report["rows"][0];
    let [misses, bytes] = ["miss_ratio", "byte_miss_ratio"].map(|key| row[key].as_f64().unwrap());
    assert!(misses > 0.0 && (bytes - misses).abs() > 0.001, "{row}");
    let (text, _) = desk.ends(0, "replay sized --sizes 50%");
    assert!(text.contains("Missed bytes, % of the requested bytes") && text.contains("multigen"), "{text}");
    let (_, said) = desk.ends(2, "replay sized --policies classic --sizes 10K");
    assert!(said.contains("the policy classic counts pages, and not bytes"), "{said}");
    let (_, said) = desk.ends(2, "replay sized --sizes 10K,100");
    assert!(said.contains("a cache of objects counts objects or bytes"), "{said}");
}

#[test]
fn a_sample_states_its_error() {
    let desk = Desk::new();
    let keys: String =
        (0..60_000_u64).map(|n| format!("{}\n", (n * 7919 % 20_011).min(n * 104_729 % 20_011))).collect();
    desk.file("keys", keys);
    let exact = desk.json("replay keys --policies lru,sieve --sizes 10%,30%");
    for sample in ["10%", "3000"] {
        let line = format!("replay keys --policies lru,sieve --sizes 10%,30% --sample {sample}");
        let sampled = desk.json(&line);
        for (exact, sampled) in exact["rows"].as_array().unwrap().iter().zip(sampled["rows"].as_array().unwrap()) {
            let [exact, ratio, error] =
                [&exact["miss_ratio"], &sampled["miss_ratio"], &sampled["error"]].map(|it| it.as_f64().unwrap());
            assert!((exact - ratio).abs() < 5.0 * error + 0.01, "{exact} {ratio} {error}");
        }
        let (text, _) = desk.ends(0, &line);
        assert!(text.contains(" ±") && text.contains("± is the standard error"), "{text}");
    }
}

#[test]
fn wrong_usage_and_wrong_traces_are_told() {
    let desk = Desk::new();
    desk.file("round", round());
    desk.file("empty", "");
    desk.file("torn", [0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3]);
    for (line, expected) in [
        ("replay round --policies mru", "one of lru, fifo"),
        ("replay round --sizes 0%", "expected a share up to 100 %"),
        ("replay round --sizes 5x", "bytes such as 64M"),
        ("replay round --sample 0", "expected a share above 0"),
        ("replay round --warm-up often", "expected a share such as 10%"),
        ("replay nowhere", "nowhere"),
        ("replay empty", "it is empty"),
        ("replay torn", "torn"),
        ("replay round --output round", "round"),
    ] {
        let (printed, said) = desk.ends(2, line);
        assert!(printed.is_empty() && said.contains(expected), "{line}: {said}");
    }
}

/// Replays the file of libCacheSim's sample trace. The miss ratios are those that libCacheSim itself finds.
#[test]
fn a_block_trace_is_split_into_pages() {
    let Some(folder) = std::env::var_os("HIGHWATER_TRACES").map(PathBuf::from) else {
        eprintln!("skipped: HIGHWATER_TRACES does not name the folder of cloudPhysicsIO.vscsi");
        return;
    };
    let desk = Desk::new();
    let trace = folder.join("cloudPhysicsIO.vscsi");
    let report = desk.json(&format!("replay {} --policies lru,s3-fifo,sieve --sizes 16M,32768", trace.display()));
    let ratios: Vec<String> = report["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{:.4}", row["miss_ratio"].as_f64().unwrap()))
        .collect();
    assert_eq!(ratios, ["0.8955", "0.8687", "0.8867", "0.7996", "0.8988", "0.7995"]);
    assert_eq!((&report["requests"], &report["objects"]), (&1_141_869.into(), &269_210.into()));
}

//! Tests of the verb `trace` from end to end.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

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

    /// Runs a command line, with this input. Words are split at blanks.
    fn run(&self, line: &str, input: &[u8]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.args(line.split(' ')).current_dir(self.0.path());
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("the binary was built for this test");
        // The program may end without reading all.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        child.wait_with_output().expect("it ends")
    }

    /// Runs the command `line`, which must end with the exit status `status`. Returns the command's standard output and
    /// standard error. Words of the line are split at blanks.
    fn ends(&self, status: i32, line: &str) -> (String, String) {
        let output = self.run(line, b"");
        let said = String::from_utf8(output.stderr).expect("messages are UTF-8");
        assert_eq!(output.status.code(), Some(status), "{line}: {said}");
        (String::from_utf8(output.stdout).expect("reports are UTF-8"), said)
    }
}

const TWITTER: &str = "0,a,1,99,1,get,0\n1,b,1,49,1,set,9\n2,a,1,99,2,get,0\n3,a,1,99,2,get,0\n";

#[test]
fn a_trace_is_converted_and_described() {
    let desk = Desk::new();
    desk.file("cache.csv", TWITTER);
    let (printed, said) = desk.ends(0, "trace convert cache.csv --output cache.hwtrace");
    assert_eq!(
        (printed.as_str(), said.as_str()),
        ("", "cache.hwtrace: 4 requests of objects, from 4 lines of twitter\n")
    );
    let (text, said) = desk.ends(0, "trace info cache.hwtrace");
    assert_eq!(said, "");
    assert!(
        text.starts_with("4 requests access 2 different objects (150 B) 4 times; 75.0 % of the accesses read."),
        "{text}"
    );
    for part in ["write ", "Working set over time", "misses under LRU", "By Zipf's law", "3.0 s"] {
        assert!(text.to_lowercase().contains(&part.to_lowercase()), "no {part}: {text}");
    }
    // Without a conversion, and from standard input, the description is the same but for the format.
    let direct = desk.run("trace info -", TWITTER.as_bytes());
    let direct = String::from_utf8(direct.stdout).unwrap();
    assert_eq!(direct.replace("twitter", "hwtrace"), text);
    let (json, _) = desk.ends(0, "trace info cache.hwtrace --format json");
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    let (page, _) = desk.ends(0, "trace info cache.hwtrace --format html --plot cache.svg");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Working set of each interval"));
    assert!(fs::read_to_string(desk.path("cache.svg")).unwrap().contains("</svg>"));
}

#[test]
fn what_is_not_understood_is_told_and_much_of_it_fails() {
    let desk = Desk::new();
    desk.file("few", TWITTER.repeat(30) + "nonsense\n");
    let (_, said) = desk.ends(0, "trace convert few --output few.hwtrace");
    let expected = "few: line 121 (byte 2040) is not understood: expected seven columns: `nonsense`";
    assert!(said.contains(expected) && said.contains("1 of 121 lines (0.83 %)"), "{said}");
    desk.file("many", TWITTER.to_owned() + "nonsense\n");
    for verb in ["convert many --output many.hwtrace", "info many"] {
        let (_, said) = desk.ends(1, &format!("trace {verb}"));
        assert!(said.contains("1 of 5 lines (20.00 %) are not understood: expected at most 1 %"), "{said}");
    }
    assert!(desk.ends(0, "trace info many.hwtrace").0.starts_with("4 requests"));
}

#[test]
fn wrong_inputs_leave_no_output() {
    let desk = Desk::new();
    desk.file("empty", "");
    desk.file("letter", "Dear reader, this is a letter.\n");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(TWITTER.repeat(5000).as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    desk.file("cut.gz", &packed[..packed.len() - 20]);
    desk.file("whole.gz", &packed);
    desk.ends(0, "trace convert whole.gz -o whole.hwtrace");
    let whole = fs::read(desk.path("whole.hwtrace")).unwrap();
    assert_eq!(whole.len() / 32, 20_000 + (whole.len() - 640_000) / 32);
    desk.file("cut.hwtrace", &whole[..whole.len() - 40]);
    for (file, part) in [
        ("empty", "it is empty"),
        ("letter", "name it with `--from`"),
        ("cut.gz", "byte "),
        ("none", "no such file"),
        ("whole.hwtrace", "a trace of this program already"),
    ] {
        let (_, said) = desk.ends(2, &format!("trace convert {file} --output out.hwtrace"));
        assert!(said.contains(part) && said.starts_with(&format!("error: {file}: ")), "{said}");
        assert!(!desk.path("out.hwtrace").exists(), "{file}");
    }
    assert!(desk.ends(2, "trace info cut.hwtrace").1.contains("cut off"));
    desk.file("same", TWITTER);
    assert!(desk.ends(2, "trace convert same --output same").1.contains("same"));
    assert_eq!(fs::read_to_string(desk.path("same")).unwrap(), TWITTER);
    assert!(desk.ends(2, "trace info same --from help").1.contains("blktrace, as blkparse prints it"));
}

#[test]
fn a_seed_decides_what_is_made() {
    let desk = Desk::new();
    for (file, seed) in [("a", "1"), ("b", "1"), ("c", "2")] {
        desk.ends(
            0,
            &format!("trace synth zipf:pages=2k,theta=0.8,reads=0.5 scan --requests 20k --seed {seed} --output {file}"),
        );
    }
    let bytes = ["a", "b", "c"].map(|file| fs::read(desk.path(file)).unwrap());
    assert!(bytes[0] == bytes[1] && bytes[0] != bytes[2]);
    let (text, _) = desk.ends(0, "trace info a");
    assert!(text.contains("zipf:pages=2000,theta=0.8,reads=0.5") && text.contains("20,000 requests"), "{text}");
    assert!(desk.ends(2, "trace synth zipf --output d").1.contains("pages 0: expected `pages=`"));
    assert!(!desk.path("d").exists());
}

#[test]
#[cfg(all(feature = "linux", target_os = "linux", target_env = "gnu"))]
fn a_command_is_recorded_and_described() {
    let desk = Desk::new();
    desk.file("a", vec![7; 30_000]);
    let (printed, said) = desk.ends(0, "trace record --output a.hwtrace -- dd if=a of=b bs=10000 status=none");
    assert_eq!(printed, "");
    assert!(said.starts_with("Recorded dd if=a of=b"), "{said}");
    assert!(said.contains("29.3 kB read, 29.3 kB written") && said.contains("not seen"), "{said}");
    let (text, _) = desk.ends(0, "trace info a.hwtrace");
    assert!(text.contains("requests"), "{text}");
    let (_, said) = desk.ends(1, "trace record --output a.hwtrace -- dd if=missing status=none");
    assert!(said.contains("its record is complete"), "{said}");
    for line in [
        "trace record --output b.hwtrace",
        "trace record --output b.hwtrace -- no-such-program-here",
        "trace record --output b.hwtrace --pid 1 -- ls",
        "trace record --output b.hwtrace --seconds 0 -- ls",
        "trace record --output b.hwtrace --cgroup no-such-cgroup -- ls",
    ] {
        desk.ends(2, line);
        assert!(!desk.path("b.hwtrace").exists(), "{line}");
    }
}

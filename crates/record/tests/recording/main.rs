//! Records small programs, and checks that the requests found are exactly those that the programs made.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod found;
mod kernel;
mod others;
mod own;

use found::{Found, recorded};

#[test]
fn dd_reads_and_writes_block_by_block() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    std::fs::write(&from, vec![7; 10_000]).unwrap();
    let [from, to] = [from, to].map(|path| path.display().to_string());
    let found = recorded(&folder, &["dd", &format!("if={from}"), &format!("of={to}"), "bs=4000", "status=none"]);
    let is_transfer = |line: &&String| line.starts_with("read") || line.starts_with("write");
    let transfers = found.lines.iter().filter(is_transfer).collect::<Vec<_>>();
    let expected = [
        "read from 0+4000",
        "write to 0+4000",
        "read from 4000+4000",
        "write to 4000+4000",
        "read from 8000+2000",
        "write to 8000+2000",
    ];
    assert_eq!(transfers, expected);
    assert!(found.has("open from 0+10000") && found.has("open to 0+0") && found.has("truncate to 0+0"), "{found:?}");
    assert!(found.has("close from 0+0") && found.has("close to 0+0"), "{found:?}");
}

#[test]
fn cat_in_a_shell_reads_each_byte_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), vec![7; 300_000]).unwrap();
    std::fs::write(folder.path().join("b"), vec![7; 5]).unwrap();
    let script = format!("cd {} && cat a b > c && cat < b >> c", folder.path().display());
    let found = recorded(&folder, &["sh", "-c", &script]);
    assert_eq!([found.covered("read", "a"), found.covered("write", "c")], [300_000, 300_010], "{found:?}");
    // The second reader has the descriptor of the shell.
    assert_eq!(found.lines.iter().filter(|line| *line == "read b 0+5").count(), 2, "{found:?}");
    assert_eq!(found.tasks, 3, "{found:?}");
}

#[test]
fn what_stdio_buffers_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let lines = (0..20_000).map(|number| format!("{}\n", number * 7919 % 20_000)).collect::<String>();
    std::fs::write(folder.path().join("lines"), &lines).unwrap();
    std::fs::write(folder.path().join("other"), &lines).unwrap();
    let script = format!(
        "cd {} && sort -o sorted lines && head -n 3 sorted > head && grep -c 7 other > count",
        folder.path().display()
    );
    let found = recorded(&folder, &["sh", "-c", &script]);
    let bytes = lines.len() as u64;
    assert_eq!(found.covered("read", "lines"), bytes, "{found:?}");
    assert_eq!(found.covered("read", "other"), bytes, "{found:?}");
    assert_eq!(found.covered("write", "sorted"), bytes, "{found:?}");
    assert!(found.covered("write", "head") > 0 && found.covered("write", "count") > 0, "{found:?}");
}

#[test]
fn a_static_program_is_said_to_be_unseen() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = others::static_program(&folder) else { return };
    let error = found::record(&folder, &[&program], |_| {}).unwrap_err();
    let record::Error::Failed(said) = error else { panic!("{error:?}") };
    assert!(said.contains("static program"), "{said}");
    let found = recorded(&folder, &["sh", "-c", &format!("{program}; true")]);
    assert!(found.not_seen.iter().any(|line| line.contains("is a static program")), "{:?}", found.not_seen);
}

#[test]
fn wrong_commands_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for words in [&["no-such-program-here"][..], &[], &["/"]] {
        let found = found::record(&folder, words, |_| {});
        assert!(matches!(found, Err(record::Error::Usage(_))), "{words:?}: {found:?}");
    }
    let output = |options: &mut record::Options| options.output = "/no/such/folder/x.hwtrace".into();
    let found = found::record(&folder, &["true"], output);
    assert!(matches!(&found, Err(record::Error::Failed(said)) if said.contains("/no/such/folder")), "{found:?}");
}

#[test]
fn names_are_hashed_on_request() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "x").unwrap();
    let path = folder.path().join("secret").display().to_string();
    found::record(&folder, &["cat", &path], |options| options.hasher = Some(record::hash::Hasher::with_key(b"key")))
        .unwrap();
    let bytes = std::fs::read(found::output(&folder)).unwrap();
    for word in ["secret", "cat"] {
        assert!(!bytes.windows(word.len()).any(|it| it == word.as_bytes()), "{word}");
    }
    let hash = record::hash::Hasher::with_key(b"key").word(b"secret");
    assert!(bytes.windows(hash.len()).any(|it| it == hash.as_bytes()));
}

#[test]
fn the_record_says_what_memory_and_disks_were_like() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "x").unwrap();
    let path = folder.path().join("a").display().to_string();
    found::record(&folder, &["sh", "-c", &format!("cat {path}; sleep 0.2")], |_| {}).unwrap();
    let trace = trace::Trace::open(&found::output(&folder)).unwrap();
    let metadata = trace.metadata();
    assert!(metadata["rss"][0]["anon_bytes"].as_u64() > Some(0), "{metadata:?}");
    assert!(metadata["memory_peak"]["resident_bytes"].as_u64() > Some(0), "{metadata:?}");
    assert_eq!(metadata["means"], "shim");
    for key in ["readahead_kib", "file_bytes", "files", "tasks", "not_seen", "kernel", "elapsed_us"] {
        assert!(metadata.get(key).is_some(), "{key}");
    }
}

/// Returns whether a program is installed. Prints a message if it is not.
fn is_there(program: &str) -> bool {
    let is_there = record::elf::find(program).is_some();
    if !is_there {
        eprintln!("skipped: there is no {program} here");
    }
    is_there
}

#[test]
fn a_record_survives_a_killed_program() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), vec![7; 50_000]).unwrap();
    let script =
        format!("exec < {}/a; dd bs=1000 count=50 of=/dev/null status=none; kill -9 $$", folder.path().display());
    let found: Found = recorded(&folder, &["sh", "-c", &script]);
    assert_eq!(found.covered("read", "a"), 50_000, "{found:?}");
    assert_eq!(found.lines.iter().filter(|line| line.starts_with("read a")).count(), 50);
}

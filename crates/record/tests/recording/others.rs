//! Records programs that are not part of Highwater, if they are installed. The requests must equal those that strace
//! reports for the same run.

use crate::found::{Found, recorded};
use crate::is_there;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use tempfile::TempDir;
use trace::{Operation, Options};

/// Makes a static program that ends at once, and returns its path; `None` on processors other than x86-64.
pub fn static_program(folder: &TempDir) -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    const START: u64 = 0x40_0000;
    let code = [0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05];
    let mut elf = vec![0_u8; 120];
    elf[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x00");
    let mut put =
        |at: usize, value: u64, bytes: usize| elf[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    // The header: an executable of x86-64 whose table has one entry at byte 64, and which begins behind it.
    for (at, value, bytes) in
        [(16, 2, 2), (18, 62, 2), (20, 1, 4), (24, START + 120, 8), (32, 64, 8), (52, 64, 2), (54, 56, 2), (56, 1, 2)]
    {
        put(at, value, bytes);
    }
    let len = 120 + code.len() as u64;
    // The entry: all of the file is loaded, readable and executable.
    for (at, value, bytes) in
        [(64, 1, 4), (68, 5, 4), (80, START, 8), (88, START, 8), (96, len, 8), (104, len, 8), (112, 4096, 8)]
    {
        put(at, value, bytes);
    }
    elf.extend(code);
    let path = folder.path().join("static");
    fs::write(&path, elf).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(Command::new(&path).status().unwrap().success());
    Some(path.display().to_string())
}

/// Records a shell script in a folder while strace looks on, and compares what both saw of the folder's files. Returns
/// what was recorded.
fn compared(folder: &TempDir, script: &str) -> Option<Found> {
    let log = tempfile::tempdir().unwrap();
    let log = log.path().join("strace.txt");
    let log_text = log.display().to_string();
    let works =
        || Command::new("strace").args(["-o", "/dev/null", "true"]).status().is_ok_and(|status| status.success());
    if !is_there("strace") || !works() {
        eprintln!("skipped: strace is not to be had here");
        return None;
    }
    let calls = "trace=%file,%desc,clone,clone3,fork,vfork,exit_group";
    let script = format!("cd {} && {script}", folder.path().display());
    let found = recorded(
        folder,
        &["strace", "-f", "-ttt", "-o", &log_text, "-e", calls, "-e", "signal=none", "sh", "-c", &script],
    );
    let loaded = trace::load(&log, &Options::default()).unwrap();
    let root = format!("{}/", folder.path().display());
    let mut of_strace = Vec::new();
    for request in loaded.trace.requests() {
        let name = loaded.trace.file_name(request.file).map(String::from_utf8_lossy).unwrap_or_default();
        let name = name.strip_prefix(&root).unwrap_or(&name).to_owned();
        if !name.starts_with('/') && matches!(request.operation, Operation::Read | Operation::Write) && request.len > 0
        {
            of_strace.push(format!("{} {name} {}+{}", request.operation.name(), request.offset, request.len));
        }
    }
    let is_transfer = |line: &&String| line.starts_with("read") || line.starts_with("write");
    let mut of_record = found.lines.iter().filter(is_transfer).cloned().collect::<Vec<_>>();
    of_strace.sort();
    of_record.sort();
    assert!(!of_record.is_empty());
    let without = |of: &[String], other: &[String]| {
        let mut rest = other.to_vec();
        let mut is_extra =
            |line: &&String| rest.iter().position(|it| it == *line).map(|at| rest.swap_remove(at)).is_none();
        of.iter().filter(&mut is_extra).cloned().collect::<Vec<_>>()
    };
    let differences = [without(&of_record, &of_strace), without(&of_strace, &of_record)];
    assert!(differences.iter().all(Vec::is_empty), "only recorded, only seen by strace: {differences:#?}");
    Some(found)
}

#[test]
fn tar_is_recorded_as_strace_saw_it() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..200_usize {
        fs::write(folder.path().join(format!("file{number}")), vec![7; number * 331]).unwrap();
    }
    if !is_there("tar") {
        return;
    }
    let Some(found) = compared(&folder, "tar cf x.tar file*") else { return };
    for number in 1..200_u64 {
        assert_eq!(found.covered("read", &format!("file{number}")), number * 331);
    }
}

#[test]
fn sqlite_is_recorded_as_strace_saw_it() {
    if !is_there("sqlite3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let table = "create table t(a integer primary key, b text); with recursive c(n) as (select 1 union all select n+1 \
                 from c where n < 3000) insert into t select n, hex(n) || printf('%0200d', n) from c;";
    let look = "select sum(length(b)) from t where a in (1, 77, 1500, 2999); update t set b = 'x' where a % 500 = 0;";
    let Some(found) = compared(&folder, &format!("sqlite3 x.db \"{table}\" && sqlite3 x.db \"{look}\"")) else {
        return;
    };
    assert!(found.lines.iter().any(|line| line.starts_with("sync x.db")), "{:?}", found.lines.len());
}

#[test]
fn git_is_recorded_as_strace_saw_it() {
    if !is_there("git") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for number in 0..20 {
        fs::write(folder.path().join(format!("file{number}")), format!("{number}\n").repeat(500)).unwrap();
    }
    let git = "git -c user.name=x -c user.email=x@y -c core.hooksPath=/dev/null -c gc.auto=0";
    let script =
        format!("{git} init -q && {git} add file* && {git} commit -qm x && {git} log -p > log && {git} repack -adq");
    let Some(found) = compared(&folder, &script) else { return };
    assert!(found.lines.iter().any(|line| line.starts_with("map .git/")), "{:?}", found.lines.len());
}

//! The loadable extension, in the shell of the system's SQLite. Without a shell `sqlite3`, the tests say so and pass.

#![allow(missing_docs)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Returns the path of the extension, without its suffix: the library that was built with this test.
fn extension() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let path = program.parent().unwrap().join("libhighwater_sqlite.so");
    assert!(path.exists(), "{} was not built", path.display());
    path.with_extension("")
}

/// Runs commands in a shell in `folder`. Returns `None` if there is no shell, or one that loads no extensions.
fn shell(folder: &Path, memory: Option<&str>, commands: &str) -> Option<Output> {
    let mut command = Command::new("sqlite3");
    command.arg("-batch").arg(":memory:").current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).env_remove("HIGHWATER_SQLITE_MEMORY");
    if let Some(memory) = memory {
        command.env("HIGHWATER_SQLITE_MEMORY", memory);
    }
    let Ok(mut child) = command.spawn() else {
        eprintln!("skipped: there is no shell `sqlite3`");
        return None;
    };
    // The shell knows a command by the point at the beginning of its line.
    let commands: String = commands.lines().map(|line| format!("{}\n", line.trim_start())).collect();
    let commands = format!(".load {}\n{commands}", extension().display());
    child.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("unknown command") {
        eprintln!("skipped: the shell `sqlite3` loads no extensions");
        return None;
    }
    Some(output)
}

/// The text of standard output and of standard error.
fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_shell_keeps_a_database_on_the_vfs() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let commands = "
        .open file:data.db?vfs=highwater&highwater_memory=8M
        PRAGMA journal_mode = WAL;
        PRAGMA mmap_size = 1000000000;
        CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB);
        INSERT INTO t SELECT value, zeroblob(1000) FROM generate_series(1, 5000);
        SELECT count(*), sum(length(b)) FROM t;
        PRAGMA integrity_check;
        .vfsname
        .load EXTENSION
        SELECT max(a) FROM t;
    ";
    let commands = commands.replace("EXTENSION", &extension().display().to_string());
    let Some(output) = shell(folder.path(), None, &commands) else { return };
    let (out, error) = texts(&output);
    assert_eq!(error, "");
    assert_eq!(out.lines().collect::<Vec<_>>(), ["wal", "1000000000", "5000|5000000", "ok", "highwater", "5000"]);
    // The database is an ordinary one.
    let own = rusqlite::Connection::open(folder.path().join("data.db")).unwrap();
    assert_eq!(own.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)), Ok(5000));
}

#[test]
fn a_wrong_size_of_the_memory_is_refused() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(output) = shell(folder.path(), Some("much"), "") else { return };
    let (_, error) = texts(&output);
    assert!(error.contains("HIGHWATER_SQLITE_MEMORY: `much` is no size of a memory"), "{error}");
    let open = ".open file:data.db?vfs=highwater&highwater_memory=1K\nSELECT 1 FROM sqlite_schema;\n";
    let Some(output) = shell(folder.path(), Some("8M"), open) else { return };
    let (_, error) = texts(&output);
    assert!(error.contains("unable to open database"), "{error}");
}

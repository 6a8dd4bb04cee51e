//! A process that commits is killed again and again. The database is then whole and has every row whose commit was
//! acknowledged. `HIGHWATER_KILLS=1000` kills that often in each mode; the default is 12.
//!
//! The process is killed while it runs on, so what it wrote stays with the system. What a loss of power leaves is not
//! tested here.

#![allow(missing_docs)]

mod common;

use common::{Setup, check, next, set_mode};
use rusqlite::{Connection, params};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of rows that the table has beside those that are committed one by one. They make the database larger than memory.
const FILL: i64 = 3000;

fn value(key: i64) -> Vec<u8> {
    vec![key as u8; 500 + (key * 37 % 3000) as usize]
}

/// Commits rows until the process is killed. Each transaction also changes two other rows, which must change together, and
/// now and then a transaction is larger than SQLite's cache.
fn commit_until_killed(path: &Path, mode: &str) {
    let setup = Setup::at(path, 6 << 20);
    let connection = setup.open();
    connection.execute_batch("PRAGMA cache_size = 20; PRAGMA synchronous = FULL").unwrap();
    set_mode(&connection, mode, true);
    connection.execute_batch("PRAGMA wal_autocheckpoint = 40").unwrap();
    let begun: i64 = connection.query_row("SELECT count(*) FROM rows WHERE key >= 0", [], |row| row.get(0)).unwrap();
    let mut state = begun as u64 + 1;
    for key in begun.. {
        connection.execute_batch("BEGIN").unwrap();
        connection.execute("INSERT INTO rows VALUES (?, ?)", params![key, value(key)]).unwrap();
        for (sum, by) in [(1, 5), (2, -5)] {
            connection.execute("UPDATE sums SET n = n + ? WHERE key = ?", [by, sum]).unwrap();
        }
        let fill = -1 - next(&mut state, FILL as u64) as i64;
        let count = if next(&mut state, 8) == 0 { 100 } else { 1 };
        connection
            .execute("UPDATE rows SET value = ? WHERE key BETWEEN ? AND ?", params![value(key), fill - count + 1, fill])
            .unwrap();
        connection.execute_batch("COMMIT").unwrap();
        println!("committed {key}");
    }
}

fn make(setup: &Setup) {
    let connection = setup.open();
    connection
        .execute_batch(
            "CREATE TABLE rows (key INTEGER PRIMARY KEY, value BLOB); CREATE TABLE sums (key INTEGER PRIMARY KEY, n);
            INSERT INTO sums VALUES (1, 0), (2, 0)",
        )
        .unwrap();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
        INSERT INTO rows SELECT -i, zeroblob(2500) FROM n";
    connection.execute(fill, [FILL]).unwrap();
}

/// Checks a database after a kill: the rows up to `last` are there.
fn check_rows(connection: &Connection, last: i64, kill: usize) {
    check(connection);
    let mut select = connection.prepare("SELECT key, value FROM rows WHERE key >= 0 ORDER BY key").unwrap();
    let mut rows = select.query([]).unwrap();
    let mut found = 0;
    while let Some(row) = rows.next().unwrap() {
        let (key, bytes): (i64, Vec<u8>) = (row.get(0).unwrap(), row.get(1).unwrap());
        assert!(key == found && bytes == value(key), "row {key}, kill {kill}");
        found += 1;
    }
    assert!(found > last, "{found} rows after kill {kill}, but row {last} was acknowledged");
    let sums = "SELECT max(n), min(n) FROM sums";
    let sums: (i64, i64) = connection.query_row(sums, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(sums, (5 * found, -5 * found), "kill {kill}");
}

fn kill_again_and_again(test: &str, mode: &str) {
    const VARIABLE: &str = "HIGHWATER_SQLITE_KILLED";
    if let Some(path) = std::env::var_os(VARIABLE) {
        return commit_until_killed(Path::new(&path), mode);
    }
    let kills = std::env::var("HIGHWATER_KILLS").ok().map_or(12, |kills| kills.parse().expect("a number of kills"));
    let setup = Setup::new(6 << 20);
    make(&setup);
    let (mut last, mut state) = (-1, 1);
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(VARIABLE, setup.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut committed = lines.filter_map(|line| line.split("committed ").nth(1)?.parse::<i64>().ok());
        // The kill comes after a random number of commits, and then at a random point of the next ones.
        for _ in 0..=next(&mut state, 8) {
            last = committed.next().expect("the process commits until it is killed").max(last);
        }
        std::thread::sleep(std::time::Duration::from_micros(next(&mut state, 6000)));
        child.kill().unwrap();
        last = committed.max().max(Some(last)).unwrap_or(last);
        child.wait().unwrap();
        // By turns, the VFS and SQLite's own recover the database.
        let connection = if kill % 2 == 0 { setup.open() } else { Connection::open(setup.path()).unwrap() };
        check_rows(&connection, last, kill);
        drop(connection);
        if last > 2000 {
            // The table does not grow without limit.
            let connection = setup.open();
            connection.execute_batch("DELETE FROM rows WHERE key >= 0; UPDATE sums SET n = 0; VACUUM").unwrap();
            last = -1;
        }
    }
}

#[test]
fn what_was_committed_with_a_journal_survives_a_kill() {
    kill_again_and_again("what_was_committed_with_a_journal_survives_a_kill", "DELETE");
}

#[test]
fn what_was_committed_with_a_log_survives_a_kill() {
    kill_again_and_again("what_was_committed_with_a_log_survives_a_kill", "WAL");
}

//! Databases of SQLite on the VFS: they have what a model has, also when SQLite's own VFS opens them; connections exclude
//! each other as SQLite's rules say.

#![allow(missing_docs)]

mod common;

use common::{Setup, check, next};
use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use std::collections::BTreeMap;
use std::path::Path;

/// The modes of a database: journal, whether pages are read in place, and size of a page, bytes.
const MODES: [(&str, bool, u32); 7] = [
    ("DELETE", true, 4096),
    ("TRUNCATE", false, 4096),
    ("PERSIST", true, 1024),
    ("MEMORY", true, 4096),
    ("WAL", true, 4096),
    ("WAL", false, 4096),
    ("WAL", true, 16384),
];

/// Returns the setting of `PRAGMA synchronous` for a mode. Most modes do without syncs, which take long on a busy disk.
fn sync(mode: &str) -> &'static str {
    if mode == "TRUNCATE" { "FULL" } else { "OFF" }
}

type Model = BTreeMap<i64, Vec<u8>>;

fn rows(connection: &Connection) -> Model {
    let mut select = connection.prepare("SELECT key, value FROM rows").unwrap();
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Changes random rows in a transaction, and as many in the model. One of seven transactions is rolled back; parts of
/// others are, to a savepoint.
fn change(connection: &Connection, model: &mut Model, state: &mut u64) {
    let mut changed = model.clone();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    for step in 0..30 {
        let key = next(state, 2000) as i64;
        match next(state, 5) {
            0 => {
                let found = connection.execute("DELETE FROM rows WHERE key = ?", [key]).unwrap();
                assert_eq!(found == 1, changed.remove(&key).is_some());
            }
            1 => {
                let found = connection.query_row("SELECT value FROM rows WHERE key = ?", [key], |row| row.get(0));
                assert_eq!(found.ok(), changed.get(&key).cloned());
            }
            _ => {
                let value = vec![next(state, 256) as u8; next(state, 14000) as usize];
                connection
                    .execute("REPLACE INTO rows VALUES (?, ?, ?)", params![key, value, value.len() as i64])
                    .unwrap();
                changed.insert(key, value);
            }
        }
        if step == 20 {
            connection.execute_batch("SAVEPOINT part; DELETE FROM rows WHERE key < 60; ROLLBACK TO part").unwrap();
        }
    }
    if next(state, 7) == 0 {
        connection.execute_batch("ROLLBACK").unwrap();
    } else {
        connection.execute_batch("COMMIT").unwrap();
        *model = changed;
    }
}

/// Random changes match a map, in a database larger than the memory, in all journal modes. SQLite's own VFS can then open
/// the file.
#[test]
fn a_database_matches_a_map() {
    for (mode, in_place, page) in MODES {
        let setup = Setup::new(4 << 20);
        let (mut model, mut state) = (Model::new(), u64::from(page));
        for round in 0..2 {
            let connection = setup.open();
            connection
                .execute_batch(&format!(
                    "PRAGMA page_size = {page}; PRAGMA cache_size = 20; PRAGMA synchronous = {}",
                    sync(mode)
                ))
                .unwrap();
            common::set_mode(&connection, mode, in_place);
            connection
                .execute_batch(
                    "CREATE TABLE IF NOT EXISTS rows (key INTEGER PRIMARY KEY, value BLOB, length INTEGER);
                    CREATE INDEX IF NOT EXISTS lengths ON rows (length)",
                )
                .unwrap();
            for _ in 0..40 {
                change(&connection, &mut model, &mut state);
            }
            assert!(rows(&connection) == model, "{mode}, round {round}");
            check(&connection);
            drop(connection);
            let own = Connection::open(setup.path()).unwrap();
            assert!(rows(&own) == model, "{mode}, round {round}, by SQLite's own VFS");
            check(&own);
        }
        assert!(std::fs::metadata(setup.path()).unwrap().len() > 4 << 20, "the database fits into memory");
        let connection = setup.open();
        common::set_mode(&connection, mode, in_place);
        connection.execute("DELETE FROM rows WHERE key % 2 = 0", []).unwrap();
        connection.execute_batch("VACUUM").unwrap();
        model.retain(|key, _| key % 2 != 0);
        assert!(rows(&connection) == model);
        check(&connection);
        drop(connection);
        setup.end();
    }
}

/// Rows are changed while other statements of the same connection read the same table and others, in place.
#[test]
fn statements_read_while_others_write() {
    for mode in ["DELETE", "WAL"] {
        let setup = Setup::new(6 << 20);
        let connection = setup.open();
        connection
            .execute_batch(
                "PRAGMA cache_size = 10; PRAGMA cache_spill = 10; PRAGMA auto_vacuum = FULL; PRAGMA synchronous = OFF",
            )
            .unwrap();
        common::set_mode(&connection, mode, true);
        connection
            .execute_batch(
                "CREATE TABLE rows (key INTEGER PRIMARY KEY, value BLOB);
                CREATE TABLE other (key INTEGER PRIMARY KEY, value BLOB);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
                INSERT INTO rows SELECT i, zeroblob(1000) FROM n;
                INSERT INTO other SELECT key, value FROM rows",
            )
            .unwrap();
        let mut outer = connection.prepare("SELECT key FROM rows WHERE length(value) > 0").unwrap();
        let mut beside = connection.prepare("SELECT key FROM other ORDER BY key DESC").unwrap();
        let (mut outer, mut beside) = (outer.query([]).unwrap(), beside.query([]).unwrap());
        let mut seen = 0;
        while let Some(row) = outer.next().unwrap() {
            let (key, _) = (row.get::<_, i64>(0).unwrap(), beside.next().unwrap());
            seen += 1;
            connection.execute("UPDATE rows SET value = ? WHERE key = ?", params![vec![1u8; 1500], key]).unwrap();
            if key % 3 == 0 {
                connection.execute("DELETE FROM other WHERE key = ?", [key]).unwrap();
            }
            if key % 500 == 0 {
                connection.execute_batch("SAVEPOINT s; UPDATE rows SET value = zeroblob(3000); ROLLBACK TO s").unwrap();
            }
        }
        assert_eq!(seen, 3000);
        check(&connection);
    }
}

/// Several threads write and read one database, each by a connection of its own. No transaction is lost, and readers
/// see whole transactions.
#[test]
fn threads_share_a_database() {
    for (mode, in_place) in [("DELETE", true), ("WAL", true), ("WAL", false)] {
        let setup = Setup::new(6 << 20);
        let open = || {
            let connection = setup.open();
            common::set_mode(&connection, mode, in_place);
            connection
                .execute_batch("PRAGMA cache_size = 20; PRAGMA wal_autocheckpoint = 50; PRAGMA synchronous = OFF")
                .unwrap();
            connection
        };
        let first = open();
        first
            .execute_batch(
                "CREATE TABLE counts (key INTEGER PRIMARY KEY, n INTEGER, fill BLOB);
                WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 3999)
                INSERT INTO counts SELECT i, 0, zeroblob(2000) FROM n",
            )
            .unwrap();
        std::thread::scope(|scope| {
            for writer in 0..2u64 {
                scope.spawn(move || {
                    let connection = open();
                    let mut state = writer + 1;
                    for _ in 0..60 {
                        let (from, to) = (next(&mut state, 4000), next(&mut state, 4000));
                        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
                        for (key, by) in [(from, -1), (to, 1)] {
                            let update = "UPDATE counts SET n = n + ?, fill = randomblob(2000) WHERE key = ?";
                            connection.execute(update, params![by, key as i64]).unwrap();
                        }
                        connection.execute("UPDATE counts SET n = n + 1 WHERE key = 0", []).unwrap();
                        connection.execute_batch("COMMIT").unwrap();
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(move || {
                    let (connection, mut last) = (open(), 0);
                    for _ in 0..15 {
                        let sum = "SELECT sum(n), count(*), sum(length(fill)) FROM counts";
                        let found = connection.query_row(sum, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
                        let (sum, rows, bytes): (i64, i64, i64) = found.unwrap();
                        assert!(sum >= last && (rows, bytes) == (4000, 4000 * 2000), "{sum} {rows} {bytes}");
                        last = sum;
                    }
                });
            }
        });
        let sum: i64 = first.query_row("SELECT sum(n) FROM counts", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 120, "{mode}");
        check(&first);
        drop(first);
        setup.end();
    }
}

fn is_busy<T>(result: rusqlite::Result<T>) -> bool {
    result.err().and_then(|error| error.sqlite_error_code()) == Some(ErrorCode::DatabaseBusy)
}

/// Connections of one process exclude each other as SQLite's own VFS makes them.
#[test]
fn connections_exclude_each_other() {
    let setup = Setup::new(6 << 20);
    let (first, second) = (setup.open(), setup.open());
    first.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    second.busy_timeout(std::time::Duration::ZERO).unwrap();
    first.busy_timeout(std::time::Duration::ZERO).unwrap();
    let count =
        |connection: &Connection| connection.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
    first.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (2)").unwrap();
    assert!(is_busy(second.execute_batch("BEGIN IMMEDIATE")));
    second.execute_batch("BEGIN").unwrap();
    assert_eq!(count(&second), Ok(1));
    assert!(is_busy(first.execute_batch("COMMIT")), "a reader is there");
    let third = setup.open();
    third.busy_timeout(std::time::Duration::ZERO).unwrap();
    assert!(is_busy(count(&third)), "a writer waits");
    second.execute_batch("COMMIT").unwrap();
    first.execute_batch("COMMIT").unwrap();
    assert_eq!((count(&second), count(&third)), (Ok(2), Ok(2)));
    first.execute_batch("PRAGMA locking_mode = EXCLUSIVE; INSERT INTO t VALUES (3)").unwrap();
    assert!(is_busy(count(&second)));
    first.execute_batch("PRAGMA locking_mode = NORMAL; SELECT * FROM t LIMIT 0").unwrap();
    assert_eq!(count(&first), Ok(3));
    assert_eq!(count(&second), Ok(3));
}

/// In WAL mode, readers keep their snapshot while another connection writes and checkpoints.
#[test]
fn a_reader_keeps_its_snapshot() {
    let setup = Setup::new(6 << 20);
    let (writer, reader) = (setup.open(), setup.open());
    for connection in [&writer, &reader] {
        common::set_mode(connection, "WAL", true);
    }
    writer
        .execute_batch(
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
            INSERT INTO t SELECT i, zeroblob(1000) FROM n;
            PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous = NORMAL",
        )
        .unwrap();
    let sum = |connection: &Connection| {
        connection.query_row("SELECT sum(length(b)) FROM t", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let mut select = reader.prepare("SELECT length(b) FROM t").unwrap();
    let mut rows = select.query([]).unwrap();
    let (mut seen, mut bytes) = (0, 0);
    while let Some(row) = rows.next().unwrap() {
        seen += 1;
        bytes += row.get::<_, i64>(0).unwrap();
        if seen % 100 == 0 {
            writer.execute_batch("UPDATE t SET b = zeroblob(length(b) + 1); PRAGMA wal_checkpoint(PASSIVE)").unwrap();
        }
    }
    assert_eq!((seen, bytes), (1000, 1_000_000));
    drop(rows);
    assert_eq!((sum(&writer), sum(&reader)), (1_010_000, 1_010_000));
    let busy: i64 = writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    assert_eq!(busy, 0);
    assert_eq!(sum(&reader), 1_010_000);
    check(&reader);
}

/// A second memory, and SQLite's own VFS, cannot use a database that is open. They can afterwards.
#[test]
fn a_database_in_use_is_refused() {
    let setup = Setup::new(6 << 20);
    let connection = setup.open();
    connection.execute_batch("CREATE TABLE t (a)").unwrap();
    let other = Setup::at(setup.path(), 6 << 20);
    assert!(is_busy(other.try_open(OpenFlags::default())));
    let shell = |path: &Path| {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "own_vfs_in_another_process", "--nocapture"])
            .env("HIGHWATER_SQLITE_OWN", path)
            .output()
            .unwrap()
    };
    let output = shell(setup.path());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("result: busy"), "{text}");
    drop(connection);
    let output = shell(setup.path());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("result: done"), "{text}");
    assert!(other.try_open(OpenFlags::default()).is_ok());
}

/// Connections by two VFSs of one memory know of each other's locks, also after the first VFS was unregistered.
#[test]
fn two_vfss_of_one_memory_exclude_each_other() {
    let setup = Setup::new(6 << 20);
    let first = setup.open();
    first.execute_batch("CREATE TABLE t (a); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
    let vfs = setup.second_vfs();
    let open = || Connection::open_with_flags_and_vfs(setup.path(), OpenFlags::default(), vfs.name()).unwrap();
    let second = open();
    second.busy_timeout(std::time::Duration::ZERO).unwrap();
    assert!(is_busy(second.execute_batch("BEGIN IMMEDIATE")));
    first.execute_batch("COMMIT").unwrap();
    second.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    drop(second);
    drop(vfs);
    assert_eq!(first.query_row("SELECT sum(a) FROM t", [], |row| row.get::<_, i64>(0)), Ok(3));
    check(&first);
}

/// Not a test of its own: the process that [`a_database_in_use_is_refused`] starts.
#[test]
fn own_vfs_in_another_process() {
    let Some(path) = std::env::var_os("HIGHWATER_SQLITE_OWN") else { return };
    let own = Connection::open(path).unwrap();
    own.busy_timeout(std::time::Duration::ZERO).unwrap();
    let read = own.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
    let write = own.execute_batch("CREATE TABLE u (a)");
    println!("result: {}", if is_busy(read) && is_busy(write) { "busy" } else { "done" });
}

/// Ways of opening: a missing file, a file that may only be read, a connection that only reads.
#[test]
fn files_are_opened_as_asked() {
    let setup = Setup::new(6 << 20);
    let only_read = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let error = setup.try_open(only_read).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen));
    assert!(!setup.path().exists());
    let writer = setup.open();
    writer.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (5)").unwrap();
    let reader = setup.try_open(only_read).unwrap();
    let error = reader.execute_batch("INSERT INTO t VALUES (6)").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly));
    writer.execute_batch("INSERT INTO t VALUES (7)").unwrap();
    assert_eq!(reader.query_row("SELECT sum(a) FROM t", [], |row| row.get::<_, i64>(0)), Ok(12));
    drop(writer);
    // The file stays open for the reader, and can still be written by another connection.
    setup.open().execute_batch("INSERT INTO t VALUES (8)").unwrap();
    assert_eq!(reader.query_row("SELECT sum(a) FROM t", [], |row| row.get::<_, i64>(0)), Ok(20));
}

/// Databases that are attached, temporary ones and those in memory work beside each other; a transaction can change two
/// files.
#[test]
fn several_databases_in_one_connection() {
    let (setup, other) = (Setup::new(6 << 20), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let connection = setup.open();
    let path = other.path().join("second.db");
    connection.execute("ATTACH ? AS second", [path.to_str().unwrap()]).unwrap();
    connection
        .execute_batch(
            "ATTACH ':memory:' AS third;
            CREATE TABLE main.t (a); CREATE TABLE second.t (a); CREATE TABLE third.t (a); CREATE TEMP TABLE u (a);
            BEGIN; INSERT INTO main.t VALUES (1); INSERT INTO second.t VALUES (2); INSERT INTO third.t VALUES (3);
            INSERT INTO u VALUES (4); COMMIT;
            BEGIN; INSERT INTO main.t VALUES (1); INSERT INTO second.t VALUES (2); ROLLBACK",
        )
        .unwrap();
    let sum = "SELECT (SELECT sum(a) FROM main.t) * 1000 + (SELECT sum(a) FROM second.t) * 100
        + (SELECT sum(a) FROM third.t) * 10 + (SELECT sum(a) FROM u)";
    assert_eq!(connection.query_row(sum, [], |row| row.get::<_, i64>(0)), Ok(1234));
    drop(connection);
    let own = Connection::open(path).unwrap();
    assert_eq!(own.query_row("SELECT sum(a) FROM t", [], |row| row.get::<_, i64>(0)), Ok(2));
}

/// With `PRAGMA mmap_size`, pages are read in place: the bytes that SQLite reads by copies become few.
#[test]
fn pages_are_read_in_place() {
    let setup = Setup::new(16 << 20);
    let connection = setup.open();
    connection
        .execute_batch(
            "PRAGMA cache_size = 10; CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
            INSERT INTO t SELECT i, zeroblob(1000) FROM n",
        )
        .unwrap();
    let misses = || {
        let (mut now, mut high) = (0, 0);
        // SAFETY: the connection is open, and there is room for both numbers.
        let code = unsafe {
            rusqlite::ffi::sqlite3_db_status(
                connection.handle(),
                rusqlite::ffi::SQLITE_DBSTATUS_CACHE_MISS,
                &raw mut now,
                &raw mut high,
                1,
            )
        };
        assert_eq!(code, rusqlite::ffi::SQLITE_OK);
        now
    };
    let sum = || connection.query_row("SELECT sum(length(b)) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
    misses();
    assert_eq!(sum(), 2_000_000);
    assert!(misses() > 400, "pages are copied into SQLite's cache");
    connection.execute_batch("PRAGMA mmap_size = 1099511627776").unwrap();
    let size: i64 = connection.query_row("PRAGMA mmap_size", [], |row| row.get(0)).unwrap();
    assert_eq!(size, 1 << 40);
    assert_eq!(sum(), 2_000_000);
    assert!(misses() < 20, "pages are read in place");
}

/// The last connection removes log and journal; a database whose log was kept is recovered by the next.
#[test]
fn logs_are_removed_and_recovered() {
    let setup = Setup::new(6 << 20);
    let log = format!("{}-wal", setup.path().display());
    let connection = setup.open();
    common::set_mode(&connection, "WAL", true);
    connection.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    assert!(Path::new(&log).exists());
    drop(connection);
    assert!(!Path::new(&log).exists());
    let connection = setup.open();
    connection.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    // A copy of database and log, as a crash would leave them.
    let copy = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = copy.path().join("data.db");
    std::fs::copy(setup.path(), &path).unwrap();
    std::fs::copy(&log, copy.path().join("data.db-wal")).unwrap();
    let other = Setup::at(&path, 6 << 20);
    let sum = other.open().query_row("SELECT sum(a) FROM t", [], |row| row.get::<_, i64>(0));
    assert_eq!(sum, Ok(3));
}

//! Databases of redb on the backend: they have what a model has, also after they were closed and opened again by redb's
//! own backend, and after the process was killed.

#![allow(missing_docs)]

use highwater::Memory;
use highwater_redb::Backend;
use redb::{Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("table");

/// Opens the database at `path` on a memory of 8 MiB, with a cache of redb's of 256 KiB.
fn open(path: &Path) -> (Memory, Database) {
    let memory = Memory::builder().size(8 << 20).start().expect("8 MiB are there");
    let backend = Backend::open(&memory, path).expect("the file can be opened");
    let database = Database::builder().set_cache_size(256 << 10).create_with_backend(backend).expect("a database");
    (memory, database)
}

/// Returns all records of a database.
fn records(database: &Database) -> BTreeMap<u64, Vec<u8>> {
    let table = database.begin_read().unwrap().open_table(TABLE).unwrap();
    table
        .iter()
        .unwrap()
        .map(|record| record.unwrap())
        .map(|(key, value)| (key.value(), value.value().to_vec()))
        .collect()
}

/// A simple pseudo-random number generator.
fn next(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % end
}

/// Random inserts, removals and reads in committed and aborted transactions match a map, in a database larger than
/// memory. The file can be read by redb's own backend, and passes redb's check.
#[test]
fn a_database_matches_a_map() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("database");
    let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut state = 1;
    for round in 0..3 {
        let (memory, database) = open(&path);
        for transaction in 0..60 {
            let mut write = database.begin_write().unwrap();
            if transaction % 3 == 1 {
                write.set_durability(Durability::None).unwrap();
            }
            let mut changed = model.clone();
            {
                let mut table = write.open_table(TABLE).unwrap();
                for _ in 0..40 {
                    let key = next(&mut state, 4000);
                    if next(&mut state, 5) == 0 {
                        let removed = table.remove(key).unwrap().map(|value| value.value().to_vec());
                        assert_eq!(removed, changed.remove(&key));
                    } else {
                        let value = vec![next(&mut state, 256) as u8; next(&mut state, 9000) as usize];
                        table.insert(key, &value[..]).unwrap();
                        changed.insert(key, value);
                    }
                }
            }
            if transaction % 7 == 6 {
                write.abort().unwrap();
            } else {
                write.commit().unwrap();
                model = changed;
            }
            let table = database.begin_read().unwrap().open_table(TABLE).unwrap();
            for _ in 0..40 {
                let key = next(&mut state, 4000);
                let found = table.get(key).unwrap().map(|value| value.value().to_vec());
                assert_eq!(found.as_ref(), model.get(&key), "round {round}, key {key}");
            }
        }
        memory.check().unwrap();
        drop(database);
        memory.shutdown().unwrap();
        let mut own = Database::open(&path).unwrap();
        assert!(own.check_integrity().unwrap() && records(&own) == model, "round {round}, by redb's own backend");
    }
    assert!(std::fs::metadata(&path).unwrap().len() > 10 << 20, "the database fits into memory");
    let (memory, mut database) = open(&path);
    assert!(database.check_integrity().unwrap());
    database.compact().unwrap();
    assert!(records(&database) == model);
    drop(database);
    memory.shutdown().unwrap();
}

/// A second process, and a second memory, cannot open a database that is in use.
#[test]
fn a_database_in_use_is_refused() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("database");
    let (memory, database) = open(&path);
    let other = Memory::builder().size(8 << 20).start().unwrap();
    assert_eq!(Backend::open(&other, &path).unwrap_err().kind(), highwater::ErrorKind::AlreadyOpen);
    drop(database);
    memory.shutdown().unwrap();
    assert!(Backend::open(&other, &path).is_ok());
}

/// A second database of one memory cannot open a file that a database writes, under any name. Databases that only read
/// share a file. A refused database leaves the claim of the first one as it is.
#[test]
fn a_second_database_in_one_memory_is_refused() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (path, link) = (folder.path().join("database"), folder.path().join("second name"));
    let (memory, database) = open(&path);
    std::fs::hard_link(&path, &link).unwrap();
    let backend = || Backend::open(&memory, &link).unwrap();
    let write = || Database::builder().create_with_backend(backend());
    let read = || Database::builder().open_read_only_with_backend(backend());
    for _ in 0..2 {
        assert!(matches!(write(), Err(DatabaseError::DatabaseAlreadyOpen)));
        assert!(matches!(read(), Err(DatabaseError::DatabaseAlreadyOpen)));
    }
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TABLE).unwrap().insert(1, &[7][..]).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let readers = [read().unwrap(), read().unwrap()];
    assert!(matches!(write(), Err(DatabaseError::DatabaseAlreadyOpen)));
    let [first, second] = readers;
    drop(first);
    assert!(matches!(write(), Err(DatabaseError::DatabaseAlreadyOpen)));
    drop(second);
    let again = write().unwrap();
    assert_eq!(records(&again), BTreeMap::from([(1, vec![7])]));
    drop(again);
    memory.shutdown().unwrap();
}

/// A process commits records until it is killed. Each record whose commit was acknowledged is in the database, and the
/// database passes redb's check.
#[test]
fn what_was_committed_survives_a_kill() {
    const VARIABLE: &str = "HIGHWATER_REDB_KILLED";
    if let Some(path) = std::env::var_os(VARIABLE) {
        let (_memory, database) = open(Path::new(&path));
        let begun = records(&database).len() as u64;
        for key in begun.. {
            let write = database.begin_write().unwrap();
            write.open_table(TABLE).unwrap().insert(key, &[key as u8; 1000][..]).unwrap();
            write.commit().unwrap();
            println!("committed {key}");
        }
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("database");
    {
        let (_memory, database) = open(&path);
        let write = database.begin_write().unwrap();
        write.open_table(TABLE).unwrap();
        write.commit().unwrap();
    }
    let mut last = None;
    for kill in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "what_was_committed_survives_a_kill", "--nocapture"])
            .env(VARIABLE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut committed = lines.filter_map(|line| line.split("committed ").nth(1)?.parse::<u64>().ok());
        last = committed.next().max(last);
        std::thread::sleep(Duration::from_millis(20 + 7 * kill));
        child.kill().unwrap();
        last = committed.max().max(last);
        child.wait().unwrap();
        let (memory, mut database) = open(&path);
        assert!(database.check_integrity().unwrap());
        let found = records(&database);
        let acknowledged = last.expect("the process committed something") + 1;
        assert!(found.len() as u64 >= acknowledged, "{} of {acknowledged} records after kill {kill}", found.len());
        assert!(found.iter().all(|(key, value)| value[..] == [*key as u8; 1000]));
        drop(database);
        memory.shutdown().unwrap();
    }
}

//! Tests that `kill -9` tears no page: one thread writes whole pages, another syncs, and the process is killed.
//! Afterwards all bytes of each page in the file come from one write.
//!
//! The killed process is a second run of this test program, with [`VICTIM`] set. For each way of writing it is killed 3
//! times, or as often as `HIGHWATER_KILLS` says ([`kills`]): `HIGHWATER_KILLS=50 cargo test --release -p highwater
//! --test torn`.

mod common;

use common::{builder, folder};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, fs, io::Read, thread};

const PAGE: usize = 4096;
const PAGES: u64 = 64;

/// The environment variable that makes this program the process to be killed. Its value is the way of writing
/// (`write_at` or `page_mut`, with or without `+checksums`), a space, and the path of the file.
const VICTIM: &str = "HIGHWATER_TORN_VICTIM";

fn kills() -> u64 {
    env::var("HIGHWATER_KILLS").map_or(3, |kills| kills.parse().expect("HIGHWATER_KILLS is a number"))
}

/// The main function of the process that the test kills. If [`VICTIM`] is set, it writes and syncs until it is killed.
/// If it is not, as in a normal run of the tests, it does nothing.
#[test]
fn victim() {
    let Ok(orders) = env::var(VICTIM) else { return };
    let (how, path) = orders.split_once(' ').expect("the file follows");
    let memory = builder().checksums(how.ends_with("+checksums")).start().unwrap();
    let file = memory.open(path).unwrap();
    let in_place = how.starts_with("page_mut");
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                file.sync_data().unwrap();
            }
        });
        println!("ready");
        for version in 1u64.. {
            let page = version * 7 % PAGES;
            let words = version.to_le_bytes();
            if in_place {
                // The page is changed word by word, as a program would do it, so that a kill may come in between.
                file.page_mut(page).unwrap().chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&words));
            } else {
                file.write_all_at(&words.repeat(PAGE / 8), page * PAGE as u64).unwrap();
            }
        }
    });
}

fn start(how: &str, path: &Path) -> Child {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture", "--test-threads=1"])
        .env(VICTIM, format!("{how} {}", path.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    let out = child.stdout.as_mut().unwrap();
    while !said.ends_with(b"ready\n") {
        let mut byte = [0];
        assert_eq!(out.read(&mut byte).unwrap(), 1, "the victim ended: {}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
    child
}

/// Returns the numbers of the pages that contain bytes of more than one version.
fn torn_pages(path: &Path) -> Vec<u64> {
    let file = fs::File::open(path).unwrap();
    let is_torn = |page: &u64| {
        let mut bytes = [0; PAGE];
        file.read_exact_at(&mut bytes, page * PAGE as u64).unwrap();
        bytes.chunks_exact(8).any(|word| *word != bytes[..8])
    };
    (0..PAGES).filter(is_torn).collect()
}

fn kill_while_writing(how: &str) {
    // The number of kills so far, of all tests of this file. It sets when the next kill comes, so each comes at another
    // time.
    static NTH: AtomicU64 = AtomicU64::new(0);
    let folder = folder();
    let path = folder.path().join("data");
    let (mut torn, mut written) = (Vec::new(), 0);
    for _ in 0..kills() {
        fs::write(&path, vec![0; PAGES as usize * PAGE]).unwrap();
        let mut victim = start(how, &path);
        let nth = NTH.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_micros(20_000 + nth * 7_919 % 60_000));
        victim.kill().unwrap();
        victim.wait().unwrap();
        torn.extend(torn_pages(&path));
        written += fs::read(&path).unwrap().chunks_exact(PAGE).filter(|page| page[0..8] != [0; 8]).count();
    }
    assert!(written > 0, "nothing was written before the kill");
    assert!(torn.is_empty(), "{how}: {} torn pages in {} kills: {torn:?}", torn.len(), kills());
}

#[test]
fn no_page_is_torn_that_is_written_by_a_copy() {
    kill_while_writing("write_at");
    kill_while_writing("write_at+checksums");
}

#[test]
fn no_page_is_torn_that_is_written_in_place() {
    kill_while_writing("page_mut");
    kill_while_writing("page_mut+checksums");
}

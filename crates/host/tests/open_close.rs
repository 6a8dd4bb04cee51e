//! Tests of opening and closing files: while one file is opened or closed, users of other files do not wait.

mod common;

use common::gate::{Gate, Gated};
use common::{builder, folder};
use highwater::machine::disk::backend::Backend;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// The last handle of a file is dropped, and the file's dirty pages wait for a slow disk. Other files are opened, used
/// and closed meanwhile. A thread that opens the file itself waits, and finds all data.
#[test]
fn who_opens_another_file_does_not_wait_for_one_that_is_closed() {
    let folder = folder();
    let (gate, (sender, came)) = (Arc::new(Gate::default()), mpsc::channel());
    let devices = AtomicUsize::new(0);
    let behind = {
        let (gate, sender) = (gate.clone(), Mutex::new(sender));
        move |inner| -> Arc<dyn Backend> {
            match devices.fetch_add(1, Ordering::Relaxed) {
                0 => Arc::new(Gated::new(inner, &gate, &sender.lock().unwrap())),
                _ => inner,
            }
        }
    };
    let memory = builder().behind(behind).start().unwrap();
    let path = folder.path().join("slow");
    let slow = memory.create(&path).unwrap();
    slow.write_all_at(&[7; 100_001], 0).unwrap();
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        let (memory, folder, path) = (&memory, &folder, &path);
        scope.spawn(|| drop(slow));
        came.recv().expect("the file is written when it is closed");
        let again = scope.spawn(move || memory.open(path).unwrap().len());
        scope.spawn(move || {
            for n in 0..3 {
                let other = memory.create(folder.path().join(format!("other {n}"))).unwrap();
                other.write_all_at(b"not slow", 0).unwrap();
            }
            done.send(()).unwrap();
        });
        let is_done = is_done.recv_timeout(Duration::from_secs(20));
        let waits = !again.is_finished();
        gate.open();
        is_done.expect("others wait for a file that is being closed");
        assert!(waits, "the file was opened anew before it was closed");
        assert_eq!(again.join().unwrap(), 100_001);
    });
    assert_eq!(fs::read(&path).unwrap(), [7; 100_001]);
    memory.check().unwrap();
    memory.shutdown().unwrap();
}

/// Four threads open, change and close the same three files. No change is lost.
#[test]
fn a_file_that_is_opened_and_closed_by_many_has_one_cache() {
    let folder = folder();
    let memory = builder().start().unwrap();
    let paths: Vec<_> = (0..3).map(|n| folder.path().join(format!("file {n}"))).collect();
    paths.iter().for_each(|path| fs::write(path, [0; 8]).unwrap());
    thread::scope(|scope| {
        for thread in 0..4 {
            let (memory, paths) = (&memory, &paths);
            scope.spawn(move || {
                for round in 0..100 {
                    let file = memory.open(&paths[(round + thread) % paths.len()]).unwrap();
                    // A write guard keeps out other threads between the read and the write of the count.
                    let mut page = file.page_mut(0).unwrap();
                    let count = u64::from_le_bytes(page[..8].try_into().unwrap()) + 1;
                    page[..8].copy_from_slice(&count.to_le_bytes());
                }
            });
        }
    });
    let counts = paths.iter().map(|path| u64::from_le_bytes(fs::read(path).unwrap().try_into().unwrap()));
    assert_eq!(counts.sum::<u64>(), 400);
    memory.check().unwrap();
    memory.shutdown().unwrap();
}

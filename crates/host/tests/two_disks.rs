//! Tests of a memory with files on two disks: a slow disk does not slow down writers of the other.

mod common;

use common::gate::{Gate, Gated};
use common::{builder, folder};
use highwater::machine::disk::backend::Backend;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// Number of bytes to write: far more than the dirty limits allow.
const BYTES: usize = 32 << 20;

fn write(file: &highwater::File) {
    (0..BYTES as u64).step_by(1 << 16).for_each(|offset| file.write_all_at(&[7; 1 << 16], offset % (2 << 20)).unwrap());
}

/// Writers of a disk that completes no writes are throttled; writers of another disk are not.
#[test]
fn a_disk_that_writes_nothing_does_not_hold_up_writers_of_another() {
    let (folder, other) = (folder(), tempfile::tempdir_in("/dev/shm").expect("there is memory for files"));
    let device = |folder: &tempfile::TempDir| folder.path().metadata().unwrap().dev();
    assert_ne!(device(&folder), device(&other), "the build folder must not lie in /dev/shm");
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
    let stuck = memory.create(folder.path().join("stuck")).unwrap();
    let fast = memory.create(other.path().join("fast")).unwrap();
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        let held = scope.spawn(|| write(&stuck));
        came.recv().expect("more is dirty than may be");
        // Leaves the writer of the slow disk time to dirty as many pages as the limits allow.
        thread::sleep(Duration::from_millis(500));
        scope.spawn(|| {
            write(&fast);
            done.send(()).unwrap();
        });
        let is_done = is_done.recv_timeout(Duration::from_secs(60));
        let is_held = !held.is_finished();
        gate.open();
        is_done.expect("a writer waits for a disk that is not its own");
        assert!(is_held, "nothing was written, and its writer went on");
    });
    memory.check().unwrap();
    memory.shutdown().unwrap();
}

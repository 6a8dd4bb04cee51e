//! Reads by futures: each gets its page or its error, waits without a thread, and leaves nothing behind when it is dropped.

mod common;

use common::hold::{Counting, Hold, Holding, wait_until};
use common::pages::{Chance, PAGE, page};
use common::{builder, folder};
use highwater::machine::disk::faults::{Fault, Faults, Script};
use highwater::{Advice, Error, ErrorKind, File, Memory, PageFuture};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread;

/// Writes a file of `pages` pages, each in version 1, without the library.
fn written(path: &Path, pages: u64) {
    let bytes: Vec<u8> = (0..pages).flat_map(|number| page(number, 1)).collect();
    std::fs::write(path, bytes).unwrap();
}

/// Opens a file for reads in no order.
fn opened(memory: &Memory, path: &Path) -> Arc<File> {
    let file = memory.open(path).unwrap();
    file.advise(0..0, Advice::Random);
    Arc::new(file)
}

/// Starts a memory of 8 MiB whose reads by futures wait in the returned [`Hold`].
fn held_memory() -> (Memory, Arc<Hold>) {
    let hold = Arc::new(Hold::default());
    let own = hold.clone();
    let memory = builder().behind(move |inner| Arc::new(Holding { inner, hold: own.clone() })).start().unwrap();
    (memory, hold)
}

#[test]
fn a_page_in_memory_is_ready_at_the_first_poll() {
    let folder = folder();
    let path = folder.path().join("file");
    written(&path, 4);
    let memory = builder().start().unwrap();
    let file = opened(&memory, &path);
    drop(file.page(2).unwrap());
    let waker = Arc::new(Counting::default());
    let Poll::Ready(Ok(guard)) = waker.poll(&mut file.page_async(2)) else { panic!("the page is in memory") };
    assert_eq!(guard[..], page(2, 1));
    assert_eq!((waker.calls(), Arc::strong_count(&waker)), (0, 1));
}

/// Reads all pages of a file that is larger than memory, 2000 at a time, on the executor `run`.
fn reads_every_page<R>(run: impl FnOnce(std::pin::Pin<Box<dyn Future<Output = ()>>>) -> R) {
    const PAGES: u64 = 6000;
    let folder = folder();
    let path = folder.path().join("file");
    written(&path, PAGES);
    let memory = builder().start().unwrap();
    let file = opened(&memory, &path);
    let own = file.clone();
    run(Box::pin(async move {
        for first in (0..PAGES).step_by(2000) {
            let mut futures: Vec<PageFuture> = (first..first + 2000).map(|number| own.page_async(number)).collect();
            let waker = Arc::new(Counting::default());
            // All are started before the first is awaited.
            let mut ready: Vec<_> = futures.iter_mut().map(|future| waker.poll(future)).collect();
            for (number, future) in (first..).zip(futures) {
                let guard = match std::mem::replace(&mut ready[(number - first) as usize], Poll::Pending) {
                    Poll::Ready(guard) => guard.unwrap(),
                    Poll::Pending => future.await.unwrap(),
                };
                assert!(guard[..] == page(number, 1)[..], "page {number}");
            }
        }
    }));
    drop(file);
    memory.check().unwrap();
}

#[test]
fn thousands_of_reads_wait_at_a_time_under_tokio() {
    reads_every_page(|all| tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(all));
}

#[test]
fn thousands_of_reads_wait_at_a_time_under_smol() {
    reads_every_page(smol::block_on);
}

#[test]
fn a_waker_is_called_once_and_the_future_then_is_ready() {
    let folder = folder();
    let path = folder.path().join("file");
    written(&path, 600);
    let (memory, hold) = held_memory();
    let file = opened(&memory, &path);
    // 300 futures on 256 queues, and a second future for each of the pages.
    let mut waits: Vec<_> =
        (0..600).map(|n| (n % 300, Arc::new(Counting::default()), file.page_async(n % 300))).collect();
    for (_, waker, future) in &mut waits {
        assert!(waker.poll(future).is_pending());
        assert!(waker.poll(future).is_pending(), "a second poll replaces the waker");
    }
    hold.let_go();
    wait_until(|| waits.iter().all(|(_, waker, _)| waker.calls() > 0));
    for (number, waker, future) in &mut waits {
        assert!(matches!(waker.poll(future), Poll::Ready(Ok(guard)) if guard[..] == page(*number, 1)[..]));
        assert_eq!((waker.calls(), Arc::strong_count(waker)), (1, 1));
    }
}

#[test]
fn a_device_gets_256_reads_of_futures_at_a_time_and_no_thread_waits() {
    let folder = folder();
    let path = folder.path().join("file");
    written(&path, 400);
    let (memory, hold) = held_memory();
    let file = opened(&memory, &path);
    let waker = Arc::new(Counting::default());
    let mut futures: Vec<_> = (0..400).map(|number| file.page_async(number)).collect();
    assert!(futures.iter_mut().all(|future| waker.poll(future).is_pending()));
    assert_eq!(hold.count(), 256);
    hold.carry_out();
    assert_eq!(hold.count(), 144, "the end of a read starts the next");
    hold.let_go();
    wait_until(|| waker.calls() == 400);
    assert!(futures.iter_mut().all(|future| matches!(waker.poll(future), Poll::Ready(Ok(_)))));
}

#[test]
fn a_dropped_future_leaves_no_waker_and_no_page_in_use() {
    let folder = folder();
    let path = folder.path().join("file");
    written(&path, 3000);
    let (memory, hold) = held_memory();
    let file = opened(&memory, &path);
    let waker = Arc::new(Counting::default());
    // 512 of 2048 pages may be read by futures at a time; the others wait for the thread that starts them.
    let mut futures: Vec<_> = (0..700).map(|number| file.page_async(number)).collect();
    assert!(futures.iter_mut().all(|future| waker.poll(future).is_pending()));
    assert!(Arc::strong_count(&waker) > 700);
    drop(futures);
    hold.let_go();
    // A read beyond the 512 may have been started, and its future woken, before that future was dropped.
    assert!(Arc::try_unwrap(waker).map_err(|_| "a waker was kept").unwrap().calls() <= 700 - 512);
    // The pages can leave memory, and the file can be closed.
    for number in 0..3000 {
        assert!(file.page(number).unwrap()[..] == page(number, 1)[..]);
    }
    Arc::try_unwrap(file).expect("no future has a share").close().unwrap();
    memory.check().unwrap();
}

#[test]
fn a_future_waits_for_a_writer_of_its_page() {
    let folder = folder();
    let path = folder.path().join("file");
    written(&path, 2);
    let memory = builder().start().unwrap();
    let file = opened(&memory, &path);
    let waker = Arc::new(Counting::default());
    let mut future = file.page_async(1);
    let mut writing = file.page_mut(1).unwrap();
    assert!(waker.poll(&mut future).is_pending());
    writing[0] = 77;
    assert_eq!(waker.calls(), 0);
    drop(writing);
    wait_until(|| waker.calls() == 1);
    assert!(matches!(waker.poll(&mut future), Poll::Ready(Ok(guard)) if guard[0] == 77));
}

#[test]
fn a_failed_read_reaches_its_future_and_the_next_one_succeeds() {
    let folder = folder();
    let path = folder.path().join("file");
    written(&path, 1000);
    let script = Script::new();
    let faults = script.clone();
    let memory = builder().behind(move |backend| Faults::wrap(&faults, backend)).start().unwrap();
    let file = opened(&memory, &path);
    script.set_all(Some(Fault::Fail(5)));
    smol::block_on(async {
        let waker = Arc::new(Counting::default());
        let mut futures: Vec<_> = (0..1000).map(|number| file.page_async(number)).collect();
        for future in &mut futures {
            if let Poll::Ready(result) = waker.poll(future) {
                assert!(matches!(result.unwrap_err(), Error::Read { .. }));
            }
        }
        for (number, future) in (0..).zip(&mut futures) {
            assert!(matches!(future.await.unwrap_err(), Error::Read { offset, .. } if offset == number * PAGE));
        }
        script.set_all(None);
        for (number, future) in (0..).zip(&mut futures) {
            assert!(future.await.unwrap()[..] == page(number, 1)[..], "polled again, a future begins anew");
        }
    });
    drop(file);
    memory.check().unwrap();
}

#[test]
fn a_page_after_the_end_is_an_error_even_if_it_is_cut_off_meanwhile() {
    let folder = folder();
    let path = folder.path().join("file");
    written(&path, 4);
    let (memory, hold) = held_memory();
    let file = opened(&memory, &path);
    let waker = Arc::new(Counting::default());
    let out_of_range = |result| matches!(result, Poll::Ready(Err(Error::OutOfRange { .. })));
    assert!(out_of_range(waker.poll(&mut file.page_async(4))));
    assert!(out_of_range(waker.poll(&mut file.page_async(u64::MAX))));
    let mut future = file.page_async(3);
    assert!(waker.poll(&mut future).is_pending());
    thread::scope(|scope| {
        let cut = scope.spawn(|| file.set_len(2 * PAGE).unwrap());
        wait_until(|| hold.count() == 1);
        hold.let_go();
        cut.join().unwrap();
    });
    assert!(out_of_range(waker.poll(&mut future)));
}

/// A program keeps the guards of all pages that fit into memory. The futures of further pages get an error, and those
/// that were started in vain do not stay in memory.
#[test]
fn memory_full_of_guards_is_an_error_for_all_that_wait() {
    let folder = folder();
    let path = folder.path().join("file");
    written(&path, 3000);
    let memory = builder().start().unwrap();
    let file = opened(&memory, &path);
    smol::block_on(async {
        let mut guards = Vec::new();
        let error = loop {
            match file.page_async(guards.len() as u64).await {
                Ok(guard) => guards.push(guard),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(guards.len() > 1500, "{} of 2048 pages", guards.len());
        let waker = Arc::new(Counting::default());
        let mut futures: Vec<_> = (0..100).map(|n| file.page_async(2900 + n)).collect();
        assert!(futures.iter_mut().all(|future| waker.poll(future).is_pending()));
        for future in &mut futures {
            assert_eq!(future.await.unwrap_err().kind(), ErrorKind::OutOfMemory);
        }
        drop(guards);
        for (n, future) in (0..).zip(&mut futures) {
            assert!(future.await.unwrap()[..] == page(2900 + n, 1)[..]);
        }
    });
    drop(file);
    memory.check().unwrap();
}

#[test]
fn a_full_group_makes_room_for_futures() {
    let folder = folder();
    let path = folder.path().join("file");
    written(&path, 3000);
    let memory = builder().groups(4).start().unwrap();
    let group = memory.group("small").unwrap();
    group.set_max(1 << 20).unwrap();
    let file = highwater::OpenOptions::new().group(&group).open(&memory, &path).unwrap();
    file.advise(0..0, Advice::Random);
    let file = Arc::new(file);
    smol::block_on(async {
        for first in (0..3000).step_by(100) {
            let mut futures: Vec<_> = (first..first + 100).map(|number| Box::pin(file.page_async(number))).collect();
            for (number, future) in (first..).zip(&mut futures) {
                assert!(future.await.unwrap()[..] == page(number, 1)[..]);
            }
        }
    });
    assert!(group.usage() <= 1 << 20);
}

#[test]
fn a_shutdown_ends_every_wait() {
    let folder = folder();
    let path = folder.path().join("file");
    written(&path, 1000);
    let (memory, hold) = held_memory();
    let file = opened(&memory, &path);
    let waker = Arc::new(Counting::default());
    let writing = file.page_mut(999).unwrap();
    let mut futures: Vec<_> = (0..600).chain([999]).map(|number| file.page_async(number)).collect();
    assert!(futures.iter_mut().all(|future| waker.poll(future).is_pending()));
    thread::scope(|scope| {
        // The shutdown itself waits for the writer.
        scope.spawn(|| memory.shutdown().unwrap());
        smol::block_on(async {
            for future in &mut futures {
                let result = future.await;
                assert!(matches!(result, Err(Error::ShutDown)), "{result:?}");
            }
        });
        drop(writing);
        hold.let_go();
    });
    assert!(matches!(waker.poll(&mut file.page_async(800)), Poll::Ready(Err(Error::ShutDown))));
}

#[test]
fn bytes_are_read_across_pages_and_to_the_end() {
    let folder = folder();
    let path = folder.path().join("file");
    let bytes: Vec<u8> = (0..3000).flat_map(|number| page(number, 1)).take(3000 * PAGE as usize - 100).collect();
    std::fs::write(&path, &bytes).unwrap();
    let memory = builder().start().unwrap();
    let file = Arc::new(memory.open(&path).unwrap());
    let mut chance = Chance(1);
    smol::block_on(async {
        for most in [10, 10_000, 3_000_000] {
            for _ in 0..30 {
                let (offset, len) = (chance.below(bytes.len() as u64 + 5000), chance.below(most));
                let (read, found) = file.read_at_async(vec![1; len as usize], offset).await;
                let expected = bytes.get(offset as usize..).unwrap_or_default();
                let expected = &expected[..expected.len().min(len as usize)];
                assert_eq!(read.unwrap(), expected.len());
                assert!(found[..expected.len()] == *expected && found[expected.len()..].iter().all(|byte| *byte == 1));
            }
        }
        // A read from the beginning to the end is read ahead.
        memory.drop_caches();
        let before = memory.vmstat().get("pgpgin");
        let mut at = 0;
        while at < bytes.len() as u64 {
            let (read, found) = file.read_at_async(vec![0; 16_000], at).await;
            let read = read.unwrap();
            assert!(found[..read] == bytes[at as usize..at as usize + read]);
            at += read as u64;
        }
        let kib = memory.vmstat().get("pgpgin") - before;
        assert!((12_000..13_000).contains(&kib), "{kib} KiB of 12000");
    });
}

#[test]
fn a_write_and_a_sync_are_made_by_a_thread_of_the_library() {
    let folder = folder();
    let path = folder.path().join("file");
    let memory = builder().start().unwrap();
    let file = Arc::new(memory.create(&path).unwrap());
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap().block_on(async {
        let writes: Vec<_> = (0..200)
            .map(|number| {
                let file = file.clone();
                tokio::spawn(async move {
                    let (written, buffer) = file.write_at_async(page(number, 1), number * PAGE).await;
                    assert_eq!((written.unwrap(), buffer), (PAGE as usize, page(number, 1)));
                })
            })
            .collect();
        for write in writes {
            write.await.unwrap();
        }
        file.sync_data_async().await.unwrap();
        file.sync_all_async().await.unwrap();
    });
    assert_eq!(memory.vmstat().get("nr_dirty"), 0);
    let bytes = std::fs::read(&path).unwrap();
    assert!((0..200).all(|number| bytes[(number * PAGE) as usize..][..PAGE as usize] == page(number, 1)[..]));
    let reading = Arc::new(highwater::OpenOptions::new().open(&memory, &path).unwrap());
    let (refused, _) = smol::block_on(reading.write_at_async(vec![1], 0));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ReadOnly);
    memory.shutdown().unwrap();
    assert!(matches!(smol::block_on(file.sync_data_async()), Err(Error::ShutDown)));
}

#[test]
fn a_change_that_is_dropped_before_its_turn_is_not_made() {
    let folder = folder();
    let memory = builder().start().unwrap();
    let file = Arc::new(memory.create(folder.path().join("file")).unwrap());
    file.set_len(16 * PAGE).unwrap();
    // Four threads wait for the writers of pages, and a fifth write stands in line.
    let writing: Vec<_> = (0..4).map(|number| file.page_mut(number).unwrap()).collect();
    let waker = Arc::new(Counting::default());
    let mut futures: Vec<_> = (0..5).map(|number| file.write_at_async(page(number, 1), number * PAGE)).collect();
    assert!(futures.iter_mut().all(|future| waker.poll(future).is_pending()));
    drop(futures.pop());
    drop(writing);
    futures.into_iter().for_each(|future| assert_eq!(smol::block_on(future).0.unwrap(), PAGE as usize));
    assert_eq!(smol::block_on(file.write_at_async(vec![1], 15 * PAGE)).0.unwrap(), 1);
    assert_eq!((file.page(3).unwrap()[..] == page(3, 1)[..], file.page(4).unwrap()[0]), (true, 0));
}

/// Threads write and read pages of a file that is larger than memory, while futures read other pages of the file,
/// thousands at a time, on two threads. Some futures are dropped halfway. Every byte is checked.
#[test]
fn futures_beside_threads_see_every_byte_as_written() {
    const PAGES: u64 = 5000;
    const TASKS: u64 = 3000;
    let folder = folder();
    let path = folder.path().join("file");
    written(&path, PAGES);
    let memory = builder().start().unwrap();
    let file = opened(&memory, &path);
    let (is_done, left) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
    let rounds = common::pages::soak_seconds(1) * 4;
    thread::scope(|scope| {
        for own in 0..2 {
            // Each thread has pages of its own at the end of the file, and reads all others.
            let (file, is_done) = (&file, &is_done);
            scope.spawn(move || {
                let (mut chance, first) = (Chance(own), 4000 + 500 * own);
                let mut versions = [1; 500];
                while !is_done.load(Ordering::Relaxed) {
                    let (n, other) = (chance.below(500), chance.below(4000));
                    versions[n as usize] += 1;
                    file.write_all_at(&page(first + n, versions[n as usize]), (first + n) * PAGE).unwrap();
                    assert!(file.page(other).unwrap()[..] == page(other, 1)[..]);
                }
                for (n, version) in (0..).zip(versions) {
                    assert!(file.page(first + n).unwrap()[..] == page(first + n, version)[..]);
                }
            });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..TASKS)
                .map(|own| {
                    let (file, left) = (file.clone(), left.clone());
                    tokio::spawn(async move {
                        let mut chance = Chance(own + 10);
                        for round in 0..rounds {
                            let number = chance.below(4000);
                            if (own + round) % 7 == 0 {
                                // Polled once, and dropped unless it was ready.
                                let mut future = pin!(file.page_async(chance.below(4000)));
                                std::future::poll_fn(|cx| {
                                    left.fetch_add(future.as_mut().poll(cx).is_pending().into(), Ordering::Relaxed);
                                    Poll::Ready(())
                                })
                                .await;
                            }
                            if own % 3 == 0 {
                                let (read, bytes) = file.read_at_async(vec![0; 4096], number * PAGE).await;
                                assert_eq!(read.unwrap(), 4096);
                                assert!(bytes == page(number, 1), "page {number}");
                            } else {
                                assert!(file.page_async(number).await.unwrap()[..] == page(number, 1)[..]);
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        is_done.store(true, Ordering::Relaxed);
    });
    assert!(left.load(Ordering::Relaxed) > 0, "no future was dropped halfway");
    drop(file);
    memory.check().unwrap();
}

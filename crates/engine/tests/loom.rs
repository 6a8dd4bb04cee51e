//! The concurrency core, every interleaving and every order of memory that the language allows (loom).
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --package highwater-engine --test loom`
//!
//! A page is found by its slot, held by a word of its frame, and taken out of memory by freezing that word. The
//! stories: a lookup beside an eviction whose frame becomes another page's; a writer beside an eviction; the next
//! page of the slot beside an eviction; the end of the file beside one; readers beside a writer of the page's bytes;
//! readers with hazard pointers beside an eviction, and beside who waits for them. And one of kswapd, which falls
//! asleep while it is asked for more.

#![cfg(loom)]

use engine::memory::{Flags, FrameTable, Owner};
use engine::page_cache::file_index::{FileIndex, Found, Miss, Tag};
use engine::reclaim::kswapd::Requests;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::sync::{Arc, Mutex, Notify};
use loom::thread;
use machine::{FrameNumber, Order};

const FRAME: FrameNumber = FrameNumber(0);
const FILE: Owner = Owner::File(1);
const OTHER: Owner = Owner::File(2);

/// A frame in slot 0 of one file, to which the index has the only reference; and one more.
struct World {
    frames: FrameTable,
    index: FileIndex,
    /// The page's bytes.
    bytes: UnsafeCell<u64>,
}

// SAFETY: for the model: that nobody touches the bytes at the same time is what it checks.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

fn world() -> Arc<World> {
    let world = World { frames: FrameTable::new(2).unwrap(), index: FileIndex::default(), bytes: UnsafeCell::new(0) };
    let frame = &world.frames[FRAME];
    frame.set_references(1);
    frame.set_owner(FILE, 0);
    frame.set(Flags::UPTODATE);
    world.index.insert(0, FRAME).expect("the slot is empty");
    Arc::new(world)
}

/// Takes the page out of memory as reclaim does, if it is clean and nobody holds it.
fn evict(world: &World) -> bool {
    let frame = &world.frames[FRAME];
    if !frame.get_unless_zero() {
        return false;
    }
    if frame.try_lock() {
        if frame.freeze_clean(2) {
            world.index.remove(0, FRAME, None);
            frame.set_owner(Owner::None, 0);
            frame.clear(Flags(u32::MAX));
            return true;
        }
        frame.clear(Flags::LOCKED);
    }
    frame.put();
    false
}

/// Looks page 0 up, and takes a reference and the shared latch of what is there.
fn get_shared(world: &World) -> Option<Result<(), Miss>> {
    world.index.find(0).map(|found| found.get_shared(&world.frames).map(|_| ()))
}

#[test]
fn a_lookup_never_gets_the_page_that_its_frame_holds_next() {
    loom::model(|| {
        let world = world();
        let evictor = {
            let world = world.clone();
            thread::spawn(move || {
                if evict(&world) {
                    // The frame is allocated for another file at once.
                    let frame = &world.frames[FRAME];
                    frame.set_owner(OTHER, 7);
                    frame.set_references(1);
                }
            })
        };
        let frame = &world.frames[FRAME];
        match get_shared(&world) {
            Some(Ok(())) => {
                assert_eq!((frame.owner(), frame.index()), (FILE, 0));
                frame.put_shared();
            }
            Some(Err(Miss::Undo)) => {
                frame.put_shared();
            }
            Some(Err(Miss::Frozen)) | None => {}
            Some(Err(Miss::Held | Miss::Full)) => unreachable!("nobody writes"),
        }
        evictor.join().unwrap();
        let expected = if world.index.get(0).is_some() { FILE } else { OTHER };
        assert_eq!((frame.owner(), frame.references()), (expected, 1));
    });
}

#[test]
fn what_was_written_is_never_evicted_as_clean() {
    loom::model(|| {
        let world = world();
        let writer = {
            let world = world.clone();
            thread::spawn(move || {
                let frame = &world.frames[FRAME];
                // As a lookup: a reference, and a second look at the slot.
                if world.index.get(0).is_none() || !frame.get_unless_zero() {
                    return false;
                }
                let is_there = world.index.get(0) == Some(FRAME);
                if is_there {
                    frame.set(Flags::DIRTY);
                }
                frame.put();
                is_there
            })
        };
        let is_evicted = evict(&world);
        let has_written = writer.join().unwrap();
        assert!(!(is_evicted && has_written), "a page was written and evicted");
    });
}

#[test]
fn a_page_keeps_its_tag_though_the_one_before_it_is_still_on_its_way_out() {
    loom::model(|| {
        let world = world();
        let evictor = {
            let world = world.clone();
            thread::spawn(move || evict(&world))
        };
        const NEXT: FrameNumber = FrameNumber(1);
        world.frames[NEXT].set_references(1);
        let is_there = world.index.insert(0, NEXT).is_ok();
        if is_there {
            world.index.set_tag(0, Tag::Dirty);
        }
        evictor.join().unwrap();
        assert_eq!(world.index.has_tag(0, Tag::Dirty), is_there);
    });
}

/// A file is closed while reclaim takes its last page: who finds no page left finds none counted.
#[test]
fn a_file_without_pages_counts_none() {
    loom::model(|| {
        let world = world();
        let reclaim = thread::spawn({
            let world = Arc::clone(&world);
            move || evict(&world)
        });
        if world.index.next_present(0).is_none() {
            assert_eq!(world.index.pages(), 0);
        }
        assert!(reclaim.join().unwrap());
        assert_eq!((world.index.next_present(0), world.index.pages()), (None, 0));
    });
}

#[test]
fn a_writer_of_bytes_is_alone_with_them() {
    loom::model(|| {
        let world = world();
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                if get_shared(&world) == Some(Ok(())) {
                    // SAFETY: under the shared latch.
                    let seen = world.bytes.with(|bytes| unsafe { *bytes });
                    assert!(seen == 0 || seen == 2, "half of a write was seen: {seen}");
                    world.frames[FRAME].put_shared();
                }
            })
        };
        let frame = &world.frames[FRAME];
        frame.get();
        if frame.try_latch(true) {
            for _ in 0..2 {
                // SAFETY: under the exclusive latch.
                world.bytes.with_mut(|bytes| unsafe { *bytes += 1 });
            }
            frame.unlatch(true);
        }
        frame.put();
        reader.join().unwrap();
        assert_eq!(frame.references(), 1);
    });
}

/// A hazard pointer of the reader, as the machine's: here both sides have the barrier, which on a real machine only who asks
/// has for both.
#[derive(Default)]
struct Hazard(AtomicU32);

impl Hazard {
    fn publish(&self, frame: FrameNumber) {
        self.0.store(frame.0 + 1, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    fn withdraw(&self) {
        self.0.store(0, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    fn is_published(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Acquire) != 0
    }
}

fn find_open(world: &World) -> Option<Found<'_>> {
    world.index.slot(0)?.find_open()
}

/// Reads an open page as a hit does; false when it was closed meanwhile, and nothing when nothing was published.
fn read_open(world: &World, hazard: &Hazard) -> Option<bool> {
    let found = find_open(world)?;
    hazard.publish(found.frame);
    let is_there = found.is_unchanged();
    if is_there {
        // SAFETY: the page is held.
        let seen = world.bytes.with(|bytes| unsafe { *bytes });
        assert_eq!(seen, 0, "the frame is another page's");
    }
    hazard.withdraw();
    Some(is_there)
}

fn open(world: &World) {
    world.frames[FRAME].set(Flags::HAZARD);
    world.index.open(0, FRAME);
}

/// As [`evict`], of a page that readers may hold by hazard pointers; its frame is used again at once.
fn evict_open(world: &World, hazard: &Hazard) -> bool {
    let frame = &world.frames[FRAME];
    if !frame.get_unless_zero() {
        return false;
    }
    world.index.close(0, FRAME);
    let is_held = hazard.is_published();
    if frame.freeze_clean(2) {
        if !frame.is(Flags::HAZARD) || !is_held && find_open(world).is_none() {
            world.index.remove(0, FRAME, None);
            // SAFETY: nobody holds the page, and the frame is ours.
            world.bytes.with_mut(|bytes| unsafe { *bytes = 7 });
            return true;
        }
        frame.set_references(2);
    }
    frame.put();
    false
}

#[test]
fn a_page_that_is_read_by_hazard_pointer_is_not_evicted() {
    loom::model(|| {
        let (world, hazard) = (world(), Arc::new(Hazard::default()));
        open(&world);
        let evictor = thread::spawn({
            let (world, hazard) = (world.clone(), hazard.clone());
            move || evict_open(&world, &hazard)
        });
        let has_read = read_open(&world, &hazard) == Some(true);
        let is_evicted = evictor.join().unwrap();
        assert!(has_read || is_evicted || find_open(&world).is_none());
    });
}

#[test]
fn a_page_that_was_opened_meanwhile_is_not_evicted() {
    loom::model(|| {
        let (world, hazard) = (world(), Arc::new(Hazard::default()));
        let evictor = thread::spawn({
            let (world, hazard) = (world.clone(), hazard.clone());
            move || evict_open(&world, &hazard)
        });
        if get_shared(&world) == Some(Ok(())) {
            open(&world);
            world.frames[FRAME].put_shared();
            read_open(&world, &hazard);
        }
        evictor.join().unwrap();
    });
}

/// What a writer does that waits for readers with hazard pointers, and a file that is cut while they hold its page.
#[test]
fn who_waits_for_a_hazard_pointer_is_told() {
    loom::model(|| {
        let (world, hazard) = (world(), Arc::new(Hazard::default()));
        let (waits, bell) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        open(&world);
        let waiter = thread::spawn({
            let (world, hazard, waits, bell) = (world.clone(), hazard.clone(), waits.clone(), bell.clone());
            move || {
                world.index.close(0, FRAME);
                waits.fetch_add(1, Ordering::SeqCst);
                while hazard.is_published() {
                    // A reader that does not tell leaves the thread here for ever, which loom reports.
                    bell.wait();
                }
                // SAFETY: nobody holds the page.
                world.bytes.with_mut(|bytes| unsafe { *bytes = 7 });
            }
        });
        if read_open(&world, &hazard).is_some() && waits.load(Ordering::Relaxed) != 0 {
            bell.notify();
        }
        waiter.join().unwrap();
    });
}

/// A queue as the machine's: a count of wakes, and who sleeps until it changes.
#[derive(Default)]
struct Queue {
    wakes: Mutex<u32>,
}

#[test]
fn who_waits_for_a_latch_is_woken() {
    loom::model(|| {
        let world = world();
        let (queue, bell) = (Arc::new(Queue { wakes: Mutex::new(0) }), Arc::new(Notify::new()));
        assert!(get_shared(&world) == Some(Ok(())));
        let waiter = {
            let (world, queue, bell) = (world.clone(), queue.clone(), bell.clone());
            thread::spawn(move || {
                let frame = &world.frames[FRAME];
                frame.get();
                while !frame.try_latch(true) {
                    let ticket = *queue.wakes.lock().unwrap();
                    frame.note_latch_wait();
                    if frame.try_latch(true) {
                        break;
                    }
                    // A wake that is lost leaves the thread here for ever, which loom reports.
                    while *queue.wakes.lock().unwrap() == ticket {
                        bell.wait();
                    }
                }
                frame.unlatch(true);
                frame.put();
            })
        };
        let (_, is_waited_for) = world.frames[FRAME].put_shared();
        if is_waited_for {
            *queue.wakes.lock().unwrap() += 1;
            bell.notify();
        }
        waiter.join().unwrap();
    });
}

#[test]
fn kswapd_never_sleeps_over_a_request_that_did_not_wake_it() {
    loom::model(|| {
        let requests = Arc::new(Requests::default());
        let task = {
            let requests = requests.clone();
            thread::spawn(move || requests.note(Order(3), 0))
        };
        requests.begin_sleep();
        let sleeps = !requests.is_above(Order::ZERO);
        let is_woken = task.join().unwrap();
        assert!(!sleeps || is_woken);
    });
}

//! The concurrent core of the engine, in every interleaving and every order of memory that the language allows (loom).
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --package highwater-engine --test loom`
//!
//! A lookup finds a page in its slot of the file index. A task holds a page by an atomic word of the page's frame, and
//! an eviction freezes that word. The tests run these operations at the same time: a lookup and an eviction whose frame
//! is used for another page; a writer and an eviction; an eviction and the addition of a new page to the same slot; a
//! truncation and an eviction; readers and a writer of the page's bytes; readers with hazard pointers and an eviction,
//! or a task that waits for these readers; readers with and without hazard pointers, a writer or a truncation, and a
//! page that moves to another frame; tasks that tag pages and tasks that remove tags. Two more tests are about a kswapd
//! that falls asleep while a task requests more reclaim, and about a control group that is removed while a task charges
//! a page to it that comes back from swap.

#![cfg(loom)]

use engine::memory::group::lives::{Lives, State};
use engine::memory::{Flags, FrameTable, GroupId, Owner};
use engine::page_cache::file_index::{FileIndex, FoundPage, Miss, Tag};
use engine::page_cache::versions::Versions;
use engine::reclaim::kswapd::Requests;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::sync::{Arc, Mutex, Notify};
use loom::thread;
use machine::{FrameNumber, Order};

const FRAME: FrameNumber = FrameNumber(0);
const FILE: Owner = Owner::File(1);
const OTHER: Owner = Owner::File(2);

/// A machine of two frames and one file. The file has one page, in slot 0 and frame 0. Only the file's index holds a
/// reference to it.
struct World {
    frames: FrameTable,
    index: FileIndex,
    /// The page's bytes.
    bytes: UnsafeCell<u64>,
}

// SAFETY: the model checks whether tasks touch the bytes at the same time.
unsafe impl Sync for World {}
// SAFETY: the model checks whether tasks touch the bytes at the same time.
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

/// Evicts the page as reclaim does, if it is clean and no task holds it.
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

/// Looks page 0 up, and takes a reference and the shared latch of the page found.
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
                // As a lookup does, this takes a reference and then checks the slot a second time.
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

/// Returns an index in which `pages` have slots and the first of them is dirty.
fn tagged(pages: &[u32]) -> Arc<FileIndex> {
    let index = FileIndex::default();
    for page in pages {
        assert!(index.prepare(*page));
        index.insert(*page, FRAME).expect("the slot is empty");
    }
    index.set_tag(pages[0], Tag::Dirty);
    Arc::new(index)
}

/// Page 0 is the only dirty page. One task tags a second page as dirty, while another task clears the tag of page 0.
/// Either both tags lie in one word of the index, or one of the counts above the words covers both. The first task must
/// find the second page at once.
#[test]
fn a_tagged_page_is_never_hidden() {
    for next in [1, 64, 64 * 64, 64 * 64 * 64] {
        loom::model(move || {
            let index = tagged(&[0, next]);
            let cleaner = thread::spawn({
                let index = index.clone();
                move || index.clear_tag(0, Tag::Dirty)
            });
            index.set_tag(next, Tag::Dirty);
            assert_eq!(index.next_tagged(1, Tag::Dirty), Some(next));
            cleaner.join().unwrap();
            assert_eq!(index.next_tagged(0, Tag::Dirty), Some(next));
            index.clear_tag(next, Tag::Dirty);
            assert_eq!(index.next_tagged(0, Tag::Dirty), None);
        });
    }
}

/// A file has no dirty pages. Two tasks tag one page each as dirty at the same time. Each task then finds its own tag,
/// even if the other task has not finished.
#[test]
fn each_of_two_who_tag_pages_finds_its_own() {
    for next in [1, 64, 64 * 64] {
        loom::model(move || {
            let index = tagged(&[0, next]);
            index.clear_tag(0, Tag::Dirty);
            let other = thread::spawn({
                let index = index.clone();
                move || {
                    index.set_tag(0, Tag::Dirty);
                    assert_eq!(index.next_tagged(0, Tag::Dirty), Some(0));
                }
            });
            index.set_tag(next, Tag::Dirty);
            assert_eq!(index.next_tagged(1, Tag::Dirty), Some(next));
            other.join().unwrap();
            assert_eq!(index.next_tagged(0, Tag::Dirty), Some(0));
        });
    }
}

/// A sync looks up a page that was tagged before the sync began, and must find it. Meanwhile another task sets and
/// clears the tag of a second page. In one case both tags are in one word of the index, in the other case in
/// neighbouring words.
#[test]
fn a_sync_finds_what_was_tagged_before_it() {
    for next in [1, 64] {
        loom::model(move || {
            let index = tagged(&[0, next]);
            let other = thread::spawn({
                let index = index.clone();
                move || {
                    index.set_tag(next, Tag::Dirty);
                    index.clear_tag(next, Tag::Dirty);
                }
            });
            assert_eq!(index.next_tagged(0, Tag::Dirty), Some(0));
            other.join().unwrap();
            index.clear_tag(0, Tag::Dirty);
            assert_eq!(index.next_tagged(0, Tag::Dirty), None);
        });
    }
}

/// Reclaim evicts the only page of a file. Meanwhile another task looks for pages of the file, as happens when a file
/// is closed. If this task finds no page, it must also read a page count of 0.
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

/// A model of the machine's hazard pointer. Here both sides execute the barrier. On a real machine, the side that
/// checks for readers executes the barrier for both.
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

/// A writer changes a page and then publishes a word. A reader reads the page's version, the page, the word and the
/// version again. If the version is the same, the page that it has read is at least as new as the word.
#[test]
fn an_unchanged_version_means_unchanged_bytes() {
    loom::model(|| {
        let (world, versions, word) = (world(), Arc::new(Versions::new(1)), Arc::new(AtomicU32::new(0)));
        let writer = thread::spawn({
            let (world, versions, word) = (world.clone(), versions.clone(), word.clone());
            move || {
                let frame = &world.frames[FRAME];
                frame.get();
                while !frame.try_latch(true) {
                    thread::yield_now();
                }
                versions.note(1, 0);
                // SAFETY: the writer has the exclusive latch.
                world.bytes.with_mut(|bytes| unsafe { *bytes = 1 });
                frame.unlatch(true);
                frame.put();
                word.store(1, Ordering::Release);
            }
        });
        let seen = versions.of(1, 0);
        if get_shared(&world) == Some(Ok(())) {
            // SAFETY: the reader has the shared latch.
            let bytes = world.bytes.with(|bytes| unsafe { *bytes });
            world.frames[FRAME].put_shared();
            let later = word.load(Ordering::Acquire);
            assert!(versions.of(1, 0) != seen || u64::from(later) <= bytes, "an old page with an unchanged version");
        }
        writer.join().unwrap();
    });
}

/// Two readers of a page each try to become its writer. At most one of them is a writer at a time, without a reader
/// beside it, and what it reads after its change, as a reader again, is its own.
#[test]
fn who_upgrades_a_latch_is_alone_with_the_bytes_and_stays_first_when_it_downgrades() {
    loom::model(|| {
        let world = world();
        let change = |world: &World, value: u64| {
            let frame = &world.frames[FRAME];
            if get_shared(world) != Some(Ok(())) {
                return;
            }
            // SAFETY: the caller has the shared latch.
            world.bytes.with(|bytes| unsafe { *bytes });
            if frame.try_upgrade() {
                // SAFETY: the caller has the exclusive latch.
                world.bytes.with_mut(|bytes| unsafe { *bytes = value });
                frame.downgrade();
                // SAFETY: the caller has the shared latch again.
                assert_eq!(world.bytes.with(|bytes| unsafe { *bytes }), value);
            }
            frame.put_shared();
        };
        let other = thread::spawn({
            let world = world.clone();
            move || change(&world, 1)
        });
        change(&world, 2);
        other.join().unwrap();
        assert_eq!(world.frames[FRAME].references(), 1);
    });
}

fn find_open(world: &World) -> Option<FoundPage<'_>> {
    world.index.slot(0)?.find_open()
}

/// Reads the page under a hazard pointer, as a cache hit does. Returns `None` if the page is not open for hazard
/// pointers, and `Some(false)` if it was closed before the hazard pointer was published.
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

/// Evicts page 0 as [`evict`] does, although readers without a reference may hold it by hazard pointers. If it is
/// evicted, its frame is overwritten at once. Returns whether it was evicted.
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
            // SAFETY: no task holds the page, and the frame belongs to this task.
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

/// A task closes a page for readers, and then sleeps until no reader holds the page by a hazard pointer. Writers and
/// truncations do so. The last reader must wake the task.
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
                    // If the reader does not ring the bell, this thread waits for ever, which loom reports.
                    bell.wait();
                }
                // SAFETY: no task holds the page.
                world.bytes.with_mut(|bytes| unsafe { *bytes = 7 });
            }
        });
        if read_open(&world, &hazard).is_some() && waits.load(Ordering::Relaxed) != 0 {
            bell.notify();
        }
        waiter.join().unwrap();
    });
}

/// A model of the machine's wait queue: it counts wakes, and a task sleeps until the count changes.
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
                    // If a wake is lost, this thread waits for ever, which loom reports.
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

/// The free frame to which the page is moved.
const TO: FrameNumber = FrameNumber(1);

/// A file with page 0 in the frame [`FRAME`], to which only the index has a reference, and a free frame [`TO`]. The
/// page's bytes are 1, and 2 after a write. A frame whose page was evicted gets the bytes 7.
struct Moving {
    frames: FrameTable,
    index: FileIndex,
    bytes: [UnsafeCell<u64>; 2],
}

// SAFETY: the model checks whether tasks touch the bytes at the same time.
unsafe impl Sync for Moving {}
// SAFETY: the model checks whether tasks touch the bytes at the same time.
unsafe impl Send for Moving {}

impl Moving {
    fn new() -> Arc<Self> {
        let (frames, index) = (FrameTable::new(2).unwrap(), FileIndex::default());
        frames[FRAME].set_references(1);
        frames[FRAME].set_owner(FILE, 0);
        index.insert(0, FRAME).expect("the slot is empty");
        Arc::new(Self { frames, index, bytes: [UnsafeCell::new(1), UnsafeCell::new(0)] })
    }

    fn read(&self, frame: FrameNumber) -> u64 {
        // SAFETY: the caller holds the page.
        self.bytes[frame.index()].with(|bytes| unsafe { *bytes })
    }

    fn write(&self, frame: FrameNumber, value: u64) {
        // SAFETY: only the caller has the page or the frame.
        self.bytes[frame.index()].with_mut(|bytes| unsafe { *bytes = value });
    }

    /// Moves the page from [`FRAME`] to [`TO`], as migration does, unless a task holds the page. Returns whether it was
    /// moved. `hazard` is the pointer of a reader that may hold the page. The old frame is used for another page at
    /// once.
    fn migrate(&self, hazard: Option<&Hazard>) -> bool {
        let (old, new) = (&self.frames[FRAME], &self.frames[TO]);
        if !old.get_unless_zero() {
            return false;
        }
        let is_held = hazard.is_some_and(|hazard| {
            self.index.close(0, FRAME);
            hazard.is_published()
        });
        let is_moved = old.try_lock() && {
            let is_moved = old.owner() == FILE && self.copy_and_exchange(is_held);
            old.clear(Flags::LOCKED);
            is_moved
        };
        if is_moved {
            assert_eq!(new.references(), 2, "nobody else has it for longer than a moment");
            new.put();
            self.write(FRAME, 7);
        } else {
            old.put();
        }
        is_moved
    }

    fn copy_and_exchange(&self, is_held: bool) -> bool {
        let (old, new) = (&self.frames[FRAME], &self.frames[TO]);
        if !old.try_latch(false) {
            return false;
        }
        self.write(TO, self.read(FRAME));
        if !old.freeze_latched(2) {
            old.unlatch(false);
            return false;
        }
        let is_open = self.index.find(0).is_some_and(|found| found.is_open());
        if old.is(Flags::HAZARD) && (is_held || is_open) {
            old.set_references(2);
            return false;
        }
        new.set_owner(FILE, 0);
        new.set_references(2);
        self.index.replace(0, FRAME, TO);
        true
    }

    /// Reads the page under a hazard pointer, as a cache hit does. Does nothing if the page is not open for hazard
    /// pointers.
    fn read_open(&self, hazard: &Hazard) {
        let Some(found) = self.index.slot(0).and_then(|slot| slot.find_open()) else { return };
        hazard.publish(found.frame);
        if found.is_unchanged() {
            assert_eq!(self.read(found.frame), 1);
        }
        hazard.withdraw();
    }

    /// Takes a reference and the shared latch of the frame of page 0, and repeats the lookup until that succeeds.
    /// Returns `None` if the page is no longer in the file.
    fn get_shared(&self) -> Option<FrameNumber> {
        loop {
            let found = self.index.find(0)?;
            match found.get_shared(&self.frames) {
                Ok(_) => return Some(found.frame),
                Err(Miss::Undo) => _ = self.frames[found.frame].put_shared(),
                Err(_) => {}
            }
            thread::yield_now();
        }
    }
}

#[test]
fn a_reader_finds_the_bytes_of_a_page_that_moves() {
    loom::model(|| {
        let world = Moving::new();
        let mover = thread::spawn({
            let world = world.clone();
            move || world.migrate(None)
        });
        let frame = world.get_shared().expect("it does not leave");
        assert_eq!(world.read(frame), 1);
        world.frames[frame].put_shared();
        let is_moved = mover.join().unwrap();
        assert_eq!(world.index.get(0), Some(if is_moved { TO } else { FRAME }));
    });
}

#[test]
fn a_page_that_is_read_by_hazard_pointer_does_not_move() {
    loom::model(|| {
        let (world, hazard) = (Moving::new(), Arc::new(Hazard::default()));
        world.frames[FRAME].set(Flags::HAZARD);
        world.index.open(0, FRAME);
        let mover = thread::spawn({
            let (world, hazard) = (world.clone(), hazard.clone());
            move || world.migrate(Some(&hazard))
        });
        world.read_open(&hazard);
        mover.join().unwrap();
    });
}

#[test]
fn a_page_that_was_opened_meanwhile_does_not_move() {
    loom::model(|| {
        let (world, hazard) = (Moving::new(), Arc::new(Hazard::default()));
        let mover = thread::spawn({
            let (world, hazard) = (world.clone(), hazard.clone());
            move || world.migrate(Some(&hazard))
        });
        let frame = world.get_shared().expect("it does not leave");
        world.frames[frame].set(Flags::HAZARD);
        world.index.open(0, frame);
        world.frames[frame].put_shared();
        world.read_open(&hazard);
        mover.join().unwrap();
    });
}

#[test]
fn what_is_written_while_a_page_moves_is_in_its_new_frame() {
    loom::model(|| {
        let world = Moving::new();
        let mover = thread::spawn({
            let world = world.clone();
            move || world.migrate(None)
        });
        let has_written = world.index.get(0).is_some_and(|found| {
            let frame = &world.frames[found];
            if !frame.get_unless_zero() {
                return false;
            }
            let is_latched = world.index.get(0) == Some(found) && frame.try_latch(true);
            if is_latched {
                world.write(found, 2);
                frame.unlatch(true);
            }
            frame.put();
            is_latched
        });
        mover.join().unwrap();
        let frame = world.index.get(0).expect("it does not leave");
        assert_eq!(world.read(frame), if has_written { 2 } else { 1 });
    });
}

#[test]
fn a_page_that_is_cut_off_does_not_move_and_one_that_moved_is_cut_off_in_its_new_frame() {
    loom::model(|| {
        let world = Moving::new();
        let mover = thread::spawn({
            let world = world.clone();
            move || world.migrate(None)
        });
        // As `truncate` does, this takes a reference and the page lock, and then checks that the page still belongs to
        // the file.
        let is_cut = world.index.get(0).is_some_and(|found| {
            let frame = &world.frames[found];
            if !frame.get_unless_zero() {
                return false;
            }
            let is_cut = frame.try_lock() && {
                let is_cut = world.index.get(0) == Some(found);
                if is_cut {
                    world.index.remove(0, found, None);
                    frame.set_owner(Owner::None, 0);
                    frame.put();
                }
                frame.clear(Flags::LOCKED);
                is_cut
            };
            frame.put();
            is_cut
        });
        let is_moved = mover.join().unwrap();
        assert_eq!(world.index.get(0).is_none(), is_cut);
        let left = u32::from(!is_cut);
        assert_eq!(world.frames[FRAME].references(), if is_moved { 0 } else { left });
        assert_eq!(world.frames[TO].references(), if is_moved { left } else { 0 });
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

/// A page comes back from swap while the group to which it is charged is removed. The group's number is not used again
/// while the page is charged to it, however the steps of the two tasks follow each other.
#[test]
fn a_group_number_is_not_used_again_under_a_page_that_comes_back_from_swap() {
    loom::model(|| {
        let group = GroupId(1);
        let lives = Arc::new(Lives::new(2));
        let usage = Arc::new(AtomicU32::new(0));
        lives.set(group, State::Live);
        let reader = {
            let (lives, usage) = (lives.clone(), usage.clone());
            thread::spawn(move || {
                let Some(pin) = lives.pin(group) else { return false };
                usage.fetch_add(1, Ordering::Relaxed);
                assert!(!lives.is(group, State::Unused), "the number was used again under the pin");
                drop(pin);
                true
            })
        };
        lives.set(group, State::Dying);
        let is_unused = !lives.is_pinned(group) && usage.load(Ordering::Relaxed) == 0;
        if is_unused {
            lives.set(group, State::Unused);
        }
        let has_charged = reader.join().unwrap();
        assert!(!(is_unused && has_charged), "the page is charged to a number that may be used again");
        assert_eq!(usage.load(Ordering::Relaxed) > 0, has_charged);
        assert!(!lives.is_pinned(group), "the pin is gone");
    });
}

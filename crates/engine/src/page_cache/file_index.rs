//! The index of a file, which says in which frame each page is.
//!
//! The slots of all pages of a folio hold the folio's head. A slot is read without a lock. It is written by one atomic
//! step; `page_cache.index_lock` says under which lock. The slot also says whether its page is open to readers with
//! hazard pointers ([`super::hazard`]). A page that leaves memory may leave its shadow in the slot ([`Shadow`]). Tags
//! say which pages are dirty, and which are under writeback, so that tasks that write the file find these pages in file
//! order. *Description*: mechanisms/reclaim, 1 (reference rules), 13.1 (removal), 21.5 (file order).

use super::contiguity::Contiguity;
use super::segments::{Segments, UsedParts};
use super::shadow::Shadow;
pub use super::tags::Tag;
use super::tags::Tags;
use crate::memory::{FRAMES_MAX, Folio, Frame, FrameTable, Latched};
use crate::slab::index_nodes::{NODE_PAGES, NodePlace};
use machine::atomic::{AtomicU32, AtomicU64, Ordering};
use machine::{FrameNumber, prefetch};
use std::ops::Range;

/// The reason why [`FoundPage::get_shared`] could not take a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The page is leaving memory.
    Frozen,
    /// A writer has the page's latch.
    Held,
    /// The page has the largest number of readers that its descriptor can count.
    Full,
    /// The frame belongs to another page by now. The reference and the latch were taken, and the caller has to release
    /// them.
    Undo,
}

/// The mark (the two highest bits) of a slot that holds a page. The slot's other bits are the number of the page's
/// frame.
const PAGE: u32 = 0b10 << 30;
/// The mark of a slot that holds a page which is open to readers with hazard pointers.
const OPEN: u32 = 0b11 << 30;
/// The mark of a slot that holds the shadow of a page that left memory. A slot without page and shadow is 0.
const SHADOW: u32 = 0b01 << 30;
/// A mask of the bits of a slot that hold the number of a frame, or a shadow.
const NUMBER: u32 = !OPEN;

const _: () = assert!(FRAMES_MAX <= NUMBER + 1 && Shadow::BITS == NUMBER.count_ones());

/// Returns the frame that a slot with the value `stored` holds; `None` if it holds no page.
#[inline(always)]
const fn frame_of(stored: u32) -> Option<FrameNumber> {
    if stored & PAGE != 0 { Some(FrameNumber(stored & NUMBER)) } else { None }
}

const fn shadow_of(stored: u32) -> Option<Shadow> {
    if stored & OPEN == SHADOW { Some(Shadow(stored & NUMBER)) } else { None }
}

/// The slot of one page in a file's index. It holds the page's frame, the shadow of the page, or neither.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a>(&'a AtomicU32);

impl<'a> Slot<'a> {
    /// Returns the page in the slot; `None` if the slot holds no page that is open to readers with hazard pointers.
    #[inline(always)]
    #[must_use]
    pub fn find_open(self) -> Option<FoundPage<'a>> {
        let stored = self.0.load(Ordering::SeqCst);
        (stored >= OPEN).then_some(FoundPage { slot: self.0, stored, frame: FrameNumber(stored & NUMBER) })
    }
}

/// A page that a lookup has found in a file's index: the slot of the index, and the frame that the lookup read from it.
#[derive(Clone, Copy, Debug)]
pub struct FoundPage<'a> {
    slot: &'a AtomicU32,
    stored: u32,
    /// The frame of the page, as read from the index slot. By now the slot may have another value
    /// ([`Self::is_unchanged`]).
    pub frame: FrameNumber,
}

impl FoundPage<'_> {
    /// Returns whether readers could use the page under a hazard pointer, without a reference, at the time when the
    /// page was found.
    #[inline(always)]
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.stored >= OPEN
    }

    /// Returns whether the slot still has the value that it had when the page was found.
    #[inline(always)]
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.slot.load(Ordering::SeqCst) == self.stored
    }

    /// Takes a reference to the found frame, and its shared latch, in one step.
    ///
    /// After that, the method reads the page's slot in the index again. If the slot has changed, the frame may have
    /// been freed, and may hold another page.
    ///
    /// # Errors
    /// Fails with the reason why the page was not taken. After [`Miss::Undo`], the caller has to release the reference
    /// and the latch.
    #[inline(always)]
    pub fn get_shared<'a>(&self, frames: &'a FrameTable) -> Result<&'a Frame, Miss> {
        let descriptor = &frames[self.frame];
        match descriptor.get_shared() {
            Latched::Yes if frame_of(self.slot.load(Ordering::Acquire)) == Some(self.frame) => Ok(descriptor),
            Latched::Yes => Err(Miss::Undo),
            Latched::Frozen => Err(Miss::Frozen),
            Latched::Held => Err(Miss::Held),
            Latched::Full => Err(Miss::Full),
        }
    }
}

/// A count of pages. It has a cache line of its own: the count changes with each miss, and hits, which read the fields
/// beside it, would otherwise wait for this line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Pages(AtomicU32);

/// The index of a file or of a swap cache: the slots and the tags of its pages.
#[derive(Debug, Default)]
pub struct FileIndex {
    /// The slots. A slot is [`PAGE`] or [`OPEN`] with a frame's number, or [`SHADOW`] with a shadow, or 0.
    slots: Segments<AtomicU32>,
    tags: Tags,
    used: UsedParts,
    /// Number of pages in each node of the index (64 slots, as in the kernel's radix tree). `node_places` says where
    /// each node lies in a slab. Both arrays are empty if nodes take no memory.
    node_pages: Segments<AtomicU32>,
    node_places: Segments<AtomicU64>,
    pages: Pages,
    /// Largest page number that was ever stored in the index, plus 1.
    end: AtomicU32,
    /// Guesses of the frames in which pages of the file lie. Only an index that [`FileIndex::with_pages`] made has
    /// guesses.
    contiguity: Option<Contiguity>,
}

impl FileIndex {
    /// Creates the index of a file that is expected to have `pages` pages; the slots of these pages are found fastest.
    /// If consecutive pages of the file lie in consecutive frames, the index learns to guess the frames of other pages
    /// ([`FileIndex::guess`]).
    #[must_use]
    pub fn with_pages(pages: u32) -> Self {
        Self { slots: Segments::with_head(pages as usize), contiguity: Some(Contiguity::default()), ..Self::default() }
    }

    /// Returns the frame that is in a page's slot at present. The frame may leave the slot at any time unless the
    /// caller has the page lock or a reference.
    #[inline]
    pub fn get(&self, index: u32) -> Option<FrameNumber> {
        self.find(index).map(|found| found.frame)
    }

    /// Returns the frame that is in a page's slot, as [`FileIndex::get`] does, together with the slot, for callers that
    /// then take a reference to the page.
    #[inline(always)]
    pub fn find(&self, index: u32) -> Option<FoundPage<'_>> {
        let slot = self.slots.get(index as usize)?;
        // This load and the stores of the file's length are in one total order, so that a task that truncates the file
        // and a task that fills a page do not miss each other.
        let stored = slot.load(Ordering::SeqCst);
        frame_of(stored).map(|frame| FoundPage { slot, stored, frame })
    }

    /// Returns the frame in which a page probably lies, without reading the page's slot. The result may be a number
    /// that no frame has.
    #[inline(always)]
    pub fn guess(&self, index: usize) -> Option<FrameNumber> {
        self.contiguity.as_ref()?.guess(index)
    }

    /// Prefetches a page's slot, which will be read soon.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if let Some(slot) = self.slots.get(index as usize) {
            prefetch(slot);
        }
    }

    /// Returns a page's slot; `None` if no page near it was ever in the index.
    #[inline]
    pub fn slot(&self, index: usize) -> Option<Slot<'_>> {
        self.slots.get(index).map(Slot)
    }

    /// Returns the slot of a page that lies within the length for which the index was made; `None` for a page beyond
    /// this length. This method takes fewer instructions than [`FileIndex::slot`].
    #[inline(always)]
    pub fn slot_in_head(&self, index: usize) -> Option<Slot<'_>> {
        self.slots.get_in_head(index).map(Slot)
    }

    /// Returns the slot of a page that lies beyond the length for which the index was made; `None` for a page within
    /// this length.
    #[inline(always)]
    pub fn slot_behind(&self, index: usize) -> Option<Slot<'_>> {
        self.slots.get_behind(index).map(Slot)
    }

    /// Opens a page: from now on, readers may get the page by a hazard pointer. Does nothing if `frame` is not in the
    /// page's slot. The caller holds the shared latch of the page.
    pub fn open(&self, index: u32, frame: FrameNumber) {
        if let Some(slot) = self.slots.get(index as usize) {
            let _ = slot.compare_exchange(PAGE | frame.0, OPEN | frame.0, Ordering::SeqCst, Ordering::Relaxed);
        }
    }

    /// Closes a page: from now on, no reader gets the page by a hazard pointer. Returns `false` if the page was not
    /// open, or `frame` is not in its slot.
    pub fn close(&self, index: u32, frame: FrameNumber) -> bool {
        let close = |slot: &AtomicU32| {
            slot.compare_exchange(OPEN | frame.0, PAGE | frame.0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        };
        self.slots.get(index as usize).is_some_and(close)
    }

    /// Allocates the memory for a page's slot and tags. Returns `false` if the system does not grant the memory. The
    /// slot of a page far into a large file takes much address space: as much as the slots of all pages before it.
    #[inline]
    pub fn prepare(&self, index: u32) -> bool {
        let has_tags = self.tags.prepare(index);
        let index = index as usize;
        has_tags && self.used.note(index).is_some() && self.slots.try_get_or_make(index).is_some()
    }

    /// Puts a page's frame into its slot, which holds no page so far. Returns the shadow that was in the slot.
    ///
    /// # Errors
    /// Fails with the frame that is in the slot already.
    ///
    /// # Panics
    /// Panics when there is no memory for the slot; see [`FileIndex::prepare`].
    pub fn insert(&self, index: u32, frame: FrameNumber) -> Result<Option<Shadow>, FrameNumber> {
        debug_assert!(frame.0 <= NUMBER, "{frame} has no room in a slot");
        let slot = self.slots.get_or_make(index as usize);
        // The end is raised first, so that a search for pages does not stop before the new page.
        if self.end.load(Ordering::SeqCst) <= index {
            self.end.fetch_max(index + 1, Ordering::SeqCst);
        }
        self.used.note(index as usize).expect("there is memory for a bit in a thousand pages");
        let mut stored = slot.load(Ordering::Acquire);
        loop {
            if let Some(there) = frame_of(stored) {
                return Err(there);
            }
            match slot.compare_exchange(stored, PAGE | frame.0, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => {
                    self.pages.0.fetch_add(1, Ordering::Relaxed);
                    if let Some(contiguity) = &self.contiguity {
                        contiguity.note(index, frame, || self.get(index.checked_sub(1)?));
                    }
                    return Ok(shadow_of(stored));
                }
                Err(now) => stored = now,
            }
        }
    }

    /// Fills the slots of all pages of a folio, each with the folio's head. Returns a shadow that was in one of the
    /// slots; `None` if there was none.
    ///
    /// # Errors
    /// Fails with the head of a folio that is in one of the slots already. On failure nothing is changed, except that
    /// shadows may be lost.
    ///
    /// # Panics
    /// Panics as [`FileIndex::insert`] does.
    #[inline]
    pub fn insert_folio(&self, index: u32, folio: Folio) -> Result<Option<Shadow>, FrameNumber> {
        let mut found = None;
        for n in 0..folio.pages() {
            match self.insert(index + n, folio.head) {
                Ok(shadow) => found = found.or(shadow),
                Err(there) => {
                    (0..n).for_each(|n| self.remove(index + n, folio.head, None));
                    return Err(there);
                }
            }
        }
        Ok(found)
    }

    /// Takes a folio out of the slots of all its pages, as [`FileIndex::remove`] does for one page. `shadow` is stored
    /// in each of the slots.
    ///
    /// # Panics
    /// Panics when one of the slots does not hold the folio.
    #[inline]
    pub fn remove_folio(&self, index: u32, folio: Folio, shadow: Option<Shadow>) {
        (0..folio.pages()).for_each(|n| self.remove(index + n, folio.head, shadow));
    }

    /// Takes a page out of its slot, stores `shadow` there instead, and clears the page's tags. The caller has the
    /// page's lock, or has frozen the page.
    ///
    /// # Panics
    /// Panics when the slot does not hold `frame`.
    pub fn remove(&self, index: u32, frame: FrameNumber, shadow: Option<Shadow>) {
        let slot = self.slots.get(index as usize).expect("a page that is in the index has a slot");
        // The tags are cleared before the slot is empty. The next page in the slot may be dirty at once, and the tags
        // are then its own.
        for tag in Tag::ALL {
            self.clear_tag(index, tag);
        }
        // The count of pages is lowered before the slot is emptied, too: a task that finds every slot empty then also
        // finds a count of 0.
        self.pages.0.fetch_sub(1, Ordering::Relaxed);
        let stored = slot.swap(shadow.map_or(0, |shadow| SHADOW | shadow.0), Ordering::AcqRel);
        assert!(frame_of(stored) == Some(frame), "slot {index} holds {:?}, not {frame}", frame_of(stored));
    }

    /// Replaces the frame in the slots of all pages of a folio, from slot `index` on: the head of `from` by the head of
    /// `to`. For each page, does what [`FileIndex::replace`] does.
    ///
    /// # Panics
    /// Panics when one of the slots does not hold `from`.
    pub fn replace_folio(&self, index: u32, from: Folio, to: Folio) {
        (0..from.pages()).for_each(|n| self.replace(index + n, from.head, to.head));
    }

    /// Replaces the frame of a page in its slot. The new frame is not open to readers with hazard pointers; the tags
    /// stay. The caller has frozen the page in `from` and copied it.
    ///
    /// # Panics
    /// Panics when the slot does not hold `from`.
    pub fn replace(&self, index: u32, from: FrameNumber, to: FrameNumber) {
        let slot = self.slots.get(index as usize).expect("a page that is in the index has a slot");
        let stored = slot.swap(PAGE | to.0, Ordering::SeqCst);
        assert!(frame_of(stored) == Some(from), "slot {index} holds {:?}, not {from}", frame_of(stored));
        if let Some(contiguity) = &self.contiguity {
            contiguity.note(index, to, || self.get(index.checked_sub(1)?));
        }
    }

    /// Removes the shadows from a range of slots. Pages that come into these slots later count as new pages.
    pub fn forget_shadows(&self, slots: Range<u32>) {
        let slots = slots.start as usize..slots.end.min(self.end()) as usize;
        for slot in self.used.within(slots).flat_map(|part| self.slots.pieces(part)).flat_map(|(_, slots)| slots) {
            let stored = slot.load(Ordering::Relaxed);
            if shadow_of(stored).is_some() {
                let _ = slot.compare_exchange(stored, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    /// Allocates the memory for the data that [`FileIndex::add_to_node`] stores for the index node of a page. Returns
    /// `false` if the system does not grant the memory.
    pub(crate) fn prepare_node(&self, index: u32) -> bool {
        let node = (index / NODE_PAGES) as usize;
        self.node_pages.try_get_or_make(node).is_some() && self.node_places.try_get_or_make(node).is_some()
    }

    /// Returns whether the index node that page `index` of the file belongs to is missing, because no page of this node
    /// is in memory. If the caller does not hold the index's lock, the answer may be out of date at once.
    pub(crate) fn lacks_node(&self, index: u32) -> bool {
        self.node_pages.get((index / NODE_PAGES) as usize).is_none_or(|pages| pages.load(Ordering::Relaxed) == 0)
    }

    /// Adds 1 to the page count of the index node of a page that was added to the index. If it is the node's first
    /// page, `make` makes the node. The caller holds the lock of the index.
    pub(super) fn add_to_node(&self, index: u32, make: impl FnOnce() -> NodePlace) {
        let node = (index / NODE_PAGES) as usize;
        if self.node_pages.get_or_make(node).fetch_add(1, Ordering::Relaxed) == 0 {
            self.node_places.get_or_make(node).store(make().number(), Ordering::Relaxed);
        }
    }

    /// Subtracts 1 from the page count of an index node, after page `index` was removed from this node. If the node has
    /// no pages left, returns its place, whose memory the caller gives back. The caller holds the lock of the index.
    pub(super) fn remove_from_node(&self, index: u32) -> Option<NodePlace> {
        let node = (index / NODE_PAGES) as usize;
        let is_last = self.node_pages.get_or_make(node).fetch_sub(1, Ordering::Relaxed) == 1;
        is_last.then(|| NodePlace::of_number(self.node_places.get_or_make(node).load(Ordering::Relaxed)))
    }

    /// Returns the number of pages in the index.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages.0.load(Ordering::Relaxed)
    }

    /// Returns the largest page number that was ever stored in the index, plus 1.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.end.load(Ordering::SeqCst)
    }

    /// Tags a page. The caller has the page's lock, or handles the end of the page's writeback.
    pub fn set_tag(&self, index: u32, tag: Tag) {
        self.tags.set(index, tag);
    }

    /// Removes a page's tag. The caller has the page's lock, or ends the page's writeback.
    ///
    /// In general the tag was set before the caller took the lock or, if the caller handles the end of a write, before
    /// that write began. There is one exception: if a task dirties a page while the page's write fails, the task may
    /// set the tag after this call. Then the tag stays, which does no harm.
    pub fn clear_tag(&self, index: u32, tag: Tag) {
        self.tags.clear(index, tag);
    }

    /// Returns whether the page is tagged as one that is to be written.
    #[must_use]
    pub fn is_to_be_written(&self, index: u32) -> bool {
        self.has_tag(index, Tag::Dirty) || self.has_tag(index, Tag::WriteFailed)
    }

    /// Returns whether the page has the tag `tag`.
    #[must_use]
    pub fn has_tag(&self, index: u32, tag: Tag) -> bool {
        self.tags.has(index, tag)
    }

    /// Returns the first page from `index` on that has the tag `tag`. The cost grows with the number of tagged pages,
    /// not with the length of the file.
    #[must_use]
    pub fn next_tagged(&self, index: u32, tag: Tag) -> Option<u32> {
        self.tags.first(index..self.end(), tag)
    }

    /// Returns the first page from page `index` on that is in memory, with its frame.
    #[must_use]
    pub fn next_present(&self, index: u32) -> Option<(u32, FrameNumber)> {
        self.first_present(index..u32::MAX)
    }

    /// Returns the first page in `pages` that is in memory, and its frame; `None` if none of these pages is in memory.
    /// Reads no slot after the range.
    #[must_use]
    pub fn first_present(&self, pages: Range<u32>) -> Option<(u32, FrameNumber)> {
        let end = pages.end.min(self.end());
        let parts = self.used.within(pages.start as usize..end as usize);
        parts.flat_map(|part| self.slots.pieces(part)).find_map(|(first, slots)| {
            // The loads are ordered as in `find`.
            let present = |(at, slot): (usize, &AtomicU32)| Some((at as u32, frame_of(slot.load(Ordering::SeqCst))?));
            (first..).zip(slots).find_map(present)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Order;
    use std::collections::BTreeMap;

    #[test]
    fn the_last_frame_and_the_largest_shadow_have_room() {
        let index = FileIndex::default();
        let (first, last) = (FrameNumber(0), FrameNumber(FRAMES_MAX - 1));
        for frame in [first, last] {
            // Page 7 lies in the head of the index's array, page 100,000 behind the head.
            for page in [7, 100_000] {
                let slot = || index.slot(page as usize).unwrap();
                index.insert(page, frame).unwrap();
                assert!(index.get(page) == Some(frame) && slot().find_open().is_none());
                index.open(page, frame);
                let found = slot().find_open().unwrap();
                assert!(found.frame == frame && found.is_open() && found.is_unchanged());
                assert_eq!(index.slot_in_head(page as usize).is_some(), page == 7);
                assert_eq!(index.slot_behind(page as usize).is_some(), page != 7);
                assert!(index.close(page, frame) && !found.is_unchanged() && slot().find_open().is_none());
                for shadow in [0, (1 << Shadow::BITS) - 1].map(Shadow) {
                    index.remove(page, frame, Some(shadow));
                    assert!(index.get(page).is_none() && slot().find_open().is_none());
                    assert_eq!(index.insert(page, frame), Ok(Some(shadow)));
                }
                index.remove(page, frame, None);
            }
        }
    }

    #[test]
    fn where_pages_lie_is_guessed_of_real_files() {
        let [real, other] = [FileIndex::with_pages(4), FileIndex::default()];
        for index in [&real, &other] {
            (0..20).for_each(|page| _ = index.insert(page, FrameNumber(page + 500)).unwrap());
        }
        assert_eq!((real.guess(17), other.guess(17)), (Some(FrameNumber(517)), None));
    }

    #[test]
    fn index_matches_naive() {
        let index = FileIndex::default();
        let mut naive: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
        let mut shadows = BTreeMap::new();
        let mut state = 1u64;
        for frame in 0..5000u32 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let at = (state >> 33) as u32 % 1000;
            match state % 4 {
                0 => {
                    let inserted = index.insert(at, FrameNumber(frame));
                    assert_eq!(inserted.is_ok(), !naive.contains_key(&at));
                    if let Ok(shadow) = inserted {
                        assert_eq!(shadow, shadows.remove(&at));
                    }
                    naive.entry(at).or_insert((frame, false));
                }
                1 => {
                    if let Some((frame, _)) = naive.remove(&at) {
                        let shadow = (state & 64 == 0).then_some(Shadow(frame));
                        index.remove(at, FrameNumber(frame), shadow);
                        shadows.extend(shadow.map(|shadow| (at, shadow)));
                    }
                }
                2 => {
                    if let Some(entry) = naive.get_mut(&at) {
                        index.set_tag(at, Tag::Dirty);
                        entry.1 = true;
                    }
                }
                3 if state & 0xf80 == 0 => {
                    index.forget_shadows(at..u32::MAX);
                    shadows.retain(|slot, _| *slot < at);
                }
                _ => {
                    let next = naive.range(at..).find(|(_, entry)| entry.1).map(|(i, _)| *i);
                    assert_eq!(index.next_tagged(at, Tag::Dirty), next);
                    let next = naive.range(at..).next().map(|(i, entry)| (*i, FrameNumber(entry.0)));
                    assert_eq!(index.next_present(at), next);
                    let end = at + (state >> 20) as u32 % 50;
                    let within = naive.range(at..end).next().map(|(i, entry)| (*i, FrameNumber(entry.0)));
                    assert_eq!(index.first_present(at..end), within);
                }
            }
            assert_eq!(index.get(at).map(|f| f.0), naive.get(&at).map(|entry| entry.0));
            assert_eq!(index.pages() as usize, naive.len());
        }
    }

    /// An index and a plain map get the same insertions, replacements and removals of folios of orders 0 to 9. Both
    /// must hold the same folios after each step. The insertion of a folio that overlaps another one must fail, and
    /// must change no slot that holds a page.
    #[test]
    fn folios_match_naive() {
        const PAGES: u32 = 2048;
        let index = FileIndex::default();
        let mut naive: BTreeMap<u32, Folio> = BTreeMap::new();
        let mut shadows: BTreeMap<u32, Shadow> = BTreeMap::new();
        let mut state = 1u64;
        for n in 0..4000u32 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let order = Order((state >> 40) as u8 % 10);
            let fresh = Folio { head: FrameNumber((n + 1) << 9), order };
            let start = ((state >> 50) as u32 % PAGES) & !(fresh.pages() - 1);
            let slots = start..start + fresh.pages();
            match state >> 33 & 3 {
                0 | 1 => {
                    let there = naive.range(slots.clone()).next().map(|(slot, folio)| (*slot, folio.head));
                    let expected = match there {
                        Some((_, head)) => Err(head),
                        None => Ok(shadows.range(slots.clone()).next().map(|(_, shadow)| *shadow)),
                    };
                    assert_eq!(index.insert_folio(start, fresh), expected);
                    // The failed insertion has lost the shadows in the slots before the folio that was there.
                    let filled = start..there.map_or(slots.end, |(slot, _)| slot);
                    shadows.retain(|slot, _| !filled.contains(slot));
                    if there.is_none() {
                        naive.extend(slots.map(|slot| (slot, fresh)));
                    }
                }
                2 => {
                    let Some((&start, &folio)) = naive.range(start..).next() else { continue };
                    let start = start & !(folio.pages() - 1);
                    let shadow = (state & 1 << 36 == 0).then_some(Shadow(n));
                    index.remove_folio(start, folio, shadow);
                    for slot in start..start + folio.pages() {
                        assert_eq!(naive.remove(&slot), Some(folio));
                        shadows.extend(shadow.map(|shadow| (slot, shadow)));
                    }
                }
                _ => {
                    let Some((&start, &folio)) = naive.range(start..).next() else { continue };
                    let start = start & !(folio.pages() - 1);
                    index.set_tag(start + folio.pages() - 1, Tag::Dirty);
                    let moved = Folio { head: fresh.head, order: folio.order };
                    index.replace_folio(start, folio, moved);
                    naive.extend((start..start + folio.pages()).map(|slot| (slot, moved)));
                    assert!(index.has_tag(start + folio.pages() - 1, Tag::Dirty), "tags stay with the page");
                }
            }
            assert_eq!(index.pages() as usize, naive.len());
            let found = |slot| index.get(slot) == naive.get(&slot).map(|folio| folio.head);
            assert!((start..(start + 600).min(PAGES)).all(found), "after step {n}");
        }
    }
}

//! The frame table: one small descriptor for each slot of memory.
//!
//! A *frame* is a numbered slot of memory, a *page* is contents with an owner. The descriptor of a frame has flags,
//! references, the owner, and one pair of links. The links belong to at most one list at a time: a free list, which is
//! changed under the `zone` lock, or an LRU list, which is changed under the `lru` lock.
//!
//! Every field is an atomic, so that the table is shared without a lock; the comment on a field says which task may
//! change it. *Description*: mechanisms/reclaim, 1.

use super::group::id::GroupId;
use super::list::Links;
use super::zeroes::zeroes;
use machine::atomic::{AtomicU16, AtomicU32, Ordering};
use machine::{FrameNumber, IoError, Order, prefetch};
use std::fmt;

/// The state bits of a page, or of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// A task has locked the page, to change its owner or index, or for I/O that is under way.
    pub const LOCKED: Self = Self(1 << 0);
    /// The page is marked as used recently.
    pub const REFERENCED: Self = Self(1 << 1);
    /// The page's contents are valid.
    pub const UPTODATE: Self = Self(1 << 2);
    /// The page's contents are newer than those on the device.
    pub const DIRTY: Self = Self(1 << 3);
    /// The page is on an LRU list.
    pub const LRU: Self = Self(1 << 4);
    /// The page belongs on an active list.
    pub const ACTIVE: Self = Self(1 << 5);
    /// The page is being written, and must not be freed.
    pub const WRITEBACK: Self = Self(1 << 6);
    /// The page is in the swap cache. The descriptor's word `private` has the swap slot.
    pub const SWAPCACHE: Self = Self(1 << 7);
    /// The page is to be rotated as soon as its writeback ends. On a page that is not being written, the same bit means
    /// [`Flags::READAHEAD`].
    pub const RECLAIM: Self = Self(1 << 8);
    /// The page is the first page of a readahead window's asynchronous part. In the swap cache, the bit marks a page
    /// that was read ahead and was not used yet.
    pub const READAHEAD: Self = Self::RECLAIM;
    /// The frame is the head of a free block. The descriptor's word `private` has the block's order.
    pub const BUDDY: Self = Self(1 << 9);
    /// The page belongs on the anonymous LRU lists.
    pub const SWAPBACKED: Self = Self(1 << 10);
    /// The last read of the page failed; see [`Frame::read_error`].
    pub const ERROR: Self = Self(1 << 11);
    /// The frame is kernel memory: part of a slab, a page table, or memory for a user outside of the engine.
    pub const KERNEL: Self = Self(1 << 12);
    /// The frame is free, and on a per-CPU list.
    pub const PER_CPU: Self = Self(1 << 13);
    /// The page was used again after the use for which [`Flags::REFERENCED`] was set. The bit is used only with
    /// `Activation::AtScan`.
    pub const USED_AGAIN: Self = Self(1 << 14);

    /// The machine under the engine has taken the frame's memory. The frame has no owner until it comes back
    /// ([`super::Memory::take_offline`]).
    pub const OFFLINE: Self = Self(1 << 15);

    /// Readers may hold the page by hazard pointers, without a reference ([`crate::page_cache::hazard`]).
    pub const HAZARD: Self = Self(1 << 16);

    /// The last write of the page failed, and the page is still to be written
    /// ([`crate::writeback::choices::WriteFailure::KeepDirty`]). Or its write was put off, because the log is behind.
    pub const WRITE_FAILED: Self = Self(1 << 17);

    /// The write under way takes its bytes from a copy of the page, so the page itself may change meanwhile.
    pub const COPIED: Self = Self(1 << 18);
    /// A task has pinned, for writing, a page that lies only partly within its file. Until the task releases the page,
    /// the bytes after the end may be anything, and the page is not written. The bit is used only with
    /// `writeback.stable_pages = "no"`, where it does not mean [`Flags::COPIED`].
    pub const OPEN_END: Self = Self::COPIED;

    /// The frame is kernel memory and holds a copy of a page. A write of the page takes its bytes from the copy. The
    /// descriptor's word `private` has the frame of the page.
    pub const BOUNCE: Self = Self(1 << 19);

    /// The page became dirty lately, and is not open to readers with hazard pointers yet
    /// ([`crate::page_cache::hazard`]). Until it is open again, [`Frame::count_read`] counts its reads.
    pub const WRITTEN: Self = Self(1 << 20);

    /// The frame is a part of a large folio; [`FrameTable::folio`] returns the folio's head and order.
    pub const COMPOUND: Self = Self(1 << 21);

    /// With `lru.refault = "by-workingset"`: the page was active and later became inactive, either since it came into
    /// memory or during its previous stay in memory. With `lru.policy = "multigen"`: the page was used through its file
    /// as often as `multigen.use_marks` says.
    pub const WORKINGSET: Self = Self(1 << 22);

    /// The bits that hold, modulo 4, the number of the generation to which a page with [`Flags::LRU`] belongs. The page
    /// may still be on the list of an older generation. The bits are used only with `lru.policy = "multigen"`.
    pub(crate) const GENERATION: Self = Self(0b11 << Self::GENERATION_SHIFT);
    pub(crate) const GENERATION_SHIFT: u32 = 23;

    /// The bits that count further uses of the page through its file, once the first uses have set
    /// [`Flags::REFERENCED`] and [`Flags::WORKINGSET`]. The bits are used only with `lru.policy = "multigen"`.
    pub(crate) const USES: Self = Self(0b11 << Self::USES_SHIFT);
    pub(crate) const USES_SHIFT: u32 = 25;

    /// The number that one counted read adds to the word of flags, in the bits [`Flags::READS`].
    const READ: u32 = 1 << 27;
    /// The bits that count reads ([`Frame::count_read`]): all bits of the word that no flag uses.
    const READS: u32 = !(Self::READ - 1);
    /// Largest number of reads that can be counted ([`Frame::count_read`]). It is one more than the largest count that
    /// the bits [`Flags::READS`] hold: the last read clears the count, so its own number is never stored.
    pub(crate) const READS_MAX: u32 = Self::READS / Self::READ + 1;

    /// Returns whether all bits of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the flags that are set in `self` and not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the flags that are set in `self` or in `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 23] = [
            "LOCKED",
            "REFERENCED",
            "UPTODATE",
            "DIRTY",
            "LRU",
            "ACTIVE",
            "WRITEBACK",
            "SWAPCACHE",
            "RECLAIM",
            "BUDDY",
            "SWAPBACKED",
            "ERROR",
            "KERNEL",
            "PER_CPU",
            "USED_AGAIN",
            "OFFLINE",
            "HAZARD",
            "WRITE_FAILED",
            "COPIED",
            "BOUNCE",
            "WRITTEN",
            "COMPOUND",
            "WORKINGSET",
        ];
        let mut set = f.debug_set();
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                set.entry(&format_args!("{name}"));
            }
        }
        set.finish()
    }
}

/// The file or the anonymous region to which a page belongs, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The page has no owner, because the frame is free or kernel memory.
    None,
    /// The owner is a file, which is given by its number.
    File(u32),
    /// The owner is an anonymous region, which is given by its number.
    Region(u32),
}

/// Largest number of files, and largest number of regions, that the owner field of a descriptor can number.
pub const OWNERS_MAX: u32 = (1 << 31) - 1;

impl Owner {
    const REGION: u32 = 1 << 31;

    const fn encode(self) -> u32 {
        match self {
            Self::None => 0,
            Self::File(id) => id + 1,
            Self::Region(id) => (id + 1) | Self::REGION,
        }
    }

    const fn decode(bits: u32) -> Self {
        match bits {
            0 => Self::None,
            id if id & Self::REGION != 0 => Self::Region((id & !Self::REGION) - 1),
            id => Self::File(id - 1),
        }
    }
}

/// The descriptor of one frame. A descriptor has 32 bytes, which are all zero at first.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), derive(bytemuck::Zeroable))]
pub struct Frame {
    flags: AtomicU32,
    /// References, readers and the latch in one word, so that one atomic step can take a reference and the shared
    /// latch. Bits 0 to 15 count references: one from an index or the swap cache, one from each mapping, one from each
    /// holder. Bits 16 to 29 count readers of the page's bytes. Bit 30 is set while a task waits for the latch. Bit 31
    /// is set while a writer has the latch. Each reader and the writer hold a reference, too.
    references: AtomicU32,
    /// Number of page-table entries that map the page. It is changed under the `page_table` lock of the entry's region.
    mappings: AtomicU32,
    /// The encoded [`Owner`]; 0 stands for [`Owner::None`]. It is changed while the page is locked and is not in an
    /// index.
    owner: AtomicU32,
    /// The number of the page in its file or anonymous region: 0 for the first page there.
    index: AtomicU32,
    /// A word whose meaning depends on the frame's state: the order and list of a free block; the swap slot of a page
    /// in the swap cache; the page of which this frame holds a copy; for a page with [`Flags::HAZARD`], the number of
    /// barriers that had begun when the page was closed to readers with hazard pointers; the reason why a read failed;
    /// or, in a folio's tail, the folio's head and order. Each meaning has functions of its own.
    private: AtomicU32,
    next: AtomicU32,
    previous: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Frame>() == 32, "a terabyte's frame table must fit a common computer");

/// Mask of the bits of [`Frame::references`] that count references.
const REFERENCES: u32 = (1 << 16) - 1;
/// The number that one reader of the page's bytes adds to [`Frame::references`], in the bits [`READERS`].
const READER: u32 = 1 << 16;
/// Mask of the bits of [`Frame::references`] that count readers.
const READERS: u32 = !(REFERENCES | WAITED_FOR | WRITER);
/// The bit of [`Frame::references`] that is set while a task sleeps until the latch is free. The atomic step that
/// releases the latch also reads this bit.
const WAITED_FOR: u32 = 1 << 30;
/// The bit of [`Frame::references`] that is set while a writer of the page's bytes has the latch.
const WRITER: u32 = 1 << 31;
/// The highest bit of the count of references. If it is set, the count has reached half of the largest number that it
/// can hold.
const MANY_REFERENCES: u32 = 1 << 15;
/// The highest bit of the count of readers. If it is set, the count has reached half of the largest number that it can
/// hold.
const MANY_READERS: u32 = 1 << 29;
/// Largest number of readers that a page can have at a time.
pub const READERS_MAX: u32 = READERS / READER;

/// The result of an attempt to take a page's latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latched {
    /// The caller has the latch and a reference.
    Yes,
    /// The page has no reference: it is free, or frozen by reclaim.
    Frozen,
    /// A writer has the latch.
    Held,
    /// The page has [`READERS_MAX`] readers, so no more can be counted.
    Full,
}

impl Frame {
    /// Returns the page's state bits, as they are now.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(self.flags.load(Ordering::Acquire))
    }

    /// Returns whether all bits of `flag` are set.
    #[inline]
    pub fn is(&self, flag: Flags) -> bool {
        self.flags().has(flag)
    }

    /// Sets bits of the frame's state.
    #[inline]
    pub fn set(&self, flag: Flags) {
        self.flags.fetch_or(flag.0, Ordering::AcqRel);
    }

    /// Clears bits of the frame's state.
    #[inline]
    pub fn clear(&self, flag: Flags) {
        self.flags.fetch_and(!flag.0, Ordering::AcqRel);
    }

    /// Returns whether a bit is set. The read is ordered after all earlier stores of the caller, which a plain load
    /// could overtake. Without this order, a task that clears the bit and then reads the word that the caller has
    /// stored could miss the store, while the caller misses the clearing.
    #[must_use]
    pub fn is_now(&self, flag: Flags) -> bool {
        Flags(self.flags.fetch_or(0, Ordering::SeqCst)).has(flag)
    }

    /// Sets bits of a frame that has no references. A plain store is enough, because only one task can change these
    /// bits: the task that frees or takes the frame, or that holds the lock of the frame's list. [`Frame::is_now`]
    /// guarantees no order between this store and other accesses.
    #[inline]
    pub fn set_free(&self, flag: Flags) {
        debug_assert!(self.references() == 0, "not free: {self:?}");
        self.flags.store(self.flags.load(Ordering::Relaxed) | flag.0, Ordering::Release);
    }

    /// Clears bits of a frame that has no references. Like [`Frame::set_free`], uses a plain store and no atomic
    /// read-modify-write.
    #[inline]
    pub fn clear_free(&self, flag: Flags) {
        debug_assert!(self.references() == 0, "not free: {self:?}");
        self.flags.store(self.flags.load(Ordering::Relaxed) & !flag.0, Ordering::Release);
    }

    /// Clears all bits of a frame that has no references.
    #[inline]
    pub fn reset_free(&self) {
        debug_assert!(self.references() == 0, "not free: {self:?}");
        self.flags.store(0, Ordering::Release);
    }

    /// Sets a bit and returns whether it was set before.
    #[inline]
    pub fn test_set(&self, flag: Flags) -> bool {
        self.flags.fetch_or(flag.0, Ordering::AcqRel) & flag.0 != 0
    }

    /// Clears a bit and returns whether it was set before.
    #[inline]
    pub fn test_clear(&self, flag: Flags) -> bool {
        // Most bits are clear in most pages, and a load is cheaper than a locked write.
        self.is(flag) && self.flags.fetch_and(!flag.0, Ordering::AcqRel) & flag.0 != 0
    }

    /// Replaces the state bits by the result of `change`, in one atomic step. Returns the bits before the step, or the
    /// present bits as an error if `change` returns `None`.
    pub(crate) fn update(&self, mut change: impl FnMut(Flags) -> Option<Flags>) -> Result<Flags, Flags> {
        let changed = |flags: u32| change(Flags(flags)).map(|flags| flags.0);
        self.flags.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed).map(Flags).map_err(Flags)
    }

    /// Records that a page became dirty: sets [`Flags::WRITTEN`], and restarts from 0 the count of later reads.
    pub fn note_written(&self) {
        let written = |flags: u32| Some(flags & !Flags::READS | Flags::WRITTEN.0);
        let _ = self.flags.fetch_update(Ordering::AcqRel, Ordering::Acquire, written);
    }

    /// Counts a read of a page with [`Flags::WRITTEN`]. If this is read number `enough`, clears the flag and the count,
    /// and returns `true`; otherwise returns `false`.
    ///
    /// # Panics
    /// Panics in debug builds, if `enough` is greater than 32, the largest number that can be counted.
    pub fn count_read(&self, enough: u32) -> bool {
        // The last read need not be counted, so its addition may overflow the word.
        debug_assert!(enough <= Flags::READS_MAX, "{enough} reads are too many to count");
        let before = self.flags.fetch_add(Flags::READ, Ordering::AcqRel);
        let is_enough = (before & Flags::READS) / Flags::READ + 1 >= enough;
        if is_enough {
            self.flags.fetch_and(!(Flags::READS | Flags::WRITTEN.0), Ordering::AcqRel);
        }
        is_enough
    }

    /// Locks the page if it is not locked. Returns whether the caller has got the lock.
    #[inline]
    pub fn try_lock(&self) -> bool {
        !self.test_set(Flags::LOCKED)
    }

    /// Returns the present number of references.
    #[inline]
    pub fn references(&self) -> u32 {
        self.references.load(Ordering::Acquire) & REFERENCES
    }

    /// Returns the number of references. The read has a place in one total order with all steps that take or drop a
    /// reference to the page: a task that takes a reference after the read sees everything that the caller did before
    /// the read.
    #[inline]
    pub fn references_exact(&self) -> u32 {
        self.references.fetch_add(0, Ordering::AcqRel) & REFERENCES
    }

    /// Takes one more reference. The caller already holds a reference, or keeps the page from being freed in another
    /// way.
    #[inline]
    pub fn get(&self) {
        let before = self.references.fetch_add(1, Ordering::AcqRel) & REFERENCES;
        debug_assert!(before > 0, "reference taken on a page that nobody holds: {self:?}");
        assert!(before < REFERENCES, "{REFERENCES} references are too many: {self:?}");
    }

    /// Takes a reference and returns `true`. If the page has no reference, because it is free or frozen, takes none and
    /// returns `false`.
    #[inline]
    pub fn get_unless_zero(&self) -> bool {
        let more = |word| if word & REFERENCES == 0 { None } else { Some(more_references(word, 1)) };
        self.references.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Drops a reference and returns whether it was the last one.
    #[inline]
    pub fn put(&self) -> bool {
        let before = self.references.fetch_sub(1, Ordering::AcqRel) & REFERENCES;
        assert!(before > 0, "a reference dropped that nobody held: {self:?}");
        before == 1
    }

    /// Freezes the page: removes all references at once if there are exactly `expected`, so that no task can take
    /// another one. Returns whether the page was frozen. The page is not frozen while its latch is held.
    #[inline]
    pub fn freeze(&self, expected: u32) -> bool {
        self.references.compare_exchange(expected, 0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Freezes the page as [`Frame::freeze`] does, unless the page is dirty. References are checked before the dirty
    /// flag, because a writer sets the flag and then drops its reference.
    #[inline]
    pub fn freeze_clean(&self, expected: u32) -> bool {
        if !self.freeze(expected) {
            return false;
        }
        let is_clean = !self.is(Flags::DIRTY);
        if !is_clean {
            self.set_references(expected);
        }
        is_clean
    }

    /// Freezes the page as [`Frame::freeze`] does, for a caller that is the only holder of the shared latch. The latch
    /// is removed together with the references. The page is not frozen while a task waits for the latch.
    #[inline]
    pub fn freeze_latched(&self, expected: u32) -> bool {
        self.references.compare_exchange(expected + READER, 0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Sets the number of references of a page that has none, because it is frozen ([`Frame::freeze`]) or fresh.
    #[inline]
    pub fn set_references(&self, n: u32) {
        self.references.store(n, Ordering::Release);
    }

    // ---- the latch ----

    /// Takes a reference to the page and, in the same step, the page's shared latch.
    #[inline(always)]
    pub fn get_shared(&self) -> Latched {
        let word = self.references.load(Ordering::Acquire);
        // One test covers all rare cases. It triggers well before a count reaches the largest value that its part of
        // the word can hold.
        let is_usual = word & (WRITER | MANY_READERS | MANY_REFERENCES) == 0 && word & REFERENCES != 0;
        let wanted = word.wrapping_add(READER + 1);
        if is_usual && self.references.compare_exchange(word, wanted, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Latched::Yes;
        }
        self.get_shared_slowly()
    }

    #[cold]
    fn get_shared_slowly(&self) -> Latched {
        let mut word = self.references.load(Ordering::Acquire);
        loop {
            if word & REFERENCES == 0 {
                return Latched::Frozen;
            }
            if word & WRITER != 0 {
                return Latched::Held;
            }
            if word & READERS == READERS {
                return Latched::Full;
            }
            let wanted = more_references(word, 1) + READER;
            match self.references.compare_exchange_weak(word, wanted, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Latched::Yes,
                Err(now) => word = now,
            }
        }
    }

    /// Takes the latch, shared or exclusive, if this is possible at once. Returns whether the latch was taken. The
    /// caller holds a reference.
    #[inline]
    pub fn try_latch(&self, exclusive: bool) -> bool {
        let latched = |word: u32| match exclusive {
            true => (word & (READERS | WRITER) == 0).then_some(word | WRITER),
            false => (word & WRITER == 0 && word & READERS != READERS).then(|| word + READER),
        };
        self.references.fetch_update(Ordering::AcqRel, Ordering::Acquire, latched).is_ok()
    }

    /// Returns whether the page has [`READERS_MAX`] readers, so that no more can be counted.
    #[must_use]
    pub fn has_all_readers(&self) -> bool {
        self.references.load(Ordering::Acquire) & READERS == READERS
    }

    /// Returns whether the count of references has reached half of the largest number that it can hold.
    #[must_use]
    pub fn has_many_references(&self) -> bool {
        self.references.load(Ordering::Acquire) & MANY_REFERENCES != 0
    }

    /// Records that the caller is about to sleep until the latch is free. The caller has to try once more to take the
    /// latch before it sleeps.
    pub fn note_latch_wait(&self) {
        self.references.fetch_or(WAITED_FOR, Ordering::AcqRel);
    }

    /// Releases the page's latch, which the caller holds `exclusive` or shared. The caller keeps its reference to the
    /// page. Returns whether the caller must wake tasks that wait for the latch.
    #[inline]
    pub fn unlatch(&self, exclusive: bool) -> bool {
        let part = if exclusive { WRITER } else { READER };
        let before = self.references.fetch_sub(part, Ordering::AcqRel);
        debug_assert!(before & if exclusive { WRITER } else { READERS } != 0, "a latch that nobody held: {self:?}");
        before & WAITED_FOR != 0 && self.end_latch_wait()
    }

    /// Turns the exclusive latch into a shared one. Returns whether the caller must wake waiters of the latch.
    pub fn downgrade(&self) -> bool {
        let before = self.references.fetch_sub(WRITER - READER, Ordering::AcqRel);
        debug_assert!(before & WRITER != 0, "a latch that nobody held: {self:?}");
        before & WAITED_FOR != 0 && self.end_latch_wait()
    }

    /// Turns the shared latch into the exclusive one, if the caller is the only reader. Returns whether this was done.
    pub fn try_upgrade(&self) -> bool {
        let upgraded = |word: u32| (word & READERS == READER).then_some(word - READER + WRITER);
        self.references.fetch_update(Ordering::AcqRel, Ordering::Acquire, upgraded).is_ok()
    }

    /// Releases a shared latch and its reference in one step. Returns whether this was the last reference, and whether
    /// the caller must wake waiters of the latch.
    #[inline(always)]
    pub fn put_shared(&self) -> (bool, bool) {
        if self.references.load(Ordering::Relaxed) & WAITED_FOR != 0 {
            return self.put_shared_waited_for();
        }
        let before = self.references.fetch_sub(READER + 1, Ordering::AcqRel);
        debug_assert!(before & READERS != 0 && before & REFERENCES != 0, "a latch that nobody held: {self:?}");
        // A task that began to wait meanwhile has a reference of its own.
        (before & REFERENCES == 1, before & WAITED_FOR != 0 && self.end_latch_wait())
    }

    /// Releases a shared latch on which tasks wait, for [`Self::put_shared`]. Releases the latch first, and drops the
    /// reference only then: to clear [`WAITED_FOR`] changes the page's state, and only a caller with a reference may
    /// change it.
    #[cold]
    fn put_shared_waited_for(&self) -> (bool, bool) {
        let must_wake = self.unlatch(false);
        (self.put(), must_wake)
    }

    /// Clears [`WAITED_FOR`], because the waiters are about to be woken, and returns whether it was set. A waiter that
    /// must continue to wait sets the bit again.
    #[cold]
    fn end_latch_wait(&self) -> bool {
        self.references.fetch_and(!WAITED_FOR, Ordering::AcqRel) & WAITED_FOR != 0
    }

    /// Returns the number of page-table entries that map the page.
    #[inline]
    pub fn mappings(&self) -> u32 {
        self.mappings.load(Ordering::Acquire)
    }

    /// Counts a new mapping and returns whether it is the first one.
    #[inline]
    pub fn map(&self) -> bool {
        self.mappings.fetch_add(1, Ordering::AcqRel) == 0
    }

    /// Counts a removed mapping and returns whether it was the last one.
    #[inline]
    pub fn unmap(&self) -> bool {
        let before = self.mappings.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "an unmapped page unmapped: {self:?}");
        before == 1
    }

    /// Returns the owner of the page.
    #[inline]
    pub fn owner(&self) -> Owner {
        Owner::decode(self.owner.load(Ordering::Acquire))
    }

    /// Returns the number of the page in its file or anonymous region: 0 for the first page there.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index.load(Ordering::Acquire)
    }

    /// Sets the page's owner (a file, an anonymous region or none), and the number of the page in this owner, from 0.
    #[inline]
    pub fn set_owner(&self, owner: Owner, index: u32) {
        self.index.store(index, Ordering::Release);
        self.owner.store(owner.encode(), Ordering::Release);
    }

    // ---- the meanings of `private` ----

    /// Returns the order of the free block whose head this frame is, and the number of the list that the block is on.
    /// If the caller does not hold the zone's lock, the frame may have been taken meanwhile, and the numbers then mean
    /// nothing.
    #[inline]
    pub(super) fn free_block(&self) -> (u32, u32) {
        let word = self.private.load(Ordering::Acquire);
        (word & 0xff, word >> 8)
    }

    /// Sets the order of the free block whose head this frame is, and the number of its list.
    #[inline]
    pub(super) fn set_free_block(&self, order: u32, list: u32) {
        self.private.store(order | list << 8, Ordering::Release);
    }

    /// Returns the swap slot of a page in the swap cache; for a large folio, the slot of its first page.
    #[inline]
    pub fn swap_slot(&self) -> u32 {
        self.private.load(Ordering::Acquire)
    }

    /// Sets the swap slot of a page that enters the swap cache.
    #[inline]
    pub fn set_swap_slot(&self, slot: u32) {
        self.private.store(slot, Ordering::Release);
    }

    /// Returns the page of which a frame with [`Flags::BOUNCE`] is a copy.
    #[inline]
    pub fn copied_page(&self) -> FrameNumber {
        debug_assert!(self.is(Flags::BOUNCE), "no copy: {self:?}");
        FrameNumber(self.private.load(Ordering::Acquire))
    }

    /// Records in this frame's descriptor the page of which the frame is a copy.
    #[inline]
    pub fn set_copied_page(&self, page: FrameNumber) {
        self.private.store(page.0, Ordering::Release);
    }

    /// Returns how many barriers ([`machine::Hazards::barrier`]) had begun in all when this page of a file was last
    /// closed to readers with hazard pointers ([`crate::page_cache::hazard`]).
    #[inline]
    pub fn closed_at(&self) -> u32 {
        self.private.load(Ordering::Acquire)
    }

    /// Stores in the descriptor of a file's page how many barriers had begun when the page was closed to readers with
    /// hazard pointers.
    #[inline]
    pub fn set_closed_at(&self, barrier: u32) {
        self.private.store(barrier, Ordering::Release);
    }

    /// Returns the word in which a tail frame (any frame of a folio but the first) stores the folio's head and order.
    #[inline]
    pub(super) fn folio_word(&self) -> u32 {
        self.private.load(Ordering::Acquire)
    }

    /// Sets the word in which a tail stores its folio's head and order. The word is 0 after the folio was split.
    pub(super) fn set_folio_word(&self, word: u32) {
        self.private.store(word, Ordering::Release);
    }

    // ---- words of a folio's first tail that serve the whole folio; a tail has no other use for them ----

    /// Returns the word, in a folio's first tail, that counts the mappings of the head's own page.
    pub(super) const fn folio_head_mappings(&self) -> &AtomicU32 {
        &self.index
    }

    /// Returns the word in which a folio's first tail counts the pages of the folio that are being read or written. In
    /// other frames, this word holds the owner. 0 stands for no owner ([`Owner::None`]), so a tail with the count 0
    /// looks like a page without owner.
    pub(super) const fn folio_io(&self) -> &AtomicU32 {
        &self.owner
    }

    /// Returns the word, in a folio's first tail, with the error code of a page of the folio that could not be read or
    /// written.
    pub(super) const fn folio_error(&self) -> &AtomicU32 {
        &self.next
    }

    /// Returns the word that counts mappings: in a tail, the mappings of its own page; in a head, the mappings of the
    /// whole folio.
    pub(super) const fn mappings_word(&self) -> &AtomicU32 {
        &self.mappings
    }

    /// Sets `private` to 0, so that nothing is left of the page that was in the frame before.
    #[inline]
    pub(super) fn clear_private(&self) {
        self.private.store(0, Ordering::Release);
    }

    /// Records the reason why the page could not be read. The page is locked, and no page table maps it yet.
    pub fn note_read_error(&self, error: IoError) {
        // In the swap cache, `private` holds the page's slot. `index` is unused there until the contents are valid,
        // because the page belongs to no region before.
        let place = if self.is(Flags::SWAPCACHE) { &self.index } else { &self.private };
        place.store(error.code(), Ordering::Release);
        self.set(Flags::ERROR);
    }

    /// Returns the reason why the page could not be read, if its read failed.
    pub fn read_error(&self) -> Option<IoError> {
        let place = if self.is(Flags::SWAPCACHE) { &self.index } else { &self.private };
        self.is(Flags::ERROR).then(|| IoError::from_code(place.load(Ordering::Acquire)))
    }

    /// Returns whether the page belongs to the anonymous LRU lists.
    #[inline]
    pub fn is_anon(&self) -> bool {
        self.is(Flags::SWAPBACKED)
    }
}

/// The descriptors of all frames.
#[derive(Debug)]
pub struct FrameTable {
    frames: Box<[Frame]>,
    /// The group to which each page is charged; `None` if memory has no groups. The numbers of the groups are in a
    /// table of their own, which takes no memory if there are no groups.
    groups: Option<Box<[AtomicU16]>>,
}

impl FrameTable {
    /// Creates a table of `frames` descriptors without owners; returns `None` if the system has no memory for it.
    ///
    /// The system provides the memory of each part of the table when that part is first used.
    #[must_use]
    pub fn new(frames: u32) -> Option<Self> {
        Some(Self { frames: zeroes(frames as usize)?, groups: None })
    }

    /// Returns this table with an array that stores, for each page, the group to which the page is charged. Returns
    /// `None` if the system grants no memory for the array.
    pub(crate) fn with_groups(self) -> Option<Self> {
        let groups = zeroes(self.frames.len())?;
        Some(Self { groups: Some(groups), ..self })
    }

    /// Returns the number of frames.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.frames.len() as u32
    }

    /// Returns the addresses of the descriptors of `frames`, for a machine that can put the descriptors into huge
    /// pages.
    #[must_use]
    pub fn addresses(&self, frames: std::ops::Range<u32>) -> std::ops::Range<*const Frame> {
        self.frames[frames.start as usize..frames.end as usize].as_ptr_range()
    }

    /// Returns whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the group to which a page is charged, or the root group for a page that is not charged. The group of a
    /// page in use changes only when the page moves to another frame.
    #[inline]
    #[must_use]
    #[doc(alias = "folio_memcg")]
    pub fn group(&self, frame: FrameNumber) -> GroupId {
        match &self.groups {
            None => GroupId::ROOT,
            Some(groups) => GroupId(groups[frame.index()].load(Ordering::Relaxed)),
        }
    }

    /// Records the group to which the 2^`order` pages of a block are charged. The caller changes the counters of the
    /// group.
    #[inline]
    pub(crate) fn set_group(&self, head: FrameNumber, order: Order, group: GroupId) {
        if let Some(groups) = &self.groups {
            let block = &groups[head.index()..head.index() + order.pages() as usize];
            block.iter().for_each(|page| page.store(group.0, Ordering::Relaxed));
        }
    }
}

impl Links for FrameTable {
    #[inline]
    fn next(&self, page: FrameNumber) -> u32 {
        self[page].next.load(Ordering::Relaxed)
    }

    #[inline]
    fn previous(&self, page: FrameNumber) -> u32 {
        self[page].previous.load(Ordering::Relaxed)
    }

    #[inline]
    fn set_next(&self, page: FrameNumber, to: u32) {
        self[page].next.store(to, Ordering::Relaxed);
    }

    #[inline]
    fn set_previous(&self, page: FrameNumber, to: u32) {
        self[page].previous.store(to, Ordering::Relaxed);
    }

    #[inline]
    fn look_at(&self, page: FrameNumber) {
        prefetch(&raw const self[page]);
    }
}

impl std::ops::Index<FrameNumber> for FrameTable {
    type Output = Frame;
    #[inline]
    fn index(&self, frame: FrameNumber) -> &Frame {
        &self.frames[frame.index()]
    }
}

/// Returns the word [`Frame::references`] with `n` more references. Panics if the count of references would overflow
/// into the bits of the latch.
#[inline]
fn more_references(word: u32, n: u32) -> u32 {
    assert!(word & REFERENCES < REFERENCES, "{REFERENCES} references of one page are too many");
    word + n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_page_gives_no_reference() {
        let frames = FrameTable::new(1).unwrap();
        let frame = &frames[FrameNumber(0)];
        frame.set_references(2);
        assert!(frame.freeze(2));
        assert!(!frame.get_unless_zero());
        frame.set_references(2);
        assert!(frame.get_unless_zero() && !frame.freeze(2));
    }

    #[test]
    fn readers_share_a_latch_and_a_writer_does_not() {
        let frames = FrameTable::new(1).unwrap();
        let frame = &frames[FrameNumber(0)];
        assert_eq!(frame.get_shared(), Latched::Frozen);
        frame.set_references(1);
        assert_eq!((frame.get_shared(), frame.get_shared()), (Latched::Yes, Latched::Yes));
        assert!(!frame.try_latch(true) && frame.try_latch(false));
        assert!(!frame.freeze(3), "latched pages cannot be frozen");
        frame.note_latch_wait();
        assert!(frame.unlatch(false), "somebody waits");
        assert!(!frame.freeze_latched(3), "two have the latch");
        assert_eq!(frame.put_shared(), (false, false));
        frame.note_latch_wait();
        assert!(!frame.freeze_latched(2), "somebody waits");
        assert!(frame.unlatch(false) && frame.try_latch(false) && frame.freeze_latched(2));
        assert_eq!(frame.get_shared(), Latched::Frozen);
        frame.set_references(1);
        assert!(frame.try_latch(true));
        assert_eq!((frame.get_shared(), frame.references()), (Latched::Held, 1));
        assert!(!frame.unlatch(true) && frame.freeze(1));
    }

    #[test]
    fn owner_survives_its_encoding() {
        let frames = FrameTable::new(1).unwrap();
        for owner in [Owner::None, Owner::File(0), Owner::File(77), Owner::Region(0), Owner::Region(1 << 20)] {
            frames[FrameNumber(0)].set_owner(owner, 9);
            assert_eq!(frames[FrameNumber(0)].owner(), owner);
        }
    }
}

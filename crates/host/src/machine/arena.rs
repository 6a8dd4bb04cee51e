//! The arena: one anonymous mapping that holds the bytes of all frames of a machine.
//!
//! The address space for the largest size is reserved at once. It is inaccessible at first, and has no memory. The
//! first [`Arena::frames`] frames are accessible, and the page behind them can be read. [`Arena::resize`] changes their
//! number. The system gives memory at the first touch, in huge pages where it grants them. [`Arena::discard`] gives the
//! memory of single frames back; dropping the arena gives back all of it. Frame 0 lies at a multiple of 2 MiB, so that a
//! huge page is 512 frames that start at a multiple of 512.
//!
//! The engine decides which task may touch the bytes of a frame: a task that holds the page's latch, or the only task
//! that knows of the page. The arena does not check this; it only ensures that a frame exists. Only the guards of
//! applications make Rust references to the bytes of a frame; guards keep writers away.

#![allow(unsafe_code)]

use super::copy::copy_nonoverlapping;
use machine::{FrameNumber, PAGE_BYTES, prefetch};
use parking_lot::Mutex;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// Size of a huge page, bytes. The address of frame 0 is a multiple of it.
const HUGE_BYTES: usize = 2 << 20;

/// Size of a cache line, bytes.
const LINE: usize = 64;

/// Largest number of bytes of a frame that one call prefetches: about as many as today's processors can request at a
/// time. The rest of the frame is requested by the loop that later copies the frame. The value was chosen among 8, 16,
/// 24, 32 and 64 cache lines by trials on an AMD EPYC of family 26.
const PREFETCH_MAX: usize = 24 * LINE;

/// Asks the system to back the memory at `addresses` with huge pages when it is first touched. With small pages, each
/// random access to a large table would cost a page-table walk. A refusal is ignored.
pub fn use_huge_pages<T>(addresses: Range<*const T>) {
    advise_huge(addresses, libc::MADV_HUGEPAGE);
}

/// Collapses memory at `addresses`, parts of which were already touched, into huge pages of the system. The system
/// gives memory for the whole range at once.
pub fn collapse_to_huge_pages<T>(addresses: Range<*const T>) {
    advise_huge(addresses, libc::MADV_COLLAPSE);
}

fn advise_huge<T>(addresses: Range<*const T>, advice: libc::c_int) {
    let start = (addresses.start as usize).next_multiple_of(HUGE_BYTES);
    let end = addresses.end as usize / HUGE_BYTES * HUGE_BYTES;
    if start < end {
        // SAFETY: neither kind of advice changes the contents of the memory. Addresses that are not mapped are refused.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, advice) };
    }
}

/// The settings of an arena's memory: whether the system locks it, and whether it uses huge pages.
#[derive(Clone, Copy, Debug)]
pub struct Backing {
    /// `true` if the arena's memory is locked (`mlock`), so that the operating system does not swap frames out.
    pub is_locked: bool,
    /// `true` if frames use huge pages where the system grants them; `false` if frames use no huge pages.
    pub huge_pages: bool,
}

/// The bytes of all frames of a machine, in one memory mapping of this process.
#[derive(Debug)]
pub struct Arena {
    /// The address of frame 0.
    base: NonNull<u8>,
    /// The start of the whole mapping, in which frame 0 lies at an aligned address.
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    /// Number of frames that may be accessed: frame 0 and those that follow it.
    frames: AtomicU32,
    /// Largest number of frames that the arena can have: address space is reserved for this many.
    frames_max: u32,
    has_huge_pages: bool,
    /// True if the system never swaps the arena's memory out (`mlock2`).
    is_locked: bool,
    /// The lock that is held while `frames` changes.
    resizing: Mutex<()>,
}

// SAFETY: the mapping belongs to the arena alone and stays where it is until the arena is dropped. Its bytes are
// accessed through raw pointers only, and only by threads that the engine allows (see the module's head).
unsafe impl Send for Arena {}
// SAFETY: the engine decides which thread may access the bytes of a frame; the other fields are `Sync`.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps memory for `frames` frames, and reserves address space for `frames_max`. Core dumps do not contain the
    /// frames.
    ///
    /// # Errors
    /// When the system does not grant the memory or the address space, or does not let this process lock that much
    /// memory.
    ///
    /// # Panics
    /// When `frames` is 0 or over `frames_max`.
    ///
    /// # Safety
    /// The arena's methods take no latch. The owner of the arena must ensure that no thread touches the bytes of a
    /// frame while another thread changes them through a method of the arena.
    pub unsafe fn new(frames: u32, frames_max: u32, backing: Backing) -> io::Result<Self> {
        assert!(0 < frames && frames <= frames_max, "{frames} frames of at most {frames_max}");
        let mapping_bytes = frames_max as usize * PAGE_BYTES + HUGE_BYTES;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, at an address that the system chooses.
        let mapping = unsafe { libc::mmap(ptr::null_mut(), mapping_bytes, libc::PROT_NONE, flags, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = NonNull::new(mapping.cast::<u8>()).expect("the system maps nothing at address 0");
        let skipped = mapping.as_ptr().align_offset(HUGE_BYTES);
        // SAFETY: fewer than HUGE_BYTES bytes are skipped, and the mapping is HUGE_BYTES longer than the frames.
        let base = unsafe { mapping.add(skipped) };
        let mut arena = Self {
            base,
            mapping,
            mapping_bytes,
            frames: AtomicU32::new(0),
            frames_max,
            has_huge_pages: false,
            is_locked: backing.is_locked,
            resizing: Mutex::new(()),
        };
        let all = 0..frames_max;
        if backing.huge_pages {
            arena.has_huge_pages = arena.advise(&all, libc::MADV_HUGEPAGE).is_ok();
        } else {
            // A system without huge pages refuses even this advice.
            let _ = arena.advise(&all, libc::MADV_NOHUGEPAGE);
        }
        // A child process has no use for the frames. Also, after a fork, a page that both processes share must not be
        // the target of a direct read. A refusal of the advice is ignored.
        let _ = arena.advise(&all, libc::MADV_DONTFORK);
        // The frames hold other people's data, and a core dump may be copied anywhere.
        arena.advise(&all, libc::MADV_DONTDUMP)?;
        arena.resize(frames)?;
        Ok(arena)
    }

    /// Returns the present number of frames. Only the memory of these frames may be accessed.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Returns the largest number of frames that the arena can have: address space is reserved for this many.
    #[must_use]
    pub const fn frames_max(&self) -> u32 {
        self.frames_max
    }

    /// Returns `true` if huge pages were asked for and the system accepted the request. The system then backs the arena
    /// with huge pages as far as it has some.
    #[must_use]
    pub const fn has_huge_pages(&self) -> bool {
        self.has_huge_pages
    }

    /// Makes the first `frames` frames accessible, and gives the memory of all other frames back to the system.
    ///
    /// New frames read as zeroes. A frame beyond the first `frames` must not be used any more: the arena's methods
    /// panic for it, and an access through an old pointer kills the process.
    ///
    /// # Errors
    /// When the system does not grant the memory. The number of frames is then as before.
    ///
    /// # Panics
    /// When `frames` is 0 or over [`Arena::frames_max`].
    pub fn resize(&self, frames: u32) -> io::Result<()> {
        assert!(0 < frames && frames <= self.frames_max, "{frames} frames of at most {}", self.frames_max);
        let _resizing = self.resizing.lock();
        let before = self.frames();
        if frames > before {
            self.protect(&(before..frames), libc::PROT_READ | libc::PROT_WRITE)?;
            let lock = || if self.is_locked { self.lock(&(before..frames)) } else { Ok(()) };
            if let Err(error) = self.protect_margin(frames, libc::PROT_READ).and_then(|()| lock()) {
                self.protect(&(before..frames), libc::PROT_NONE)?;
                self.protect_margin(frames, libc::PROT_NONE)?;
                self.protect_margin(before, libc::PROT_READ)?;
                return Err(error);
            }
            self.frames.store(frames, Ordering::Relaxed);
        } else if frames < before {
            self.frames.store(frames, Ordering::Relaxed);
            let restored = self
                .unlock(&(frames..before))
                .and_then(|()| self.protect(&(frames..before), libc::PROT_NONE))
                .and_then(|()| self.advise(&(frames..before), libc::MADV_DONTNEED))
                .and_then(|()| self.protect_margin(before, libc::PROT_NONE))
                .and_then(|()| self.protect_margin(frames, libc::PROT_READ));
            if let Err(error) = restored {
                self.protect(&(frames..before), libc::PROT_READ | libc::PROT_WRITE)?;
                self.protect_margin(before, libc::PROT_READ)?;
                self.frames.store(before, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes the page behind the first `frames` frames readable, as zeroes, or takes this back. SQLite, which reads pages
    /// in place, reads a few bytes past the end of a page if the database is corrupt.
    fn protect_margin(&self, frames: u32, protection: libc::c_int) -> io::Result<()> {
        assert!(frames <= self.frames_max, "{frames} frames of at most {}", self.frames_max);
        // SAFETY: the mapping is at least a page longer than all frames, because frame 0 lies at most 2 MiB less a page
        // behind its start. The page belongs to the arena and is no frame that is used.
        let protected = unsafe {
            let start = self.base.add(frames as usize * PAGE_BYTES);
            libc::mprotect(start.as_ptr().cast(), PAGE_BYTES, protection)
        };
        if protected == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Takes memory for `frames` from the system now rather than at the first touch. The bytes of the frames do not
    /// change.
    ///
    /// # Errors
    /// When the system has no memory, or the kernel is older than Linux 5.14.
    ///
    /// # Panics
    /// When `frames` goes beyond [`Arena::frames`].
    pub fn populate(&self, frames: Range<u32>) -> io::Result<()> {
        self.assert_accessible(&frames);
        self.advise(&frames, libc::MADV_POPULATE_WRITE)
    }

    /// Returns the memory of `frames` to the system. The frames read as zeroes, and take memory again when touched.
    ///
    /// # Errors
    /// When other code of this process has locked the memory, or the system lacks memory for its own tables.
    ///
    /// # Panics
    /// When `frames` goes beyond [`Arena::frames`].
    pub fn discard(&self, frames: Range<u32>) -> io::Result<()> {
        self.assert_accessible(&frames);
        if !self.is_locked {
            return self.advise(&frames, libc::MADV_DONTNEED);
        }
        self.unlock(&frames)?;
        let discarded = self.advise(&frames, libc::MADV_DONTNEED);
        // The frames are locked again (`MLOCK_ONFAULT`), which takes no memory before they are touched.
        self.lock(&frames).and(discarded)
    }

    /// Returns a pointer to the first byte of a frame. A caller that dereferences it must hold the page's latch or page
    /// lock, or be the only task that knows of the frame.
    ///
    /// # Panics
    /// When there is no such frame.
    #[inline]
    #[must_use]
    pub fn pointer(&self, frame: FrameNumber) -> *mut u8 {
        let frames = self.frames();
        assert!(frame.0 < frames, "{frame} touched, of {frames} frames");
        // SAFETY: the frame lies within the mapping, as just asserted.
        unsafe { self.base.add(frame.index() * PAGE_BYTES).as_ptr() }
    }

    /// Returns the address of frame 0, which is valid as long as the arena lives.
    pub(super) const fn first_frame(&self) -> FirstFrame {
        FirstFrame(self.base)
    }

    /// Asks the processor to prefetch `bytes` bytes of a frame from byte `offset` on, at most [`PREFETCH_MAX`]. The
    /// frame need not exist.
    #[inline(always)]
    pub(super) fn prefetch(&self, frame: FrameNumber, offset: usize, bytes: usize) {
        let page = self.base.as_ptr().wrapping_add(frame.index() * PAGE_BYTES);
        let lines = offset / LINE..(offset + bytes.min(PREFETCH_MAX)).div_ceil(LINE);
        lines.for_each(|line| prefetch(page.wrapping_add(line * LINE)));
    }

    /// Fills a frame with zeroes.
    ///
    /// # Panics
    /// When there is no such frame.
    #[inline]
    pub fn zero(&self, frame: FrameNumber) {
        // SAFETY: the frame is mapped and writable. The engine zeroes a frame only if no other task knows of it, or
        // under its page lock, so nobody reads or writes it meanwhile.
        unsafe { self.pointer(frame).write_bytes(0, PAGE_BYTES) }
    }

    /// Fills a frame with zeroes, from byte `offset` of the frame to its end.
    ///
    /// # Panics
    /// When there is no such frame or no such byte.
    pub fn zero_from(&self, frame: FrameNumber, offset: usize) {
        assert!(offset <= PAGE_BYTES, "byte {offset} of a frame");
        // SAFETY: the frame is mapped and writable, and `offset` lies within it. The engine zeroes a frame only if no
        // other task knows of it, or under its page lock.
        unsafe { self.pointer(frame).add(offset).write_bytes(0, PAGE_BYTES - offset) }
    }

    /// Copies the whole frame `from` to the frame `to`.
    ///
    /// # Panics
    /// When one of the frames does not exist, or both are the same.
    #[inline]
    pub fn copy(&self, from: FrameNumber, to: FrameNumber) {
        assert_ne!(from, to, "{from} copied to itself");
        // SAFETY: both frames are mapped, and different frames do not overlap. The engine holds the page lock of
        // `from`, and no other task knows of `to`.
        unsafe { self.pointer(from).copy_to_nonoverlapping(self.pointer(to), PAGE_BYTES) }
    }

    /// Copies bytes into a frame, from byte `offset` on.
    ///
    /// # Panics
    /// When there is no such frame, or `offset + bytes.len()` is over [`PAGE_BYTES`].
    #[inline]
    pub fn write(&self, frame: FrameNumber, offset: usize, bytes: &[u8]) {
        assert_within(offset, bytes.len());
        // SAFETY: the target lies within a mapped frame, and `bytes` is not memory of that frame: the engine writes
        // under the page's latch for writing, so that there is no reference to the frame's bytes.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), self.pointer(frame).add(offset), bytes.len()) }
    }

    /// Copies bytes out of a frame, from byte `offset` on.
    ///
    /// # Panics
    /// When there is no such frame, or `offset + bytes.len()` is over [`PAGE_BYTES`].
    #[inline]
    pub fn read(&self, frame: FrameNumber, offset: usize, bytes: &mut [u8]) {
        assert_within(offset, bytes.len());
        // SAFETY: the source lies within a mapped frame, and `bytes` is not memory of that frame. The engine reads under
        // the page's latch.
        unsafe { copy_nonoverlapping(self.pointer(frame).add(offset), bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Copies a whole frame into `bytes` without a latch, as a device would. If a task writes to the frame meanwhile,
    /// the copy may have some old and some new bytes.
    ///
    /// # Panics
    /// When there is no such frame.
    pub(super) fn snapshot(&self, frame: FrameNumber, bytes: &mut [u8; PAGE_BYTES]) {
        let words = self.pointer(frame).cast::<u64>();
        for (at, chunk) in bytes.chunks_exact_mut(8).enumerate() {
            // SAFETY: the word is aligned and lies within a mapped frame. The read is volatile because a task may
            // change the word meanwhile. That task makes the page dirty, so the page is written again later.
            let word = unsafe { words.add(at).read_volatile() };
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
    }

    /// Appends to `runs` the memory of `frames` as contiguous runs, and leaves out the first `skip` bytes. Frames that
    /// lie one after the other in the arena form one run.
    ///
    /// # Panics
    /// When a frame does not exist, or `skip` is beyond the frames.
    pub(super) fn runs<'a>(&'a self, frames: &[FrameNumber], skip: usize, runs: &mut impl Extend<IoRun<'a>>) {
        let mut frames = frames[skip / PAGE_BYTES..].iter().copied();
        let mut offset = skip % PAGE_BYTES;
        let Some(mut first) = frames.next() else { return };
        let mut length = 1;
        loop {
            let next = frames.next();
            match next {
                Some(next) if next.index() == first.index() + length => length += 1,
                _ => {
                    let last = FrameNumber(first.0 + (length - 1) as u32);
                    let _ = self.pointer(last);
                    // SAFETY: `offset` lies within the first frame.
                    let start = unsafe { self.pointer(first).add(offset) };
                    runs.extend(Some(IoRun::new(start, length * PAGE_BYTES - offset)));
                    offset = 0;
                    let Some(next) = next else { return };
                    (first, length) = (next, 1);
                }
            }
        }
    }

    fn assert_accessible(&self, frames: &Range<u32>) {
        assert!(frames.end <= self.frames(), "frame {} of {} frames", frames.end, self.frames());
    }

    /// Returns the address and the size in bytes of a range of frames.
    fn span(&self, frames: &Range<u32>) -> (*mut libc::c_void, usize) {
        assert!(frames.end <= self.frames_max, "frame {} of at most {}", frames.end, self.frames_max);
        // SAFETY: the range lies within the mapping, as just asserted.
        let start = unsafe { self.base.add(frames.start as usize * PAGE_BYTES) };
        (start.as_ptr().cast(), frames.len() * PAGE_BYTES)
    }

    fn advise(&self, frames: &Range<u32>, advice: libc::c_int) -> io::Result<()> {
        let (start, bytes) = self.span(frames);
        // SAFETY: the range belongs to the arena. The only advice that changes contents is `MADV_DONTNEED`, which makes
        // frames zero; the comments of its callers say so.
        if unsafe { libc::madvise(start, bytes, advice) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Locks frames in memory, each from its first touch on, so that the system never swaps them out.
    fn lock(&self, frames: &Range<u32>) -> io::Result<()> {
        let (start, bytes) = self.span(frames);
        // SAFETY: the range belongs to the arena, and locking does not change its contents.
        let returned = unsafe { libc::mlock2(start, bytes, libc::MLOCK_ONFAULT) };
        if returned == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        let words = format!("locking {bytes} bytes in memory (see `ulimit -l`): {error}");
        Err(io::Error::new(error.kind(), words))
    }

    /// Unlocks frames that [`Arena::lock`] has locked in memory.
    fn unlock(&self, frames: &Range<u32>) -> io::Result<()> {
        let (start, bytes) = self.span(frames);
        // SAFETY: the range belongs to the arena, and unlocking does not change its contents.
        let is_done = !self.is_locked || unsafe { libc::munlock(start, bytes) } == 0;
        if is_done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn protect(&self, frames: &Range<u32>, protection: libc::c_int) -> io::Result<()> {
        let (start, bytes) = self.span(frames);
        // SAFETY: the range belongs to the arena, and nobody uses frames that `resize` gives back to the system.
        if unsafe { libc::mprotect(start, bytes, protection) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to the arena alone. Nobody uses it any more, because runs borrow the arena and
        // requests under way keep it alive.
        let returned = unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
        debug_assert_eq!(returned, 0, "munmap: {}", io::Error::last_os_error());
    }
}

fn assert_within(offset: usize, bytes: usize) {
    let fits = offset <= PAGE_BYTES && bytes <= PAGE_BYTES - offset;
    assert!(fits, "{bytes} bytes at byte {offset} of a frame of {PAGE_BYTES}");
}

/// The address of frame 0 of an arena.
#[derive(Clone, Copy)]
pub(super) struct FirstFrame(NonNull<u8>);

// SAFETY: the value is an address only. Code that dereferences a pointer made from it says why that is allowed.
unsafe impl Send for FirstFrame {}
// SAFETY: the value is an address only.
unsafe impl Sync for FirstFrame {}

impl FirstFrame {
    /// Returns the address of a frame's bytes, valid as long as the arena lives. The caller must hold the page in the
    /// frame, so that the frame exists; this is not checked.
    #[inline(always)]
    pub(super) fn bytes(self, frame: FrameNumber) -> *mut [u8; PAGE_BYTES] {
        self.0.as_ptr().wrapping_add(frame.index() * PAGE_BYTES).cast()
    }
}

/// A run: a contiguous piece of an arena's memory, in the form that system calls take.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct IoRun<'a>(libc::iovec, PhantomData<&'a Arena>);

// SAFETY: a run is only an address and a length. Code that dereferences it says why that is allowed.
unsafe impl Send for IoRun<'_> {}

impl IoRun<'_> {
    /// Makes an [`IoRun`] from the address `start` and the length, `bytes` bytes. This memory must stay in place as long
    /// as the [`IoRun`] is used.
    pub(super) fn new(start: *mut u8, bytes: usize) -> Self {
        Self(libc::iovec { iov_base: start.cast(), iov_len: bytes }, PhantomData)
    }

    pub(super) fn pointer(&self) -> *mut u8 {
        self.0.iov_base.cast()
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.iov_len
    }

    /// Shortens this run of memory to its first `bytes` bytes, if it is longer.
    pub(super) fn cut(&mut self, bytes: usize) {
        self.0.iov_len = self.0.iov_len.min(bytes);
    }

    /// Returns the run of memory with the lifetime `'static`, so that the compiler no longer checks that the memory
    /// lives as long as the run.
    ///
    /// # Safety
    /// The caller makes sure that the memory is not freed while the run is used.
    pub(super) unsafe fn detached(self) -> IoRun<'static> {
        IoRun(self.0, PhantomData)
    }

    /// Returns `runs` as the array of `iovec` that system calls take.
    pub(super) fn as_io_vectors(runs: &[Self]) -> *const libc::iovec {
        runs.as_ptr().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena(frames: u32, frames_max: u32) -> io::Result<Arena> {
        // SAFETY: only one thread touches the arena.
        unsafe { Arena::new(frames, frames_max, Backing { is_locked: false, huge_pages: true }) }
    }

    fn byte(arena: &Arena, frame: u32) -> u8 {
        let mut byte = [0];
        arena.read(FrameNumber(frame), PAGE_BYTES - 1, &mut byte);
        byte[0]
    }

    #[test]
    fn frames_keep_their_bytes_until_they_are_discarded() {
        let arena = arena(8, 8).expect("32 KiB are there");
        for frame in 0..8 {
            arena.write(FrameNumber(frame), PAGE_BYTES - 1, &[frame as u8 + 1]);
        }
        arena.populate(0..4).expect("memory is there");
        arena.discard(2..5).expect("nothing is locked");
        let bytes: Vec<u8> = (0..8).map(|frame| byte(&arena, frame)).collect();
        assert_eq!(bytes, [1, 2, 0, 0, 0, 6, 7, 8]);
    }

    #[test]
    fn an_arena_grows_and_shrinks_in_place() {
        let arena = arena(4, 1 << 20).expect("4 GiB of address space are there");
        let before = arena.pointer(FrameNumber(0));
        arena.write(FrameNumber(3), 0, &[7; PAGE_BYTES]);
        arena.resize(1000).expect("4 MiB are there");
        assert_eq!((byte(&arena, 3), byte(&arena, 999)), (7, 0));
        arena.write(FrameNumber(999), 0, &[9; PAGE_BYTES]);
        arena.resize(3).expect("memory can always be given back");
        arena.resize(1000).expect("4 MiB are there");
        assert_eq!((byte(&arena, 3), byte(&arena, 999)), (0, 0));
        assert_eq!(arena.pointer(FrameNumber(0)), before);
        assert_eq!(before.align_offset(HUGE_BYTES), 0);
    }

    #[test]
    fn the_page_behind_the_last_frame_can_be_read() {
        let arena = arena(8, 8).expect("32 KiB are there");
        let read_behind = |frames: u32| {
            let last = arena.pointer(FrameNumber(frames - 1));
            // SAFETY: the page behind the last frame is readable, and nobody writes it.
            unsafe { last.add(2 * PAGE_BYTES - 1).read_volatile() }
        };
        assert_eq!(read_behind(8), 0);
        for frames in [3, 6, 8] {
            arena.write(FrameNumber(2), 0, &[7; PAGE_BYTES]);
            arena.resize(frames).expect("so much memory is there");
            assert_eq!(read_behind(frames), 0, "{frames} frames");
        }
    }

    #[test]
    #[should_panic(expected = "frame 0x4 touched, of 4 frames")]
    fn a_frame_beyond_the_border_is_a_panic() {
        let arena = arena(4, 8).expect("32 KiB are there");
        arena.zero(FrameNumber(4));
    }

    #[test]
    fn contiguous_frames_are_one_run() {
        let arena = arena(64, 64).expect("256 KiB are there");
        let frames = [4, 5, 6, 9, 3, 4].map(FrameNumber);
        let runs = |skip| {
            let mut runs = Vec::new();
            arena.runs(&frames, skip, &mut runs);
            let base = arena.pointer(FrameNumber(0)) as usize;
            runs.iter().map(|run| (run.pointer() as usize - base, run.bytes())).collect::<Vec<_>>()
        };
        let page = PAGE_BYTES;
        assert_eq!(runs(0), [(4 * page, 3 * page), (9 * page, page), (3 * page, 2 * page)]);
        assert_eq!(runs(page + 512), [(5 * page + 512, 2 * page - 512), (9 * page, page), (3 * page, 2 * page)]);
        assert_eq!(runs(3 * page), [(9 * page, page), (3 * page, 2 * page)]);
        assert_eq!(runs(6 * page), []);
    }
}

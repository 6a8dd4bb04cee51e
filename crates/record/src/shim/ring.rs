//! Writes the events of a recorded process into the ring that the recorder reads. Also keeps two facts about the whole
//! process: its number and the address of its ring.

use crate::sys;
use crate::wire::{Blind, Event, HEADER_BYTES, Header, Kind, MAGIC, SLOT_BYTES, Slot, TEXT_BYTES, flag, text_slots};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_long};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

static RING: AtomicPtr<Header> = AtomicPtr::new(std::ptr::null_mut());
/// Number of the process that the shim's tables describe. A child by `vfork` has another number, but shares the tables.
static PROCESS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// Name of the environment variable that has the path of the ring.
pub const VARIABLE: &CStr = c"HIGHWATER_RECORD";
/// Longest time, ns, for which a thread waits for free slots while the recorder does not read the ring.
const PATIENCE_NS: u64 = 5_000_000_000;

unsafe extern "C" {
    static program_invocation_short_name: *const c_char;
    fn getenv(name: *const c_char) -> *const c_char;
    fn clock_gettime(clock: c_int, time: *mut [c_long; 2]) -> c_int;
}

/// Returns the ring; `None` if this process has no ring, or if the recorder does not read it any more.
#[inline]
pub fn ring() -> Option<&'static Header> {
    // SAFETY: the ring stays mapped until the process ends.
    unsafe { RING.load(Ordering::Acquire).as_ref() }.filter(|ring| ring.closed.load(Ordering::Relaxed) == 0)
}

/// Returns whether this process has opened a ring, even if the ring was closed since.
pub fn was_open() -> bool {
    !RING.load(Ordering::Acquire).is_null()
}

/// Returns the present time of `CLOCK_MONOTONIC`, ns.
fn now_ns() -> u64 {
    let mut time = [0; 2];
    // SAFETY: the time has its two words; 1 is CLOCK_MONOTONIC.
    unsafe { clock_gettime(1, &raw mut time) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

/// Opens the ring whose path is in the environment variable [`VARIABLE`].
pub fn open() {
    // SAFETY: the name is a C string.
    let path = unsafe { getenv(VARIABLE.as_ptr()) };
    if path.is_null() {
        return;
    }
    // SAFETY: a variable is a C string.
    let fd = unsafe { sys::open(path) };
    if fd < 0 {
        return;
    }
    let bytes = sys::stat_descriptor(fd).map_or(0, |stat| stat.size as usize);
    if bytes > HEADER_BYTES {
        let prot = sys::PROT_READ | sys::PROT_WRITE;
        // SAFETY: a new mapping where the kernel likes.
        let at = unsafe { sys::mmap(std::ptr::null_mut(), bytes, prot, sys::MAP_SHARED, fd, 0) };
        if at > 0 {
            let ring = at as *mut Header;
            // SAFETY: the mapping has the header, and all zero is one.
            let header = unsafe { &*ring };
            let slots = header.slots.load(Ordering::Relaxed);
            let is_whole = slots.is_power_of_two() && HEADER_BYTES as u64 + slots * SLOT_BYTES as u64 <= bytes as u64;
            if header.magic.load(Ordering::Relaxed) == MAGIC && is_whole {
                RING.store(ring, Ordering::Release);
            }
        }
    }
    sys::close(fd);
}

/// Notes the number of this process, and records that it started ([`Kind::Start`]). Called after the library was
/// loaded, and in the child after a fork.
pub fn begin_process() {
    let process = sys::process();
    PROCESS.store(process, Ordering::Relaxed);
    THREAD.set(0);
    if ring().is_some() {
        THREAD.set(sys::thread());
        // SAFETY: glibc's name of the program is a C string.
        let name = unsafe { CStr::from_ptr(program_invocation_short_name) }.to_bytes();
        emit_text(Kind::Start, 0, u64::from(process), sys::parent(), 0, &[name]);
    }
}

/// Returns whether this process is a child made by `vfork`. Such a child shares its parent's memory, and so the tables
/// of this library.
pub fn is_borrowed() -> bool {
    sys::process() != PROCESS.load(Ordering::Relaxed)
}

/// Returns the number of the calling thread. The thread's first call records an event [`Kind::Thread`].
fn thread(ring: &Header) -> u32 {
    let known = THREAD.get();
    if known != 0 {
        return known;
    }
    let thread = sys::thread();
    THREAD.set(thread);
    let process = u64::from(sys::process());
    write(ring, &event(ring, thread, Kind::Thread, 0, process, 0, 0), &[]);
    thread
}

fn event(ring: &Header, thread: u32, kind: Kind, flags: u16, offset: u64, len: u32, handle: u32) -> Event {
    let time_ns = now_ns().saturating_sub(ring.start_ns.load(Ordering::Relaxed));
    Event { kind, thread, time_ns, flags, offset, len, handle }
}

/// Writes an event without text into the ring.
pub fn emit(kind: Kind, flags: u16, offset: u64, len: u32, handle: u32) {
    emit_text(kind, flags, offset, len, handle, &[]);
}

/// Records an event about `len` bytes. If the number does not fit into 32 bits, the event has the length in pages of 4
/// KiB, and the flag `LEN_IN_PAGES`.
pub fn emit_range(kind: Kind, flags: u16, offset: u64, len: u64, handle: u32) {
    match u32::try_from(len) {
        Ok(len) => emit(kind, flags, offset, len, handle),
        Err(_) => {
            let pages = u32::try_from(len.div_ceil(4096)).unwrap_or(u32::MAX);
            emit(kind, flags | crate::wire::flag::LEN_IN_PAGES, offset, pages, handle);
        }
    }
}

/// Records an event with a text. The parts of this text are in `text`, and are joined in order.
pub fn emit_text(kind: Kind, flags: u16, offset: u64, len: u32, handle: u32, text: &[&[u8]]) {
    let Some(ring) = ring() else { return };
    let thread = thread(ring);
    write(ring, &event(ring, thread, kind, flags, offset, len, handle), text);
}

/// Counts an activity of the kind `blind`, which the shim sees but cannot record.
pub fn count(blind: Blind) {
    if let Some(ring) = ring() {
        ring.blind[blind as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns a number for a new open file description.
pub fn next_handle() -> u32 {
    ring().map_or(0, |ring| ring.next_handle.fetch_add(1, Ordering::Relaxed))
}

fn slot(ring: &Header, number: u64, slots: u64) -> &Slot {
    let at = HEADER_BYTES + (number & (slots - 1)) as usize * SLOT_BYTES;
    // SAFETY: `open` saw that the mapping has so many slots behind the header, and slots are made of atomics.
    unsafe { &*(std::ptr::from_ref(ring).cast::<u8>().add(at).cast::<Slot>()) }
}

fn write(ring: &Header, event: &Event, text: &[&[u8]]) {
    let slots = ring.slots.load(Ordering::Relaxed);
    let bytes = text.iter().map(|part| part.len()).sum::<usize>();
    let texts = text_slots(bytes);
    let count = 1 + texts;
    let first = ring.head.fetch_add(count, Ordering::Relaxed);
    if !has_room(ring, first + count, slots) {
        ring.dropped.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let event = Event { flags: event.flags | (texts as u16) << flag::TEXT_SHIFT, ..*event };
    slot(ring, first, slots).fill(first, slots, &event);
    let mut parts = text.iter().flat_map(|part| part.iter().copied());
    for number in first + 1..first + count {
        let (mut piece, mut len) = ([0; TEXT_BYTES], 0);
        while len < TEXT_BYTES
            && let Some(byte) = parts.next()
        {
            piece[len] = byte;
            len += 1;
        }
        slot(ring, number, slots).fill_text(number, slots, &piece[..len]);
    }
}

/// Waits until all slots with numbers below `end` are free, and returns `true`. Returns `false` if the ring is closed.
/// If the recorder has stopped reading, this function closes the ring.
fn has_room(ring: &Header, end: u64, slots: u64) -> bool {
    let is_free = || end <= ring.tail.load(Ordering::Acquire) + slots;
    while !is_free() {
        if ring.closed.load(Ordering::Relaxed) != 0 {
            return false;
        }
        if now_ns().saturating_sub(ring.seen_ns.load(Ordering::Relaxed)) > PATIENCE_NS {
            ring.closed.store(1, Ordering::Relaxed);
            return false;
        }
        sys::sleep_ns(50_000);
    }
    true
}

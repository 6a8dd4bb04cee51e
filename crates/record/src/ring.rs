//! The recorder's side of the ring. The ring is memory without a named file, which the recorder shares with the
//! recorded processes.

use crate::wire::{BLINDS, Blind, Event, HEADER_BYTES, Header, Kind, MAGIC, SLOT_BYTES, Slot, TEXT_BYTES, flag};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Number of slots of the ring. They take 32 MiB. A recorded program fills them in a third of a second if the recorder
/// does not read them.
const SLOTS: u64 = 1 << 20;
/// Name of the ring in the list of a process's mappings.
const NAME: &str = "highwater-ring";
/// Longest time for which a slot that a thread has claimed may stay empty. After this time the thread counts as dead or
/// stopped, and the slot is skipped.
const HOLE: Duration = Duration::from_millis(500);
/// Longest time for which a claimed slot may stay empty at the end of a recording, when no recorded program writes any
/// more.
const HOLE_AT_END: Duration = Duration::from_millis(20);

/// A ring that recorded processes write to.
#[derive(Debug)]
pub struct Ring {
    map: MmapRaw,
    file: File,
    /// The number of the empty slot at which reading stopped, and the time of the first attempt to read this slot.
    hole: Option<(u64, Instant)>,
    /// Number of slots that were skipped, because the threads that had claimed them left them empty.
    lost: u64,
    text: Vec<u8>,
}

/// Returns the time of `CLOCK_MONOTONIC`, ns.
#[must_use]
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Ring {
    /// Makes a ring. `pages_open` is the largest number of mapped pages that a recorded process may have open at a
    /// time, which means that accesses to them cause no fault. If it is 0, accesses to mappings are not recorded.
    ///
    /// # Errors
    /// When the system has no memory for the ring.
    pub fn new(pages_open: u64) -> io::Result<Self> {
        let bytes = HEADER_BYTES as u64 + SLOTS * SLOT_BYTES as u64;
        let file = File::from(memfd_create(NAME, MemfdFlags::CLOEXEC)?);
        ftruncate(&file, bytes)?;
        // All pages are taken now: otherwise a recorded program in a cgroup would pay for those that it touches first.
        let map = MmapOptions::new().populate().map_raw(&file)?;
        let ring = Self { map, file, hole: None, lost: 0, text: Vec::new() };
        let header = ring.header();
        header.slots.store(SLOTS, Ordering::Relaxed);
        header.pages_open.store(pages_open, Ordering::Relaxed);
        header.start_ns.store(now_ns(), Ordering::Relaxed);
        header.seen_ns.store(now_ns(), Ordering::Relaxed);
        header.next_handle.store(1, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(ring)
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header, is aligned to a page, and lives as long as `self`. Other processes
        // change it, and all that it consists of is atomic.
        unsafe { &*self.map.as_ptr().cast::<Header>() }
    }

    fn slot(&self, number: u64) -> &Slot {
        let at = HEADER_BYTES + (number & (SLOTS - 1)) as usize * SLOT_BYTES;
        // SAFETY: the mapping has `SLOTS` slots behind the header, and slots consist of atomics.
        unsafe { &*self.map.as_ptr().add(at).cast::<Slot>() }
    }

    /// Returns a path by which other processes of this user open the ring.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Returns how much of the ring is in the resident memory of a process, bytes. The kernel counts it as shared memory
    /// of the process (`RssShmem`), although the process would not have it without the recording. Returns 0 if the
    /// process has ended or has no ring.
    #[must_use]
    pub fn resident_in(&self, process: u32) -> u64 {
        /// The bit of an entry of `/proc/PID/pagemap` that is set if the process has the page in memory.
        const PRESENT: u64 = 1 << 63;
        /// Bytes of an entry of `/proc/PID/pagemap`.
        const ENTRY: usize = size_of::<u64>();
        let maps = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
        let name = format!("/memfd:{NAME} (deleted)");
        let is_ring = |line: &&[u8]| line.ends_with(name.as_bytes());
        let place = maps.split(|byte| *byte == b'\n').find(is_ring).and_then(|line| {
            let range = str::from_utf8(line).ok()?.split(' ').next()?.split_once('-')?;
            Some((usize::from_str_radix(range.0, 16).ok()?, usize::from_str_radix(range.1, 16).ok()?))
        });
        let Some((from, to)) = place else { return 0 };
        let page = rustix::param::page_size();
        let mut entries = vec![0; to.saturating_sub(from).min(self.map.len()) / page * ENTRY];
        let read = File::open(format!("/proc/{process}/pagemap"))
            .and_then(|pagemap| pagemap.read_exact_at(&mut entries, (from / page * ENTRY) as u64));
        if read.is_err() {
            return 0;
        }
        let (entries, _) = entries.as_chunks();
        entries.iter().filter(|entry| u64::from_ne_bytes(**entry) & PRESENT != 0).count() as u64 * page as u64
    }

    /// Returns the time from which the events' times count: a value of `CLOCK_MONOTONIC`, ns.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        self.header().start_ns.load(Ordering::Relaxed)
    }

    /// Tells all recorded processes that the recorder does not read the ring any more.
    pub fn close(&self) {
        self.header().closed.store(1, Ordering::Release);
    }

    /// Returns the number of lost events: those that recorded processes dropped, plus the slots that were claimed and
    /// never filled.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.header().dropped.load(Ordering::Relaxed) + self.lost
    }

    /// Returns how many activities of the kind `blind` the shim noticed. It cannot record activities of this kind, only
    /// count them.
    #[must_use]
    pub fn blind(&self, blind: Blind) -> u64 {
        const { assert!((Blind::Aio as usize) < BLINDS) };
        self.header().blind[blind as usize].load(Ordering::Relaxed)
    }

    /// Reads the events in the ring, and passes each event with its text to `each`. Stops before a slot that a process
    /// has claimed but not filled yet. If the slot has been empty for too long, counts it as lost and goes on; with
    /// `is_end`, a shorter time is too long. Returns the number of events read.
    ///
    /// # Errors
    /// The error of `each`, which ends the reading.
    pub fn read<E>(&mut self, is_end: bool, mut each: impl FnMut(&Event, &[u8]) -> Result<(), E>) -> Result<u64, E> {
        let mut count = 0;
        let mut text = std::mem::take(&mut self.text);
        let mut tail = self.header().tail.load(Ordering::Relaxed);
        loop {
            self.header().seen_ns.store(now_ns(), Ordering::Relaxed);
            let head = self.header().head.load(Ordering::Acquire);
            let stop = head.min(tail + 4096);
            let mut is_stuck = false;
            while tail < stop && !is_stuck {
                match self.next(tail, &mut text) {
                    Next::Event(event, slots) => {
                        tail += slots;
                        count += 1;
                        each(&event, &text)?;
                    }
                    Next::Rest => tail += 1,
                    Next::Empty => {
                        is_stuck = !self.is_lost(tail, is_end);
                        if !is_stuck {
                            self.lost += 1;
                            tail += 1;
                        }
                    }
                }
            }
            self.header().tail.store(tail, Ordering::Release);
            if tail == head || is_stuck {
                self.text = text;
                return Ok(count);
            }
        }
    }

    /// Reads the slot with the number `number`, and copies the event's text, which fills the following slots, to
    /// `text`.
    fn next(&self, number: u64, text: &mut Vec<u8>) -> Next {
        let slot = self.slot(number);
        if !slot.is_filled(number, SLOTS) {
            return Next::Empty;
        }
        let Some(event) = slot.event() else { return Next::Rest };
        text.clear();
        let texts = u64::from(event.flags >> flag::TEXT_SHIFT);
        for at in number + 1..=number + texts {
            let slot = self.slot(at);
            if !slot.is_filled(at, SLOTS) {
                return Next::Empty;
            }
            let (bytes, len) = slot.text();
            text.extend_from_slice(&bytes[..len]);
        }
        let flags = event.flags & ((1 << flag::TEXT_SHIFT) - 1);
        Next::Event(Event { flags, ..event }, 1 + texts)
    }

    /// Returns whether slot `number`, or a slot with the text of its event, has been empty for so long that its thread
    /// will not fill it any more. `is_end` is `true` at the end of the recording, when a shorter time is enough.
    fn is_lost(&mut self, number: u64, is_end: bool) -> bool {
        match self.hole {
            Some((at, since)) if at == number => since.elapsed() > if is_end { HOLE_AT_END } else { HOLE },
            _ => {
                self.hole = Some((number, Instant::now()));
                false
            }
        }
    }

    /// Returns whether every claimed slot of the ring has been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let header = self.header();
        header.head.load(Ordering::Acquire) == header.tail.load(Ordering::Relaxed)
    }
}

/// The contents of a slot.
enum Next {
    /// An event, and the number of slots that it takes with its text.
    Event(Event, u64),
    /// Text of an event whose own slot was lost.
    Rest,
    /// The slot, or a slot of its text, is not filled yet.
    Empty,
}

// The layout is part of the interface between two programs.
const _: () = assert!(size_of::<Header>() == HEADER_BYTES && size_of::<Slot>() == SLOT_BYTES);
const _: () = assert!(TEXT_BYTES == SLOT_BYTES - 8 && Kind::Text as u8 == 0);

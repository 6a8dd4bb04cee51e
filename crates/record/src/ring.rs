//! The recorder's side of the ring: memory shared with the recorded processes, without a file.

use crate::wire::{BLINDS, Blind, Event, HEADER_BYTES, Header, Kind, MAGIC, SLOT_BYTES, Slot, TEXT_BYTES, flag};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Slots of the ring: 32 MiB, which a program fills in a third of a second if nobody reads.
const SLOTS: u64 = 1 << 20;
/// How long a claimed slot may stay empty. Its thread is dead then, or stopped.
const HOLE: Duration = Duration::from_millis(500);
/// How long at the end, when nobody writes any more.
const HOLE_AT_END: Duration = Duration::from_millis(20);

/// A ring that recorded processes write to.
#[derive(Debug)]
pub struct Ring {
    map: MmapRaw,
    file: File,
    /// The number of the slot that is empty although later ones are not, and since when.
    hole: Option<(u64, Instant)>,
    /// Slots that were left empty.
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
    /// Makes a ring. `pages_open` is how many pages of mappings may be open at a time; 0: mappings are not followed.
    ///
    /// # Errors
    /// When the system has no memory for it.
    pub fn new(pages_open: u64) -> io::Result<Self> {
        let bytes = HEADER_BYTES as u64 + SLOTS * SLOT_BYTES as u64;
        let file = File::from(memfd_create("highwater-ring", MemfdFlags::CLOEXEC)?);
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

    /// Returns the time 0 of the events: `CLOCK_MONOTONIC`, ns.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        self.header().start_ns.load(Ordering::Relaxed)
    }

    /// Tells all writers that nobody reads any more.
    pub fn close(&self) {
        self.header().closed.store(1, Ordering::Release);
    }

    /// Returns how many events the writers dropped, and how many slots stayed empty.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.header().dropped.load(Ordering::Relaxed) + self.lost
    }

    /// Returns how often something was seen that is not followed.
    #[must_use]
    pub fn blind(&self, blind: Blind) -> u64 {
        const { assert!((Blind::Aio as usize) < BLINDS) };
        self.header().blind[blind as usize].load(Ordering::Relaxed)
    }

    /// Reads all events that are there, and gives each with its text to `each`. Returns their number.
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

    /// Looks at a slot.
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

    /// Returns whether the slot, or the text behind it, has been empty for so long that nobody will fill it.
    fn is_lost(&mut self, number: u64, is_end: bool) -> bool {
        match self.hole {
            Some((at, since)) if at == number => since.elapsed() > if is_end { HOLE_AT_END } else { HOLE },
            _ => {
                self.hole = Some((number, Instant::now()));
                false
            }
        }
    }

    /// Returns whether nothing waits to be read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let header = self.header();
        header.head.load(Ordering::Acquire) == header.tail.load(Ordering::Relaxed)
    }
}

/// What a slot is.
enum Next {
    /// An event, and the number of slots that it takes with its text.
    Event(Event, u64),
    /// Text of an event that was lost.
    Rest,
    /// Not filled yet.
    Empty,
}

// The layout is part of the interface between two programs.
const _: () = assert!(size_of::<Header>() == HEADER_BYTES && size_of::<Slot>() == SLOT_BYTES);
const _: () = assert!(TEXT_BYTES == SLOT_BYTES - 8 && Kind::Text as u8 == 0);

//! The layout of the shared memory through which the shim speaks to the recorder. Compiled into both.
//!
//! The memory is a header of one page and a ring of slots of 32 bytes, all shared by every recorded process. A writer
//! claims slots by advancing `head`, fills them, and stores the first word of each last; the word holds the lap of the
//! ring, so the reader sees whether a slot is filled. What a killed process had filled is there.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The first word of the header: says that this is the ring, and its version.
pub const MAGIC: u64 = 0x3130_676e_6952_7748;
/// Bytes of the header in front of the slots.
pub const HEADER_BYTES: usize = 4096;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 32;
/// Bytes of text that a slot holds behind its first word.
pub const TEXT_BYTES: usize = 24;
/// Most slots of text that an event has; text beyond is cut.
pub const TEXT_SLOTS_MAX: u64 = 255;

/// What an event says. The fields of [`Slot`] mean what the line says; the handle is the number of an open file
/// description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// More text of the event before.
    Text = 0,
    /// A file was opened or found open. Offset: size; len: flags of the open; text: [`OpenText`] and the path.
    Open = 1,
    /// The last descriptor was closed.
    Close = 2,
    /// Bytes were read.
    Read = 3,
    /// Bytes were written.
    Write = 4,
    /// A range was mapped.
    Map = 5,
    /// A range was unmapped.
    Unmap = 6,
    /// A page of a mapping was read.
    Load = 7,
    /// A page of a mapping was written.
    Store = 8,
    /// Advice, an own code ([`advice`]) in the flags; len 0: to the end.
    Advise = 9,
    /// Dirty data is written; len 0: of the file.
    Sync = 10,
    /// The file has the size in the offset now.
    Truncate = 11,
    /// A range was punched out.
    Punch = 12,
    /// A name is removed. Offset: inode; handle: device; flags: 1 if it was the last name.
    Delete = 13,
    /// A name changed. Offset: inode; handle: device; text: the old path, a zero byte, the new path.
    Rename = 14,
    /// The process started another. Offset: its number.
    Fork = 15,
    /// The process becomes another program. Text: the path.
    Exec = 16,
    /// The shim was loaded into, or forked into, a process. Offset: its number; len: its parent's.
    Start = 17,
    /// The process ends.
    Exit = 18,
    /// A thread is seen for the first time. Offset: the number of its process.
    Thread = 19,
}

impl Kind {
    const ALL: [Self; 20] = [
        Self::Text,
        Self::Open,
        Self::Close,
        Self::Read,
        Self::Write,
        Self::Map,
        Self::Unmap,
        Self::Load,
        Self::Store,
        Self::Advise,
        Self::Sync,
        Self::Truncate,
        Self::Punch,
        Self::Delete,
        Self::Rename,
        Self::Fork,
        Self::Exec,
        Self::Start,
        Self::Exit,
        Self::Thread,
    ];

    /// Returns the kind with this code.
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// Bits of [`Event::flags`]. The high byte is the number of slots of text that follow.
pub mod flag {
    /// Bits below the number of slots of text.
    pub const TEXT_SHIFT: u32 = 8;
    /// The transfer goes past the page cache.
    pub const DIRECT: u16 = 1;
    /// The data is on the disk before the call returns.
    pub const SYNC: u16 = 2;
    /// The write was at the end of the file.
    pub const APPEND: u16 = 4;
    /// The mapping is shared.
    pub const SHARED: u16 = 8;
    /// The length is in pages of 4 KiB, since it would not fit in bytes.
    pub const LEN_IN_PAGES: u16 = 16;
    /// The file was not opened here, but found open.
    pub const FOUND: u16 = 32;
    /// The last name was removed.
    pub const LAST_NAME: u16 = 64;
    /// The pages of the mapping are followed.
    pub const FOLLOWED: u16 = 128;
}

/// Codes of advice, in the flags of an event.
pub mod advice {
    /// No special treatment.
    pub const NORMAL: u16 = 0;
    /// Random reads.
    pub const RANDOM: u16 = 1;
    /// Sequential reads.
    pub const SEQUENTIAL: u16 = 2;
    /// Will be needed.
    pub const WILL_NEED: u16 = 3;
    /// Is not needed.
    pub const DONT_NEED: u16 = 4;
    /// Is used once.
    pub const NO_REUSE: u16 = 5;
}

/// Things that the shim sees but cannot follow; each has a counter in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Blind {
    /// A raw system call that reads or writes.
    RawCall = 0,
    /// `io_uring_setup` through `syscall`.
    IoUring = 1,
    /// A descriptor number beyond the table.
    HighDescriptor = 2,
    /// A mapping beyond the table.
    ManyMappings = 3,
    /// A file mapping whose pages are not followed.
    Mapping = 4,
    /// `io_submit` through `syscall`.
    Aio = 5,
}

/// Number of counters of [`Blind`].
pub const BLINDS: usize = 8;

/// The header of the ring.
#[repr(C, align(4096))]
pub struct Header {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// Number of slots, a power of two.
    pub slots: AtomicU64,
    /// The time 0 of all events: `CLOCK_MONOTONIC`, ns.
    pub start_ns: AtomicU64,
    /// Number of pages of mappings that are open at a time; 0: mappings are not followed.
    pub pages_open: AtomicU64,
    /// Whether the recorder has ended (or the writers gave up waiting for it).
    pub closed: AtomicU64,
    /// Time of the recorder's last look: `CLOCK_MONOTONIC`, ns.
    pub seen_ns: AtomicU64,
    apart_1: [u64; 10],
    /// Number of the next slot to claim.
    pub head: AtomicU64,
    apart_2: [u64; 15],
    /// Number of the next slot to read.
    pub tail: AtomicU64,
    apart_3: [u64; 15],
    /// Events that were dropped because the recorder did not keep up.
    pub dropped: AtomicU64,
    /// The next number of an open file description.
    pub next_handle: AtomicU32,
    /// Counters of [`Blind`].
    pub blind: [AtomicU64; BLINDS],
}

/// A slot of the ring.
#[repr(C)]
pub struct Slot {
    words: [AtomicU64; 4],
}

/// An event without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its kind.
    pub kind: Kind,
    /// The thread.
    pub thread: u32,
    /// ns since the start; below 2^48.
    pub time_ns: u64,
    /// See [`flag`].
    pub flags: u16,
    /// Bytes, or what the kind says.
    pub offset: u64,
    /// Bytes (or pages), or what the kind says.
    pub len: u32,
    /// The open file description, or what the kind says.
    pub handle: u32,
}

/// Returns the first word of the slot with this number, once it is filled.
fn first_word(number: u64, slots: u64, kind: u8, thread: u32) -> u64 {
    let lap = (number / slots + 1) & 0xff_ffff;
    lap | u64::from(kind) << 24 | u64::from(thread) << 32
}

impl Slot {
    /// Fills the slot with the number `number` of a ring of `slots` with an event.
    pub fn fill(&self, number: u64, slots: u64, event: &Event) {
        self.words[1].store(event.time_ns << 16 | u64::from(event.flags), Ordering::Relaxed);
        self.words[2].store(event.offset, Ordering::Relaxed);
        self.words[3].store(u64::from(event.len) << 32 | u64::from(event.handle), Ordering::Relaxed);
        let first = first_word(number, slots, event.kind as u8, event.thread);
        self.words[0].store(first, Ordering::Release);
    }

    /// Fills the slot with text, at most [`TEXT_BYTES`]; `thread` is the number of these bytes.
    pub fn fill_text(&self, number: u64, slots: u64, text: &[u8]) {
        let mut bytes = [0; TEXT_BYTES];
        bytes[..text.len()].copy_from_slice(text);
        for (word, chunk) in self.words[1..].iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
        }
        let first = first_word(number, slots, Kind::Text as u8, text.len() as u32);
        self.words[0].store(first, Ordering::Release);
    }

    /// Returns whether the slot with the number `number` is filled.
    pub fn is_filled(&self, number: u64, slots: u64) -> bool {
        let first = self.words[0].load(Ordering::Acquire);
        first & 0xff_ffff == (number / slots + 1) & 0xff_ffff
    }

    /// Returns the event of a filled slot; `None` if it holds text.
    pub fn event(&self) -> Option<Event> {
        let [first, time, offset, last] = [0, 1, 2, 3].map(|at: usize| self.words[at].load(Ordering::Relaxed));
        let kind = Kind::of_code((first >> 24) as u8)?;
        (kind != Kind::Text).then_some(Event {
            kind,
            thread: (first >> 32) as u32,
            time_ns: time >> 16,
            flags: time as u16,
            offset,
            len: (last >> 32) as u32,
            handle: last as u32,
        })
    }

    /// Returns the text of a filled slot, and how many of its bytes there are.
    pub fn text(&self) -> ([u8; TEXT_BYTES], usize) {
        let mut bytes = [0; TEXT_BYTES];
        for (word, chunk) in self.words[1..].iter().zip(bytes.as_chunks_mut::<8>().0) {
            *chunk = word.load(Ordering::Relaxed).to_le_bytes();
        }
        let len = (self.words[0].load(Ordering::Relaxed) >> 32) as usize;
        (bytes, len.min(TEXT_BYTES))
    }
}

/// Returns the number of slots for so much text.
pub fn text_slots(bytes: usize) -> u64 {
    (bytes.div_ceil(TEXT_BYTES) as u64).min(TEXT_SLOTS_MAX)
}

/// What stands before the path in the text of [`Kind::Open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenText {
    /// The inode.
    pub inode: u64,
    /// Major and minor number of the device.
    pub device: [u32; 2],
    /// Mode, with the type.
    pub mode: u32,
    /// The low word of the time of birth, which tells reused inodes apart.
    pub birth: u32,
}

impl OpenText {
    /// Bytes before the path.
    pub const BYTES: usize = 24;

    /// Returns it as bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.inode.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.device[0].to_le_bytes());
        bytes[12..16].copy_from_slice(&self.device[1].to_le_bytes());
        bytes[16..20].copy_from_slice(&self.mode.to_le_bytes());
        bytes[20..].copy_from_slice(&self.birth.to_le_bytes());
        bytes
    }

    /// Reads it, and returns what is behind it: the path.
    pub fn of_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (own, path) = bytes.split_first_chunk::<{ Self::BYTES }>()?;
        let word = |at: usize| u32::from_le_bytes([own[at], own[at + 1], own[at + 2], own[at + 3]]);
        let inode = u64::from(word(0)) | u64::from(word(4)) << 32;
        Some((Self { inode, device: [word(8), word(12)], mode: word(16), birth: word(20) }, path))
    }
}

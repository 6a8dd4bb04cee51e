//! The layout of the shared memory through which the shim passes events to the recorder. This file is compiled into
//! both.
//!
//! The memory is a header of one page and a ring of slots of 32 bytes, all shared by every recorded process. A writer
//! claims slots by advancing `head`, and fills them. It stores the first word of each slot last. This word contains the
//! number of the lap around the ring, so the reader sees whether a slot is filled. Slots that a process filled before
//! it was killed can still be read.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The first word of the ring's header, which identifies the format of the ring and its version.
pub const MAGIC: u64 = 0x3130_676e_6952_7748;
/// Size of the ring's header, which lies before the slots, bytes.
pub const HEADER_BYTES: usize = 4096;
/// Size of a slot of the ring, bytes.
pub const SLOT_BYTES: usize = 32;
/// Largest number of bytes of text that a slot holds. The text follows the slot's first word.
pub const TEXT_BYTES: usize = 24;
/// Largest number of slots for the text of one event. Longer text is cut off.
pub const TEXT_SLOTS_MAX: u64 = 255;

/// The kind of an event. Where the comment of a variant names a field of [`Event`], the field has the stated meaning
/// for this kind. Otherwise, the field `handle` is the number of an open file description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The slot holds text that belongs to the event before it.
    Text = 0,
    /// A file was opened or found open. Offset: size; len: flags of the open; text: [`OpenText`] and the path.
    Open = 1,
    /// The last descriptor of an open file description was closed.
    Close = 2,
    /// A range of bytes of a file was read.
    Read = 3,
    /// A range of bytes of a file was written.
    Write = 4,
    /// A range of a file was mapped.
    Map = 5,
    /// A mapped range of a file was unmapped.
    Unmap = 6,
    /// A page of a mapping was read.
    Load = 7,
    /// A page of a mapping was written.
    Store = 8,
    /// Advice about a range of a file. Flags: the advice as a code of [`advice`]; len 0: to the end of the file.
    Advise = 9,
    /// A range of a file was synced; len 0: the whole file.
    Sync = 10,
    /// The size of a file was set. Offset: the new size.
    Truncate = 11,
    /// A hole was punched in a file: the range has no blocks any more.
    Punch = 12,
    /// A name of a file was removed. The event's field `offset` has the inode, `handle` the device, and `flags` the
    /// flag [`flag::LAST_NAME`] if it was the file's last name.
    Delete = 13,
    /// A file was renamed. The event's field `offset` has the inode, `handle` the device, and the text the old path, a
    /// zero byte, and the new path.
    Rename = 14,
    /// The process started another process. Offset: the PID of the new process.
    Fork = 15,
    /// The process becomes another program (`execve`). Text: the path of the program.
    Exec = 16,
    /// The shim was loaded into a process, or came into it by `fork`. Offset: the number of the process; len: the
    /// number of its parent.
    Start = 17,
    /// The process ends.
    Exit = 18,
    /// The first event of a thread. Offset: the number of the thread's process.
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
    /// Number of low bits in [`Event::flags`] that hold flags. The bits above them hold the number of slots of text.
    pub const TEXT_SHIFT: u32 = 8;
    /// The transfer bypasses the page cache (`O_DIRECT`).
    pub const DIRECT: u16 = 1;
    /// The data of the transfer is on the disk before the call returns (`O_DSYNC`, which `O_SYNC` includes).
    pub const SYNC: u16 = 2;
    /// The write was at the end of the file.
    pub const APPEND: u16 = 4;
    /// The mapping is shared.
    pub const SHARED: u16 = 8;
    /// The event's length is in pages of 4 KiB, because the number of bytes does not fit into the field `len`.
    pub const LEN_IN_PAGES: u16 = 16;
    /// The file was already open when the shim met its descriptor for the first time.
    pub const FOUND: u16 = 32;
    /// The removed name was the file's last one.
    pub const LAST_NAME: u16 = 64;
    /// The shim also records the touches of this mapping's pages.
    pub const FOLLOWED: u16 = 128;
}

/// Codes for the advice that a program gave by `posix_fadvise` or `madvise`. They are stored in the flags of an event
/// of the kind [`Kind::Advise`].
pub mod advice {
    /// The program expects no special access pattern (`POSIX_FADV_NORMAL`).
    pub const NORMAL: u16 = 0;
    /// The program will read at random offsets.
    pub const RANDOM: u16 = 1;
    /// The program will read sequentially.
    pub const SEQUENTIAL: u16 = 2;
    /// The program will need the range soon.
    pub const WILL_NEED: u16 = 3;
    /// The program does not need the range any more.
    pub const DONT_NEED: u16 = 4;
    /// The program will use the range only once.
    pub const NO_REUSE: u16 = 5;
}

/// The kinds of activity that the shim sees but cannot record. The ring's header has a counter for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Blind {
    /// A raw system call that reads or writes.
    RawCall = 0,
    /// A call of `io_uring_setup` by libc's function `syscall`.
    IoUring = 1,
    /// A descriptor whose number is too high for the shim's table of descriptors.
    HighDescriptor = 2,
    /// A mapping that found no free entry in the shim's table of mappings.
    ManyMappings = 3,
    /// A mapping of a file whose touches are not recorded.
    Mapping = 4,
    /// A call of `io_submit` through the function `syscall`.
    Aio = 5,
}

/// Number of counters of [`Blind`].
pub const BLINDS: usize = 8;

/// The header of the ring: the fields in shared memory before the ring's slots.
#[repr(C, align(4096))]
pub struct Header {
    /// The value [`MAGIC`], by which a reader recognises a ring of this version.
    pub magic: AtomicU64,
    /// Number of slots of the ring, a power of two.
    pub slots: AtomicU64,
    /// Value of `CLOCK_MONOTONIC`, ns, from which the time of each event is counted.
    pub start_ns: AtomicU64,
    /// Largest number of mapped pages that are open to a process at a time: the process can access an open page without
    /// a fault, and the shim does not notice the access. With 0, touches of mapped pages are not recorded.
    pub pages_open: AtomicU64,
    /// 1 if the recorder has ended, or if a recorded process has stopped waiting for the recorder; otherwise 0.
    pub closed: AtomicU64,
    /// Time at which the recorder last read the ring: `CLOCK_MONOTONIC`, ns.
    pub seen_ns: AtomicU64,
    apart_1: [u64; 10],
    /// Number of the next slot to claim.
    pub head: AtomicU64,
    apart_2: [u64; 15],
    /// Number of the next slot to read.
    pub tail: AtomicU64,
    apart_3: [u64; 15],
    /// Number of events that recorded processes dropped, because the recorder read the ring too slowly.
    pub dropped: AtomicU64,
    /// Number that the next open file description gets.
    pub next_handle: AtomicU32,
    /// Number of times that each kind of activity of [`Blind`] was seen.
    pub blind: [AtomicU64; BLINDS],
}

/// A slot of the ring (the ring buffer for events). It holds an event, or a part of the text of an event.
#[repr(C)]
pub struct Slot {
    words: [AtomicU64; 4],
}

/// An event of a recorded process, without the text that may follow it in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The kind of the event.
    pub kind: Kind,
    /// Number of the thread that caused the event.
    pub thread: u32,
    /// Time of the event, ns since the start of the recording; below 2^48.
    pub time_ns: u64,
    /// Flags of the event, from [`flag`] or, for [`Kind::Advise`], from [`advice`].
    pub flags: u16,
    /// Offset in the file, bytes. For some kinds of event the field has another meaning, which the variant of [`Kind`]
    /// states.
    pub offset: u64,
    /// Length of the access, bytes (pages if an event is about pages). For some kinds of event the field has another
    /// meaning, which the variant of [`Kind`] states.
    pub len: u32,
    /// Number of the open file description. For some kinds of event the field has another meaning, which the variant of
    /// [`Kind`] states.
    pub handle: u32,
}

/// Returns the value of the first word of slot `number` of a ring with `slots` slots, when the slot holds an event. The
/// word contains the number of the lap around the ring, the event's kind, and its thread.
fn first_word(number: u64, slots: u64, kind: u8, thread: u32) -> u64 {
    let lap = (number / slots + 1) & 0xff_ffff;
    lap | u64::from(kind) << 24 | u64::from(thread) << 32
}

impl Slot {
    /// Writes `event` into this slot, as slot number `number` of a ring that has `slots` slots. Slots are numbered on
    /// from lap to lap of the ring.
    pub fn fill(&self, number: u64, slots: u64, event: &Event) {
        self.words[1].store(event.time_ns << 16 | u64::from(event.flags), Ordering::Relaxed);
        self.words[2].store(event.offset, Ordering::Relaxed);
        self.words[3].store(u64::from(event.len) << 32 | u64::from(event.handle), Ordering::Relaxed);
        let first = first_word(number, slots, event.kind as u8, event.thread);
        self.words[0].store(first, Ordering::Release);
    }

    /// Fills slot number `number` of a ring of `slots` slots with `text`, which has at most [`TEXT_BYTES`] bytes. The
    /// slot's field for the thread holds the number of these bytes.
    pub fn fill_text(&self, number: u64, slots: u64, text: &[u8]) {
        let mut bytes = [0; TEXT_BYTES];
        bytes[..text.len()].copy_from_slice(text);
        for (word, chunk) in self.words[1..].iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
        }
        let first = first_word(number, slots, Kind::Text as u8, text.len() as u32);
        self.words[0].store(first, Ordering::Release);
    }

    /// Returns whether the event or text with the number `number` fills this slot of a ring of `slots` slots.
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

    /// Returns the bytes of a slot that holds text, and the number of bytes that are text.
    pub fn text(&self) -> ([u8; TEXT_BYTES], usize) {
        let mut bytes = [0; TEXT_BYTES];
        for (word, chunk) in self.words[1..].iter().zip(bytes.as_chunks_mut::<8>().0) {
            *chunk = word.load(Ordering::Relaxed).to_le_bytes();
        }
        let len = (self.words[0].load(Ordering::Relaxed) >> 32) as usize;
        (bytes, len.min(TEXT_BYTES))
    }
}

/// Returns the number of slots that a text of `bytes` bytes takes. The result is [`TEXT_SLOTS_MAX`] if the text is
/// longer than that many slots; the rest of the text is then cut off.
pub fn text_slots(bytes: usize) -> u64 {
    (bytes.div_ceil(TEXT_BYTES) as u64).min(TEXT_SLOTS_MAX)
}

/// Facts about an opened file. In the text of an event [`Kind::Open`], they stand before the file's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenText {
    /// Inode number of the file.
    pub inode: u64,
    /// Major and minor number of the file's device.
    pub device: [u32; 2],
    /// Mode of the file (`st_mode`), which includes the file's type.
    pub mode: u32,
    /// A hash of the file's creation time. It distinguishes files that had the same inode number one after the other.
    pub birth: u32,
}

impl OpenText {
    /// Number of bytes that these facts about the file take in the text of an event. The path follows them.
    pub const BYTES: usize = 24;

    /// Returns the facts about the opened file as bytes, to be put before its path.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.inode.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.device[0].to_le_bytes());
        bytes[12..16].copy_from_slice(&self.device[1].to_le_bytes());
        bytes[16..20].copy_from_slice(&self.mode.to_le_bytes());
        bytes[20..].copy_from_slice(&self.birth.to_le_bytes());
        bytes
    }

    /// Decodes the facts about a file from the beginning of `bytes`. Also returns the rest of `bytes`, which is the
    /// path. Returns `None` if `bytes` is too short.
    pub fn of_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (own, path) = bytes.split_first_chunk::<{ Self::BYTES }>()?;
        let word = |at: usize| u32::from_le_bytes([own[at], own[at + 1], own[at + 2], own[at + 3]]);
        let inode = u64::from(word(0)) | u64::from(word(4)) << 32;
        Some((Self { inode, device: [word(8), word(12)], mode: word(16), birth: word(20) }, path))
    }
}

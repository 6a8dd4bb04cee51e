//! [`Request`]: one operation of a trace, and the pages that it touches.

use crate::operation::Operation;
use std::ops::{BitOr, BitOrAssign, RangeInclusive};

/// Size of the pages into which ranges are split, bytes.
pub const PAGE_BYTES: u64 = 4096;

/// One operation of a trace.
///
/// A trace says what its requests address ([`Kind`]). In a trace of ranges, `offset` and `len` are bytes of the file
/// `file`. In a trace of objects, `offset` is the object's key, `len` is its size in bytes, and `file` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Request {
    /// Time since the start of the trace, µs, below [`TIME_LIMIT_US`](Self::TIME_LIMIT_US). Requests are in the order
    /// in which they took place. Requests may have equal times, and a request may have an earlier time than the one
    /// before it if this is so in the source.
    pub time_us: u64,
    /// Number of the task that made the request, from 0: an index into the trace's table of tasks, which may be empty.
    /// Below [`TASK_LIMIT`](Self::TASK_LIMIT).
    pub task: u32,
    /// The operation.
    pub operation: Operation,
    /// Properties of the request, such as that it goes past the page cache.
    pub flags: Flags,
    /// Number of the file, from 0: an index into the trace's table of names. The number is below
    /// [`FILE_LIMIT`](Self::FILE_LIMIT).
    pub file: u32,
    /// Number of the open file description (what Linux's `struct file` is): requests with the same number share a
    /// readahead window. 0 if the source does not state the number.
    pub handle: u32,
    /// First byte of the range, or the key of the object. See [`Operation`] for operations that have no range.
    pub offset: u64,
    /// Length of the range, or size of the object, bytes.
    pub len: u64,
}

impl Request {
    /// The value below which [`time_us`](Self::time_us) must be: 8.9 years.
    pub const TIME_LIMIT_US: u64 = 1 << 48;
    /// The value below which [`task`](Self::task) must be.
    pub const TASK_LIMIT: u32 = 1 << 24;
    /// The value below which [`file`](Self::file) must be, so that page keys are unique.
    pub const FILE_LIMIT: u32 = 1 << 24;
    /// Largest end of a range, bytes: 4 PiB. Pages beyond it would not have unique keys.
    pub const END_LIMIT: u64 = 1 << 52;
    /// The value below which [`len`](Self::len) must be, bytes: 1 TiB.
    pub const LEN_LIMIT: u64 = 1 << 40;
    /// Largest length of one access (read, write, load or store), bytes: 4 GiB, twice as much as a system call of Linux
    /// transfers. This limits the number of pages that a request touches.
    pub const ACCESS_MAX: u64 = 1 << 32;

    /// Returns the key of the object, in a trace of objects.
    #[inline]
    #[must_use]
    pub const fn key(&self) -> u64 {
        self.offset
    }

    /// Returns the numbers of the first and the last page of the range within the file; `None` if the range is empty.
    #[inline]
    #[must_use]
    pub const fn page_range(&self) -> Option<RangeInclusive<u64>> {
        if self.len == 0 {
            return None;
        }
        let last = self.offset.saturating_add(self.len - 1);
        Some(RangeInclusive::new(self.offset / PAGE_BYTES, last / PAGE_BYTES))
    }

    /// Returns the keys of the pages that the request touches, in ascending order. A key is unique among all pages of
    /// all files of a trace. For a file with the number 0, such as the only device of a block trace, a key is the
    /// number of the page within the file.
    #[inline]
    pub fn page_keys(&self) -> impl Iterator<Item = u64> + use<> {
        let file = self.file;
        self.page_range().into_iter().flatten().map(move |page| page_key(file, page))
    }

    /// Returns `None` if a trace of `kind` can hold the request, otherwise the fault in words.
    #[must_use]
    pub fn fault(&self, kind: Kind) -> Option<String> {
        let Self { time_us, task, file, offset, len, operation, .. } = *self;
        let limits = [
            ("time, µs", time_us, Self::TIME_LIMIT_US),
            ("number of the task", u64::from(task), u64::from(Self::TASK_LIMIT)),
            ("number of the file", u64::from(file), u64::from(Self::FILE_LIMIT)),
            ("length, bytes", len, Self::LEN_LIMIT),
        ];
        for (what, value, limit) in limits {
            if value >= limit {
                return Some(format!("{what}: {value}: expected less than {limit}"));
            }
        }
        if operation == Operation::Unknown {
            return Some("unknown operation".to_owned());
        }
        if kind == Kind::Objects {
            return (file != 0).then(|| format!("file {file} in a trace of objects: expected 0"));
        }
        if operation.is_access() && len > Self::ACCESS_MAX {
            return Some(format!("length of one access: {len} bytes: expected at most {}", Self::ACCESS_MAX));
        }
        // Both are below 2^64 and 2^40: the sum may overflow.
        let end = offset.saturating_add(len);
        (end > Self::END_LIMIT).then(|| format!("end of the range: byte {end}: expected at most {}", Self::END_LIMIT))
    }
}

/// Returns the key of page `page` of file `file`: unique while the file is below [`Request::FILE_LIMIT`] and the page
/// ends within [`Request::END_LIMIT`].
#[inline]
#[must_use]
pub const fn page_key(file: u32, page: u64) -> u64 {
    ((file as u64) << 40) | (page & ((1 << 40) - 1))
}

/// Returns the file of a key that [`page_key`] made, and the number of the page within this file.
#[inline]
#[must_use]
pub const fn page_of_key(key: u64) -> (u32, u64) {
    ((key >> 40) as u32, key & ((1 << 40) - 1))
}

/// The kind of a trace by the targets of its requests: ranges of bytes, or whole objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Ranges of bytes, in files or on block devices. Each range is split into pages.
    #[default]
    Ranges,
    /// Objects with a key and a size, which are cached as a whole.
    Objects,
}

impl Kind {
    /// Returns the name of the kind: `ranges` or `objects`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ranges => "ranges",
            Self::Objects => "objects",
        }
    }
}

/// A set of properties of a request; each property is a bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// The empty set: the request has none of the properties that flags state.
    pub const NONE: Self = Self(0);
    /// The transfer goes past the page cache (`O_DIRECT`).
    pub const DIRECT: Self = Self(1);
    /// Data is on the disk before the call returns (`O_SYNC`, `O_DSYNC`, `RWF_DSYNC`; blkparse's `S` or `F`).
    pub const SYNC: Self = Self(2);
    /// The system reads ahead; no program asked for this range (blkparse's `A`).
    pub const READAHEAD: Self = Self(4);
    /// The request is for metadata of the file system (blkparse's `M`).
    pub const METADATA: Self = Self(8);
    /// The mapping is shared, so that stores reach the file. Only requests with the operation `map` have this property.
    pub const SHARED: Self = Self(16);
    /// The range begins where the file ended (`O_APPEND`).
    pub const APPEND: Self = Self(32);

    /// Returns `true` if all properties of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

//! [`Operation`]: what a request does.

/// What a request does. The number of each operation is its code in the format `.hwtrace`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Operation {
    /// A program copies data out of a file or a cache (`read`, `pread`, `get`), or blocks of a device are read.
    #[default]
    Read = 0,
    /// A program copies data into a file or a cache (`write`, `pwrite`, `set`), or blocks of a device are written.
    Write = 1,
    /// A file is opened. `len` is the file's size if it is known, otherwise 0.
    Open = 2,
    /// An open file description is closed for the last time.
    Close = 3,
    /// A file gets the size `offset`, and loses the pages beyond.
    Truncate = 4,
    /// A file, or an object, is deleted.
    Delete = 5,
    /// A range of a file is mapped.
    Map = 6,
    /// A range of a file is unmapped.
    Unmap = 7,
    /// A program reads data through a mapping.
    Load = 8,
    /// A program writes data through a mapping.
    Store = 9,
    /// Dirty data of a range is written to the device (`fsync`, `fdatasync`, `msync`, `sync_file_range`); that of the
    /// whole file if `len` is 0.
    Sync = 10,
    /// The contents of a range are removed, and the file keeps its size (`fallocate` with `FALLOC_FL_PUNCH_HOLE`, or
    /// the discard of a block device).
    Punch = 11,
    /// A program withdraws its advice on a range (`POSIX_FADV_NORMAL`, `MADV_NORMAL`). In requests of every kind of
    /// advice, a `len` of 0 means that the range goes to the end of the file.
    AdviseNormal = 12,
    /// A program announces reads in random order (`POSIX_FADV_RANDOM`, `MADV_RANDOM`).
    AdviseRandom = 13,
    /// A program announces reads in sequential order (`POSIX_FADV_SEQUENTIAL`, `MADV_SEQUENTIAL`).
    AdviseSequential = 14,
    /// A program asks for a range to be read into memory (`POSIX_FADV_WILLNEED`, `MADV_WILLNEED`, `readahead`).
    AdviseWillNeed = 15,
    /// A program says that it does not need a range any more (`POSIX_FADV_DONTNEED`, `MADV_DONTNEED`).
    AdviseDontNeed = 16,
    /// A program says that it will use a range only once (`POSIX_FADV_NOREUSE`).
    AdviseNoReuse = 17,
    /// The task starts another task, whose number is `offset`.
    Fork = 18,
    /// The task ends.
    Exit = 19,
    /// A code that this version does not know.
    Unknown = 255,
}

impl Operation {
    /// All operations with a code, in the order of the codes.
    pub const ALL: [Self; 20] = [
        Self::Read,
        Self::Write,
        Self::Open,
        Self::Close,
        Self::Truncate,
        Self::Delete,
        Self::Map,
        Self::Unmap,
        Self::Load,
        Self::Store,
        Self::Sync,
        Self::Punch,
        Self::AdviseNormal,
        Self::AdviseRandom,
        Self::AdviseSequential,
        Self::AdviseWillNeed,
        Self::AdviseDontNeed,
        Self::AdviseNoReuse,
        Self::Fork,
        Self::Exit,
    ];

    /// Returns the operation with this code; [`Unknown`](Self::Unknown) if there is none.
    #[inline]
    #[must_use]
    pub const fn of_code(code: u8) -> Self {
        if (code as usize) < Self::ALL.len() { Self::ALL[code as usize] } else { Self::Unknown }
    }

    /// Returns `true` for what touches the pages of the range, or the object: read, write, load and store. A cache
    /// counts a hit or a miss for these alone.
    #[inline]
    #[must_use]
    pub const fn is_access(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Load | Self::Store)
    }

    /// Returns `true` for an access that makes pages dirty: write and store.
    #[inline]
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::Store)
    }

    /// Returns the name in reports, such as `read` or `advise-random`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Open => "open",
            Self::Close => "close",
            Self::Truncate => "truncate",
            Self::Delete => "delete",
            Self::Map => "map",
            Self::Unmap => "unmap",
            Self::Load => "load",
            Self::Store => "store",
            Self::Sync => "sync",
            Self::Punch => "punch",
            Self::AdviseNormal => "advise-normal",
            Self::AdviseRandom => "advise-random",
            Self::AdviseSequential => "advise-sequential",
            Self::AdviseWillNeed => "advise-willneed",
            Self::AdviseDontNeed => "advise-dontneed",
            Self::AdviseNoReuse => "advise-noreuse",
            Self::Fork => "fork",
            Self::Exit => "exit",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_names_its_operation() {
        for (code, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, code);
            assert_eq!(Operation::of_code(code as u8), operation);
        }
        assert_eq!(Operation::of_code(20), Operation::Unknown);
        assert_eq!(Operation::of_code(255), Operation::Unknown);
    }
}

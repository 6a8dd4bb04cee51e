//! [`Operation`]: the operation of a request, such as a read.

/// The operation of a request, such as a read. The number of each variant is the operation's code in the format
/// `.hwtrace`.
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
    /// The last descriptor of an open file description is closed, which releases the description.
    Close = 3,
    /// The file gets the size `offset`. Its pages beyond this size are dropped.
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
    /// Dirty data of the range is written (`fsync`, `fdatasync`, `msync`, `sync_file_range`). If `len` is 0, all dirty
    /// data of the file is written.
    Sync = 10,
    /// The contents of the range are removed, and the file keeps its size (`fallocate` with `FALLOC_FL_PUNCH_HOLE`, or
    /// a discard on a block device).
    Punch = 11,
    /// Advice that the range is accessed in no special way (`POSIX_FADV_NORMAL`, `MADV_NORMAL`). In this and the other
    /// kinds of advice, a `len` of 0 means: to the end of the file.
    AdviseNormal = 12,
    /// Advice that the range is accessed at random (`POSIX_FADV_RANDOM`, `MADV_RANDOM`).
    AdviseRandom = 13,
    /// Advice that the range is accessed sequentially (`POSIX_FADV_SEQUENTIAL`, `MADV_SEQUENTIAL`).
    AdviseSequential = 14,
    /// Advice that the range is needed soon, so that it is read ahead (`POSIX_FADV_WILLNEED`, `MADV_WILLNEED`,
    /// `readahead`).
    AdviseWillNeed = 15,
    /// Advice that the range is not needed any more (`POSIX_FADV_DONTNEED`, `MADV_DONTNEED`).
    AdviseDontNeed = 16,
    /// Advice that the range is accessed only once (`POSIX_FADV_NOREUSE`).
    AdviseNoReuse = 17,
    /// The task starts another task. The request's `offset` is the number of the new task.
    Fork = 18,
    /// The task ends.
    Exit = 19,
    /// A code that this version does not know.
    Unknown = 255,
}

impl Operation {
    /// All operations that have a code, in the order of their codes.
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

    /// Returns `true` for the operations that touch the pages of their range, or their object: read, write, load and
    /// store. Only for these does a cache count hits and misses.
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

    /// Returns the name of the operation in reports, such as `read` or `advise-random`.
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

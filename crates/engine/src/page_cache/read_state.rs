//! The position of a reader in a file, and the state of its readahead.

use machine::PAGE_BYTES;

/// The expected access pattern of a handle or a mapping (`posix_fadvise`, `madvise`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadPattern {
    /// The pattern is unknown: the engine detects it from the reads.
    #[default]
    Normal,
    /// The reads are sequential, from beginning to end: readahead windows are twice as large.
    Sequential,
    /// The reads are random: nothing is read ahead.
    Random,
}

/// The position of a reader in a file, and its readahead window. Each open handle and each mapping has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadState {
    /// The access pattern that the reader has announced.
    pub pattern: ReadPattern,
    pub(crate) start: u32,
    pub(crate) pages: u32,
    pub(crate) async_pages: u32,
    /// The page that was read last, and the offset in this page at which the read ended (`prev_pos`).
    pub(crate) previous: Option<(u32, usize)>,
    /// Number of faults of a mapping that found no page in memory, minus the number of faults that found one
    /// (`mmap_miss`).
    pub(crate) map_misses: u32,
}

impl ReadState {
    /// Records that a page was read up to byte `end_in_page`.
    pub(crate) const fn note_read(&mut self, page: u32, end_in_page: usize) {
        self.previous = Some((page, end_in_page % PAGE_BYTES));
    }
}

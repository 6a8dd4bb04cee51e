//! Where a reader of a file is, and what was read ahead for it.

use machine::PAGE_BYTES;

/// How a handle or a mapping is going to be read (`posix_fadvise`, `madvise`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadPattern {
    /// As it turns out.
    #[default]
    Normal,
    /// From the beginning to the end: windows are twice as large.
    Sequential,
    /// Here and there: nothing is read ahead.
    Random,
}

/// Where a reader of a file is, and what was read ahead for it; one for each open handle and each mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadState {
    /// How the reader says that it will read.
    pub pattern: ReadPattern,
    pub(crate) start: u32,
    pub(crate) pages: u32,
    pub(crate) async_pages: u32,
    /// The page read last, and the offset in a page at which that read ended (`prev_pos`).
    pub(crate) previous: Option<(u32, usize)>,
    /// Faults of a mapping that found no page, less those that found one (`mmap_miss`).
    pub(crate) map_misses: u32,
}

impl ReadState {
    /// Notes that a page was read up to byte `end_in_page`.
    pub(crate) const fn note_read(&mut self, page: u32, end_in_page: usize) {
        self.previous = Some((page, end_in_page % PAGE_BYTES));
    }
}

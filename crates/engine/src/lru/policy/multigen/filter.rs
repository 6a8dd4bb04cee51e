//! The page tables that are worth a walk, in two Bloom filters: a walk reads one and writes the other
//! (mechanisms/multigen, 5.2).

use machine::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Number of bits in a Bloom filter.
const BITS: u32 = 1 << 15;
const WORDS: usize = BITS as usize / u64::BITS as usize;

/// A Bloom filter: a set of page tables that may also contain tables that were not inserted.
#[derive(Debug)]
struct Filter {
    /// `true` once the set was emptied for the first time. Before that, every table counts as a member of the set.
    is_begun: AtomicBool,
    words: Box<[AtomicU64]>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { is_begun: AtomicBool::new(false), words: (0..WORDS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Filter {
    fn begin(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
        self.is_begun.store(true, Relaxed);
    }

    fn insert(&self, table: u64) {
        for bit in bits_of(table) {
            let (word, mask) = (&self.words[bit / 64], 1 << (bit % 64));
            if word.load(Relaxed) & mask == 0 {
                word.fetch_or(mask, Relaxed);
            }
        }
    }

    fn has(&self, table: u64) -> bool {
        let is_set = |bit: usize| self.words[bit / 64].load(Relaxed) & 1 << (bit % 64) != 0;
        !self.is_begun.load(Relaxed) || bits_of(table).into_iter().all(is_set)
    }
}

/// Returns the numbers of the two bits that stand for a page table in a filter. The hash is the same in every run.
const fn bits_of(table: u64) -> [usize; 2] {
    let mut hash = table.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    [(hash as u32 % BITS) as usize, ((hash >> 32) as u32 % BITS) as usize]
}

/// Both filters of an lruvec. A walk reads the first filter if the youngest generation's number is even, and otherwise
/// the second. It writes the filter that it does not read.
#[derive(Debug, Default)]
pub struct Filters([Filter; 2]);

impl Filters {
    /// Prepares a walk while generation `seq` is the youngest: empties the filter into which the walk inserts tables
    /// for the next walk.
    pub fn begin(&self, seq: u64) {
        self.of(seq + 1).begin();
    }

    /// Returns whether a walk is to examine page table `table` when the youngest generation is `seq`: whether the Bloom
    /// filter for this generation contains the table. Returns `true` for every table if this filter was never filled.
    pub fn has(&self, seq: u64, table: u64) -> bool {
        self.of(seq).has(table)
    }

    /// Puts page table `table` into the Bloom filter for generation `seq`: the filter that walks read while this
    /// generation is the youngest.
    pub fn insert(&self, seq: u64, table: u64) {
        self.of(seq).insert(table);
    }

    const fn of(&self, seq: u64) -> &Filter {
        &self.0[seq as usize % 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_what_was_put_there_and_little_else() {
        let filters = Filters::default();
        assert!(filters.has(3, 77), "without a filter every table is walked");
        filters.begin(3);
        (0..2000).for_each(|table| filters.insert(4, table * 7));
        assert!((0..2000).all(|table| filters.has(4, table * 7)));
        let others = (0..10_000).filter(|table| filters.has(4, 1_000_000 + table)).count();
        assert!(others < 500, "{others} of 10000 that nobody put there");
        filters.begin(4);
        filters.begin(5);
        assert!(!filters.has(6, 7) && !filters.has(5, 7));
    }
}

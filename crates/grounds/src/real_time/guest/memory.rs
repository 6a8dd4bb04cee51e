//! A record of the memory of a guest at one moment, from `/proc/pagetypeinfo` and `/proc/kpageflags`
//! (Documentation/admin-guide/mm/pagemap.rst).

use engine::memory::Use;
use figures::memory_map::{Kind, Moment, Most, Zone};
use guest::zoneinfo;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

/// Number of frames of a pageblock.
const BLOCK: u64 = 512;

/// The largest order of a free block.
const ORDER_MAX: u32 = 10;

/// Flags of a frame in `/proc/kpageflags`.
mod flag {
    pub const LRU: u64 = 1 << 5;
    pub const SLAB: u64 = 1 << 7;
    pub const BUDDY: u64 = 1 << 10;
    pub const ANON: u64 = 1 << 12;
    pub const SWAPBACKED: u64 = 1 << 14;
    pub const COMPOUND_HEAD: u64 = 1 << 15;
    pub const COMPOUND_TAIL: u64 = 1 << 16;
    pub const HUGE: u64 = 1 << 17;
    pub const UNEVICTABLE: u64 = 1 << 18;
    pub const NOPAGE: u64 = 1 << 20;
    pub const OFFLINE: u64 = 1 << 23;
    pub const PGTABLE: u64 = 1 << 26;
    pub const RESERVED: u64 = 1 << 32;
}

/// Returns the present state of memory, as the kernel that runs this process reports it.
pub(super) fn now(now_ns: u64) -> Moment {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let types = read("/proc/pagetypeinfo");
    let flags = File::open("/proc/kpageflags").ok();
    let zone = |zone: zoneinfo::Zone| Zone {
        node: zone.node,
        kinds: kinds(&types, &zone),
        most: flags.as_ref().map_or_else(Vec::new, |flags| most(flags, &zone)),
        name: zone.name.into(),
    };
    Moment { now_ns, mark: None, zones: zoneinfo::read(&read("/proc/zoneinfo")).into_iter().map(zone).collect() }
}

/// Finds the migrate types of a zone in `text`, the text of `/proc/pagetypeinfo`. Returns each with its number of free
/// blocks of each order, and its number of pageblocks.
fn kinds(text: &str, zone: &zoneinfo::Zone) -> Vec<Kind> {
    let of_zone = |line: &str| {
        let (node, rest) = line.strip_prefix("Node")?.split_once(", zone")?;
        let is_it = node.trim().parse() == Ok(zone.node);
        let rest = rest.trim_start().strip_prefix(&*zone.name)?;
        (is_it && rest.starts_with([',', ' '])).then(|| rest.to_owned())
    };
    let kind = |rest: String| {
        let mut words = rest.strip_prefix(", type")?.split_whitespace();
        let name = words.next()?.to_owned().into();
        // From 5.4 on, the kernel stops counting at 100,000 and writes `>` before the number.
        let free = words.filter_map(|word| word.trim_start_matches('>').parse().ok()).collect();
        Some(Kind { name, free, pageblocks: 0 })
    };
    let mut kinds: Vec<Kind> = text.lines().filter_map(of_zone).filter_map(kind).collect();
    // The second part of the text has a line with the types, and a line of numbers for each zone.
    let mut below = text.lines().skip_while(|line| !line.starts_with("Number of blocks type"));
    let names = below.next().unwrap_or_default().split_whitespace().skip(4);
    let counts = below.find_map(of_zone).unwrap_or_default();
    for (name, count) in names.zip(counts.split_whitespace()) {
        if let Some(kind) = kinds.iter_mut().find(|kind| kind.name == name) {
            kind.pageblocks = count.parse().unwrap_or(0);
        }
    }
    kinds
}

/// Returns for each pageblock of a zone what fills more than half of its present pages; [`Most::Mixed`] if nothing
/// does. Pageblocks without memory are left out.
fn most(flags: &File, zone: &zoneinfo::Zone) -> Vec<Most> {
    let (mut uses, mut found) = (Uses::default(), Vec::new());
    let mut bytes = [0; BLOCK as usize * 8];
    let end = zone.start + zone.spanned;
    let mut start = zone.start;
    while start < end {
        let next = (start / BLOCK + 1) * BLOCK;
        let wanted = ((next.min(end) - start) * 8) as usize;
        let Ok(read) = flags.read_at(&mut bytes[..wanted], start * 8) else { break };
        let words = bytes[..read].as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let pages = uses.of_block(start, &words.collect::<Vec<u64>>());
        if pages.iter().any(|count| *count > 0) {
            found.push(Most::of_pages(&pages));
        }
        start = next;
    }
    found
}

/// Counts the pages of each use in one pageblock after the other. It remembers a free block or compound page that
/// reaches into the next pageblock, because only the first page of such a block has the flags that tell its use.
#[derive(Default)]
struct Uses {
    /// End of the most recent free block that is larger than a pageblock: the first frame after the block. In the next
    /// pageblock, all frames before this one are free, although their flags do not say so.
    free_until: u64,
    /// The use of the pages of the most recent compound page, which may reach into the next pageblock.
    compound: Option<Use>,
}

impl Uses {
    /// Returns how many pages of a pageblock have each use. `flags` are the flags of the frames from `start` on. Absent
    /// frames are not counted.
    fn of_block(&mut self, start: u64, flags: &[u64]) -> [u16; Use::ALL.len()] {
        let mut pages = [0; Use::ALL.len()];
        let mut at = 0;
        while at < flags.len() {
            let frame = start + at as u64;
            let (length, of) = self.at(frame, &flags[at..]);
            if let Some(of) = of {
                pages[of as usize] += length as u16;
            }
            at += length;
        }
        pages
    }

    /// Returns how many pages from `frame` on, within this pageblock, belong to the same free block or compound page,
    /// and their use. The use of an absent frame is `None`.
    fn at(&mut self, frame: u64, flags: &[u64]) -> (usize, Option<Use>) {
        let first = flags[0];
        if first & flag::NOPAGE != 0 {
            return (1, None);
        }
        if first & flag::BUDDY != 0 {
            return (self.free(frame, flags), Some(Use::Free));
        }
        if first == 0 && frame < self.free_until {
            let zeroes = flags.iter().take_while(|it| **it == 0).count();
            return (zeroes.min((self.free_until - frame) as usize), Some(Use::Free));
        }
        let is_tail = |it: &&u64| **it & flag::COMPOUND_TAIL != 0;
        if first & flag::COMPOUND_HEAD != 0 {
            let length = 1 + flags[1..].iter().take_while(is_tail).count();
            let is_huge = first & flag::HUGE != 0 || (length as u64 == BLOCK && first & flag::LRU != 0);
            let of = if is_huge { Use::Huge } else { of_page(first) };
            self.compound = Some(of);
            return (length, Some(of));
        }
        if is_tail(&&first) {
            return (flags.iter().take_while(is_tail).count(), Some(self.compound.unwrap_or(Use::Kernel)));
        }
        (1, Some(of_page(first)))
    }

    /// Returns the number of pages of the examined pageblock that belong to the free block which begins at `frame`.
    /// Only the block's first page is marked, and the kernel does not report the block's order. The order is taken to
    /// be the largest for which `frame` is aligned and the rest of the block is unmarked.
    fn free(&mut self, frame: u64, flags: &[u64]) -> usize {
        let zeroes = 1 + flags[1..].iter().take_while(|it| **it == 0).count();
        let largest = frame.trailing_zeros().min(ORDER_MAX);
        if zeroes as u64 == BLOCK && largest == ORDER_MAX {
            self.free_until = frame + (1 << ORDER_MAX);
            return zeroes;
        }
        1 << zeroes.ilog2().min(largest)
    }
}

/// Returns the use of a page, found from its flags.
fn of_page(flags: u64) -> Use {
    let has = |wanted: u64| flags & wanted != 0;
    match () {
        () if has(flag::OFFLINE) => Use::Offline,
        // Reclaim cannot free such a page. This program's own pages are unevictable.
        () if has(flag::UNEVICTABLE) => Use::Kernel,
        () if has(flag::LRU) && has(flag::ANON | flag::SWAPBACKED) => Use::Anonymous,
        () if has(flag::LRU) => Use::File,
        () if flags == 0 || has(flag::SLAB | flag::PGTABLE | flag::RESERVED) => Use::Kernel,
        // The page is isolated, or in a CPU's batch of pages that are not on an LRU list yet.
        () => Use::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(start: u64, runs: &[(u64, usize)]) -> [u16; Use::ALL.len()] {
        let flags: Vec<u64> = runs.iter().flat_map(|(flags, count)| vec![*flags; *count]).collect();
        Uses::default().of_block(start, &flags)
    }

    #[test]
    fn a_free_block_is_as_large_as_its_place_and_what_is_behind_it_allow() {
        let free = |start, runs: &[_]| counted(start, runs)[Use::Free as usize];
        assert_eq!(free(512, &[(flag::BUDDY, 1), (0, 511)]), 512);
        assert_eq!(free(514, &[(flag::BUDDY, 1), (0, 100)]), 2, "no block of order 2 begins at frame 514");
        let pages = counted(512, &[(flag::BUDDY, 1), (0, 6), (flag::SLAB, 1)]);
        assert_eq!((pages[Use::Free as usize], pages[Use::Kernel as usize]), (4, 4), "a block has 2^N pages");
    }

    #[test]
    fn a_free_block_of_two_pageblocks_goes_on_in_the_second() {
        let (mut uses, marked, zeroes) = (Uses::default(), [vec![flag::BUDDY], vec![0; 511]].concat(), vec![0; 512]);
        assert_eq!(uses.of_block(1024, &marked)[Use::Free as usize], 512);
        assert_eq!(uses.of_block(1536, &zeroes)[Use::Free as usize], 512);
        assert_eq!(uses.of_block(2048, &zeroes)[Use::Kernel as usize], 512, "it ends there");
    }

    #[test]
    fn pages_are_told_apart_by_their_flags() {
        let (head, tail) = (flag::COMPOUND_HEAD, flag::COMPOUND_TAIL);
        let pages = counted(
            0,
            &[
                (flag::NOPAGE, 1),
                (flag::RESERVED, 9),
                (flag::LRU, 20),
                (flag::LRU | flag::SWAPBACKED, 30),
                (flag::LRU | flag::UNEVICTABLE, 5),
                (head | flag::LRU, 1),
                (tail, 15),
                (head | flag::SLAB, 1),
                (tail | flag::SLAB, 7),
                (1 << 3, 2),
            ],
        );
        let expected = [(Use::Kernel, 9 + 5 + 8), (Use::File, 20 + 16), (Use::Anonymous, 30), (Use::Other, 2)];
        expected.into_iter().for_each(|(of, count)| assert_eq!(pages[of as usize], count, "{of:?}"));
        assert_eq!(pages.iter().sum::<u16>(), 90, "the absent frame is not counted");
        assert_eq!(counted(512, &[(head | flag::LRU | flag::ANON, 1), (tail, 511)])[Use::Huge as usize], 512);
    }

    #[test]
    fn migrate_types_are_those_that_the_kernel_names() {
        let text = "Page block order: 9\nPages per block:  512\n\nFree pages count per migrate type at order       0      1      2\n\
            Node    0, zone      DMA, type    Unmovable      5      3      0\n\
            Node    0, zone    DMA32, type    Unmovable      1      1      0\n\
            Node    0, zone    DMA32, type   HighAtomic >100000      2      9\n\n\
            Number of blocks type     Unmovable   HighAtomic\nNode 0, zone      DMA            3            0\nNode 0, zone    DMA32            7           90\n";
        let kind =
            |name: &'static str, free: [u64; 3], pageblocks| Kind { name: name.into(), free: free.into(), pageblocks };
        let of = |name: &str| kinds(text, &zoneinfo::Zone { name: name.into(), ..zoneinfo::Zone::default() });
        assert_eq!(of("DMA"), [kind("Unmovable", [5, 3, 0], 3)]);
        assert_eq!(of("DMA32"), [kind("Unmovable", [1, 1, 0], 7), kind("HighAtomic", [100_000, 2, 9], 90)]);
    }
}

//! The memory of a guest: the sizes of its nodes and of the part below 4 GiB. The sizes are corrected until the guest's
//! kernel manages as many pages as the machine file states.

use crate::image::Image;
use crate::zoneinfo::Zone;
use machine::PAGE_BYTES;

/// The number of pages that a guest's kernel manages is accepted if it differs from the wanted number by at most
/// 1/`EXACTNESS` of all wanted pages.
const EXACTNESS: u64 = 500;

/// Size of a pageblock, KiB. If memory has several parts (nodes, or a part below 4 GiB), the size of each part is a
/// multiple of a pageblock, so that no pageblock lies in two parts.
const PART_KIB: u64 = 2048;

/// Size of a page, KiB.
const PAGE_KIB: u64 = PAGE_BYTES as u64 / 1024;

/// Smallest number of pages of memory below 4 GiB that a guest gets so that its kernel can boot: 96 MiB.
const LOW_MIN: u64 = 96 * 256;

/// The numbers of pages that the guest's kernel is to manage, as the machine file states them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Aim {
    /// Number of pages of each node.
    pub nodes: Vec<u64>,
    /// Number of pages in the zones below 4 GiB on all nodes together; `None` if the guest has as much memory below 4
    /// GiB as a PC.
    pub low: Option<u64>,
}

impl Aim {
    /// Makes an aim (the numbers of pages that the guest's kernel is to manage). `nodes` has the number of pages of
    /// each node, and `low` is the number of pages in zones below 4 GiB. If no page lies above 4 GiB, or if `low` is
    /// too small for a kernel to start, the guest gets as much memory below 4 GiB as a PC.
    #[must_use]
    pub fn new(nodes: Vec<u64>, low: u64) -> Self {
        let has_both = low >= LOW_MIN && low < nodes.iter().sum();
        Self { nodes, low: has_both.then_some(low) }
    }

    /// Returns the number of pages of all nodes together.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.nodes.iter().sum()
    }

    fn has_parts(&self) -> bool {
        self.nodes.len() > 1 || self.low.is_some()
    }

    fn rounded(&self, kib: u64) -> u64 {
        if self.has_parts() { ((kib + PART_KIB / 2) / PART_KIB * PART_KIB).max(PART_KIB) } else { kib }
    }
}

/// The memory of a guest: the sizes of its nodes, and of the part below 4 GiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Memory of each node, KiB.
    pub nodes_kib: Vec<u64>,
    /// Memory below 4 GiB, KiB; `None` if the guest has as much memory there as a PC.
    pub low_kib: Option<u64>,
}

impl Memory {
    /// Returns the memory for the first start of a guest. With this memory, the guest's kernel manages about as many
    /// pages as `aim` states. A kernel manages neither its own text and data nor the page descriptors (64 bytes for
    /// each page), so the memory is larger than `aim` by the size of these.
    ///
    /// An image states how much room it needs to unpack itself. The running kernel keeps only a part of this room.
    /// Debian's Linux 6.1.176 keeps 49.6 of 63.6 MiB, and Linux 7.2.12 keeps 47.1 of 60.3 MiB: 0.78 in both cases.
    #[must_use]
    pub fn first(image: &Image, aim: &Aim) -> Self {
        let own = image.needed_bytes / 32 * 25 / 1024;
        let with_descriptors = |pages: u64| (pages + pages / 64) * PAGE_KIB;
        // The kernel lies in the first node, below 4 GiB. Descriptors come from the top of memory.
        let own_of = |node: usize| if node == 0 { own } else { 0 };
        let kib = |(node, pages): (usize, &u64)| aim.rounded(with_descriptors(*pages) + own_of(node));
        let low_kib = aim.low.map(|pages| aim.rounded(pages * PAGE_KIB + own));
        Self { nodes_kib: aim.nodes.iter().enumerate().map(kib).collect(), low_kib }
    }

    /// Returns the memory of all nodes together, KiB.
    #[must_use]
    pub fn kib(&self) -> u64 {
        self.nodes_kib.iter().sum()
    }

    /// Checks that a kernel can start in this memory. At the start, the memory must hold the kernel and the archive
    /// (the guest's first files), both packed and unpacked.
    ///
    /// # Errors
    /// When the memory is too small. The error says so in words for the user.
    pub fn check_start(&self, image: &Image, packed_bytes: u64, unpacked_bytes: u64) -> Result<(), String> {
        let needed = image.needed_bytes + packed_bytes + unpacked_bytes;
        if self.kib() * 1024 >= needed {
            return Ok(());
        }
        let [has, needed, own] = [self.kib() * 1024, needed, image.needed_bytes].map(|bytes| bytes.div_ceil(1 << 20));
        Err(format!(
            "a guest of {has} MiB cannot start: its kernel and this program need {needed} MiB until it is up, {own} of them the kernel; \
             a machine file with more memory, or a larger --scale, has room"
        ))
    }

    /// Returns a better memory size for the next start of a guest. `zones` are the zones that a kernel manages with the
    /// present size. Each part of the memory grows or shrinks by the difference between the pages that `aim` states and
    /// the managed pages. Returns `None` if all these differences are small enough.
    #[must_use]
    pub fn corrected(&self, aim: &Aim, zones: &[Zone]) -> Option<Self> {
        let managed = |is_it: &dyn Fn(&&Zone) -> bool| zones.iter().filter(is_it).map(|zone| zone.managed).sum::<u64>();
        let slack = if aim.has_parts() { PART_KIB / PAGE_KIB } else { 0 };
        let largest = (aim.pages() / EXACTNESS).max(slack);
        let mut is_right = true;
        let mut fit = |kib: u64, wanted: u64, found: u64| {
            let missing = wanted.cast_signed() - found.cast_signed();
            is_right &= missing.unsigned_abs() <= largest;
            aim.rounded(kib.saturating_add_signed(missing * PAGE_KIB.cast_signed()))
        };
        let mut nodes_kib = Vec::new();
        for (node, (kib, wanted)) in self.nodes_kib.iter().zip(&aim.nodes).enumerate() {
            nodes_kib.push(fit(*kib, *wanted, managed(&|zone| usize::from(zone.node) == node)));
        }
        let low_kib = self.low_kib.zip(aim.low).map(|(kib, wanted)| fit(kib, wanted, managed(&|zone| is_low(zone))));
        (!is_right).then_some(Self { nodes_kib, low_kib })
    }
}

fn is_low(zone: &Zone) -> bool {
    matches!(&*zone.name, "DMA" | "DMA32")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(node: u8, name: &str, managed: u64) -> Zone {
        Zone { node, name: name.into(), managed, ..Zone::default() }
    }

    #[test]
    fn memory_of_one_part_is_corrected_to_the_page() {
        let aim = Aim::new(vec![100_000], 100_000);
        let memory = Memory { nodes_kib: vec![420_000], low_kib: None };
        let managed = |pages| memory.corrected(&aim, &[zone(0, "DMA", 3840), zone(0, "DMA32", pages)]);
        assert_eq!(managed(96_160 - 200), None, "one part in 500");
        assert_eq!(managed(96_160 - 300).unwrap().nodes_kib, [421_200]);
        assert_eq!(managed(96_160 + 300).unwrap().nodes_kib, [418_800]);
    }

    #[test]
    fn nodes_and_the_part_below_4_gib_are_corrected_each_by_itself() {
        let aim = Aim::new(vec![300_000, 100_000], 200_000);
        assert_eq!(aim.low, Some(200_000));
        let memory = Memory { nodes_kib: vec![1_204_224, 407_552], low_kib: Some(806_912) };
        let zones = [zone(0, "DMA32", 190_000), zone(0, "Normal", 110_000), zone(1, "Normal", 99_900)];
        let found = memory.corrected(&aim, &zones).unwrap();
        assert_eq!((found.nodes_kib, found.low_kib), (vec![1_204_224, 407_552], Some(847_872)));
        let zones = [zone(0, "DMA32", 199_700), zone(0, "Normal", 100_200), zone(1, "Normal", 100_500)];
        assert_eq!(memory.corrected(&aim, &zones), None, "within a pageblock, or one part in 500");
    }

    #[test]
    fn a_memory_that_the_kernel_and_the_archive_do_not_fit_into_is_refused() {
        let image = Image { path: "b".into(), release: "6.1".into(), built_as: "6.1".into(), needed_bytes: 64 << 20 };
        let memory = Memory { nodes_kib: vec![100 << 10, 8 << 10], low_kib: None };
        assert_eq!(memory.check_start(&image, 12 << 20, 32 << 20), Ok(()));
        let told = memory.check_start(&image, 12 << 20, 33 << 20).unwrap_err();
        assert!(told.starts_with("a guest of 108 MiB cannot start: ") && told.contains("109 MiB"), "{told}");
    }

    #[test]
    fn a_machine_that_no_kernel_could_start_in_is_laid_out_as_a_pc() {
        assert_eq!(Aim::new(vec![65_536, 65_536], 0).low, None, "all of it is Normal");
        assert_eq!(Aim::new(vec![400_000], 3976).low, None, "a kernel does not fit into DMA");
    }
}

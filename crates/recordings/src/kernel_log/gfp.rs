//! The zones and pages that a request may use, decoded from its `gfp_mask`.
//!
//! Linux since 4.6 prints the names of the flags: `0xcc0(GFP_KERNEL)`. Older kernels print only the number. Most bits
//! of this number that matter here kept their places. Source: the kernel's documents on memory allocation and on
//! physical memory.

use std::fmt;

/// The kind of a zone. A request first tries the highest zone that it may use, and then lower zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneKind {
    /// Memory that the oldest devices can address: 16 MiB on x86, up to 1 GiB elsewhere, and all low memory on some
    /// 32-bit boards.
    Dma,
    /// Memory that devices with 32 address lines can address.
    Dma32,
    /// Memory that the kernel maps permanently.
    Normal,
    /// Memory that a 32-bit kernel does not map permanently, for pages of programs and files.
    HighMem,
    /// Memory for movable pages only.
    Movable,
    /// Memory that belongs to devices. No request can use it.
    Device,
}

impl ZoneKind {
    /// Returns the kind of zone that the kernel prints as `name`; none for an unknown name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "DMA" => Self::Dma,
            "DMA32" => Self::Dma32,
            "Normal" => Self::Normal,
            "HighMem" => Self::HighMem,
            "Movable" => Self::Movable,
            "Device" => Self::Device,
            _ => return None,
        })
    }
}

impl fmt::Display for ZoneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dma => "DMA",
            Self::Dma32 => "DMA32",
            Self::Normal => "Normal",
            Self::HighMem => "HighMem",
            Self::Movable => "Movable",
            Self::Device => "Device",
        })
    }
}

/// The way in which the memory of a page can become free later: by moving the page, by reclaim, or not at all. The
/// kernel keeps pages of equal mobility together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mobility {
    /// Pages that the kernel itself uses and that can be neither moved nor reclaimed. They cannot be placed in CMA,
    /// because CMA must be emptied on demand.
    Unmovable,
    /// Pages of the kernel's caches, such as inodes, which reclaim can shrink.
    Reclaimable,
    /// Pages of programs and files. Only these may be placed in CMA.
    Movable,
}

/// The allocation flags (gfp) of a request, which state the memory that the request may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gfp {
    /// The mask of flags as the kernel printed it: `0xcc0(GFP_KERNEL)`.
    pub text: String,
    /// The highest zone that the request may use. Lower zones are fallbacks.
    pub highest: ZoneKind,
    /// The mobility of the requested pages.
    pub mobility: Mobility,
    /// True if the request may wait for reclaim.
    pub may_sleep: bool,
    /// True if the request may go below the min mark, into the reserve for urgent requests (`__GFP_HIGH`).
    pub is_high: bool,
}

/// The bit of `__GFP_DMA`, which has been the same since Linux 2.6.23.
const DMA: u64 = 0x1;
/// The bit of `__GFP_HIGHMEM`, which has been the same since Linux 2.6.23.
const HIGHMEM: u64 = 0x2;
/// The bit of `__GFP_DMA32`, which has been the same since Linux 2.6.23.
const DMA32: u64 = 0x4;
/// The bit of `__GFP_MOVABLE`, which has been the same since Linux 2.6.23.
const MOVABLE: u64 = 0x8;
/// The bit of `__GFP_HIGH`, which has been the same since Linux 2.6.23.
const HIGH: u64 = 0x20;

/// A bit whose meaning changed. Until Linux 4.3 it says that the request may wait; since Linux 4.4 it says that the
/// requested pages are reclaimable.
const WAIT_OLD: u64 = 0x10;

/// The bit that says, until Linux 4.3, that the requested pages are reclaimable.
const RECLAIMABLE_OLD: u64 = 0x8_0000;

/// The bit that says that the request may reclaim directly. It is used for Linux 4.4 and 4.5, which print masks only
/// as numbers.
const DIRECT_4_4: u64 = 0x40_0000;
/// The bit that says that the request may wake kswapd. It is used for Linux 4.4 and 4.5, which print masks only as
/// numbers. No older kernel uses this bit.
const KSWAPD_4_4: u64 = 0x200_0000;

impl Gfp {
    /// Reads a mask of allocation flags in the form that the kernel prints. Returns none if the text does not begin
    /// with a hexadecimal number.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (number, names) = match text.split_once('(') {
            Some((number, names)) => (number, names.trim_end_matches(')')),
            None => (text, ""),
        };
        let bits = u64::from_str_radix(number.trim().strip_prefix("0x")?, 16).ok()?;
        Some(if names.is_empty() { Self::of_bits(text, bits) } else { Self::of_names(text, names) })
    }

    fn of_bits(text: &str, bits: u64) -> Self {
        let has = |bit: u64| bits & bit != 0;
        let is_4_4 = has(KSWAPD_4_4);
        let mobility = match (has(MOVABLE), has(if is_4_4 { WAIT_OLD } else { RECLAIMABLE_OLD })) {
            (true, _) => Mobility::Movable,
            (false, true) => Mobility::Reclaimable,
            (false, false) => Mobility::Unmovable,
        };
        Self {
            text: text.to_owned(),
            highest: highest(has(DMA), has(DMA32), has(HIGHMEM), has(MOVABLE)),
            mobility,
            may_sleep: has(if is_4_4 { DIRECT_4_4 } else { WAIT_OLD }),
            is_high: has(HIGH),
        }
    }

    fn of_names(text: &str, names: &str) -> Self {
        let has = |wanted: &[&str]| names.split('|').any(|name| wanted.contains(&name.trim()));
        let has_part = |part: &str| names.split('|').any(|name| name.trim().starts_with(part));
        // Huge pages of programs (GFP_TRANSHUGE, GFP_TRANSHUGE_LIGHT) are movable, too.
        let is_movable = has(&["GFP_HIGHUSER_MOVABLE", "__GFP_MOVABLE"]) || has_part("GFP_TRANSHUGE");
        let is_highmem = has_part("GFP_HIGHUSER") || has_part("GFP_TRANSHUGE") || has(&["__GFP_HIGHMEM"]);
        let mobility = match (is_movable, has(&["__GFP_RECLAIMABLE", "GFP_TEMPORARY"])) {
            (true, _) => Mobility::Movable,
            (false, true) => Mobility::Reclaimable,
            (false, false) => Mobility::Unmovable,
        };
        let sleeps = ["GFP_KERNEL", "GFP_NOFS", "GFP_NOIO", "GFP_USER", "GFP_HIGHUSER", "GFP_TEMPORARY"];
        Self {
            text: text.to_owned(),
            highest: highest(
                has(&["GFP_DMA", "__GFP_DMA"]),
                has(&["GFP_DMA32", "__GFP_DMA32"]),
                is_highmem,
                is_movable,
            ),
            mobility,
            may_sleep: sleeps.iter().any(|name| has_part(name))
                || has(&["GFP_TRANSHUGE", "__GFP_DIRECT_RECLAIM", "__GFP_RECLAIM", "__GFP_WAIT"]),
            is_high: has(&["GFP_ATOMIC", "__GFP_HIGH", "__GFP_ATOMIC"]),
        }
    }

    /// Returns the names of the mask's flags or, if the kernel printed no names, the mask as a number.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.text.split_once('(') {
            Some((_, names)) => names.trim_end_matches(')'),
            None => &self.text,
        }
    }
}

fn highest(is_dma: bool, is_dma32: bool, is_highmem: bool, is_movable: bool) -> ZoneKind {
    match (is_dma, is_dma32, is_highmem, is_movable) {
        (true, ..) => ZoneKind::Dma,
        (_, true, ..) => ZoneKind::Dma32,
        // Zone Movable may lie above high memory, so a request needs the flags of both to use it.
        (.., true, true) => ZoneKind::Movable,
        (.., true, false) => ZoneKind::HighMem,
        _ => ZoneKind::Normal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_all_times_are_understood() {
        use Mobility::{Movable, Reclaimable, Unmovable};
        use ZoneKind::{Dma, Dma32, HighMem, Normal};
        for (text, highest, mobility, may_sleep, is_high) in [
            ("0xcc0(GFP_KERNEL)", Normal, Unmovable, true, false),
            ("0x400dc0(GFP_KERNEL_ACCOUNT|__GFP_ZERO)", Normal, Unmovable, true, false),
            ("0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP)", ZoneKind::Movable, Movable, true, false),
            ("0x1100cca(GFP_HIGHUSER_MOVABLE)", ZoneKind::Movable, Movable, true, false),
            ("0x6200ca(GFP_HIGHUSER_MOVABLE)", ZoneKind::Movable, Movable, true, false),
            ("0x100cc2(GFP_HIGHUSER)", HighMem, Unmovable, true, false),
            ("0xcc4(GFP_KERNEL|GFP_DMA32)", Dma32, Unmovable, true, false),
            ("0x4(GFP_DMA32)", Dma32, Unmovable, false, false),
            ("0xcc1(GFP_KERNEL|GFP_DMA)", Dma, Unmovable, true, false),
            ("0x40a20(GFP_ATOMIC|__GFP_COMP)", Normal, Unmovable, false, true),
            ("0x820(GFP_ATOMIC)", Normal, Unmovable, false, true),
            ("0x800(GFP_NOWAIT)", Normal, Unmovable, false, false),
            ("0x1c20c0(GFP_NOFS|__GFP_RECLAIMABLE)", Normal, Reclaimable, true, false),
            ("0x3d24ca(GFP_TRANSHUGE|__GFP_THISNODE)", ZoneKind::Movable, Movable, true, false),
            ("0x1820ca(GFP_TRANSHUGE_LIGHT)", ZoneKind::Movable, Movable, false, false),
            // Masks of 2.6.32 to 4.3, which print only numbers.
            ("0xd0", Normal, Unmovable, true, false),
            ("0x201da", ZoneKind::Movable, Movable, true, false),
            ("0x280da", ZoneKind::Movable, Movable, true, false),
            ("0x20", Normal, Unmovable, false, true),
            ("0xd4", Dma32, Unmovable, true, false),
            ("0x800d0", Normal, Reclaimable, true, false),
            ("0x4020", Normal, Unmovable, false, true),
            // Masks of 4.4 and 4.5.
            ("0x24000c0", Normal, Unmovable, true, false),
            ("0x24200ca", ZoneKind::Movable, Movable, true, false),
            ("0x2080020", Normal, Unmovable, false, true),
            ("0x2400050", Normal, Reclaimable, true, false),
        ] {
            let expected = Gfp { text: text.into(), highest, mobility, may_sleep, is_high };
            assert_eq!(Gfp::read(text), Some(expected), "{text}");
        }
        assert_eq!(Gfp::read("0xcc0(GFP_KERNEL)").unwrap().name(), "GFP_KERNEL");
        assert_eq!((Gfp::read("0xd0").unwrap().name(), Gfp::read("x")), ("0xd0", None));
    }
}

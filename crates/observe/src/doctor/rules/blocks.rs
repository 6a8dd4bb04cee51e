//! Rules about fragmented free memory.

use super::{Said, figure, ill, mib};
use crate::doctor::signs::{Signs, Zone};
use crate::doctor::{Finding, Weight};

/// The smallest order for which the kernel gives up early. Up to order 3 it reclaims and compacts until it has a block,
/// since kernel stacks and network buffers need such blocks.
pub const COSTLY_ORDER: usize = 4;

/// The order of a huge page.
pub const HUGE_ORDER: usize = 9;

/// Smallest free memory, MiB, that can count as fragmented; less than this counts as a shortage. On a computer with
/// some GiB, the sum of the high marks of all zones is about this large.
pub const FREE_MIN_MIB: f64 = 64.0;

/// Smallest free memory, MiB, in which a huge page should be free: as much as 128 huge pages.
pub const FREE_FOR_HUGE_MIN_MIB: f64 = 256.0;

/// Percentage of the free pages. If blocks of a given order or higher have fewer pages than this, such blocks are
/// scarce: one or two requests would take them all.
pub const BLOCKS_MIN: f64 = 0.1;

/// Returns whether a zone is the zone DMA: the first 16 MiB, which are kept for old devices. Requests that are not for
/// such devices do not use its free pages.
fn is_for_devices(zone: &Zone) -> bool {
    zone.name == "DMA" || zone.name.starts_with("DMA of ")
}

/// Returns whether the free blocks by order are known for at least one zone other than DMA.
pub(super) fn are_known(signs: &Signs) -> bool {
    signs.zones.iter().flatten().any(|zone| !zone.blocks.is_empty() && !is_for_devices(zone))
}

/// Returns how many free pages of the zones are in blocks of order `order` or higher.
fn pages_from(zones: &[&Zone], order: usize) -> f64 {
    let of_zone = |zone: &&Zone| -> f64 {
        zone.blocks.iter().enumerate().skip(order).map(|(order, blocks)| blocks * (order as f64).exp2()).sum()
    };
    zones.iter().map(of_zone).sum()
}

/// Returns whether the zones have hardly any free blocks of order `order` or higher.
fn lacks(zones: &[&Zone], order: usize) -> bool {
    pages_from(zones, order) < pages_from(zones, 0) * BLOCKS_MIN / 100.0
}

/// Finds free memory that has hardly any blocks of several pages.
pub(super) fn in_pieces(signs: &Signs) -> Said {
    let known: Vec<&Zone> =
        signs.zones.iter().flatten().filter(|zone| !zone.blocks.is_empty() && !is_for_devices(zone)).collect();
    if known.is_empty() {
        return Err("free blocks by order".into());
    }
    let judge = |zones: &[&Zone]| {
        let free = pages_from(zones, 0);
        // Below the high marks memory is short, however large its blocks are.
        let is_short = free < zones.iter().map(|zone| zone.marks[2]).sum::<f64>();
        match mib(free) {
            free if free < FREE_MIN_MIB || is_short => None,
            _ if lacks(zones, COSTLY_ORDER) => Some(COSTLY_ORDER),
            free if free >= FREE_FOR_HUGE_MIN_MIB && lacks(zones, HUGE_ORDER) => Some(HUGE_ORDER),
            _ => None,
        }
    };
    // All zones are judged together, and then the zone with the most free memory, which serves most requests.
    let largest = || known.iter().max_by(|a, b| pages_from(&[a], 0).total_cmp(&pages_from(&[b], 0))).copied();
    let (zones, order, is_all) = match (judge(&known), largest()) {
        (Some(order), _) => (known, order, true),
        (None, Some(zone)) => match judge(&[zone]) {
            Some(order) => (vec![zone], order, false),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let free = pages_from(&zones, 0);
    let largest =
        (0..32).rev().find(|order| zones.iter().any(|zone| zone.blocks.get(*order).is_some_and(|count| *count > 0.0)));
    let largest = largest.unwrap_or(0);
    let count: f64 = zones.iter().filter_map(|zone| zone.blocks.get(largest)).sum();
    let place = if is_all { String::new() } else { format!(" in zone {}", zones[0].name) };
    let largest_is =
        format!("the largest blocks have {} KiB (order {largest}), and there are {count:.0} of them", 4_u64 << largest);
    let who = match order {
        COSTLY_ORDER => {
            "Who asks for more than 8 pages in one block, a driver or a huge page, waits for compaction, or gets none."
        }
        _ => "Smaller blocks are there; a huge page has to be made by compaction first.",
    };
    let elsewhere = if is_all { "" } else { " Other zones have such blocks, for requests that may take from these." };
    let sentence = format!(
        "Memory is in pieces: {:.0} MiB are free{place}, and next to nothing of it in blocks of {} KiB or more; {largest_is}. {who}{elsewhere}",
        mib(free),
        4_u64 << order
    );
    let figures = vec![
        figure("free", free, "pages"),
        figure("of them in blocks of order 3 and above", pages_from(&zones, 3), "pages"),
        figure("of order 4 and above", pages_from(&zones, COSTLY_ORDER), "pages"),
        figure("of order 9 and above", pages_from(&zones, HUGE_ORDER), "pages"),
    ];
    let rule = format!(
        "at least {FREE_MIN_MIB} MiB are free, more than the high marks, and less than {BLOCKS_MIN} % of that in blocks of order {COSTLY_ORDER}; \
         worth knowing where only order {HUGE_ORDER} is lacking, of {FREE_FOR_HUGE_MIN_MIB} MiB; zone DMA is left out"
    );
    let finding = ill("memory-in-pieces", sentence, figures, rule);
    let is_ill = order == COSTLY_ORDER && is_all;
    Ok(finding.map(|it| Finding { weight: if is_ill { Weight::Illness } else { Weight::Notice }, ..it }))
}

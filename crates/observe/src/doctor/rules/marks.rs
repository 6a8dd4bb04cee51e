//! Rules about watermarks of zones that are so high that they keep memory free although programs need it.

use super::{FREE_MUCH, RATE_MIN, Said, figure, if_known, ill, mib, percent};
use crate::doctor::signs::{Signs, Zone, need};
use crate::doctor::{Finding, Usage, Weight};
use recordings::PAGE_KIB;

/// Smallest share of memory, percent, at which the high marks of all zones together count as too high. The kernel's own
/// marks take less than 2 % on a computer with some GiB, and 7 % with 1 GiB and huge pages.
pub const MARKS_MAX: f64 = 10.0;

/// Largest ratio of free memory to the high marks at which the marks keep this memory free. kswapd stops at the high
/// marks, so more free memory has another reason, such as a program that has just ended.
const NEAR_HIGH_MAX: f64 = 1.5;

/// Smallest ratio of free memory to the low marks at which the marks keep this memory free. Below the low marks kswapd
/// is late.
const NEAR_LOW_MIN: f64 = 0.9;

/// Returns whether the marks keep much memory free: they are high, and free memory is always near them. Returns none if
/// the marks, free memory or the size of memory is unknown.
pub(super) fn keep_much(signs: &Signs) -> Option<bool> {
    let usage = signs.usage.as_ref()?;
    let (free, total, [low, high]) = (usage.least.free?, usage.total()?, kept(signs)?);
    let is_near = free >= low * NEAR_LOW_MIN && free <= high * NEAR_HIGH_MAX;
    Some(percent(high, total) >= MARKS_MAX && is_near)
}

/// Finds that the marks are so high that kswapd reclaims although much memory is free all the time.
pub(super) fn marks_too_high(signs: &Signs) -> Said {
    let usage = signs.usage.as_ref();
    let free = need(usage.and_then(|usage| usage.least.free), "free memory over time")?;
    let seconds = signs.seconds()?;
    // Marks make kswapd work. If kswapd is idle, reclaim has another reason.
    let kswapd = need(signs.kswapd.scanned, "pgscan_kswapd")? / seconds;
    let swapped = signs.swapped_out.map(|pages| pages / seconds);
    if kswapd < RATE_MIN {
        return Ok(None);
    }
    let total = need(usage.and_then(|usage| usage.total()), "size of memory")?;
    let share = percent(free, total);
    let high = kept(signs).map(|[_, high]| high);
    // A share of memory decides only where the marks are unknown.
    let is_kept = keep_much(signs).unwrap_or(share >= FREE_MUCH);
    // Free memory on another node, or in pieces while blocks are needed, is free for another reason.
    let is_uneven = super::nodes::uneven(signs).is_some();
    let wants_blocks = signs.compactions.is_some_and(|times| times / seconds >= 1.0);
    if !is_kept || is_uneven || wants_blocks {
        return Ok(None);
    }
    let figures = [
        Some(figure("free, at least", free, "pages")),
        Some(figure("of", total, "pages")),
        Some(figure("share", share, "%")),
        if_known("high marks", high, "pages"),
        Some(figure("kswapd scans a second", kswapd, "pages")),
        if_known("swapped out a second", swapped, "pages"),
    ];
    let sentence = format!(
        "The marks are too high: {:.0} MiB ({share:.0} %) of memory are free all the time, and kswapd scans {kswapd:.0} pages a second to keep them so. Programs cannot \
         have them. min_free_kbytes or watermark_scale_factor is set too high{}.",
        mib(free),
        settings(signs)
    );
    let rule = format!(
        "kswapd scans {RATE_MIN} pages a second; where marks are known, the high ones are at least {MARKS_MAX} % of memory, and free memory is \
         always between {NEAR_LOW_MIN} of the low and {NEAR_HIGH_MAX} of the high marks; where not, at least {FREE_MUCH} % of memory is free"
    );
    Ok(ill("marks-too-high", sentence, figures.into_iter().flatten().collect(), rule))
}

/// Smallest amount of memory in swap, as a percentage of all memory, from which the rule assumes that programs need the
/// memory that the watermarks keep free.
const IN_SWAP_MIN: f64 = 1.0;

/// Returns the low and the high marks, each summed over all zones, pages. The marks are those of the zones, or, if these
/// are unknown, those that follow from the settings. Returns none if both are unknown.
fn kept(signs: &Signs) -> Option<[f64; 2]> {
    let of_zones = [1, 2].map(|mark| signs.zones.iter().flatten().map(|zone| zone.marks[mark]).sum::<f64>());
    if of_zones[1] > 0.0 { Some(of_zones) } else { of_settings(signs, signs.usage.as_ref()?.total()?) }
}

/// Returns `true` if `signs` describe memory only at one moment: they state how much memory the marks keep free, but
/// not both the length of the observation and the number of pages that kswapd scanned. The rule [`marks_keep_much`]
/// then replaces the rule [`marks_too_high`].
pub(super) fn is_of_a_moment(signs: &Signs) -> bool {
    let is_moment = signs.elapsed_s.is_none() || signs.kswapd.scanned.is_none();
    is_moment && kept(signs).is_some() && signs.usage.as_ref().is_some_and(|usage| usage.total().is_some())
}

/// Finds that the marks keep much memory free, without regard to what kswapd does. This is an illness if much is in
/// swap; otherwise it is a notice.
pub(super) fn marks_keep_much(signs: &Signs) -> Said {
    let kept = need(kept(signs).map(|[_, high]| high), "marks of zones")?;
    let usage = signs.usage.as_ref();
    let total = need(usage.and_then(Usage::total), "size of memory")?;
    let share = percent(kept, total);
    // If the texts come from two computers, or a text is cut, the marks may seem to keep more than all memory.
    if !(MARKS_MAX..100.0).contains(&share) {
        return Ok(None);
    }
    let in_swap = signs.swap.map(|[all, free]| all - free).or(signs.swap_used);
    let is_wanted = in_swap.is_some_and(|pages| percent(pages, total) >= IN_SWAP_MIN);
    let figures = [
        Some(figure("high marks", kept, "pages")),
        Some(figure("of", total, "pages")),
        Some(figure("share", share, "%")),
        if_known("free", usage.and_then(|usage| usage.last.free), "pages"),
        if_known("in swap", in_swap, "pages"),
    ];
    let meanwhile = match in_swap.filter(|_| is_wanted) {
        Some(pages) => format!(" {:.0} MiB are in swap meanwhile.", mib(pages)),
        None => String::new(),
    };
    let sentence = format!(
        "The marks are too high: kswapd keeps {:.0} MiB ({share:.0} %) of memory free, which programs cannot have.{meanwhile} \
         min_free_kbytes or watermark_scale_factor is set too high{}.",
        mib(kept),
        settings(signs)
    );
    let rule = format!(
        "the high marks are at least {MARKS_MAX} % of memory; an illness where {IN_SWAP_MIN} % of memory is in swap meanwhile"
    );
    Ok(Some(Finding {
        weight: if is_wanted { Weight::Illness } else { Weight::Notice },
        ..Finding::new("marks-too-high", sentence, figures.into_iter().flatten().collect(), rule)
    }))
}

/// Returns words for the known settings that determine the marks, such as ` (vm.min_free_kbytes is 157000)`; empty if
/// none is known.
fn settings(signs: &Signs) -> String {
    let set = |name: &str| signs.settings.get(name).map(|value| format!("{name} is {value}"));
    let now: Vec<String> = ["vm.min_free_kbytes", "vm.watermark_scale_factor"].into_iter().filter_map(set).collect();
    if now.is_empty() { String::new() } else { format!(" ({})", now.join(", ")) }
}

/// Computes the low and the high marks, each summed over all zones, from the sysctls, pages. They lie above the min marks
/// by one distance and by two. The distance is a quarter of the min marks, or the share of memory that
/// `vm.watermark_scale_factor` sets, if that is larger. A setting that is unknown counts with its default; of
/// `vm.min_free_kbytes`, which depends on the computer, nothing is counted. Returns none if both are unknown. Source:
/// docs/mechanisms/modern.md.
fn of_settings(signs: &Signs, total: f64) -> Option<[f64; 2]> {
    let number = |name: &str| signs.settings.get(name)?.parse::<f64>().ok();
    let (min, scale) = (number("vm.min_free_kbytes"), number("vm.watermark_scale_factor"));
    min.or(scale)?;
    let min = min.unwrap_or(0.0) / PAGE_KIB;
    let distance = (min / 4.0).max(total * scale.unwrap_or(10.0) / 10_000.0);
    Some([min + distance, min + 2.0 * distance])
}

/// Returns `true` if the marks are known, and it is unknown how much kswapd scans. Only then is [`below_marks`] asked:
/// otherwise, the rule about kswapd names the zones that are below their marks.
pub(super) fn are_of_a_moment(signs: &Signs) -> bool {
    signs.kswapd.scanned.is_none() && signs.zones.iter().flatten().any(|zone| zone.marks[0] > 0.0)
}

/// Finds zones whose free memory is below their low mark at one moment. This is an illness if the free memory of a zone
/// is below the min mark; otherwise it is a notice.
pub(super) fn below_marks(signs: &Signs) -> Said {
    let zones = signs.zones.as_ref().ok_or("marks of zones")?;
    let under = |mark: usize| -> Vec<&Zone> { zones.iter().filter(|zone| zone.free < zone.marks[mark]).collect() };
    let (under_min, under_low) = (under(0), under(1));
    let (found, mark, name, what) = match (under_min.is_empty(), under_low.is_empty()) {
        (true, true) => return Ok(None),
        (true, false) => (under_low, 1, "low", "kswapd is awake for it, as it should be"),
        (false, _) => (under_min, 0, "min", "who wants memory of it has to reclaim it first"),
    };
    let first = found[0];
    let more = match found.len() {
        1 => String::new(),
        count => format!(" {} more zones are.", count - 1),
    };
    let figures = found.iter().flat_map(|zone| {
        [
            figure(&format!("{}: free", zone.name), zone.free, "pages"),
            figure(&format!("{}: {name}", zone.name), zone.marks[mark], "pages"),
        ]
    });
    let sentence = format!(
        "At this moment zone {} is under its {name} mark: {:.0} pages are free of {:.0}; {what}.{more}",
        first.name, first.free, first.marks[mark]
    );
    let rule = "a zone has fewer free pages than its low mark at a moment of which nothing else is known; an illness under the min mark";
    Ok(Some(Finding {
        weight: if mark == 0 { Weight::Illness } else { Weight::Notice },
        ..Finding::new("below-marks", sentence, figures.collect(), rule.to_owned())
    }))
}

/// Returns the load of a span, s: the number of pages that kswapd scanned, divided by [`RATE_MIN`].
pub(super) fn worked(signs: &Signs) -> f64 {
    signs.kswapd.scanned.unwrap_or(0.0) / RATE_MIN
}

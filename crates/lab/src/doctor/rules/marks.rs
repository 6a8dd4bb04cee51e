//! Marks that keep memory free which programs want.

use super::{FREE_MUCH, RATE_MIN, Said, figure, if_known, ill, mib, percent};
use crate::doctor::signs::{Signs, need};

/// Share of memory that high marks may take, percent: the kernel's own are below 2 % of a computer with some GiB, and 7 % of one with
/// 1 GiB where huge pages are on.
pub const MARKS_MAX: f64 = 10.0;

/// Finds marks so high that much memory stays free while reclaim works.
pub(super) fn marks_too_high(signs: &Signs) -> Said {
    let usage = signs.usage.as_ref();
    let free = need(usage.and_then(|usage| usage.least.free), "free memory over time")?;
    let seconds = signs.seconds()?;
    // Marks wake kswapd: where it does nothing, whoever reclaims has another reason.
    let kswapd = need(signs.kswapd.scanned, "pgscan_kswapd")? / seconds;
    let swapped = signs.swapped_out.map(|pages| pages / seconds);
    if kswapd < RATE_MIN {
        return Ok(None);
    }
    let total = need(usage.and_then(|usage| usage.total()), "size of memory")?;
    let share = percent(free, total);
    let high = signs.zones.as_ref().map(|zones| zones.iter().map(|zone| zone.marks[2]).sum::<f64>());
    let is_high = high.filter(|high| *high > 0.0).is_none_or(|high| percent(high, total) >= MARKS_MAX);
    // Free memory of another node, or in pieces where whole blocks are wanted, is free for another reason.
    let is_uneven = super::nodes::uneven(signs).is_some();
    let wants_blocks = signs.compactions.is_some_and(|times| times / seconds >= 1.0);
    if share < FREE_MUCH || !is_high || is_uneven || wants_blocks {
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
    let set = |name: &str| signs.settings.get(name).map(|value| format!("{name} is {value}"));
    let now: Vec<String> = ["vm.min_free_kbytes", "vm.watermark_scale_factor"].into_iter().filter_map(set).collect();
    let now = if now.is_empty() { String::new() } else { format!(" ({})", now.join(", ")) };
    let sentence = format!(
        "The marks are too high: {:.0} MiB ({share:.0} %) of memory are free all the time, and kswapd scans {kswapd:.0} pages a second to keep them so. Programs cannot \
         have them. min_free_kbytes or watermark_scale_factor is set too high{now}.",
        mib(free)
    );
    let rule = format!(
        "at least {FREE_MUCH} % of memory is free all the time while kswapd scans {RATE_MIN} pages a second; where marks are known, the \
         high ones are {MARKS_MAX} % of memory"
    );
    Ok(ill("marks-too-high", sentence, figures.into_iter().flatten().collect(), rule))
}

/// The load of kswapd's scanning, s at the least rate.
pub(super) fn worked(signs: &Signs) -> f64 {
    signs.kswapd.scanned.unwrap_or(0.0) / RATE_MIN
}

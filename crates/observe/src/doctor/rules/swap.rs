//! Rules about anonymous memory and swap.

use super::{
    FREE_MUCH, RATE_MIN, SWAP_BACK_MIN, SWAP_FREE_MIN, SWAP_LEAVES_MIN, Said, figure, if_known, ill, memory_use, mib,
    pages, percent,
};
use crate::doctor::signs::{Signs, need};
use crate::doctor::{Evidence, Finding, Weight};

/// Smallest share of memory, percent, at which page cache counts as large while pages of programs are in swap. When
/// programs need all memory, reclaim keeps only a few percent of page cache.
pub const CACHE_LARGE_MIN: f64 = 25.0;

/// Share of memory, percent. Page cache below this share counts as small: programs have nearly all memory.
pub const CACHE_SMALL_MAX: f64 = 10.0;

/// If the page cache were emptied at the rate at which pages are swapped in, it would last for some time. From this
/// many seconds on, the cache may count as large: it then has pages that are used less than the pages of programs. Only
/// used if the size of memory is unknown.
const CACHE_LASTS_S: f64 = 60.0;

/// Largest `vm.swappiness` that cannot be the reason for swapping, since reclaim then clearly prefers file pages.
pub const SWAPPINESS_LOW: f64 = 10.0;

/// The traffic between memory and swap, in both directions.
struct Exchange {
    come: f64,
    left: f64,
    rate: f64,
    /// True if this traffic with swap is an illness even when pages of zeroes, which cost no I/O, are left out of it.
    is_ill: bool,
    /// True if the traffic is an illness when pages of zeroes, which cost no I/O, are also counted. If `is_felt` is
    /// true and `is_ill` is false, the finding is only a notice.
    is_felt: bool,
}

/// Measures the traffic between memory and swap. The traffic is an illness if anonymous pages come back from swap, and
/// other pages have to leave memory meanwhile.
fn exchange(signs: &Signs) -> Result<Exchange, String> {
    let (come, left) = (need(signs.swapped_in, "pswpin")?, need(signs.swapped_out, "pswpout")?);
    // A page of zeroes costs a fault, but neither a write nor a read. Alone such pages are no illness, and they do not
    // count as read.
    let (zeroes_in, zeroes_out) = (signs.zeroes_in.unwrap_or(0.0), signs.zeroes_out.unwrap_or(0.0));
    let seconds = signs.seconds()?;
    let stolen = signs.stolen();
    let thrashes = |come: f64, left: f64| {
        // Pages written to swap leave memory, too: the computer's counters do not include what a cgroup reclaims at its
        // limit. If reclaimed pages are not counted, a shortage that is over is recognised by free pages and cache: the
        // pages that come back fill them.
        let must_leave = match stolen {
            Some(stolen) => stolen.max(left) >= come * SWAP_LEAVES_MIN / 100.0,
            None => left >= come * SWAP_LEAVES_MIN / 100.0 || filled(signs).is_none_or(|filled| filled < come / 2.0),
        };
        come / seconds >= RATE_MIN && left > 0.0 && come >= left * SWAP_BACK_MIN / 100.0 && must_leave
    };
    let is_ill = thrashes(come, left);
    let is_felt = is_ill || has_zeroes(signs) && thrashes(come + zeroes_in, left + zeroes_out);
    Ok(Exchange { come, left, rate: come / seconds, is_ill, is_felt })
}

/// Returns the number of pages by which the sum of free memory and page cache shrank over the observed period. The sum
/// shrinks if pages that are swapped in fill free memory.
fn filled(signs: &Signs) -> Option<f64> {
    let usage = signs.usage.as_ref()?;
    let room = |now: &crate::doctor::MemoryUse| Some(now.free? + now.files().unwrap_or(0.0));
    Some(room(&usage.first)? - room(&usage.last)?)
}

/// Returns the number of pages in swap; none if it is 0 or unknown.
fn in_swap(signs: &Signs) -> Option<f64> {
    signs.swap_used.or(signs.swap.map(|[all, free]| all - free)).filter(|pages| *pages > 0.0)
}

/// The size of the page cache while pages of programs are swapped out. If the cache is large, its pages could leave
/// memory instead.
enum Beside {
    /// The page cache is large while pages of programs are swapped out.
    Much,
    /// The page cache is small while pages of programs are swapped out.
    Little,
    /// The page cache is neither large nor small while pages of programs are swapped out.
    Some,
    /// The size of the page cache is unknown.
    Unknown,
}

/// Returns how large the page cache is while pages of programs are in swap, and the smallest size of the page cache in
/// the period, pages. `rate` is the number of pages swapped in per second.
fn cache_beside(signs: &Signs, rate: f64) -> (Beside, Option<f64>) {
    let Some((usage, files)) = signs.usage.as_ref().and_then(|usage| Some((usage, usage.least_files.files()?))) else {
        return (Beside::Unknown, None);
    };
    let in_swap = in_swap(signs);
    let share = usage.total().map(|total| percent(files, total));
    let lasts = rate > 0.0 && files / rate >= CACHE_LASTS_S;
    let how = match (share, in_swap) {
        // All pages in swap would fit in place of the cache.
        (_, Some(in_swap)) if files >= in_swap => Beside::Much,
        (Some(share), _) if share >= CACHE_LARGE_MIN => Beside::Much,
        (None, Some(in_swap)) if lasts && files >= in_swap / 4.0 => Beside::Much,
        (None, None) if lasts => Beside::Much,
        (Some(share), _) if share < CACHE_SMALL_MAX => Beside::Little,
        (None, Some(in_swap)) if files < in_swap / 2.0 => Beside::Little,
        _ => Beside::Some,
    };
    (how, Some(files))
}

/// Returns whether much memory is free all the time, or as much as high marks keep free. If the size of memory is
/// unknown, returns whether the free memory is always large enough for all pages in swap.
#[must_use]
pub fn is_much_free(signs: &Signs) -> bool {
    let least = || signs.usage.as_ref()?.least.free;
    match signs.free_share() {
        Some(share) => share >= FREE_MUCH || super::marks::keep_much(signs) == Some(true),
        None => least().zip(in_swap(signs)).is_some_and(|(free, in_swap)| free >= in_swap),
    }
}

/// Returns whether the programs would fit in memory: much memory is free all the time, or the page cache is always
/// large.
#[must_use]
pub fn fit(signs: &Signs) -> bool {
    let rate = signs.swapped_in.unwrap_or(0.0) / signs.elapsed_s.filter(|time| *time > 0.0).unwrap_or(1.0);
    is_much_free(signs) || matches!(cache_beside(signs, rate), (Beside::Much, _))
}

/// Returns a sentence on why pages may be swapped out while much memory is free. The possible causes depend on whether
/// kswapd reclaims.
fn why_free(signs: &Signs) -> &'static str {
    match (signs.kswapd.scanned, signs.elapsed_s) {
        (Some(scanned), Some(seconds)) if scanned >= RATE_MIN * seconds => {
            "kswapd reclaims all the same: the marks are high, or that memory is of another node or zone."
        }
        (Some(_), _) => "kswapd does not reclaim: a cgroup is at its limit, or a node reclaims itself.",
        (None, _) => {
            "Marks that are too high (vm.min_free_kbytes), a cgroup at its limit, or a full node beside free ones would do that."
        }
    }
}

/// Finds that anonymous pages move back and forth between memory and swap.
pub(super) fn anonymous_thrashing(signs: &Signs) -> Said {
    let Exchange { come, left, rate, is_ill, is_felt } = exchange(signs)?;
    if !is_felt {
        return Ok(None);
    }
    let (zeroes_in, has_zeroes) = (signs.zeroes_in.unwrap_or(0.0), has_zeroes(signs));
    let zeroes = |name: &str, pages: Option<f64>| if_known(name, pages.filter(|_| has_zeroes), "pages");
    let (how, files) = cache_beside(signs, rate);
    let free = signs.usage.as_ref().and_then(|usage| usage.least.free);
    let figures = [
        Some(figure("pswpin", come, "pages")),
        Some(figure("pswpout", left, "pages")),
        Some(figure("swapped in a second", rate, "pages")),
        zeroes("swpin_zero", signs.zeroes_in),
        zeroes("swpout_zero", signs.zeroes_out),
        if_known("workingset_refault_anon", signs.refaulted_anon, "pages"),
        if_known("pages reclaimed", signs.stolen(), "pages"),
        if_known("pgmajfault", signs.major_faults, "faults"),
        if_known("tasks blocked", signs.blocked, "on average"),
        if_known("page cache, at least", files.map(mib), "MiB"),
        if_known("free, at least", free.map(mib), "MiB"),
    ];
    let memory = signs.memory_of();
    let why = match how {
        _ if is_much_free(signs) => format!(
            " Programs fit: {:.0} MiB{} of memory are free all the time. {}",
            free.map_or(0.0, mib),
            signs.free_share().map_or_else(String::new, |share| format!(" ({share:.0} %)")),
            why_free(signs)
        ),
        Beside::Much => format!(
            " That is not for the size of programs: {:.0} MiB of page cache stay meanwhile. What is chosen is at fault.",
            files.map_or(0.0, mib)
        ),
        Beside::Little => format!(
            " Programs are larger than {memory}: only {:.0} MiB of page cache are left beside them.",
            files.map_or(0.0, mib)
        ),
        Beside::Some => {
            format!(" Beside them are {:.0} MiB of page cache: {memory} is too small for both.", files.map_or(0.0, mib))
        }
        Beside::Unknown => {
            format!(
                " Programs are larger than {memory}, or page cache takes their place: how much there is of it is not known."
            )
        }
    };
    let blocked = match signs.blocked {
        Some(blocked) if blocked >= 1.5 => format!(" {blocked:.0} tasks are blocked meanwhile."),
        _ => String::new(),
    };
    let sentence = if is_ill {
        let beside = if has_zeroes {
            format!(" Beside these {} of zeroes come back, each for a fault, but without I/O.", pages(zeroes_in))
        } else {
            String::new()
        };
        format!(
            "Pages go to and fro between memory and swap: {rate:.0} pages a second come back, {:.0} for each 100 that leave, and \
             others leave in their place.{blocked}{why}{beside}",
            percent(come, left)
        )
    } else {
        format!(
            "Pages go to and fro between memory and swap: {:.0} pages of zeroes a second come back, each for a fault, but without I/O, \
             and {rate:.0} are read. Only together do they come to what the rule asks for.",
            zeroes_in / signs.seconds()?
        )
    };
    let with_zeroes = if has_zeroes { "; no illness where that holds only with pages of zeroes" } else { "" };
    let rule = format!(
        "at least {RATE_MIN} pages a second swapped in, {SWAP_BACK_MIN} for each 100 swapped out, and {SWAP_LEAVES_MIN} reclaimed \
         or swapped out for each 100 swapped in{with_zeroes}; that programs are too large is said beside page cache below \
         {CACHE_SMALL_MAX} % of memory, or half of what is in swap"
    );
    Ok(Some(Finding {
        weight: if is_ill { Weight::Illness } else { Weight::Notice },
        ..Finding::new("anonymous-thrashing", sentence, figures.into_iter().flatten().collect(), rule)
    }))
}

fn has_zeroes(signs: &Signs) -> bool {
    signs.zeroes_in.unwrap_or(0.0) > 0.0 || signs.zeroes_out.unwrap_or(0.0) > 0.0
}

/// Finds that anonymous pages move back and forth between memory and swap although the page cache is large.
pub(super) fn swap_beside_cache(signs: &Signs) -> Said {
    let Exchange { come, left, rate, is_ill, .. } = exchange(signs)?;
    if !is_ill {
        return Ok(None);
    }
    // If much memory is free all the time, the cause is whatever keeps it free, and not the page cache.
    if is_much_free(signs) {
        return Ok(None);
    }
    let (how, files) = cache_beside(signs, rate);
    let files = need(files, "size of page cache")?;
    if !matches!(how, Beside::Much) {
        return Ok(None);
    }
    let now = signs.settings.get("vm.swappiness").and_then(|value| value.parse::<f64>().ok());
    let why = match now {
        Some(now) if now <= SWAPPINESS_LOW => format!(
            "vm.swappiness is {now} already, so that it is not what chooses them: the cache may be mapped, locked, dirty or of tmpfs."
        ),
        Some(now) => format!("vm.swappiness is {now}: it says how much of reclaim falls on anonymous memory."),
        None => "vm.swappiness says how much of reclaim falls on anonymous memory.".to_owned(),
    };
    let in_swap = in_swap(signs);
    let figures: Vec<Evidence> = [
        Some(figure("page cache, at least", mib(files), "MiB")),
        if_known("in swap", in_swap.map(mib), "MiB"),
        Some(figure("pswpin", come, "pages")),
        Some(figure("pswpout", left, "pages")),
        if_known("workingset_refault_file", signs.refaulted_file, "pages"),
        if_known("vm.swappiness", now, ""),
    ]
    .into_iter()
    .flatten()
    .collect();
    let sentence = format!(
        "Reclaim takes anonymous memory that is wanted back, and leaves page cache: {:.0} MiB of it stay while {:.1} MiB a second come \
         back from swap. {why}",
        mib(files),
        mib(rate)
    );
    let rule = format!(
        "as for anonymous-thrashing, and page cache without shared memory is never below what is in swap, or {CACHE_LARGE_MIN} % of \
         memory; where memory is not known, below what comes back in {CACHE_LASTS_S} s"
    );
    Ok(ill("swap-beside-cache", sentence, figures, rule))
}

/// Returns a number by which the span with the signs `signs` is compared with other spans: the number of pages that
/// were swapped in during the span, divided by [`RATE_MIN`] (pages/s).
pub(super) fn exchanged(signs: &Signs) -> f64 {
    signs.swapped_in.unwrap_or(0.0) / RATE_MIN
}

/// Finds swap that is full.
pub(super) fn swap_full(signs: &Signs) -> Said {
    // Swap that is not used is not full, even if its size is unknown.
    if signs.swap.is_none() && signs.swap_used == Some(0.0) {
        return Ok(None);
    }
    let [all, free] = signs.swap.ok_or("free swap")?;
    // A computer without swap has none that could be full.
    if all <= 0.0 || percent(free, all) >= SWAP_FREE_MIN {
        return Ok(None);
    }
    let mut figures = vec![figure("swap", all, "pages"), figure("free", free, "pages")];
    let rule = format!(
        "less than {SWAP_FREE_MIN} % of swap is free; a notice where memory is available as for other uses of memory, and less than \
         {RATE_MIN:.0} pages/s move to swap or back"
    );
    let free = percent(free, all);
    let is_still = signs.swapped_in.zip(signs.swapped_out).is_some_and(|(come, left)| come.max(left) < RATE_MIN);
    if let Some(available) = memory_use::enough_available(signs).filter(|_| is_still) {
        figures.push(figure("available", available, "% of memory"));
        let sentence = format!(
            "Swap is full: {free:.1} % of it is free. But {available:.0} % of memory is available, and hardly a page moves to swap or \
             back: it holds what was swapped out earlier and is not used."
        );
        return Ok(Some(Finding { weight: Weight::Notice, ..Finding::new("swap-full", sentence, figures, rule) }));
    }
    let sentence = format!(
        "Swap is full: {free:.1} % of it is free. What anonymous memory is left can only grow at the cost of files, until processes are \
         killed."
    );
    Ok(ill("swap-full", sentence, figures, rule))
}

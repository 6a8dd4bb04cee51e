//! Rules by which the doctor finds disks that are too slow for their requests.

use super::{RATE_MIN, Said, figure, if_known};
use crate::doctor::signs::{Disk, Signs};
use crate::doctor::{Finding, Weight};

/// Smallest share of time, percent, for which a disk must be busy to count as a bottleneck. A disk that is busy for
/// less of the time may still be one, but this cannot be known, since a disk may serve several requests in parallel.
pub const DISK_BUSY_MIN: f64 = 90.0;

/// Smallest mean time of a request, ms, that shows that requests wait in the disk's queue. A rotating disk serves a
/// single request in about 10 ms, a flash disk in less than 1 ms.
pub const DISK_WAIT_MIN: f64 = 30.0;

/// Finds disks that are always busy and on which requests wait. This is a notice and no illness, since memory need not
/// be the cause.
pub(super) fn busy_disk(signs: &Signs) -> Said {
    let wait = |disk: &Disk| [disk.read_wait_ms, disk.write_wait_ms].into_iter().flatten().reduce(f64::max);
    let is_slow = |disk: &&Disk| wait(disk).is_none_or(|ms| ms >= DISK_WAIT_MIN);
    let is_busy = |disk: &&Disk| match disk.busy_percent {
        Some(busy) => busy >= DISK_BUSY_MIN,
        // Means since boot show only how long requests took.
        None => wait(disk).is_some(),
    };
    let mut found: Vec<&Disk> = signs.disks.iter().filter(is_busy).filter(is_slow).collect();
    found.sort_by(|a, b| wait(b).unwrap_or(0.0).total_cmp(&wait(a).unwrap_or(0.0)).then_with(|| a.name.cmp(&b.name)));
    let Some(worst) = found.first() else { return Ok(None) };
    let busy = worst.busy_percent.map_or_else(
        || format!("On the disk {} requests wait", worst.name),
        |busy| format!("The disk {} is busy {busy:.0} % of the time", worst.name),
    );
    let waits: Vec<String> = [("a read", worst.read_wait_ms), ("a write", worst.write_wait_ms)]
        .into_iter()
        .filter_map(|(what, ms)| Some(format!("{what} takes {:.0} ms", ms?)))
        .collect();
    let waits = if waits.is_empty() { String::new() } else { format!(": {}", waits.join(", ")) };
    let others = match found.len() {
        1 => String::new(),
        count => format!(" {} more disks are so.", count - 1),
    };
    let seconds = signs.elapsed_s.unwrap_or(0.0);
    let rate = |pages: Option<f64>| pages.filter(|_| seconds > 0.0).map(|pages| pages / seconds);
    let (swapped, refaulted) = (rate(signs.swapped_in), rate(signs.refaulted_file));
    let why = match (swapped, refaulted) {
        (Some(pages), _) if pages >= RATE_MIN => {
            format!("Memory has a part in it: {pages:.0} pages a second come back from swap.")
        }
        (_, Some(pages)) if pages >= RATE_MIN => {
            format!("Memory has a part in it: {pages:.0} pages of files a second are read that had left the cache.")
        }
        (Some(_), Some(_)) => {
            "Memory has no part in it: next to nothing comes back from swap or into the cache.".to_owned()
        }
        _ => "Whether memory has a part in it disks do not tell: what swaps, and what the cache reads again, does."
            .to_owned(),
    };
    let figures = found.iter().take(3).flat_map(|disk| {
        [
            if_known(&format!("{} busy", disk.name), disk.busy_percent, "% of the time"),
            if_known(&format!("a read of {}", disk.name), disk.read_wait_ms, "ms"),
            if_known(&format!("a write to {}", disk.name), disk.write_wait_ms, "ms"),
        ]
    });
    let mut figures: Vec<_> = figures.flatten().collect();
    figures.extend(swapped.map(|pages| figure("swapped in a second", pages, "pages")));
    let rule = format!(
        "a disk is busy {DISK_BUSY_MIN} % of the time, where that is known, and a request takes {DISK_WAIT_MIN} ms"
    );
    Ok(Some(Finding {
        weight: Weight::Notice,
        ..Finding::new("busy-disk", format!("{busy}{waits}.{others} {why}"), figures, rule)
    }))
}

//! `systemd-oomd`: kills a group in two cases. If the pressure of the watched group was above a limit for some time, it
//! kills the group that reclaimed most. If memory and swap are both nearly full, it kills the group with most swap.
//! Source: the manual pages of systemd-oomd.

use super::{Controls, Done, Steered};
use crate::system::{System, SystemError};
use machine::Nanos;
use std::collections::BTreeMap;

/// Time after a kill during which the controller kills nothing else (`POST_ACTION_DELAY_USEC`).
const AFTER_KILL: Nanos = Nanos::from_secs(15);

/// A group can be killed for its use of swap only if it uses more than this share of all swap, percent.
const SWAP_PERCENT_MIN: u64 = 5;

/// Runs the controller: checks the groups each second, and kills one if pressure was too high for too long, or if
/// memory and swap are nearly full. Ends when the task is told to end.
pub(super) fn run<S: System>(
    system: &S,
    controls: &Controls,
    groups: &[Steered],
    watched: Option<&str>,
) -> Result<Done, SystemError> {
    let mut done = Done::default();
    let mut above_since = None;
    let mut scanned: BTreeMap<String, u64> = BTreeMap::new();
    while !system.is_killed() {
        system.sleep(Nanos::from_secs(1));
        if system.is_killed() {
            break;
        }
        let pressure = system.pressure(watched)?.unwrap_or_default();
        let now = system.now();
        let is_above = pressure.full.percent[0] > controls.oomd_pressure_percent;
        above_since = is_above.then(|| above_since.unwrap_or(now));
        let mut looked = Vec::new();
        for Steered { name, .. } in groups.iter().filter(|group| !done.killed.contains(&group.name)) {
            let stat = system.group_stat(name)?.unwrap_or_default();
            let count = |key: &str| stat.get(key).copied().unwrap_or_default();
            let before = scanned.insert(name.clone(), count("pgscan")).unwrap_or_default();
            looked.push((name, count("pgscan") - before, count("memory.swap.current")));
        }
        let is_due = above_since.is_some_and(|since| now.since(since) >= Nanos::from_secs(controls.oomd_duration_s));
        let victim = if is_due {
            looked.iter().max_by_key(|(_, scanned, _)| *scanned).filter(|(_, scanned, _)| *scanned > 0)
        } else {
            let most = looked.iter().max_by_key(|(_, _, swap)| *swap);
            most.filter(|(_, _, swap)| is_for_swap(available_percent(system), system.swap_pages(), *swap, controls))
        };
        if let Some((name, ..)) = victim {
            system.kill_group(name)?;
            done.killed.push((*name).clone());
            above_since = None;
            system.sleep(AFTER_KILL);
        }
    }
    Ok(done)
}

/// Returns the share of memory that is free or holds pages of files, percent.
fn available_percent<S: System>(system: &S) -> u64 {
    let vmstat = system.vmstat();
    let file: u64 = ["nr_inactive_file", "nr_active_file"].iter().filter_map(|name| vmstat.get(*name)).sum();
    100 * (system.free_pages() + file) / system.memory_pages().max(1)
}

/// Returns whether to kill a group that has `swap` pages in swap. This is so if memory and swap are nearly full and the
/// group has more than [`SWAP_PERCENT_MIN`] of all swap.
fn is_for_swap(available_percent: u64, of_system: Option<[u64; 2]>, swap: u64, controls: &Controls) -> bool {
    let Some([total, free]) = of_system.filter(|[total, _]| *total > 0) else { return false };
    if available_percent >= 100 - controls.oomd_swap_percent {
        return false;
    }
    100 * (total - free) > controls.oomd_swap_percent * total && 100 * swap > SWAP_PERCENT_MIN * total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_killed_for_its_swap_if_swap_is_nearly_full() {
        let controls = Controls::default();
        assert!(is_for_swap(9, Some([1000, 99]), 51, &controls));
        assert!(!is_for_swap(10, Some([1000, 99]), 51, &controls), "memory is available");
        assert!(!is_for_swap(9, Some([1000, 100]), 51, &controls), "90 % are used, and not more");
        assert!(!is_for_swap(9, Some([1000, 99]), 50, &controls), "it has 5 %, and not more");
        assert!(!is_for_swap(9, Some([0, 0]), 0, &controls) && !is_for_swap(9, None, 9, &controls));
    }
}

//! The eviction of the Kubernetes node agent. When available memory falls below a threshold, the agent kills the group
//! whose usage exceeds its request most. Free memory and inactive page cache count as available. Source: the Kubernetes
//! documentation, "Node-pressure Eviction".

use super::{Controls, Done, Steered};
use crate::system::{System, SystemError};
use machine::Nanos;

/// Number of pages in a MiB.
const MIB_PAGES: u64 = 256;

/// Runs the controller: at intervals, compares the available memory with a threshold, and kills a group if the
/// available memory is below it. Ends when the task is told to end.
pub(super) fn run<S: System>(system: &S, controls: &Controls, groups: &[Steered]) -> Result<Done, SystemError> {
    let mut done = Done::default();
    let threshold = system.given().scale.of(controls.kubelet_available_mib.saturating_mul(MIB_PAGES));
    while !system.is_killed() {
        system.sleep(Nanos::from_secs(controls.kubelet_poll_s));
        if system.is_killed() {
            break;
        }
        let inactive_file = system.vmstat().get("nr_inactive_file").copied().unwrap_or_default();
        if system.free_pages() + inactive_file >= threshold {
            continue;
        }
        let mut usages = Vec::new();
        for group in groups.iter().filter(|group| !done.killed.contains(&group.name)) {
            let stat = system.group_stat(&group.name)?.unwrap_or_default();
            let count = |key: &str| stat.get(key).copied().unwrap_or_default();
            usages.push((group, count("memory.current").saturating_sub(count("inactive_file"))));
        }
        if let Some(victim) = victim(&usages) {
            system.kill_group(&victim.name)?;
            done.killed.push(victim.name.clone());
        }
    }
    Ok(done)
}

/// Returns the group to evict. This is the group whose usage exceeds its request most or, if no group exceeds its
/// request, the group that is closest to its request. Returns `None` if no group uses any memory.
fn victim<'a>(usages: &[(&'a Steered, u64)]) -> Option<&'a Steered> {
    let excess = |(group, usage): &(&Steered, u64)| *usage as i64 - group.request_pages as i64;
    usages.iter().filter(|(_, usage)| *usage > 0).max_by_key(|it| excess(it)).map(|(group, _)| *group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_that_exceeds_its_request_most_goes_first() {
        let group = |name: &str, request_pages| Steered { name: name.into(), request_pages };
        let [large, small, none] = [group("large", 900), group("small", 0), group("none", 0)];
        let chosen = |usages: &[(&Steered, u64)]| victim(usages).map(|group| group.name.clone());
        assert_eq!(chosen(&[(&large, 1000), (&small, 200), (&none, 0)]).as_deref(), Some("small"));
        assert_eq!(chosen(&[(&large, 1200), (&small, 200), (&none, 0)]).as_deref(), Some("large"));
        assert_eq!(chosen(&[(&none, 0)]), None);
    }
}

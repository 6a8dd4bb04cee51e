//! Senpai: finds out how much memory a group needs. It lowers `memory.high` step by step until tasks begin to wait for
//! memory, and raises it when they wait for longer than the target. Source: the rule that its authors published (2019).

use super::{Controls, Done, Steered};
use crate::system::{System, SystemError};
use engine::memory::Limit;
use machine::Nanos;

/// Smallest limit that Senpai sets, pages: 1 MiB.
const PAGES_MIN: u64 = 256;

/// The state that Senpai keeps for one group.
struct Group {
    name: String,
    /// `memory.high` as last set, pages.
    limit: f64,
    /// Total stall time of the group at the last check, us.
    total_us: u64,
    /// Stall time since the limit was last changed, us.
    stalled_us: u64,
    /// Number of checks until the next probe. A check happens each second.
    grace: u64,
}

/// Runs the controller: checks the groups each second and adjusts their limits. Ends when the task is told to end.
pub(super) fn run<S: System>(system: &S, controls: &Controls, groups: &[Steered]) -> Result<Done, SystemError> {
    let mut done = Done::default();
    let total_us = |name: &str| Ok::<_, SystemError>(system.pressure(Some(name))?.unwrap_or_default().some.total_us);
    let mut known = Vec::new();
    for Steered { name, .. } in groups {
        let limit = usage(system, name)? as f64;
        let (total_us, grace) = (total_us(name)?, controls.senpai_interval_s - 1);
        known.push(Group { name: name.clone(), limit, total_us, stalled_us: 0, grace });
    }
    while !system.is_killed() {
        system.sleep(Nanos::from_secs(1));
        if system.is_killed() {
            break;
        }
        for group in &mut known {
            let total = total_us(&group.name)?;
            group.stalled_us += total - group.total_us;
            group.total_us = total;
            let Some(part) = step(controls, group.stalled_us, &mut group.grace) else { continue };
            group.limit = (group.limit.max(usage(system, &group.name)? as f64) * (1.0 + part)).max(PAGES_MIN as f64);
            group.stalled_us = 0;
            system.set_group_limit(&group.name, Limit::High, group.limit as u64)?;
            done.changes += 1;
        }
    }
    Ok(done)
}

fn usage<S: System>(system: &S, name: &str) -> Result<u64, SystemError> {
    let stat = system.group_stat(name)?.unwrap_or_default();
    Ok(stat.get("memory.current").copied().unwrap_or_default())
}

/// Returns the share of the limit by which to change it: above 0 to raise it, below 0 to lower it (a probe). Returns
/// none if the limit stays. `stalled_us` is the stall time since the last change. `grace` is the number of checks until
/// the next probe, which this function updates.
fn step(controls: &Controls, stalled_us: u64, grace: &mut u64) -> Option<f64> {
    let target = controls.senpai_pressure_us;
    if stalled_us > target {
        *grace = controls.senpai_interval_s - 1;
        let part = (stalled_us as f64 / target as f64 / controls.senpai_coeff_backoff).powi(2);
        return Some((part * controls.senpai_max_backoff).min(controls.senpai_max_backoff));
    }
    if *grace > 0 {
        *grace -= 1;
        return None;
    }
    *grace = controls.senpai_interval_s - 1;
    let part = (target as f64 / stalled_us.max(1) as f64 / controls.senpai_coeff_probe).powi(2);
    Some(-(part * controls.senpai_max_probe).min(controls.senpai_max_probe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_waits_and_a_step_back_does_not() {
        let controls = Controls::default();
        let mut grace = 2;
        assert_eq!(step(&controls, 0, &mut grace), None);
        assert_eq!(step(&controls, 0, &mut grace), None);
        assert_eq!((step(&controls, 0, &mut grace), grace), (Some(-0.01), 5));
        // Stalled for twice the target: (2 / 20)² of the largest step.
        let back = step(&controls, 20_000, &mut grace).unwrap();
        assert!((back - 0.01).abs() < 1e-12 && grace == 5);
        assert_eq!(step(&controls, 1_000_000, &mut grace), Some(1.0), "not more than doubled");
        // Close to the target, a probe is small: (10,000 / 8,000 / 10)² of the largest.
        let probe = step(&controls, 8000, &mut 0).unwrap();
        assert!((probe + 0.000_156_25).abs() < 1e-12, "{probe}");
    }
}

//! The CPU time that other processes use during a measurement. It raises each measured cost.

use crate::stat::snapshot::TICKS_PER_S;
use computer::sys;

/// If other processes use at least this share of the time of all CPUs, %, their use is reported.
pub const WARN_FROM_PERCENT: f64 = 5.0;

/// Time since boot, summed over all CPUs: the whole time, used or idle, and the part that other processes used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Time of all CPUs together, used or idle, s.
    all_s: f64,
    /// CPU time, s, that processes other than this one and its children used, plus the time that a hypervisor took.
    others_s: f64,
}

impl Load {
    /// Reads the CPU times from boot until now; none if `/proc/stat` cannot be read.
    #[must_use]
    pub fn now() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        // These times include those of children.
        let own = sys::cpu_times();
        Self::of(&text, (own.user + own.system).0 as f64 / 1e9)
    }

    /// Reads the CPU times from the text of `/proc/stat`, whose first line has them in ticks: user (which includes the
    /// time of guests), nice, system, idle, iowait, irq, softirq, steal. `own_s` is the CPU time of this process and
    /// its children, s. Returns none if the text has no such line.
    fn of(text: &str, own_s: f64) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<f64> = line.split_whitespace().take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [_, _, _, idle, iowait, ..] = ticks[..] else { return None };
        let all_s = ticks.iter().sum::<f64>() / TICKS_PER_S;
        Some(Self { all_s, others_s: all_s - (idle + iowait) / TICKS_PER_S - own_s })
    }

    /// Returns the share of all CPUs that other processes used since `earlier`, %; none if no time has passed.
    #[must_use]
    pub fn others_since(self, earlier: Self) -> Option<f64> {
        let all_s = self.all_s - earlier.all_s;
        let others_s = (self.others_s - earlier.others_s).max(0.0);
        (all_s > 0.0).then(|| (100.0 * others_s / all_s).min(100.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_neither_idled_nor_was_ours_is_others() {
        let before = Load::of("cpu  100 0 100 1000 0 0 0 0 0 0\ncpu0 1 2\n", 1.0).unwrap();
        // Of 10 s on all CPUs, 6 were idle, 1 was a wait for a disk, and 2 were used by this process.
        let after = Load::of("cpu  250 0 150 1600 100 50 30 20 7 0\n", 3.0).unwrap();
        let share = after.others_since(before).unwrap();
        assert!((share - 10.0).abs() < 1e-9, "{share}");
        assert_eq!(after.others_since(after), None);
        assert_eq!(Load::of("intr 5\n", 0.0), None);
    }
}

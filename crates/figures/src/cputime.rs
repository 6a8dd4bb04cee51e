//! The rows of the group `cputime` of MMTests: times of several kernel builds, and statistics over them.

use crate::figure::{Better, Format, Row};
use crate::usage::CpuTimes;
use machine::Nanos;

/// The times that one kernel build took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Built {
    /// Time from the build's start to its end.
    pub elapsed: Nanos,
    /// CPU time of all the build's tasks.
    pub cpu: CpuTimes,
}

/// A function that computes one figure of a build, such as its CPU time in user mode in seconds.
type Part = fn(&Built) -> f64;

/// Returns the rows of the group `cputime`: for each figure of a build, statistics over all builds. The standard
/// deviation is that of a population: it divides by the number of builds, not by one less.
#[must_use]
pub fn cputime_rows(built: &[Built]) -> Vec<Row> {
    let parts: [(&str, &str, Better, Part); 4] = [
        ("User", "s", Better::Lower, |built| built.cpu.user.as_secs_f64()),
        ("System", "s", Better::Lower, |built| built.cpu.system.as_secs_f64()),
        ("Elapsed", "s", Better::Lower, |built| built.elapsed.as_secs_f64()),
        ("CPU", "%", Better::Neutral, |built| {
            let cpu = (built.cpu.user + built.cpu.system).as_secs_f64();
            (100.0 * cpu / built.elapsed.as_secs_f64().max(1e-9)).trunc()
        }),
    ];
    let mut rows = Vec::new();
    if built.is_empty() {
        return rows;
    }
    for (name, unit, better, part) in parts {
        let values: Vec<f64> = built.iter().map(part).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n;
        let (min, max) = (values.iter().copied().fold(f64::MAX, f64::min), values.iter().copied().fold(0.0, f64::max));
        let statistics =
            [("min", min), ("mean", mean), ("stddev", libm::sqrt(variance)), ("max", max), ("range", max - min)];
        rows.extend(statistics.map(|(statistic, value)| {
            Row::new("cputime", format!("{name} {statistic}"), unit, better, Format::Decimals(2), value)
        }));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_the_population() {
        let built = [100, 104].map(|s| Built {
            elapsed: Nanos::from_secs(s),
            cpu: CpuTimes { user: Nanos::from_secs(3 * s), system: Nanos::from_secs(s) },
        });
        let rows = cputime_rows(&built);
        let value = |name: &str| rows.iter().find(|row| row.name == name).unwrap().value;
        let statistics = ["min", "mean", "stddev", "max", "range"].map(|name| value(&format!("Elapsed {name}")));
        assert_eq!(statistics, [100.0, 102.0, 2.0, 104.0, 4.0]);
        assert_eq!((value("CPU mean"), value("User range")), (400.0, 12.0));
    }
}

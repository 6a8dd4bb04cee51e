//! The sign of a kernel: whether it is better or worse than the first kernel of an experiment. The module also reads
//! the list of changes of sign between scales that are known and explained.

use serde::Deserialize;

use super::record::{Experiment, MainFigure, Record};

/// Smallest change that has a sign, as a share of the first kernel's figure. This equals the smallest effect that
/// counts in docs/fidelity.md.
pub const EFFECT: f64 = 0.05;

/// The verdict of comparing two figures of the main row: that of a kernel, and that of the experiment's first kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The kernel's figure is better than the first kernel's.
    Better,
    /// The kernel's figure is worse than the first kernel's.
    Worse,
    /// The figures do not show which of the two kernels is better.
    None,
}

/// A known change of sign, with the reason why it is not a fault: at one scale, a kernel is better than the
/// experiment's first kernel, and at another scale it is worse.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Name of the experiment.
    pub experiment: String,
    /// Names of the kernels whose comparison with the first kernel changes sign between scales.
    pub kernels: Vec<String>,
    /// Reason for the change, in a sentence.
    pub why: String,
}

impl Change {
    /// Returns all known changes of sign between scales, from `changes.toml`.
    pub fn all() -> Result<Vec<Self>, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Changes {
            #[serde(default)]
            change: Vec<Change>,
        }
        let changes: Changes =
            toml::from_str(include_str!("changes.toml")).map_err(|error| format!("changes.toml: {error}"))?;
        Ok(changes.change)
    }

    /// Returns whether this known change applies to a kernel in an experiment.
    pub fn is_of(&self, experiment: &str, kernel: &str) -> bool {
        self.experiment == experiment && self.kernels.iter().any(|it| it == kernel)
    }
}

/// Returns the change of the median from `base` to `figures`, as a share of the median of `base`; positive if `figures`
/// are better. Returns `None` if either has no figures.
pub fn change(figures: &[&MainFigure], base: &[&MainFigure]) -> Option<f64> {
    let (ours, theirs) = (median(figures)?, median(base)?);
    let change = if ours == theirs { 0.0 } else { (ours - theirs) / theirs.abs() };
    Some(if figures[0].is_higher_better { change } else { -change })
}

/// Returns the sign of the change from `base` to `figures`; `None` if either has no figures. With several seeds, a
/// change has a sign only if all figures of one kernel are above or all are below all figures of the other kernel.
pub fn of(figures: &[&MainFigure], base: &[&MainFigure]) -> Option<Sign> {
    let change = change(figures, base)?;
    let [ours, theirs] = [figures, base].map(range);
    let overlap = figures.len() > 1 && base.len() > 1 && ours.0 <= theirs.1 && theirs.0 <= ours.1;
    Some(match change {
        _ if change.abs() < EFFECT || overlap => Sign::None,
        _ if change > 0.0 => Sign::Better,
        _ => Sign::Worse,
    })
}

/// Returns the names of the kernels that are better than the first kernel at one scale and worse at another.
pub fn kernels_that_change(experiment: &Experiment, record: &Record, scales: &[&str]) -> Vec<String> {
    let mut kernels: Vec<&String> =
        record.lines().filter(|(case, _)| case.experiment == experiment.name).map(|(case, _)| &case.kernel).collect();
    kernels.dedup();
    kernels.sort_unstable();
    kernels.dedup();
    let signs = |kernel: &str| {
        let figures = |kernel: &str, scale: &str| record.figures(&experiment.name, kernel, scale);
        let of_scale = |scale: &&str| of(&figures(kernel, scale), &figures(&experiment.kernels[0], scale));
        scales.iter().filter_map(of_scale).collect::<Vec<_>>()
    };
    let changes = |signs: &[Sign]| signs.contains(&Sign::Better) && signs.contains(&Sign::Worse);
    kernels.into_iter().filter(|kernel| changes(&signs(kernel))).cloned().collect()
}

fn median(figures: &[&MainFigure]) -> Option<f64> {
    let mut values: Vec<f64> = figures.iter().map(|it| it.value).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)?;
    Some(f64::midpoint(values[middle / 2], values[middle.div_ceil(2)]))
}

fn range(figures: &[&MainFigure]) -> (f64, f64) {
    let values = figures.iter().map(|it| it.value);
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scales::record::Case;

    fn found(value: f64, is_higher_better: bool) -> MainFigure {
        MainFigure { value, unit: "s".into(), is_higher_better }
    }

    fn sign(ours: &[f64], theirs: &[f64], is_higher_better: bool) -> Option<Sign> {
        let of_values = |values: &[f64]| values.iter().map(|it| found(*it, is_higher_better)).collect::<Vec<_>>();
        let (ours, theirs) = (of_values(ours), of_values(theirs));
        of(&ours.iter().collect::<Vec<_>>(), &theirs.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_sign_is_of_the_better_direction_and_small_or_overlapping_changes_have_none() {
        assert_eq!(sign(&[110.0], &[100.0], true), Some(Sign::Better));
        assert_eq!(sign(&[110.0], &[100.0], false), Some(Sign::Worse));
        assert_eq!(sign(&[104.9], &[100.0], true), Some(Sign::None));
        assert_eq!(sign(&[110.0, 130.0], &[100.0, 111.0], true), Some(Sign::None));
        assert_eq!(sign(&[112.0, 130.0], &[100.0, 111.0], true), Some(Sign::Better));
        assert_eq!(sign(&[0.0], &[0.0], true), Some(Sign::None));
        assert_eq!(sign(&[1.0], &[0.0], true), Some(Sign::Better));
        assert_eq!(sign(&[], &[1.0], true), None);
    }

    #[test]
    fn who_is_better_at_one_scale_and_worse_at_another_changes() {
        let experiment = Experiment { name: "e".into(), kernels: vec!["base".into()], main_row: "r".into() };
        let mut record = Record::default();
        let figures = [("1/16", 100.0, 120.0, 120.0), ("1/4", 100.0, 98.0, 70.0), ("1", 100.0, 130.0, 101.0)];
        for (scale, base, kept, changed) in figures {
            for (kernel, value) in [("base", base), ("kept", kept), ("changed", changed)] {
                record.note(Case::new("e", kernel, scale, 1), Ok(found(value, true)));
            }
        }
        record.note(Case::new("e", "failed", "1/4", 1), Err("out of memory".into()));
        assert_eq!(kernels_that_change(&experiment, &record, &["1/16", "1/4", "1"]), ["changed"]);
        assert!(kernels_that_change(&experiment, &record, &["1/4", "1"]).is_empty());
    }

    #[test]
    fn known_changes_are_of_experiments_and_kernels_that_there_are() {
        let root = crate::root();
        for Change { experiment, kernels, why } in Change::all().unwrap() {
            assert!(root.join("crates/catalogue/experiments").join(&experiment).is_dir(), "{experiment}");
            let is_known = |kernel: &String| root.join(format!("crates/engine/kernels/{kernel}.toml")).is_file();
            assert!(kernels.iter().all(is_known) && !why.is_empty(), "{experiment}: {kernels:?}");
        }
    }
}

//! Ranking of kernels by the `main_row` of an experiment.
//!
//! A kernel is compared with the best other kernel. The verdict is that of [`figures::verdict`], with its words. With too
//! few seeds only the distance is reported.

use serde::Serialize;
use std::cmp::Ordering;

use figures::figure::{Better, Format};
use figures::statistics::Estimate;
use figures::verdict::{Comparison, Verdict};
use report::{Column, Table};

/// The ranking of the kernels of one experiment by one row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the row (figure) by whose values the kernels are ranked.
    pub row: String,
    /// Unit of the row's values.
    pub unit: String,
    /// The direction in which values of the row are better: higher or lower.
    pub better: Better,
    /// Format of the row's values.
    #[serde(skip)]
    pub format: Format,
    /// Scale of the runs.
    pub scale: String,
    /// Hash over the fingerprints of all simulated runs, in hexadecimal digits; none if no run was simulated.
    pub fingerprint: Option<String>,
    /// The kernels, the best first; kernels with equal figures in the order in which they were named.
    pub places: Vec<Ranked>,
}

/// The place of one kernel in the ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// Name of the kernel.
    pub kernel: String,
    /// The kernel's figure, a median over the seeds with its interval; none if no run of the kernel has the row.
    pub value: Option<Estimate>,
    /// The amount by which the kernel's figure is better than that of the best other kernel, as a share of the other's
    /// figure; negative if it is worse. None if the other kernel's figure is 0, or if one of the two figures is
    /// missing.
    pub ahead: Option<f64>,
    /// The verdict on [`Self::ahead`]: whether the kernel is better or worse than the best other kernel.
    pub verdict: Standing,
    /// Reason why the kernel has no figure, if its runs failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The result of comparing a kernel with the best of the other kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The kernel is better than the best other kernel.
    Better,
    /// The figures do not show which is better: the kernel or the best other kernel.
    NotToldApart,
    /// The kernel is worse than the best other kernel.
    Worse,
    /// There are too few seeds for a verdict, or no other kernel has a figure.
    NotCompared,
    /// The kernel has no figure.
    NoFigure,
}

impl Standing {
    /// Returns the words for the verdict: those of [`Verdict::word`], as far as it has them.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Better => Verdict::Better.word(),
            Self::NotToldApart => Verdict::NotToldApart.word(),
            Self::Worse => Verdict::Worse.word(),
            Self::NotCompared => "not compared",
            Self::NoFigure => "no figure",
        }
    }
}

impl Ranking {
    /// Ranks the kernels in a table by the row that [`main_row`] finds for the word `row`. Returns the ranking.
    ///
    /// # Errors
    /// When no run has this row, or when neither a higher nor a lower value of the row is better.
    pub fn of(table: &Table, row: &str) -> Result<Self, String> {
        let experiment = table.experiment.clone();
        let name = main_row(row, table.rows.iter().map(|it| it.name.as_str()));
        let found = table.rows.iter().find(|it| Some(it.name.as_str()) == name);
        let found = found.ok_or_else(|| format!("experiment `{experiment}`: no run has the row `{row}`"))?;
        // The better value comes first.
        let order: fn(f64, f64) -> Ordering = match found.better {
            Better::Higher => |a, b| b.total_cmp(&a),
            Better::Lower => |a, b| a.total_cmp(&b),
            Better::Neutral => {
                return Err(format!("experiment `{experiment}`: of row `{row}` neither more nor less is better"));
            }
        };
        let before = |a, b| order(a, b) == Ordering::Less;
        let values: Vec<Option<Estimate>> = found.cells.iter().map(|cell| cell.value).collect();
        let place = |(n, value): (usize, &Option<Estimate>)| {
            let others = values.iter().enumerate().filter(|(other, _)| *other != n);
            let others = others.filter_map(|(other, value)| Some((other, (*value)?)));
            let rival = others.reduce(|best, it| if before(it.1.median, best.1.median) { it } else { best });
            let (ahead, verdict) = match (value, rival) {
                (None, _) => (None, Standing::NoFigure),
                (Some(_), None) => (None, Standing::NotCompared),
                (Some(own), Some((other, rival))) => {
                    let more = (rival.median != 0.0).then(|| ((own.median - rival.median) / rival.median).abs());
                    let is_first = before(own.median, rival.median);
                    let comparison = found.compared(other, n).filter(Comparison::is_known);
                    let verdict = match comparison.map(|it| it.verdict) {
                        None => Standing::NotCompared,
                        Some(Verdict::Better) => Standing::Better,
                        Some(Verdict::Worse) => Standing::Worse,
                        Some(Verdict::Other | Verdict::NotToldApart) => Standing::NotToldApart,
                    };
                    (more.map(|more| if is_first { more } else { -more + 0.0 }), verdict)
                }
            };
            let Column { id, .. } = &table.columns[n];
            Ranked { kernel: id.clone(), value: *value, ahead, verdict, failed: table.columns[n].failure() }
        };
        let mut places: Vec<Ranked> = values.iter().enumerate().map(place).collect();
        places.sort_by(|a, b| match (a.value, b.value) {
            (Some(a), Some(b)) => order(a.median, b.median),
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
        Ok(Self {
            experiment,
            row: found.name.clone(),
            unit: found.unit.clone(),
            better: found.better,
            format: found.format,
            scale: table.scale.to_string(),
            fingerprint: table.fingerprint.map(|print| format!("{print:016x}")),
            places,
        })
    }

    /// Returns the place of a kernel; none if the ranking does not contain the kernel.
    #[must_use]
    pub fn place(&self, kernel: &str) -> Option<&Ranked> {
        self.places.iter().find(|place| place.kernel == kernel)
    }

    /// Returns the place of the best kernel other than `kernel`; none if the ranking contains no other kernel.
    #[must_use]
    pub fn rival(&self, kernel: &str) -> Option<&Ranked> {
        self.places.iter().find(|place| place.kernel != kernel)
    }
}

/// Returns the name of the row that an experiment's `main_row` means. This is the row with the name `word`. If `word`
/// ends with `-`, it stands for the last row with this prefix: names may contain sizes, which depend on the scale.
pub fn main_row<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let is_beginning = word.ends_with('-');
    names.filter(|name| *name == word || is_beginning && name.starts_with(word)).last()
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::samples::{head, ops};

    fn table(values: &[&[f64]]) -> Table {
        let names = ["a", "b", "c", "d"];
        let seeds = values.iter().map(|seeds| seeds.len()).max().unwrap();
        let runs: Vec<_> =
            values.iter().map(|seeds| seeds.iter().map(|value| vec![ops("Ops", *value)]).collect()).collect();
        Table::of_runs(head(&names[..values.len()], seeds as u64), &runs, None)
    }

    fn verdicts(values: &[&[f64]]) -> Vec<(String, Standing)> {
        let ranking = Ranking::of(&table(values), "Ops").unwrap();
        ranking.places.into_iter().map(|place| (place.kernel, place.verdict)).collect()
    }

    #[test]
    fn the_best_comes_first_and_is_ahead_of_the_next() {
        let found = verdicts(&[&[100.0], &[200.0], &[150.0]]);
        assert_eq!(
            found,
            ["b", "c", "a"].map(|kernel| (kernel.into(), Standing::NotCompared)),
            "one seed tells no more"
        );
        let ranking = Ranking::of(&table(&[&[100.0], &[200.0]]), "Ops").unwrap();
        assert_eq!((ranking.places[0].ahead, ranking.places[1].ahead), (Some(1.0), Some(-0.5)));
        let from_nothing = Ranking::of(&table(&[&[0.0], &[200.0]]), "Ops").unwrap();
        assert_eq!((from_nothing.places[0].ahead, from_nothing.places[0].verdict), (None, Standing::NotCompared));
        assert_eq!(ranking.rival("b").map(|place| place.kernel.as_str()), Some("a"));
    }

    #[test]
    fn verdicts_have_the_words_of_all_reports() {
        let word =
            |values: &[&[f64]]| verdicts(values).into_iter().map(|(_, verdict)| verdict.word()).collect::<Vec<_>>();
        let base = [90.0, 100.0, 110.0, 95.0, 105.0, 115.0];
        assert_eq!(word(&[&base, &base.map(|it| it + 0.5)]), ["better", "worse"], "every pair says so");
        assert_eq!(word(&[&base, &[91.0, 99.0, 111.0, 94.0, 106.0, 114.0]]), ["not told apart", "not told apart"]);
        assert_eq!(word(&[&base[..3], &[900.0, 901.0, 902.0]]), ["not compared", "not compared"]);
    }

    #[test]
    fn a_main_row_is_a_name_or_the_last_that_begins_so() {
        let names = ["Ops a-0M", "Ops a-10M", "Ops", "Ops b"];
        let of = |word| main_row(word, names.into_iter());
        assert_eq!([of("Ops"), of("Ops a-"), of("Ops a"), of("")], [Some("Ops"), Some("Ops a-10M"), None, None]);
    }

    #[test]
    fn who_has_no_figure_comes_last_and_an_unknown_row_is_told() {
        let found = verdicts(&[&[], &[200.0]]);
        assert_eq!(found, [("b".into(), Standing::NotCompared), ("a".into(), Standing::NoFigure)]);
        assert!(Ranking::of(&table(&[&[1.0]]), "Nothing").unwrap_err().contains("no run has the row `Nothing`"));
    }
}

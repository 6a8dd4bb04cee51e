//! The tables of docs/scales.md, in Markdown.

use super::{
    SCALES,
    record::{Case, Experiment, Record},
    sign::{Change, Sign, change, kernels_that_change, of},
};

/// Returns a table with a line for each experiment: how many of its runs ended well, how many kernels have one sign
/// over all scales (better or worse than the first kernel), and which kernels have different signs at different scales.
pub fn summary(all: &[Experiment], record: &Record, changes: &[Change]) -> String {
    let mut text = line([
        "experiment",
        "main row",
        "first kernel",
        "runs that ended",
        "kernels with one sign",
        "kernels without a sign",
        "changes of sign",
    ]);
    text.push_str(&format!("|{}\n", "---|".repeat(7)));
    for experiment in all {
        let name = &experiment.name;
        let of_it = || record.lines().filter(|(case, _)| case.experiment == *name && case.seed == 1);
        let (ended, runs) = (of_it().filter(|(_, found)| found.is_ok()).count(), of_it().count());
        let changing = kernels_that_change(experiment, record, &SCALES);
        let kernels = kernels(experiment, record);
        let has_sign = |kernel: &String| {
            let signs = SCALES.map(|scale| sign(experiment, record, kernel, scale));
            signs.iter().any(|sign| matches!(sign, Some(Sign::Better | Sign::Worse)))
        };
        let with_sign = kernels.iter().filter(|kernel| has_sign(kernel) && !changing.contains(kernel)).count();
        let without = kernels.len() - with_sign - changing.len();
        let mut told: Vec<(Vec<&str>, &str)> = Vec::new();
        for kernel in &changing {
            let known = changes.iter().find(|change| change.is_of(name, kernel));
            let why = known.map_or("unknown why", |change| &change.why);
            match told.iter_mut().find(|(_, known)| *known == why) {
                Some((kernels, _)) => kernels.push(kernel),
                None => told.push((vec![kernel], why)),
            }
        }
        let told = told.iter().map(|(kernels, why)| format!("`{}`: {why}", kernels.join("`, `")));
        let told = told.collect::<Vec<_>>().join("; ");
        text.push_str(&line([
            format!("`{name}`"),
            experiment.main_row.trim_end_matches('-').to_owned(),
            format!("`{}`", experiment.kernels[0]),
            format!("{ended} of {runs}"),
            with_sign.to_string(),
            without.to_string(),
            told,
        ]));
    }
    text
}

/// Returns a table for each experiment, as Markdown. The table shows the main row at each scale: the first kernel's
/// value, and each other kernel's change from it. The reasons for failed runs follow the table.
pub fn figures(all: &[Experiment], record: &Record) -> String {
    let table = |experiment: &Experiment| {
        let mut table = line(["kernel"].into_iter().chain(SCALES));
        table.push_str(&format!("|{}\n", "---|".repeat(1 + SCALES.len())));
        let mut reasons: Vec<&str> = Vec::new();
        for kernel in [&experiment.kernels[0]].into_iter().chain(kernels(experiment, record)) {
            let cells = SCALES.map(|scale| match record.of(&Case::new(&experiment.name, kernel, scale, 1)) {
                None => String::new(),
                Some(Ok(found)) if *kernel == experiment.kernels[0] => {
                    format!("{} {}", figure(found.value), found.unit)
                }
                Some(Ok(_)) => told(experiment, record, kernel, scale),
                Some(Err(why)) => {
                    let known = reasons.iter().position(|reason| *reason == why);
                    let n = known.unwrap_or_else(|| {
                        reasons.push(why);
                        reasons.len() - 1
                    });
                    format!("failed ({})", n + 1)
                }
            });
            table.push_str(&line([format!("`{kernel}`")].into_iter().chain(cells)));
        }
        let reasons = reasons.iter().enumerate().map(|(n, why)| format!("\n({}) {why}\n", n + 1)).collect::<String>();
        format!("<details><summary>{}</summary>\n\n{table}{reasons}\n</details>\n", experiment.name)
    };
    all.iter().map(table).collect::<Vec<_>>().join("\n")
}

/// Returns the kernels of an experiment except the first, sorted by name.
fn kernels<'r>(experiment: &Experiment, record: &'r Record) -> Vec<&'r String> {
    let of_it =
        record.lines().filter(|(case, _)| case.experiment == experiment.name && case.kernel != experiment.kernels[0]);
    let mut kernels: Vec<&String> = of_it.map(|(case, _)| &case.kernel).collect();
    kernels.sort_unstable();
    kernels.dedup();
    kernels
}

fn sign(experiment: &Experiment, record: &Record, kernel: &str, scale: &str) -> Option<Sign> {
    let figures = |kernel: &str| record.figures(&experiment.name, kernel, scale);
    of(&figures(kernel), &figures(&experiment.kernels[0]))
}

/// Returns the change from the figure of the experiment's first kernel to the figure of the kernel `kernel`, percent,
/// as text. The text is in brackets if the figures do not show which kernel is better. It is `ended` if one of the
/// kernels has no figure.
fn told(experiment: &Experiment, record: &Record, kernel: &str, scale: &str) -> String {
    let figures = |kernel: &str| record.figures(&experiment.name, kernel, scale);
    let change = change(&figures(kernel), &figures(&experiment.kernels[0]));
    match (change.map(|change| format!("{:+.0} %", 100.0 * change)), sign(experiment, record, kernel, scale)) {
        (Some(told), Some(Sign::None)) => format!("({})", told.replace("-0 %", "+0 %")),
        (Some(told), _) => told,
        (None, _) => "ended".into(),
    }
}

/// Returns a figure as text: a whole number from 100 up, otherwise two decimals.
fn figure(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn line(cells: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let cells = cells.into_iter().map(|cell| format!(" {} |", cell.as_ref()).replace("  ", " "));
    format!("|{}\n", cells.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scales::record::MainFigure;

    #[test]
    fn tables_tell_changes_failures_and_known_reasons() {
        let experiment = Experiment { name: "e".into(), kernels: vec!["base".into()], main_row: "Ops x-".into() };
        let mut record = Record::default();
        let mut note = |kernel: &str, scale: &str, value: f64| {
            record.note(
                Case::new("e", kernel, scale, 1),
                Ok(MainFigure { value, unit: "s".into(), is_higher_better: false }),
            );
        };
        for (kernel, small, full) in [("base", 100.0, 100.0), ("k1", 50.0, 99.9), ("k2", 200.0, 50.0)] {
            note(kernel, "1/16", small);
            note(kernel, "1", full);
        }
        record.note(Case::new("e", "k3", "1", 1), Err("out of memory".into()));
        let all = [experiment];
        let known = Change { experiment: "e".into(), kernels: vec!["k2".into()], why: "it is small".into() };
        let summary = summary(&all, &record, &[known]);
        assert!(summary.ends_with("| `e` | Ops x | `base` | 6 of 7 | 1 | 1 | `k2`: it is small |\n"), "{summary}");
        let figures = figures(&all, &record);
        let lines =
            ["| `base` | 100 s | | | 100 s |", "| `k1` | +50 % | | | (+0 %) |", "| `k2` | -100 % | | | +50 % |"];
        assert!(lines.iter().all(|line| figures.contains(line)), "{figures}");
        assert!(figures.contains("| `k3` | | | | failed (1) |") && figures.contains("(1) out of memory"), "{figures}");
    }
}

//! The verb `ablate`: applies each difference between two kernels alone, and reverts each alone.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{End, ListFormat, compare, options::ExperimentOptions, output, with_command};
use catalogue::difference::Difference;
use figures::statistics;
use kit::{interrupt, shown};
use report::csv::{self, field};
use report::grid::{Cell, Grid, Look, Tone};
use report::html::{Page, Part, Section};
use report::{Column, grid, rows, text};
use study::ablation::{Ablation, Change, Effect, Range, RowAblation, percent};
use study::bars::Bars;
use study::pictures;
use study::plan::{Plan, Request, Set};

/// Arguments of `highwater ablate`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A name from `highwater list`, or a file
    experiment: String,
    /// The first kernel, a name or a file
    #[arg(long, value_name = "KERNEL")]
    from: String,
    /// The second kernel, a name or a file
    #[arg(long, value_name = "KERNEL")]
    to: String,
    #[command(flatten)]
    options: ExperimentOptions,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: ListFormat,
}

/// The report of `highwater ablate` as JSON.
#[derive(Serialize)]
struct Report<'a> {
    experiment: &'a str,
    machine: &'a str,
    scale: String,
    seeds: &'a [u64],
    from: &'a str,
    to: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    failed: BTreeMap<&'a str, String>,
    rows: &'a [RowAblation],
}

/// Runs both kernels, the first kernel with each single difference applied, and the second kernel with each single
/// difference reverted. Reports the effect of each difference.
pub fn run(Arguments { experiment, from, to, options, format }: &Arguments) -> Result<(), End> {
    let words = &options.rows;
    let request = options.request(experiment, &[]);
    check(&request).map_err(End::Usage)?;
    let output = options.output.open(*format == ListFormat::Html)?;
    let plot = options.picture.open()?;
    // A value that `--set` gives for the kernels applies to both, so it is no difference between them.
    let (of_kernels, set): (Vec<Set>, Vec<Set>) = request.set.iter().cloned().partition(Set::is_of_kernel);
    let changes: String = of_kernels.iter().map(|set| format!("+{}={}", set.key, set.values[0])).collect();
    let [from, to] = [from, to].map(|kernel| format!("{kernel}{changes}"));
    let ablation = Ablation::new(&from, &to)?;
    let plan = Plan::new(&Request { kernels: ablation.kernels().to_vec(), set, ..request }, grounds::find)?;
    if let Some(names) = plan.row_names() {
        if words.is_empty() {
            let message = format!("--rows is missing: say which rows to explain; {}", rows::listed(&names));
            return Err(End::Usage(message));
        }
        rows::check(&names, words).map_err(End::Usage)?;
    }
    if options.output.is_dry(&plan.title(), &[&plan], true)? {
        return Ok(());
    }
    let (mut table, failures) = {
        let bars = Bars::new(&plan.title(), plan.count());
        let results = plan.run(options.seeds.threads(), &bars);
        (results.table, results.failures)
    };
    // Shares are parts of the distance between the two kernels, so both must have run.
    if table.columns[..2].iter().any(Column::has_failed) || !failures.is_empty() && interrupt::is_set() {
        return Err(compare::failed(&failures));
    }
    super::warn_of(rows::keep(&mut table, words).unwrap_or_else(Some));
    let found = ablation.of_table(&table);
    let svg = plot.map(|file| (file, pictures::ablation(&found, &from, &to, &table).draw()));
    let look = if output.is_none() { Look::of_stdout() } else { Look::default() };
    let text = match format {
        ListFormat::Text => {
            let rows: Vec<String> = found.iter().map(|row| render(row, &from, &to, look)).collect();
            format!("{}{}", rows.join("\n"), text::foot(&table, look))
        }
        ListFormat::Markdown | ListFormat::Html => {
            let picture = Part::Picture(pictures::ablation(&found, &from, &to, &table).draw());
            let rows = found.iter().map(|row| section(row, &from, &to));
            let sections = rows.chain([Section::new("Picture", vec![picture])]).collect();
            let title = format!("{}: from {from} to {to}", table.experiment);
            let about = std::iter::once(table.footer()).chain(table.remarks()).collect();
            let page = Page { title, about, sections };
            match format {
                ListFormat::Markdown => page.markdown(),
                _ => with_command(page).render(),
            }
        }
        ListFormat::Csv => {
            table.notes.iter().for_each(|note| shown::warn(note));
            csv::text(&FIELDS, &found.iter().flat_map(fields).collect::<Vec<_>>())
        }
        ListFormat::Json => {
            let (experiment, machine, seeds) = (&table.experiment, &table.machine, &table.seeds);
            let report = Report {
                experiment,
                machine,
                scale: table.scale.to_string(),
                seeds,
                from: &from,
                to: &to,
                failed: table.columns.iter().filter_map(|it| Some((it.id.as_str(), it.failure()?))).collect(),
                rows: &found,
            };
            shown::json(&report)
        }
    };
    let mut losses = output::Losses::default();
    losses.note(output::with_picture(svg, || output::report(output, |out, _| out.write_all(text.as_bytes()))));
    losses.note(compare::ended(&failures));
    losses.end()
}

/// Checks that no option makes several columns of a kernel, because `ablate` compares one column of each kernel:
/// `--set` must give a key one value, and `--on` must name one ground that runs kernel files.
fn check(request: &Request) -> Result<(), String> {
    if let Some(set) = request.set.iter().find(|set| set.values.len() > 1) {
        return Err(format!("--set {}: `ablate` takes one value for a key, not {}", set.key, set.values.len()));
    }
    match request.grounds.as_slice() {
        [ground] if grounds::running_kernel(*ground).is_some() => Err(format!(
            "--on {ground}: `ablate` changes choices of kernel files, which the running kernel does not have"
        )),
        [_] => Ok(()),
        grounds => Err(format!("--on: `ablate` runs on one ground, not on {}", grounds.len())),
    }
}

/// Returns the results for one row as text. The text has a line for each difference, the one with the largest effect
/// first. Below them it lists the sources (patches or book sections) that kernel files cite for the differences that
/// change the row.
fn render(row: &RowAblation, from: &str, to: &str, look: Look) -> String {
    let (title, figures, sources) = grids(row, from, to);
    let sources = if sources.lines.is_empty() { String::new() } else { format!("\n{}", sources.render(look)) };
    grid::wrapped(&title, look) + &figures.render(look) + &sources
}

/// Returns the results for one row as a section of a page.
fn section(row: &RowAblation, from: &str, to: &str) -> Section {
    let (title, figures, sources) = grids(row, from, to);
    let mut parts = vec![Part::Words(title), Part::table("Differences", figures)];
    if !sources.lines.is_empty() {
        parts.push(Part::folded("Sources", sources));
    }
    Section::new(row.row.clone(), parts)
}

/// Names of the fields in a line of CSV.
const FIELDS: [&str; 17] = [
    "row",
    "unit",
    "from",
    "to",
    "key",
    "old",
    "new",
    "alone",
    "alone_share",
    "alone_verdict",
    "alone_failed",
    "undone",
    "undone_share",
    "undone_verdict",
    "undone_failed",
    "changes_it",
    "source",
];

/// Returns the results for one row as lines of CSV, which have the [`FIELDS`]: a line for each difference, the one with
/// the largest effect first.
fn fields(row: &RowAblation) -> Vec<Vec<String>> {
    let verdict = |change: Option<Change>| field(change.map(|it| it.verdict.word()));
    let line = |effect: &&Effect| {
        let Difference { key, from, to, source, place } = &effect.difference;
        let source = source.as_ref().or(place.as_ref());
        let fields: [String; FIELDS.len()] = [
            row.row.clone(),
            row.unit.clone(),
            row.from.to_string(),
            row.to.to_string(),
            key.clone(),
            from.clone(),
            to.clone(),
            field(effect.alone),
            field(effect.alone_share),
            verdict(effect.alone_change),
            field(effect.alone_failed.as_ref()),
            field(effect.undone),
            field(effect.undone_share),
            verdict(effect.undone_change),
            field(effect.undone_failed.as_ref()),
            row.is_changed_by(effect).to_string(),
            field(source),
        ];
        fields.to_vec()
    };
    row.farthest_first().iter().map(line).collect()
}

/// Returns the three parts of the results for a row: a text on the gap between the two kernels, a table of the
/// differences, and a table of the sources (patches or book sections) that kernel files cite for the differences that
/// change the row.
fn grids(row: &RowAblation, from: &str, to: &str) -> (String, Grid, Grid) {
    let show = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| row.format.show(value));
    let share = |share: Option<f64>| share.map_or_else(|| "-".into(), |share| format!("{:.0}%", percent(share)));
    let name = |effect: &Effect| format!("{}={}", effect.difference.key, effect.difference.to);
    let or_failed = |value: Option<f64>, failed: &Option<String>| match failed {
        Some(failed) if value.is_none() => Cell::new(failed, Tone::Worse),
        _ => Cell::from(show(value)),
    };
    let interval = |change: &Change| format!("[{}, {}]", row.format.show(change.low), row.format.show(change.high));
    let range = |ends: Option<Range>| {
        ends.map_or_else(String::new, |[low, high]| format!("[{}, {}]", row.format.show(low), row.format.show(high)))
    };
    let worth = |change: Option<Change>| {
        change.map_or_else(Cell::default, |it| {
            let word = if it.verdict.is_told_apart() { format!("{} ", it.verdict.word()) } else { String::new() };
            Cell::new(word + &interval(&it), text::tone(it.verdict))
        })
    };
    let lines = |effect: &&Effect| -> Vec<Vec<Cell>> {
        let Effect { alone, alone_share, undone, undone_share, alone_failed, undone_failed, .. } = effect;
        let figures = [
            or_failed(*alone, alone_failed),
            share(*alone_share).into(),
            or_failed(*undone, undone_failed),
            share(*undone_share).into(),
        ];
        let mut lines = vec![[name(effect).into()].into_iter().chain(figures).collect()];
        if effect.alone_change.is_some() || effect.undone_change.is_some() {
            let label = Cell::new("  change", Tone::Faint);
            lines.push(vec![label, worth(effect.alone_change), Cell::default(), worth(effect.undone_change)]);
        } else if effect.alone_range.is_some() || effect.undone_range.is_some() {
            let [alone, undone] = [effect.alone_range, effect.undone_range].map(|it| Cell::new(range(it), Tone::Faint));
            lines.push(vec![Cell::new("  range", Tone::Faint), alone, Cell::default(), undone]);
        }
        lines
    };
    let effects = row.farthest_first();
    let unit = if row.unit.is_empty() { String::new() } else { format!(" {}", row.unit) };
    // If a verdict is known, the range is left out: the verdict's interval says more.
    let spread = |ends: Option<Range>| match row.change {
        None if ends.is_some() => format!(" {}", range(ends)),
        _ => String::new(),
    };
    let [old, new] = [(row.from, row.from_range), (row.to, row.to_range)]
        .map(|(value, ends)| format!("{}{unit}{}", show(Some(value)), spread(ends)));
    let gap = if row.has_gap() { "" } else { "; less than 1 % apart, so there is no gap to explain" };
    let apart = row.change.as_ref().map_or_else(String::new, |it| {
        let (word, coverage) = (it.verdict.word(), statistics::percent(it.coverage));
        format!("; {word} ({coverage} interval of the difference {})", interval(it))
    });
    let title = format!("{}: {old} with {from}, {new} with {to}{apart}{gap}", row.row);
    let head = |words: &[&str]| words.iter().map(|word| Cell::new(*word, Tone::Heading)).collect::<Vec<_>>();
    let figures = Grid {
        keys: 5,
        head: head(&["difference", "alone", "share", "undone", "share"]),
        lines: effects.iter().flat_map(lines).collect(),
        texts: vec![0],
    };
    let moving = effects.iter().filter(|effect| row.is_changed_by(effect));
    let source = |effect: &&Effect| {
        let Difference { source, place, .. } = &effect.difference;
        let source = source.as_ref().or(place.as_ref()).cloned().unwrap_or_default();
        vec![Cell::from(effect.difference.key.clone()), Cell::new(source, Tone::Faint)]
    };
    let sources = Grid {
        keys: 2,
        head: head(&["what changes it", "source"]),
        lines: moving.map(source).collect(),
        texts: vec![0, 1],
    };
    (title, figures, sources)
}

#[cfg(test)]
mod tests {
    use super::*;
    use figures::figure::Format;

    #[test]
    fn what_goes_farthest_comes_first() {
        let effect = |key: &str, alone: f64, undone: f64| Effect {
            difference: Difference {
                key: key.into(),
                from: "a".into(),
                to: "b".into(),
                source: Some("a patch".into()),
                place: None,
            },
            alone: Some(alone),
            alone_share: Some(alone / 10.0),
            undone: Some(undone),
            undone_share: Some(1.0 - undone / 10.0),
            alone_range: None,
            undone_range: None,
            alone_change: None,
            undone_change: None,
            alone_failed: None,
            undone_failed: None,
        };
        let row = RowAblation {
            row: "Ops".into(),
            unit: "ops/s".into(),
            format: Format::Decimals(0),
            from: 0.0,
            to: 10.0,
            from_range: None,
            to_range: None,
            change: None,
            effects: vec![effect("lru.x", 0.0, 10.0), effect("lru.y", 2.0, 1.0)],
        };
        let text = render(&row, "old", "new", Look::default());
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0].join(" "), "Ops: 0 ops/s with old, 10 ops/s with new");
        assert_eq!(lines[2].join(" "), "lru.y=b 2 20% 1 90%");
        assert_eq!(lines[3].join(" "), "lru.x=b 0 0% 10 0%");
        assert_eq!(lines[5].join(" "), "what changes it source");
        assert_eq!(lines[6..].iter().map(|line| line.join(" ")).collect::<Vec<_>>(), ["lru.y a patch"]);
    }
}

//! The verb `report`: shows saved reports side by side.

use super::{End, Form, command, options::parse_word, output, saved};
use catalogue::find;
use engine::kernel::Kernel;
use figures::series;
use figures::series::RunSeries;
use observe::doctor::{given, source};
use observe::of_recording;
use recordings::formats;
use report::html::{Page, Part, Section, tables};
use report::percent::PercentRule;
use report::{ReportFormat, Show, Table, rows};
use std::path::PathBuf;
use study::page;

/// Arguments of `highwater report`.
#[derive(clap::Args)]
pub struct Arguments {
    /// JSON of `run`, `compare`, `stat`, `results` or `import`: the first column of the first file is the baseline. For
    /// the charts of a page, also CSV of --series, folded stacks of --profile, and recordings of other tools, such as
    /// the text of `vmstat 1` or `sar`
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The form of the report
    #[arg(long, value_enum, default_value = "html")]
    format: ReportFormat,
    /// Write the report to a file instead of standard output
    #[arg(long, short, visible_alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show only rows whose names contain one of these words; capitals do not matter, and `.` is any character
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    rows: Vec<String>,
    /// Show all rows. By default (without --all and --rows), a table of one experiment shows the answer and the rows to
    /// look at first
    #[arg(long)]
    all: bool,
    /// Show published figures under the rows that have them
    #[arg(long)]
    published: bool,
    /// The rule by which percentages in brackets are computed
    #[arg(long, value_enum, value_name = "RULE", default_value_t)]
    percent: PercentRule,
}

/// The contents of a saved file: a table, counters over time, or folded stacks.
enum Saved {
    Table(Table),
    Series(Vec<RunSeries>),
    Stacks(String),
}

/// Reads the files and shows them as one report.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let mut found = Vec::new();
    for path in &arguments.files {
        let (name, text) = saved::text(path)?;
        // A report or a series may be pasted with other text around it.
        let text = match is_plain(&text) {
            true => text,
            false => given::pasted_report(&text).map_or(text, |(_, report)| report),
        };
        let told = |why: String| End::Usage(format!("{}: {why}", path.display()));
        if series::is_it(&text) {
            let file = path.display().to_string();
            let runs = series::read(&file, &text).map_err(|wrong| End::Usage(wrong.to_string()))?;
            found.push((name, Saved::Series(runs)));
        } else if is_stacks(&text) {
            check_depth(&text).map_err(|(line, why)| End::Usage(format!("{}:{line}: {why}", path.display())))?;
            found.push((name, Saved::Stacks(text)));
        } else if !source::is_it(&text) {
            let file = path.display().to_string();
            let document = formats::read(&file, &text, None).map_err(|wrong| End::Usage(wrong.to_string()))?;
            let series = |recording| (recording, of_recording::series(recording));
            let runs: Vec<RunSeries> = document
                .recordings()
                .filter(|recording| !recording.samples.is_empty())
                .map(series)
                .map(|(recording, series)| RunSeries { column: format!("{}, {name}", recording.tool), seed: 1, series })
                .collect();
            if runs.is_empty() {
                let what = "it tells of a moment alone, or of disks alone: `highwater doctor` reads it";
                return Err(End::Usage(format!("{file}: {what}")));
            }
            found.push((name, Saved::Series(runs)));
        } else {
            let tables = report::saved::read_all(&text).map_err(told)?;
            let names = match tables.len() {
                1 => vec![name],
                _ => report::saved::names(&tables).iter().map(|of_it| format!("{name}: {of_it}")).collect(),
            };
            found.extend(names.into_iter().zip(tables.into_iter().map(Saved::Table)));
        }
    }
    let (mut tables, mut others) = (Vec::new(), Vec::new());
    for (name, saved) in found {
        match saved {
            Saved::Table(table) => tables.push((name, table)),
            other => others.push((name, other)),
        }
    }
    if let Some((name, _)) = others.first().filter(|_| arguments.format != ReportFormat::Html) {
        return Err(End::Usage(format!("{name}: only --format html draws series and profiles")));
    }
    let is_of_one = tables.iter().all(|(_, table)| table.experiment == tables[0].1.experiment);
    let table = side_by_side(tables);
    let mut sections = Vec::new();
    if let Some(table) = &table {
        sections.extend(kernels(table));
        sections.extend(machines(table));
    }
    let Arguments { published, percent, .. } = *arguments;
    // An answer is about one experiment.
    let is_short = is_of_one && arguments.rows.is_empty() && !arguments.all;
    let show = Show { published, percent, is_short, ..Show::default() };
    let form = Form::open(arguments.format, arguments.output.as_deref())?;
    match table {
        Some(mut table) => {
            super::warn_of(rows::keep(&mut table, &arguments.rows).map_err(End::Usage)?);
            form.write(&table, show, |show| page(Some(&table), &others, &sections, show))
        }
        None => output::report(form.file, |out, look| {
            out.write_all(page(None, &others, &sections, Show { look, ..show }).render().as_bytes())
        }),
    }
}

/// Returns whether a text is one of three kinds of saved output, without other text before it: a report (JSON),
/// counters over time (CSV), or folded stacks.
fn is_plain(text: &str) -> bool {
    source::is_it(text) || is_stacks(text)
}

/// Returns whether a text is folded stacks: each of its first 20 lines is a path of calls and a time.
fn is_stacks(text: &str) -> bool {
    let is_stack = |line: &str| {
        line.rsplit_once(' ').is_some_and(|(path, time)| path.contains(';') && time.parse::<u64>().is_ok())
    };
    text.lines().next().is_some() && text.lines().take(20).all(is_stack)
}

/// Largest number of calls in a stack. Deeper stacks cannot be drawn legibly.
const DEPTH_MAX: usize = 500;

/// Checks that each of the folded stacks in a text can be drawn.
///
/// # Errors
/// When a stack has more than [`DEPTH_MAX`] calls. The error is the number of the stack's line, counted from 1, and a
/// message.
fn check_depth(text: &str) -> Result<(), (usize, String)> {
    let deep = text.lines().position(|line| line.split(';').count() > DEPTH_MAX);
    deep.map_or(Ok(()), |n| Err((n + 1, format!("expected at most {DEPTH_MAX} calls, one within the other"))))
}

/// Joins the columns of all tables into one table. If there are several tables, the names of their files become part of
/// the column names. Returns none if there is no table.
fn side_by_side(mut tables: Vec<(String, Table)>) -> Option<Table> {
    if tables.is_empty() {
        return None;
    }
    if tables.len() == 1 {
        return tables.pop().map(|(_, table)| table);
    }
    let mut experiments: Vec<String> = Vec::new();
    let mut machines: Vec<String> = Vec::new();
    for (_, table) in &tables {
        for (known, name) in [(&mut experiments, &table.experiment), (&mut machines, &table.machine)] {
            if !known.contains(name) {
                known.push(name.clone());
            }
        }
    }
    let first = &tables[0].1;
    let mut all = Table {
        experiment: experiments.join(", "),
        machine: machines.join(", "),
        seeds: Vec::new(),
        fingerprint: None,
        columns: Vec::new(),
        notes: Vec::new(),
        rows: Vec::new(),
        histograms: Vec::new(),
        ..first.clone()
    };
    for (name, table) in tables {
        report::saved::join(&mut all, table, &name);
    }
    Some(all)
}

/// Returns a section on the choices in which the table's kernels differ. Kernels whose names this program does not know
/// are left out.
fn kernels(table: &Table) -> Option<Section> {
    let known: Vec<(&str, Kernel)> = table
        .columns
        .iter()
        .filter(|column| column.ground != "linux")
        .filter_map(|column| {
            let of_kernel =
                column.set.iter().filter(|(key, _)| !key.starts_with("params.") && !key.starts_with("machine."));
            let word = of_kernel.fold(column.kernel.clone(), |word, (key, value)| format!("{word}+{key}={value}"));
            Some((column.id.as_str(), find::kernel(&word).ok()?))
        })
        .collect();
    let pairs: Vec<(&str, &Kernel)> = known.iter().map(|(id, kernel)| (*id, kernel)).collect();
    page::differences_of(&pairs)
}

/// Returns the page's section on the machines of the table. Machines whose names this program does not know are left
/// out. Returns none if no machine is left.
fn machines(table: &Table) -> Option<Section> {
    let known = table.machine.split(", ").filter_map(|name| find::machine(name).ok());
    let parts: Vec<Part> = known.map(|machine| page::machine(&machine)).collect();
    (!parts.is_empty()).then(|| Section::new("Machine", parts))
}

fn page(table: Option<&Table>, others: &[(String, Saved)], sections: &[Section], show: Show) -> Page {
    let mut page = match table {
        Some(table) => tables::page(table, show),
        None => Page { title: "highwater report".into(), ..Page::default() },
    };
    for (name, saved) in others {
        page.sections.extend(match saved {
            Saved::Series(runs) => page::of_series(&format!("Over time: {name}"), runs),
            Saved::Stacks(text) => page::of_stacks(text).map(|section| {
                let title = format!("{}: {name}", section.title);
                Section { title, ..section }
            }),
            Saved::Table(_) => None,
        });
    }
    page.sections.extend(sections.iter().cloned());
    page.sections.push(Section::new("Command", vec![Part::Command(command())]));
    page
}

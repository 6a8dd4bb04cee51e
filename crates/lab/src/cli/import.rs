//! The verb `import`: makes a report of logs of MMTests, or of texts of other tools.

use super::{End, Form, options::parse_word, output};
use figures::series;
use kit::shown::warn;
use observe::import;
use report::html::{Part, Section, tables};
use report::{ReportFormat, Show, rows};
use std::path::{Path, PathBuf};
use study::page;

/// Arguments of `highwater import`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A directory of MMTests: a folder for each kernel with iter-*/tests-timestamp, or files tests-timestamp-KERNEL.
    /// Or pasted texts of other tools, which become a column for each recording (docs/doctor-texts.md lists the
    /// formats); `-` is standard input
    #[arg(required = true, value_name = "DIR|FILE")]
    paths: Vec<PathBuf>,
    /// The test to read, if the logs are of several tests
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
    /// The runs that become columns, in this order; the first is the baseline [default: all runs, in the order of their
    /// names]
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    kernels: Vec<String>,
    /// The form of the report
    #[arg(long, value_enum, default_value = "json")]
    format: ReportFormat,
    /// Write the report to a file instead of standard output; a directory with --format mmtests
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the counters over time of the monitor proc-vmstat, as CSV in the form of --series
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Show only rows whose names contain one of these words; capitals do not matter, and `.` is any character
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    rows: Vec<String>,
}

/// Reads the logs or texts, and writes their report.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let form = Form::open(arguments.format, arguments.output.as_deref())?;
    let over_time = output::open("--series", arguments.series.as_deref())?;
    let import::Imported { mut table, series: runs, warnings } = imported(arguments).map_err(End::Usage)?;
    warnings.iter().for_each(|warning| warn(warning));
    super::warn_of(rows::keep(&mut table, &arguments.rows).map_err(End::Usage)?);
    if over_time.is_some() && runs.is_empty() {
        return Err(End::Usage(format!(
            "--series: no log of the monitor `proc-vmstat` below {}, and no recording: nothing is known over time",
            arguments.paths[0].display()
        )));
    }
    // Both files come from the same logs, so either both of them are replaced or neither.
    let over_time = over_time.map(|file| file.prepare(|out| series::write(&runs, out))).transpose()?;
    let shown = form.write(&table, Show::default(), |show| {
        let mut page = tables::page(&table, show);
        page.sections.extend(page::of_series("Over time", &runs));
        page.sections.push(Section::new("Command", vec![Part::Command(super::command())]));
        page
    });
    let is_shown = matches!(shown, Ok(()) | Err(End::ClosedPipe));
    let mut losses = output::Losses::default();
    losses.note(shown);
    if let Some(file) = over_time.filter(|_| is_shown) {
        losses.note(file.finish());
    }
    losses.end()
}

/// Reads what the arguments name: a directory of logs, or text files.
fn imported(arguments: &Arguments) -> Result<import::Imported, String> {
    let Arguments { paths, test, kernels, .. } = arguments;
    let is_text = |path: &PathBuf| path.is_file() || path == Path::new("-");
    match paths.as_slice() {
        [folder] if !is_text(folder) => import::read(folder, test.as_deref(), kernels),
        texts => {
            if let Some(folder) = texts.iter().find(|path| path.is_dir()) {
                return Err(format!("{}: a directory of MMTests is imported alone", folder.display()));
            }
            if test.is_some() || !kernels.is_empty() {
                return Err("--test and --kernels choose among logs of MMTests: these are texts".into());
            }
            import::texts::read(texts)
        }
    }
}

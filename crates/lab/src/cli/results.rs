//! The verb `results`: the contents of a store.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    End,
    options::parse_word,
    output::{self, Output},
    with_command,
};
use grounds::job::Failure;
use kit::shown::write_fields;
use kit::words::counted;
use report::grid::{Cell, Grid, Tone};
use report::{Look, ReportFormat, Show, Table, html, json, rows};
use study::results;
use study::results::{Frame, Where};
use study::store::{Store, StoredRun, file};

/// Arguments of `highwater results`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// A folder that `--store` has filled
    #[arg(value_name = "DIR", required = true)]
    folder: Option<PathBuf>,
    /// Show only runs in which KEY has one of the values A,B; KEY is `experiment`, `kernel`, `machine`, `scale`,
    /// `seed`, or a key of --set. Repeatable
    #[arg(long = "where", value_name = "KEY=A,B")]
    wanted: Vec<Where>,
    /// Show only rows whose names contain one of these words; capitals do not matter, and `.` is any character
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    rows: Vec<String>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: RunsFormat,
    /// Write the report to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Copy the runs in several folders into one folder
    Merge {
        /// Folders that `--store` has filled
        #[arg(value_name = "DIR", required = true)]
        folders: Vec<PathBuf>,
        /// The folder into which the runs are copied
        #[arg(long, value_name = "DIR")]
        into: PathBuf,
    },
}

/// The form of a report on many runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum RunsFormat {
    /// A table for each experiment, machine and scale.
    #[default]
    #[value(alias = "text")]
    Table,
    /// A line for each run.
    List,
    /// A list of the reports that docs/json.md describes.
    Json,
    /// A line for each figure of each run.
    Csv,
    /// Tables for a text in Markdown.
    Markdown,
    /// The tables as one page that opens without a network.
    Html,
    /// One file with all runs, which has the columns of a store's files; needs --output.
    Parquet,
}

impl From<Failure> for End {
    fn from(Failure(message): Failure) -> Self {
        Self::Failed(message)
    }
}

/// Shows the runs in a folder, or merges several folders into one.
pub fn run(Arguments { verb, folder, wanted, rows, format, output }: &Arguments) -> Result<(), End> {
    if let Some(Verb::Merge { folders, into }) = verb {
        return merge(folders, into);
    }
    let folder = folder.as_ref().expect("clap requires it");
    let store = Store::existing(folder).map_err(|Failure(message)| End::Usage(message))?;
    let output = open(*format, output.as_ref())?;
    let mut runs = results::matching(store.runs()?, wanted).map_err(End::Usage)?;
    if runs.is_empty() {
        return Err(End::Usage(format!("{}: the folder has no runs", folder.display())));
    }
    let mut tables = results::tables(&runs);
    keep(&mut tables, &mut runs, rows).map_err(End::Usage)?;
    write(*format, &tables, &runs, output)
}

fn merge(folders: &[PathBuf], into: &Path) -> Result<(), End> {
    let usage = |Failure(message)| End::Usage(message);
    let folders = folders.iter().map(|folder| Store::existing(folder)).collect::<Result<Vec<_>, _>>().map_err(usage)?;
    let target = Store::open(into).map_err(usage)?;
    let mut text = String::new();
    for folder in folders {
        let (copied, there) = target.take_all(&folder)?;
        text.push_str(&format!(
            "{}: {} copied, {there} there before\n",
            folder.folder().display(),
            counted(copied, "run")
        ));
    }
    super::print(&format!("{text}{}: {}\n", into.display(), counted(target.runs()?.len(), "run")))
}

/// Opens `path`, the file of a report; returns none if `path` is none.
///
/// # Errors
/// When the file cannot be written to, or when `format` needs a file and `path` is none.
pub fn open(format: RunsFormat, path: Option<&PathBuf>) -> Result<Option<Output>, End> {
    if path.is_none() && format == RunsFormat::Parquet {
        return Err(End::Usage("--format parquet needs --output FILE.parquet".into()));
    }
    output::open_report(format == RunsFormat::Html, path.map(PathBuf::as_path))
}

/// Removes from `tables` and `runs` all rows whose names match none of `words`, unless `words` is empty. Warns of each
/// word that matches no row.
///
/// # Errors
/// When no word matches a row of any table.
pub fn keep(tables: &mut [Table], runs: &mut [StoredRun], words: &[String]) -> Result<(), String> {
    super::warn_of(rows::keep_of_all(tables, words)?);
    results::keep_rows(runs, words);
    Ok(())
}

/// Writes the results of runs in the form `format`.
///
/// # Errors
/// When the file or standard output cannot be written to.
pub fn write(format: RunsFormat, tables: &[Table], runs: &[StoredRun], output: Option<Output>) -> Result<(), End> {
    let each = |format: ReportFormat, look: Look, out: &mut dyn io::Write| {
        report::write_all(&tables.iter().collect::<Vec<_>>(), format, Show { look, ..Show::default() }, out)
    };
    output::report(output, |out, look| match format {
        RunsFormat::Table => each(ReportFormat::Table, look, out),
        RunsFormat::Markdown => each(ReportFormat::Markdown, look, out),
        RunsFormat::Html => {
            let page = html::tables::page_of_all(tables, Show { look, ..Show::default() });
            out.write_all(with_command(page).render().as_bytes())
        }
        RunsFormat::Json => out.write_all(json::render_list(tables).as_bytes()),
        RunsFormat::Csv => write_fields(out, look.is_terminal, |out| Frame::of(runs).write_csv(out)),
        // Each run stays on one line, however long the kernel's name is.
        RunsFormat::List => out.write_all(list(runs).render(Look { width: u16::MAX, ..look }).as_bytes()),
        RunsFormat::Parquet => out.write_all(&file::joined(runs)),
    })
}

/// Returns a table of cells with a line for each run.
fn list(runs: &[StoredRun]) -> Grid {
    let head = ["run", "experiment", "machine", "scale", "seed", "fingerprint", "kernel"];
    let line = |StoredRun { hash, identity, outcome }: &StoredRun| -> Vec<Cell> {
        let fingerprint = format!("{:016x}", outcome.fingerprint);
        let (experiment, machine) = (identity.experiment.clone(), identity.plain_machine().to_owned());
        let (scale, seed) = (identity.scale.clone(), identity.seed.to_string());
        [hash[..8].to_owned(), experiment, machine, scale, seed, fingerprint, identity.column()].map(Cell::from).into()
    };
    Grid {
        keys: head.len(),
        head: head.map(|word| Cell::new(word, Tone::Heading)).into(),
        lines: runs.iter().map(line).collect(),
        texts: vec![0, 1, 2, 6],
    }
}

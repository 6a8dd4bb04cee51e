//! The verb `replay`: the miss ratios that cache policies have on a trace, without time; and a trace on a machine.

mod machine;
mod shown;

use super::options::PlotOptions;
use super::trace::{SourceOptions, tell};
use super::{End, output, with_command};
use crate::untimed::sizes::{self, Size, Unit};
use crate::untimed::source::{Reader, Unreadable};
use crate::untimed::{parse_warm_up, policy};
use ::cache::{Kind, Plan, Sampling, WarmUp};
use grounds::job::Failure;
use machine::MachineOptions;
use shown::Shown;
use std::num::NonZero;
use std::path::PathBuf;
use study::parquet_table::check_build;

/// Arguments of `highwater replay`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    source: SourceOptions,
    /// The policies; `all` for all. Names: lru, fifo, clock, lfu, 2q, arc, lirs, w-tinylfu, s3-fifo, s3-fifo-old, s4-fifo, sieve,
    /// clock2q+, lhd, optimal, classic, multigen, multigen-6.14, multigen-6.1, highwater
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_policy, conflicts_with_all = ["memory", "what_if"])]
    policies: Vec<Policies>,
    /// The sizes of the cache: shares of all different pages or objects of the trace (5%), numbers of them (10000), or bytes (64M).
    /// With bytes, objects take the room of their sizes
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = sizes::parse)]
    #[arg(default_value = "1%,2%,5%,10%,20%,50%", conflicts_with_all = ["memory", "what_if"])]
    sizes: Vec<Size>,
    /// The requests at the begin that fill the cache and are not counted: a share (10%) or a number
    #[arg(long, value_name = "REQUESTS", value_parser = parse_warm_up, conflicts_with_all = ["memory", "what_if"])]
    warm_up: Option<WarmUp>,
    /// Replay only a share of all different pages or objects (1%), or at most so many (8192), and estimate the miss ratios with their
    /// standard errors
    #[arg(long, value_name = "SHARE", value_parser = parse_sampling, conflicts_with_all = ["memory", "what_if"])]
    sample: Option<Sampling>,
    /// Refuse a trace with more accesses than this, each of which takes 4 bytes of memory, or 8 with sizes; a sample takes less
    #[arg(long, value_name = "ACCESSES", default_value = "1Gi", value_parser = ::trace::synth::number)]
    #[arg(conflicts_with_all = ["memory", "what_if"])]
    accesses_max: u64,
    /// Number of caches that are replayed at the same time; by default as many as there are CPUs
    #[arg(long, value_name = "THREADS", conflicts_with_all = ["memory", "what_if"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096), allow_negative_numbers = true)]
    threads: Option<u32>,
    /// The form
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write it to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    plot: PlotOptions,
    #[command(flatten)]
    machine: MachineOptions,
}

/// A form of the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A table for people
    #[default]
    Table,
    /// Markdown
    Markdown,
    /// A line for each policy and size, with all figures
    Csv,
    /// All figures
    Json,
    /// A page with curves
    Html,
    /// A Parquet file with the columns of csv; needs --output, and a build with --features parquet
    Parquet,
}

/// A word in the value of `--policies`.
#[derive(Clone, Copy, Debug)]
enum Policies {
    All,
    One(Kind),
}

/// The policies that are replayed if `--policies` is not given.
const USUAL: [Kind; 8] =
    [Kind::Lru, Kind::Arc, Kind::S3Fifo, Kind::Sieve, Kind::Classic, Kind::Multigen, Kind::Highwater, Kind::Optimal];

/// Replays a trace, and shows how many requests each cache missed.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    if arguments.format == Format::Parquet {
        let path = arguments.output.as_deref();
        check_build(path.unwrap_or("--format parquet".as_ref())).map_err(|Failure(why)| End::Usage(why))?;
        if path.is_none() {
            return Err(End::Usage("--format parquet needs --output FILE.parquet".into()));
        }
    }
    let plot = arguments.plot.open()?;
    let file = output::open_report(arguments.format == Format::Html, arguments.output.as_deref())?;
    if arguments.machine.is_asked() {
        return machine::run(&arguments.machine, &arguments.source, arguments.format, file, plot);
    }
    if let Some(option) = arguments.machine.given() {
        return Err(End::Usage(format!("{option} is for a trace on a machine: expected --memory or --what-if, too")));
    }
    let source = &arguments.source;
    let reader = Reader::open(&source.file, &source.options(), arguments.sample, arguments.accesses_max)?;
    let unit = Unit::of(&arguments.sizes, reader.kind()).map_err(|why| End::Usage(format!("--sizes: {why}")))?;
    let (loaded, counts) = reader.read()?;
    let verdict = counts.map_or(Ok(()), |counts| tell(&source.file, &counts));
    let plan = Plan {
        policies: policies(&arguments.policies, unit),
        sizes: arguments.sizes.iter().map(|size| size.in_unit(unit)).collect(),
        warm_up: arguments.warm_up.unwrap_or_default(),
        by_bytes: unit == Unit::Bytes,
        threads: arguments.threads.and_then(|threads| NonZero::new(threads as usize)),
    };
    let name = source.file.display().to_string();
    let results = loaded.replay(&plan).map_err(|why| End::Usage(format!("{name}: {why}")))?;
    let shown = Shown::new(&name, loaded.kind(), unit, &results, &arguments.sizes);
    let picture = plot.map(|file| (file, shown.picture()));
    output::with_picture(picture, || {
        output::report(file, |out, look| {
            let text = match arguments.format {
                Format::Table => shown.text(look),
                Format::Markdown => shown.page().markdown(),
                Format::Csv => shown.csv(),
                Format::Json => shown.json(),
                Format::Html => with_command(shown.page()).render(),
                Format::Parquet => return out.write_all(&shown.parquet()),
            };
            out.write_all(text.as_bytes())
        })
    })?;
    verdict
}

impl From<Unreadable> for End {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Input(_) => Self::Usage(why.to_string()),
            Unreadable::TooManyAccesses(_) => Self::Usage(format!(
                "{why} than --accesses-max permits: expected a larger value, or --sample 1%, which keeps a part of the pages"
            )),
            Unreadable::TooLarge(..) => Self::Failed(why.to_string()),
        }
    }
}

/// Returns the policies that the words of the command line name, in their order and without repetitions; the usual ones
/// if there are no words.
fn policies(words: &[Policies], unit: Unit) -> Vec<Kind> {
    let knows_unit = |kind: &Kind| unit != Unit::Bytes || kind.knows_bytes();
    let mut kinds = Vec::new();
    for word in words {
        match word {
            Policies::One(kind) => kinds.push(*kind),
            Policies::All => kinds.extend(Kind::ALL.into_iter().filter(knows_unit)),
        }
    }
    if kinds.is_empty() {
        kinds.extend(USUAL.into_iter().filter(knows_unit));
    }
    super::options::each_once(&kinds)
}

fn parse_policy(text: &str) -> Result<Policies, String> {
    let or_all = |why: String| why.replacen("expected one", "expected `all`, or one", 1);
    if text == "all" { Ok(Policies::All) } else { policy(text).map(Policies::One).map_err(or_all) }
}

fn parse_sampling(text: &str) -> Result<Sampling, String> {
    let sampling = match sizes::parse_share(text) {
        Some(share) => Some(Sampling::Rate(share)).filter(|_| share > 0.0),
        None => text.parse().ok().filter(|objects| *objects > 0).map(Sampling::Objects),
    };
    sampling.ok_or_else(|| "expected a share above 0 such as 1%, or a whole number from 1 up".into())
}

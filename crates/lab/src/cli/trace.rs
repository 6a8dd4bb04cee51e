//! The verb `trace`: converts, describes and makes traces of what programs did to files and memory.

mod described;
mod made;
#[cfg(feature = "linux")]
mod recorded;

use super::options::PlotOptions;
use super::output::Output;
use super::{End, TextOptions, output};
use ::trace::formats::{self, OWN};
use ::trace::info::Limits;
use ::trace::read::{self, Columns, Counts, Options, Stream};
use ::trace::{Info, Wrong, load};
use kit::shown::{harmless, warn};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use study::plan::quoted;

/// The action on a trace.
#[derive(clap::Subcommand)]
pub enum Which {
    /// Read a trace in any format that is known, and write it as .hwtrace, which is mapped and read in place
    Convert(ConvertArguments),
    /// Say what a trace does: requests, working set over time, reuse, popularity beside Zipf's law
    Info(InfoArguments),
    /// Make a trace from patterns: at random by Zipf's law or uniform, scans, loops, mixtures, sets that move
    Synth(made::Arguments),
    /// Record what a program does to files and memory: `record --output FILE.hwtrace -- COMMAND`
    #[cfg(feature = "linux")]
    Record(recorded::Arguments),
}

/// The options for reading a trace.
#[derive(clap::Args)]
pub(super) struct SourceOptions {
    /// The trace; `-` is standard input. It may be packed by gzip, zstd or xz
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// The format of FILE, if its first bytes do not show it; `--from help` lists all formats
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    pub(super) from: Option<String>,
    /// The columns of a csv file, by name or number, as in time=ts:ms,op=type,offset=lba:512,size=bytes,file=dev; a unit follows the
    /// colon. Objects have key= in place of offset=
    #[arg(long, value_name = "ROLE=COLUMN,…")]
    columns: Option<Columns>,
    /// The size of a file that the trace names, bytes. For ftrace, whose reads may end behind their file. Repeatable
    #[arg(long, value_name = "NAME=BYTES", value_parser = parse_file_bytes)]
    file_bytes: Vec<(String, u64)>,
}

impl SourceOptions {
    pub(super) fn options(&self) -> Options {
        Options {
            from: self.from.clone(),
            columns: self.columns.clone().unwrap_or_default(),
            file_bytes: self.file_bytes.iter().cloned().collect(),
        }
    }

    /// Returns the file and the options as words of a command line.
    pub(super) fn words(&self) -> String {
        let mut words = vec![quoted(&self.file.display().to_string())];
        let mut option = |name: &str, value: &str| words.push(format!("{name} {}", quoted(value)));
        self.from.iter().for_each(|from| option("--from", from));
        self.columns.iter().for_each(|columns| option("--columns", &columns.to_string()));
        self.file_bytes.iter().for_each(|(name, bytes)| option("--file-bytes", &format!("{name}={bytes}")));
        words.join(" ")
    }

    /// Returns a name with the ending `.hwtrace` for the trace, in the current folder.
    pub(super) fn own_name(&self) -> PathBuf {
        let stem = self.file.file_stem().filter(|stem| *stem != "-").unwrap_or("trace".as_ref());
        Path::new(stem).with_extension("hwtrace")
    }
}

/// Arguments of `highwater trace convert`.
#[derive(clap::Args)]
pub struct ConvertArguments {
    #[command(flatten)]
    source: SourceOptions,
    /// Write the trace to this file
    #[arg(long, short, value_name = "FILE.hwtrace", required = true)]
    output: PathBuf,
}

/// Arguments of `highwater trace info`.
#[derive(clap::Args)]
pub struct InfoArguments {
    #[command(flatten)]
    source: SourceOptions,
    /// Follow at most so many pages or objects, 50 to 80 bytes each; if there are more, a sample stands for all
    #[arg(long, value_name = "OBJECTS", default_value = "8Mi", value_parser = ::trace::synth::number)]
    follow: u64,
    #[command(flatten)]
    text: TextOptions,
    #[command(flatten)]
    plot: PlotOptions,
}

/// Carries out the chosen verb of `highwater trace`: `convert`, `info` or `synth`.
pub fn run(which: &Which) -> Result<(), End> {
    match which {
        Which::Convert(arguments) => convert(arguments),
        Which::Info(arguments) => info(arguments),
        Which::Synth(arguments) => made::run(arguments),
        #[cfg(feature = "linux")]
        Which::Record(arguments) => recorded::run(arguments),
    }
}

fn convert(ConvertArguments { source, output }: &ConvertArguments) -> Result<(), End> {
    let out = Output::open("--output", output)?;
    let mut stream = Stream::open(&source.file, &source.options()).map_err(|wrong| wrong_input(&wrong))?;
    let mut broken = None;
    // An input that breaks off must leave no file: the error goes through the writing.
    let written = out.write(|out| {
        read::convert(&mut stream, out).map_err(|wrong| {
            broken = Some(wrong_input(&wrong));
            io::Error::other(wrong.to_string())
        })
    });
    match (written, broken) {
        (Err(_), Some(End::Usage(why))) => return Err(End::Usage(why)),
        (written, _) => written?,
    }
    let counts = stream.counts().clone();
    let verdict = tell(&source.file, &counts);
    let (kind, format) = (stream.kind().name(), stream.format().name);
    let unread = if counts.unparsed > 0 { format!(", {} not understood", counts.unparsed) } else { String::new() };
    let pieces = if counts.are_lines { "lines" } else { "records" };
    let text = format!(
        "{}: {} requests of {kind}, from {} {pieces} of {format}{unread}\n",
        output.display(),
        counts.requests,
        counts.pieces
    );
    // The trace may be standard output itself.
    let _ = io::stderr().write_all(harmless(&text).as_bytes());
    verdict
}

fn info(InfoArguments { source, follow, text, plot }: &InfoArguments) -> Result<(), End> {
    if *follow == 0 {
        return Err(End::Usage("--follow 0: expected a number from 1 on".to_owned()));
    }
    let plot = plot.open()?;
    let loaded = load(&source.file, &source.options()).map_err(|wrong| wrong_input(&wrong))?;
    let limits = Limits { objects_max: usize::try_from(*follow).unwrap_or(usize::MAX), ..Limits::default() };
    let info = Info::of(&loaded.trace, limits);
    let verdict = tell(&source.file, &loaded.counts);
    let name = source.file.display().to_string();
    let described = described::Described { info: &info, loaded: &loaded, name: &name };
    let picture = plot.map(|file| (file, described.picture()));
    output::with_picture(picture, || text.write(|look| described.text(look), || described.page()))?;
    verdict
}

pub(super) fn wrong_input(wrong: &Wrong) -> End {
    End::Usage(wrong.to_string())
}

/// Tells the user which lines or records of a trace were not understood.
///
/// # Errors
/// When more than 1 % of them were not understood.
pub(super) fn tell(file: &Path, counts: &Counts) -> Result<(), End> {
    if counts.unparsed == 0 {
        return Ok(());
    }
    let name = file.display();
    let (one, all) = if counts.are_lines { ("line", "lines") } else { ("record", "records") };
    for unparsed in &counts.first {
        let read::Unparsed { number, offset, text, why } = unparsed;
        warn(&format!("{name}: {one} {number} (byte {offset}) is not understood: {why}: `{text}`"));
    }
    let share = counts.unparsed as f64 / counts.pieces.max(1) as f64 * 100.0;
    let message = format!("{name}: {} of {} {all} ({share:.2} %) are not understood", counts.unparsed, counts.pieces);
    if counts.is_doubtful() {
        return Err(End::Failed(format!("{message}: expected at most 1 %. The others were read")));
    }
    warn(&message);
    Ok(())
}

/// Checks that `text` is the name of a format of traces, and returns the name. Otherwise the error lists all formats.
fn parse_format(text: &str) -> Result<String, String> {
    if text == OWN || formats::by_name(text).is_ok() {
        return Ok(text.to_owned());
    }
    let known = formats::ALL.iter().map(|format| format!("\n  {:14} {}", format.name, format.about));
    Err(format!("expected one of these:{}\n  {OWN:14} this program's own", known.collect::<String>()))
}

/// Parses `NAME=BYTES`, the name of a file and its size.
fn parse_file_bytes(text: &str) -> Result<(String, u64), String> {
    let (name, bytes) = text.rsplit_once('=').ok_or("expected NAME=BYTES")?;
    let bytes = bytes.parse().map_err(|_| format!("`{bytes}`: expected a number of bytes"))?;
    Ok((name.to_owned(), bytes))
}

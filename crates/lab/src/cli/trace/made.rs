//! The verb `trace synth`.

use super::super::options::parse_seed;
use super::super::output::Output;
use super::{End, Wrong};
use ::trace::request::Kind;
use ::trace::synth::{self, Pattern, Settings, Synth};
use std::io;
use std::path::PathBuf;

/// Arguments of `highwater trace synth`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Patterns, which are mixed at random: zipf:pages=1M,theta=0.9 or uniform:pages=10k or loop:pages=5k or
    /// scan or twice:after=400 or recent:after=4k. Further keys: again= (share of pages or requests that come again),
    /// weight= (how often beside the others), reads= (share of reads), len= (pages of a request), shift-every=N,shift-by=M (after N of
    /// its requests, the set moves by M pages)
    #[arg(required = true, value_name = "PATTERN")]
    patterns: Vec<Pattern>,
    /// Number of requests: 500, 10k, 20M
    #[arg(long, value_name = "N", default_value = "1M", value_parser = synth::number)]
    requests: u64,
    /// Seed of all random choices: the same seed gives the same requests on every computer
    #[arg(long, value_name = "SEED", default_value = "1", value_parser = parse_seed)]
    seed: u64,
    /// Requests in a second of the trace's time
    #[arg(long, value_name = "N", default_value = "10k", value_parser = synth::number)]
    rate: u64,
    /// Make requests for objects instead of pages, with this size in bytes: 100, or 100-10000 for sizes spread evenly
    /// over the logarithm
    #[arg(long, value_name = "BYTES", value_parser = parse_sizes)]
    objects: Option<(u64, u64)>,
    /// Write the trace to this file
    #[arg(long, short, value_name = "FILE.hwtrace", required = true)]
    output: PathBuf,
}

/// Makes a trace of invented requests, and writes it to a file.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let Arguments { patterns, requests, seed, rate, objects, output } = arguments;
    if *requests == 0 {
        return Err(End::Usage("--requests 0: expected at least 1".to_owned()));
    }
    let kind = if objects.is_some() { Kind::Objects } else { Kind::Ranges };
    let object_bytes = objects.unwrap_or((1, 1));
    let settings = Settings { requests: *requests, seed: *seed, rate: *rate, kind, object_bytes };
    let synth = Synth::new(patterns.clone(), settings).map_err(End::Usage)?;
    let out = Output::open("--output", output)?;
    out.write(|out| synth.write(out).map_err(|Wrong { what, .. }| io::Error::other(what)))
}

/// Parses one size, or two sizes joined by a `-`. Returns the smallest and the largest size; the two are equal if there
/// is one.
fn parse_sizes(text: &str) -> Result<(u64, u64), String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    Ok((synth::number(least)?, synth::number(most)?))
}

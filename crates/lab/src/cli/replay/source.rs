//! Reads a trace once, for all caches.

use super::Results;
use crate::cli::End;
use ::cache::replay::Impossible;
use ::cache::requests::Refused;
use ::cache::{Plan, Requests, RequestsBuilder, Sample, SampleBuilder, Sampling};
use ::trace::read::{self, Columns, Counts, Options, Stream};
use ::trace::request::Kind;
use ::trace::{Request, Trace, Wrong};
use kit::shown::warn;
use std::path::{Path, PathBuf};

/// How to read a trace.
#[derive(clap::Args)]
pub struct Source {
    /// The trace, in any format of docs/traces.md; `-` is standard input. It may be packed by gzip, zstd or xz
    #[arg(value_name = "TRACE")]
    pub file: PathBuf,
    /// Its format, if its first bytes do not show it
    #[arg(long, value_name = "FORMAT")]
    from: Option<String>,
    /// The columns of a csv file, by name or number, as in time=ts:ms,op=type,offset=lba:512,size=bytes,file=dev; objects have key= in
    /// place of offset=
    #[arg(long, value_name = "ROLE=COLUMN,…")]
    columns: Option<Columns>,
}

/// A trace that was opened.
pub struct Reader<'a> {
    input: Input,
    name: &'a Path,
    into: Into,
}

enum Input {
    Own(Trace),
    Other(Box<Stream>),
}

/// Where requests go.
enum Into {
    All(RequestsBuilder),
    Sample(Box<SampleBuilder>),
}

/// The requests of a trace, or a sample of them.
pub struct Loaded {
    requests: Which,
    kind: Kind,
}

enum Which {
    All(Requests),
    Sample(Sample),
}

/// Keys and sizes of some requests.
#[derive(Default)]
struct Batch {
    keys: Vec<u64>,
    sizes: Vec<u32>,
}

impl Batch {
    /// Adds the pages of a request, or its object. Requests that access nothing are left out.
    fn push(&mut self, kind: Kind, request: &Request) {
        if !request.operation.is_access() {
            return;
        }
        match kind {
            Kind::Ranges => self.keys.extend(request.page_keys()),
            Kind::Objects => {
                self.keys.push(request.key());
                self.sizes.push(u32::try_from(request.len).unwrap_or(u32::MAX));
            }
        }
    }
}

impl Into {
    /// Adds a batch, and empties it.
    fn add(&mut self, batch: &mut Batch) -> Result<(), Refused> {
        let Batch { keys, sizes } = batch;
        match self {
            Self::All(builder) if sizes.is_empty() => builder.add(keys)?,
            Self::All(builder) => builder.add_sized(keys, sizes)?,
            Self::Sample(builder) => builder.add(keys, sizes)?,
        }
        (keys.clear(), sizes.clear());
        Ok(())
    }
}

impl<'a> Reader<'a> {
    /// Opens a trace, of which all requests or a sample are wanted.
    pub fn open(source: &'a Source, sampling: Option<Sampling>) -> Result<Self, End> {
        let Source { file, from, columns } = source;
        let options =
            Options { from: from.clone(), columns: columns.clone().unwrap_or_default(), ..Options::default() };
        let told = |wrong: Wrong| End::Usage(wrong.to_string());
        let input = match read::is_own(file) && from.is_none() {
            true => Input::Own(Trace::open(file).map_err(told)?),
            false => Input::Other(Box::new(Stream::open(file, &options).map_err(told)?)),
        };
        let into = match sampling {
            Some(sampling) => Into::Sample(Box::new(SampleBuilder::new(sampling))),
            None => Into::All(RequestsBuilder::default()),
        };
        Ok(Self { input, name: file, into })
    }

    /// Returns what the requests address.
    pub fn kind(&self) -> Kind {
        match &self.input {
            Input::Own(trace) => trace.kind(),
            Input::Other(stream) => stream.kind(),
        }
    }

    /// Reads the trace to its end. Also returns a failure if more than 1 % of it was not understood.
    pub fn read(mut self) -> Result<(Loaded, Result<(), End>), End> {
        let (kind, name) = (self.kind(), self.name.display().to_string());
        let refused = |why: Refused| End::Failed(format!("{name}: {why}"));
        let mut batch = Batch::default();
        let mut verdict = Ok(());
        match &mut self.input {
            Input::Own(trace) => {
                for request in trace.requests() {
                    batch.push(kind, &request);
                    if batch.keys.len() >= 4096 {
                        self.into.add(&mut batch).map_err(refused)?;
                    }
                }
                self.into.add(&mut batch).map_err(refused)?;
            }
            Input::Other(stream) => {
                while let Some(requests) = stream.batch().map_err(|wrong| End::Usage(wrong.to_string()))? {
                    requests.iter().for_each(|request| batch.push(kind, request));
                    self.into.add(&mut batch).map_err(refused)?;
                }
                verdict = tell(&name, stream.counts());
            }
        }
        let requests = match self.into {
            Into::All(builder) => Which::All(builder.finish()),
            Into::Sample(builder) => Which::Sample(builder.finish().map_err(refused)?),
        };
        Ok((Loaded { requests, kind }, verdict))
    }
}

impl Loaded {
    /// Returns what the requests address.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Carries out a plan.
    pub fn replay(&self, plan: &Plan) -> Result<Results, Impossible> {
        match &self.requests {
            Which::All(requests) => ::cache::replay(requests, plan).map(Results::All),
            Which::Sample(sample) => ::cache::estimate(sample, plan).map(Results::Sampled),
        }
    }
}

/// Tells what was not understood.
///
/// # Errors
/// When it is more than 1 %.
fn tell(name: &str, counts: &Counts) -> Result<(), End> {
    if counts.unparsed == 0 {
        return Ok(());
    }
    let (one, all) = if counts.are_lines { ("line", "lines") } else { ("record", "records") };
    for read::Unparsed { number, offset, text, why } in &counts.first {
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

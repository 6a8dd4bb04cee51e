//! Reads the trace of a replay once. The requests are kept in memory, and replayed for every cache.

use super::Results;
use crate::cli::End;
use crate::cli::trace::{SourceOptions, tell, wrong_input};
use ::cache::replay::Impossible;
use ::cache::requests::Refused;
use ::cache::{Plan, Requests, RequestsBuilder, Sample, SampleBuilder, Sampling};
use ::trace::formats::OWN;
use ::trace::read::{self, Stream};
use ::trace::request::Kind;
use ::trace::{Request, Trace, load};
use std::path::Path;

/// A trace that was opened, and is to be read.
pub struct Reader<'a> {
    input: Input,
    name: &'a Path,
    into: Into,
}

enum Input {
    Own(Trace),
    Other(Box<Stream>),
}

/// The place to which the requests of a trace are added: all requests, or a sample of them.
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

/// A batch of requests: the keys and sizes of the objects that they access, or the keys of the pages that they access.
/// The whole batch is added to the sink in one call.
#[derive(Default)]
struct Batch {
    keys: Vec<u64>,
    sizes: Vec<u32>,
}

impl Batch {
    /// Adds a request to the batch: the keys of the pages that it accesses, or the key and size of the object that it
    /// accesses. Leaves out requests that access nothing.
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
    /// Adds the requests of a batch, and empties the batch.
    fn add(&mut self, batch: &mut Batch) -> Result<(), Refused> {
        let Batch { keys, sizes } = batch;
        match self {
            Self::All(builder) if sizes.is_empty() => builder.add(keys)?,
            Self::All(builder) => builder.add_sized(keys, sizes)?,
            Self::Sample(builder) => builder.add(keys, sizes)?,
        }
        keys.clear();
        sizes.clear();
        Ok(())
    }
}

impl<'a> Reader<'a> {
    /// Opens the trace that `source` names. With `sampling`, only the requests of a sample of objects are loaded.
    pub fn open(source: &'a SourceOptions, sampling: Option<Sampling>) -> Result<Self, End> {
        let SourceOptions { file, from, .. } = source;
        // A trace that was converted is read in place, and from a pipe by way of a file.
        let is_own = read::is_own(file) || from.as_deref() == Some(OWN);
        let input = match is_own {
            true => Input::Own(load(file, &source.options()).map_err(|wrong| wrong_input(&wrong))?.trace),
            false => {
                Input::Other(Box::new(Stream::open(file, &source.options()).map_err(|wrong| wrong_input(&wrong))?))
            }
        };
        let into = match sampling {
            Some(sampling) => Into::Sample(Box::new(SampleBuilder::new(sampling))),
            None => Into::All(RequestsBuilder::default()),
        };
        Ok(Self { input, name: file, into })
    }

    /// Returns the kind of the trace: requests for ranges of bytes, or for whole objects.
    pub fn kind(&self) -> Kind {
        match &self.input {
            Input::Own(trace) => trace.kind(),
            Input::Other(stream) => stream.kind(),
        }
    }

    /// Reads the trace to its end and returns it. The second value is a failure if more than 1 % of the trace's lines
    /// or records could not be understood.
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
                while let Some(requests) = stream.batch().map_err(|wrong| wrong_input(&wrong))? {
                    requests.iter().for_each(|request| batch.push(kind, request));
                    self.into.add(&mut batch).map_err(refused)?;
                }
                verdict = tell(self.name, stream.counts());
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
    /// Returns the kind of the trace: requests for ranges of bytes, or for whole objects.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Replays the requests as the plan says. Returns exact results, or estimates if only a sample was loaded.
    pub fn replay(&self, plan: &Plan) -> Result<Results, Impossible> {
        match &self.requests {
            Which::All(requests) => ::cache::replay(requests, plan).map(Results::All),
            Which::Sample(sample) => ::cache::estimate(sample, plan).map(Results::Sampled),
        }
    }
}

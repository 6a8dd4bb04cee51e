//! Reads the trace of a replay once. The requests are kept in memory, and replayed for every cache.

use super::Results;
use crate::cli::End;
use crate::cli::trace::{SourceOptions, tell, wrong_input};
use ::cache::replay::Impossible;
use ::cache::requests::Refused;
use ::cache::{Plan, Requests, RequestsBuilder, Sample, SampleBuilder, Sampling};
use ::trace::Request;
use ::trace::read::{self, Opened};
use ::trace::request::Kind;
use std::path::Path;

/// A trace that was opened, and is to be read.
pub struct Reader<'a> {
    input: Opened,
    name: &'a Path,
    into: Into,
    /// Number of accesses that may still be added; none if only a sample is kept.
    left: Option<u64>,
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
    /// Opens a trace. If `sampling` is given, only a sample of its requests is loaded; otherwise a trace with more than
    /// `accesses_max` accesses is refused when it is read.
    pub fn open(source: &'a SourceOptions, sampling: Option<Sampling>, accesses_max: u64) -> Result<Self, End> {
        let input = read::open(&source.file, &source.options()).map_err(|wrong| wrong_input(&wrong))?;
        let into = match sampling {
            Some(sampling) => Into::Sample(Box::new(SampleBuilder::new(sampling))),
            None => Into::All(RequestsBuilder::default()),
        };
        let left = sampling.is_none().then_some(accesses_max);
        Ok(Self { input, name: &source.file, into, left })
    }

    /// Returns the kind of the trace: requests for ranges of bytes, or for whole objects.
    pub fn kind(&self) -> Kind {
        match &self.input {
            Opened::Own(trace) => trace.kind(),
            Opened::Other(stream) => stream.kind(),
        }
    }

    /// Reads the trace to its end and returns it. The second value is a failure if more than 1 % of the trace's lines
    /// or records could not be understood.
    pub fn read(mut self) -> Result<(Loaded, Result<(), End>), End> {
        let (kind, name) = (self.kind(), self.name.display().to_string());
        let refused = |why: Refused| End::Failed(format!("{name}: {why}"));
        let mut left = self.left;
        let mut may_add = |batch: &Batch| match &mut left {
            Some(left) if batch.keys.len() as u64 > *left => Err(End::Usage(format!(
                "{name}: it has more accesses than --accesses-max permits: expected a larger value, or --sample 1%, which keeps \
                 a part of the pages"
            ))),
            Some(left) => {
                *left -= batch.keys.len() as u64;
                Ok(())
            }
            None => Ok(()),
        };
        let mut batch = Batch::default();
        let mut verdict = Ok(());
        match &mut self.input {
            Opened::Own(trace) => {
                for request in trace.requests() {
                    batch.push(kind, &request);
                    if batch.keys.len() >= 4096 {
                        may_add(&batch)?;
                        self.into.add(&mut batch).map_err(refused)?;
                    }
                }
                may_add(&batch)?;
                self.into.add(&mut batch).map_err(refused)?;
            }
            Opened::Other(stream) => {
                while let Some(requests) = stream.batch().map_err(|wrong| wrong_input(&wrong))? {
                    for request in requests {
                        batch.push(kind, request);
                        // A batch of large requests has many pages.
                        if batch.keys.len() >= 1 << 16 {
                            may_add(&batch)?;
                            self.into.add(&mut batch).map_err(refused)?;
                        }
                    }
                    may_add(&batch)?;
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

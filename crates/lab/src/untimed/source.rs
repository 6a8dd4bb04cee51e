//! Reads the trace of a replay once. The requests are kept in memory, and replayed for every cache.

use ::cache::estimate::Estimates;
use ::cache::replay::{Impossible, Report};
use ::cache::requests::Refused;
use ::cache::{Plan, Requests, RequestsBuilder, Sample, SampleBuilder, Sampling};
use ::trace::read::{self, Counts, Opened, Options};
use ::trace::request::Kind;
use ::trace::{Request, Wrong};
use std::fmt;
use std::path::Path;

/// A trace that was opened, and is to be read.
pub struct Reader {
    input: Opened,
    name: String,
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

/// The results of caches that replayed all requests, or a sample of them.
pub enum Results {
    /// The results of a replay of all requests.
    All(Report),
    /// The results of a replay of a sample.
    Sampled(Estimates),
}

/// The reason why the requests of a trace could not be read into memory.
#[derive(Debug)]
pub enum Unreadable {
    /// The trace cannot be read.
    Input(Wrong),
    /// The trace with this name has more accesses than the caller permits.
    TooManyAccesses(String),
    /// The trace with this name has more requests, or more pages or objects, than a replay can hold.
    TooLarge(String, Refused),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(wrong) => wrong.fmt(f),
            Self::TooManyAccesses(name) => write!(f, "{name}: it has more accesses"),
            Self::TooLarge(name, why) => write!(f, "{name}: {why}"),
        }
    }
}

impl std::error::Error for Unreadable {}

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

impl Reader {
    /// Opens a trace. If `sampling` is given, only a sample of its requests is loaded; otherwise a trace with more than
    /// `accesses_max` accesses is refused when it is read.
    ///
    /// # Errors
    /// When the file cannot be read, or its format is not recognised.
    pub fn open(
        path: &Path,
        options: &Options,
        sampling: Option<Sampling>,
        accesses_max: u64,
    ) -> Result<Self, Unreadable> {
        let input = read::open(path, options).map_err(Unreadable::Input)?;
        let into = match sampling {
            Some(sampling) => Into::Sample(Box::new(SampleBuilder::new(sampling))),
            None => Into::All(RequestsBuilder::default()),
        };
        let left = sampling.is_none().then_some(accesses_max);
        Ok(Self { input, name: path.display().to_string(), into, left })
    }

    /// Returns the kind of the trace: requests for ranges of bytes, or for whole objects.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match &self.input {
            Opened::Own(trace) => trace.kind(),
            Opened::Other(stream) => stream.kind(),
        }
    }

    /// Reads the trace to its end and returns it. The second value counts the lines or records that could not be
    /// understood; `None` for a trace in the format `.hwtrace`, which has none.
    ///
    /// # Errors
    /// When the trace cannot be read or is damaged, or has too many accesses.
    pub fn read(mut self) -> Result<(Loaded, Option<Counts>), Unreadable> {
        let (kind, name) = (self.kind(), self.name);
        let refused = |why: Refused| Unreadable::TooLarge(name.clone(), why);
        let most = self.left;
        let mut left = most;
        let mut may_add = |batch: &Batch| match &mut left {
            Some(left) if batch.keys.len() as u64 > *left => Err(Unreadable::TooManyAccesses(name.clone())),
            Some(left) => {
                *left -= batch.keys.len() as u64;
                Ok(())
            }
            None => Ok(()),
        };
        let mut batch = Batch::default();
        let mut counts = None;
        match &mut self.input {
            Opened::Own(trace) => {
                let accesses = |request: &Request| match kind {
                    Kind::Ranges => request.page_range().map_or(0, |pages| pages.end() - pages.start() + 1),
                    Kind::Objects => 1,
                };
                let is_access = |request: &Request| request.operation.is_access();
                let all: u64 = trace.requests().filter(is_access).map(|request| accesses(&request)).sum();
                if most.is_some_and(|most| all > most) {
                    return Err(Unreadable::TooManyAccesses(name));
                }
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
                while let Some(requests) = stream.batch().map_err(Unreadable::Input)? {
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
                counts = Some(stream.counts().clone());
            }
        }
        let requests = match self.into {
            Into::All(builder) => Which::All(builder.finish()),
            Into::Sample(builder) => Which::Sample(builder.finish().map_err(refused)?),
        };
        Ok((Loaded { requests, kind }, counts))
    }
}

impl Loaded {
    /// Returns the kind of the trace: requests for ranges of bytes, or for whole objects.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the requests; `None` if only a sample was loaded.
    #[must_use]
    pub const fn requests(&self) -> Option<&Requests> {
        match &self.requests {
            Which::All(requests) => Some(requests),
            Which::Sample(_) => None,
        }
    }

    /// Replays the requests as the plan says. Returns exact results, or estimates if only a sample was loaded.
    ///
    /// # Errors
    /// When the requests have nothing that the plan can count.
    pub fn replay(&self, plan: &Plan) -> Result<Results, Impossible> {
        match &self.requests {
            Which::All(requests) => ::cache::replay(requests, plan).map(Results::All),
            Which::Sample(sample) => ::cache::estimate(sample, plan).map(Results::Sampled),
        }
    }
}

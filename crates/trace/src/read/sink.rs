//! [`Sink`]: collects the requests and names that a parser finds in an input.

use crate::hwtrace::Metadata;
use crate::names::Names;
use crate::request::{Kind, Request};

/// Collects the requests, names and remarks that a parser finds in an input.
#[derive(Debug)]
pub struct Sink {
    kind: Kind,
    /// Time of the first request on the source's clock, µs.
    start_us: Option<u64>,
    pub(super) requests: Vec<Request>,
    /// The names of the files, in the order of their numbers.
    pub files: Names,
    /// The names of the tasks, in the order of their numbers.
    pub tasks: Names,
    /// The metadata that the parser has found out about the source.
    pub metadata: Metadata,
}

impl Sink {
    /// Makes a sink that has no requests and names yet. `kind` says what its requests will address: ranges of files, or
    /// objects.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            start_us: None,
            requests: Vec::new(),
            files: Names::new(),
            tasks: Names::new(),
            metadata: Metadata::new(),
        }
    }

    /// Appends a request. The caller gives the request's time, µs, on the clock of the source. This method changes the
    /// time, so that it counts from the first request. A time before that of the first request becomes 0.
    ///
    /// # Errors
    /// When the request has a [fault](Request::fault).
    #[inline]
    pub fn push(&mut self, mut request: Request) -> Result<(), String> {
        let start = self.start_us.unwrap_or(request.time_us);
        request.time_us = request.time_us.saturating_sub(start);
        if let Some(fault) = request.fault(self.kind) {
            return Err(fault);
        }
        self.start_us = Some(start);
        self.requests.push(request);
        Ok(())
    }

    /// Returns what the requests address: ranges of files, or objects.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the time of the first request on the source's clock, µs; `None` if there is no request yet.
    #[must_use]
    pub const fn start_us(&self) -> Option<u64> {
        self.start_us
    }

    /// Returns the requests of the current batch so far.
    #[must_use]
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Adds `what` to the list of things that this kind of source cannot show, unless the list has it already.
    pub fn not_seen(&mut self, what: &str) {
        let list = self.metadata.entry("not_seen").or_insert_with(|| serde_json::json!([]));
        if let Some(list) = list.as_array_mut()
            && !list.iter().any(|known| known == what)
        {
            list.push(what.into());
        }
    }

    /// Adds 1 to the number under `key` in the metadata, which is 0 at first.
    pub fn count(&mut self, key: &str) {
        let count = self.metadata.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0);
        self.metadata.insert(key.to_owned(), (count + 1).into());
    }

    /// Records the size that a file has at its first use. Later sizes are ignored.
    pub fn file_bytes(&mut self, file: u32, bytes: u64) {
        let sizes = self.metadata.entry("file_bytes").or_insert_with(|| serde_json::json!({}));
        if let Some(sizes) = sizes.as_object_mut() {
            sizes.entry(file.to_string()).or_insert_with(|| bytes.into());
        }
    }
}

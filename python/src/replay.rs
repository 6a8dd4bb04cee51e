//! Replay of a trace without time, with policies of the package and policies written in Python.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
};

use cache::batches::{Asking, Batches, Stopped, replay_in_batches};
use cache::{Kind, Plan};
use lab::untimed::{
    self,
    sizes::{self, Size, Unit},
    source::{Loaded, Reader, Results},
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyMemoryView},
};
use trace::read::Options;

use crate::{Error, InputError, aside, bug};

/// The requests of a trace, in memory.
#[pyclass(frozen, module = "highwater._highwater")]
pub(crate) struct Trace {
    loaded: Arc<Loaded>,
    name: String,
    unparsed: u64,
}

/// The figures of one cache: its policy, its size as the caller wrote it, its capacity, and what was counted.
type Row = (String, String, u64, u64, u64, f64, Option<f64>);

#[pymethods]
impl Trace {
    #[new]
    #[pyo3(signature = (path, format=None))]
    fn new(py: Python<'_>, path: PathBuf, format: Option<String>) -> PyResult<Self> {
        let name = path.display().to_string();
        let options = Options { from: format, ..Options::default() };
        let read = move |_: &_| Ok(Reader::open(&path, &options, None, u64::MAX).and_then(Reader::read));
        let (loaded, counts) = aside(py, read)?.map_err(|why| InputError::new_err(why.to_string()))?;
        if let Some(counts) = counts.as_ref().filter(|counts| counts.is_doubtful()) {
            let (unparsed, pieces) = (counts.unparsed, counts.pieces);
            let message =
                format!("{name}: {unparsed} of {pieces} lines or records are not understood: expected at most 1 %");
            return Err(InputError::new_err(message));
        }
        Ok(Self { loaded: Arc::new(loaded), name, unparsed: counts.map_or(0, |counts| counts.unparsed) })
    }

    /// Returns the number of lines or records that were not understood.
    #[getter]
    const fn unparsed(&self) -> u64 {
        self.unparsed
    }

    /// Replays the trace with the policies that have these names, in caches of these sizes.
    fn replay(&self, py: Python<'_>, policies: Vec<String>, sizes: Vec<String>, warm_up: &str) -> PyResult<Vec<Row>> {
        let (sizes, unit) = self.sizes(&sizes)?;
        let named =
            |name: &String| untimed::policy(name).map_err(|why| InputError::new_err(format!("policy `{name}`: {why}")));
        let policies: Vec<Kind> = policies.iter().map(named).collect::<PyResult<_>>()?;
        let plan = Plan {
            policies,
            sizes: sizes.iter().map(|size| size.in_unit(unit)).collect(),
            warm_up: untimed::parse_warm_up(warm_up).map_err(|why| InputError::new_err(format!("warm_up: {why}")))?,
            by_bytes: unit == Unit::Bytes,
            threads: None,
        };
        let loaded = self.loaded.clone();
        let results = aside(py, move |_| Ok(loaded.replay(&plan)))?;
        let results = results.map_err(|why| InputError::new_err(format!("{}: {why}", self.name)))?;
        let Results::All(report) = results else { return Err(Error::new_err("the trace is a sample")) };
        let of = |(at, row): (usize, &cache::Row)| {
            let (policy, size) = (row.policy.name().to_owned(), sizes[at % sizes.len()].name());
            (policy, size, row.capacity, row.requests, row.misses, row.miss_ratio(), row.byte_miss_ratio())
        };
        Ok(report.rows.iter().enumerate().map(of).collect())
    }

    /// Returns the number of objects that a cache of each of these sizes holds.
    fn capacities(&self, sizes: Vec<String>) -> PyResult<Vec<(String, u64)>> {
        let (sizes, unit) = self.sizes(&sizes)?;
        if unit == Unit::Bytes {
            return Err(InputError::new_err("sizes: a policy written in Python counts objects: expected no bytes"));
        }
        let objects = self.loaded.requests().map_or(0, cache::Requests::distinct).into();
        Ok(sizes.iter().map(|size| (size.name(), size.in_unit(unit).of(objects))).collect())
    }

    /// Replays the trace in a cache of `capacity` objects, whose victims `policy` chooses, `victims` at a time. Returns
    /// the figures that are counted: requests, misses, and the share of the requested bytes that was missed.
    fn replay_with(
        &self,
        py: Python<'_>,
        policy: &Bound<'_, PyAny>,
        capacity: u64,
        victims: u64,
        warm_up: &str,
    ) -> PyResult<(u64, u64, Option<f64>)> {
        let requests = self.loaded.requests().ok_or_else(|| Error::new_err("the trace is a sample"))?;
        let warm_up = untimed::parse_warm_up(warm_up).map_err(|why| InputError::new_err(format!("warm_up: {why}")))?;
        let warm_up = warm_up.of(requests.len());
        // A trace has fewer objects than this.
        let lowered = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let asking = Asking { capacity: lowered(capacity), victims: lowered(victims), warm_up };
        let replay = || replay_in_batches(requests, asking, &mut OfPython { py, policy });
        let counts = catch_unwind(AssertUnwindSafe(replay)).map_err(|payload| bug(&*payload))?;
        let counts = counts.map_err(|why| match why {
            Stopped::Policy(error) => error,
            Stopped::Impossible(why) => InputError::new_err(format!("{}: {why}", self.name)),
            Stopped::Number(..) | Stopped::NotCached(_) => Error::new_err(why.to_string()),
        })?;
        let bytes = (counts.bytes > 0).then(|| counts.missed_bytes as f64 / counts.bytes as f64);
        Ok(((requests.len() - warm_up) as u64, counts.misses, bytes))
    }
}

impl Trace {
    /// Parses sizes of caches, and returns them with the unit in which a replay counts them.
    fn sizes(&self, texts: &[String]) -> PyResult<(Vec<Size>, Unit)> {
        let parsed =
            |text: &String| sizes::parse(text).map_err(|why| InputError::new_err(format!("size `{text}`: {why}")));
        let sizes: Vec<Size> = texts.iter().map(parsed).collect::<PyResult<_>>()?;
        let unit = Unit::of(&sizes, self.loaded.kind()).map_err(|why| InputError::new_err(format!("sizes: {why}")))?;
        Ok((sizes, unit))
    }
}

/// A policy that is an object of Python.
struct OfPython<'a, 'py> {
    py: Python<'py>,
    policy: &'a Bound<'py, PyAny>,
}

impl OfPython<'_, '_> {
    /// Returns the bytes as a read-only `memoryview` of items of the type `format`, as the module `struct` names it.
    fn view(&self, bytes: &[u8], format: &str) -> PyResult<Py<PyAny>> {
        let view = PyMemoryView::from(PyBytes::new(self.py, bytes).as_any())?;
        Ok(view.call_method1("cast", (format,))?.unbind())
    }
}

impl Batches for OfPython<'_, '_> {
    type Error = PyErr;

    fn requested(&mut self, objects: &[u32], hits: &[bool]) -> PyResult<()> {
        // Only this call lets Ctrl-C end a replay whose policy is not called for a long time.
        self.py.check_signals()?;
        let objects: Vec<u8> = objects.iter().flat_map(|object| object.to_ne_bytes()).collect();
        let hits: Vec<u8> = hits.iter().map(|hit| u8::from(*hit)).collect();
        self.policy.call_method1("requested", (self.view(&objects, "I")?, self.view(&hits, "?")?))?;
        Ok(())
    }

    fn evict(&mut self, count: u32) -> PyResult<Vec<u32>> {
        let victims = self.policy.call_method1("evict", (count,))?;
        victims.try_iter()?.map(|victim| victim?.extract()).collect()
    }
}

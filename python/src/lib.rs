//! The compiled part of the Python package `highwater`: sweeps, folders of runs, and replays of traces.
//!
//! No call holds Python's lock while it simulates or replays, except for a policy that is written in Python. Each call
//! checks for signals, and ends soon after Ctrl-C. Every failure, even a panic, is raised as `highwater.Error`.

mod replay;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use lab::{
    grounds, interrupt,
    job::Failure,
    panics,
    progress::Progress,
    report::{self, ReportFormat, Show},
    results::{self, Frame, Where},
    store::{Store, file},
    sweep,
};
use pyo3::{
    create_exception,
    exceptions::{PyException, PyIndexError},
    prelude::*,
    types::{PyBytes, PyDict},
};

create_exception!(highwater, Error, PyException, "A run failed, or a file of a store is damaged.");
create_exception!(highwater, InputError, Error, "What was asked for is unknown or wrong.");

/// Interval at which a call that simulates checks for signals.
const TICK: Duration = Duration::from_millis(50);

fn error(Failure(message): Failure) -> PyErr {
    Error::new_err(message)
}

/// Returns the exception for a panic.
fn bug(payload: &(dyn std::any::Any + Send)) -> PyErr {
    Error::new_err(format!("a bug stopped it: {}", panics::message(payload)))
}

/// Runs `work` on a thread of its own, without Python's lock, and returns its result.
fn aside<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Progress) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    watched(py, Progress::default(), work)
}

/// Runs `work` as [`aside`] does. A caller that keeps a clone of `progress` can ask the work to end.
fn watched<T: Send + 'static>(
    py: Python<'_>,
    progress: Progress,
    work: impl FnOnce(&Progress) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let (send, receive) = mpsc::channel();
    let theirs = progress.clone();
    thread::Builder::new().name("highwater".into()).spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(|| work(&theirs)))
            .unwrap_or_else(|payload| Err(Failure(format!("a bug stopped it: {}", panics::message(&*payload)))));
        // An error means that the caller was interrupted and no longer waits.
        let _ = send.send(result);
    })?;
    let receive = Mutex::new(receive);
    let wait = |time| receive.lock().expect("only this thread has it").recv_timeout(time);
    loop {
        match py.detach(|| wait(TICK)) {
            Ok(result) => return result.map_err(error),
            Err(RecvTimeoutError::Disconnected) => return Err(Error::new_err("its thread has ended without a word")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(signal) = py.check_signals() {
            progress.cancel();
            // A cancelled run ends within a second of virtual time. After ten seconds the caller stops waiting.
            let _ = py.detach(|| wait(Duration::from_secs(10)));
            return Err(signal);
        }
    }
}

/// A handle by which Python code ends runs: `stop` asks all runs that were given this handle to end.
#[pyclass(frozen, module = "highwater._highwater")]
struct Stop {
    progress: Progress,
}

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self { progress: Progress::default() }
    }

    fn stop(&self) {
        self.progress.cancel();
    }
}

/// A grid of runs.
#[pyclass(frozen, module = "highwater._highwater")]
struct Sweep {
    sweep: Arc<sweep::Sweep>,
}

#[pymethods]
impl Sweep {
    #[new]
    fn new(text: &str, name: &str) -> PyResult<Self> {
        let parsed = catch_unwind(AssertUnwindSafe(|| sweep::Sweep::parse(name, text, grounds::find)));
        match parsed {
            Ok(Ok(sweep)) => Ok(Self { sweep: Arc::new(sweep) }),
            Ok(Err(error)) => Err(InputError::new_err(error.to_string())),
            Err(payload) => Err(bug(&*payload)),
        }
    }

    fn __len__(&self) -> usize {
        self.sweep.runs().len()
    }

    fn keys(&self) -> Vec<String> {
        self.sweep.runs().iter().map(|run| run.hash.clone()).collect()
    }

    fn titles(&self) -> Vec<String> {
        self.sweep.runs().iter().map(|run| self.sweep.title(run)).collect()
    }

    /// Returns the indices of those runs of the sweep whose results are not in the store in folder `store`.
    fn missing(&self, py: Python<'_>, store: PathBuf) -> PyResult<Vec<usize>> {
        let sweep = self.sweep.clone();
        aside(py, move |_| {
            let store = Store::open(&store)?;
            let is_missing = |number: usize| match store.find(&sweep.key(&sweep.runs()[number])) {
                Ok(None) => Some(Ok(number)),
                Ok(Some(_)) => None,
                Err(failure) => Some(Err(failure)),
            };
            (0..sweep.runs().len()).filter_map(is_missing).collect()
        })
    }

    /// Does one run and returns the bytes of its file. If `store` is a folder on this computer, the run is looked up
    /// there first, and kept there.
    #[pyo3(signature = (number, store=None, stop=None))]
    fn run_one<'py>(
        &self,
        py: Python<'py>,
        number: usize,
        store: Option<PathBuf>,
        stop: Option<&Stop>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let Some(run) = self.sweep.runs().get(number).cloned() else {
            return Err(PyIndexError::new_err(format!("the sweep has {} runs", self.sweep.runs().len())));
        };
        let sweep = self.sweep.clone();
        let progress = stop.map_or_else(Progress::default, |stop| stop.progress.clone());
        let bytes = watched(py, progress, move |progress| {
            let store = store.filter(|folder| folder.is_dir()).map(|folder| Store::open(&folder)).transpose()?;
            let key = sweep.key(&run);
            if let Some(store) = &store
                && let Some(found) = store.find(&key)?
            {
                return Ok(file::encode(&key, &found.outcome));
            }
            let named = |Failure(message)| {
                let title = sweep.title(&run);
                Failure(format!("{title}: {message}"))
            };
            let outcome = sweep.run_one(&run, progress).map_err(named)?;
            if let Some(store) = &store {
                store.keep(&key, &outcome)?;
            }
            Ok(file::encode(&key, &outcome))
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the figures of all runs of the sweep, read from the store. `rows` selects the rows; if it is empty, the
    /// sweep's own rows are returned.
    fn frame<'py>(&self, py: Python<'py>, store: PathBuf, rows: Vec<String>) -> PyResult<Bound<'py, PyDict>> {
        let sweep = self.sweep.clone();
        let frame = aside(py, move |_| {
            let mut joined = sweep.joined(&Store::existing(&store)?, &BTreeMap::new())?;
            results::keep_rows(&mut joined.runs, if rows.is_empty() { sweep.rows() } else { &rows });
            Ok(Frame::of(&joined.runs))
        })?;
        columns(py, &frame)
    }

    /// Returns each table of the sweep, with the medians by row and column.
    fn tables<'py>(&self, py: Python<'py>, store: PathBuf, rows: Vec<String>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let sweep = self.sweep.clone();
        let tables = aside(py, move |_| Ok(sweep.joined(&Store::existing(&store)?, &BTreeMap::new())?.tables))?;
        let of = |table: report::Table| {
            let is_meant = |name: &str| rows.is_empty() || rows.iter().any(|word| lab::rows::contains(name, word));
            let lines: Vec<_> = table.rows.iter().filter(|row| is_meant(&row.name)).collect();
            let columns = PyDict::new(py);
            columns.set_item("group", lines.iter().map(|row| row.group.as_str()).collect::<Vec<_>>())?;
            columns.set_item("name", lines.iter().map(|row| row.name.as_str()).collect::<Vec<_>>())?;
            columns.set_item("unit", lines.iter().map(|row| row.unit.as_str()).collect::<Vec<_>>())?;
            for (number, column) in table.columns.iter().enumerate() {
                columns.set_item(&column.id, lines.iter().map(|row| row.median(number)).collect::<Vec<_>>())?;
            }
            Ok(columns)
        };
        tables.into_iter().map(of).collect()
    }

    /// Returns the report that the command would print, as text.
    fn report(&self, py: Python<'_>, store: PathBuf) -> PyResult<String> {
        let sweep = self.sweep.clone();
        aside(py, move |_| {
            let mut text = Vec::new();
            for (number, table) in sweep.joined(&Store::existing(&store)?, &BTreeMap::new())?.tables.iter().enumerate()
            {
                text.extend_from_slice(if number == 0 { b"" } else { b"\n" });
                report::write(table, ReportFormat::Table, Show::default(), &mut text)
                    .map_err(|error| Failure(error.to_string()))?;
            }
            String::from_utf8(text).map_err(|error| Failure(error.to_string()))
        })
    }
}

/// Returns a frame (table of values) as a Python dict from column names to columns.
fn columns<'py>(py: Python<'py>, frame: &Frame) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    for name in frame.names() {
        match name {
            "seed" => columns.set_item(name, &frame.seeds)?,
            "value" => columns.set_item(name, &frame.values)?,
            _ => {
                let texts = frame.texts.iter().find(|(known, _)| known == name).map(|(_, texts)| texts);
                columns.set_item(name, texts)?;
            }
        }
    }
    Ok(columns)
}

/// Keeps the bytes of a run's file in a store, and returns the hash of the run.
#[pyfunction]
fn keep(py: Python<'_>, store: PathBuf, bytes: Vec<u8>) -> PyResult<String> {
    aside(py, move |_| Ok(Store::open(&store)?.keep_bytes(&bytes)?.hash))
}

/// Returns the figures of the runs in a store, as columns by name.
#[pyfunction]
fn stored<'py>(
    py: Python<'py>,
    store: PathBuf,
    wanted: Vec<String>,
    rows: Vec<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let wanted =
        wanted.iter().map(|text| text.parse()).collect::<Result<Vec<Where>, _>>().map_err(InputError::new_err)?;
    let frame = aside(py, move |_| {
        let mut runs = match results::matching(Store::existing(&store)?.runs()?, &wanted) {
            Ok(runs) => runs,
            Err(message) => return Ok(Err(message)),
        };
        results::keep_rows(&mut runs, &rows);
        Ok(Ok(Frame::of(&runs)))
    })?;
    columns(py, &frame.map_err(InputError::new_err)?)
}

/// Panics, so that a test can check the exception that reaches Python.
#[pyfunction]
fn panic_for_test(py: Python<'_>) -> PyResult<()> {
    aside(py, |_| panic!("frame 0x2 isolated twice"))
}

#[pymodule]
fn _highwater(module: &Bound<'_, PyModule>) -> PyResult<()> {
    panics::keep_quiet();
    // Python handles Ctrl-C. With the handlers of `interrupt`, Ctrl-C would end a notebook's process instead of raising
    // KeyboardInterrupt.
    interrupt::leave_to_others();
    module.add("Error", module.py().get_type::<Error>())?;
    module.add("InputError", module.py().get_type::<InputError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Stop>()?;
    module.add_class::<Sweep>()?;
    module.add_class::<replay::Trace>()?;
    module.add_function(wrap_pyfunction!(keep, module)?)?;
    module.add_function(wrap_pyfunction!(stored, module)?)?;
    module.add_function(wrap_pyfunction!(panic_for_test, module)?)
}

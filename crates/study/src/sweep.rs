//! A sweep: runs for all combinations of the listed kernels, scales and values. The results go to a store. A sweep can
//! be divided into parts. A sweep that was interrupted skips the runs whose results are stored.
//!
//! ```toml
//! experiments = ["parallelio"]
//! kernels = ["3.10-rc4-vanilla", "./mine.toml"]
//! scales = ["1/16"]
//! runs = 5
//! [set]
//! lru.swappiness = [0, 60]
//! ```

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    str::FromStr,
};

use placed::{Error, Node, Place, Value};

use crate::plan::{JobFailure, Plan, Request, Set};
use crate::runner;
use crate::runner::Watch;
use crate::store::{Identity, Key, Store, StoredRun};
use catalogue::difference::plain;
use catalogue::find;
use figures::figure::RowName;
use figures::scale::Scale;
use grounds::job::{Failure, Outcome, Runnable};
use kit::progress::Progress;
use report::{Table, rows};

/// A sweep (the runs of all combinations of experiments, kernels, machines, scales, values and seeds that a file
/// lists), ready to run.
pub struct Sweep {
    /// A plan for each experiment, machine and scale.
    plans: Vec<Plan>,
    /// The runs of all plans. A run that is in several plans is in this list once.
    runs: Vec<SweepRun>,
    /// Words by which the sweep's file selects rows of the report. A word selects each row whose name contains the
    /// word. If the word is the name of a group of rows, it selects all rows of this group. Empty if all rows are
    /// selected.
    rows: Vec<String>,
}

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct SweepRun {
    /// The hash of the run's key.
    pub hash: String,
    /// The identity of the run: experiment, machine, scale, kernel, changes and seed.
    pub identity: Identity,
    plan: usize,
    number: usize,
}

/// A part of a sweep: every `count`th run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of this part of the sweep, counted from 1.
    pub index: usize,
    /// Number of parts into which the sweep is divided.
    pub count: usize,
}

impl Shard {
    /// The part that contains all runs of a sweep.
    pub const ALL: Self = Self { index: 1, count: 1 };

    /// Returns whether this part of the sweep contains the run at position `number`, from 0, in the list of the sweep's
    /// runs.
    #[must_use]
    pub const fn has(self, number: usize) -> bool {
        number % self.count == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Self { index, count }),
            _ => Err(format!("expected I/N, a part from 1 to N of so many, such as 3/8; found `{text}`")),
        }
    }
}

/// The outcome of a part of a sweep: the number of runs that were performed, the number found in the store, and the
/// runs that failed.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Number of runs that this part of the sweep performed, because the store did not have their results.
    pub done: usize,
    /// Number of runs that were found in the store.
    pub found: usize,
    /// Failed runs.
    pub failures: Vec<JobFailure>,
    /// The reasons of the failures. A key is the hash after which the file of the failed run is named.
    pub why: BTreeMap<String, Failure>,
}

/// The results of a sweep's runs.
#[derive(Clone, Debug)]
pub struct Joined {
    /// A table for each experiment, machine and scale, in the order of the file.
    pub tables: Vec<Table>,
    /// The runs that did not fail, in the order of the sweep.
    pub runs: Vec<StoredRun>,
}

/// The keys that a sweep's file may have.
const KEYS: [&str; 8] = ["experiments", "kernels", "machines", "scales", "seed", "runs", "rows", "set"];

/// Largest number of runs in a sweep.
const RUNS_MAX: u64 = 1_000_000;

/// Largest number of combinations, seeds not counted. For each combination a kernel and a machine are in memory, about
/// 100 KB, so that the largest sweep takes 2 GB.
const COMBINATIONS_MAX: u64 = 20_000;

/// A word from a list in a sweep's file, with its place in the file.
struct Word {
    text: String,
    place: Place,
}

impl Sweep {
    /// Makes a sweep from the text of a file. `file` is its name in messages, and files that it names are searched from
    /// its folder. `find` returns workloads by name.
    ///
    /// # Errors
    /// When the text is faulty. The error is the first fault, with its line.
    pub fn parse(file: &str, text: &str, find: impl Fn(&str) -> Option<&'static dyn Runnable>) -> Result<Self, Error> {
        let node = Node::parse(file, text)?;
        node.only(&KEYS)?;
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        let from_folder = |word: Word| match find::is_file(&word.text) {
            true => Word { text: folder.join(&word.text).display().to_string(), ..word },
            false => word,
        };
        let names =
            |key: &str| -> Result<Vec<Word>, Error> { Ok(words(&node, key)?.into_iter().map(from_folder).collect()) };
        let (experiments, kernels, machines) = (names("experiments")?, names("kernels")?, names("machines")?);
        if experiments.is_empty() {
            let place = Place { line: 1, ..node.place.clone() };
            return Err(Error::at(
                &place,
                "expected `experiments = [\"…\"]`, with a name of `highwater list` or a file",
            ));
        }
        check(&experiments, |word| find::experiment(word).map(drop))?;
        check(&kernels, |word| find::kernel(word).map(drop))?;
        check(&machines, |word| find::machine(word).map(drop))?;
        let scales = words(&node, "scales")?;
        let scales = scales.iter().map(|Word { text, place }| {
            text.parse::<Scale>().map(Some).map_err(|message| Error::at(place, format!("`scales`: {message}")))
        });
        let mut scales = scales.collect::<Result<Vec<_>, _>>()?;
        if scales.is_empty() {
            scales.push(None);
        }
        let machines: Vec<Option<String>> = match machines.as_slice() {
            [] => vec![None],
            machines => machines.iter().map(|word| Some(word.text.clone())).collect(),
        };
        let seed = number(&node, "seed", 0)?.unwrap_or(1);
        let runs = number(&node, "runs", 1)?.unwrap_or(1);
        let sets = node.get("set").map(|node| sets(node, "")).transpose()?.unwrap_or_default();
        check_once(&sets)?;
        let values = sets.iter().map(|(set, _)| set.values.len() as u64).fold(1, u64::saturating_mul);
        let (mut plans, mut combinations) = (Vec::new(), 0_u64);
        for experiment in &experiments {
            for machine in &machines {
                for scale in &scales {
                    let request = Request {
                        experiment: experiment.text.clone(),
                        kernels: kernels.iter().map(|word| word.text.clone()).collect(),
                        machine: machine.clone(),
                        scale: *scale,
                        seed,
                        runs,
                        ..Request::default()
                    };
                    let own = || -> Result<usize, Error> { Ok(find::experiment(&experiment.text)?.kernels.len()) };
                    let compared = if kernels.is_empty() { own()? } else { kernels.len() };
                    combinations = combinations.saturating_add((compared as u64).saturating_mul(values));
                    check_size(&node, combinations, runs)?;
                    check_sets(&request, &sets, &find)?;
                    let request = Request { set: sets.iter().map(|(set, _)| set.clone()).collect(), ..request };
                    plans.push(Plan::new(&request, &find).map_err(|error| at(error, &experiment.place))?);
                }
            }
        }
        let mut seen = HashSet::new();
        let all = plans.iter().enumerate().flat_map(|(plan, it)| {
            let run = move |(number, (hash, identity))| SweepRun { hash, identity, plan, number };
            it.names().enumerate().map(run)
        });
        let runs = all.filter(|run| seen.insert(run.hash.clone())).collect();
        let sweep = Self { plans, runs, rows: Vec::new() };
        let rows = words(&node, "rows")?;
        let names = sweep.row_names();
        for Word { text, place } in &rows {
            let wrong = |why| Error::at(place, format!("`rows`: {why}"));
            check_rows(&names, std::slice::from_ref(text)).map_err(wrong)?;
        }
        Ok(Self { rows: rows.into_iter().map(|word| word.text).collect(), ..sweep })
    }

    /// Checks that each word matches a row of some run. If the rows are not known in advance, every word is accepted.
    ///
    /// # Errors
    /// When a word matches no row. The message lists the existing rows.
    pub fn check_rows(&self, words: &[String]) -> Result<(), String> {
        check_rows(&self.row_names(), words)
    }

    /// Returns the names of the rows that the sweep's runs may have; empty if they are not known in advance.
    fn row_names(&self) -> Vec<RowName> {
        let names: Option<Vec<Vec<RowName>>> = self.plans.iter().map(Plan::row_names).collect();
        names.unwrap_or_default().concat()
    }

    /// Returns the sweep's runs in the order in which they are planned. A run that several plans share is returned
    /// once.
    #[must_use]
    pub fn runs(&self) -> &[SweepRun] {
        &self.runs
    }

    /// Returns the words by which the sweep's file selects rows; empty if it selects all rows.
    #[must_use]
    pub fn rows(&self) -> &[String] {
        &self.rows
    }

    /// Returns a run's name for messages: experiment, machine, scale, kernel with changes, and seed.
    #[must_use]
    pub fn title(&self, run: &SweepRun) -> String {
        let identity = &run.identity;
        let (experiment, machine, scale) = (&identity.experiment, identity.plain_machine(), &identity.scale);
        format!("{experiment} {machine} {scale} {} seed {}", identity.column(), identity.seed)
    }

    /// Returns the key of a run, which contains everything that determines the run.
    #[must_use]
    pub fn key(&self, run: &SweepRun) -> Key {
        self.plans[run.plan].key_of(run.number)
    }

    /// Performs one run on the calling thread, even if it is stored already. Returns its outcome.
    ///
    /// # Errors
    /// When the run could not be finished.
    ///
    /// # Panics
    /// When a bug stops the run.
    pub fn run_one(&self, run: &SweepRun, progress: &Progress) -> Result<Outcome, Failure> {
        self.plans[run.plan].run_one(run.number, progress)
    }

    /// Performs those runs of a part that are not in the store, on `threads` threads, and stores each run when it ends.
    /// A failed run does not stop the others. Returns the outcome of the part.
    pub fn run(&self, store: &Store, shard: Shard, threads: usize, watch: &dyn Watch) -> Ran {
        let part: Vec<(usize, &SweepRun)> = self.runs.iter().enumerate().filter(|(n, _)| shard.has(*n)).collect();
        let results = runner::all(&part, threads, |(number, run)| {
            let key = self.key(run);
            if store.find(&key)?.is_some() {
                watch.found();
                return Ok(false);
            }
            let progress = Progress::default();
            watch.began(*number, &self.title(run), &progress);
            let outcome = self.run_one(run, &progress);
            watch.ended(*number);
            let outcome = outcome?;
            outcome.loss().map_or(Ok(()), Err)?;
            store.keep(&key, &outcome)?;
            Ok(true)
        });
        let mut ran = Ran { done: 0, found: 0, failures: Vec::new(), why: BTreeMap::new() };
        for ((_, run), result) in results {
            match result {
                Ok(true) => ran.done += 1,
                Ok(false) => ran.found += 1,
                Err(failure) => {
                    ran.why.insert(run.hash.clone(), failure.clone());
                    ran.failures.push(JobFailure {
                        column: format!("{} {}", run.identity.experiment, run.identity.column()),
                        seed: run.identity.seed,
                        failure,
                        replay: self.plans[run.plan].replay(run.number).to_owned(),
                    });
                }
            }
        }
        ran
    }

    /// Returns how many of the sweep's runs a store holds.
    #[must_use]
    pub fn there(&self, store: &Store) -> usize {
        self.runs.iter().filter(|run| store.has(&run.hash)).count()
    }

    /// Returns the results of all runs. Results of completed runs are read from `store`. `why` has the failed runs,
    /// which the store lacks: the failure of each, by the run's hash.
    ///
    /// # Errors
    /// When a run is neither in the store nor in `why`, or its file is damaged.
    pub fn joined(&self, store: &Store, why: &BTreeMap<String, Failure>) -> Result<Joined, Failure> {
        let find = |key: &Key| {
            if let Some(failure) = why.get(&key.hash) {
                return Ok(Err(failure.clone()));
            }
            let found = store.find(key)?;
            found.map(Ok).ok_or_else(|| Failure(format!("{} holds no run {}", store.folder().display(), key.hash)))
        };
        let table = |plan: &Plan| {
            let outcome = |key: Key| Ok(find(&key)?.map(|found| found.outcome));
            Ok(plan.table(plan.keys().map(outcome).collect::<Result<_, Failure>>()?))
        };
        let runs = self.runs.iter().map(|run| find(&self.key(run))).collect::<Result<Vec<_>, Failure>>()?;
        Ok(Joined {
            tables: self.plans.iter().map(table).collect::<Result<_, Failure>>()?,
            runs: runs.into_iter().filter_map(Result::ok).collect(),
        })
    }
}

/// Gives `error` the place `place`, unless `error` already names a line. Returns the error.
fn at(error: Error, place: &Place) -> Error {
    let is_of_file = error.place.as_ref().is_some_and(|place| place.line > 0);
    if is_of_file { error } else { Error::at(place, error.to_string()) }
}

fn check(words: &[Word], of: impl Fn(&str) -> Result<(), Error>) -> Result<(), Error> {
    words.iter().try_for_each(|word| of(&word.text).map_err(|error| at(error, &word.place)))
}

/// Returns the values of the key `key`: one value, or the elements of a list. Values are texts; the key `scales` may
/// also have numbers. The result is empty if the key is missing.
fn words(node: &Node, key: &str) -> Result<Vec<Word>, Error> {
    let Some(node) = node.get(key) else { return Ok(Vec::new()) };
    let nodes = match &node.value {
        Value::List(nodes) if nodes.is_empty() => {
            return Err(Error::at(&node.place, format!("`{key}`: expected at least one, found []")));
        }
        Value::List(nodes) => nodes.as_slice(),
        _ => std::slice::from_ref(node),
    };
    let word = |node: &Node| match &node.value {
        Value::Text(text) if text.trim().is_empty() => {
            Err(Error::at(&node.place, format!("`{key}`: expected a name, found \"\"")))
        }
        Value::Text(_) => Ok(Word { text: plain(&node.value), place: node.place.clone() }),
        Value::Integer(_) | Value::Float(_) if key == "scales" => {
            Ok(Word { text: plain(&node.value), place: node.place.clone() })
        }
        other => Err(Error::at(&node.place, format!("`{key}`: expected texts in quotes, found {other}"))),
    };
    nodes.iter().map(word).collect()
}

/// Returns the whole number that a key holds; none if the key is missing. The number must be at least `least`.
fn number(node: &Node, key: &str, least: u64) -> Result<Option<u64>, Error> {
    let Some(node) = node.get(key) else { return Ok(None) };
    let wrong =
        || Error::at(&node.place, format!("`{key}`: expected a whole number from {least} up, found {}", node.value));
    match &node.value {
        Value::Integer(number) => {
            Ok(Some(u64::try_from(*number).ok().filter(|number| *number >= least).ok_or_else(wrong)?))
        }
        _ => Err(wrong()),
    }
}

/// Returns the keys of a table with their values and places. Keys of nested tables are joined to one key.
fn sets(node: &Node, path: &str) -> Result<Vec<(Set, Vec<Place>)>, Error> {
    let Value::Table(entries) = &node.value else {
        return Err(Error::at(
            &node.place,
            format!("`set`: expected a section [set] with keys and lists of values, found {}", node.value),
        ));
    };
    let mut found = Vec::new();
    for entry in entries {
        let key = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        let values = match &entry.node.value {
            Value::Table(_) => {
                found.extend(sets(&entry.node, &key)?);
                continue;
            }
            Value::List(nodes) if nodes.is_empty() => {
                return Err(Error::at(&entry.place, format!("`{key}`: expected at least one value, found []")));
            }
            Value::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(&entry.node),
        };
        let places = values.iter().map(|node| node.place.clone()).collect();
        found.push((Set { key, values: values.iter().map(|node| plain(&node.value)).collect() }, places));
    }
    Ok(found)
}

fn check_rows(names: &[RowName], words: &[String]) -> Result<(), String> {
    if names.is_empty() { Ok(()) } else { rows::check(names, words) }
}

/// Checks that no key occurs twice: keys in a nested table and a quoted key can name the same setting.
fn check_once(sets: &[(Set, Vec<Place>)]) -> Result<(), Error> {
    for (n, (Set { key, .. }, places)) in sets.iter().enumerate() {
        if let Some((_, earlier)) = sets[..n].iter().find(|(set, _)| set.key == *key) {
            let line = earlier[0].line;
            return Err(Error::at(&places[0], format!("`{key}` has values in line {line} already")));
        }
    }
    Ok(())
}

/// Returns an error if a sweep with this number of combinations, and `seeds` seeds for each combination, is too large
/// to be planned. `node` is the sweep's file; the error names a line in it.
fn check_size(node: &Node, combinations: u64, seeds: u64) -> Result<(), Error> {
    let place_of = |keys: [&str; 2]| {
        let found = keys.into_iter().find_map(|key| node.get(key));
        found.map_or_else(|| Place { line: 1, ..node.place.clone() }, |node| node.place.clone())
    };
    if combinations > COMBINATIONS_MAX {
        let message = format!(
            "expected at most {COMBINATIONS_MAX} combinations of experiments, machines, scales, kernels and values, found {combinations} \
             or more; seeds (`runs`) do not count, and several files can share a store"
        );
        return Err(Error::at(&place_of(["set", "kernels"]), message));
    }
    if combinations.saturating_mul(seeds) > RUNS_MAX {
        return Err(Error::at(&place_of(["runs", "set"]), format!("expected at most {RUNS_MAX} runs, found more")));
    }
    Ok(())
}

/// Checks each value in `sets`: makes a plan in which this value alone is set. An error then has the line of the faulty
/// value.
fn check_sets(
    request: &Request,
    sets: &[(Set, Vec<Place>)],
    find: &impl Fn(&str) -> Option<&'static dyn Runnable>,
) -> Result<(), Error> {
    for (set, places) in sets {
        for (value, place) in set.values.iter().zip(places) {
            let alone = Set { key: set.key.clone(), values: vec![value.clone()] };
            let request = Request { set: vec![alone], runs: 1, ..request.clone() };
            Plan::new(&request, find).map_err(|error| {
                let message = error.message.strip_prefix("--set ").map_or_else(|| error.to_string(), str::to_owned);
                Error::at(place, message)
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Sweep, String> {
        Sweep::parse("s.toml", text, grounds::find).map_err(|error| error.to_string())
    }

    const PLAIN: &str = "experiments = \"randread\"\nkernels = [\"highwater\"]\nscales = [\"1/16\"]\n";

    #[test]
    fn runs_have_the_names_that_their_keys_give() {
        let sweep =
            parse(&format!("{PLAIN}runs = 3\n[set]\nlru.batch = [14, 31]\nmachine.cpu.count = [2, 4]\n")).unwrap();
        assert_eq!(sweep.runs().len(), 12);
        for run in sweep.runs() {
            let key = sweep.key(run);
            assert_eq!((&run.hash, &run.identity), (&key.hash, &key.identity));
            assert_eq!(key.hash, crate::store::key::hash_of(&key.text));
        }
    }

    #[test]
    fn a_grid_has_every_combination_once() {
        let sweep = parse(&format!("{PLAIN}runs = 2\n[set]\nlru.batch = [14, 31]\n\"lru.swappiness\" = 60\n")).unwrap();
        let titles: Vec<String> = sweep.runs().iter().map(|run| sweep.title(run)).collect();
        assert_eq!(titles.len(), 4, "{titles:?}");
        assert!(titles[1].ends_with("1/16 highwater+lru.batch=14+lru.swappiness=60 seed 2"), "{titles:?}");
        let twice = parse(&PLAIN.replace("\"highwater\"", "\"highwater\", \"highwater\"")).unwrap();
        assert_eq!(twice.runs().len(), 1);
    }

    #[test]
    fn shards_share_all_runs() {
        let sweep = parse(&format!("{PLAIN}runs = 7\n")).unwrap();
        let of = |index| (0..sweep.runs().len()).filter(move |n| Shard { index, count: 3 }.has(*n));
        let mut all: Vec<usize> = (1..=3).flat_map(of).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!("3/8".parse(), Ok(Shard { index: 3, count: 8 }));
        for wrong in ["0/8", "9/8", "3", "3/0", "a/b"] {
            assert!(wrong.parse::<Shard>().unwrap_err().contains("expected I/N"), "{wrong}");
        }
    }

    #[test]
    fn errors_have_the_line_and_what_was_expected() {
        let error = |text: &str| parse(text).err().expect(text);
        assert_eq!(error("kernels = []\n"), "s.toml:1: `kernels`: expected at least one, found []");
        assert!(error("seed = 1\n").starts_with("s.toml:1: expected `experiments = [\"…\"]`"));
        assert_eq!(error(&format!("{PLAIN}run = 2\n")), "s.toml:4: unknown key `run`: did you mean `runs`?");
        assert_eq!(
            error(&format!("{PLAIN}runs = 0\n")),
            "s.toml:4: `runs`: expected a whole number from 1 up, found 0"
        );
        assert_eq!(
            error(&format!("{PLAIN}seed = \"a\"\n")),
            "s.toml:4: `seed`: expected a whole number from 0 up, found \"a\""
        );
        assert!(
            error(&PLAIN.replace("1/16", "small")).starts_with("s.toml:3: `scales`: expected a fraction such as 1/16")
        );
        assert_eq!(
            error(&PLAIN.replace("\"highwater\"", "\"highwater\",\n \"highwatr\"")),
            "s.toml:3: no kernel is called `highwatr`: did you mean `highwater`?"
        );
        let of_set = |line: &str| error(&format!("{PLAIN}[set]\n{line}\n"));
        let unknown = of_set("lru.bach = 3");
        assert!(unknown.starts_with("s.toml:5: ") && unknown.contains("did you mean `lru.batch`?"), "{unknown}");
        assert!(of_set("lru.batch = [14,\n 0]").starts_with("s.toml:6: "), "{}", of_set("lru.batch = [14,\n 0]"));
        assert!(of_set("lru.batch = []").starts_with("s.toml:5: `lru.batch`: expected at least one value"));
        let twice = of_set("\"lru.batch\" = 14\nlru.batch = [31]");
        assert_eq!(twice, "s.toml:6: `lru.batch` has values in line 5 already");
        let rows = error(&format!("{PLAIN}rows = [\"Ops\",\n \"kswpad\"]\n"));
        assert!(
            rows.starts_with(
                "s.toml:5: `rows`: no row has `kswpad` in its name, and no block is called so; near are `pgscan_kswapd`, "
            ),
            "{rows}"
        );
        let many =
            error(&format!("{PLAIN}runs = 100_000\n[set]\nlru.batch = [{}]\n", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"));
        assert_eq!(many, "s.toml:4: expected at most 1000000 runs, found more");
        let list = (1..=150).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let wide = of_set(&format!("lru.batch = [{list}]\nlru.swappiness = [{list}]"));
        assert!(wide.starts_with("s.toml:4: expected at most 20000 combinations of experiments, "), "{wide}");
        assert!(wide.contains("found 22500 or more"), "{wide}");
        assert_eq!(error("\n\nexperiments = \"randread\"\nkernels = []\n").split(' ').next(), Some("s.toml:4:"));
        assert!(error(&format!("set = 3\n{PLAIN}")).contains("s.toml:1: `set`: expected a section [set]"));
    }
}

//! Compares a kernel file with a kernel image: equal loads run on the simulator and in a virtual machine (a guest), and
//! their counters are compared.
//!
//! `truth.toml` has the loads and the rule for each counter. Only counts of events are compared, not times, because an
//! emulated guest has wrong times, but counts events as a real machine does.

mod page;

use catalogue::ground::{Ground, GroundOptions};
use placed::{Error, Node};
use report::Table;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use crate::plan::{Request, Set};
pub use page::{csv, page};

/// The loads, and the rules by which the counters of a guest and of the simulator are compared.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The rules by which counters are compared. The rule of a counter that is a cause comes before the rules of its
    /// effects.
    #[serde(rename = "counter")]
    pub counters: Vec<Rule>,
    /// The loads that run on the simulator and in guests.
    #[serde(rename = "load")]
    pub loads: Vec<Load>,
}

/// The rule by which simulated values of some counters are compared with the guest's.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Names of the counters to which the rule applies.
    pub names: Vec<String>,
    /// Counters of the kernel whose sum is the value of each counter in `names`. If this list is empty, the counters in
    /// `names` are counters of the kernel themselves.
    #[serde(default)]
    pub sum_of: Vec<String>,
    /// The largest accepted difference between the simulated value and the guest's value, in percent of the guest's
    /// value. If this is missing, the values are shown but not judged.
    pub percent: Option<f64>,
    /// A counter is compared only if its median in the guest or its simulated median has at least this value.
    /// Differences between smaller values say nothing.
    pub least: f64,
}

/// A load: the workload of an experiment, with fixed values of its parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Name of the load.
    pub name: String,
    /// Description of the load in one line.
    pub about: String,
    /// Name of the experiment whose workload the load runs.
    pub experiment: String,
    /// Values of the kernel, the workload and the machine, as `KEY=VALUE`.
    pub set: Vec<String>,
}

/// The median, the lowest and the highest value of a counter over several runs.
pub type Spread = [f64; 3];

/// The counters of one load under one kernel, as the guest counted them and as the simulator did.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Name of the load.
    pub load: String,
    /// Name of the column that a report has for the guest.
    pub guest: String,
    /// By the name of a counter: its median, lowest and highest value over the boots of the guest, and then the same
    /// three over the seeds of the simulation.
    pub counters: BTreeMap<String, (Spread, Spread)>,
}

/// The comparison of the simulator with the guest for one load under one kernel, counter by counter.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// Name of the load.
    pub load: String,
    /// Name of the column that a report has for the guest.
    pub guest: String,
    /// The compared counters, in causal order: causes before their effects.
    pub counters: Vec<Compared>,
}

/// The comparison of one counter: the guest's values with the simulated values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Name of the counter.
    pub name: String,
    /// The counter's values over the guest's boots.
    pub guest: Spread,
    /// The counter's simulated values over seeds.
    pub sim: Spread,
    /// The simulated median divided by the guest's; none if the guest's is 0.
    pub ratio: Option<f64>,
    /// `Some(true)` if the guest's range, widened by the rule's `percent`, overlaps the simulated range. None if the
    /// rule has no `percent`.
    pub agrees: Option<bool>,
    /// `Some(true)` if the two medians differ by no more than the rule's `percent`, whatever the ranges are. None if
    /// the rule has no `percent`.
    pub medians_agree: Option<bool>,
}

/// A counter whose values in the guests differ between two kernels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Name of the load.
    pub load: String,
    /// Name of the counter.
    pub name: String,
    /// Names of two columns: those of the guests whose kernels are compared.
    pub guests: [String; 2],
    /// The counter's median with each of the two kernels, as the guests counted.
    pub counted: [f64; 2],
    /// The counter's median with each of the two kernels, as simulated.
    pub sim: [f64; 2],
}

impl Difference {
    /// Returns whether the simulation orders the two kernels as the guests do: the kernel with the larger median in the
    /// guests has the larger median in the simulation, too.
    #[must_use]
    pub fn is_right(&self) -> bool {
        (self.counted[0] - self.counted[1]) * (self.sim[0] - self.sim[1]) > 0.0
    }

    /// Returns a line on a difference that the simulation has with the wrong sign.
    fn show(&self) -> String {
        let Self { load, name, guests: [one, other], counted: [counted, counted_there], sim: [sim, sim_there] } = self;
        format!(
            "wrong: {name} of {load}, {one} and {other}: {counted:.0} and {counted_there:.0}, simulated {sim:.0} and {sim_there:.0}"
        )
    }
}

/// The recorded counters of guests, with which simulations can be compared without a guest.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Lines with notes about the guests, such as the version of their kernel.
    pub notes: Vec<String>,
    /// The counters of guests, for each load with each kernel file.
    pub runs: Vec<Recorded>,
}

impl Record {
    /// Returns whether the record has counters of a load.
    #[must_use]
    pub fn has(&self, load: &Load) -> bool {
        self.runs.iter().any(|run| run.load == load.name)
    }

    /// Returns a record from the text of the file called `file`.
    ///
    /// # Errors
    /// When the text is no record, names a load that does not exist, or was made with a load whose values have changed
    /// since.
    pub fn parse(file: &str, text: &str) -> Result<Self, String> {
        let mut record: Self = serde_json::from_str(text).map_err(|error| {
            format!("{file}: no record of guests, as `highwater truth --record` writes it: {error}")
        })?;
        for run in &mut record.runs {
            let Some(load) = suite().loads.iter().find(|load| load.name == run.load) else {
                return Err(format!("{file}: no load is called `{}`", run.load));
            };
            if load.set != run.set {
                let (load, then, now) = (&run.load, run.set.join(" "), load.set.join(" "));
                return Err(format!(
                    "{file}: the load `{load}` is another today, and is to be recorded anew\n  then {then}\n  now  {now}"
                ));
            }
            run.add_sums();
        }
        Ok(record)
    }
}

/// The counters that a guest had after it ran one load. The guest's kernel corresponds to one kernel file.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Name of the load.
    pub load: String,
    /// The settings ([`Load::set`]) that the load had when it was recorded. If the load has other settings today, it
    /// must be recorded again.
    pub set: Vec<String>,
    /// Name of the column that a report has for the guest.
    pub guest: String,
    /// Name of the kernel file.
    pub kernel: String,
    /// Median, lowest and highest value over the guest's boots, by counter.
    pub counters: BTreeMap<String, Spread>,
}

impl Recorded {
    /// Adds the counters that the record lacks and that are sums of recorded counters. With several boots, the range of
    /// such a sum is too wide: it goes from the sum of the lowest values to the sum of the highest ones, which need not
    /// come from the same boot.
    fn add_sums(&mut self) {
        for rule in suite().counters.iter().filter(|rule| !rule.sum_of.is_empty()) {
            let parts: Option<Vec<Spread>> = rule.sum_of.iter().map(|name| self.counters.get(name).copied()).collect();
            let Some(parts) = parts else { continue };
            let sum = [0, 1, 2].map(|n| parts.iter().map(|part| part[n]).sum());
            for name in &rule.names {
                self.counters.entry(name.clone()).or_insert(sum);
            }
        }
    }
}

/// Name, as messages print it, of the file with the loads that are compared, and the rules of the comparison.
const FILE: &str = "crates/study/truth.toml";

/// Name, as messages print it, of the file that holds the results of the last comparison.
const LAST_FILE: &str = "crates/study/truth-last.toml";

/// The machine on which all loads run.
const MACHINE: &str = "guest-512m";

/// Returns the loads and rules of `truth.toml`.
///
/// # Panics
/// Never: a test checks that the built-in `truth.toml` can be read.
pub fn suite() -> &'static Suite {
    static SUITE: LazyLock<Suite> = LazyLock::new(|| {
        let read = || -> Result<Suite, Error> { Node::parse(FILE, include_str!("../truth.toml"))?.read() };
        read().unwrap_or_else(|error| panic!("{error}"))
    });
    &SUITE
}

/// Agreement of simulations with one record of guests (real kernels in virtual machines), when the two were last
/// compared.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Last {
    /// Name of the record: the kernel that the guests ran.
    pub name: String,
    /// Two numbers of counters: those whose simulated value is close enough to the value in the guests, by the rules of
    /// `truth.toml`; and all that were judged.
    pub counters: [usize; 2],
    /// Differences are counters whose counts differ between two kernels under one load. The first number is that of the
    /// differences with the right sign: the same kernel has the larger count in the simulation and in the guests. The
    /// second number is that of all differences.
    pub signs: [usize; 2],
}

/// Returns the last result for each record in `docs/truth`. `cargo xtask truth` writes these results.
///
/// # Panics
/// Never: a test checks that the built-in `truth-last.toml` can be read.
pub fn last() -> &'static [Last] {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Results {
        #[serde(rename = "record")]
        records: Vec<Last>,
    }
    static RESULTS: LazyLock<Vec<Last>> = LazyLock::new(|| {
        let read = || -> Result<Results, Error> { Node::parse(LAST_FILE, include_str!("../truth-last.toml"))?.read() };
        read().unwrap_or_else(|error| panic!("{error}")).records
    });
    &RESULTS
}

/// Returns `results` (the last result for each record of real kernels) as a line of text: how many counters and how
/// many signs of differences the simulation agrees with.
#[must_use]
pub fn last_text(results: &[Last]) -> String {
    let of = |Last { name, counters: [agree, counters], signs: [right, signs] }: &Last| {
        format!("{name} {agree} of {counters} counters, {right} of {signs} signs of differences")
    };
    let results: Vec<String> = results.iter().map(of).collect();
    format!("beside what real kernels counted (docs/truth.md): {}", results.join("; "))
}

impl Load {
    /// Returns the request that runs the load on `grounds`, once for each seed.
    #[must_use]
    pub fn request(
        &self,
        grounds: &[Ground],
        kernels: &[String],
        place: &GroundOptions,
        seed: u64,
        runs: u64,
    ) -> Request {
        let set = |text: &String| {
            let (key, value) = text.split_once('=').unwrap_or((text, ""));
            Set { key: key.to_owned(), values: vec![value.to_owned()] }
        };
        Request {
            experiment: self.experiment.clone(),
            kernels: kernels.to_vec(),
            machine: Some(MACHINE.to_owned()),
            set: self.set.iter().map(set).collect(),
            seed,
            runs,
            grounds: grounds.to_vec(),
            place: place.clone(),
            ..Request::default()
        }
    }
}

impl Rule {
    fn compare(&self, name: &str, guest: Spread, sim: Spread) -> Option<Compared> {
        let ([guest_median, ..], [sim_median, ..]) = (guest, sim);
        if guest_median.max(sim_median) < self.least {
            return None;
        }
        let is_near = |[_, guest_low, guest_high]: Spread, [_, sim_low, sim_high]: Spread| {
            let share = self.percent? / 100.0;
            Some(guest_low * (1.0 - share) <= sim_high && sim_low <= guest_high * (1.0 + share))
        };
        Some(Compared {
            name: name.to_owned(),
            guest,
            sim,
            ratio: (guest_median > 0.0).then(|| sim_median / guest_median),
            // Ranges are compared, since the count of a single boot depends on chance, too.
            agrees: is_near(guest, sim),
            medians_agree: is_near([guest_median; 3], [sim_median; 3]),
        })
    }

    /// Returns the median, the lowest and the highest value of the counter `name` in a column; none if the table lacks
    /// the counter.
    fn spread(&self, name: &str, table: &Table, column: usize) -> Option<Spread> {
        let samples = |name: &str| -> Option<Vec<f64>> {
            let row = table.rows.iter().find(|row| row.name == name)?;
            Some(row.cells.get(column)?.samples.iter().map(|sample| sample.value).collect())
        };
        let mut values = match &self.sum_of[..] {
            [] => samples(name)?,
            parts => {
                let parts: Vec<Vec<f64>> = parts.iter().map(|part| samples(part)).collect::<Option<_>>()?;
                let runs = parts.iter().map(Vec::len).min()?;
                (0..runs).map(|run| parts.iter().map(|part| part[run]).sum()).collect()
            }
        };
        let median = figures::statistics::median(&mut values)?;
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        Some([median, low, high])
    }
}

impl Suite {
    /// Returns each counter with its rule. Counters that are causes come before those that are their effects.
    fn named(&self) -> impl Iterator<Item = (&Rule, &String)> {
        self.counters.iter().flat_map(|rule| rule.names.iter().map(move |name| (rule, name)))
    }
}

/// Returns the counters of each guest after it ran `load`. `table` is the table of the runs of this load. Guests that
/// failed are left out.
#[must_use]
pub fn recorded(suite: &Suite, load: &Load, table: &Table) -> Vec<Recorded> {
    let spread =
        |column: usize, (rule, name): (&Rule, &String)| Some((name.clone(), rule.spread(name, table, column)?));
    let columns = table.columns.iter().enumerate().filter(|(_, column)| column.ground == Ground::Guest.to_string());
    let of_column = |(n, column): (usize, &report::Column)| Recorded {
        load: load.name.clone(),
        set: load.set.clone(),
        // Settings that all columns of the load have are left out.
        guest: load
            .set
            .iter()
            .flat_map(|set| [set.clone(), set.replace('"', "")])
            .fold(column.id.clone(), |id, set| id.replacen(&format!("+{set}"), "", 1)),
        kernel: column.kernel.clone(),
        counters: suite.named().filter_map(|named| spread(n, named)).collect(),
    };
    // A guest that failed has no counters.
    columns.map(of_column).filter(|run| !run.counters.is_empty()).collect()
}

/// Returns the counters of a guest, each with the simulated counter. The simulated counters are those of the column of
/// `table` that has the guest's kernel file. Returns `None` if there is no such column.
#[must_use]
pub fn counted(suite: &Suite, guest: &Recorded, table: &Table) -> Option<Counted> {
    let is_same = |column: &report::Column| column.ground == Ground::Sim.to_string() && column.kernel == guest.kernel;
    let sim = table.columns.iter().position(is_same)?;
    let both = |(rule, name): (&Rule, &String)| {
        Some((name.clone(), (*guest.counters.get(name)?, rule.spread(name, table, sim)?)))
    };
    let counters = suite.named().filter_map(both).collect();
    Some(Counted { load: guest.load.clone(), guest: guest.guest.clone(), counters })
}

/// Compares two values of each counter under one load: the guest's value and the simulation's value. The counter's rule
/// says how far they may differ. Returns the comparisons of all counters that have both values.
#[must_use]
pub fn held(suite: &Suite, counted: &Counted) -> Held {
    let compared = |(rule, name): (&Rule, &String)| {
        let (guest, sim) = counted.counters.get(name)?;
        rule.compare(name, *guest, *sim)
    };
    let counters = suite.named().filter_map(compared).collect();
    Held { load: counted.load.clone(), guest: counted.guest.clone(), counters }
}

/// Returns the differences between kernels in real guests: each counter whose values differ between two guests with
/// different kernels and the same load. The difference must be larger than the counter's rule allows, and the ranges of
/// the values over the boots of each guest must not overlap.
#[must_use]
pub fn differences(suite: &Suite, all: &[Counted]) -> Vec<Difference> {
    let mut found = Vec::new();
    for (n, one) in all.iter().enumerate() {
        for other in all[n + 1..].iter().filter(|other| other.load == one.load) {
            for (rule, name) in suite.named() {
                let both = one.counters.get(name).zip(other.counters.get(name));
                let (Some((here, there)), Some(percent)) = (both, rule.percent) else { continue };
                let (([counted, low, high], [sim, ..]), ([counted_there, low_there, high_there], [sim_there, ..])) =
                    (*here, *there);
                let more = counted.max(counted_there);
                let is_apart = high < low_there || high_there < low;
                if more >= rule.least && is_apart && (counted - counted_there).abs() > more * percent / 100.0 {
                    found.push(Difference {
                        load: one.load.clone(),
                        name: name.clone(),
                        guests: [one.guest.clone(), other.guest.clone()],
                        counted: [counted, counted_there],
                        sim: [sim, sim_there],
                    });
                }
            }
        }
    }
    found
}

impl Held {
    /// Returns how many counters agree between simulator and guest: by their ranges, and by their medians. Also returns
    /// the number of counters that are judged.
    #[must_use]
    pub fn agree(&self) -> Agreement {
        let count =
            |is: fn(&Compared) -> Option<bool>, wanted| self.counters.iter().filter(|it| is(it) == wanted).count();
        Agreement {
            agree: count(|it| it.agrees, Some(true)),
            by_medians: count(|it| it.medians_agree, Some(true)),
            of: self.counters.len() - count(|it| it.agrees, None),
        }
    }

    /// Returns the first counter in causal order (causes before effects) whose values do not agree; none if all agree.
    #[must_use]
    pub fn first_to_diverge(&self) -> Option<&Compared> {
        self.counters.iter().find(|it| it.agrees == Some(false))
    }
}

/// The number of counters that agree, by two criteria: by ranges and by medians.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Number of counters for which the range of the guest's values, widened by the percentage in the counter's rule,
    /// overlaps the range of the simulated values.
    pub agree: usize,
    /// Number of counters whose median in the guest and median in the simulator differ by no more than the rule for the
    /// counter allows.
    pub by_medians: usize,
    /// Number of counters that are judged.
    pub of: usize,
}

impl std::iter::Sum for Agreement {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, it| Self {
            agree: sum.agree + it.agree,
            by_medians: sum.by_medians + it.by_medians,
            of: sum.of + it.of,
        })
    }
}

/// Returns the sentences with which a report begins: how many counters agree, and how many differences between kernels
/// the simulation has with the right sign.
fn answer(all: &[Held], differences: &[Difference]) -> Vec<String> {
    let Agreement { agree, by_medians, of } = all.iter().map(Held::agree).sum();
    let percent = |agree: usize| if of == 0 { 0.0 } else { 100.0 * agree as f64 / of as f64 };
    let mut counters = format!("{agree} of {of} counters agree ({:.0} %)", percent(agree));
    if by_medians < agree {
        let _ = write!(counters, "; by medians alone {by_medians} ({:.0} %)", percent(by_medians));
    }
    let right = differences.iter().filter(|it| it.is_right()).count();
    let signs = format!("{right} of {} differences between two kernels have the right sign", differences.len());
    std::iter::once(counters).chain((!differences.is_empty()).then_some(signs)).collect()
}

/// Returns the result as text. First the text says how many counters agree, and how many differences between kernels
/// the simulation has with the right sign. Then, for each load, it names the first counter that does not agree, and
/// lists the counters: all if `shows_all` is set, otherwise only those that do not agree.
#[must_use]
pub fn text(all: &[Held], differences: &[Difference], shows_all: bool) -> String {
    let mut text: String = answer(all, differences).iter().map(|line| format!("{line}\n")).collect();
    for difference in differences.iter().filter(|it| !it.is_right()) {
        let _ = writeln!(text, "  {}", difference.show());
    }
    for held in all {
        let Agreement { agree, of, .. } = held.agree();
        let first = held.first_to_diverge();
        let first = first.map_or_else(String::new, |it| format!("; the first to diverge: {}", it.name));
        let nothing = if of == 0 { ": nothing was reclaimed or read in" } else { "" };
        let _ = writeln!(text, "\n{}, {}: {agree} of {of}{nothing}{first}", held.load, held.guest);
        let shown: Vec<&Compared> = page::shown(held, shows_all).collect();
        if !shown.is_empty() {
            let _ = writeln!(text, "  {:<26}{:>26}{:>26}{:>8}", "", "guest", "sim", "ratio");
        }
        for Compared { name, guest, sim, ratio, agrees, .. } in shown {
            let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
            let mark = match agrees {
                Some(true) => "",
                Some(false) => "  diverges",
                None => "  not judged",
            };
            let _ = writeln!(text, "  {name:<26}{:>26}{:>26}{ratio:>8}{mark}", spread_text(*guest), spread_text(*sim));
        }
    }
    text
}

/// Returns a median as text, with the lowest and highest value if they differ.
fn spread_text([median, low, high]: Spread) -> String {
    if low < high { format!("{median:.0} ({low:.0} to {high:.0})") } else { format!("{median:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalogue::find;

    #[test]
    fn every_load_is_an_experiment_and_ends_by_operations() {
        for load in &suite().loads {
            assert!(find::experiment(&load.experiment).is_ok(), "{}", load.name);
            // The number of operations in these experiments follows from their sizes, so they always end.
            let always_ends = ["hotset", "exits", "compile"].contains(&load.experiment.as_str());
            assert!(always_ends || load.set.iter().any(|set| set.starts_with("params.operations=")), "{}", load.name);
            assert!(load.set.iter().all(|set| set.contains('=')), "{}", load.name);
        }
        assert!(find::machine(MACHINE).is_ok());
    }

    #[test]
    fn the_last_results_are_told_in_a_line() {
        assert!(last().iter().all(|it| it.counters[0] <= it.counters[1] && it.signs[0] <= it.signs[1]), "{:?}", last());
        let results = [Last { name: "debian-6.1".into(), counters: [83, 94], signs: [29, 31] }];
        assert_eq!(
            last_text(&results),
            "beside what real kernels counted (docs/truth.md): debian-6.1 83 of 94 counters, 29 of 31 signs of differences"
        );
    }

    #[test]
    fn a_counter_agrees_by_its_rule_and_says_nothing_where_it_is_small() {
        let rule = Rule { names: Vec::new(), sum_of: Vec::new(), percent: Some(15.0), least: 1000.0 };
        let agrees = |guest, sim| rule.compare("pgscan", guest, sim).map(|it| (it.agrees, it.medians_agree));
        let both = |is| Some((Some(is), Some(is)));
        assert_eq!(agrees([10_000.0; 3], [11_400.0; 3]), both(true));
        assert_eq!(agrees([10_000.0; 3], [11_600.0; 3]), both(false));
        let some = Some((Some(true), Some(false)));
        assert_eq!(agrees([10_000.0, 8_000.0, 13_000.0], [14_000.0; 3]), some, "near the highest of its boots");
        assert_eq!(agrees([10_000.0; 3], [12_000.0, 11_000.0, 12_500.0]), some, "near the lowest of its seeds");
        assert_eq!((agrees([400.0; 3], [900.0; 3]), agrees([0.0; 3], [1_000.0; 3])), (None, both(false)));
        let shown = Rule { percent: None, ..rule };
        assert_eq!(shown.compare("pgscan_direct", [1000.0; 3], [9000.0; 3]).map(|it| it.agrees), Some(None));
    }

    #[test]
    fn a_record_is_read_unless_a_load_has_changed() {
        let run = |load: &Load| Recorded {
            load: load.name.clone(),
            set: load.set.clone(),
            guest: "guest-6.1-classic".into(),
            kernel: "6.1-classic".into(),
            counters: BTreeMap::from([("pgpgin".into(), [1.0, 1.0, 2.0])]),
        };
        let record = Record { notes: Vec::new(), runs: suite().loads.iter().map(run).collect() };
        let parse = |record: &Record| Record::parse("r.json", &serde_json::to_string(record).unwrap());
        assert_eq!(parse(&record).as_ref(), Ok(&record));
        let mut other = record.clone();
        other.runs[0].set.push("params.tasks=2".into());
        let error = parse(&other).unwrap_err();
        assert!(error.contains("r.json: the load `reads-below` is another today"), "{error}");
        other.runs[0].load = "none".into();
        assert_eq!(parse(&other), Err("r.json: no load is called `none`".into()));
        assert!(
            Record::parse("r.json", "{")
                .unwrap_err()
                .starts_with("r.json: no record of guests, as `highwater truth --record` writes it: EOF")
        );
    }

    #[test]
    fn the_answer_names_the_first_cause() {
        let compared = |name: &str, agrees| Compared {
            name: name.to_owned(),
            guest: [100.0; 3],
            sim: [if agrees == Some(true) { 100.0 } else { 300.0 }; 3],
            ratio: Some(if agrees == Some(true) { 1.0 } else { 3.0 }),
            agrees,
            medians_agree: agrees,
        };
        let counters = vec![
            compared("pgpgin", Some(true)),
            compared("pgscan_direct", None),
            compared("pgscan_kswapd", Some(false)),
            compared("pgactivate", Some(false)),
        ];
        let held = Held { load: "reads-zipf".into(), guest: "guest-6.1-classic".into(), counters };
        let all = [held];
        let markdown = page(&all, &[], false, &["a note".into()]).markdown();
        let lines: Vec<String> =
            markdown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines[2..7],
            ["1 of 3 counters agree (33 %)", "", "a note", "", "### reads-zipf, guest-6.1-classic"]
        );
        assert!(lines.contains(&"| pgscan_kswapd | 100 | 300 | 3.00 | diverges |".into()), "{markdown}");
        assert!(
            csv(&all, false)
                .contains("\nreads-zipf,guest-6.1-classic,pgscan_kswapd,100,100,100,300,300,300,3,diverges\n")
        );
        assert_eq!([false, true].map(|all_of_them| csv(&all, all_of_them).lines().count()), [3, 5]);
        let text = text(&all, &[], false);
        assert!(text.starts_with("1 of 3 counters agree (33 %)\n"), "{text}");
        assert!(text.contains("reads-zipf, guest-6.1-classic: 1 of 3; the first to diverge: pgscan_kswapd"), "{text}");
        assert!(
            !text.contains("pgpgin ") && !text.contains("pgscan_direct ") && text.contains("3.00  diverges"),
            "{text}"
        );
    }

    #[test]
    fn which_of_two_kernels_has_more_is_right_or_wrong() {
        let held = |guest: &str, load: &str, activated: [f64; 2], refaults: [f64; 2]| Counted {
            load: load.into(),
            guest: guest.into(),
            counters: [("pgactivate", activated), ("workingset_refault_file", refaults), ("pswpin", [9.0, 900.0])]
                .map(|(name, [counted, sim])| (name.to_owned(), ([counted; 3], [sim; 3])))
                .into(),
        };
        let all = [
            held("a", "reads-zipf", [5000.0, 100.0], [3000.0, 3000.0]),
            held("b", "reads-zipf", [0.0, 0.0], [3100.0, 1000.0]),
            held("c", "anon-60", [1.0, 1.0], [1.0, 1.0]),
            held("a", "anon-60", [1500.0, 2000.0], [1.0, 1.0]),
            held("b", "anon-60", [3000.0, 2000.0], [1.0, 1.0]),
        ];
        let found = differences(suite(), &all);
        let told: Vec<_> = found.iter().map(|it| (&*it.load, &*it.name, it.guests.join(" "), it.is_right())).collect();
        let anon = |guests: &str, is_right| ("anon-60", "pgactivate", guests.to_owned(), is_right);
        let expected = [
            ("reads-zipf", "pgactivate", "a b".to_owned(), true),
            anon("c a", true),
            anon("c b", true),
            anon("a b", false),
        ];
        assert_eq!(told, expected);
        let text = text(&[], &found, false);
        assert!(text.contains("3 of 4 differences between two kernels have the right sign\n"), "{text}");
        assert!(
            text.contains("wrong: pgactivate of anon-60, a and b: 1500 and 3000, simulated 2000 and 2000"),
            "{text}"
        );
    }
}

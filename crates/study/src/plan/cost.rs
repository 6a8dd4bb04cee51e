//! Estimates, for `--dry-run`, of the CPU time and the memory that runs will take. They are computed from measurements.

use super::sets::{OF_MACHINE, OF_PARAMS};
use super::{Plan, Run};
use catalogue::find;
use catalogue::hardware::Hardware;
use grounds::job::Job;
use report::grid::{Cell, Grid, Tone};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// Fixed amount of memory that a run takes, MiB. Each page of the simulated machine takes some bytes more
/// ([`BYTES_PER_PAGE`]). Between 14 and 17 were measured for `anon`, `randread`, `scan` and `thp` at scale 1/64.
const MEMORY_MIB: u64 = 16;

/// Bytes of this computer's memory that a simulated run takes for each page of the simulated machine: the smallest and
/// the largest value measured for usual workloads, and the value for a workload with many small files. The measurements
/// compare the peak resident set at scale 1/4 or 1/16 with that at 1/64, and divide the difference by the difference in
/// pages: `parallelio` 89, `anon` 134, `randread` 232, `scan` 261; `multibuild` 1735.
const BYTES_PER_PAGE: [u64; 3] = [90, 260, 1_740];

/// The estimated cost of the simulated runs of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
struct Cost {
    /// Number of simulated runs.
    runs: usize,
    /// CPU time of all runs, seconds; none if the experiment's file does not state what its own runs take.
    cpu_s: Option<f64>,
    /// Number of pages of the largest simulated machine.
    pages: u64,
    /// The changed keys of the workload or the machine (`params.KEY`, `machine.KEY`) that the estimate leaves out,
    /// because the extent of a run does not depend on them.
    left_out: BTreeSet<String>,
}

impl Cost {
    fn of(plan: &Plan) -> Self {
        let simulated: Vec<&Run> = plan.runs.iter().filter(|run| !run.is_real()).collect();
        let experiment = &plan.experiment;
        let own = find::machine_with(&experiment.machine, &experiment.groups).map(Arc::new).ok();
        let factors: Vec<Option<f64>> = simulated.iter().map(|run| longer(plan, run, own.clone())).collect();
        let each = experiment.cpu_s.map(|all| f64::from(all) / experiment.kernels.len() as f64 * plan.scale.as_f64());
        let unknown = simulated.iter().zip(&factors).filter(|(_, factor)| factor.is_none_or(|it| it == 1.0));
        let keys = unknown.flat_map(|(run, _)| plan.columns[run.column].set.keys());
        Self {
            runs: simulated.len(),
            cpu_s: each.map(|each| each * factors.iter().map(|it| it.unwrap_or(1.0)).sum::<f64>()),
            pages: simulated.iter().map(|run| run.job.layout().pages()).max().unwrap_or(0),
            left_out: keys
                .filter(|key| [OF_PARAMS, OF_MACHINE].iter().any(|of| key.starts_with(of)))
                .cloned()
                .collect(),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            cpu_s: self.cpu_s.zip(other.cpu_s).map(|(own, other)| own + other),
            pages: self.pages.max(other.pages),
            left_out: self.left_out.into_iter().chain(other.left_out).collect(),
        }
    }
}

/// Returns a text that states the CPU time and the memory that the simulated runs of `plans` will take. The text is
/// empty if no run is simulated.
#[must_use]
pub fn in_words<'p>(plans: impl IntoIterator<Item = &'p Plan>) -> String {
    let costs = plans.into_iter().map(Cost::of).filter(|cost| cost.runs > 0);
    let Some(Cost { cpu_s, pages, left_out, .. }) = costs.reduce(Cost::and) else { return String::new() };
    let mut text = match cpu_s {
        Some(cpu_s) => format!(
            "about {} of CPU time, by a measurement of the experiment's own kernels at full size; other kernels, settings and computers take \
             a third to three times as much\n",
            seconds(cpu_s)
        ),
        None => "nobody has measured how much CPU time it takes\n".to_owned(),
    };
    if cpu_s.is_some() && !left_out.is_empty() {
        let keys = left_out.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            text,
            "the CPU time is for the experiment's own value of {keys}: what another value costs is not known"
        );
    }
    let mib = |bytes_per_page: u64| MEMORY_MIB + ((pages * bytes_per_page) >> 20);
    let [least, most, files] = BYTES_PER_PAGE.map(mib);
    let _ = writeln!(
        text,
        "{least} to {most} MiB of memory for each run at a time; up to {files} MiB with many small files"
    );
    text
}

/// Returns a table with a line for each plan: its experiment, runs and machine, and the estimated CPU time.
#[must_use]
pub fn by_experiment<'p>(plans: impl IntoIterator<Item = &'p Plan>) -> Grid {
    let line = |plan: &Plan| {
        let cpu_s = Cost::of(plan).cpu_s.map_or_else(|| "not measured".to_owned(), seconds);
        let numbers = [plan.count(), plan.columns.len(), plan.seeds.len()].map(|it| it.to_string());
        let name = plan.experiment.name.clone();
        [name].into_iter().chain(numbers).chain([cpu_s, plan.machine.name.clone()]).map(Cell::from).collect()
    };
    let head = ["experiment", "runs", "columns", "seeds", "CPU time", "machine"];
    Grid {
        keys: 1,
        head: head.map(|word| Cell::new(word, Tone::Heading)).into(),
        lines: plans.into_iter().map(line).collect(),
        texts: vec![0, 5],
    }
}

/// Returns the extent of a run, divided by the extent that it has with the experiment's own parameters and on its own
/// `machine`: the ratio of the times, or of the operations if the times are equal or not determined. Returns none if
/// the two extents cannot be compared.
fn longer(plan: &Plan, run: &Run, machine: Option<Arc<Hardware>>) -> Option<f64> {
    let own = Job { params: plan.experiment.params.clone(), machine: machine?, ..(*run.job).clone() };
    let (now, usual) = (plan.workload.extent(&run.job)?, plan.workload.extent(&own)?);
    let ratio = |now: u64, usual: u64| (now > 0 && usual > 0).then(|| now as f64 / usual as f64);
    let times = || now.time_s.zip(usual.time_s).and_then(|(now, usual)| ratio(now, usual));
    let operations = || ratio(now.operations, usual.operations);
    match times() {
        Some(longer) if longer != 1.0 => Some(longer),
        same => operations().or(same),
    }
}

/// Returns a time of `seconds` seconds as text for people.
fn seconds(seconds: f64) -> String {
    match seconds {
        few if few < 1.0 => "1 s".to_owned(),
        some if some < 600.0 => format!("{some:.0} s"),
        many => format!("{:.0} min", many / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Request, Set};

    #[test]
    fn time_grows_with_runs_and_scale_and_memory_with_the_machine() {
        let of = |experiment: &str, runs, scale: &str| {
            let request = Request {
                experiment: experiment.into(),
                seed: 1,
                runs,
                scale: scale.parse().ok(),
                ..Request::default()
            };
            in_words([&Plan::new(&request, grounds::find).unwrap()])
        };
        // The experiment's three kernels were measured to take 25 s.
        assert!(of("parallelio", 1, "1").starts_with("about 25 s of CPU time"), "{}", of("parallelio", 1, "1"));
        assert!(of("parallelio", 2, "1/10").starts_with("about 5 s of CPU time"));
        let least_mib = |experiment: &str| -> u64 {
            let text = of(experiment, 1, "1");
            let line = text.lines().nth(1).unwrap_or_default();
            line.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{text}"))
        };
        let set = |values: &[&str]| Request {
            experiment: "parallelio".into(),
            seed: 1,
            runs: 1,
            set: vec![Set { key: "params.steps".into(), values: values.iter().map(|it| (*it).to_owned()).collect() }],
            ..Request::default()
        };
        let plan = |values: &[&str]| Plan::new(&set(values), grounds::find).unwrap();
        let longer = |values: &[&str]| {
            let plan = plan(values);
            super::longer(&plan, &plan.runs[0], Some(plan.machine.clone())).unwrap()
        };
        assert_eq!(longer(&["3"]), 1.0);
        assert!((3.5..4.5).contains(&longer(&["18"])), "20 rounds in place of 5");
        // `parallelio` has a machine of 8 GiB, `randread` one of 512 MiB.
        let (large, small) = (least_mib("parallelio"), least_mib("randread"));
        assert!((8..=16).contains(&((large - MEMORY_MIB) / (small - MEMORY_MIB))), "{large} and {small} MiB");
        assert_eq!(in_words([]), "");
        let with = |experiment: &str, key: &str, value: &str| {
            let set = vec![Set { key: key.into(), values: vec![value.into()] }];
            let request = Request { experiment: experiment.into(), seed: 1, runs: 1, set, ..Request::default() };
            in_words([&Plan::new(&request, grounds::find).unwrap()])
        };
        // `scan` ends by operations, which its parameters and its machine determine.
        let own = of("scan", 1, "1");
        assert_ne!(with("scan", "params.cold_percent", "1600").lines().next(), own.lines().next());
        let said = with("scan", "machine.cpu.count", "2");
        assert!(said.contains("\nthe CPU time is for the experiment's own value of `machine.cpu.count`: "), "{said}");
        assert!(!own.contains("own value") && !with("scan", "lru.batch", "3").contains("own value"));
        assert_eq!([0.2, 59.6, 6000.0].map(seconds), ["1 s", "60 s", "100 min"]);
    }
}

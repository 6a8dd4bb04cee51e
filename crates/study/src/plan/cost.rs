//! Estimates, for `--dry-run`, of the CPU time and the memory that runs will take. They are computed from measurements.

use super::{Plan, Run};
use grounds::job::Job;
use std::fmt::Write as _;

/// Fixed amount of memory that a run takes, MiB. Each page of the simulated machine takes some bytes more
/// ([`BYTES_PER_PAGE`]). Between 14 and 17 were measured for `anon`, `randread`, `scan` and `thp` at scale 1/64.
const MEMORY_MIB: u64 = 16;

/// Bytes of this computer's memory that a simulated run takes for each page of the simulated machine: the smallest and
/// the largest value measured for usual workloads, and the value for a workload with many small files. The measurements
/// compare the peak resident set at scale 1/4 or 1/16 with that at 1/64, and divide the difference by the difference in
/// pages: `parallelio` 89, `anon` 134, `randread` 232, `scan` 261; `multibuild` 1735.
const BYTES_PER_PAGE: [u64; 3] = [90, 260, 1_740];

/// Returns a text that states the CPU time and the memory that the simulated runs of `plans` will take. The text is
/// empty if no run is simulated.
#[must_use]
pub fn in_words<'p>(plans: impl IntoIterator<Item = &'p Plan>) -> String {
    let (mut cpu_s, mut is_known, mut runs, mut most_pages) = (0.0, true, 0, 0);
    for plan in plans {
        let simulated: Vec<_> = plan.runs.iter().filter(|run| !run.is_real()).collect();
        runs += simulated.len();
        most_pages = simulated.iter().map(|run| run.job.layout().pages()).chain([most_pages]).max().unwrap_or(0);
        let experiment = &plan.experiment;
        match experiment.cpu_s {
            Some(all) => {
                let each = f64::from(all) / experiment.kernels.len() as f64 * plan.scale.as_f64();
                cpu_s += simulated.iter().map(|run| each * longer(plan, run)).sum::<f64>();
            }
            None => is_known &= simulated.is_empty(),
        }
    }
    if runs == 0 {
        return String::new();
    }
    let mut text = match is_known {
        true => format!(
            "about {} of CPU time, by a measurement of the experiment's own kernels at full size; other kernels, settings and computers take \
             a third to three times as much\n",
            seconds(cpu_s)
        ),
        false => "nobody has measured how much CPU time it takes\n".to_owned(),
    };
    let mib = |bytes_per_page: u64| MEMORY_MIB + ((most_pages * bytes_per_page) >> 20);
    let [least, most, files] = BYTES_PER_PAGE.map(mib);
    let _ = writeln!(
        text,
        "{least} to {most} MiB of memory for each run at a time; up to {files} MiB with many small files"
    );
    text
}

/// Returns the duration of a run, divided by the duration that it has with the experiment's own parameters. Returns 1
/// if the parameters do not determine the duration.
fn longer(plan: &Plan, run: &Run) -> f64 {
    let own = Job { params: plan.experiment.params.clone(), ..(*run.job).clone() };
    let times = [&*run.job, &own].map(|job| plan.workload.time_s(job).filter(|time| *time > 0));
    times[0].zip(times[1]).map_or(1.0, |(time, usual)| time as f64 / usual as f64)
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
        let plan = |values| Plan::new(&set(values), grounds::find).unwrap();
        let (usual, long) = (plan(&["3"]), plan(&["18"]));
        assert_eq!(longer(&usual, &usual.runs[0]), 1.0);
        assert!((3.5..4.5).contains(&longer(&long, &long.runs[0])), "20 rounds in place of 5");
        // `parallelio` has a machine of 8 GiB, `randread` one of 512 MiB.
        let (large, small) = (least_mib("parallelio"), least_mib("randread"));
        assert!((8..=16).contains(&((large - MEMORY_MIB) / (small - MEMORY_MIB))), "{large} and {small} MiB");
        assert_eq!(in_words([]), "");
        assert_eq!([0.2, 59.6, 6000.0].map(seconds), ["1 s", "60 s", "100 min"]);
    }
}

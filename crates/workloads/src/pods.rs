//! Programs of a Kubernetes node. Each program grows in its own control group until it has its full size, and then uses
//! its memory.
//!
//! The groups of the machine file have the limits and the `oom_score_adj` that Kubernetes gives by quality of service.
//! With a controller, pods are evicted before memory is exhausted. Without one, the kernel kills processes once it is.

use crate::controller::{self, CONTROLS, Controls, Done, Kind, Running, Steered};
use crate::extent::{Extent, TIME_MAX_S};
use crate::system::{Started, System, SystemError};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use figures::figure::{Better, Format, Row, RowName, names};
use figures::scale::Scale;
use machine::Nanos;
use serde::{Deserialize, Serialize};

/// Number of pages in a MiB.
const MIB_PAGES: u64 = 256;

/// Pod number `n` draws its random numbers from stream `STREAM + n` ([`System::rng`]).
const STREAM: u64 = 7200;

/// Largest number of pods.
const PODS_MAX: usize = 64;

/// Largest memory of a pod, MiB: 8 TiB.
const MIB_MAX: u64 = 8 << 20;

/// Number of steps in which a pod grows to its full size.
const STEPS: u64 = 100;

/// Parameters of the workload `pods`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Names of the pods. Each name is that of a section `[[group]]` of the machine file.
    pub pods: Vec<String>,
    /// Size to which the anonymous memory of each pod grows, MiB at full scale, in the order of `pods`.
    pub grow_mib: Vec<u64>,
    /// Memory that each pod has asked for (its *request*), MiB at full scale, in the order of `pods`.
    pub request_mib: Vec<u64>,
    /// Time in which the pods grow to their full size, s. Default 60.
    pub grow_s: u64,
    /// Time for which the pods use their memory after they have grown, s. Default 60.
    pub use_s: u64,
    /// Controller that runs beside the pods: `"none"`, `"senpai"`, `"oomd"`, `"kubelet"`. Default `"none"`.
    pub controller: Kind,
    /// Constants of the controllers.
    pub controls: Controls,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            pods: Vec::new(),
            grow_mib: Vec::new(),
            request_mib: Vec::new(),
            grow_s: 60,
            use_s: 60,
            controller: Kind::None,
            controls: Controls::default(),
        }
    }
}

/// The workload `pods`: programs that grow, each in its own control group.
#[derive(Debug)]
pub struct Pods;

impl Workload for Pods {
    type Params = Params;

    const NAME: &'static str = "pods";

    const ABOUT: &'static str = "programs of a Kubernetes node that grow, each in its own control group";

    const MEASURES_KILLS: bool = true;

    const SIM_ONLY: Option<&'static str> =
        Some("on other grounds all tasks are one process, which one group would kill");

    fn about_param(key: &str) -> Option<&'static str> {
        key.strip_prefix(CONTROLS).map_or_else(|| Params::get_field_docs(key).ok(), Controls::about)
    }

    fn check(params: &Params, _: &Resources) -> Result<(), String> {
        let Params { pods, grow_mib, request_mib, grow_s, controls, .. } = params;
        if pods.is_empty() || pods.len() > PODS_MAX {
            return Err(format!("`pods` has {} names: must have 1 to {PODS_MAX}", pods.len()));
        }
        for (name, sizes) in [("grow_mib", grow_mib), ("request_mib", request_mib)] {
            if sizes.len() != pods.len() {
                return Err(format!("`{name}` has {} numbers, and `pods` {} names", sizes.len(), pods.len()));
            }
            if let Some(mib) = sizes.iter().find(|mib| **mib > MIB_MAX) {
                return Err(format!("`{name}` has {mib}: at most {MIB_MAX}"));
            }
        }
        if *grow_s == 0 {
            return Err("`grow_s` is 0: must be at least 1".into());
        }
        for (name, seconds) in [("grow_s", *grow_s), ("use_s", params.use_s)] {
            if seconds > TIME_MAX_S {
                return Err(format!("`{name}` is {seconds}: at most {TIME_MAX_S}"));
            }
        }
        controls.check()
    }

    fn groups(params: &Params) -> Vec<&str> {
        params.pods.iter().map(String::as_str).collect()
    }

    fn extent(params: &Params, _: &Resources, scale: Scale) -> Extent {
        let pages: u64 = params.grow_mib.iter().map(|mib| scale.of(mib.saturating_mul(MIB_PAGES))).sum();
        let wait_s = params.grow_s.saturating_add(params.use_s);
        Extent { wait_s, operations: pages.saturating_mul(STEPS), file_pages: 0, time_s: Some(wait_s) }
    }

    fn row_names(params: &Params, _: &Resources) -> Option<Vec<RowName>> {
        let fates: Vec<_> = params.pods.iter().map(|_| Fate::default()).collect();
        Some(names(rows(params, &fates, &Done::default(), 0)))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let scale = system.given().scale;
        let pages = |mib: u64| scale.of(mib * MIB_PAGES);
        let steered = params.pods.iter().zip(&params.request_mib);
        let steered = steered.map(|(name, mib)| Steered { name: name.clone(), request_pages: pages(*mib) }).collect();
        let before = kills(system);
        let controller = Running::start(system, params.controller, &params.controls, steered, None);
        let began = system.now();
        system.expect_end(began + Nanos::from_secs(params.grow_s + params.use_s));
        let mut started: Vec<Started<S, Result<Fate, SystemError>>> = Vec::new();
        for (n, (name, mib)) in params.pods.iter().zip(&params.grow_mib).enumerate() {
            let pod = Pod {
                group: name.clone(),
                pages: pages(*mib).max(1),
                grow: Nanos::from_secs(params.grow_s),
                length: Nanos::from_secs(params.grow_s + params.use_s),
                stream: STREAM + n as u64,
            };
            started.push(system.start(&format!("pod {name}"), move |system| pod.run(system)));
        }
        let fates: Result<Vec<_>, _> = started.into_iter().map(|pod| pod.join(system)).collect();
        let done = controller.map_or_else(|| Ok(Done::default()), |controller| controller.stop(system))?;
        let rows = rows(params, &fates?, &done, kills(system) - before);
        Ok(Measurements { rows, ..Measurements::default() })
    }
}

fn kills<S: System>(system: &S) -> u64 {
    system.vmstat().get("oom_kill").copied().unwrap_or_default()
}

/// The duration and the largest size of a pod that has ended, and whether the pod was killed.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    /// Time for which the pod ran, s.
    ran_s: f64,
    /// Largest number of pages that the pod had at a time.
    pages: u64,
    was_killed: bool,
}

/// A pod that is to be run: its control group, its size, its times, and its random stream.
struct Pod {
    group: String,
    pages: u64,
    grow: Nanos,
    length: Nanos,
    stream: u64,
}

impl Pod {
    /// Runs the pod, which grows in even steps and then uses its pages at random, until its time is over or it is
    /// killed.
    fn run<S: System>(&self, system: &S) -> Result<Fate, SystemError> {
        system.enter_group(Some(&self.group))?;
        let (began, mut rng) = (system.now(), system.rng(self.stream));
        let step = Nanos(self.grow.0 / STEPS);
        let region = system.map(u32::try_from(self.pages).unwrap_or(u32::MAX))?;
        let mut have = 0;
        let mut turn = || -> Result<(), SystemError> {
            let elapsed = system.now().since(began);
            let wanted = (self.pages as u128 * u128::from(elapsed.0 + step.0) / u128::from(self.grow.0)) as u64;
            let wanted = wanted.min(self.pages);
            if wanted > have {
                system.touch(&region, have as u32..wanted as u32, true)?;
                have = wanted;
            }
            for _ in 0..(have / STEPS).min(1 + self.pages / 10) {
                let page = rng.below(have) as u32;
                system.touch(&region, page..page + 1, false)?;
            }
            system.sleep(step);
            Ok(())
        };
        while !system.is_killed() && system.now().since(began) < self.length {
            match turn() {
                Err(_) if system.is_killed() => break,
                done => done?,
            }
        }
        let was_killed = system.is_killed();
        system.unmap(region);
        Ok(Fate { ran_s: system.now().since(began).as_secs_f64(), pages: have, was_killed })
    }
}

fn rows(params: &Params, fates: &[Fate], done: &Done, kills: u64) -> Vec<Row> {
    let row = |name: String, unit: &str, better, decimals, value: f64| {
        Row::new("pods", name, unit, better, Format::Decimals(decimals), value)
    };
    let survived = fates.iter().filter(|fate| !fate.was_killed).count();
    let mut rows = vec![
        row("Pods that survive".into(), "pods", Better::Higher, 0, survived as f64),
        row("oom_kill".into(), "processes", Better::Lower, 0, kills as f64),
    ];
    for (name, fate) in params.pods.iter().zip(fates) {
        rows.push(row(format!("{name}: ran"), "s", Better::Higher, 1, fate.ran_s));
        rows.push(row(format!("{name}: memory"), "MiB", Better::Neutral, 1, fate.pages as f64 / MIB_PAGES as f64));
    }
    rows.extend(controller::rows(done));
    rows
}

//! Controllers in user space that steer control groups by the pressure and usage of the groups. Each controller follows
//! its published rule.
//!
//! A controller is a task beside a workload. It reads the files that the real controller reads (`memory.pressure`,
//! `memory.current`, `memory.stat`, `/proc/vmstat`), and writes the files that the real controller writes
//! (`memory.high`, `cgroup.kill`). Description: mechanisms/groups, 7.

mod kubelet;
mod oomd;
mod senpai;

use crate::system::{Started, System, SystemError};
use documented::DocumentedFields;
use figures::figure::{Better, Format, Row};
use serde::{Deserialize, Serialize};

/// The controller (a program that steers control groups) that runs beside a workload, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// No controller runs.
    #[default]
    None,
    /// Senpai lowers `memory.high` until tasks begin to wait for memory, and raises it when they wait too long.
    Senpai,
    /// `systemd-oomd` kills a group. If pressure was high for long enough, this is the group that reclaims most; if
    /// memory and swap are nearly full, it is the group with most swap.
    Oomd,
    /// The node agent of Kubernetes kills a group when little memory is available: the group whose memory exceeds its
    /// memory request (in the sense of Kubernetes) by the most.
    Kubelet,
}

/// Prefix of those keys of a workload's parameters that are constants of the controllers.
pub const CONTROLS: &str = "controls.";

/// The constants of the controllers, with their published defaults.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Controls {
    /// Senpai: time between two probes, s. A probe lowers the limit of a group. Default 6.
    pub senpai_interval_s: u64,
    /// Senpai: if a group has stalled for longer than this time (`some`) since its limit was last changed, Senpai
    /// raises the limit, us. Default 10,000.
    pub senpai_pressure_us: u64,
    /// Senpai: largest share of the limit by which a probe lowers the limit. Default 0.01.
    pub senpai_max_probe: f64,
    /// Senpai: largest share of the limit by which Senpai raises the limit at once. Default 1, which doubles the limit.
    pub senpai_max_backoff: f64,
    /// Senpai: a probe divides the ratio of `senpai_pressure_us` to the stall time by this number and squares the
    /// quotient. The result, multiplied by `senpai_max_probe`, is the share by which the probe lowers the limit.
    /// Default 10.
    pub senpai_coeff_probe: f64,
    /// Senpai: to raise a limit, Senpai divides the ratio of the stall time to `senpai_pressure_us` by this number and
    /// squares the quotient. The result, multiplied by `senpai_max_backoff`, is the share by which the limit rises.
    /// Default 20.
    pub senpai_coeff_backoff: f64,
    /// Oomd: pressure of the watched group (`full avg10`) above which oomd may kill, percent. Default 60.
    pub oomd_pressure_percent: f64,
    /// Oomd: time for which the pressure must have been above `oomd_pressure_percent` before oomd kills, s. Default 30.
    pub oomd_duration_s: u64,
    /// Oomd: oomd also kills when more than this share of memory and more than this share of swap are in use, percent.
    /// Default 90.
    pub oomd_swap_percent: u64,
    /// Kubelet: the node agent evicts a group when less memory than this is available, MiB at full scale. Default 100.
    pub kubelet_available_mib: u64,
    /// Kubelet: time between two checks of memory, s. Default 10.
    pub kubelet_poll_s: u64,
}

impl Default for Controls {
    fn default() -> Self {
        Self {
            senpai_interval_s: 6,
            senpai_pressure_us: 10_000,
            senpai_max_probe: 0.01,
            senpai_max_backoff: 1.0,
            senpai_coeff_probe: 10.0,
            senpai_coeff_backoff: 20.0,
            oomd_pressure_percent: 60.0,
            oomd_duration_s: 30,
            oomd_swap_percent: 90,
            kubelet_available_mib: 100,
            kubelet_poll_s: 10,
        }
    }
}

impl Controls {
    /// Returns the description of the constant with the name `key` (the doc comment of its field); none if there is no
    /// such constant.
    #[must_use]
    pub fn about(key: &str) -> Option<&'static str> {
        Self::get_field_docs(key).ok()
    }

    /// Checks the constants.
    ///
    /// # Errors
    /// When a constant is out of range. The message names the first such constant.
    pub fn check(&self) -> Result<(), String> {
        let times = [
            ("senpai_interval_s", self.senpai_interval_s),
            ("senpai_pressure_us", self.senpai_pressure_us),
            ("kubelet_poll_s", self.kubelet_poll_s),
        ];
        if let Some((name, _)) = times.into_iter().find(|(_, value)| *value == 0) {
            return Err(format!("`controls.{name}` is 0: must be at least 1"));
        }
        if self.oomd_swap_percent >= 100 {
            return Err(format!("`controls.oomd_swap_percent` is {}: must be below 100", self.oomd_swap_percent));
        }
        let parts = [
            ("senpai_max_probe", self.senpai_max_probe, 1.0),
            ("senpai_max_backoff", self.senpai_max_backoff, 100.0),
            ("senpai_coeff_probe", self.senpai_coeff_probe, 1e6),
            ("senpai_coeff_backoff", self.senpai_coeff_backoff, 1e6),
            ("oomd_pressure_percent", self.oomd_pressure_percent, 100.0),
        ];
        match parts.into_iter().find(|(_, value, most)| !(*value > 0.0 && value <= most)) {
            Some((name, value, most)) => {
                Err(format!("`controls.{name}` is {value}: must be above 0 and at most {most}"))
            }
            None => Ok(()),
        }
    }
}

/// A control group under a controller, which watches the group and may set its limit or kill its processes.
#[derive(Clone, Debug)]
pub struct Steered {
    /// Name of the group.
    pub name: String,
    /// Memory that the group has requested (a Kubernetes *request*), pages.
    pub request_pages: u64,
}

/// The actions of a controller during a run.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Number of times that the controller changed a limit.
    pub changes: u64,
    /// The groups that the controller killed, in order.
    pub killed: Vec<String>,
}

/// A running controller.
pub struct Running<S: System>(Started<S, Result<Done, SystemError>>);

impl<S: System> Running<S> {
    /// Starts a controller for `groups`. `watched` is the group whose pressure the controller watches; `None` stands
    /// for the whole machine. Returns none for [`Kind::None`].
    pub fn start(
        system: &S,
        kind: Kind,
        controls: &Controls,
        groups: Vec<Steered>,
        watched: Option<String>,
    ) -> Option<Self> {
        let controls = controls.clone();
        let started = match kind {
            Kind::None => return None,
            Kind::Senpai => system.start("senpai", move |system| senpai::run(system, &controls, &groups)),
            Kind::Oomd => {
                system.start("systemd-oomd", move |system| oomd::run(system, &controls, &groups, watched.as_deref()))
            }
            Kind::Kubelet => system.start("kubelet", move |system| kubelet::run(system, &controls, &groups)),
        };
        Some(Self(started))
    }

    /// Ends the controller. Returns what it did.
    ///
    /// # Errors
    /// When the controller could not read a file, or could not act.
    pub fn stop(self, system: &S) -> Result<Done, SystemError> {
        self.0.kill(system);
        self.0.join(system)
    }
}

/// Returns the report rows for the actions of a controller.
#[must_use]
pub fn rows(done: &Done) -> Vec<Row> {
    let row = |name: &str, unit: &str, value: u64| {
        Row::new("controller", name, unit, Better::Neutral, Format::Decimals(0), value as f64)
    };
    vec![
        row("Controller: limits set", "times", done.changes),
        row("Controller: groups killed", "groups", done.killed.len() as u64),
    ]
}

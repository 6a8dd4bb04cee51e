//! The configuration of a simulated machine.

use crate::cache_line::CacheLines;
use crate::cost::CostModel;
use crate::device::network::NetworkConfig;
use crate::disk::DiskConfig;
use crate::schedule::{Decisions, Pct, Perturb};
use crate::tlb::TlbConfig;
use machine::Nanos;
use std::sync::Arc;

/// The configuration of a simulated machine: its hardware, its seed, and the ways in which chance may change the order
/// of CPUs and tasks.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of CPUs, 1 to 256.
    pub cpus: usize,
    /// CPU time that each kind of work costs.
    pub cost: CostModel,
    /// Policy by which tasks share the CPUs.
    pub scheduler: Scheduler,
    /// The rule by which one of the CPUs that wait for a lock gets it.
    pub lock_fairness: LockFairness,
    /// The TLB of each CPU: how many translations it keeps, and what a miss costs; `None` if translating addresses
    /// costs nothing.
    pub tlb: Option<TlbConfig>,
    /// Cost of an access to data that another CPU accessed last; `None` if such an access costs nothing extra.
    pub cache_lines: Option<CacheLines>,
    /// Memory nodes of the machine; `None` if there is only one.
    pub nodes: Option<Nodes>,
    /// The seed of all random numbers of the run.
    pub seed: u64,
    /// Number of frames of memory. Needed only if page contents are kept (`stamps`) or frames have cache lines
    /// (`cache_lines`).
    pub frames: usize,
    /// `true` to keep the first eight bytes of each page, so that workloads can verify contents.
    pub stamps: bool,
    /// Block devices, in the order of their [`machine::DeviceId`].
    pub disks: Vec<DiskConfig>,
    /// For each device, in the order of device numbers, the CPU that takes its interrupts. CPU 0 takes the interrupts
    /// of devices beyond the end of this list.
    pub interrupt_cpus: Vec<usize>,
    /// The network card; `None` if no packets are sent to the machine.
    pub network: Option<NetworkConfig>,
    /// The way in which chance may change the order in which CPUs and tasks run.
    pub interleaving: Interleaving,
    /// `true` to record each random decision about the order of CPUs and tasks; [`crate::Sim::decisions`] returns the
    /// record.
    pub keep_decisions: bool,
    /// Virtual time by which the run must be over; a longer run fails.
    pub time_limit: Option<Nanos>,
    /// Time in which the other tasks must return after the main task has returned. Default: 60 s.
    pub shutdown_limit: Nanos,
    /// Size of the stack of each task and of each interrupt handler, bytes. A stack takes memory only for the pages
    /// that were touched. Default: 512 KiB.
    pub stack_bytes: usize,
}

impl Config {
    /// Creates the configuration of a machine for tests, with `cpus` CPUs, no disks and no memory. Each step of work
    /// costs `step_ns` nanoseconds.
    #[must_use]
    pub fn uniform(cpus: usize, step_ns: u64) -> Self {
        Self {
            cpus,
            cost: CostModel::uniform(step_ns),
            scheduler: Scheduler::default(),
            lock_fairness: LockFairness::default(),
            tlb: None,
            cache_lines: None,
            nodes: None,
            seed: 1,
            frames: 0,
            stamps: false,
            disks: Vec::new(),
            interrupt_cpus: Vec::new(),
            network: None,
            interleaving: Interleaving::InTime,
            keep_decisions: false,
            time_limit: None,
            shutdown_limit: Nanos::from_secs(60),
            stack_bytes: 512 << 10,
        }
    }
}

/// Memory nodes: which CPUs and which frames belong to each, and how far the nodes are from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// The node of each CPU.
    pub of_cpu: Vec<u8>,
    /// The number of the first frame of each node. The first number is 0, and the numbers rise.
    pub first_frames: Vec<u32>,
    /// `distances[a][b]` is the distance from CPUs of node `a` to memory of node `b`, in the unit of ACPI ("System
    /// Locality Information Table"). At distance 10 a step has its plain cost, at distance 20 twice that cost.
    pub distances: Vec<Vec<u8>>,
}

impl Nodes {
    /// Returns the cost of work that a CPU of node `cpu_node` does on a frame. `cost` is the cost of the same work on
    /// memory of the CPU's own node.
    pub(crate) fn cost(&self, cost: u64, cpu_node: usize, frame: machine::FrameNumber) -> u64 {
        let node = self.first_frames.partition_point(|first| *first <= frame.0) - 1;
        cost * u64::from(self.distances[cpu_node][node]) / 10
    }
}

/// Parameters of the scheduler, which orders tasks by virtual runtime as the completely fair scheduler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// Time that a task runs before it yields to a task that waits for its CPU. Default: 4 ms.
    pub slice: Nanos,
    /// Condition for preemption at a wake-up: the woken task preempts the running task if its virtual runtime is
    /// smaller by more than this time. Default: 1 ms.
    pub wakeup_granularity: Nanos,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self { slice: Nanos::from_millis(4), wakeup_granularity: Nanos::from_millis(1) }
    }
}

/// Rules by which one of the CPUs that wait for a lock gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockFairness {
    /// The CPU that has waited longest gets the lock, as with the ticket locks that Linux has since 2.6.25.
    #[default]
    Fifo,
    /// A random CPU gets the lock, so one CPU may wait much longer than the others.
    Random,
}

/// Ways in which chance may change the order in which CPUs and tasks run. Where chance does not decide, virtual time
/// does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interleaving {
    /// The CPU with the earliest clock runs next. Chance decides only which CPU gets a contended lock, and only with
    /// [`LockFairness::Random`].
    #[default]
    InTime,
    /// The order in which tasks and CPUs run is disturbed at random: some steps take longer, and some tasks give up
    /// their CPUs.
    Perturbed(Perturb),
    /// Each task has a random priority, which changes at a few steps. Tasks run one at a time: only the task with the
    /// highest priority runs. This finds, with a known probability, bugs that need only a few steps in a certain order.
    /// It does not measure time, because the clocks of CPUs that are held back stand still.
    ByPriority(Pct),
    /// The decisions of an earlier run are repeated. All other values of the configuration must be those of the earlier
    /// run.
    Replayed(Arc<Decisions>),
}

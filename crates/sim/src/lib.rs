//! A machine in virtual time.
//!
//! [`Sim`] implements [`machine::Machine`]: CPUs with clocks, tasks on coroutines, interrupts, spin locks and disks,
//! all on one thread. A seed decides all chance: the same seed gives the same [`Sim::fingerprint`] on every computer.
//!
//! Modules from top to bottom:
//!
//! * `sim` is the machine as the engine sees it; `run` is the main loop, which resumes the earliest CPU or event;
//! * `interrupt` has the handlers; `requests` takes requests to disks and back; `packets` has the arrival of network
//!   packets, and the answers to them;
//! * `lock`, `per_cpu` and `wait` have the objects that tasks wait for; `mask` turns interrupts off; `scheduler`
//!   assigns tasks to CPUs;
//! * `schedule` makes all random decisions about the order of CPUs and tasks;
//! * `span`, `notes` and `pressure` report the functions, waits and stalls of tasks to `record`, which counts and
//!   traces them;
//! * `world` is the state of the machine, on which all modules above work;
//! * below `world` are its parts, which do not know it: `clock` and `event` decide which CPU or event comes next,
//!   `fiber` is the stack of a task or handler, `cpu` and `task` hold their state, `device` holds disks and the card,
//!   `tlb` and `cache_line` compute costs of memory accesses, `record` holds counts;
//! * [`cost`] has the cost of each step, [`disk`] the model of a disk; [`choose`] draws pages at random, for loads.
//!
//! Next: `run`.

mod cache_line;
mod cause;
pub mod choose;
mod clock;
pub mod config;
pub mod cost;
mod cpu;
mod device;
pub mod disk;
mod event;
mod failure;
mod fiber;
mod interrupt;
mod lock;
mod mask;
mod notes;
mod packets;
mod per_cpu;
mod plug;
mod pressure;
mod record;
mod requests;
mod rng;
mod run;
mod schedule;
mod scheduler;
mod sim;
pub mod sourced;
mod span;
mod stamps;
mod task;
mod task_id;
mod tlb;
mod wait;
mod wait_queue;
mod world;

pub use cache_line::CacheLines;
pub use clock::CPUS_MAX;
pub use config::{Config, Interleaving, LockFairness, Nodes, Scheduler};
pub use cost::CostModel;
pub use device::network::{NetworkConfig, OffWindow, RoundTrip, Turn};
pub use failure::Failure;
pub use lock::{SpinGuard, SpinLock};
pub use per_cpu::{CpuSlots, SlotGuard};
pub use record::locks::LockStatistics;
pub use record::masks::MaskStatistics;
pub use record::pressure::{PressureReader, PressureTrigger};
pub use record::trace;
pub use rng::Rng;
pub use schedule::{Decisions, Pct, Perturb};
pub use sim::{CpuStatistics, Sim};
pub use sourced::{Origin, Sourced};
pub use span::Span;
pub use task_id::TaskId;
pub use tlb::TlbConfig;
pub use wait_queue::WaitQueue;

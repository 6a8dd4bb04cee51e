//! A machine in virtual time.
//!
//! [`Sim`] implements [`machine::Machine`]: CPUs with clocks, tasks on coroutines, interrupts, spin locks and disks,
//! all on one thread. A seed decides all chance: the same seed gives the same [`Sim::fingerprint`] on every computer.
//!
//! * `world` holds the main loop, which resumes the earliest CPU or event; `clock` finds it;
//! * `fiber` is the stack of a task or of an interrupt handler; `scheduler` decides which task is on which CPU;
//! * `lock`, `per_cpu` and `wait` are what tasks wait for;
//! * `interrupt` and `device` bring requests to disks and back, `network` packets from a card;
//! * `cache_line` is what it costs to touch what another CPU touched last;
//! * `tlb` is what a CPU keeps of translations, where that costs something;
//! * `profile`, `trace`, `pressure` and `fingerprint` observe;
//! * [`cost`] has the cost of each step, [`disk`] the model of a disk.
//!
//! Next: `world`.

mod cache_line;
mod clock;
pub mod config;
pub mod cost;
mod cpu;
mod device;
pub mod disk;
mod failure;
mod fiber;
mod fingerprint;
mod interrupt;
mod lock;
mod network;
mod per_cpu;
mod pressure;
mod profile;
mod rng;
mod scheduler;
mod sim;
pub mod sourced;
mod stamps;
mod task;
mod tlb;
pub mod trace;
mod wait;
mod world;

pub use cache_line::CacheLines;
pub use clock::CPUS_MAX;
pub use config::{Config, LockFairness, Nodes, Perturb, Scheduler};
pub use cost::CostModel;
pub use failure::Failure;
pub use interrupt::MaskStatistics;
pub use lock::{LockStatistics, SpinGuard, SpinLock};
pub use network::{NetworkConfig, OffWindow, RoundTrip, Turn};
pub use per_cpu::{CpuSlots, SlotGuard};
pub use pressure::PressureStatistics;
pub use rng::Rng;
pub use sim::{CpuStatistics, Sim, Span};
pub use sourced::{Origin, Sourced};
pub use task::TaskId;
pub use tlb::TlbConfig;
pub use wait::WaitQueue;

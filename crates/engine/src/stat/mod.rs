//! Counters under the names of `/proc/vmstat`. Every floor (layer of the engine) may use this module.

pub mod sharded;
pub mod vmstat;

pub use vmstat::{Event, Gauge, Stat, Vmstat, ZoneEvent, ZoneStat};

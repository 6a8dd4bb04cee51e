//! Counters under the names of `/proc/vmstat`. Open to every floor.

pub mod sharded;
pub mod vmstat;

pub use vmstat::{Event, Gauge, Stat, Vmstat, ZoneEvent, ZoneStat};

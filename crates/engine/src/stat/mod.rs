//! Counters under the names of `/proc/vmstat`. Open to every floor.

pub mod pressure;
pub mod sharded;
pub mod vmstat;

pub use pressure::Pressure;
pub use vmstat::{Event, Gauge, Stat, Vmstat, ZoneEvent, ZoneStat};

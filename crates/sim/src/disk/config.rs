//! The description of a disk in a machine file.
//!
//! A machine file has a table for each disk; its `model` says which kind of disk it is. Every constant is a [`Sourced`]
//! value, so that a report can print its origin. Keys end with their unit, values of choices are kebab-case, and
//! unknown keys are refused. An elevator is given by its name, or by a table with its name and the constants that
//! differ from the defaults. The defaults are those of Linux 3.10.
//!
//! Next: `queue`, which applies [`QueueConfig`].

use super::tagged;
use crate::sourced::{Origin, Sourced};
use documented::DocumentedFields;
use serde::de::value::StrDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The model of a disk with its constants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "model", rename_all = "kebab-case")]
pub enum DiskConfig {
    /// A disk with one arm over turning platters. The positions of arm and platter decide the cost of a request.
    Rotational(RotationalConfig),
    /// Many dies behind one interface. The number of dies that work at once decides the cost of a request.
    Flash(FlashConfig),
}

/// The values that the key `model` may have in the table of a disk in a machine file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Model {
    Rotational,
    Flash,
}

impl<'de> Deserialize<'de> for DiskConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Table;
        impl<'de> Visitor<'de> for Table {
            type Value = DiskConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table with a `model`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DiskConfig, A::Error> {
                match tagged::tag(&mut map, "model")? {
                    Model::Rotational => tagged::rest(map).map(DiskConfig::Rotational),
                    Model::Flash => tagged::rest(map).map(DiskConfig::Flash),
                }
            }
        }
        deserializer.deserialize_map(Table)
    }
}

impl DiskConfig {
    /// Returns the size of the disk, in blocks of [`machine::BLOCK_BYTES`].
    #[must_use]
    pub fn capacity_blocks(&self) -> u64 {
        match self {
            Self::Rotational(disk) => disk.capacity_blocks.value,
            Self::Flash(disk) => disk.capacity_blocks.value,
        }
    }

    /// Returns the request queue in front of the disk.
    #[must_use]
    pub fn queue(&self) -> &QueueConfig {
        match self {
            Self::Rotational(disk) => &disk.queue,
            Self::Flash(disk) => &disk.queue,
        }
    }

    /// Returns the request queue in front of the disk, to be changed by an experiment.
    pub fn queue_mut(&mut self) -> &mut QueueConfig {
        match self {
            Self::Rotational(disk) => &mut disk.queue,
            Self::Flash(disk) => &mut disk.queue,
        }
    }

    /// Replaces each bandwidth of the disk (bytes a second) by the result of calling `scale` with it. Used if the
    /// machine of an experiment is made smaller.
    pub fn scale_bandwidth(&mut self, scale: impl Fn(u64) -> u64) {
        let change = |bandwidth: &mut Sourced<u64>| bandwidth.value = scale(bandwidth.value);
        match self {
            Self::Rotational(disk) => {
                change(&mut disk.bandwidth_bytes_per_s);
                disk.inner_bandwidth_bytes_per_s.iter_mut().for_each(change);
            }
            Self::Flash(disk) => {
                change(&mut disk.read_bandwidth_bytes_per_s);
                change(&mut disk.write_bandwidth_bytes_per_s);
            }
        }
    }

    /// Checks that the constants describe a possible disk.
    ///
    /// # Errors
    /// Fails at the first key whose value no disk can have, and says why.
    pub fn check(&self) -> Result<(), ConfigError> {
        let capacity_blocks = self.capacity_blocks();
        at_least("capacity_blocks", capacity_blocks, 1)?;
        at_most("capacity_blocks", capacity_blocks, CAPACITY_BLOCKS_MAX)?;
        self.queue().check()?;
        match self {
            Self::Rotational(disk) => disk.check(),
            Self::Flash(disk) => disk.check(),
        }
    }
}

/// Largest capacity of a disk, in blocks (4 PiB). With this limit, seek distances multiplied by 2¹⁶ fit 64 bits.
pub const CAPACITY_BLOCKS_MAX: u64 = 1 << 40;

/// The request queue in front of a disk (`/sys/block/sda/queue`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueConfig {
    /// Number of requests that may be allocated for each direction (reads or writes). Both requests that wait and
    /// requests in service count. Congestion begins and ends at numbers that follow from this one. Default 128.
    pub nr_requests: Sourced<u64>,
    /// Largest number of pages in a request that is made by merging (`max_sectors_kb` / 4). Default 128: 512 KiB.
    #[doc(alias = "max_sectors_kb")]
    pub max_request_pages: Sourced<u64>,
    /// Largest number of commands that the device holds at once. A command that the device has finished counts until
    /// the interrupt handler has ended it. With 1, the next command begins when the handler has ended the previous one.
    /// If this key is absent, a request leaves the queue when the device has finished it, and the device continues
    /// without waiting for the handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_depth: Option<Sourced<u64>>,
    /// Policy that chooses the next waiting request. Default `cfq`.
    pub elevator: ElevatorConfig,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            nr_requests: linux(128, "BLKDEV_MAX_RQ"),
            max_request_pages: linux(128, "max_sectors_kb 512"),
            command_depth: None,
            elevator: ElevatorConfig::default(),
        }
    }
}

impl QueueConfig {
    fn check(&self) -> Result<(), ConfigError> {
        at_least("queue.nr_requests", self.nr_requests.value, 1)?;
        at_least("queue.max_request_pages", self.max_request_pages.value, 1)?;
        if let Some(depth) = &self.command_depth {
            at_least("queue.command_depth", depth.value, 1)?;
        }
        match &self.elevator {
            ElevatorConfig::Noop => Ok(()),
            ElevatorConfig::Deadline(deadline) => {
                at_least("queue.elevator.fifo_batch", deadline.fifo_batch.value, 1)?;
                check_times(&[
                    ("queue.elevator.read_expire_ms", &deadline.read_expire_ms),
                    ("queue.elevator.write_expire_ms", &deadline.write_expire_ms),
                ])
            }
            ElevatorConfig::Cfq(cfq) => {
                at_least("queue.elevator.slice_sync_ms", cfq.slice_sync_ms.value, 1)?;
                at_least("queue.elevator.slice_async_ms", cfq.slice_async_ms.value, 1)?;
                at_least("queue.elevator.slice_async_requests", cfq.slice_async_requests.value, 1)?;
                check_times(&[
                    ("queue.elevator.slice_sync_ms", &cfq.slice_sync_ms),
                    ("queue.elevator.slice_async_ms", &cfq.slice_async_ms),
                    ("queue.elevator.slice_idle_ms", &cfq.slice_idle_ms),
                    ("queue.elevator.fifo_expire_sync_ms", &cfq.fifo_expire_sync_ms),
                    ("queue.elevator.fifo_expire_async_ms", &cfq.fifo_expire_async_ms),
                ])
            }
        }
    }
}

/// Policies that choose the next waiting request (`/sys/block/sda/queue/scheduler`).
///
/// In a machine file this is `"cfq"`, or `{ name = "cfq", slice_async_ms = { value = 80, from = "assumed", source = "…"
/// } }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum ElevatorConfig {
    /// Serves requests in order of arrival. This suits a device without an arm; on a disk with an arm, each seek costs
    /// time.
    Noop,
    /// Serves batches of requests in block order. Prefers reads, but lets no request of either direction wait too long.
    /// This is good for many readers. A single reader beside a writer causes two seeks with each of its requests.
    Deadline(DeadlineConfig),
    /// Alternates between time slices for requests that a task waits for and time slices for background writes. Keeps
    /// the disk idle for a short time, so that a reader can send its next request. This is good for one reader beside a
    /// writer, but wastes time of a device that can serve requests in parallel.
    Cfq(CfqConfig),
}

/// The values of the key `name` in an elevator's table.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ElevatorName {
    Noop,
    Deadline,
    Cfq,
}

/// The empty table of constants of an elevator that has no constants.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoConstants {}

impl<'de> Deserialize<'de> for ElevatorConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;
        impl<'de> Visitor<'de> for NameOrTable {
            type Value = ElevatorConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an elevator's name in quotes, or a table with its `name`")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<ElevatorConfig, E> {
                Ok(match ElevatorName::deserialize(StrDeserializer::new(name))? {
                    ElevatorName::Noop => ElevatorConfig::Noop,
                    ElevatorName::Deadline => ElevatorConfig::Deadline(DeadlineConfig::default()),
                    ElevatorName::Cfq => ElevatorConfig::Cfq(CfqConfig::default()),
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ElevatorConfig, A::Error> {
                match tagged::tag(&mut map, "name")? {
                    ElevatorName::Noop => tagged::rest(map).map(|NoConstants {}| ElevatorConfig::Noop),
                    ElevatorName::Deadline => tagged::rest(map).map(ElevatorConfig::Deadline),
                    ElevatorName::Cfq => tagged::rest(map).map(ElevatorConfig::Cfq),
                }
            }
        }
        deserializer.deserialize_any(NameOrTable)
    }
}

impl Default for ElevatorConfig {
    fn default() -> Self {
        Self::Cfq(CfqConfig::default())
    }
}

/// Constants of [`ElevatorConfig::Deadline`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeadlineConfig {
    /// Age at which a waiting read counts as old. If the oldest read is old, the next batch of reads begins with it.
    /// Default 500 ms.
    pub read_expire_ms: Sourced<u64>,
    /// Age at which a waiting write counts as old. If the oldest write is old, the next batch of writes begins with it.
    /// Default 5000 ms.
    pub write_expire_ms: Sourced<u64>,
    /// Largest number of requests that are served in block order in one batch. After a batch, direction and age decide
    /// how the next one begins. Default 16.
    pub fifo_batch: Sourced<u64>,
    /// Largest number of batches of reads that are served one after the other while writes wait. Default 2.
    pub writes_starved: Sourced<u64>,
}

impl Default for DeadlineConfig {
    fn default() -> Self {
        Self {
            read_expire_ms: linux(500, "deadline: read_expire"),
            write_expire_ms: linux(5000, "deadline: write_expire"),
            fifo_batch: linux(16, "deadline: fifo_batch"),
            writes_starved: linux(2, "deadline: writes_starved"),
        }
    }
}

/// Constants of [`ElevatorConfig::Cfq`].
///
/// All synchronous requests share a slice, whichever tasks they are from. Tasks that read at the same time are served
/// in one sweep over the disk, so fairness between readers is not modelled.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct CfqConfig {
    /// Length of a synchronous slice. In it, reads and synchronous writes are preferred to background writes. Default
    /// 100 ms.
    pub slice_sync_ms: Sourced<u64>,
    /// Largest length of a background slice. Such a slice follows a synchronous slice if background writes wait.
    /// Default 40 ms.
    pub slice_async_ms: Sourced<u64>,
    /// Largest number of background writes in a background slice. Default 16, the value that `slice_async_rq` 2 gives
    /// at the default priority.
    pub slice_async_requests: Sourced<u64>,
    /// Time for which the disk is kept idle after a synchronous request has ended in a synchronous slice. In this time,
    /// the next synchronous request can arrive before background writes are served. 0: the disk is never kept idle.
    /// Default 8 ms.
    pub slice_idle_ms: Sourced<u64>,
    /// Age from which the oldest synchronous request is served first in a new synchronous slice, even if it is not next
    /// in block order. Default 125 ms.
    pub fifo_expire_sync_ms: Sourced<u64>,
    /// Age from which the oldest background request is served first in a new background slice, even if it is not next
    /// in block order. Default 250 ms.
    pub fifo_expire_async_ms: Sourced<u64>,
    /// The treatment of a synchronous request that arrives in a background slice.
    pub sync_arrival: SyncArrival,
}

impl Default for CfqConfig {
    fn default() -> Self {
        Self {
            slice_sync_ms: linux(100, "cfq: slice_sync"),
            slice_async_ms: linux(40, "cfq: slice_async"),
            slice_async_requests: linux(16, "cfq: slice_async_rq 2, for the default of 8 priorities"),
            slice_idle_ms: linux(8, "cfq: slice_idle"),
            fifo_expire_sync_ms: linux(125, "cfq: fifo_expire_sync"),
            fifo_expire_async_ms: linux(250, "cfq: fifo_expire_async"),
            sync_arrival: SyncArrival::default(),
        }
    }
}

/// The treatment of a synchronous request that arrives while background requests are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncArrival {
    /// The request waits until the background slice is used up. A read may wait up to `slice_async_ms` for this, and
    /// background writes get their share however busy the readers are.
    #[default]
    WaitsForSlice,
    /// The request is served next, so a read waits for at most one background request. Beside a steady reader, one
    /// background request is served after each of the reader's slices.
    Preempts,
}

/// Constants of a disk with one arm.
///
/// The disk has no write cache and reorders nothing itself (no command queueing): the arm follows the order of the
/// elevator.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RotationalConfig {
    /// Size in blocks of 4096 bytes.
    pub capacity_blocks: Sourced<u64>,
    /// The request queue in front of the disk.
    #[serde(default)]
    pub queue: QueueConfig,
    /// Revolutions a minute.
    pub rpm: Sourced<u64>,
    /// Sequential bandwidth in bytes a second, at block 0 (the outer edge).
    pub bandwidth_bytes_per_s: Sourced<u64>,
    /// Sequential bandwidth in bytes a second at the last block; the bandwidth falls linearly from the first block to
    /// the last. Absent: the bandwidth is the same everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_bandwidth_bytes_per_s: Option<Sourced<u64>>,
    /// Time of the shortest seek, in ns, including settling.
    pub seek_track_to_track_ns: Sourced<u64>,
    /// Time of a seek over a third of the capacity (the mean distance of random seeks), in ns.
    pub seek_average_ns: Sourced<u64>,
    /// Time of a seek over the whole capacity, in ns.
    pub seek_full_ns: Sourced<u64>,
    /// Time from a command to the start of its seek, in ns. It is 0 for a command that continues a transfer in the same
    /// direction, at the next block, at the moment when that transfer ends.
    pub command_ns: Sourced<u64>,
}

impl RotationalConfig {
    fn check(&self) -> Result<(), ConfigError> {
        at_least("rpm", self.rpm.value, 1)?;
        at_most("rpm", self.rpm.value, 1_000_000)?;
        let outer = self.bandwidth_bytes_per_s.value;
        at_least("bandwidth_bytes_per_s", outer, machine::BLOCK_BYTES as u64)?;
        if let Some(inner) = &self.inner_bandwidth_bytes_per_s {
            at_least("inner_bandwidth_bytes_per_s", inner.value, machine::BLOCK_BYTES as u64)?;
            at_most("inner_bandwidth_bytes_per_s", inner.value, outer)?;
        }
        at_least("seek_average_ns", self.seek_average_ns.value, self.seek_track_to_track_ns.value)?;
        at_least("seek_full_ns", self.seek_full_ns.value, self.seek_average_ns.value)?;
        at_most("seek_full_ns", self.seek_full_ns.value, machine::NANOS_PER_SECOND)?;
        at_most("command_ns", self.command_ns.value, machine::NANOS_PER_SECOND)
    }
}

/// Constants of a disk of flash memory, or of an array of drives.
///
/// Consecutive blocks (or stripes of blocks) lie on consecutive channels. A channel serves one access after the other
/// and is busy for the whole latency of an access, so the rate of random reads is at most `channels / read_latency_ns`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FlashConfig {
    /// Size in blocks of 4096 bytes.
    pub capacity_blocks: Sourced<u64>,
    /// The request queue in front of the disk.
    #[serde(default = "noop_queue")]
    pub queue: QueueConfig,
    /// Number of requests that the device works on at once.
    pub queue_depth: Sourced<u64>,
    /// Number of pages that can be read or written at the same time. This is the number of flash dies, not of the buses
    /// to them. With `stripe_blocks`, it is the number of drives in an array.
    pub channels: Sourced<u64>,
    /// Number of consecutive blocks that lie on one channel and that one access can read or write. For an array of
    /// drives this is its chunk. Absent: 1 block, a page of flash memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripe_blocks: Option<Sourced<u64>>,
    /// Time to read a page of 4096 bytes, in ns. With `stripe_blocks`, it is the time to read what a request wants of
    /// one stripe.
    pub read_latency_ns: Sourced<u64>,
    /// Time to write a page of 4096 bytes, in ns. With `stripe_blocks`, it is the time to write what a request has for
    /// one stripe.
    pub write_latency_ns: Sourced<u64>,
    /// Largest rate of reads through the interface, bytes a second.
    pub read_bandwidth_bytes_per_s: Sourced<u64>,
    /// Largest rate of writes through the interface, bytes a second.
    pub write_bandwidth_bytes_per_s: Sourced<u64>,
    /// Time from a command to its first access, in ns.
    pub command_ns: Sourced<u64>,
    /// The stalls during which a channel erases flash memory. Absent: channels never stall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erase: Option<EraseConfig>,
}

/// The stalls of a flash disk's channels. A channel stalls while it erases flash memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EraseConfig {
    /// Number of pages that are written to a channel from one of its stalls to the next.
    pub every_pages: Sourced<u64>,
    /// Length of a stall, in ns. During a stall the channel neither reads nor writes.
    pub stall_ns: Sourced<u64>,
}

/// Returns the default queue of a flash disk, whose elevator is `noop`.
fn noop_queue() -> QueueConfig {
    QueueConfig { elevator: ElevatorConfig::Noop, ..QueueConfig::default() }
}

impl FlashConfig {
    fn check(&self) -> Result<(), ConfigError> {
        at_least("queue_depth", self.queue_depth.value, 1)?;
        at_least("channels", self.channels.value, 1)?;
        at_most("channels", self.channels.value, 1 << 16)?;
        if let Some(stripe) = &self.stripe_blocks {
            at_least("stripe_blocks", stripe.value, 1)?;
        }
        at_least("read_latency_ns", self.read_latency_ns.value, 1)?;
        at_least("write_latency_ns", self.write_latency_ns.value, 1)?;
        for (key, bandwidth) in [
            ("read_bandwidth_bytes_per_s", &self.read_bandwidth_bytes_per_s),
            ("write_bandwidth_bytes_per_s", &self.write_bandwidth_bytes_per_s),
        ] {
            at_least(key, bandwidth.value, machine::BLOCK_BYTES as u64)?;
        }
        for (key, time) in [
            ("read_latency_ns", &self.read_latency_ns),
            ("write_latency_ns", &self.write_latency_ns),
            ("command_ns", &self.command_ns),
        ] {
            at_most(key, time.value, machine::NANOS_PER_SECOND)?;
        }
        if let Some(erase) = &self.erase {
            at_least("erase.every_pages", erase.every_pages.value, 1)?;
            at_most("erase.stall_ns", erase.stall_ns.value, machine::NANOS_PER_SECOND)?;
        }
        Ok(())
    }
}

/// The error for a key of a [`DiskConfig`] whose value no disk can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Path of the key within the disk's table.
    pub key: &'static str,
    /// The value that the key has in the configuration, and that no disk can have.
    pub value: u64,
    /// The bound that the value breaks, in words.
    pub bound: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: must be {}", self.key, self.value, self.bound)
    }
}

impl std::error::Error for ConfigError {}

fn at_least(key: &'static str, value: u64, bound: u64) -> Result<(), ConfigError> {
    if value >= bound {
        return Ok(());
    }
    Err(ConfigError { key, value, bound: format!("at least {bound}") })
}

fn at_most(key: &'static str, value: u64, bound: u64) -> Result<(), ConfigError> {
    if value <= bound {
        return Ok(());
    }
    Err(ConfigError { key, value, bound: format!("at most {bound}") })
}

/// Checks that no time of an elevator, in ms, is above an hour. Sums of such times in ns cannot overflow.
fn check_times(times: &[(&'static str, &Sourced<u64>)]) -> Result<(), ConfigError> {
    times.iter().try_for_each(|(key, time)| at_most(key, time.value, 3_600_000))
}

/// Returns a value with its source: `value` is the default of Linux 3.10, and `what` names the constant in the kernel.
fn linux(value: u64, what: &str) -> Sourced<u64> {
    Sourced::new(value, Origin::Published, &format!("Linux 3.10 default, {what}"))
}

/// Disk configurations for tests, with the constants of the example in the documentation of [`super`].
#[cfg(test)]
pub(super) mod samples {
    use super::*;

    fn data_sheet(value: u64) -> Sourced<u64> {
        Sourced::new(value, Origin::DataSheet, "test")
    }

    /// Returns the disk of the experiment `parallelio`: 500 GB, 7200 rpm, 113 MB/s.
    pub fn rotational() -> DiskConfig {
        DiskConfig::Rotational(RotationalConfig {
            capacity_blocks: data_sheet(122_096_646),
            queue: QueueConfig {
                nr_requests: data_sheet(4096),
                max_request_pages: data_sheet(256),
                command_depth: None,
                elevator: ElevatorConfig::default(),
            },
            rpm: data_sheet(7200),
            bandwidth_bytes_per_s: data_sheet(113_000_000),
            inner_bandwidth_bytes_per_s: None,
            seek_track_to_track_ns: data_sheet(1_000_000),
            seek_average_ns: data_sheet(8_500_000),
            seek_full_ns: data_sheet(18_000_000),
            command_ns: data_sheet(150_000),
        })
    }

    /// Returns a flash disk of 32 dies: reads of 80 us, writes of 20 us, 3.2 GB/s for reads and 2.0 GB/s for writes.
    pub fn flash() -> DiskConfig {
        DiskConfig::Flash(FlashConfig {
            capacity_blocks: data_sheet(1 << 26),
            queue: noop_queue(),
            queue_depth: data_sheet(128),
            channels: data_sheet(32),
            stripe_blocks: None,
            read_latency_ns: data_sheet(80_000),
            write_latency_ns: data_sheet(20_000),
            read_bandwidth_bytes_per_s: data_sheet(3_200_000_000),
            write_bandwidth_bytes_per_s: data_sheet(2_000_000_000),
            command_ns: data_sheet(5_000),
            erase: None,
        })
    }

    /// Returns the disk `config` with a request queue that has the given values and no `command_depth`.
    pub fn with_queue(
        mut config: DiskConfig,
        nr_requests: u64,
        max_request_pages: u64,
        elevator: ElevatorConfig,
    ) -> DiskConfig {
        let (nr_requests, max_request_pages) = (data_sheet(nr_requests), data_sheet(max_request_pages));
        *config.queue_mut() = QueueConfig { nr_requests, max_request_pages, command_depth: None, elevator };
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_are_disks() {
        samples::rotational().check().expect("the rotational sample is a disk");
        samples::flash().check().expect("the flash sample is a disk");
    }

    #[test]
    fn a_value_that_makes_no_disk_is_named() {
        let mut config = samples::rotational();
        config.queue_mut().nr_requests.value = 0;
        let error = config.check().expect_err("no request could ever be submitted");
        assert_eq!(error.to_string(), "queue.nr_requests is 0: must be at least 1");

        let DiskConfig::Rotational(mut disk) = samples::rotational() else { unreachable!("it is rotational") };
        disk.seek_full_ns.value = 1;
        let error = DiskConfig::Rotational(disk).check().expect_err("a longer seek is never shorter");
        assert_eq!(error.key, "seek_full_ns");
    }

    /// Returns the TOML table that is the example in the documentation of [`crate::disk`].
    fn example() -> String {
        let lines = include_str!("mod.rs").lines().skip_while(|line| *line != "//! ```toml").skip(1);
        let table = lines.take_while(|line| *line != "//! ```");
        table.map(|line| line.trim_start_matches("//!").trim_start().to_owned() + "\n").collect()
    }

    #[derive(Debug, Deserialize, Serialize)]
    struct File {
        disk: DiskConfig,
    }

    #[test]
    fn the_example_in_the_documentation_is_a_disk() {
        let file: File = toml::from_str(&example()).expect("the example parses");
        file.disk.check().expect("the example is a disk");
        assert_eq!(file.disk.queue().nr_requests.value, 4096);
        assert_eq!(file.disk.queue().elevator, ElevatorConfig::default());
        let again: File = toml::from_str(&toml::to_string(&file).expect("it prints")).expect("and parses again");
        assert_eq!(again.disk, file.disk);
    }

    #[test]
    fn unknown_keys_are_refused() {
        let keys = [
            ("rpm ", "rmp "),
            ("nr_requests ", "nr_request "),
            ("\"cfq\"", "\"cfq\", slice = 1"),
            ("\"cfq\"", "\"noop\", slice_async_ms = 1"),
            ("\"cfq\"", "\"deadline\", slice_async_ms = 1"),
        ];
        for (right, wrong) in keys {
            let text = example().replace(right, wrong);
            let error = toml::from_str::<File>(&text).expect_err("the key does not exist").to_string();
            assert!(error.contains("unknown field"), "{error}");
        }
    }

    fn elevator(text: &str) -> Result<ElevatorConfig, String> {
        let text = example().replace("{ name = \"cfq\" }", text);
        toml::from_str::<File>(&text).map(|file| file.disk.queue().elevator.clone()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_elevator_is_a_name_or_a_table_of_what_differs() {
        assert_eq!(elevator("\"cfq\"").unwrap(), elevator("{ name = \"cfq\" }").unwrap());
        assert_eq!(elevator("\"noop\"").unwrap(), ElevatorConfig::Noop);
        assert_eq!(elevator("\"deadline\"").unwrap(), ElevatorConfig::Deadline(DeadlineConfig::default()));

        let text = "{ name = \"cfq\", slice_async_ms = { value = 80, from = \"assumed\", source = \"a test\" } }";
        let ElevatorConfig::Cfq(found) = elevator(text).unwrap() else { unreachable!("it is named cfq") };
        let slice_async_ms = Sourced::new(80, Origin::Assumed, "a test");
        assert_eq!(found, CfqConfig { slice_async_ms, ..CfqConfig::default() });
    }

    #[test]
    fn what_is_no_elevator_is_refused() {
        for (text, part) in [
            ("\"cfk\"", "unknown variant `cfk`"),
            ("{ name = \"cfk\" }", "unknown variant `cfk`"),
            ("{ fifo_batch = 1 }", "`name` must come before `fifo_batch`"),
            ("{}", "missing field `name`"),
            ("{ name = \"cfq\", slice_sync_ms = 80 }", "struct Sourced"),
            ("8", "an elevator's name in quotes, or a table with its `name`"),
        ] {
            let error = elevator(text).expect_err("it is no elevator");
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

//! Counters of a disk, and the figures of iostat that follow from them.
//!
//! [`DiskStatistics`] is a snapshot of cumulative counters. It has the fields of `/proc/diskstats`, but with times in
//! ns. [`DiskStatistics::interval`] turns two snapshots into the columns of `iostat -x`. Description:
//! mechanisms/reclaim, 27, last row.
//!
//! Once nothing is in flight, every submitted request is counted as one I/O or as one merge.

use machine::{BLOCK_BYTES, Nanos, Operation};

/// Number of bytes in a sector, the unit of `/proc/diskstats`.
pub const SECTOR_BYTES: u64 = 512;

/// Cumulative counters of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionStatistics {
    /// Number of completed requests, including those that failed. Requests that were merged into one count once.
    pub ios: u64,
    /// Number of merges of a submitted request into another. A request that joins two others counts twice.
    pub merges: u64,
    /// Number of sectors of [`SECTOR_BYTES`] bytes in all completed requests.
    pub sectors: u64,
    /// Sum of the durations of completed requests, each from submission to completion. Merged requests count as one,
    /// submitted when the first of them was.
    pub ticks: Nanos,
}

/// Cumulative counters of a disk at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStatistics {
    /// Counters of reads.
    pub reads: DirectionStatistics,
    /// Counters of writes.
    pub writes: DirectionStatistics,
    /// Number of requests that wait or are in service now.
    pub in_flight: u64,
    /// Total time during which at least one request was in flight.
    pub io_ticks: Nanos,
    /// Sum of the times that requests have been in flight. While N requests are in flight, the sum grows by N seconds
    /// each second.
    pub weighted: Nanos,
}

impl DiskStatistics {
    /// Returns the figures of `iostat -x` for the time between the snapshot `earlier` and the snapshot `self`.
    /// `elapsed` is the length of this time.
    ///
    /// # Panics
    /// When a counter of `earlier` is larger than the same counter of `self`.
    #[must_use]
    pub fn interval(&self, earlier: &Self, elapsed: Nanos) -> Interval {
        let reads = self.reads.since(&earlier.reads);
        let writes = self.writes.since(&earlier.writes);
        let seconds = elapsed.as_secs_f64();
        let kilobytes = |sectors: u64| (sectors * SECTOR_BYTES) as f64 / 1024.0;
        let ticks = reads.ticks + writes.ticks;
        Interval {
            rrqm_per_s: ratio(reads.merges as f64, seconds),
            wrqm_per_s: ratio(writes.merges as f64, seconds),
            r_per_s: ratio(reads.ios as f64, seconds),
            w_per_s: ratio(writes.ios as f64, seconds),
            rkb_per_s: ratio(kilobytes(reads.sectors), seconds),
            wkb_per_s: ratio(kilobytes(writes.sectors), seconds),
            avgrq_sectors: ratio((reads.sectors + writes.sectors) as f64, (reads.ios + writes.ios) as f64),
            avgqz: ratio((self.weighted - earlier.weighted).as_secs_f64(), seconds),
            await_ms: ratio(millis(ticks), (reads.ios + writes.ios) as f64),
            r_await_ms: ratio(millis(reads.ticks), reads.ios as f64),
            w_await_ms: ratio(millis(writes.ticks), writes.ios as f64),
            utilisation: ratio((self.io_ticks - earlier.io_ticks).as_secs_f64(), seconds),
        }
    }
}

impl DirectionStatistics {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            ios: self.ios - earlier.ios,
            merges: self.merges - earlier.merges,
            sectors: self.sectors - earlier.sectors,
            ticks: self.ticks - earlier.ticks,
        }
    }
}

/// A line of `iostat -x`.
///
/// Each value is one division of exact integers, so it is the same on every computer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Number of read requests merged each second.
    #[doc(alias = "rrqm/s")]
    pub rrqm_per_s: f64,
    /// Number of times per second that a write request was merged into another request.
    #[doc(alias = "wrqm/s")]
    pub wrqm_per_s: f64,
    /// Number of reads completed each second.
    #[doc(alias = "r/s")]
    pub r_per_s: f64,
    /// Number of writes completed each second.
    #[doc(alias = "w/s")]
    pub w_per_s: f64,
    /// KiB read each second.
    #[doc(alias = "rkB/s")]
    pub rkb_per_s: f64,
    /// KiB written each second.
    #[doc(alias = "wkB/s")]
    pub wkb_per_s: f64,
    /// Mean size of a completed request, in sectors of 512 bytes.
    #[doc(alias = "avgrq-sz")]
    pub avgrq_sectors: f64,
    /// Mean number of requests in flight.
    #[doc(alias = "avgqu-sz")]
    pub avgqz: f64,
    /// Mean time from submission to completion, in ms; 0 if no request was completed.
    #[doc(alias = "await")]
    pub await_ms: f64,
    /// Mean time of a read from submission to completion, ms; 0 if no read was completed.
    #[doc(alias = "r_await")]
    pub r_await_ms: f64,
    /// Mean time of a write from submission to completion, ms; 0 if no write was completed.
    #[doc(alias = "w_await")]
    pub w_await_ms: f64,
    /// Share of the time during which at least one request was in flight, 0 to 1.
    #[doc(alias = "%util")]
    pub utilisation: f64,
}

fn millis(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

fn ratio(over: f64, under: f64) -> f64 {
    if under == 0.0 { 0.0 } else { over / under }
}

/// The counters of a disk, and what is needed to update them during a run.
#[derive(Debug, Default)]
pub(super) struct Accounting {
    directions: [DirectionStatistics; 2],
    in_flight: u64,
    io_ticks: Nanos,
    weighted: Nanos,
    /// Time up to which `io_ticks` and `weighted` have been added up.
    counted_until: Nanos,
}

impl Accounting {
    /// Counts a submitted request that was not merged into another one and so took a slot of the queue.
    pub(super) fn entered(&mut self, now: Nanos) {
        self.count_until(now);
        self.in_flight += 1;
    }

    /// Counts a submitted request that was merged into a request in flight.
    pub(super) fn merged(&mut self, operation: Operation) {
        self.directions[operation as usize].merges += 1;
    }

    /// Counts a submitted request that closed the gap between two requests in flight, so that all three are now a
    /// single request. This counts as two merges.
    pub(super) fn joined(&mut self, now: Nanos, operation: Operation) {
        self.left(now);
        self.directions[operation as usize].merges += 2;
    }

    /// Counts a completed request that entered the queue at `entered`.
    pub(super) fn completed(&mut self, now: Nanos, operation: Operation, blocks: u64, entered: Nanos) {
        self.left(now);
        let direction = &mut self.directions[operation as usize];
        direction.ios += 1;
        direction.sectors += blocks * (BLOCK_BYTES as u64 / SECTOR_BYTES);
        direction.ticks += now.since(entered);
    }

    /// Returns the counters as they stand at `now`.
    pub(super) fn snapshot(&self, now: Nanos) -> DiskStatistics {
        let (busy, weighted) = self.uncounted(now);
        DiskStatistics {
            reads: self.directions[Operation::Read as usize],
            writes: self.directions[Operation::Write as usize],
            in_flight: self.in_flight,
            io_ticks: self.io_ticks + busy,
            weighted: self.weighted + weighted,
        }
    }

    fn left(&mut self, now: Nanos) {
        self.count_until(now);
        assert!(self.in_flight > 0, "a request left at {now}, but none is in flight");
        self.in_flight -= 1;
    }

    fn count_until(&mut self, now: Nanos) {
        let (busy, weighted) = self.uncounted(now);
        self.io_ticks += busy;
        self.weighted += weighted;
        self.counted_until = self.counted_until.max(now);
    }

    fn uncounted(&self, now: Nanos) -> (Nanos, Nanos) {
        let since = now.since(self.counted_until).0;
        (Nanos(since * self.in_flight.min(1)), Nanos(since * self.in_flight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_what_iostat_prints() {
        let mut accounting = Accounting::default();
        let before = accounting.snapshot(Nanos(0));
        accounting.entered(Nanos(0));
        accounting.entered(Nanos(0));
        accounting.merged(Operation::Write);
        accounting.completed(Nanos::from_millis(100), Operation::Read, 1, Nanos(0));
        accounting.completed(Nanos::from_millis(500), Operation::Write, 2, Nanos(0));
        let now = Nanos::from_secs(1);
        let interval = accounting.snapshot(now).interval(&before, now);
        let expected = Interval {
            rrqm_per_s: 0.0,
            wrqm_per_s: 1.0,
            r_per_s: 1.0,
            w_per_s: 1.0,
            rkb_per_s: 4.0,
            wkb_per_s: 8.0,
            avgrq_sectors: 12.0,
            avgqz: 0.6,
            await_ms: 300.0,
            r_await_ms: 100.0,
            w_await_ms: 500.0,
            utilisation: 0.5,
        };
        assert_eq!(interval, expected);
    }

    #[test]
    fn an_interval_without_time_or_requests_is_all_zero() {
        let idle = DiskStatistics::default();
        assert_eq!(idle.interval(&idle, Nanos(0)), Interval::default());
        assert_eq!(idle.interval(&idle, Nanos::from_secs(1)), Interval::default());
    }
}

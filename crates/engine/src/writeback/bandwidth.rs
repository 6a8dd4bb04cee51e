//! The speed of a device, and the rate at which its writers may dirty pages (mechanisms/reclaim, 21.2, for Linux 3.3
//! and later).
//!
//! All values are integers: rates in pages a second, ratios in units of 1/1024.

use super::dirty_limit::DirtyLimits;
use machine::{NANOS_PER_SECOND, Nanos};

/// The integer that stands for a ratio of 1.0 (ratios are in units of 1/1024).
pub const ONE: i64 = 1 << SHIFT;
const SHIFT: u32 = 10;

/// Shortest time between two updates of a device's estimates.
const INTERVAL: Nanos = Nanos::from_millis(200);

/// The length of time over which the rate of written pages is averaged.
const WINDOW: Nanos = Nanos::from_millis(4096);

/// Assumed rate of a device before it has written anything: 100 MB/s.
const START_PAGES_PER_SECOND: u64 = 100 * 256;

/// Estimates of a device's speed and of its writers' rates.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    updated: Nanos,
    dirtied_stamp: u64,
    written_stamp: u64,
    /// Rate at which pages are written, in pages a second, averaged over [`WINDOW`].
    write: u64,
    /// Rate at which pages are written, in pages a second: the value of `write`, smoothed once more.
    pub average_write: u64,
    /// Rate at which one writer may dirty pages when the number of dirty pages is at the setpoint, in pages a second.
    pub ratelimit: u64,
    balanced: u64,
    /// The smoothed dirty limit for all devices, in pages. When the limit falls, this value follows slowly.
    pub tracked_limit: u64,
}

impl Default for Bandwidth {
    fn default() -> Self {
        Self {
            updated: Nanos(0),
            dirtied_stamp: 0,
            written_stamp: 0,
            write: START_PAGES_PER_SECOND,
            average_write: START_PAGES_PER_SECOND,
            ratelimit: START_PAGES_PER_SECOND,
            balanced: START_PAGES_PER_SECOND,
            tracked_limit: 0,
        }
    }
}

/// The input of an update of a device's estimates: the present time, counts of pages, and the dirty limits.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The present time.
    pub now: Nanos,
    /// Number of pages that were dirtied on the device since the machine started.
    pub dirtied: u64,
    /// Number of pages that were written to the device since the machine started.
    pub written: u64,
    /// Number of pages that are dirty or under writeback, over all devices.
    pub dirty: u64,
    /// Number of the device's pages that are dirty or under writeback.
    pub device_dirty: u64,
    /// The device's part of the dirty limit, in pages.
    pub device_limit: u64,
    /// The dirty limits for all devices together.
    pub limits: DirtyLimits,
}

impl Bandwidth {
    /// Updates the estimates if at least 200 ms have passed since the last update.
    pub fn update(&mut self, sample: &Sample) {
        let elapsed = sample.now.since(self.updated);
        if elapsed < INTERVAL {
            return;
        }
        self.follow_limit(sample);
        // If more than a second has passed, nothing can be learned from the time in between.
        if elapsed < Nanos::from_secs(1) {
            let position = self.position(sample);
            self.update_ratelimit(sample, elapsed, position);
            self.update_write(sample, elapsed);
        }
        self.updated = sample.now;
        self.dirtied_stamp = sample.dirtied;
        self.written_stamp = sample.written;
    }

    fn follow_limit(&mut self, sample: &Sample) {
        let limit = sample.limits.dirty;
        if self.tracked_limit < limit {
            self.tracked_limit = limit;
        } else {
            let floor = limit.max(sample.dirty);
            self.tracked_limit -= self.tracked_limit.saturating_sub(floor) >> 5;
        }
    }

    fn update_write(&mut self, sample: &Sample, elapsed: Nanos) {
        let written = sample.written - self.written_stamp;
        let rate = written * NANOS_PER_SECOND / elapsed.0;
        let old = self.write;
        let share = elapsed.0.min(WINDOW.0);
        self.write = ((u128::from(old) * u128::from(WINDOW.0 - share) + u128::from(rate) * u128::from(share))
            / u128::from(WINDOW.0)) as u64;
        if self.average_write > old && old >= self.write {
            self.average_write -= (self.average_write - old) >> 3;
        }
        if self.average_write < old && old <= self.write {
            self.average_write += (old - self.average_write) >> 3;
        }
        self.average_write = self.average_write.max(1);
    }

    fn update_ratelimit(&mut self, sample: &Sample, elapsed: Nanos, position: i64) {
        let dirty_rate = (sample.dirtied - self.dirtied_stamp) * NANOS_PER_SECOND / elapsed.0;
        let task_rate = ((self.ratelimit * position as u64) >> SHIFT) + 1;
        let balanced = (task_rate * self.average_write / dirty_rate.max(1)).min(self.average_write);
        let below_setpoint = sample.dirty < self.setpoint(sample);
        let mut rate = self.ratelimit;
        // The rate moves only if the balanced rate, the previous balanced rate and the position all call for a move in
        // the same direction.
        let target = if below_setpoint {
            self.balanced.min(balanced).min(task_rate).max(rate)
        } else {
            self.balanced.max(balanced).max(task_rate).min(rate)
        };
        let error = target.abs_diff(rate);
        if error > 0 {
            // Small errors are noise, so the step shrinks faster than the error.
            let step = (error >> (rate / (2 * error + 1)).min(63)).div_ceil(8);
            rate = if target > rate { rate + step } else { rate - step };
        }
        self.ratelimit = rate.max(1);
        self.balanced = balanced;
    }

    /// Returns the rate at which a writer may dirty pages, in pages a second. `position` is the factor by which the
    /// base rate is multiplied, in units of 1/1024.
    #[must_use]
    pub const fn rate_at(&self, position: u64) -> u64 {
        (self.ratelimit * position) >> SHIFT
    }

    fn limit(&self, sample: &Sample) -> u64 {
        sample.limits.dirty.max(self.tracked_limit)
    }

    fn setpoint(&self, sample: &Sample) -> u64 {
        u64::midpoint(sample.limits.free_run(), self.limit(sample))
    }

    /// Returns the factor by which a writer's rate is multiplied, in units of 1/1024. It is a product of two factors.
    /// The first factor depends on the number of dirty pages of all devices: it is 2.0 up to the free-run level, 1.0 at
    /// the setpoint, and 0 at the limit. The second factor depends in a similar way on the number of the device's own
    /// dirty pages.
    #[must_use]
    pub fn position(&self, sample: &Sample) -> i64 {
        let limit = self.limit(sample) as i64;
        let dirty = sample.dirty as i64;
        if dirty >= limit {
            return 0;
        }
        let setpoint = self.setpoint(sample) as i64;
        let x = ((setpoint - dirty) << SHIFT) / (limit - setpoint).max(1);
        let cube = (((x * x) >> SHIFT) * x) >> SHIFT;
        let mut position = (ONE + cube).clamp(0, 2 * ONE);

        let device_limit = (sample.device_limit as i64).max(1);
        let device_setpoint = setpoint * device_limit / (sample.limits.dirty as i64).max(1);
        let span = 8 * self.average_write as i64;
        let top = device_setpoint + span;
        let device_dirty = sample.device_dirty as i64;
        if device_dirty < top - span / 4 {
            position = position * (top - device_dirty) / (top - device_setpoint).max(1);
        } else {
            position /= 4;
        }
        if device_dirty < device_limit / 2 {
            position = if device_dirty > device_limit / 16 {
                position * (device_limit / 2) / device_dirty
            } else {
                position * 8
            };
        }
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(dirty: u64) -> Sample {
        let limits = DirtyLimits { background: 10_000, dirty: 20_000 };
        Sample { now: Nanos(0), dirtied: 0, written: 0, dirty, device_dirty: dirty, device_limit: 20_000, limits }
    }

    #[test]
    fn position_falls_from_free_run_to_the_limit() {
        let bandwidth = Bandwidth { tracked_limit: 20_000, ..Bandwidth::default() };
        let at = |dirty| bandwidth.position(&sample(dirty));
        assert!(at(15_000) > at(17_500) && at(17_500) > at(19_000), "{} {} {}", at(15_000), at(17_500), at(19_000));
        assert!((at(17_500) - ONE).abs() < ONE / 50, "1.0 at the setpoint, not {}", at(17_500));
        assert_eq!(at(20_000), 0);
    }

    #[test]
    fn ratelimit_settles_at_the_device_rate() {
        let mut bandwidth = Bandwidth::default();
        let mut now = sample(17_500);
        // One writer dirties pages as fast as it may, on a device that writes 20,000 pages a second.
        for _ in 0..400 {
            let rate = (bandwidth.ratelimit * bandwidth.position(&now) as u64) >> SHIFT;
            now.now += INTERVAL;
            now.dirtied += rate / 5;
            now.written += 4_000;
            now.dirty = (now.dirty + rate / 5).saturating_sub(4_000).min(19_999);
            now.device_dirty = now.dirty;
            bandwidth.update(&now);
        }
        let rate = (bandwidth.ratelimit * bandwidth.position(&now) as u64) >> SHIFT;
        assert!(rate.abs_diff(20_000) < 3_000, "{rate} pages/s; {bandwidth:?}");
    }
}

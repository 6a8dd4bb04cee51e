//! A disk with one arm. The cost of a request follows from the positions of the arm and the platter.
//!
//! A request costs only the time of its transfer if it begins at the block where the last request ended and has the
//! same operation (read or write). If the disk was idle in between, it also costs the time of a command. Any other
//! request costs a command, a seek by distance, the rotation to its first block, and its transfer. The platter's
//! position is the time modulo one revolution. So the start time determines the block under the head, and no random
//! number is needed.
//!
//! Next: [`super::flash`], the other model.

use super::config::RotationalConfig;
use machine::{BLOCK_BYTES, NANOS_PER_SECOND, Nanos, Operation};

/// Number of bands into which a disk is divided if its bandwidth falls from the outer edge inwards. The bandwidth is
/// constant within a band. Band 0 is the outermost.
const ZONES: u64 = 16;

/// Factor by which a seek distance is multiplied before its square root is taken. With it the root has 8 binary places
/// after the point. The largest product, 2⁴⁰ blocks × 2¹⁶, fits 64 bits.
const SEEK_SCALE: u64 = 1 << 16;

/// A rotating disk: its speed, and the positions of its arm and platter.
#[derive(Debug)]
pub(super) struct Rotational {
    revolution_ns: u64,
    /// Bandwidth of each band, bytes a second. There is a single value if the bandwidth is the same everywhere.
    bandwidth: Vec<u64>,
    /// Number of blocks in each band; the last band may have fewer.
    zone_blocks: u64,
    seek: SeekCurve,
    command_ns: u64,
    /// Position of the head: the block after the last request.
    head: u64,
    /// Direction of the last request, and the time at which it ended.
    last: Option<(Operation, Nanos)>,
}

impl Rotational {
    pub(super) fn new(config: &RotationalConfig) -> Self {
        let outer = config.bandwidth_bytes_per_s.value;
        let bandwidth = match &config.inner_bandwidth_bytes_per_s {
            None => vec![outer],
            Some(inner) => {
                let slower = outer - inner.value;
                (0..ZONES).map(|zone| outer - mul_div(slower, zone, ZONES - 1)).collect()
            }
        };
        let capacity_blocks = config.capacity_blocks.value;
        Self {
            revolution_ns: 60 * NANOS_PER_SECOND / config.rpm.value,
            zone_blocks: capacity_blocks.div_ceil(bandwidth.len() as u64),
            bandwidth,
            seek: SeekCurve::new(config),
            command_ns: config.command_ns.value,
            head: 0,
            last: None,
        }
    }

    /// Serves a request that starts at `now`; returns the time at which it ends.
    pub(super) fn serve(&mut self, now: Nanos, operation: Operation, block: u64, blocks: u64) -> Nanos {
        let transfer_ns = self.transfer_ns(self.zone(block), blocks);
        let is_continued = block == self.head && self.last.is_some_and(|(last, _)| last == operation);
        let positioning_ns = if !is_continued {
            let arrived_ns = self.command_ns + self.seek_ns(block);
            arrived_ns + self.turn_ns(now + Nanos(arrived_ns), block)
        } else if self.last.is_some_and(|(_, end)| end == now) {
            0
        } else {
            self.command_ns
        };
        let end = now + Nanos(positioning_ns + transfer_ns);
        self.head = block + blocks;
        self.last = Some((operation, end));
        end
    }

    fn zone(&self, block: u64) -> usize {
        ((block / self.zone_blocks) as usize).min(self.bandwidth.len() - 1)
    }

    fn transfer_ns(&self, zone: usize, blocks: u64) -> u64 {
        mul_div(blocks * BLOCK_BYTES as u64, NANOS_PER_SECOND, self.bandwidth[zone])
    }

    /// Returns the band, the track and the angle of a block. The angle is stated as a time in ns: the time from the
    /// moment when the start of the track passes the head until the block does.
    ///
    /// A track is the amount of data that passes the head in one revolution at the band's bandwidth. So a sequential
    /// transfer crosses from track to track without a loss of time, and meets each block at its angle.
    fn track_and_angle(&self, block: u64) -> (usize, u64, u64) {
        let zone = self.zone(block);
        let offset_ns = self.transfer_ns(zone, block - zone as u64 * self.zone_blocks);
        (zone, offset_ns / self.revolution_ns, offset_ns % self.revolution_ns)
    }

    fn seek_ns(&self, block: u64) -> u64 {
        let (zone, track, _) = self.track_and_angle(block);
        let (head_zone, head_track, _) = self.track_and_angle(self.head);
        if (zone, track) == (head_zone, head_track) { 0 } else { self.seek.ns(self.head.abs_diff(block)) }
    }

    /// Returns the time until `block` passes the head, if the head is over the block's track from `arrived` on.
    fn turn_ns(&self, arrived: Nanos, block: u64) -> u64 {
        let (_, _, angle) = self.track_and_angle(block);
        (angle + self.revolution_ns - arrived.0 % self.revolution_ns) % self.revolution_ns
    }
}

/// The time of a seek as a function of its distance.
///
/// Up to a third of the capacity, the arm speeds up and brakes, and the time grows with the square root of the
/// distance. Beyond that, the arm moves at full speed and the time grows linearly. The curve passes through the three
/// times that data sheets give.
#[derive(Debug)]
struct SeekCurve {
    track_to_track_ns: u64,
    average_ns: u64,
    full_ns: u64,
    /// A third of the capacity, in blocks: the average distance of random seeks.
    average_blocks: u64,
    capacity_blocks: u64,
}

impl SeekCurve {
    fn new(config: &RotationalConfig) -> Self {
        let capacity_blocks = config.capacity_blocks.value;
        Self {
            track_to_track_ns: config.seek_track_to_track_ns.value,
            average_ns: config.seek_average_ns.value,
            full_ns: config.seek_full_ns.value,
            average_blocks: (capacity_blocks / 3).max(1),
            capacity_blocks,
        }
    }

    fn ns(&self, distance_blocks: u64) -> u64 {
        if distance_blocks <= self.average_blocks {
            let root = (distance_blocks * SEEK_SCALE).isqrt();
            let root_max = (self.average_blocks * SEEK_SCALE).isqrt();
            return self.track_to_track_ns + mul_div(self.average_ns - self.track_to_track_ns, root, root_max);
        }
        let beyond = distance_blocks - self.average_blocks;
        let beyond_max = self.capacity_blocks - self.average_blocks;
        self.average_ns + mul_div(self.full_ns - self.average_ns, beyond, beyond_max)
    }
}

/// Returns `a × b / c`, rounded down, without intermediate overflow.
pub(super) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    (u128::from(a) * u128::from(b) / u128::from(c)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::config::{DiskConfig, samples};
    use crate::sourced::{Origin, Sourced};

    const REVOLUTION_NS: u64 = 8_333_333;
    const TRANSFER_4K_NS: u64 = 36_247; // 4096 bytes at 113 MB/s

    fn config() -> RotationalConfig {
        let DiskConfig::Rotational(config) = samples::rotational() else { unreachable!("it is rotational") };
        config
    }

    #[test]
    fn the_seek_curve_passes_through_the_data_sheet() {
        let config = config();
        let curve = SeekCurve::new(&config);
        assert_eq!(curve.ns(0), config.seek_track_to_track_ns.value);
        assert_eq!(curve.ns(config.capacity_blocks.value / 3), config.seek_average_ns.value);
        assert_eq!(curve.ns(config.capacity_blocks.value), config.seek_full_ns.value);
        let times: Vec<u64> = (0..1000).map(|i| curve.ns(config.capacity_blocks.value / 1000 * i)).collect();
        assert!(times.is_sorted(), "a longer seek is never shorter");
    }

    #[test]
    fn a_contiguous_request_costs_its_transfer_only() {
        let mut disk = Rotational::new(&config());
        let first = disk.serve(Nanos(0), Operation::Write, 1000, 1);
        let second = disk.serve(first, Operation::Write, 1001, 1);
        assert_eq!(second.since(first), Nanos(TRANSFER_4K_NS));
        let later = second + Nanos::from_millis(3);
        let third = disk.serve(later, Operation::Write, 1002, 1);
        assert_eq!(third.since(later), Nanos(TRANSFER_4K_NS + 150_000), "a command that nothing hides");
        let read = disk.serve(third, Operation::Read, 1003, 1);
        assert!(read.since(third) > Nanos(REVOLUTION_NS / 2), "a read after a write has missed its block");
    }

    #[test]
    fn the_block_just_passed_costs_a_revolution() {
        let mut disk = Rotational::new(&config());
        let first = disk.serve(Nanos(0), Operation::Read, 1000, 1);
        let again = disk.serve(first, Operation::Read, 1000, 1);
        assert!(again.since(first).0.abs_diff(REVOLUTION_NS) <= 10, "took {}", again.since(first));
    }

    #[test]
    fn the_turn_is_less_than_a_revolution_from_any_time() {
        let disk = Rotational::new(&config());
        for now in (0..3 * REVOLUTION_NS).step_by(99_991) {
            for block in [0, 1, 229, 230, 122_096_645] {
                let turn_ns = disk.turn_ns(Nanos(now), block);
                assert!(turn_ns < REVOLUTION_NS);
                let (_, _, angle) = disk.track_and_angle(block);
                assert_eq!((now + turn_ns) % REVOLUTION_NS, angle, "the head meets the block");
            }
        }
    }

    #[test]
    fn an_inner_zone_is_slower() {
        let mut config = config();
        config.inner_bandwidth_bytes_per_s = Some(Sourced::new(56_500_000, Origin::DataSheet, "test"));
        let disk = Rotational::new(&config);
        let last = disk.zone(config.capacity_blocks.value - 1);
        assert_eq!((disk.zone(0), last as u64), (0, ZONES - 1));
        assert_eq!(disk.transfer_ns(last, 256), disk.transfer_ns(0, 512));
    }
}

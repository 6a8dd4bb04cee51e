//! A disk of flash memory. The cost of a request follows from how busy the disk's channels are.
//!
//! Consecutive blocks (or stripes of blocks) lie on consecutive channels. A channel serves one access after another; an
//! access reads or writes a page or a part of a stripe. The interface has a limited bandwidth for reads and another for
//! writes. There is no position, so every order of requests costs the same.

use super::config::FlashConfig;
use super::rotational::mul_div;
use machine::{BLOCK_BYTES, NANOS_PER_SECOND, Nanos, Operation};

/// The state of a flash disk: its channels and its interface.
#[derive(Debug)]
pub(super) struct Flash {
    queue_depth: u64,
    /// Number of consecutive blocks that lie on one channel and that one access can read or write.
    stripe_blocks: u64,
    /// Time of one access, for each direction (reads, writes).
    access_ns: [u64; 2],
    /// Bandwidth of the interface, bytes a second, for each direction.
    bandwidth: [u64; 2],
    command_ns: u64,
    /// Number of pages that are written to a channel from one stall to the next, and length of a stall in ns; `None` if
    /// channels never stall.
    erase: Option<(u64, u64)>,
    channels: Vec<Channel>,
    /// Two times, for reads and for writes: when the interface will have transferred all data that was passed to it so
    /// far.
    interface_free: [Nanos; 2],
}

/// A channel, which does one access after another.
#[derive(Clone, Debug, Default)]
struct Channel {
    /// Time at which the channel will have done all accesses that were passed to it so far.
    free: Nanos,
    /// Number of pages written to the channel since its last stall.
    written: u64,
}

impl Flash {
    pub(super) fn new(config: &FlashConfig) -> Self {
        Self {
            queue_depth: config.queue_depth.value,
            stripe_blocks: config.stripe_blocks.as_ref().map_or(1, |stripe| stripe.value),
            access_ns: [config.read_latency_ns.value, config.write_latency_ns.value],
            bandwidth: [config.read_bandwidth_bytes_per_s.value, config.write_bandwidth_bytes_per_s.value],
            command_ns: config.command_ns.value,
            erase: config.erase.as_ref().map(|erase| (erase.every_pages.value, erase.stall_ns.value)),
            channels: vec![Channel::default(); config.channels.value as usize],
            interface_free: [Nanos(0); 2],
        }
    }

    /// Returns the largest number of requests that the disk serves at once.
    pub(super) fn queue_depth(&self) -> u64 {
        self.queue_depth
    }

    /// Serves a request that starts at `now`; returns the time at which it ends.
    pub(super) fn serve(&mut self, now: Nanos, operation: Operation, block: u64, blocks: u64) -> Nanos {
        let begin = now + Nanos(self.command_ns);
        let direction = operation as usize;

        let interface = &mut self.interface_free[direction];
        let transfer_ns = mul_div(blocks * BLOCK_BYTES as u64, NANOS_PER_SECOND, self.bandwidth[direction]);
        *interface = begin.max(*interface) + Nanos(transfer_ns);
        let mut end = *interface;

        let channels = self.channels.len() as u64;
        let mut at = block;
        while at < block + blocks {
            let stripe = at / self.stripe_blocks;
            let next = ((stripe + 1) * self.stripe_blocks).min(block + blocks);
            let channel = &mut self.channels[(stripe % channels) as usize];
            channel.free = begin.max(channel.free) + Nanos(self.access_ns[direction]);
            end = end.max(channel.free);
            if operation == Operation::Write
                && let Some((every_pages, stall_ns)) = self.erase
            {
                channel.written += next - at;
                channel.free += Nanos(channel.written / every_pages * stall_ns);
                channel.written %= every_pages;
            }
            at = next;
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::config::{DiskConfig, EraseConfig, samples};
    use crate::sourced::{Origin, Sourced};

    fn config() -> FlashConfig {
        let DiskConfig::Flash(config) = samples::flash() else { unreachable!("it is flash") };
        config
    }

    #[test]
    fn different_channels_work_at_once_and_one_channel_in_turn() {
        let mut disk = Flash::new(&config());
        assert_eq!(disk.serve(Nanos(0), Operation::Read, 0, 1), Nanos(85_000));
        assert_eq!(disk.serve(Nanos(0), Operation::Read, 1, 1), Nanos(85_000), "another channel");
        assert_eq!(disk.serve(Nanos(0), Operation::Read, 32, 1), Nanos(165_000), "the first channel again");
    }

    #[test]
    fn a_stripe_is_one_access_and_the_next_is_on_another_channel() {
        let mut config = config();
        config.stripe_blocks = Some(Sourced::new(16, Origin::Fitted, "test"));
        let serve = |block, blocks| Flash::new(&config).serve(Nanos(0), Operation::Read, block, blocks);
        let one_access = serve(0, 1);
        let transfer_ns = |blocks| mul_div(blocks * BLOCK_BYTES as u64, NANOS_PER_SECOND, 3_200_000_000);
        assert!(transfer_ns(32) < 80_000, "the interface is not what limits");
        assert_eq!(serve(0, 16), one_access);
        assert_eq!(serve(8, 16), one_access, "two channels at once");
        let mut disk = Flash::new(&config);
        disk.serve(Nanos(0), Operation::Read, 0, 4);
        assert_eq!(disk.serve(Nanos(0), Operation::Read, 4, 4), one_access + Nanos(80_000), "the same channel again");
    }

    #[test]
    fn large_writes_run_at_the_interface_bandwidth() {
        let mut disk = Flash::new(&config());
        let end = (0..1000).fold(Nanos(0), |_, i| disk.serve(Nanos(0), Operation::Write, i * 256, 256));
        let bytes_per_s = mul_div(1000 << 20, NANOS_PER_SECOND, end.0);
        assert!((1_990_000_000..=2_000_000_000).contains(&bytes_per_s), "{bytes_per_s} bytes/s");
    }

    #[test]
    fn erasing_counts_pages_of_a_stripe_one_by_one() {
        let mut config = config();
        let test = |value| Sourced::new(value, Origin::Fitted, "test");
        config.stripe_blocks = Some(test(16));
        config.erase = Some(EraseConfig { every_pages: test(10), stall_ns: test(2_000_000) });
        let mut disk = Flash::new(&config);
        disk.serve(Nanos(0), Operation::Write, 0, 16);
        assert_eq!((disk.channels[0].written, disk.channels[0].free), (6, Nanos(5_000 + 20_000 + 2_000_000)));
        disk.serve(Nanos(0), Operation::Write, 32 * 16, 4);
        assert_eq!(disk.channels[0].written, 0, "the 33rd stripe is on the first channel again");
    }

    #[test]
    fn erasing_stalls_the_channel_that_was_written() {
        let mut config = config();
        let test = |value| Sourced::new(value, Origin::Fitted, "test");
        config.erase = Some(EraseConfig { every_pages: test(2), stall_ns: test(2_000_000) });
        let mut disk = Flash::new(&config);
        disk.serve(Nanos(0), Operation::Write, 0, 1);
        assert_eq!(disk.serve(Nanos(0), Operation::Write, 32, 1), Nanos(45_000), "the write itself does not wait");
        assert_eq!(disk.serve(Nanos(0), Operation::Read, 0, 1), Nanos(2_125_000), "what comes after it does");
        assert_eq!(disk.serve(Nanos(0), Operation::Read, 1, 1), Nanos(85_000), "other channels do not");
    }
}

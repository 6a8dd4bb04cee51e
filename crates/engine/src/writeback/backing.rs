//! A device as writeback sees it: its dirty pages, its speed, and its free blocks.

use super::Writeback;
use super::bandwidth::{Bandwidth, Sample};
use super::blocks::FreeBlocks;
use super::dirty_limit::DirtyWaits;
use super::flusher::Work;
use super::group_limit::OfGroups;
use super::write_failure::FailedFiles;
use crate::memory::{Flags, Groups};
use crate::page_cache::File;
use machine::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use machine::{DeviceId, FrameNumber, Lock, LockClass, Machine, Step};
use std::sync::OnceLock;

/// The layout of a block device: the blocks that files may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLayout {
    /// The blocks that files may use; the file system keeps the first block for itself.
    pub file_blocks: std::ops::Range<u64>,
}

/// The state that writeback keeps about one device.
pub struct Backing<M: Machine> {
    /// The device's number. For a file that is a device of its own, this is the number in [`File::backing`], not that
    /// in [`File::device`].
    pub device: DeviceId,
    /// Number of blocks that files may use.
    pub(crate) total_blocks: u64,
    /// The free blocks of the device.
    pub(crate) blocks: M::Lock<FreeBlocks>,
    /// Number of free blocks, which can be read without the lock of `blocks`.
    free_blocks: AtomicU64,
    /// Number of dirty pages that have no block yet. Each of these pages reserves one of the free blocks.
    delayed: AtomicU64,
    /// Number of dirty pages of the device's files.
    pub(crate) dirty: AtomicI64,
    /// Number of pages under writeback that belong to the device's files.
    pub(crate) writeback: AtomicI64,
    /// The record of the dirty pages whose last write failed.
    pub(crate) failed_files: FailedFiles,
    /// Number of pages of the device's files that were dirtied since the engine started.
    pub(crate) dirtied: AtomicU64,
    /// Number of pages of the device's files that were written since the engine started.
    pub(crate) written: AtomicU64,
    /// The flusher's work: files with dirty pages, and requests of other tasks.
    pub(crate) work: M::Lock<Work>,
    /// The wait queue on which the flusher sleeps.
    pub(crate) flusher: M::WaitQueue,
    /// The writers that wait until fewer pages are dirty.
    pub(crate) dirty_waits: DirtyWaits<M>,
    /// Estimates of the device's speed and of its writers' rates.
    pub(crate) bandwidth: M::Lock<Bandwidth>,
    /// For each memory control group, the numbers of its pages that were dirtied and written on this device, and
    /// estimates of the rates at which they were written and its writers may dirty pages.
    pub(crate) of_groups: OfGroups<M>,
    /// `true` if too many pages were dirty when a writer last checked (`bdi->dirty_exceeded`).
    pub(crate) dirty_exceeded: AtomicBool,
    /// Write rate of the device in pages a second, copied from [`Backing::bandwidth`] so that it can be read without
    /// the lock.
    write_rate: AtomicU64,
    /// The smoothed dirty limit ([`Bandwidth::tracked_limit`]) at the last update, copied so that it can be read
    /// without the lock.
    pub(crate) tracked_limit: AtomicU64,
    /// `true` if the flusher skipped a dirty page because a task was changing it (`writeback.stable_pages`).
    pub(super) met_held: AtomicBool,
    /// `true` if the flusher's last round wrote nothing and found only pages that tasks were changing. Writers must not
    /// wait for such pages, because the writers themselves may hold them.
    pub(crate) has_only_held: AtomicBool,
}

impl<M: Machine> Backing<M> {
    /// Creates the state that writeback keeps about a device. No page of the device is dirty at first. The number of
    /// memory control groups is at most `groups`.
    pub(super) fn new(machine: &M, device: DeviceId, layout: &DeviceLayout, groups: usize) -> Self {
        let total_blocks = layout.file_blocks.end - layout.file_blocks.start;
        Self {
            device,
            total_blocks,
            blocks: machine.lock(LockClass::Other, FreeBlocks::new(layout.file_blocks.clone())),
            free_blocks: AtomicU64::new(total_blocks),
            delayed: AtomicU64::new(0),
            dirty: AtomicI64::new(0),
            writeback: AtomicI64::new(0),
            failed_files: FailedFiles::default(),
            dirtied: AtomicU64::new(0),
            written: AtomicU64::new(0),
            work: machine.lock(LockClass::Writeback, Work::default()),
            flusher: machine.wait_queue(),
            dirty_waits: DirtyWaits::new(machine),
            bandwidth: machine.lock(LockClass::Other, Bandwidth::default()),
            write_rate: AtomicU64::new(Bandwidth::default().average_write),
            of_groups: OfGroups::new(machine, groups),
            dirty_exceeded: AtomicBool::new(false),
            tracked_limit: AtomicU64::new(0),
            met_held: AtomicBool::new(false),
            has_only_held: AtomicBool::new(false),
        }
    }

    /// Returns the estimated write rate of the device, in pages a second.
    pub(super) fn write_rate(&self) -> u64 {
        self.write_rate.load(Relaxed)
    }

    /// Updates the estimates of the device's write rate, if an update is due.
    pub(super) fn update_bandwidth(&self, sample: &Sample) {
        let mut bandwidth = self.bandwidth.lock();
        bandwidth.update(sample);
        self.write_rate.store(bandwidth.average_write, Relaxed);
    }

    /// Returns the number of dirty pages of the device's files, except pages whose write failed.
    pub(crate) fn writable_pages(&self) -> u64 {
        (self.dirty.load(Relaxed) - self.failed_files.pages()).max(0) as u64
    }

    /// Returns the number of pages that [`Backing::writable_pages`] counts, plus the number of pages under writeback.
    pub(crate) fn dirty_pages(&self) -> u64 {
        self.writable_pages() + self.writeback.load(Relaxed).max(0) as u64
    }
}
/// Largest number of devices that writeback can have.
const BACKINGS_MAX: usize = 64;

/// All devices, by number. Devices may be added, but are never removed.
pub struct Backings<M: Machine>(Box<[OnceLock<Backing<M>>]>);

impl<M: Machine> Backings<M> {
    /// Creates the writeback state of each device in `devices`, for a memory with at most `groups` memory control
    /// groups. The devices get the numbers from 0 on.
    ///
    /// # Panics
    /// Panics when there are more devices than [`BACKINGS_MAX`].
    pub(super) fn new(machine: &M, devices: &[DeviceLayout], groups: usize) -> Self {
        let backings = Self((0..BACKINGS_MAX).map(|_| OnceLock::new()).collect());
        for layout in devices {
            assert!(backings.add(machine, layout, groups).is_some(), "more than {BACKINGS_MAX} devices");
        }
        backings
    }

    fn add(&self, machine: &M, layout: &DeviceLayout, groups: usize) -> Option<DeviceId> {
        let free = (0..).zip(&self.0).filter(|(_, place)| place.get().is_none());
        let mut added = free.map(|(n, place)| (n, place.set(Backing::new(machine, DeviceId(n), layout, groups))));
        added.find_map(|(n, result)| result.is_ok().then_some(DeviceId(n)))
    }

    /// Returns all devices, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Backing<M>> {
        self.0.iter().map_while(OnceLock::get)
    }
}

impl<M: Machine> Writeback<M> {
    /// Adds a device, whose flusher ([`crate::KernelTask::Flusher`]) the simulator or the library has to start. Returns
    /// `None` if there are too many devices.
    pub fn add_device(&self, layout: &DeviceLayout) -> Option<DeviceId> {
        self.backings.add(&self.machine, layout, self.groups.as_ref().map_or(0, Groups::room))
    }

    /// Returns the state that writeback keeps about a device.
    ///
    /// # Panics
    /// Panics when there is no device of this number.
    pub fn backing(&self, device: DeviceId) -> &Backing<M> {
        self.backings.0[device.index()].get().expect("a file's device was added before the file")
    }

    /// Returns two numbers of blocks of a device: the number of all blocks that files may use, and the number of free
    /// blocks that are not reserved for dirty pages (`f_blocks` and `f_bavail` of `statvfs`).
    ///
    /// # Panics
    /// Panics when there is no device of this number.
    pub fn room(&self, device: DeviceId) -> [u64; 2] {
        let backing = self.backing(device);
        let free = backing.free_blocks.load(Relaxed).saturating_sub(backing.delayed.load(Relaxed));
        [backing.total_blocks, free]
    }

    /// Takes up to `blocks` contiguous blocks of a device. For `goal` and the result, see [`FreeBlocks::take`].
    pub(super) fn take_blocks(&self, device: DeviceId, goal: u64, blocks: u64) -> Option<(u64, u64)> {
        let backing = self.backing(device);
        let taken = backing.blocks.lock().take(goal, blocks)?;
        backing.free_blocks.fetch_sub(taken.1, Relaxed);
        Some(taken)
    }

    /// Frees `blocks` blocks of a device, from block `start` on.
    pub(super) fn give_blocks(&self, device: DeviceId, start: u64, blocks: u64) {
        let backing = self.backing(device);
        backing.blocks.lock().give(start, blocks);
        backing.free_blocks.fetch_add(blocks, Relaxed);
    }

    /// Reserves a block for a page that has no block and is about to become dirty. Returns `false` if the device has no
    /// free block for the page.
    pub(crate) fn reserve_block(&self, device: DeviceId) -> bool {
        let backing = self.backing(device);
        let reserve = |delayed| (delayed < backing.free_blocks.load(Relaxed)).then_some(delayed + 1);
        backing.delayed.fetch_update(Relaxed, Relaxed, reserve).is_ok()
    }

    /// Reserves a block for each page in a locked folio, except pages that have one already. Returns `false`, with
    /// nothing reserved, if the device has too few free blocks.
    pub(crate) fn reserve_blocks(&self, file: &File<M>, head: FrameNumber) -> bool {
        for (reserved, _) in self.pages_without_block(file, head).enumerate() {
            if !self.reserve_block(file.backing) {
                (0..reserved).for_each(|_| self.end_reservation(file.backing));
                return false;
            }
        }
        true
    }

    /// Reserves a block for each page in a folio, except pages that have one already. The folio becomes dirty once
    /// more. Does not check that the device has free blocks: only pages after the end of the file have no block, and
    /// these pages need a block only if the file grows.
    pub(crate) fn reserve_blocks_again(&self, file: &File<M>, head: FrameNumber) {
        let blocks = self.pages_without_block(file, head).count() as u64;
        self.backing(file.backing).delayed.fetch_add(blocks, Relaxed);
    }

    /// Ends the reservations of blocks for those pages of a locked folio that have no block and will not need one.
    pub(super) fn end_reservations(&self, file: &File<M>, head: FrameNumber) {
        self.pages_without_block(file, head).for_each(|_| self.end_reservation(file.backing));
    }

    fn pages_without_block<'a>(&self, file: &'a File<M>, head: FrameNumber) -> impl Iterator<Item = u32> + 'a {
        let first = self.frames[head].index();
        (first..first + self.frames.folio(head).pages()).filter(|page| file.block(*page).is_none())
    }

    /// Cuts a locked folio at the new end of its file, page `from`, which lies within the folio. The pages from `from`
    /// on lose their blocks and are filled with zeroes. If the folio is dirty, the device reserves a block for each
    /// page that lost its block.
    pub(crate) fn cut_folio(&self, file: &File<M>, head: FrameNumber, from: u32) {
        let (folio, first) = (self.frames.folio(head), self.frames[head].index());
        self.forget_log_numbers(file, from..first + folio.pages());
        for (page, frame) in (first..).zip(folio.frames()).filter(|(page, _)| *page >= from) {
            self.machine.zero_frame(frame);
            self.machine.spend_on(Step::ZeroPage, frame, 1);
            if let Some(block) = file.take_block(page) {
                let reserved = u64::from(self.frames[head].is(Flags::DIRTY));
                self.backing(file.backing).delayed.fetch_add(reserved, Relaxed);
                self.give_blocks(file.backing, block, 1);
            }
        }
    }

    /// Ends the reservation of a block for a dirty page that has got its block, or no longer needs one.
    pub(super) fn end_reservation(&self, device: DeviceId) {
        self.backing(device).delayed.fetch_sub(1, Relaxed);
    }

    /// Frees the blocks of the pages in a range of a file.
    pub(crate) fn give_file_blocks(&self, file: &File<M>, pages: std::ops::Range<u32>) {
        if file.is_placed() {
            return;
        }
        let mut run: Option<(u64, u64)> = None;
        for index in pages {
            let Some(block) = file.take_block(index) else { continue };
            match &mut run {
                Some((start, length)) if *start + *length == block => *length += 1,
                _ => {
                    if let Some((start, length)) = run.replace((block, 1)) {
                        self.give_blocks(file.backing, start, length);
                    }
                }
            }
        }
        if let Some((start, length)) = run {
            self.give_blocks(file.backing, start, length);
        }
    }
}

//! The dirty limits of memory control groups (`writeback.group_limits`; mechanisms/groups, 8).
//!
//! For the writers of a group, the ratios of the dirty limits refer to the memory that the group can have: its file
//! pages, and the pages by which it can still grow. It can grow up to its own limits, but by no more than the clean
//! pages outside of the group. Each group has its own estimates of how fast its pages are written to each device.
//! *Called by* the flusher, which writes the files of groups that have too many dirty pages, and by `access`, which
//! throttles the writers of these groups.

use super::bandwidth::{Bandwidth, Sample};
use super::choices::GroupLimits;
use super::dirty_limit::DirtyState;
use super::write::{Purpose, WriteControl};
use super::{Backing, Writeback};
use crate::memory::{GroupGauge, GroupId, Groups};
use crate::page_cache::{File, Tag};
use machine::atomic::{AtomicU64, Ordering::Relaxed};
use machine::{FrameNumber, Lock, LockClass, Machine, Step};
use std::collections::BTreeMap;

/// Numbers of a group's pages that were dirtied, and that were written, on one device since the start.
#[derive(Debug, Default)]
struct Counts {
    dirtied: AtomicU64,
    written: AtomicU64,
}

/// The state of one device's writeback by control group: how many pages of each group were dirtied and written, and the
/// estimated rates of its writes and writers.
pub(crate) struct OfGroups<M: Machine> {
    counts: Box<[Counts]>,
    /// The estimates for the groups whose writers were throttled, by number.
    bandwidths: M::Lock<BTreeMap<u16, Bandwidth>>,
}

impl<M: Machine> OfGroups<M> {
    pub(super) fn new(machine: &M, room: usize) -> Self {
        Self {
            counts: (0..room).map(|_| Counts::default()).collect(),
            bandwidths: machine.lock(LockClass::Other, BTreeMap::new()),
        }
    }

    /// Counts pages of a group that became dirty.
    pub(super) fn note_dirtied(&self, group: GroupId, pages: u64) {
        self.counts.get(usize::from(group.0)).inspect(|counts| _ = counts.dirtied.fetch_add(pages, Relaxed));
    }

    /// Counts pages of a group that were written.
    pub(super) fn note_written(&self, group: GroupId, pages: u64) {
        self.counts.get(usize::from(group.0)).inspect(|counts| _ = counts.written.fetch_add(pages, Relaxed));
    }
}

/// The rates at which a group's writers may dirty pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupRates {
    /// Rate at which one writer of the group may dirty pages, in pages a second.
    pub(crate) rate: u64,
    /// Rate at which dirty pages of the group are written to the device, in pages a second.
    pub(crate) write_rate: u64,
    /// Pages of the group that are dirty or under writeback.
    pub(crate) dirty: u64,
}

impl<M: Machine> Writeback<M> {
    fn limited_groups(&self) -> Option<&Groups<M>> {
        match self.choices.group_limits {
            GroupLimits::Off => None,
            GroupLimits::ByGroup => self.groups.as_ref().filter(|groups| groups.version().has_dirty_limits()),
        }
    }

    /// Returns the dirty limits for the writers of a group, and the number of the group's pages that count towards
    /// these limits; `None` for the root group, and for kernels without dirty limits of groups.
    pub(crate) fn dirty_state_of_group(&self, group: GroupId) -> Option<DirtyState> {
        let groups = self.limited_groups().filter(|_| !group.is_root())?;
        let of = |gauge| groups.gauge_below(group, gauge);
        let file = of(GroupGauge::File).saturating_sub(of(GroupGauge::FileWriteFailed));
        let dirty = groups.writable_below(group) + of(GroupGauge::FileWriteback);
        let dirtyable = self.dirtyable_without_failed();
        let clean = dirtyable.saturating_sub(self.dirty_pages());
        let clean_elsewhere = clean.saturating_sub(file.saturating_sub(dirty));
        let available = file + groups.headroom(group).min(clean_elsewhere);
        Some(DirtyState { limits: self.limits_of(available.clamp(1, dirtyable), dirtyable), dirty })
    }

    /// Returns whether more pages of a group are dirty than its background limit allows.
    pub(crate) fn is_group_over_background(&self, group: GroupId) -> bool {
        let state = self.dirty_state_of_group(group).zip(self.limited_groups());
        state.is_some_and(|(state, groups)| groups.writable_below(group) > state.limits.background)
    }

    /// Returns the groups with more dirty pages than their background limits allow.
    pub(super) fn groups_over_background(&self) -> Vec<GroupId> {
        let Some(groups) = self.limited_groups() else { return Vec::new() };
        let tree = groups.subtree(GroupId::ROOT);
        let has_dirty = |id: &GroupId| groups.gauge(*id, GroupGauge::FileDirty) > 0;
        tree.iter().copied().filter(|id| has_dirty(id) && self.is_group_over_background(*id)).collect()
    }

    /// Updates the estimates of the speed at which pages of `group` become dirty and are written on the device
    /// `backing`. Returns the rates that follow from the estimates.
    pub(crate) fn rates_of_group(&self, backing: &Backing<M>, group: GroupId, state: DirtyState) -> GroupRates {
        let counts = &backing.of_groups.counts[usize::from(group.0)];
        let sample = Sample {
            now: self.machine.now(),
            dirtied: counts.dirtied.load(Relaxed),
            written: counts.written.load(Relaxed),
            dirty: state.dirty,
            device_dirty: state.dirty,
            device_limit: state.limits.dirty,
            limits: state.limits,
        };
        let mut bandwidths = backing.of_groups.bandwidths.lock();
        let bandwidth = bandwidths.entry(group.0).or_default();
        bandwidth.update(&sample);
        let position = bandwidth.position(&sample).max(0) as u64;
        GroupRates { rate: bandwidth.rate_at(position), write_rate: bandwidth.average_write, dirty: state.dirty }
    }

    /// Forgets the write bandwidths that were estimated, on all devices, for the group number of `group`. Called when
    /// the number is given to a new group, because the estimates are those of a removed group.
    pub(crate) fn forget_rates(&self, group: GroupId) {
        for backing in self.backings.iter() {
            backing.of_groups.bandwidths.lock().remove(&group.0);
        }
    }

    /// Records in a file the group for which the flusher will write the file: the group of the page that made the file
    /// dirty.
    pub(super) fn note_writer(&self, file: &File<M>, frame: FrameNumber) {
        if self.limited_groups().is_some() {
            file.writeback_group.store(self.frames.group(frame).0, Relaxed);
        }
    }

    /// For each group in `over`, writes files with dirty pages of the group, until these pages are within the group's
    /// background limit. Goes on to the next group if nothing can be written. Returns the number of pages written.
    pub(super) fn write_for_groups(&self, backing: &Backing<M>, over: &[GroupId]) -> u64 {
        let mut wrote_total = 0;
        for group in over {
            while self.is_group_over_background(*group) && !self.machine.is_killed() {
                let mut files = self.listed_files(backing, |file| file.writeback_group.load(Relaxed) == group.0);
                if files.is_empty() {
                    // Pages that other groups' files have, too, are written with those files.
                    files = self.listed_files(backing, |file| self.has_dirty_page_of(file, *group));
                }
                let wrote = self.write_files_of(backing, &files, *group);
                wrote_total += wrote;
                if wrote == 0 {
                    break;
                }
            }
        }
        wrote_total
    }

    /// Returns the numbers of those files on a device's lists of dirty files for which `is_wanted` returns `true`.
    fn listed_files(&self, backing: &Backing<M>, is_wanted: impl Fn(&File<M>) -> bool) -> Vec<u32> {
        let ids = backing.work.lock().listed();
        ids.into_iter().filter(|id| self.page_cache().file(*id).is_some_and(|file| is_wanted(&file))).collect()
    }

    fn has_dirty_page_of(&self, file: &File<M>, group: GroupId) -> bool {
        let next = |from| file.index.next_tagged(from, Tag::Dirty);
        let mut pages = std::iter::successors(next(0), |page| next(page + 1));
        pages.any(|page| file.index.get(page).is_some_and(|frame| self.frames.group(frame) == group))
    }

    /// Writes up to one chunk of each of the files `files`, one file after the other. Stops when pages were written and
    /// the group is no longer above its background limit, or when the machine was killed. Returns the number of pages
    /// written.
    fn write_files_of(&self, backing: &Backing<M>, files: &[u32], group: GroupId) -> u64 {
        let mut wrote_total = 0;
        for id in files {
            let Some(listed) = backing.work.lock().take(*id) else { continue };
            self.machine.spend(Step::WorkItem, 1);
            let Some(file) = self.page_cache().file(*id) else { continue };
            let chunk = self.chunk_pages(backing, u64::MAX);
            let control = WriteControl { purpose: Purpose::Flush, pages_max: chunk, pages: 0..u32::MAX };
            let wrote = self.write_file(&file, control);
            wrote_total += wrote;
            self.requeue(backing, &file, listed, wrote >= chunk);
            if self.machine.is_killed() || wrote > 0 && !self.is_group_over_background(group) {
                break;
            }
        }
        wrote_total
    }
}

impl<M: Machine> Groups<M> {
    /// Returns the value of a gauge for a group and its descendants together, in pages.
    #[must_use]
    pub fn gauge_below(&self, id: GroupId, gauge: GroupGauge) -> u64 {
        self.subtree(id).iter().map(|below| self.gauge(*below, gauge)).sum()
    }

    /// Returns the number of dirty pages of a group and its descendants that the flusher can write: all except those
    /// whose last write failed.
    fn writable_below(&self, id: GroupId) -> u64 {
        let of = |gauge| self.gauge_below(id, gauge);
        of(GroupGauge::FileDirty).saturating_sub(of(GroupGauge::FileWriteFailed))
    }
}

//! The flusher of a device, which writes dirty files back in the background.
//!
//! In a round, the flusher first does the work that other tasks requested. Next, it writes files that have been dirty
//! for too long. Then, while too many pages are dirty, it writes all dirty files in turn, a chunk of each. Pages that
//! stay dirty because their write failed are kept apart and retried at intervals. *Description*:
//! mechanisms/reclaim, 21.5, for Linux 3.3 and later.

use super::bandwidth::Sample;
use super::choices::{FlusherPlug, WritebackChunk};
use super::dirty_limit::DirtyState;
use super::write::{Purpose, WriteControl};
use super::{Backing, Writeback};
use crate::page_cache::{File, Tag};
use machine::atomic::Ordering::{Relaxed, SeqCst};
use machine::{DeviceId, FrameNumber, Func, Lock, Machine, Nanos, Step};
use std::collections::VecDeque;

/// The unit of the size of a chunk, in pages (4 MiB). A chunk is the amount of a file that the flusher writes before it
/// goes on to the next file: a multiple of this unit, or less if fewer pages are to be written.
pub(super) const CHUNK_PAGES: u64 = 1024;

/// A file on a list of dirty files.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirtyFile {
    id: u32,
    /// Time from which the file counts as dirty: when it became dirty, or when the flusher last could not write all its
    /// dirty pages.
    since: Nanos,
}

/// The work that a device's flusher has to do.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Dirty files, sorted by [`DirtyFile::since`], the time from which the file counts as dirty.
    dirty: VecDeque<DirtyFile>,
    /// Files that the present round is still to write.
    io: VecDeque<DirtyFile>,
    /// Files of which a chunk was written in the present round of the flusher, and that still have dirty pages.
    more_io: VecDeque<DirtyFile>,
    /// For each request of another task, the number of pages to write; 0 means all pages.
    requests: VecDeque<u64>,
}

impl Work {
    /// Returns the numbers of the files on the flusher's lists, in the order in which the flusher meets them.
    pub(super) fn listed(&self) -> Vec<u32> {
        [&self.io, &self.more_io, &self.dirty].into_iter().flatten().map(|file| file.id).collect()
    }

    /// Takes the file with the number `id` off the list that it is on, and returns it; `None` if it is on no list.
    pub(super) fn take(&mut self, id: u32) -> Option<DirtyFile> {
        let mut lists = [&mut self.io, &mut self.more_io, &mut self.dirty].into_iter();
        lists.find_map(|list| {
            let at = list.iter().position(|file| file.id == id)?;
            list.remove(at)
        })
    }
}

/// The reason why the flusher writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// Another task requested that this many pages be written.
    Request(u64),
    /// There are files that have been dirty for longer than `writeback.dirty_expire_ms`.
    Periodic,
    /// More pages are dirty than the background limit allows.
    Background,
}

impl<M: Machine> Writeback<M> {
    /// Puts a file on its device's list of dirty files, unless it is on a list already. `frame` has the page that became
    /// dirty.
    pub(super) fn list_dirty_file(&self, file: &File<M>, frame: FrameNumber) {
        if file.is_listed.load(SeqCst) {
            return;
        }
        let mut work = self.backing(file.backing).work.lock();
        if !file.is_listed.swap(true, SeqCst) {
            self.note_writer(file, frame);
            work.dirty.push_back(DirtyFile { id: file.id, since: self.machine.now() });
        }
    }

    /// Wakes a device's flusher, so that it checks the background limit.
    pub(crate) fn wake_flusher(&self, device: DeviceId) {
        self.machine.wake(&self.backing(device).flusher);
    }

    /// Asks the flusher of every device with dirty pages to write `pages` pages; 0 means all pages.
    pub(crate) fn wake_flushers(&self, pages: u64) {
        for backing in self.backings.iter() {
            if backing.dirty.load(Relaxed) == 0 {
                continue;
            }
            // Where memory is full of pages that cannot be written, reclaim requests again and again. The flusher then
            // only retries such pages, and the request is not kept.
            if backing.writable_pages() > 0 {
                backing.work.lock().requests.push_back(pages);
            }
            self.machine.wake(&backing.flusher);
        }
    }

    /// Runs one round of a device's flusher. Returns whether the flusher must run the next round without a sleep,
    /// because there is more work. `periodic_at` is the time of the next search for files that have been dirty for too
    /// long.
    pub(crate) fn flusher_round(&self, device: DeviceId, periodic_at: &mut Nanos) -> bool {
        let _span = self.machine.span(Func::Flusher);
        let backing = self.backing(device);
        self.retry_failed_files(backing);
        let mut wrote = 0;
        loop {
            let request = backing.work.lock().requests.pop_front();
            let Some(pages) = request else { break };
            let pages = if pages == 0 { u64::MAX } else { pages };
            wrote += self.write_files(backing, Reason::Request(pages));
        }
        // An interval of 0 turns the search for old files off, as the sysctl does.
        if self.choices.dirty_writeback_ms > 0 && self.machine.now() >= *periodic_at {
            *periodic_at = self.machine.now() + Nanos::from_millis(self.choices.dirty_writeback_ms);
            wrote += self.write_files(backing, Reason::Periodic);
        }
        let (is_over, groups) = (self.is_over_background(backing), self.groups_over_background());
        if is_over || !groups.is_empty() {
            backing.met_held.store(false, Relaxed);
            let of_all = if is_over { self.write_files(backing, Reason::Background) } else { 0 };
            let wrote_now = of_all + self.write_for_groups(backing, &groups);
            backing.has_only_held.store(wrote_now == 0 && backing.met_held.load(Relaxed), Relaxed);
            wrote += wrote_now;
        }
        let has_requests = !backing.work.lock().requests.is_empty();
        has_requests || wrote > 0 && (self.is_over_background(backing) || !self.groups_over_background().is_empty())
    }

    /// Writes dirty files of a device for one reason. Returns the number of pages written.
    fn write_files(&self, backing: &Backing<M>, reason: Reason) -> u64 {
        match self.choices.flusher_plug {
            FlusherPlug::Off => self.write_rounds(backing, reason),
            FlusherPlug::On => self.machine.plugged(|| self.write_rounds(backing, reason)),
        }
    }

    fn write_rounds(&self, backing: &Backing<M>, reason: Reason) -> u64 {
        let mut left = if let Reason::Request(pages) = reason { pages } else { u64::MAX };
        let mut wrote_total = 0;
        while left > 0 && !self.machine.is_killed() {
            let gives_way = !matches!(reason, Reason::Request(_)) && !backing.work.lock().requests.is_empty();
            if gives_way || reason == Reason::Background && !self.is_over_background(backing) {
                break;
            }
            self.start_round(backing, reason);
            let wrote = self.write_round(backing, &mut left);
            self.update_bandwidth(backing);
            wrote_total += wrote;
            if wrote == 0 {
                break;
            }
        }
        wrote_total
    }

    /// If the flusher's current list of files is empty, fills it: first with the files that had more dirty pages than a
    /// chunk in earlier rounds, then with dirty files. For [`Reason::Periodic`], only files that have been dirty for
    /// `writeback.dirty_expire_ms` are taken from the dirty files.
    fn start_round(&self, backing: &Backing<M>, reason: Reason) {
        let mut work = backing.work.lock();
        if !work.io.is_empty() {
            return;
        }
        let newest = match reason {
            Reason::Periodic => self.machine.now().since(Nanos::from_millis(self.choices.dirty_expire_ms)),
            Reason::Request(_) | Reason::Background => self.machine.now(),
        };
        let mut io = std::mem::take(&mut work.more_io);
        while let Some(file) = work.dirty.front().copied().filter(|file| file.since <= newest) {
            work.dirty.pop_front();
            io.push_back(file);
        }
        work.io = io;
    }

    /// Writes a chunk of each file in the device's list of files to write (`io`). Ends early when `left` pages are
    /// written, when the number of dirty pages is no longer above the background limit after a chunk, or when the task
    /// was killed. Subtracts the pages written from `left`, and returns their number.
    fn write_round(&self, backing: &Backing<M>, left: &mut u64) -> u64 {
        let mut wrote_total = 0;
        while *left > 0 && !self.machine.is_killed() {
            let next = backing.work.lock().io.pop_front();
            let Some(listed) = next else { break };
            self.machine.spend(Step::WorkItem, 1);
            // A file that was removed meanwhile has nothing to write.
            let Some(file) = self.page_cache().file(listed.id) else { continue };
            let chunk = self.chunk_pages(backing, *left);
            let control = WriteControl { purpose: Purpose::Flush, pages_max: chunk, pages: 0..u32::MAX };
            let wrote = self.write_file(&file, control);
            *left -= wrote.min(*left);
            wrote_total += wrote;
            self.requeue(backing, &file, listed, wrote >= chunk);
            if !self.is_over_background(backing) && wrote > 0 {
                break;
            }
        }
        wrote_total
    }

    /// Writes about `pages` dirty pages of a device for a task that dirties too many pages. Returns the number of pages
    /// written.
    pub(crate) fn write_back(&self, backing: &Backing<M>, pages: u64) -> u64 {
        let mut left = pages;
        self.start_round(backing, Reason::Request(pages));
        self.write_round(backing, &mut left)
    }

    pub(super) fn chunk_pages(&self, backing: &Backing<M>, left: u64) -> u64 {
        match self.choices.chunk {
            WritebackChunk::Fixed => return left.min(CHUNK_PAGES),
            WritebackChunk::ByBandwidth => {}
        }
        let (rate, limit) = {
            let bandwidth = backing.bandwidth.lock();
            (bandwidth.average_write, bandwidth.tracked_limit)
        };
        let pages = (rate / 2).min(limit / 8).min(left);
        (pages + CHUNK_PAGES) / CHUNK_PAGES * CHUNK_PAGES
    }

    pub(super) fn requeue(&self, backing: &Backing<M>, file: &File<M>, listed: DirtyFile, used_its_chunk: bool) {
        let mut work = backing.work.lock();
        let is_dirty = || file.index.next_tagged(0, Tag::Dirty).is_some();
        if is_dirty() {
            if used_its_chunk {
                work.more_io.push_back(listed);
            } else {
                // The other pages could not be written now, so the file counts as dirty since now.
                work.dirty.push_back(DirtyFile { since: self.machine.now(), ..listed });
            }
            return;
        }
        file.is_listed.store(false, SeqCst);
        // A task that dirtied the file between the check and the store has not listed it, so the file is listed here.
        if is_dirty() && !file.is_listed.swap(true, SeqCst) {
            work.dirty.push_back(DirtyFile { since: self.machine.now(), ..listed });
        }
    }

    /// Updates the estimates of a device's speed and of its writers' rates, if an update is due.
    pub(crate) fn update_bandwidth(&self, backing: &Backing<M>) {
        let sample = self.bandwidth_sample(backing);
        backing.update_bandwidth(&sample);
    }

    /// Returns the values from which the estimates of a device's speed and of its writers' rates are updated.
    pub(crate) fn bandwidth_sample(&self, backing: &Backing<M>) -> Sample {
        let DirtyState { limits, dirty } = self.dirty_state_of(backing);
        Sample {
            now: self.machine.now(),
            dirtied: backing.dirtied.load(Relaxed),
            written: backing.written.load(Relaxed),
            dirty,
            device_dirty: backing.dirty_pages(),
            device_limit: self.device_limit(backing, limits.dirty),
            limits,
        }
    }
}

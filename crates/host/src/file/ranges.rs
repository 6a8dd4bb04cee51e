//! Ranges of a file: allocating, punching holes, and syncing a part.

use super::File;
use super::read::pages_of;
use crate::error::{Error, PAGES_MAX};
use crate::machine::Durable;
use machine::PAGE_BYTES;
use std::io;
use std::ops::Range;

const PAGE: u64 = PAGE_BYTES as u64;

/// A page of zeroes.
static ZEROES: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

impl File {
    /// Allocates disk space for the bytes of `range` (`fallocate`), so that later writes there find room on the disk.
    /// The contents do not change. The file becomes longer if it ends before the range does.
    ///
    /// # Errors
    /// When the disk has no room, the file system cannot allocate, the handle is read-only, the file is a block device, or
    /// the range ends after 16 TiB less 4 MiB. The file's length is then as before.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(folder.path().join("data"))?;
    /// file.allocate(0..1 << 20)?;
    /// assert_eq!(file.len(), 1 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn allocate(&self, range: Range<u64>) -> Result<(), Error> {
        self.begin_change()?;
        if range.end > PAGES_MAX * PAGE {
            return Err(Error::TooLong { bytes: range.end });
        }
        let refused = |source| self.failed("allocate a part of the file", source);
        let open = self.opened();
        if !open.is_regular {
            return Err(refused(io::Error::new(io::ErrorKind::Unsupported, "a block device has all of its blocks")));
        }
        if range.is_empty() {
            return Ok(());
        }
        let _alone = open.length.write();
        open.finish_cut().map_err(refused)?;
        if let Err(error) = open.device.allocate(range.clone()) {
            // A file system may have made the file longer before it found no more room.
            let _ = open.cut_in_system();
            return Err(refused(error));
        }
        self.cached().extend(range.end);
        Ok(())
    }

    /// Makes the bytes of `range` zeroes, and has the file system free their blocks (a *hole*). Bytes after the end of the
    /// file are not concerned. A write of the same bytes during the call takes effect either before it or after it. If
    /// another thread holds a guard for writing of a page in the range meanwhile, what it stores there may be lost.
    ///
    /// As [`File::set_len`], this call must not be made by a thread that holds a guard of the file.
    ///
    /// # Errors
    /// When the file system cannot punch holes or the handle is read-only; then nothing has changed. When the disk fails,
    /// or a page of which a part becomes zeroes cannot be read; then a part of the range may be zeroes.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(folder.path().join("data"))?;
    /// file.write_all_at(&[1; 40_000], 0)?;
    /// file.punch_hole(100..30_000)?;
    /// assert_eq!((file.page(0)?[99], file.page(0)?[100], file.page(5)?[0]), (1, 0, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn punch_hole(&self, range: Range<u64>) -> Result<(), Error> {
        self.begin_change()?;
        let (open, cached) = (self.opened(), self.cached());
        let _alone = open.length.write();
        let range = range.start..range.end.min(cached.length());
        if range.is_empty() {
            return Ok(());
        }
        let whole = range.start.div_ceil(PAGE)..range.end / PAGE;
        if whole.is_empty() {
            return self.write_zeroes(range);
        }
        // Before anything is dropped from memory: not every file system has holes.
        if open.is_regular {
            let checked = open.device.check_punch(cached.length());
            checked.map_err(|source| self.failed("punch a hole into the file", source))?;
        }
        self.write_zeroes(range.start..whole.start * PAGE)?;
        self.write_zeroes(whole.end * PAGE..range.end)?;
        let pages = whole.start as u32..whole.end as u32;
        let access = self.shared.engine.access();
        access.begin_punch(cached, pages.clone());
        let punched = open.device.punch(whole.start * PAGE..whole.end * PAGE);
        let kept = access.end_punch(cached, pages);
        if let Err(source) = punched {
            // The dirty pages of the range are dropped. So that no older bytes come back, the range becomes zeroes anyway.
            self.write_zeroes(whole.start * PAGE..whole.end * PAGE)?;
            return Err(self.failed("punch a hole into the file", source));
        }
        kept.into_iter().try_for_each(|page| self.write_zeroes(u64::from(page) * PAGE..(u64::from(page) + 1) * PAGE))
    }

    /// Writes zeroes over a range within the file.
    fn write_zeroes(&self, range: Range<u64>) -> Result<(), Error> {
        let mut at = range.start;
        while at < range.end {
            let bytes = &ZEROES[..(PAGE - at % PAGE).min(range.end - at) as usize];
            self.with_task(|engine, task| engine.access().write_within(task, self.cached(), at, bytes))
                .map_err(|error| self.error(error))?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Makes the data durable that were written to the bytes of `range` before the call, through any handle, and the
    /// file's length as far as the end of the range. What was written elsewhere in the file may stay in memory. Calls do not share work, as those of
    /// [`File::sync_data`] do.
    ///
    /// # Errors
    /// As [`File::sync_data`]; the error may concern a page outside of the range.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(folder.path().join("data"))?;
    /// file.write_all_at(&[1; 1 << 20], 0)?;
    /// file.sync_range(0..4096)?;
    /// assert!(memory.vmstat().get("nr_dirty") > 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sync_range(&self, range: Range<u64>) -> Result<(), Error> {
        self.shared.check_is_up()?;
        let (open, cached) = (self.opened(), self.cached());
        let start = cached.begin_sync();
        let end = range.end.min(cached.length());
        if range.start < end {
            let pages = pages_of(range.start, (end - range.start) as usize);
            let _plug = self.shared.engine.machine().plug_to_sync(open.device.id());
            self.shared.engine.access().write_dirty_range(cached, pages);
        }
        let synced = open.sync_in_system(Durable::Data);
        self.report_sync("sync a part of the file", start, Some(synced))
    }
}

//! Reads that copy bytes of a file to the caller's buffer.

use super::File;
use crate::error::{Error, PAGES_MAX};
use crate::machine::copy;
use crate::page::PageRead;
use machine::PAGE_BYTES;
use std::io;
use std::ops::Range;

/// One read of a batch: the slice to fill, and the byte of the file at which the read starts.
type Wanted<'a> = (&'a mut [u8], u64);

/// Largest number of pages that a batch of reads has in flight. A batch of a single read may have more, because a read
/// is not divided.
const BATCH_PAGES: u32 = 64;

/// Returns the range of pages that contain `bytes` bytes of a file, the first of which is at `offset`.
pub(super) fn pages_of(offset: u64, bytes: usize) -> Range<u32> {
    let end = offset.saturating_add(bytes as u64).min(PAGES_MAX * PAGE_BYTES as u64);
    (offset / PAGE_BYTES as u64).min(PAGES_MAX) as u32..end.div_ceil(PAGE_BYTES as u64) as u32
}

/// Returns a predicate for [`slice::chunk_by_mut`], which tells whether the second of two neighbouring reads goes into
/// the batch of the first. A batch ends before it would exceed `most` pages; only a batch of a single read may have
/// more pages.
fn pages_up_to(most: u32) -> impl FnMut(&Wanted<'_>, &Wanted<'_>) -> bool {
    let count = |(bytes, offset): &Wanted<'_>| pages_of(*offset, bytes.len()).len() as u32;
    let mut pages = None;
    move |first, second| {
        let before = pages.unwrap_or_else(|| count(first));
        let after = before.saturating_add(count(second));
        pages = Some(if after <= most { after } else { count(second) });
        after <= most
    }
}

impl File {
    /// Reads from byte `offset` on, and returns the number of bytes read, which is less than `bytes.len()` only at the
    /// end of the file.
    ///
    /// # Errors
    /// When a page cannot be read from the disk, or no memory can be freed for it. The bytes before this page are then
    /// in `bytes`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("words");
    /// std::fs::write(&path, "three words here")?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let mut found = [0; 100];
    /// let n = memory.open(&path)?.read_at(&mut found, 6)?;
    /// assert_eq!(&found[..n], b"words here");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, Error> {
        let mut end = self.len().min(offset.saturating_add(bytes.len() as u64));
        let mut at = offset;
        while at < end {
            let page = at / PAGE_BYTES as u64;
            let last_page = (end - 1) / PAGE_BYTES as u64;
            let in_page = (at % PAGE_BYTES as u64) as usize;
            let wanted = (PAGE_BYTES - in_page).min((end - at) as usize);
            self.engine.access().prefetch_page(&self.cached, page as usize, in_page, wanted);
            let guard = match self.pin_open(page) {
                Some(guard) => guard,
                None => match self.pin(page as u32, (last_page - page + 1) as u32) {
                    Ok(frame) => PageRead::of_file(&self.engine, frame),
                    Err(error) => return Err(*error),
                },
            };
            // The file may have been truncated since its length was read. The length is read again now that the page is
            // pinned, so that truncated bytes are not returned as zeroes.
            end = end.min(self.len());
            if end <= at {
                break;
            }
            let n = (PAGE_BYTES - in_page).min((end - at) as usize);
            let from = (at - offset) as usize;
            copy(&guard[in_page..in_page + n], &mut bytes[from..from + n]);
            at += n as u64;
        }
        Ok((at - offset) as usize)
    }

    /// Fills many slices, each with the bytes of the file from the slice's own offset on. Pages that are not in memory
    /// are read in parallel. Returns for each slice the number of bytes read, which is less than the slice's length
    /// only at the end of the file.
    ///
    /// # Errors
    /// The error of the first slice whose read failed, as for [`File::read_at`]. The slices before it are filled.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("letters");
    /// std::fs::write(&path, [[b'a'; 4096], [b'b'; 4096], [b'c'; 4096]].concat())?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let (mut first, mut last) = ([0; 2], [0; 5]);
    /// let read = memory.open(&path)?.read_many_at(&mut [(&mut first, 4095), (&mut last, 12286)])?;
    /// assert_eq!((read, &first, &last[..2]), (vec![2, 2], b"ab", &b"cc"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_many_at(&self, reads: &mut [(&mut [u8], u64)]) -> Result<Vec<usize>, Error> {
        let mut counts = Vec::with_capacity(reads.len());
        for batch in reads.chunk_by_mut(pages_up_to(BATCH_PAGES)) {
            self.start_reads(batch)?;
            for (bytes, offset) in batch {
                counts.push(self.read_at(bytes, *offset)?);
            }
        }
        Ok(counts)
    }

    /// Starts reading those pages of a batch that are not in memory, all in parallel.
    fn start_reads(&self, batch: &[(&mut [u8], u64)]) -> Result<(), Error> {
        self.shared.check_is_up()?;
        let _plug = self.shared.engine.machine().plug();
        self.with_task(|engine, task| {
            for (bytes, offset) in batch {
                let pages = pages_of(*offset, bytes.len());
                engine.access().start_read(task, self.cached(), pages);
            }
        });
        Ok(())
    }

    /// Reads exactly `bytes.len()` bytes from byte `offset` on.
    ///
    /// # Errors
    /// When the file ends before the last byte; also in all cases in which [`File::read_at`] fails.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, "short")?;
    /// let file = memory.open(&path)?;
    /// let mut bytes = [0; 3];
    /// file.read_exact_at(&mut bytes, 2)?;
    /// assert_eq!(&bytes, b"ort");
    /// assert!(file.read_exact_at(&mut bytes, 3).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        let n = self.read_at(bytes, offset)?;
        if n == bytes.len() {
            return Ok(());
        }
        let end = format!("it ends {n} bytes after byte {offset}, and {} were asked for", bytes.len());
        let source = io::Error::new(io::ErrorKind::UnexpectedEof, end);
        Err(Error::File { path: self.opened().path.to_path_buf(), doing: "read so far in the file", source })
    }
}

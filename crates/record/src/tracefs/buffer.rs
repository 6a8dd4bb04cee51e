//! Reads the trace buffer of one CPU in the kernel's binary format (`trace_pipe_raw`): pages of events, each with the
//! time since the event before it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Size of a page's header, bytes. The header has the time of the page and the number of used bytes.
const HEAD: usize = 16;
const COMMIT_MASK: u64 = (1 << 20) - 1;

/// The trace buffer that the kernel keeps for one CPU.
#[derive(Debug)]
pub struct Buffer {
    file: File,
    page: Vec<u8>,
}

impl Buffer {
    /// Opens the trace buffer of a CPU. `folder` is the CPU's folder `per_cpu/cpuN`, and `page_bytes` is the size of a
    /// page of the buffer.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(folder: &Path, page_bytes: usize) -> io::Result<Self> {
        const NONBLOCKING: i32 = 0o4000;
        let file = OpenOptions::new().read(true).custom_flags(NONBLOCKING).open(folder.join("trace_pipe_raw"))?;
        Ok(Self { file, page: vec![0; page_bytes] })
    }

    /// Reads a page of the buffer, and calls `each` with the time (ns) and the bytes of each event. Returns `false` if
    /// the buffer had no page.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&mut self, each: impl FnMut(u64, &[u8])) -> io::Result<bool> {
        let bytes = loop {
            match self.file.read(&mut self.page) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        events(&self.page[..bytes], each);
        Ok(bytes > 0)
    }
}

/// Calls `each` for each event in a page of a trace buffer, with the event's time and bytes.
fn events(page: &[u8], mut each: impl FnMut(u64, &[u8])) {
    const PADDING: u32 = 29;
    const TIME_EXTEND: u32 = 30;
    const TIME_STAMP: u32 = 31;
    let word = |at: usize| page.get(at..at + 4).and_then(|it| it.first_chunk()).map(|it| u32::from_le_bytes(*it));
    let long = |at: usize| word(at).zip(word(at + 4)).map(|(low, high)| u64::from(low) | u64::from(high) << 32);
    let (Some(mut time), Some(commit)) = (long(0), long(8)) else { return };
    let end = (HEAD + (commit & COMMIT_MASK) as usize).min(page.len());
    let mut at = HEAD;
    while at + 4 <= end {
        let Some(head) = word(at) else { return };
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        let next = word(at + 4).unwrap_or(0);
        match kind {
            PADDING if delta == 0 => return,
            PADDING => at += 4 + next as usize,
            TIME_EXTEND => {
                time += delta + (u64::from(next) << 27);
                at += 8;
            }
            TIME_STAMP => {
                // The stamp has 59 bits; those above are as they were.
                const BITS: u64 = (1 << 59) - 1;
                time = time & !BITS | delta | u64::from(next) << 27;
                at += 8;
            }
            _ => {
                time += delta;
                // Short events have their length in words in the kind; long ones in a word of its own, which counts.
                let (from, len) =
                    if kind == 0 { (at + 8, (next as usize).saturating_sub(4)) } else { (at + 4, 4 * kind as usize) };
                let Some(event) = page.get(from..from + len).filter(|_| from + len <= end) else { return };
                each(time, event);
                at = from + len.next_multiple_of(4);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(words: &[u32]) -> Vec<u8> {
        let mut page = 1000_u64.to_le_bytes().to_vec();
        page.extend(((4 * words.len() as u64) | (1 << 31)).to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page.resize(4096, 0);
        page
    }

    fn found(page: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        events(page, |time, bytes| found.push((time, bytes.to_vec())));
        found
    }

    #[test]
    fn events_of_all_forms_are_read() {
        let words = [2 | 5 << 5, 1, 2, 30, 1, 7 << 5, 8, 3, 29 | 1 << 5, 8, 0, 1 | 1 << 5, 9, 31 | 3 << 5, 0, 1, 6];
        let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        let page = page(&words);
        let extended = 1005 + (1 << 27);
        let expected =
            [(1005, bytes(&[1, 2])), (extended + 7, bytes(&[3])), (extended + 8, bytes(&[9])), (3, bytes(&[6]))];
        assert_eq!(found(&page), expected);
        for cut in 0..page.len() {
            found(&page[..cut]);
        }
    }

    #[test]
    fn nonsense_ends() {
        let mut random = 1_u32;
        for _ in 0..2000 {
            let words: Vec<u32> = (0..64)
                .map(|_| {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    random >> 7
                })
                .collect();
            assert!(found(&page(&words)).len() <= 64);
        }
    }
}

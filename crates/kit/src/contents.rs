//! Contents of files and regions that can be verified: each byte is computed from the name of its file or region, a
//! version, and its offset.
//!
//! Real memory keeps every byte. Simulated memory keeps the first eight bytes of each page (the stamp), or no bytes
//! ([`Kept`]). A [`Pattern`] makes and verifies only the kept bytes, so one workload runs on both:
//!
//! ```
//! use kit::contents::{Kept, Pattern};
//!
//! let pattern = Pattern::new("table.dat", 1);
//! let mut page = vec![0; 4096];
//! pattern.fill(Kept::Bytes, 8192, &mut page);
//! assert!(pattern.verify(Kept::Bytes, 8192, &page).is_ok());
//! assert!(pattern.verify(Kept::Bytes, 4096, &page).is_err(), "these belong elsewhere");
//! ```

use fnv::FnvHasher;
use machine::PAGE_BYTES;
use std::hash::Hasher;
use std::{fmt, ops::Range};

/// Number of bytes of a word of a pattern. The first word of each page is the page's stamp.
const WORD: u64 = 8;

const PAGE: u64 = PAGE_BYTES as u64;

/// The part of each page's contents that a run keeps, and that a workload can therefore verify. Bytes that are not kept
/// may read as any value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Keeps no contents. The run then spends no time on contents, and verifies nothing.
    Nothing,
    /// Keeps the first eight bytes of each page.
    Stamps,
    /// Keeps every byte.
    Bytes,
    /// Keeps this number of bytes at the beginning of each page. The rest of the page stays zeroes, so that compressed
    /// memory needs about this number of bytes for the page. A page full of patterns could not be compressed.
    First(u16),
}

/// An error: the bytes that were read differ from those that were written. Holds a message for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongContents(pub String);

impl fmt::Display for WrongContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongContents {}

/// Generates the bytes that one version of a file or region should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    name: String,
    key: u64,
}

impl Pattern {
    /// Makes the generator of the expected bytes of version `version` of the file or region `name`.
    #[must_use]
    pub fn new(name: &str, version: u64) -> Self {
        // FNV-1a, then the final mixing of splitmix64, so that the patterns of consecutive versions are unrelated.
        let mut hasher = FnvHasher::default();
        hasher.write(name.as_bytes());
        hasher.write(&version.to_le_bytes());
        let hash = hasher.finish();
        let key = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self { name: name.to_owned(), key: key ^ (key >> 31) }
    }

    /// Writes the pattern into `bytes`, whose first byte is byte `offset` of the file or region. Bytes whose contents a
    /// run with `kept` does not keep are left unchanged.
    pub fn fill(&self, kept: Kept, offset: u64, bytes: &mut [u8]) {
        for part in parts(kept, offset, bytes.len()) {
            let mut at = offset + part.start as u64;
            let (head, words, tail) = pieces(at, part);
            for held in &mut bytes[head] {
                *held = self.byte(at);
                at += 1;
            }
            for held in bytes[words].chunks_exact_mut(WORD as usize) {
                held.copy_from_slice(&self.word(at / WORD));
                at += WORD;
            }
            for held in &mut bytes[tail] {
                *held = self.byte(at);
                at += 1;
            }
        }
    }

    /// Checks `bytes`, which were read from the file or region at byte `offset`. Those bytes that the run keeps
    /// (`kept`) must have the values of the pattern.
    ///
    /// # Errors
    /// When a byte is wrong; the error names the first one.
    pub fn verify(&self, kept: Kept, offset: u64, bytes: &[u8]) -> Result<(), WrongContents> {
        for part in parts(kept, offset, bytes.len()) {
            let start = offset + part.start as u64;
            let (head, words, tail) = pieces(start, part.clone());
            let first_word = (start + head.len() as u64) / WORD;
            let held_words = bytes[words].chunks_exact(WORD as usize);
            let is_right = (first_word..).zip(held_words).all(|(index, held)| held == self.word(index))
                && [head, tail].into_iter().flatten().all(|n| bytes[n] == self.byte(offset + n as u64));
            if !is_right {
                return Err(self.wrong(offset, part, bytes));
            }
        }
        Ok(())
    }

    #[cold]
    fn wrong(&self, offset: u64, mut part: Range<usize>, bytes: &[u8]) -> WrongContents {
        let wrong = part.find(|n| bytes[*n] != self.byte(offset + *n as u64)).expect("some byte is wrong");
        let (name, at, held) = (&self.name, offset + wrong as u64, bytes[wrong]);
        WrongContents(format!(
            "wrong contents: byte {at} of `{name}` is {held:#04x}, written was {:#04x}",
            self.byte(at)
        ))
    }

    /// Returns the eight bytes of word `index` of the pattern. All words of a file differ.
    fn word(&self, index: u64) -> [u8; WORD as usize] {
        self.key.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes()
    }

    fn byte(&self, at: u64) -> u8 {
        self.word(at / WORD)[(at % WORD) as usize]
    }
}

/// Returns the ranges of those bytes of a slice that `kept` says to keep. The slice has `length` bytes, and begins at
/// byte `offset` of the file. Ranges count from the slice's first byte.
fn parts(kept: Kept, offset: u64, length: usize) -> impl Iterator<Item = Range<usize>> {
    let end = offset + length as u64;
    let (step, most) = match kept {
        Kept::Nothing => (PAGE, 0),
        Kept::Stamps => (PAGE, WORD),
        Kept::Bytes => (u64::MAX, u64::MAX),
        Kept::First(bytes) => (PAGE, bytes.into()),
    };
    let first = offset / step * step;
    (first..end).step_by(step as usize).filter_map(move |start| {
        let part = start.max(offset)..start.saturating_add(most).min(end);
        (part.start < part.end).then(|| (part.start - offset) as usize..(part.end - offset) as usize)
    })
}

/// Divides the range `part` of a slice into the bytes before the first whole word, the whole words, and the bytes after
/// the last whole word. Words begin at multiples of eight bytes in the file. `at` is the byte of the file at which the
/// range begins.
fn pieces(at: u64, part: Range<usize>) -> (Range<usize>, Range<usize>, Range<usize>) {
    let word = WORD as usize;
    let words_start = part.end.min(part.start + ((WORD - at % WORD) % WORD) as usize);
    let words_end = words_start + (part.end - words_start) / word * word;
    (part.start..words_start, words_start..words_end, words_end..part.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_a_fill_is_the_fill_of_a_piece() {
        let pattern = Pattern::new("a", 1);
        for kept in [Kept::Bytes, Kept::First(1639), Kept::Stamps, Kept::Nothing] {
            let mut whole = vec![0; 3 * PAGE_BYTES];
            pattern.fill(kept, 0, &mut whole);
            for (start, end) in [(0, 8), (3, 5), (3, 21), (4090, 4099), (4096, 8192), (4100, 12288), (17, 17)] {
                let mut piece = vec![0; end - start];
                pattern.fill(kept, start as u64, &mut piece);
                assert_eq!(piece, whole[start..end], "{kept:?} {start}..{end}");
                pattern.verify(kept, start as u64, &piece).unwrap();
            }
        }
    }

    #[test]
    fn every_wrong_byte_that_is_kept_is_found() {
        let pattern = Pattern::new("table", 1);
        for (kept, length) in [(Kept::Bytes, 40), (Kept::First(21), 21), (Kept::Stamps, 8), (Kept::Nothing, 0)] {
            let mut bytes = vec![0; 40];
            pattern.fill(kept, 8192, &mut bytes);
            for n in 0..bytes.len() {
                bytes[n] ^= 1;
                assert_eq!(pattern.verify(kept, 8192, &bytes).is_err(), n < length, "{kept:?}, byte {n}");
                bytes[n] ^= 1;
            }
        }
        let error = pattern.verify(Kept::Bytes, 8192, &[0; 16]).unwrap_err().to_string();
        assert!(error.starts_with("wrong contents: byte 8192 of `table` is 0x00, written was 0x"), "{error}");
    }

    #[test]
    fn other_places_versions_and_names_have_other_contents() {
        let mut bytes = vec![0; PAGE_BYTES];
        Pattern::new("a", 1).fill(Kept::Stamps, 0, &mut bytes);
        for (name, version, offset) in [("a", 1, 4096), ("a", 2, 0), ("b", 1, 0)] {
            assert!(Pattern::new(name, version).verify(Kept::Stamps, offset, &bytes).is_err());
        }
        assert!(Pattern::new("a", 1).verify(Kept::Stamps, 0, &vec![0; PAGE_BYTES]).is_err(), "zeroes were not written");
    }
}

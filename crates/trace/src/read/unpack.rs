//! Opening of inputs: a file or standard input, plain or packed by gzip, zstd or xz.

use flate2::read::MultiGzDecoder;
use kit::input::{self, why};
use kit::wrong::Wrong;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read};
use std::path::Path;

/// Largest memory that unpacking may use, MiB. `zstd --long=27` and `xz -9` need 128 and 65 MiB.
const MEMORY_MIB: u32 = 256;

/// The word that stands for standard input on a command line.
pub const STANDARD_INPUT: &str = "-";

/// Opens a file, or standard input for `-`, and unpacks it if its first bytes are those of gzip, zstd or xz.
///
/// # Errors
/// When the input cannot be opened or read.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>, Wrong> {
    let wrong = |error: io::Error| Wrong::of(&path.display().to_string(), why(&error));
    let raw: Box<dyn Read> = if path.as_os_str() == STANDARD_INPUT {
        if io::stdin().is_terminal() {
            return Err(Wrong::of("-", "standard input is a terminal: expected a trace from a pipe or a file"));
        }
        Box::new(input::standard("a trace").map_err(wrong)?)
    } else {
        input::open(path, "a trace").map_err(wrong)?
    };
    unpacked(raw).map_err(wrong)
}

/// Returns a reader of the bytes of `raw`, which unpacks them if they are packed.
///
/// # Errors
/// When the first bytes cannot be read.
pub fn unpacked(raw: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut raw = BufReader::with_capacity(1 << 16, raw);
    let mut first = Vec::new();
    // As many as the magic number of an own trace has, so that the first part of a plain input shows it.
    raw.by_ref().take(8).read_to_end(&mut first)?;
    let packed = match first[..] {
        [0x1f, 0x8b, ..] => Some(Packing::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Packing::Zstd),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
        _ => None,
    };
    let whole = io::Cursor::new(first).chain(raw);
    Ok(match packed {
        None => Box::new(whole),
        Some(Packing::Gzip) => Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(whole))),
        Some(Packing::Zstd) => Box::new(BufReader::with_capacity(1 << 16, Zstd::Between(whole))),
        Some(Packing::Xz) => {
            Box::new(BufReader::with_capacity(1 << 16, XzReader::new_mem_limit(whole, true, MEMORY_MIB << 10)))
        }
    })
}

/// A format of packed files.
#[derive(Clone, Copy, Debug)]
enum Packing {
    Gzip,
    Zstd,
    Xz,
}

/// A reader of zstd data, which unpacks one frame after the other.
enum Zstd<R: Read> {
    /// The reader stands before a zstd frame (a packed part of the input), or at the end of the input.
    Between(R),
    /// The reader is within a zstd frame (a packed part of the input).
    Within(Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
    /// The reader has met an error.
    Failed,
}

impl<R: BufRead> Zstd<R> {
    /// Begins to read the next zstd frame (a packed part of the input). Returns `false` at the end of the input.
    fn begin(&mut self) -> io::Result<bool> {
        let Self::Between(mut inner) = std::mem::replace(self, Self::Failed) else {
            return Err(io::Error::other("damaged zstd data"));
        };
        loop {
            let start = inner.fill_buf()?;
            if start.is_empty() {
                *self = Self::Between(inner);
                return Ok(false);
            }
            // A frame to skip: its magic number, and the length of what follows.
            if !(0x50..=0x5f).contains(&start[0]) {
                break;
            }
            let mut head = [0; 8];
            inner.read_exact(&mut head)?;
            let len = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
            if head[1..4] != [0x2a, 0x4d, 0x18] || io::copy(&mut inner.by_ref().take(len), &mut io::sink())? != len {
                return Err(io::Error::other("damaged zstd data"));
            }
        }
        let window_max = u64::from(MEMORY_MIB) << 20;
        let decoder = StreamingDecoder::new_with_max_window_size(inner, window_max).map_err(io::Error::other)?;
        *self = Self::Within(Box::new(decoder));
        Ok(true)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            let Self::Within(decoder) = self else {
                if self.begin()? {
                    continue;
                }
                return Ok(0);
            };
            let read = decoder.read(into)?;
            if read > 0 {
                return Ok(read);
            }
            if let Self::Within(decoder) = std::mem::replace(self, Self::Failed) {
                *self = Self::Between(decoder.into_inner());
            }
        }
    }
}

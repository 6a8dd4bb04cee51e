//! The formats that are read: a table with each format's name, its recognition, and its reader.
//!
//! A format is recognised by the first 64 KiB of the (unpacked) input. The order of the table decides where several
//! formats could be meant: those with a magic number or a heading come first, plain keys last.

mod blkparse;
mod csv;
mod damo;
mod fio;
mod ftrace;
mod iotracer;
mod keys;
mod lcs;
mod msr;
mod oracle;
mod strace;
mod text;
mod twitter;
mod vscsi;

#[cfg(test)]
mod tests;

use crate::read::{Options, Parser, Shape, Start};
use crate::request::Kind;

/// Name of the format `.hwtrace`, which is mapped and needs no reader.
pub const OWN: &str = "hwtrace";

/// The result of opening an input: its shape, what its requests address, and the reader.
pub type Opened = (Shape, Kind, Box<dyn Parser>);

/// A format of traces: its name, how it is recognised, and how it is read.
pub struct Format {
    /// Name on command lines.
    pub name: &'static str,
    /// The tool that writes this format, or the collection whose traces have it, in words for people.
    pub about: &'static str,
    /// Returns `true` if an input with this start is in this format.
    pub recognise: fn(Start<'_>) -> bool,
    /// Makes a reader for an input that begins with these bytes.
    pub open: fn(Start<'_>, &Options) -> Result<Opened, String>,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All formats but `.hwtrace`, in the order of recognition.
pub static ALL: [&Format; 15] = [
    &lcs::FORMAT,
    &vscsi::V2,
    &vscsi::V1,
    &oracle::FORMAT,
    &fio::V2,
    &fio::V3,
    &damo::FORMAT,
    &strace::FORMAT,
    &ftrace::FORMAT,
    &blkparse::FORMAT,
    &iotracer::FORMAT,
    &msr::FORMAT,
    &twitter::FORMAT,
    &csv::FORMAT,
    &keys::FORMAT,
];

/// Returns the format of this name.
///
/// # Errors
/// When there is none: with the names that there are.
pub fn by_name(name: &str) -> Result<&'static Format, String> {
    let found = ALL.iter().find(|format| format.name == name);
    found.copied().ok_or_else(|| format!("there is no format `{name}`: expected one of {}", names()))
}

/// Recognises the format of an input by its first bytes.
///
/// # Errors
/// When none is recognised.
pub fn recognise(start: Start<'_>) -> Result<&'static Format, String> {
    let found = ALL.iter().find(|format| (format.recognise)(start));
    found.copied().ok_or_else(|| format!("its format is not recognised: name it with `--from`, one of {}", names()))
}

/// Returns the names of all formats, for messages.
#[must_use]
pub fn names() -> String {
    let mut names: Vec<_> = ALL.iter().map(|format| format.name).collect();
    names.push(OWN);
    names.join(", ")
}

/// Returns `true` if the start is a text, and `fits` is true of at least half of its first lines.
fn most_lines(start: Start<'_>, fits: impl Fn(&[u8]) -> bool) -> bool {
    const LINES: usize = 50;
    let (mut all, mut fitting) = (0, 0);
    for line in start.lines().take(LINES) {
        all += 1;
        fitting += usize::from(fits(line));
    }
    start.is_text() && all > 0 && fitting * 2 >= all
}

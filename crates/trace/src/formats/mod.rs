//! The table of the formats that can be read: the name of each format, the function that recognises it, and its reader.
//!
//! A format is recognised by the first 64 KiB of the (unpacked) input. If several formats recognise the input, the
//! first of them in the table is used. Formats with a magic number or a heading come first, plain keys last.

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

/// Name of this project's own format `.hwtrace`. A file in this format is mapped, so it needs no parser.
pub const OWN: &str = "hwtrace";

/// The result of opening an input: its form (lines or records), what its requests address, and a reader for it.
pub type Opened = (Shape, Kind, Box<dyn Parser>);

/// A format of traces: its name, how it is recognised, and how it is read.
pub struct Format {
    /// Name of the format on command lines.
    pub name: &'static str,
    /// The tool that writes this format, or the collection whose traces have it, in words for people.
    pub about: &'static str,
    /// A function that returns `true` if an input with the given first bytes is in this format.
    pub recognise: fn(Start<'_>) -> bool,
    /// A function that makes a reader for an input in this format, from the input's first bytes and the user's options.
    pub open: fn(Start<'_>, &Options) -> Result<Opened, String>,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All formats except `.hwtrace`, in the order in which an input is tested for them.
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

/// Returns the format that is called `name`.
///
/// # Errors
/// When there is no such format. The error lists the names of all formats.
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

/// Returns the names of all formats, separated by commas, for messages.
#[must_use]
pub fn names() -> String {
    let mut names: Vec<_> = ALL.iter().map(|format| format.name).collect();
    names.push(OWN);
    names.join(", ")
}

/// Returns whether the start of an input is text, and `fits` returns `true` for at least half of its first lines.
fn most_lines(start: Start<'_>, fits: impl Fn(&[u8]) -> bool) -> bool {
    const LINES: usize = 50;
    let (mut all, mut fitting) = (0, 0);
    for line in start.lines().take(LINES) {
        all += 1;
        fitting += usize::from(fits(line));
    }
    start.is_text() && all > 0 && fitting * 2 >= all
}

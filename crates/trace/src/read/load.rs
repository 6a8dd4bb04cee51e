//! [`load`]: makes a [`Trace`] of an input in any format.

use super::options::Options;
use super::stream::{Counts, Stream};
use super::unpack;
use crate::formats::OWN;
use crate::hwtrace::{Trace, Writer, layout};
use kit::in_use;
use kit::input::why;
use kit::wrong::Wrong;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::Path;

/// A trace that was loaded, its format, and how much was read.
#[derive(Debug)]
pub struct Loaded {
    /// The requests of the trace, with the names of the files and tasks in them.
    pub trace: Trace,
    /// Name of the format of the input.
    pub format: &'static str,
    /// Numbers of lines (or records) and of requests that were read. For a trace in the format `.hwtrace`, only
    /// requests are counted.
    pub counts: Counts,
}

/// An input that was opened: a trace in the format `.hwtrace`, or the requests of an input in another format.
#[derive(Debug)]
pub enum Opened {
    /// The trace, which is mapped.
    Own(Trace),
    /// The stream of requests.
    Other(Box<Stream>),
}

/// Opens an input in any format. Maps a trace in the format `.hwtrace`; if it comes packed or by a pipe, unpacks it into
/// an unnamed temporary file first.
///
/// # Errors
/// When the input cannot be read, is empty or damaged, or no format is recognised.
pub fn open(path: &Path, options: &Options) -> Result<Opened, Wrong> {
    let name = path.display().to_string();
    let wrong = |error: &io::Error| Wrong::of(&name, why(error));
    let may_be_own = options.from.as_deref().is_none_or(|from| from == OWN);
    if may_be_own && is_own(path) {
        let file = File::open(path).map_err(|error| wrong(&error))?;
        in_use::reads("a trace", path, &file).map_err(|error| wrong(&error))?;
        return Trace::map(&file, &name).map(Opened::Own);
    }
    let mut input = unpack::open(path)?;
    let mut first = Vec::new();
    // The first bytes may come in parts.
    input.by_ref().take(layout::MAGIC.len() as u64).read_to_end(&mut first).map_err(|error| wrong(&error))?;
    let is_own = may_be_own && (first == layout::MAGIC || options.from.is_some());
    let mut input = io::Cursor::new(first).chain(input);
    if is_own {
        let mut file = tempfile::tempfile().map_err(|error| wrong(&error))?;
        io::copy(&mut input, &mut file).map_err(|error| wrong(&error))?;
        return Trace::map(&file, &name).map(Opened::Own);
    }
    Stream::of(Box::new(input), &name, options).map(|stream| Opened::Other(Box::new(stream)))
}

/// Maps a trace in the format `.hwtrace`, or reads another one ([`Stream`]) into an unnamed temporary file, which takes
/// 32 bytes for each request.
///
/// # Errors
/// When the input cannot be read, is empty or damaged, or no format is recognised.
pub fn load(path: &Path, options: &Options) -> Result<Loaded, Wrong> {
    let mut stream = match open(path, options)? {
        Opened::Own(trace) => return Ok(own(trace)),
        Opened::Other(stream) => stream,
    };
    let name = path.display().to_string();
    let file = tempfile::tempfile().map_err(|error| Wrong::of(&name, why(&error)))?;
    convert(&mut stream, &file)?;
    let trace = Trace::map(&file, &name)?;
    Ok(Loaded { trace, format: stream.format().name, counts: stream.counts().clone() })
}

/// Writes all requests of a stream as a trace in the format `.hwtrace`.
///
/// # Errors
/// When the input cannot be read, or the output cannot be written.
pub fn convert(stream: &mut Stream, out: impl Write) -> Result<(), Wrong> {
    let failed = |error: io::Error| Wrong::of("output", why(&error));
    let mut writer = Writer::new(out, stream.kind()).map_err(failed)?;
    while let Some(requests) = stream.batch()? {
        for request in requests {
            writer.push(request).map_err(failed)?;
        }
    }
    writer.finish(stream.files(), stream.tasks(), &stream.metadata()).map_err(failed)?;
    Ok(())
}

fn own(trace: Trace) -> Loaded {
    let counts = Counts { requests: trace.len() as u64, pieces: trace.len() as u64, ..Counts::default() };
    Loaded { trace, format: OWN, counts }
}

/// Returns whether a path leads to a regular file in the format `.hwtrace`, judged by its first bytes.
#[must_use]
pub fn is_own(path: &Path) -> bool {
    let mut first = [0; layout::MAGIC.len()];
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok())
        && first == layout::MAGIC
}

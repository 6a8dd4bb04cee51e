//! The memory in which a VFS keeps pages: one of the program's, or one that is started for the first database.

use crate::failure::{Failure, Outcome};
use highwater::Memory;
use libsqlite3_sys as ffi;
use std::sync::Arc;

/// Smallest size of a memory, bytes.
const LEAST: u64 = 4 << 20;

/// The memory of a VFS.
#[derive(Debug)]
pub(crate) enum Source {
    /// The memory is there.
    Given(Arc<Memory>),
    /// It is started for the first database, with this size unless the database asks for another, bytes.
    Later(u64),
    /// The VFS was unregistered.
    Gone,
}

impl Source {
    /// Returns the memory. If there is none yet, starts one, with the size `wanted` if that is given.
    ///
    /// # Errors
    /// `SQLITE_CANTOPEN` when `wanted` is no size, the system grants no memory, or the VFS was unregistered.
    pub(crate) fn memory(&mut self, wanted: Option<&str>) -> Outcome<Arc<Memory>> {
        let refused = |text| Failure::new(ffi::SQLITE_CANTOPEN, text);
        let bytes = match self {
            Self::Given(memory) => return Ok(memory.clone()),
            Self::Gone => return Err(refused("the VFS was unregistered".to_owned())),
            Self::Later(bytes) => *bytes,
        };
        let bytes = wanted.map_or(Ok(bytes), parse_size).map_err(refused)?;
        let memory = Memory::builder().size(bytes).start();
        let memory = Arc::new(memory.map_err(|error| Failure::of_library(error, ffi::SQLITE_CANTOPEN))?);
        *self = Self::Given(memory.clone());
        Ok(memory)
    }
}

/// Reads a size such as `64M`: a number of bytes, or of KiB, MiB or GiB with `K`, `M` or `G` after it.
///
/// # Errors
/// A text that says why this is no size of a memory.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let (number, shift) = match trimmed.char_indices().last() {
        Some((at, 'k' | 'K')) => (&trimmed[..at], 10),
        Some((at, 'm' | 'M')) => (&trimmed[..at], 20),
        Some((at, 'g' | 'G')) => (&trimmed[..at], 30),
        _ => (trimmed, 0),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if bytes >= LEAST => Ok(bytes),
        Some(_) => Err(format!("`{text}` is too small a size of a memory: at least 4M")),
        None => Err(format!("`{text}` is no size of a memory, such as 64M")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(
            (parse_size(" 2g "), parse_size("8192K"), parse_size("4194304")),
            (Ok(2 << 30), Ok(8 << 20), Ok(LEAST))
        );
        for wrong in ["", "M", "64 MiB", "-4M", "1é", "4095K", "99999999999G", "18446744073709551615G"] {
            assert!(parse_size(wrong).is_err_and(|text| text.contains(wrong)), "{wrong}");
        }
    }

    #[test]
    fn a_memory_is_started_once() {
        let mut source = Source::Later(LEAST);
        assert!(source.memory(Some("much")).is_err_and(|failure| failure.code == ffi::SQLITE_CANTOPEN));
        let first = source.memory(Some("8M")).unwrap();
        assert!(Arc::ptr_eq(&first, &source.memory(Some("64M")).unwrap()));
        assert_eq!(first.size(), 8 << 20);
        assert!(Source::Gone.memory(None).is_err());
    }
}

//! Checks a size, in bytes, that an application sets for a [`Memory`](crate::Memory).

use crate::error::Error;
use machine::PAGE_BYTES;

/// Checks that a memory may have `bytes` bytes. `setting` is the name of the setting, for the error.
///
/// # Errors
/// When `bytes` is too small for a memory, or more than `pages_max` pages.
pub(crate) fn check_size(setting: &str, bytes: u64, pages_max: u64) -> Result<(), Error> {
    let (least, most) = (engine::memory::LEAST_PAGES * PAGE_BYTES as u64, pages_max * PAGE_BYTES as u64);
    let error = |what: &str| Err(Error::Builder(format!("{setting}: {bytes} bytes of memory are too {what}")));
    if bytes < least {
        return error(&format!("few: at least {least} are needed"));
    }
    if bytes / PAGE_BYTES as u64 > pages_max { error(&format!("many: {most} are the most")) } else { Ok(()) }
}

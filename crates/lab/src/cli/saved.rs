//! Reading of files that commands saved.

use super::{End, output::why};
use kit::input;
use report::{Table, saved};
use std::io::Read as _;
use std::path::Path;

/// Reads the text of a file, which may be compressed and in any encoding. Returns the name that the file has in
/// reports, and the text.
///
/// # Errors
/// Reports wrong usage when the file cannot be read, is too long, or is not text. The message names the file.
pub fn text(path: &Path) -> Result<(String, String), End> {
    let told = |why: &str| End::Usage(format!("cannot read {}: {why}", path.display()));
    let mut bytes = Vec::new();
    let file = input::open(path, "a saved report").map_err(|error| told(&why(&error)))?;
    file.take(saved::BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| told(&why(&error)))?;
    if bytes.len() as u64 > saved::BYTES_MAX {
        return Err(told(&format!("it has more than {} MiB", saved::BYTES_MAX >> 20)));
    }
    let text = recordings::read_input(&path.display().to_string(), &*bytes).map_err(|wrong| told(&wrong.what))?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok((name, text))
}

/// Reads a saved report from the file `path`. Returns the file's name without folders, which is its name in other
/// reports, and the table of the report.
///
/// # Errors
/// Reports wrong usage when the file is no report. The message names the file and says what was expected.
pub fn table(path: &Path) -> Result<(String, Table), End> {
    let (name, text) = text(path)?;
    let table = saved::read(&text).map_err(|why| End::Usage(format!("{}: {why}", path.display())))?;
    Ok((name, table))
}

//! A function that writes files for tests.

use std::{fs, path::Path};

/// Writes `text` to the file `path` below the folder `root`, and makes missing folders on the path.
///
/// # Panics
/// When the file cannot be written.
pub fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a test may make folders");
    fs::write(path, text).expect("a test may write files");
}

//! Kernels that come with the library.

use engine::kernel::{Kernel, Source, files};
use std::path::Path;

/// The engine's kernels that applications may choose.
const NAMES: [&str; 4] = ["3.10-rc4-vanilla", "mm1-mmotm-20130606", "mm1-lessdisrupt-v1", HIGHWATER];

const HIGHWATER: &str = "highwater";

/// The text of a kernel that comes with the library.
fn resolve(name: &str) -> Result<Source, String> {
    let found = NAMES.contains(&name).then(|| files::source(name)).flatten();
    found.ok_or_else(|| format!("there is no kernel `{name}`, only {}", NAMES.join(", ")))
}

/// Highwater's own kernel: the default.
pub(crate) fn highwater() -> Kernel {
    let source = resolve(HIGHWATER).expect("it is in the list");
    Kernel::parse(HIGHWATER, &source.file, &source.text, &resolve).expect("files of the project are sound")
}

/// A kernel that comes with the library, or, when `name` has a `/` or ends in `.toml`, a file; its `base` is sought
/// beside it and then in the library.
pub(crate) fn find(name: &str) -> Result<Kernel, String> {
    let is_file = name.contains('/') || name.ends_with(".toml");
    let path = Path::new(name);
    let (source, known_as) = if is_file {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        (Source { file: name.to_owned(), text }, stem)
    } else {
        (resolve(name)?, name.to_owned())
    };
    let beside = |base: &str| {
        let file = path.with_file_name(format!("{base}.toml"));
        match std::fs::read_to_string(&file) {
            Ok(text) if is_file => Ok(Source { file: file.display().to_string(), text }),
            _ => resolve(base),
        }
    };
    Kernel::parse(&known_as, &source.file, &source.text, &beside).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_the_library_are_sound() {
        for name in NAMES {
            assert_eq!(find(name).unwrap().name, name);
        }
        assert_eq!(highwater().bases[0], "mm1-lessdisrupt-v1");
        assert!(find("nonesuch").unwrap_err().contains("nonesuch"));
        assert!(find("./nonesuch.toml").unwrap_err().starts_with("./nonesuch.toml: "));
    }
}

//! Kernels (named sets of reclaim policies) that come with the library, and kernel files of the application.

use crate::machine::{check_is_regular, open_at_once};
use engine::kernel::{Kernel, Source, files};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Names of the kernels (sets of reclaim policies) that applications may choose. The engine has others, too.
const NAMES: [&str; 5] = ["3.10-rc4-vanilla", "mm1-mmotm-20130606", "mm1-lessdisrupt-v1", "7.2-mglru", HIGHWATER];

const HIGHWATER: &str = "highwater";

/// Returns the text of the kernel file that comes with the library under the name `name`, or an error if applications
/// may not choose this kernel.
fn offered(name: &str) -> Result<Source, String> {
    let found = NAMES.contains(&name).then(|| files::source(name)).flatten();
    found.ok_or_else(|| format!("there is no kernel `{name}`, only {}", NAMES.join(", ")))
}

/// Returns the default kernel (set of reclaim policies), which is Highwater's own.
pub(crate) fn highwater() -> Kernel {
    Kernel::built_in(HIGHWATER).expect("it comes with the engine")
}

/// Largest size of a kernel file, bytes. Real kernel files have some thousand bytes. Without the limit, a
/// wrong path might fill the memory of the process.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads the text of a kernel file. Refuses what is no regular file: reading a terminal waits for a user, and a pipe
/// without a writer has an empty text, which would be a valid kernel with all defaults.
fn read(path: &Path) -> io::Result<String> {
    // The kind is checked before opening, because opening some kinds of files has effects. It is checked again after
    // that, because the path may by then name something else.
    check_is_regular(&std::fs::metadata(path)?)?;
    let file = open_at_once(File::options().read(true), 0, path)?;
    check_is_regular(&file.metadata()?)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {} MiB", FILE_BYTES_MAX >> 20)));
    }
    Ok(text)
}

/// Returns the kernel (set of reclaim policies) called `name` that comes with the library. If `name` has a `/` or ends
/// in `.toml`, reads the kernel file at this path; the file's `base` is looked for beside the file, then in the
/// library.
pub(crate) fn find(name: &str) -> Result<Kernel, String> {
    if !(name.contains('/') || name.ends_with(".toml")) {
        offered(name)?;
        return Ok(Kernel::built_in(name).expect("it is offered"));
    }
    let path = Path::new(name);
    let text = read(path).map_err(|error| format!("{name}: {error}"))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    // Set once a base was found in the library. The further bases are then looked for only in the library.
    let is_within = Cell::new(false);
    let base = |base: &str| {
        if is_within.get() {
            return files::source(base).ok_or_else(|| format!("there is no kernel `{base}`"));
        }
        let file = path.with_file_name(format!("{base}.toml"));
        match read(&file) {
            Ok(text) => Ok(Source { file: file.display().to_string(), text }),
            Err(_) => offered(base).inspect(|_| is_within.set(true)),
        }
    };
    Kernel::parse(&stem, name, &text, &base).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_built_on_an_offered_kernel_and_all_that_comes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_string_lossy().into_owned()
        };
        write("lower.toml", "base = \"highwater\"\n[lru]\nbatch = 20\n");
        let upper = find(&write("upper.toml", "base = \"lower\"\n[lru]\nswappiness = 10\n")).unwrap();
        assert_eq!((upper.choices.lru.batch, upper.choices.lru.swappiness), (20, 10));
        assert_eq!((&*upper.bases[1], upper.bases.last().unwrap().as_str()), ("highwater", engine::kernel::ROOT));
        let long = write("long.toml", "");
        File::options().write(true).open(&long).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        assert_eq!(find(&long).unwrap_err(), format!("{long}: it has more than 16 MiB"));
        let zeroes = find("/dev/zero").unwrap_err();
        assert_eq!(zeroes, "/dev/zero: it is a character device, and not a regular file");
        let refused = find(&write("old.toml", "base = \"2.6.23-rc5\"\n[lru]\nbatch = 20\n")).unwrap_err();
        assert!(refused.contains("old.toml:1: there is no kernel `2.6.23-rc5`, only "), "{refused}");
    }

    #[test]
    fn kernels_of_the_library_are_sound() {
        for name in NAMES {
            assert_eq!(find(name).unwrap().name, name);
        }
        assert_eq!(highwater().bases[0], "mm1-lessdisrupt-v1");
        assert!(find("nonesuch").unwrap_err().contains("nonesuch"));
        assert!(
            find("2.6.23-rc5").unwrap_err().contains("only 3.10-rc4-vanilla, "),
            "what others are built on is not offered"
        );
        assert!(find("./nonesuch.toml").unwrap_err().starts_with("./nonesuch.toml: "));
    }
}

//! A program and the libraries that it loads, as files for the guest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Path, in the guest, of the folder for the libraries of the program that runs in the guest.
pub const LIBRARIES: &str = "/lib";

/// A program and the libraries that it needs.
#[derive(Debug)]
pub struct Program {
    /// The bytes of the program, without the parts that only debuggers read.
    pub bytes: Vec<u8>,
    /// The libraries of the program, each with its path in the guest and its bytes.
    pub libraries: Vec<(PathBuf, Vec<u8>)>,
}

impl Program {
    /// Reads a program and its libraries. The program is started once, with `--version`, so that the dynamic loader
    /// lists the libraries.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut command = Command::new(path);
        command.arg("--version").env("LD_TRACE_LOADED_OBJECTS", "1").stdin(Stdio::null()).stderr(Stdio::null());
        let loaded = String::from_utf8_lossy(&command.output()?.stdout).into_owned();
        let read = |(from, to): (PathBuf, PathBuf)| Ok((to, fs::read(from)?));
        let libraries = libraries(&loaded).map(read).collect::<io::Result<_>>()?;
        let mut bytes = fs::read(path)?;
        strip(&mut bytes);
        Ok(Self { bytes, libraries })
    }
}

/// Returns the library files that are listed in `loaded`, the output of the dynamic loader, each with the path that it
/// gets in the guest. The file of the loader itself keeps its path, because the program refers to it by this path. For
/// a static program the list is empty.
fn libraries(loaded: &str) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    loaded.lines().filter_map(|line| {
        let line = line.strip_prefix('\t')?;
        let (line, _) = line.rsplit_once(" (0x")?;
        match line.split_once(" => ") {
            Some((name, path)) => Some((path.into(), Path::new(LIBRARIES).join(name))),
            None if line.starts_with('/') => Some((line.into(), line.into())),
            // The kernel provides this library (vDSO); there is no file.
            None => None,
        }
    })
}

/// Removes everything after the segments of a 64-bit ELF program, where only names and line numbers for debuggers lie.
/// Other files are left unchanged.
fn strip(bytes: &mut Vec<u8>) {
    let number = |at: usize, size: usize| {
        let mut value = [0; 8];
        value[..size].copy_from_slice(bytes.get(at..at + size)?);
        usize::try_from(u64::from_le_bytes(value)).ok()
    };
    let end = || {
        let is_elf = bytes.starts_with(b"\x7fELF\x02\x01");
        let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let ends = (0..count).map(|n| {
            let segment = table + n * size;
            Some(number(segment + 8, 8)? + number(segment + 32, 8)?)
        });
        let end = ends.chain([Some(table + count * size)]).collect::<Option<Vec<usize>>>()?.into_iter().max()?;
        (is_elf && end <= bytes.len()).then_some(end)
    };
    if let Some(end) = end() {
        bytes.truncate(end);
        // The section table was removed, so its fields in the header become 0: offset, number of entries, and index of
        // the names.
        bytes[40..48].fill(0);
        bytes[60..64].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_lie_in_one_folder_and_the_loader_where_it_must() {
        let loaded = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibm.so.6 => /usr/lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found: Vec<_> =
            libraries(loaded).map(|(from, to)| (from.display().to_string(), to.display().to_string())).collect();
        let expected = [
            ("/usr/lib/x86_64-linux-gnu/libm.so.6", "/lib/libm.so.6"),
            ("/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"),
        ];
        assert_eq!(found, expected.map(|(from, to)| (from.to_owned(), to.to_owned())));
        assert_eq!(libraries("highwater 0.1.0\n").count(), 0);
    }

    #[test]
    fn a_stripped_program_still_runs() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let program = Program::read(&own).unwrap();
        assert!(program.bytes.len() <= fs::metadata(&own).unwrap().len() as usize);
        let path = folder.path().join("program");
        fs::copy(&own, &path).unwrap();
        fs::write(&path, &program.bytes).unwrap();
        let output = Command::new(&path).args(["--list", "program::"]).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("a_stripped_program_still_runs"), "{output:?}");
    }
}

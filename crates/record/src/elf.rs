//! Examines a program's file to find out whether the recording library (the shim) can be loaded into the program.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The kind of a program file, which decides whether the recording library (the shim) can be loaded into the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A program that the dynamic loader of this computer's glibc loads. The loader can load the shim into it.
    Dynamic,
    /// A static program. It has no dynamic loader, so no library can be loaded into it.
    Static,
    /// A program with the dynamic loader of another libc. The text names this loader.
    OtherLibc(String),
    /// A program for another kind of processor, such as one with 32 bits.
    OtherMachine,
    /// A program that gets the rights of its file's owner or group (set-user-ID, set-group-ID). For such a program, the
    /// dynamic loader ignores `LD_PRELOAD`.
    Privileged,
    /// A script. The path is that of its interpreter.
    Script(PathBuf),
    /// A file that is neither an ELF program nor a script, or that cannot be read.
    Unknown,
}

impl Program {
    /// Returns the kind of the program in the file `path`.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let Ok(mut file) = File::open(path) else { return Self::Unknown };
        let Ok(metadata) = file.metadata() else { return Self::Unknown };
        const SET_USER: u32 = 0o4000;
        const SET_GROUP: u32 = 0o2010;
        let mode = metadata.mode();
        let owner = rustix::process::geteuid().as_raw();
        let is_other = metadata.uid() != owner;
        if mode & SET_USER != 0 && is_other || mode & SET_GROUP == SET_GROUP && owner != 0 {
            return Self::Privileged;
        }
        let mut head = [0; 256];
        let Ok(len) = file.read(&mut head) else { return Self::Unknown };
        match head[..len].strip_prefix(b"#!") {
            Some(rest) => {
                let line = rest.split(|byte| *byte == b'\n').next().unwrap_or(rest);
                let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty()).unwrap_or_default();
                Self::Script(PathBuf::from(String::from_utf8_lossy(word).into_owned()))
            }
            None => of_elf(&file, &head[..len]).unwrap_or(Self::Unknown),
        }
    }

    /// Returns the kind of the program in the file `path`. If the file is a script, returns the kind of its
    /// interpreter.
    #[must_use]
    pub fn through_scripts(path: &Path) -> Self {
        let mut program = Self::of(path);
        for _ in 0..4 {
            let Self::Script(interpreter) = &program else { break };
            program = Self::of(interpreter);
        }
        program
    }

    /// Returns the reason why the recording library (the shim) cannot be loaded into the program, in words. Returns
    /// `None` if it can be loaded, or if this is unknown.
    #[must_use]
    pub fn why_not(&self) -> Option<String> {
        match self {
            Self::Dynamic | Self::Script(_) | Self::Unknown => None,
            Self::Static => Some("is a static program: no library can be loaded into it".to_owned()),
            Self::OtherLibc(loader) => Some(format!("is loaded by {loader}, which is not the loader of glibc")),
            Self::OtherMachine => Some("is not a program of this machine's 64 bits".to_owned()),
            Self::Privileged => {
                Some("gets rights of its file (set-user-ID), so the loader ignores LD_PRELOAD".to_owned())
            }
        }
    }
}

fn of_elf(file: &File, head: &[u8]) -> Option<Program> {
    const CLASS_64: u8 = 2;
    const INTERPRETER: u32 = 3;
    #[cfg(target_arch = "x86_64")]
    const MACHINE: u16 = 62;
    #[cfg(not(target_arch = "x86_64"))]
    const MACHINE: u16 = 183;
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let u16_at = |at: usize| head.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
    if head.get(4) != Some(&CLASS_64) || u16_at(18)? != MACHINE {
        return Some(Program::OtherMachine);
    }
    let table = u64::from_le_bytes(*head.get(32..)?.first_chunk()?);
    let (bytes, count) = (u64::from(u16_at(54)?), u64::from(u16_at(56)?));
    for number in 0..count {
        let mut entry = [0; 56];
        file.read_exact_at(&mut entry, table.checked_add(number * bytes)?).ok()?;
        if u32::from_le_bytes(*entry.first_chunk()?) != INTERPRETER {
            continue;
        }
        let word = |at: usize| entry[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let mut name = vec![0; usize::try_from(word(32)?).ok().filter(|len| *len <= 4096)?];
        file.read_exact_at(&mut name, word(8)?).ok()?;
        let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
        let is_glibc = Path::new(&name).file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"));
        return Some(if is_glibc { Program::Dynamic } else { Program::OtherLibc(name) });
    }
    Some(Program::Static)
}

/// Finds a program as a shell does: by its path, or in the folders of `PATH`.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    const RUNNABLE: u32 = 0o111;
    let is_runnable = |path: &Path| fs::metadata(path).is_ok_and(|it| it.is_file() && it.mode() & RUNNABLE != 0);
    if program.contains('/') {
        let path = PathBuf::from(program);
        return is_runnable(&path).then_some(path);
    }
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| is_runnable(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart() {
        let shell = find("sh").expect("every machine has a shell");
        assert_eq!(Program::of(&shell), Program::Dynamic);
        assert!(find("no-such-program-here").is_none());
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, format!("#! {} -e\n", shell.display())).unwrap();
        assert_eq!(Program::of(&script), Program::Script(shell));
        assert_eq!(Program::through_scripts(&script), Program::Dynamic);
        // A static program of 64 bits: a header without a table.
        let mut elf = vec![0; 64];
        elf[..5].copy_from_slice(b"\x7fELF\x02");
        elf[18] = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
        let path = folder.path().join("static");
        fs::write(&path, &elf).unwrap();
        assert_eq!(Program::of(&path), Program::Static);
        elf[4] = 1;
        fs::write(&path, &elf).unwrap();
        assert_eq!(Program::of(&path), Program::OtherMachine);
        for cut in 0..64 {
            fs::write(&path, &elf[..cut]).unwrap();
            let _ = Program::of(&path);
        }
    }
}

//! Kernel images for x86-64 in the format `bzImage` (boot protocol, Documentation/arch/x86/boot.rst).

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Offset of the magic number of a kernel image's boot header.
const MAGIC_AT: usize = 0x202;
const MAGIC: &[u8] = b"HdrS";

/// Offset of the version of the boot protocol in a kernel image.
const PROTOCOL_AT: usize = 0x206;

/// Offset of the header field that says where the text of the kernel's version begins. The field's value counts from
/// byte 512 of the kernel image.
const VERSION_AT: usize = 0x20e;

/// Offset of the field that says how many bytes of memory the kernel needs at its start: for text, data and unpacking.
const NEEDED_AT: usize = 0x260;

/// Number of bytes that are read from the beginning of a kernel image: up to the end of the field at [`NEEDED_AT`].
const HEADER_BYTES: usize = 0x264;

/// The first version of the boot protocol whose header says how much memory the kernel needs.
const PROTOCOL_WITH_NEED: u16 = 0x020a;

/// A kernel image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The file of the image.
    pub path: PathBuf,
    /// The kernel's release, as `uname -r` shows it: `6.1.0-50-amd64`.
    pub release: String,
    /// The version that the distribution gave the kernel, such as `Debian 6.1.176-1`. If the image does not state one,
    /// this is the release.
    pub built_as: String,
    /// Number of bytes of memory that the kernel takes at its start.
    pub needed_bytes: u64,
}

impl Image {
    /// Opens a kernel image, and reads its header.
    ///
    /// # Errors
    /// When the file cannot be read, or is no kernel image. The error says so in words for the user.
    pub fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let unreadable = |error: io::Error| format!("{shown}: {}", kit::input::why(&error));
        let mut file = File::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.is_dir() {
            return Err(format!("{shown}: it is a folder, where a kernel image was expected"));
        }
        let mut header = Vec::new();
        file.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut header).map_err(unreadable)?;
        if header.len() < HEADER_BYTES || header.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) != Some(MAGIC) {
            let hint = if header.starts_with(b"\x7fELF") { ": `vmlinux` is not, arch/x86/boot/bzImage is" } else { "" };
            return Err(format!("{shown}: no kernel image for x86-64, a bzImage with `HdrS` at byte {MAGIC_AT}{hint}"));
        }
        let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        file.seek(SeekFrom::Start(u64::from(short(VERSION_AT)) + 512)).map_err(unreadable)?;
        let mut text = Vec::new();
        file.take(256).read_to_end(&mut text).map_err(unreadable)?;
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text).into_owned();
        let release = text.split_whitespace().next().unwrap_or_default().to_owned();
        if release.is_empty() || !release.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(format!("{shown}: its header names no release, but `{}`", kit::shown::harmless(&text)));
        }
        let needed = [0, 1, 2, 3].map(|n| header[NEEDED_AT + n]);
        let needed_bytes = match short(PROTOCOL_AT) {
            PROTOCOL_WITH_NEED.. => u32::from_le_bytes(needed).into(),
            _ => return Err(format!("{shown}: too old: kernels before 2.6.31 do not say how much memory they need")),
        };
        // The text is, for example, "#1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-05-02)".
        let built_as = match text.split_once("Debian ") {
            Some((_, version)) => format!("Debian {}", version.split_whitespace().next().unwrap_or_default()),
            None => release.clone(),
        };
        Ok(Self { path: path.to_owned(), release, built_as, needed_bytes })
    }

    /// Returns the kernel's version from its release, such as (6, 1) for `6.1.0-44-amd64`. Returns `None` if the
    /// release does not begin with two numbers.
    #[must_use]
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(header: &[(usize, &[u8])]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bzImage");
        let mut bytes = vec![0; 0x1000];
        for (at, part) in header {
            bytes[*at..at + part.len()].copy_from_slice(part);
        }
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    #[test]
    fn the_header_names_the_release() {
        let version = b"6.1.0-50-amd64 (a@b) #1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-05-02)\0";
        let (_folder, path) = written(&[
            (MAGIC_AT, MAGIC),
            (PROTOCOL_AT, &[0x0f, 2]),
            (VERSION_AT, &[0, 4]),
            (NEEDED_AT, &[0, 0, 0, 3]),
            (0x600, version),
        ]);
        let image = Image::open(&path).unwrap();
        assert_eq!((image.release.as_str(), image.built_as.as_str()), ("6.1.0-50-amd64", "Debian 6.1.176-1"));
        assert_eq!((image.needed_bytes, image.version()), (3 << 24, Some((6, 1))));
    }

    #[test]
    fn what_is_no_image_is_refused_and_says_what_was_expected() {
        let (_folder, path) = written(&[(0, b"\x7fELF")]);
        let error = Image::open(&path).unwrap_err();
        assert!(error.contains("`HdrS` at byte 514") && error.contains("bzImage is"), "{error}");
        assert!(Image::open(Path::new("/none/such")).unwrap_err().contains("no such file"));
        assert!(Image::open(Path::new("/")).unwrap_err().contains("folder"));
    }
}

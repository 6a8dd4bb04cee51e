//! The archive that a kernel unpacks into its first file system: cpio in the format `newc`, compressed by gzip
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Component, Path};

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

/// An archive (cpio, compressed) that is being written. The guest's kernel unpacks it into its first file system.
#[derive(Debug)]
pub struct Archive<W: Write> {
    out: GzEncoder<W>,
    written: usize,
    inodes: u32,
    folders: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    /// Creates an empty archive, which is written to `out`.
    pub fn new(out: W) -> Self {
        let out = GzEncoder::new(out, Compression::fast());
        Self { out, written: 0, inodes: 0, folders: BTreeSet::new() }
    }

    /// Adds an empty folder, and the folders above it.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn folder(&mut self, path: &Path) -> io::Result<()> {
        let mut whole = String::new();
        for part in path.components() {
            let Component::Normal(part) = part else { continue };
            whole =
                if whole.is_empty() { part.to_string_lossy().into() } else { format!("{whole}/{}", part.display()) };
            if self.folders.insert(whole.clone()) {
                self.entry(&whole, FOLDER, &[])?;
            }
        }
        Ok(())
    }

    /// Adds a file that may be executed, and the folders above it.
    ///
    /// # Errors
    /// When the output cannot be written, or the file has 4 GiB or more.
    pub fn file(&mut self, path: &Path, contents: &[u8]) -> io::Result<()> {
        self.folder(path.parent().unwrap_or(path))?;
        let path = path.strip_prefix("/").unwrap_or(path);
        self.entry(&path.to_string_lossy(), FILE, contents)
    }

    /// Ends the archive, and returns the output.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.out.finish()
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) -> io::Result<()> {
        self.inodes += 1;
        let bytes = u32::try_from(contents.len()).map_err(io::Error::other)?;
        let name_bytes = name.len() as u32 + 1;
        // The numbers are inode, mode, user, group, links, time, size, device (major and minor), device of a special
        // file (major and minor), length of the name, and checksum.
        let numbers = [self.inodes, mode, 0, 0, 1, 0, bytes, 0, 0, 0, 0, name_bytes, 0];
        let head: String = numbers.iter().map(|number| format!("{number:08x}")).collect();
        self.write(format!("070701{head}{name}\0").as_bytes())?;
        self.pad()?;
        self.write(contents)?;
        self.pad()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len();
        self.out.write_all(bytes)
    }

    /// Pads the archive with zeroes to a multiple of four bytes, because the contents of a file and the header of the
    /// next file must begin at such an offset.
    fn pad(&mut self) -> io::Result<()> {
        let missing = self.written.wrapping_neg() % 4;
        self.write(&[0; 3][..missing])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn folders_come_once_and_before_what_they_hold() {
        let mut archive = Archive::new(Vec::new());
        archive.file(Path::new("/lib/a.so"), b"12345").unwrap();
        archive.file(Path::new("/lib/b.so"), b"").unwrap();
        archive.folder(Path::new("/proc")).unwrap();
        let packed = archive.finish().unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let (mut at, mut found) = (0, Vec::new());
        while at < bytes.len() {
            let field = |n: usize| {
                let text = std::str::from_utf8(&bytes[at + 6 + 8 * n..at + 14 + 8 * n]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (mode, size, name) = (field(1), field(6), field(11));
            let start = at + 110;
            found.push((String::from_utf8(bytes[start..start + name - 1].to_vec()).unwrap(), mode, size));
            at = (start + name).next_multiple_of(4) + size.next_multiple_of(4);
        }
        let file = FILE as usize;
        let expected =
            [("lib", FOLDER as usize, 0), ("lib/a.so", file, 5), ("lib/b.so", file, 0), ("proc", FOLDER as usize, 0)];
        let expected = expected.into_iter().chain([("TRAILER!!!", 0, 0)]);
        assert_eq!(found, expected.map(|(name, mode, size)| (name.to_owned(), mode, size)).collect::<Vec<_>>());
    }
}

//! Recordings of memory that other tools made: texts in one of the [`formats`], as users paste them ([`text`]), and log
//! directories of [`mmtests`].
//!
//! Each reader returns the figures under the tool's own names and interprets nothing; `observe::doctor` interprets the
//! figures. A fault is reported with its file, its line, and what was expected there.
//!
//! Next: [`text`].

pub mod atop;
pub mod collectl;
pub mod format;
pub mod formats;
pub mod kernel_log;
pub mod looks;
pub mod mmtests;
pub mod procps;
pub mod sadf;
pub mod sar;
pub mod sysstat;
pub mod text;
pub mod vmstat_disks;

use flate2::read::MultiGzDecoder;
use kit::input::{self, why, without_mark};
pub use kit::wrong::Wrong;
use std::fs;
use std::io::{self, Read};
use std::ops::Index;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest size of a file that is read, bytes; of a packed file, the size after unpacking. One copy of `/proc/vmstat`
/// per second would reach four times this size in a day.
const BYTES_MAX: u64 = 256 << 20;

/// The figures of one sample of a recording, such as a line of `vmstat`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Duration of the sample, s.
    pub seconds: f64,
    /// Time at the end of the sample, s. It counts from a moment that is the same for all samples of the recording.
    /// None if unknown.
    pub at_s: Option<f64>,
    /// The line of the text that has the sample, from 1.
    pub line: usize,
    /// The sample's figures.
    pub values: Figures,
}

/// Size of a page, KiB.
pub const PAGE_KIB: f64 = 4.0;

/// Returns the largest swap use in the column `swpd` of `vmstat`, pages; none if no line has this column.
#[must_use]
pub fn most_in_swap(samples: &[Sample]) -> Option<f64> {
    samples.iter().filter_map(|sample| sample.values.get("swpd")).reduce(f64::max).map(|kib| kib / PAGE_KIB)
}

/// Figures by column name. All lines under one heading share one list of names. Thus the program needs at most five
/// times the size of a recording to read it: 0.9 GiB for 200 MiB of `vmstat`, including the text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(Vec<Part>);

/// The column names of one heading, and the figures of one line under it.
type Part = (Arc<[String]>, Box<[f64]>);

impl Figures {
    /// Returns the figure of a column; none if there is no such column.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(column, _)| *column == name).map(|(_, figure)| figure)
    }

    /// Makes figures from their names and values.
    fn of(figures: impl IntoIterator<Item = (String, f64)>) -> Self {
        let (names, figures): (Vec<String>, Vec<f64>) = figures.into_iter().unzip();
        Self(vec![(names.into(), figures.into())])
    }

    /// Returns all column names and figures, in the order of columns.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().flat_map(|(names, figures)| names.iter().map(String::as_str).zip(figures.iter().copied()))
    }

    /// Multiplies the figure of a column by `factor`, if there is such a column.
    fn scale(&mut self, name: &str, factor: f64) {
        for (names, figures) in &mut self.0 {
            if let Some(at) = names.iter().position(|column| column == name) {
                figures[at] *= factor;
            }
        }
    }

    /// Adds `others`, figures of the same moment from other columns.
    fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}

impl Index<&str> for Figures {
    type Output = f64;

    /// Returns the figure in the column `name`.
    ///
    /// # Panics
    /// When there is no column `name`.
    fn index(&self, name: &str) -> &f64 {
        let mut all = self.0.iter().flat_map(|(names, figures)| names.iter().zip(figures));
        let found = all.find_map(|(column, figure)| (column == name).then_some(figure));
        found.unwrap_or_else(|| panic!("there is no column {name}"))
    }
}

/// Makes figures from pairs of names and values.
impl<const N: usize> From<[(&str, f64); N]> for Figures {
    fn from(pairs: [(&str, f64); N]) -> Self {
        let names = pairs.iter().map(|(name, _)| (*name).to_owned()).collect();
        Self(vec![(names, pairs.iter().map(|(_, figure)| *figure).collect())])
    }
}

/// Returns the files in a folder and its subfolders, down to `depth_max` levels, sorted by path. Links are followed,
/// but not in circles. Unreadable folders are reported in `wrong`.
pub fn files_below(folder: &Path, depth_max: usize, wrong: &mut Vec<Wrong>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(folder, depth_max, &mut Vec::new(), &mut found, wrong);
    found.sort();
    found
}

fn walk(folder: &Path, depth_max: usize, above: &mut Vec<PathBuf>, found: &mut Vec<PathBuf>, wrong: &mut Vec<Wrong>) {
    let entries = || -> io::Result<(PathBuf, Vec<PathBuf>)> {
        let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        Ok((fs::canonicalize(folder)?, paths))
    };
    match entries() {
        // A link that leads back to a folder above it is not followed.
        Ok((place, _)) if above.iter().any(|above| above.starts_with(&place)) => {}
        Ok((place, paths)) => {
            above.push(place);
            for path in paths {
                match path.is_dir() {
                    true if above.len() <= depth_max => walk(&path, depth_max, above, found, wrong),
                    true => {}
                    false => found.push(path),
                }
            }
            above.pop();
        }
        Err(error) => wrong.push(Wrong::of(&folder.display().to_string(), format!("cannot be read: {}", why(&error)))),
    }
}

/// Extensions of packed files that are recognised but not read.
const OTHERWISE_PACKED: [&str; 4] = [".xz", ".bz2", ".zst", ".lzma"];

/// Returns the path without its last extension if the file is packed in a way that cannot be read, such as `.xz`.
/// Returns `None` for other files, and also if the same folder has a readable copy of the file: unpacked, or packed
/// with gzip.
#[must_use]
pub fn otherwise_packed(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let name = OTHERWISE_PACKED.iter().find_map(|ending| name.strip_suffix(ending))?;
    let is_there = [name.to_owned(), format!("{name}.gz")].iter().any(|name| path.with_file_name(name).is_file());
    (!is_there && path.is_file()).then(|| path.with_file_name(name))
}

/// Reads the text of a file in any encoding; gzip is unpacked.
///
/// # Errors
/// The errors of [`read_bytes`], and an error that names the kind of the file if the file is not a text.
pub fn read(path: &Path) -> Result<String, Wrong> {
    text::decode(&path.display().to_string(), read_bytes(path)?)
}

/// Reads the text of piped input, as [`read`] does for a file.
///
/// # Errors
/// The errors of [`read`].
pub fn read_input(name: &str, input: impl Read) -> Result<String, Wrong> {
    text::decode(name, unpacked(name, input)?)
}

/// Reads the text of a log; gzip is unpacked, and invalid UTF-8 is replaced.
///
/// # Errors
/// The errors of [`read_bytes`].
pub fn read_lossy(path: &Path) -> Result<String, Wrong> {
    // A text in UTF-8, the usual case, is not copied.
    let text = String::from_utf8(read_bytes(path)?);
    Ok(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Reads the bytes of a file; gzip is unpacked.
///
/// # Errors
/// When the file cannot be read, or has more than 256 MiB.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, Wrong> {
    let name = path.display().to_string();
    let file = input::open(path, "a recording").map_err(|error| unreadable(&name, &error))?;
    unpacked(&name, file)
}

fn unreadable(name: &str, error: &io::Error) -> Wrong {
    Wrong::of(name, format!("cannot be read: {}", why(error)))
}

/// Formats of files that are packed by other tools than gzip: each with the first bytes of a file, the name of the
/// format, and the command that unpacks it.
const PACKED: [(&[u8], &str, &str); 7] = [
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz", "xz -dc"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "zstd -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4", "lz4 -dc"),
    (&[0x5d, 0, 0, 0x80, 0, 0xff], "lzma", "xz -dc --format=lzma"),
    (b"LZIP", "lzip", "lzip -dc"),
    (&[0x1f, 0x9d], "compress", "zcat"),
];

/// Length of the longest magic number in [`PACKED`], bytes.
const MAGIC_BYTES_MAX: u64 = 6;

fn unpacked(name: &str, mut input: impl Read) -> Result<Vec<u8>, Wrong> {
    let told = |error: &io::Error| unreadable(name, error);
    let mut start = Vec::new();
    input.by_ref().take(MAGIC_BYTES_MAX).read_to_end(&mut start).map_err(|error| told(&error))?;
    let is_packed = start.starts_with(&[0x1f, 0x8b]);
    if let Some((_, by, unpack)) = PACKED.iter().find(|(magic, ..)| start.starts_with(magic)) {
        let what = format!("it is packed by {by}: `{unpack} FILE | highwater doctor -` reads it");
        return Err(Wrong::of(name, what));
    }
    let whole = io::Cursor::new(start).chain(input);
    let mut bytes = Vec::new();
    let read = if is_packed {
        without_mark(MultiGzDecoder::new(whole)).and_then(|text| text.take(BYTES_MAX + 1).read_to_end(&mut bytes))
    } else {
        whole.take(BYTES_MAX + 1).read_to_end(&mut bytes)
    };
    read.map_err(|error| told(&error))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Wrong::of(name, format!("it has more than {} MiB", BYTES_MAX >> 20)));
    }
    Ok(bytes)
}

/// Returns the time, s, that passed from `earlier` to `now`, which are times of day. If `now` is less than `earlier`,
/// midnight is assumed to lie between the two. Returns none if half a day or more would then have passed, since no tool
/// waits so long.
fn since(earlier: f64, now: f64) -> Option<f64> {
    const DAY: f64 = 86_400.0;
    let seconds = (now - earlier).rem_euclid(DAY);
    (now >= earlier || seconds < DAY / 2.0).then_some(seconds)
}

/// Reads a number as tools print it: with a decimal point or, in some languages, with a decimal comma.
fn number(word: &str) -> Option<f64> {
    let number = if word.contains(',') { word.replace(',', ".").parse() } else { word.parse() };
    number.ok().filter(|number: &f64| number.is_finite())
}

/// Reads a figure with its unit, as sysstat prints it with `--human` or `-h` in columns of sizes and shares: `1.2G`,
/// `99.5%`.
fn human(column: &str, word: &str) -> Option<f64> {
    match column.starts_with('%') {
        true => number(word.strip_suffix('%')?),
        false => column.to_ascii_lowercase().contains("kb").then(|| looks::size_kib(word, 1.0))?,
    }
}

/// Range of plausible figures: no counter of a kernel is negative, or larger than 64 bits can hold.
const COUNTED: std::ops::Range<f64> = 0.0..18_446_744_073_709_551_616.0;

/// Reads a line of numbers, each under a column name of `heading`.
fn under(heading: &Arc<[String]>, words: &[&str], file: &str, line: usize) -> Result<Figures, Wrong> {
    if words.len() != heading.len() {
        let what = format!("expected {} numbers, for {}: found {}", heading.len(), heading.join(" "), words.len());
        return Err(Wrong::at(file, line, what));
    }
    let one = |(name, word): (&String, &&str)| match number(word).or_else(|| human(name, word)) {
        Some(value) if COUNTED.contains(&value) => Ok(value),
        Some(_) => {
            Err(Wrong::at(file, line, format!("expected a number from 0 to 2^64 in column {name}: found `{word}`")))
        }
        None => Err(Wrong::at(file, line, format!("expected a number in column {name}: found `{word}`"))),
    };
    let figures = heading.iter().zip(words).map(one).collect::<Result<_, Wrong>>()?;
    Ok(Figures(vec![(heading.clone(), figures)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write as _;

    #[test]
    fn packed_files_are_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gz");
        let mut packer = flate2::write::GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::fast());
        packer.write_all("\u{feff}pgfault 1\n".as_bytes()).unwrap();
        packer.finish().unwrap();
        assert_eq!(read(&path).unwrap(), "pgfault 1\n");
        assert_eq!(read(&folder.path().join("no")).unwrap_err().what, "cannot be read: no such file or directory");
        let plain = folder.path().join("a");
        std::fs::write(&plain, "x").unwrap();
        assert_eq!(read(&plain).unwrap(), "x");
        std::fs::write(&plain, [0x1f, 0x8b, 1]).unwrap();
        assert!(read(&plain).unwrap_err().to_string().contains("cannot be read"));
    }

    #[test]
    fn files_that_are_packed_otherwise_are_named_with_what_unpacks_them() {
        let folder = tempfile::tempdir().unwrap();
        for (start, command) in [
            (&[0xfd, b'7', b'z', b'X', b'Z', 0, 0, 4][..], "xz -dc"),
            (&[0x28, 0xb5, 0x2f, 0xfd, 4, 0], "zstd -dc"),
            (b"BZh91AY&SY", "bzip2 -dc"),
            (&[0x04, 0x22, 0x4d, 0x18, 1], "lz4 -dc"),
        ] {
            let path = folder.path().join("vmstat.txt");
            std::fs::write(&path, start).unwrap();
            let told = read(&path).unwrap_err().to_string();
            assert!(told.ends_with(&format!("`{command} FILE | highwater doctor -` reads it")), "{told}");
        }
        // A short text has none of the magic bytes.
        assert_eq!(read_input("s", &b"B"[..]).unwrap(), "B");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_folder_above_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("logs/web1");
        std::fs::create_dir_all(&below).unwrap();
        let elsewhere = folder.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        for file in [folder.path().join("other"), below.join("mine"), elsewhere.join("linked")] {
            std::fs::write(file, "x").unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), below.join("above")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, below.join("beside")).unwrap();
        let mut wrong = Vec::new();
        assert_eq!(files_below(&below, 8, &mut wrong), [below.join("beside/linked"), below.join("mine")]);
        assert_eq!(wrong, []);
    }
}

//! Texts of a moment: files of `/proc` and of cgroups, and output of `free`, `top`, `slabtop`, `swapon` and `sysctl`.
//!
//! Each kind is a [`Look`]. It takes lines one by one and says of each whether the line is its own. A look can thus be
//! read from a file, from a paste with other lines between, and repeatedly from a text with several. Missing values are
//! none.
//!
//! Next: [`meminfo`].

pub mod buddyinfo;
pub mod cgroup_files;
pub mod formats;
pub mod free;
pub mod meminfo;
pub mod pressure;
pub mod processes;
pub mod slabs;
pub mod swaps;
pub mod sysctls;
pub mod vmstat_file;
pub mod zoneinfo;

pub use buddyinfo::{Buddyinfo, Pagetypeinfo};
pub use cgroup_files::CgroupFiles;
pub use free::Free;
pub use meminfo::Meminfo;
pub use pressure::Pressure;
pub use processes::Processes;
pub use slabs::Slabs;
pub use swaps::Swaps;
pub use sysctls::Sysctls;
pub use vmstat_file::VmstatFile;
pub use zoneinfo::Zoneinfo;

use super::kernel_log::Log;

/// A text about one moment, such as a file of `/proc`, of any kind, with facts that it does not state.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// `/proc/meminfo`.
    Meminfo(Meminfo),
    /// `/proc/vmstat`.
    Vmstat(VmstatFile),
    /// `/proc/zoneinfo`.
    Zoneinfo(Zoneinfo),
    /// `/proc/buddyinfo`, or the sums of `/proc/pagetypeinfo`.
    Buddyinfo(Buddyinfo),
    /// `slabtop`, or `/proc/slabinfo`.
    Slabs(Slabs),
    /// PSI of a resource; none if neither the file's name nor a command names it.
    Pressure(Option<Resource>, Pressure),
    /// Files of a cgroup.
    Cgroup(CgroupFiles),
    /// `/proc/swaps`.
    Swaps(Swaps),
    /// `free`, with the unit of the command before it.
    Free(Free, Option<free::Unit>),
    /// `top` or `ps`.
    Processes(Processes),
    /// `sysctl`.
    Sysctls(Sysctls),
    /// A kernel log.
    Log(Log),
}

/// A resource of PSI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Memory.
    Memory,
    /// Memory of a cgroup: `memory.pressure`.
    MemoryOfGroup,
    /// Disks.
    Io,
    /// CPUs.
    Cpu,
}

impl Resource {
    /// Returns the resource of a path or a command: `/proc/pressure/io`, `memory.pressure`, `cat /proc/pressure/cpu`.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        let file = path.split(['/', ' ']).rfind(|part| !part.is_empty())?;
        if cgroup_files::file_name(file) == Some("memory.pressure") {
            return Some(Self::MemoryOfGroup);
        }
        let names = [("memory", Self::Memory), ("io", Self::Io), ("cpu", Self::Cpu)];
        names.into_iter().find_map(|(name, resource)| {
            let is_alone = path.contains("pressure") && file.split(['.', '-', '_']).any(|part| part == name);
            is_alone.then_some(resource)
        })
    }
}

/// The answer of a reader to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// The line belongs to this text.
    Yes,
    /// The line belongs to no text of this kind.
    No,
    /// The line begins another text of this kind.
    Next,
}

/// A text of a moment, read line by line.
pub trait Look: Default {
    /// Takes a line. After [`Took::Next`] the line was not used.
    fn take(&mut self, line: &str) -> Took;

    /// Returns the first text of this kind within a text.
    #[must_use]
    fn of(text: &str) -> Self {
        let mut look = Self::default();
        for line in text.lines() {
            if look.take(line) == Took::Next {
                break;
            }
        }
        look
    }
}

/// Returns all texts of this kind in some lines, in order. `left_out` gets the lines that belong to none, except blank
/// ones.
pub fn all<'a, L: Look, T: 'a>(
    lines: impl IntoIterator<Item = &'a T>,
    text: impl Fn(&T) -> &str,
    mut left_out: impl FnMut(&'a T),
) -> Vec<L> {
    let mut found = vec![L::default()];
    for line in lines {
        let words = text(line);
        let mut took = found.last_mut().map_or(Took::No, |look| look.take(words));
        if took == Took::Next {
            let mut look = L::default();
            took = look.take(words);
            found.push(look);
        }
        if took == Took::No && !words.trim().is_empty() {
            left_out(line);
        }
    }
    found
}

/// Returns the KiB of a size with a unit, as tools print it: `45906400K`, `1.2g`, `15Gi`, `512Mi`, `0B`, `1.7T`. A bare
/// number is in units of `bare_kib`.
#[must_use]
pub fn size_kib(word: &str, bare_kib: f64) -> Option<f64> {
    let end = word.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ',')).unwrap_or(word.len());
    let number = super::number(&word[..end])?;
    let unit = match word[end..].trim_end_matches(['i', 'B', 'b']) {
        "" if end == word.len() => bare_kib,
        "" => 1.0 / 1024.0,
        "K" | "k" => 1.0,
        "M" | "m" => 1024.0,
        "G" | "g" => 1024.0 * 1024.0,
        "T" | "t" => 1024.0 * 1024.0 * 1024.0,
        "P" | "p" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    (number >= 0.0).then_some(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_units_of_all_tools() {
        for (word, kib) in [
            ("45906400K", 45_906_400.0),
            ("1.5g", 1_572_864.0),
            ("1,5g", 1_572_864.0),
            ("15Gi", 15_728_640.0),
            ("0B", 0.0),
            ("2048B", 2.0),
            ("7", 7.0),
            ("1.25M", 1280.0),
            ("180508k", 180_508.0),
        ] {
            assert_eq!(size_kib(word, 1.0), Some(kib), "{word}");
        }
        assert_eq!(size_kib("7", 1024.0), Some(7168.0));
        for word in ["", "x", "-7", "7q", "1.2.3", "K"] {
            assert_eq!(size_kib(word, 1.0), None, "{word}");
        }
    }
}

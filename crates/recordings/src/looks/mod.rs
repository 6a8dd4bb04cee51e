//! Texts about a moment: files of `/proc` and of cgroups, and output of `free`, `top`, `slabtop`, `swapon` and
//! `sysctl`.
//!
//! Each kind of text is a [`Look`]. Its reader is given lines one by one, and says for each whether the line belongs to
//! the text. A text can therefore be read from a file, from a paste with other lines in between, and from a file with
//! several such texts. The value of a figure that is missing in the text is `None`.
//!
//! Next: [`meminfo`].

pub mod buddyinfo;
pub mod cgroup_files;
pub mod formats;
pub mod free;
pub mod meminfo;
pub mod numastat;
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
pub use numastat::Numastat;
pub use pressure::Pressure;
pub use processes::Processes;
pub use slabs::Slabs;
pub use swaps::Swaps;
pub use sysctls::Sysctls;
pub use vmstat_file::VmstatFile;
pub use zoneinfo::Zoneinfo;

use super::kernel_log::Log;

/// A text that shows the computer at one moment, such as a file of `/proc`. A variant may also hold facts that the text
/// itself does not state, such as a unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// The contents of `/proc/meminfo`.
    Meminfo(Meminfo),
    /// The contents of `/proc/vmstat`.
    Vmstat(VmstatFile),
    /// The contents of `/proc/zoneinfo`.
    Zoneinfo(Zoneinfo),
    /// The contents of `/proc/buddyinfo`; or those of `/proc/pagetypeinfo`, summed over migrate types.
    Buddyinfo(Buddyinfo),
    /// The output of `slabtop`, or the contents of `/proc/slabinfo`.
    Slabs(Slabs),
    /// The contents of a file of PSI, and the resource that it is about. The resource is none if neither the file's
    /// name nor a command states it.
    Pressure(Option<Resource>, Pressure),
    /// The contents of files of a cgroup.
    Cgroup(CgroupFiles),
    /// The contents of `/proc/swaps`, or the output of `swapon`.
    Swaps(Swaps),
    /// The output of `free`, and the unit that the command line before it requests.
    Free(Free, Option<free::Unit>),
    /// The output of `top` or `ps`.
    Processes(Processes),
    /// The output of `sysctl`.
    Sysctls(Sysctls),
    /// A kernel log.
    Log(Log),
}

/// A resource for which the kernel reports PSI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Memory of the whole computer, as in `/proc/pressure/memory`.
    Memory,
    /// Memory of a cgroup, as in `memory.pressure`.
    MemoryOfGroup,
    /// Disks, as in `/proc/pressure/io`.
    Io,
    /// CPUs, as in `/proc/pressure/cpu`.
    Cpu,
    /// Handlers of interrupts, as in `/proc/pressure/irq`.
    Irq,
}

impl Resource {
    /// Returns the resource that the path of a file of PSI, or a command that shows one, names: `/proc/pressure/io`,
    /// `memory.pressure`, `cat /proc/pressure/cpu`, `saved/io`. Returns none if it names no resource.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        let file = path.split(['/', ' ']).rfind(|part| !part.is_empty())?;
        if cgroup_files::file_name(file) == Some("memory.pressure") {
            return Some(Self::MemoryOfGroup);
        }
        let is_told = |name: &&str| path.contains("pressure") && file.split(['.', '-', '_']).any(|part| part == *name);
        let told = || ["memory", "io", "cpu", "irq"].iter().find(|name| is_told(name));
        Self::of_name(file).or_else(|| Self::of_name(told()?))
    }

    /// Returns the resource of the file of this name in `/proc/pressure`; none for another name.
    fn of_name(name: &str) -> Option<Self> {
        match name {
            "memory" => Some(Self::Memory),
            "io" => Some(Self::Io),
            "cpu" => Some(Self::Cpu),
            "irq" => Some(Self::Irq),
            _ => None,
        }
    }
}

/// The result of giving a line to a reader ([`Look`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// The line belongs to the text that is being read.
    Yes,
    /// The line was not taken: the reader understands one kind of text, such as a copy of `/proc/meminfo`, and the line
    /// belongs to none.
    No,
    /// The reader did not take the line, because the line begins the next text of the reader's kind.
    Next,
}

/// A reader for one kind of text, such as `/proc/meminfo`, that shows the state of a computer at one moment. The text
/// is read line by line.
pub trait Look: Default {
    /// Reads a line, if it belongs to the text that is being read. After [`Took::Next`] the line must be given to a new
    /// reader.
    fn take(&mut self, line: &str) -> Took;

    /// Reads the first text of the reader's kind within a longer text, and returns the reader with what it has read.
    /// Skips lines that belong to no text of this kind.
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

/// Reads all texts of the kind `L` in `lines`, in their order. Calls `left_out` with each line that belongs to no text
/// of this kind, except for blank lines.
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

/// Converts a number with a unit, as tools print it, to KiB: `45906400K`, `1.2g`, `15Gi`, `512Mi`, `0B`, `1.7T`. A
/// number without a unit is taken to be in units of `bare_kib` KiB.
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

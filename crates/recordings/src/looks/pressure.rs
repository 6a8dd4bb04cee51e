//! Times for which tasks were stalled (PSI), from `/proc/pressure/memory`, `io`, `cpu`, and from `memory.pressure` of
//! cgroups.

use super::{Look, Resource, Took};
pub use machine::pressure::Stalls;

/// The contents of a file of PSI.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pressure {
    /// The line `some`: how much of the time at least one task was stalled.
    pub some: Option<Stalls>,
    /// The line `full`: how much of the time all tasks with work were stalled at once.
    pub full: Option<Stalls>,
}

impl Pressure {
    /// Returns the figures if the text has both the line `some` and the line `full`; otherwise none.
    #[must_use]
    pub fn both(self) -> Option<machine::pressure::Pressure> {
        Some(machine::pressure::Pressure { some: self.some?, full: self.full? })
    }
}

/// Returns whether a line belongs to a file of PSI.
#[must_use]
pub fn begins(line: &str) -> bool {
    parse(line).is_some()
}

/// Splits a line that `grep` printed, such as `/proc/pressure/io:some avg10=…`, into the resource that its path names and
/// the line of the file. Returns none for another line, and for a line of a cgroup's file.
#[must_use]
pub fn named(line: &str) -> Option<(Resource, &str)> {
    let (path, rest) = line.trim_start().split_once(':')?;
    let resource = Resource::of_path(path)?;
    (begins(rest) && resource != Resource::MemoryOfGroup).then_some((resource, rest))
}

/// Returns the resource that a line above a file's lines names: `==> /proc/pressure/io <==`, as `head` writes it, or
/// `/proc/pressure/io:`. Returns none for another line, and for a line that names a cgroup's file.
#[must_use]
pub fn heading(line: &str) -> Option<Resource> {
    let line = line.trim();
    let path = line.strip_prefix("==>").and_then(|rest| rest.strip_suffix("<==")).or_else(|| line.strip_suffix(':'))?;
    let path = path.trim();
    Resource::of_path(path).filter(|resource| !path.contains(' ') && *resource != Resource::MemoryOfGroup)
}

/// Returns the resources of the files that a command shows one after the other, such as `cat /proc/pressure/{cpu,io}`.
/// `count` is the number of files that it showed. Returns none if the command does not tell which they were.
#[must_use]
pub fn shown_by(command: &str, count: usize) -> Option<Vec<Resource>> {
    // A shell sorts the names that `*` stands for. Linux has `irq` from 6.1 on, if interrupts' time is accounted.
    const ALL: [Resource; 3] = [Resource::Cpu, Resource::Io, Resource::Memory];
    const WITH_IRQ: [Resource; 4] = [Resource::Cpu, Resource::Io, Resource::Irq, Resource::Memory];
    let mut shown = Vec::new();
    for word in command.split_whitespace().filter(|word| word.contains("pressure")) {
        let (folder, file) = word.rsplit_once('/').unwrap_or(("", word));
        match file.strip_prefix('{').and_then(|names| names.strip_suffix('}')) {
            Some(names) => shown.extend(names.split(',').filter_map(|name| Resource::of_name(name.trim()))),
            None if file == "*" && folder.ends_with("pressure") => {
                shown.extend(if count == WITH_IRQ.len() { WITH_IRQ.as_slice() } else { &ALL });
            }
            None => shown.extend(Resource::of_path(word)),
        }
    }
    (shown.len() == count).then_some(shown)
}

/// Reads a line of a file of PSI. Returns whether it is the line `some` (and not `full`), and the line's figures.
fn parse(line: &str) -> Option<(bool, Stalls)> {
    let mut words = line.split_whitespace();
    let is_some = match words.next()? {
        "some" => true,
        "full" => false,
        _ => return None,
    };
    let mut value = |name: &str| words.next()?.strip_prefix(name);
    let percent = [value("avg10=")?, value("avg60=")?, value("avg300=")?];
    let total_us = value("total=")?.parse().ok()?;
    let [Ok(short), Ok(middle), Ok(long)] = percent.map(str::parse) else { return None };
    Some((is_some, Stalls { percent: [short, middle, long], total_us }))
}

impl Look for Pressure {
    fn take(&mut self, line: &str) -> Took {
        let Some((is_some, stalls)) = parse(line) else { return Took::No };
        // A file has the line `some` first.
        if self.full.is_some() || is_some && self.some.is_some() {
            return Took::Next;
        }
        let place = if is_some { &mut self.some } else { &mut self.full };
        *place = Some(stalls);
        Took::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_read() {
        let text = "some avg10=1.50 avg60=0.00 avg300=0.02 total=5606772\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=2773432\n";
        let some = Stalls { percent: [1.5, 0.0, 0.02], total_us: 5_606_772 };
        let full = Stalls { percent: [0.25, 0.0, 0.0], total_us: 2_773_432 };
        assert_eq!(Pressure::of(text), Pressure { some: Some(some), full: Some(full) });
        assert_eq!(Pressure::of(text).both().map(|both| both.to_string()).as_deref(), Some(text), "read and written");
        // Before 5.13 /proc/pressure/cpu has only one line.
        assert_eq!(Pressure::of(text.lines().next().unwrap()).full, None);
        assert!(!begins("some avg10=1.50") && !begins("some text"));
    }
}

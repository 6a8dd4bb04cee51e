//! Working sets of anonymous memory. A write to `clear_refs` makes the kernel forget which pages were touched. After an
//! interval, `smaps` says how much of each area was touched since then.

use crate::memory::kib;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

/// A kind of anonymous memory, such as the heap: its resident bytes, and the part of them that was touched in an
/// interval.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Area {
    name: String,
    resident_bytes: u64,
    touched_bytes: u64,
}

/// A measurement of the working set: the anonymous memory that was touched in the interval before `time_us`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    time_us: u64,
    areas: Vec<Area>,
}

impl Sample {
    /// Returns the sample as JSON for the metadata of a trace: the sums, and each area.
    #[must_use]
    pub fn described(&self) -> Value {
        let sum = |of: fn(&Area) -> u64| self.areas.iter().map(of).sum::<u64>();
        let areas = self.areas.iter().map(|area| {
            json!({ "area": area.name, "resident_bytes": area.resident_bytes, "touched_bytes": area.touched_bytes })
        });
        json!({
            "time_us": self.time_us,
            "resident_bytes": sum(|area| area.resident_bytes),
            "touched_bytes": sum(|area| area.touched_bytes),
            "areas": areas.collect::<Vec<_>>(),
        })
    }
}

/// Makes the kernel forget which anonymous pages of `processes` were touched. Returns the processes for which this
/// succeeded.
pub fn forget(processes: &BTreeSet<u32>) -> BTreeSet<u32> {
    const ANONYMOUS: &str = "2";
    let is_done = |process: &&u32| fs::write(format!("/proc/{process}/clear_refs"), ANONYMOUS).is_ok();
    processes.iter().filter(is_done).copied().collect()
}

/// Measures how much anonymous memory was touched since the last [`forget`], which returned `cleared`. Returns `None`
/// if no process of `cleared` has anonymous memory now.
pub fn look(time_us: u64, processes: &BTreeSet<u32>, cleared: &BTreeSet<u32>) -> Option<Sample> {
    let mut areas: Vec<Area> = Vec::new();
    let known = processes.intersection(cleared);
    let texts = known.filter_map(|process| fs::read_to_string(format!("/proc/{process}/smaps")).ok());
    let mut is_any = false;
    for area in texts.flat_map(|text| areas_of(&text)) {
        is_any = true;
        match areas.iter_mut().find(|known| known.name == area.name) {
            Some(known) => {
                known.resident_bytes += area.resident_bytes;
                known.touched_bytes += area.touched_bytes;
            }
            None => areas.push(area),
        }
    }
    is_any.then_some(Sample { time_us, areas })
}

/// Reads the areas with anonymous memory from the text of `/proc/PID/smaps`: the heap, the stacks, anonymous mappings,
/// and private copies of file pages.
fn areas_of(smaps: &str) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    let is_head = |line: &str| line.split(' ').next().is_some_and(|word| word.contains('-') && !word.ends_with(':'));
    let mut lines = smaps.lines().peekable();
    while let Some(head) = lines.next() {
        if !is_head(head) {
            continue;
        }
        let mut body = String::new();
        while let Some(line) = lines.next_if(|line| !is_head(line)) {
            body.push_str(line);
            body.push('\n');
        }
        let of = |name: &str| kib(&body, name).unwrap_or(0) << 10;
        let anonymous = of("Anonymous:");
        if anonymous == 0 {
            continue;
        }
        let path = head.split_ascii_whitespace().nth(5).unwrap_or_default();
        let name = match path {
            "" => "anonymous",
            "[heap]" => "heap",
            "[stack]" => "stack",
            path if path.starts_with("[anon") => "anonymous",
            _ => "copies of files",
        };
        let area =
            Area { name: name.to_owned(), resident_bytes: anonymous, touched_bytes: of("Referenced:").min(anonymous) };
        areas.push(area);
    }
    areas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_named_and_files_left_out() {
        let text = "\
5581d8e00000-5581d8e21000 rw-p 00000000 00:00 0                          [heap]
Size:                132 kB
Rss:                 100 kB
Referenced:           40 kB
Anonymous:           100 kB
VmFlags: rd wr mr
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 
Rss:                  64 kB
Referenced:           64 kB
Anonymous:            64 kB
7f0000200000-7f0000300000 r--p 00000000 08:01 77                         /lib/libc.so.6
Rss:                 900 kB
Referenced:          900 kB
Anonymous:             0 kB
";
        let area = |name: &str, resident: u64, touched: u64| Area {
            name: name.to_owned(),
            resident_bytes: resident << 10,
            touched_bytes: touched << 10,
        };
        assert_eq!(areas_of(text), [area("heap", 100, 40), area("anonymous", 64, 64)]);
        assert_eq!(areas_of("nonsense\n- -\n\n"), []);
    }

    #[test]
    fn touched_memory_of_this_process_is_seen() {
        let own = BTreeSet::from([std::process::id()]);
        let cleared = forget(&own);
        if cleared.is_empty() {
            eprintln!("skipped: clear_refs is not to be had here");
            return;
        }
        let mut memory = vec![0_u8; 32 << 20];
        for page in memory.chunks_mut(4096) {
            page[0] = 1;
        }
        let sample = look(7, &own, &cleared).expect("this process has memory");
        let described = sample.described();
        assert!(described["touched_bytes"].as_u64() >= Some(32 << 20), "{described}");
        assert_eq!(look(7, &own, &BTreeSet::new()), None);
        drop(memory);
    }
}

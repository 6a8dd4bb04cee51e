//! What the user asks of a trace on a machine, as a plan of runs.

use super::MachineOptions;
use crate::cli::End;
use crate::untimed::sizes::{self, Size};
use ::trace::Metadata;
use ::trace::request::PAGE_BYTES;
use catalogue::find;
use catalogue::ground::{Ground, GroundOptions};
use engine::kernel::choice;
use report::Column;
use std::path::Path;
use study::plan::{OF_MACHINE, OF_PARAMS, Request, Set};

/// The name of the machine on which a trace runs.
const MACHINE: &str = "trace-1g";

/// The key of the limit of a machine's memory cgroup.
const LIMIT: &str = "machine.memory.limit_pages";

/// The key of the size of a machine's only zone.
const MANAGED: &str = "machine.memory.nodes.zones.managed_pages";

/// The key of the largest readahead window.
pub const READ_AHEAD: &str = "access.read_ahead_kb";

/// Shares of a size at which a simulated load runs as well, so that the report shows how much the figures depend on it.
const NEARBY: [f64; 2] = [0.9, 1.1];

/// Largest memory of a machine, bytes.
const MEMORY_MAX: u64 = 1 << 40;

/// Smallest memory of a machine, bytes.
const MEMORY_MIN: u64 = 4 << 20;

/// The plan of the runs, and what its columns mean.
pub struct Asked {
    /// The runs.
    pub request: Request,
    /// The sizes of memory that the user gave, pages, in their order.
    pub memory_pages: Vec<u64>,
    /// The key whose value is the size of memory in a column.
    pub memory_key: &'static str,
    /// Keys of which all lines have one value.
    pub silent: Vec<String>,
    /// Whether each size of memory runs at nearby sizes, too.
    pub has_nearby: bool,
    /// Values that the user gave and that all lines have.
    pub given: Vec<String>,
    /// `read_ahead_kb` of the recorded disk, if it was taken from the record.
    pub read_ahead_kb: Option<u64>,
}

impl Asked {
    /// Makes the plan for a trace with this metadata. If `has_nearby` is set, and all runs are simulated, each size of
    /// memory runs at nearby sizes, too: in real time this would take too long.
    pub fn of(options: &MachineOptions, file: &Path, metadata: &Metadata, has_nearby: bool) -> Result<Self, End> {
        let (mut memory, mut kernels) = (options.memory.clone(), options.kernels.clone());
        let mut set = options.set.clone();
        for Set { key, values } in &options.what_if {
            match key.as_str() {
                "memory" => {
                    let parsed = values.iter().map(|value| parse_memory(value)).collect::<Result<Vec<_>, _>>();
                    memory.extend(parsed.map_err(|why| End::Usage(format!("--what-if memory: {why}")))?);
                }
                "kernel" | "kernels" => kernels.extend(values.iter().cloned()),
                _ => set.push(Set { key: full_key(key)?, values: values.clone() }),
            }
        }
        let memory_pages = crate::cli::options::each_once(&memory).iter().map(|bytes| bytes / PAGE_BYTES).collect();
        let mut asked = Self {
            request: Request {
                experiment: file.display().to_string(),
                kernels: crate::cli::options::each_once(&kernels),
                machine: options.machine.clone(),
                seed: options.seeds.seed,
                runs: options.seeds.runs.into(),
                grounds: crate::cli::options::each_once(&options.on),
                place: GroundOptions {
                    folder: options.dir.clone().unwrap_or_else(std::env::temp_dir),
                    is_limited: true,
                    kernel_images: options.kernel_image.clone(),
                    kernel_modules: options.guest.kernel_modules.clone(),
                    start: options.guest.start(),
                    ..GroundOptions::default()
                },
                ..Request::default()
            },
            memory_pages,
            memory_key: LIMIT,
            silent: Vec::new(),
            has_nearby: has_nearby && options.on.iter().all(|ground| *ground == Ground::Sim),
            given: Vec::new(),
            read_ahead_kb: None,
        };
        asked.set_memory()?;
        let params = [
            ("depth", options.depth.map(|depth| depth.to_string())),
            ("think_us", options.think.map(|think| think.to_string())),
            ("timed", options.timed.then(|| "true".to_owned())),
        ];
        for (key, value) in params {
            if let Some(value) = value {
                asked.silent(&format!("{OF_PARAMS}{key}"), &value);
            }
        }
        if let Some(kib) = recorded_readahead(metadata).filter(|_| set.iter().all(|set| set.key != READ_AHEAD)) {
            asked.read_ahead_kb = Some(kib);
            asked.silent(READ_AHEAD, &kib.to_string());
        }
        // A value that all lines have is told once, below the table.
        let is_told =
            |set: &Set| options.what_if.iter().any(|asked| full_key(&asked.key).is_ok_and(|key| key == set.key));
        for set in set.iter().filter(|set| set.values.len() == 1 && !is_told(set)) {
            asked.silent.push(set.key.clone());
            asked.given.push(format!("{}={}", set.key, set.values[0]));
        }
        asked.request.set.extend(set);
        Ok(asked)
    }

    /// Gives all columns a value that no line names.
    fn silent(&mut self, key: &str, value: &str) {
        self.silent.push(key.to_owned());
        self.request.set.push(Set { key: key.to_owned(), values: vec![value.to_owned()] });
    }

    /// Returns the size of memory in a column, pages; none if the column has no such value.
    pub fn memory_of(&self, column: &Column) -> Option<u64> {
        column.set.get(self.memory_key)?.parse().ok()
    }

    /// Returns whether a column has a size of memory that the user did not give, and that runs only because it is near
    /// a given one.
    pub fn is_only_nearby(&self, column: &Column) -> bool {
        self.memory_of(column).is_some_and(|pages| !self.memory_pages.contains(&pages))
    }

    /// Returns the sizes near a size, pages.
    pub fn nearby(&self, pages: u64) -> impl Iterator<Item = u64> + use<> {
        let shares: &[f64] = if self.has_nearby { &NEARBY } else { &[] };
        shares.iter().map(move |share| (pages as f64 * share) as u64)
    }

    /// Gives the machine memory of each size: the limit of its cgroup if it has one, otherwise the size of its zone.
    fn set_memory(&mut self) -> Result<(), End> {
        if self.memory_pages.is_empty() {
            let why = "--what-if: how much memory? Expected memory=1G,2G among its values, or --memory";
            return Err(End::Usage(why.to_owned()));
        }
        let word = self.request.machine.as_deref().unwrap_or(MACHINE);
        let layout = find::machine(word)?.memory;
        let sizes = self.memory_pages.iter().flat_map(|pages| self.nearby(*pages).chain([*pages]));
        let mut sizes: Vec<u64> = sizes.collect();
        sizes.sort_unstable();
        sizes.dedup();
        let most = sizes.last().copied().unwrap_or(0);
        let zones: Vec<u64> = layout.nodes.iter().flat_map(|node| &node.zones).map(|zone| zone.managed_pages).collect();
        if layout.limit_pages.is_none() {
            self.memory_key = MANAGED;
        }
        // The computer around a cgroup must have room for the kernel's own memory and for free pages.
        let room = most + most / 2;
        let fits = layout.limit_pages.is_some() && zones.iter().sum::<u64>() >= room;
        if !fits && zones.len() != 1 {
            return Err(End::Usage(format!(
                "machine `{word}` has {} zones, whose sizes --memory cannot choose: expected a machine with a cgroup \
                 (`limit_pages`) or with one zone",
                zones.len()
            )));
        }
        if layout.limit_pages.is_some() && !fits {
            self.silent(MANAGED, &room.to_string());
        }
        let values = sizes.iter().map(ToString::to_string).collect();
        self.request.set.push(Set { key: self.memory_key.to_owned(), values });
        Ok(())
    }
}

/// Returns `read_ahead_kb` of the recorded disk that has most of the files' bytes; none if the trace does not have it.
fn recorded_readahead(metadata: &Metadata) -> Option<u64> {
    let disks = metadata.get("readahead_kib")?.as_object()?;
    let files = metadata.get("files").and_then(|files| files.as_array());
    let bytes_on = |disk: &str| {
        let on_disk =
            files.into_iter().flatten().filter(|file| file.get("device").and_then(|it| it.as_str()) == Some(disk));
        on_disk.filter_map(|file| file.get("last_bytes")?.as_u64()).sum::<u64>()
    };
    disks.iter().max_by_key(|(disk, _)| bytes_on(disk)).and_then(|(_, kib)| kib.as_u64())
}

/// Returns the key as `--set` has it: choices of kernels may be given without their section.
fn full_key(key: &str) -> Result<String, End> {
    if matches!(key, "depth" | "think_us" | "timed" | "resident") {
        return Ok(format!("{OF_PARAMS}{key}"));
    }
    if key.contains('.') || key.starts_with(OF_MACHINE) {
        return Ok(key.to_owned());
    }
    let paths: Vec<String> = choice::all().map(choice::Choice::path).collect();
    let found: Vec<&String> =
        paths.iter().filter(|path| path.rsplit_once('.').is_some_and(|(_, name)| name == key)).collect();
    match found[..] {
        [path] => Ok(path.clone()),
        [] => {
            let names: Vec<&str> = paths.iter().filter_map(|path| Some(path.rsplit_once('.')?.1)).collect();
            let known: Vec<&str> = names.into_iter().chain(["memory", "kernel", "depth", "think_us"]).collect();
            let hint = placed::nearest(key, known.iter().copied());
            let hint = hint.map_or_else(String::new, |name| format!(": did you mean `{name}`?"));
            Err(End::Usage(format!("--what-if {key}: unknown key{hint}")))
        }
        _ => {
            let all: Vec<&str> = found.iter().map(|path| path.as_str()).collect();
            Err(End::Usage(format!("--what-if {key}: expected one of {}", all.join(", "))))
        }
    }
}

/// Parses a size of memory, bytes.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    let wrong = || format!("expected a size from 4M to 1T such as 512M or 1.5G, found `{text}`");
    let text = text.trim();
    // Sizes of memory often are no whole number of their unit.
    let (number, unit) = text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let bits = match unit {
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * (1_u64 << bits) as f64;
    (MEMORY_MIN as f64..=MEMORY_MAX as f64).contains(&bytes).then_some(bytes as u64).ok_or_else(wrong)
}

/// Returns the name of a size in pages, such as `512M`.
pub fn size_name(pages: u64) -> String {
    sizes::Size::name(Size::Bytes(pages * PAGE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_memory_have_a_unit() {
        assert_eq!(["64M", "1.5G", "8192k"].map(|text| parse_memory(text).unwrap() >> 20), [64, 1536, 8]);
        for wrong in ["64", "M", "", "0M", "-1G", "2T", "1Ω", "nanG"] {
            assert!(parse_memory(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn readahead_is_that_of_the_disk_with_most_bytes() {
        let metadata = serde_json::json!({
            "readahead_kib": {"8:0": 8192, "7:0": 128},
            "files": [{"device": "8:0", "last_bytes": 10}, {"device": "7:0", "last_bytes": 900}, {"device": "0:5"}],
        });
        assert_eq!(recorded_readahead(metadata.as_object().unwrap()), Some(128));
        assert_eq!(recorded_readahead(&Metadata::new()), None);
    }

    #[test]
    fn keys_of_kernels_need_no_section() {
        assert_eq!(full_key("swappiness").unwrap_or_default(), "lru.swappiness");
        assert_eq!(full_key("depth").unwrap_or_default(), "params.depth");
        assert_eq!(full_key("machine.cpu.count").unwrap_or_default(), "machine.cpu.count");
        let Err(End::Usage(why)) = full_key("swapiness") else { panic!("there is no such key") };
        assert_eq!(why, "--what-if swapiness: unknown key: did you mean `swappiness`?");
    }
}

//! A cgroup of the running kernel: its own counters, and the search for it by name or by process.

use super::group_stat;
use super::signs::{Bounds, Signs};
use super::usage::{MemoryUse, Usage};
use crate::stat::snapshot::{Source, Stalled, stalled};
use engine::stat::Vmstat;
use figures::cgroup;
use figures::cgroup::times_at_limit;
use figures::counters::{difference, named};
use machine::PAGE_BYTES;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Number of levels of cgroups below the root that are searched.
const DEPTH_MAX: usize = 12;

/// Folders at which cgroup hierarchies with the memory controller are mounted: that of version 2, that of version 1,
/// and that of version 2 on a computer that also uses version 1.
const HIERARCHIES: [&str; 3] = ["sys/fs/cgroup", "sys/fs/cgroup/memory", "sys/fs/cgroup/unified"];

/// Smallest number of bytes in a limit file that means "no limit". Without a limit, a cgroup of version 1 prints the
/// largest number that it can store.
const NO_LIMIT: u64 = 1 << 60;

/// Names of the cgroup files whose values are shown as settings.
const SETTINGS: [&str; 8] = [
    "memory.max",
    "memory.high",
    "memory.low",
    "memory.min",
    "memory.swap.max",
    "memory.swappiness",
    "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes",
];

/// The counters and levels of a cgroup at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupNow {
    /// The cgroup's `memory.stat`, which has counts of events, and sizes in bytes.
    stat: Vmstat,
    stalled: Option<Stalled>,
    /// Bytes charged to the cgroup.
    used: Option<u64>,
    /// The smallest memory limit of the cgroup and of the cgroups above it, bytes.
    limit: Option<u64>,
    in_swap: Option<u64>,
    /// Number of times that the cgroup reached its memory limit; `None` if the kernel does not count this.
    pub at_limit: Option<u64>,
    /// Counters of how often the cgroup needed memory and did not get it.
    pub out_of_memory: Option<cgroup::OutOfMemory>,
    /// Counts in `memory.events.local`, which are events of the cgroup itself; without this file, counts in
    /// `memory.events`, which include the cgroups below. Empty for cgroups of version 1, which have neither file.
    events: Vmstat,
    /// The cgroup's own `memory.max`, `memory.high` and `memory.low`, pages; infinite if the file says `max`, none if
    /// there is no such file.
    bounds: [Option<f64>; 3],
}

fn number(folder: &Path, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok())
}

impl GroupNow {
    /// Reads the counters and levels in the files of a cgroup. They are empty if the memory controller is off in this
    /// cgroup.
    pub fn take(folder: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
        Self {
            stat: text("memory.stat").map(|text| named(&text)).unwrap_or_default(),
            stalled: text("memory.pressure").map(|text| stalled(&text)),
            used: number(folder, &["memory.current", "memory.usage_in_bytes"]),
            limit: folder.ancestors().filter_map(limit).min(),
            in_swap: number(folder, &["memory.swap.current"]),
            at_limit: times_at_limit(folder),
            out_of_memory: cgroup::out_of_memory(folder),
            events: ["memory.events.local", "memory.events"]
                .into_iter()
                .find_map(text)
                .map(|text| named(&text))
                .unwrap_or_default(),
            bounds: ["memory.max", "memory.high", "memory.low"].map(|name| bound(text(name)?.trim())),
        }
    }

    /// Returns the cgroup's limits and protection, with the numbers of events at these bounds since the earlier reading
    /// `before`.
    fn bounds_since(&self, before: &Self) -> Option<Bounds> {
        let grown = |name: &str| {
            let [before, after] = [before, self].map(|now| now.events.get(name).copied());
            Some(after?.saturating_sub(before.unwrap_or(0)) as f64)
        };
        let [max, high, low] = self.bounds;
        let used = self.used.map(|bytes| bytes as f64 / PAGE_BYTES as f64);
        Bounds { high_events: grown("high"), low_events: grown("low"), used, max, high, low }.if_any()
    }

    /// Returns whether the cgroup reports its use of memory. The root of a hierarchy, which is the whole computer, does
    /// not.
    pub fn has_memory(&self) -> bool {
        self.used.is_some()
    }

    /// Returns whether the kernel counts, for the cgroup, the pages that are scanned and reclaimed in it.
    pub fn counts_reclaim(&self) -> bool {
        self.stat.contains_key("pgsteal")
    }

    /// Returns the cgroup's use of memory.
    fn usage(&self) -> Option<MemoryUse> {
        Some(group_stat::usage(&self.stat, self.used?, self.limit))
    }
}

/// Converts the text of a limit file to a number of pages. The word `max` becomes infinity. Returns none for any other
/// text that is no number.
fn bound(text: &str) -> Option<f64> {
    match text {
        "max" => Some(f64::INFINITY),
        bytes => bytes.parse::<u64>().ok().map(|bytes| bytes as f64 / PAGE_BYTES as f64),
    }
}

/// Returns whether a folder is that of a cgroup of version 1 that has memory values.
pub(super) fn is_v1(folder: &Path) -> bool {
    folder.join("memory.usage_in_bytes").exists()
}

/// Returns the memory limit in the files of one cgroup, bytes, without regard to cgroups above it; none if the cgroup
/// is unlimited.
fn limit(folder: &Path) -> Option<u64> {
    number(folder, &["memory.max", "memory.limit_in_bytes"]).filter(|bytes| *bytes < NO_LIMIT)
}

/// Returns the signs (growth of counters, and levels) of a cgroup over the time between two moments.
pub(super) fn between(before: &GroupNow, after: &GroupNow, elapsed_s: f64) -> Signs {
    let waited = |of: fn(&Stalled) -> u64| {
        let [before, after] = [before, after].map(|now| now.stalled.as_ref().map(of));
        Some((after?.saturating_sub(before?) as f64 / 1e4 / elapsed_s).min(100.0))
    };
    Signs {
        some_waited_percent: waited(|it| it.some_us),
        all_waited_percent: waited(|it| it.full_us),
        swap_used: after.in_swap.map(|bytes| bytes as f64 / PAGE_BYTES as f64),
        bounds: after.bounds_since(before),
        usage: before.usage().zip(after.usage()).map(|(before, after)| Usage::between(&before.into(), &after.into())),
        ..group_stat::signs(&difference(&before.stat, &after.stat), Some(elapsed_s))
    }
}

/// Returns the contents of a cgroup's files that are named in [`SETTINGS`], by file name. Sizes of 1 MiB and more are
/// in MiB.
pub(super) fn settings(folder: &Path) -> BTreeMap<String, String> {
    let shown = |text: &str| match text.parse::<u64>() {
        Ok(bytes) if bytes >= NO_LIMIT => "max".to_owned(),
        Ok(bytes) if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        _ => text.to_owned(),
    };
    let one = |name: &&str| Some(((*name).to_owned(), shown(fs::read_to_string(folder.join(name)).ok()?.trim())));
    SETTINGS.iter().filter_map(one).collect()
}

/// Reads the counters and levels of all cgroups of the computer. Returns them by the path of the cgroup. A cgroup
/// without counters and levels is left out.
pub(super) fn all(source: &Source) -> BTreeMap<String, GroupNow> {
    let root = source.path("sys/fs/cgroup");
    let mut found = BTreeMap::new();
    walk(&root, 0, &mut |folder| {
        let told = GroupNow::take(folder);
        if told.at_limit.is_some() || told.out_of_memory.is_some() || told.has_memory() {
            let name = folder.strip_prefix(&root).unwrap_or(folder).display().to_string();
            found.insert(format!("/{name}"), told);
        }
    });
    found
}

/// Calls `look` for a folder of cgroups and for all folders below it, down to [`DEPTH_MAX`].
pub(crate) fn walk(folder: &Path, depth: usize, look: &mut dyn FnMut(&Path)) {
    look(folder);
    if depth == DEPTH_MAX {
        return;
    }
    // A cgroup may be removed during the search.
    let folders = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> =
        folders.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect();
    folders.sort();
    folders.iter().for_each(|folder| walk(folder, depth + 1, look));
}

/// Finds the folder of a cgroup by `name`: the cgroup's path or folder, the name of its last folder, or a part of that
/// name such as a container's ID. The first characters of a name or an ID are enough if they are at least six and no
/// other name or ID begins with them.
///
/// # Errors
/// When no cgroup or more than one is found, or when the cgroup has no memory values.
pub fn find(source: &Source, name: &str) -> Result<PathBuf, String> {
    let root = source.path("sys/fs/cgroup");
    let relative = name.trim_matches('/');
    let relative = HIERARCHIES.iter().find_map(|it| relative.strip_prefix(it)?.strip_prefix('/')).unwrap_or(relative);
    let is_safe = !Path::new(relative).components().any(|part| part == std::path::Component::ParentDir);
    if relative.is_empty() || HIERARCHIES.contains(&relative) {
        return Err(format!("`{name}` is the root of the hierarchy: without --cgroup the whole computer is looked at"));
    }
    let direct = HIERARCHIES.iter().map(|place| source.path(place).join(relative));
    if let Some(folder) = direct.filter(|_| is_safe).find(|folder| GroupNow::take(folder).has_memory()) {
        return Ok(folder);
    }
    let mut found: Vec<PathBuf> = Vec::new();
    walk(&root, 0, &mut |folder| {
        let last = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // A cgroup `docker-ID.scope` is found by ID.
        let is_it = last
            .split(['-', '.'])
            .chain([last])
            .any(|part| part == relative || relative.len() >= 6 && part.starts_with(relative));
        if is_it && GroupNow::take(folder).has_memory() {
            found.push(folder.to_owned());
        }
    });
    let shown = |folder: &PathBuf| format!("/{}", folder.strip_prefix(&root).unwrap_or(folder).display());
    match found.as_slice() {
        [folder] => Ok(folder.clone()),
        [] => Err(format!(
            "no cgroup `{name}` tells of memory: expected a path below /sys/fs/cgroup, such as system.slice/nginx.service"
        )),
        several => Err(format!(
            "`{name}` is the name of several cgroups: {}",
            several.iter().map(shown).collect::<Vec<_>>().join(", ")
        )),
    }
}

/// The state of one process at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessNow {
    /// The process's name.
    pub name: String,
    /// The process's major faults so far.
    pub major_faults: u64,
    /// The process's resident pages.
    pub resident: f64,
    /// The process's resident pages of files.
    pub resident_file: f64,
    /// Number of the process's pages that are in swap.
    pub swapped: f64,
}

/// Reads the name, the major faults and the use of memory of a process from `/proc`.
///
/// # Errors
/// When the process does not exist.
pub fn process(source: &Source, pid: u32) -> Result<ProcessNow, String> {
    let stat =
        source.read(&format!("proc/{pid}/stat")).map_err(|why| format!("no process has the number {pid}: {why}"))?;
    // The name is in parentheses and may itself contain parentheses.
    let (head, rest) = stat.rsplit_once(')').ok_or("expected a name in parentheses")?;
    let name = head.split_once('(').map_or("", |(_, name)| name).to_owned();
    let major_faults = rest.split_whitespace().nth(9).and_then(|word| word.parse().ok()).unwrap_or(0);
    let status = source.read(&format!("proc/{pid}/status"))?;
    let pages = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib: Option<f64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        kib.unwrap_or(0.0) * 1024.0 / PAGE_BYTES as f64
    };
    Ok(ProcessNow {
        name,
        major_faults,
        resident: pages("VmRSS"),
        resident_file: pages("RssFile"),
        swapped: pages("VmSwap"),
    })
}

/// Returns the folder of a process's cgroup; none if the process is in the root, or in a cgroup without memory values.
///
/// # Errors
/// When the process does not exist.
pub fn of_process(source: &Source, pid: u32) -> Result<Option<PathBuf>, String> {
    let text = source.read(&format!("proc/{pid}/cgroup"))?;
    let path = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_of_memory = controllers.is_empty() || controllers.split(',').any(|it| it == "memory");
        is_of_memory.then(|| path.trim_matches('/').to_owned())
    };
    let paths: Vec<String> =
        text.lines().filter_map(path).filter(|path| !path.is_empty() && !path.contains("..")).collect();
    let folders = paths.iter().flat_map(|path| HIERARCHIES.iter().map(move |place| source.path(place).join(path)));
    Ok(folders.into_iter().find(|folder| GroupNow::take(folder).has_memory()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::scratch::write;

    fn group(root: &Path, path: &str) {
        write(root, &format!("sys/fs/cgroup/{path}/memory.current"), "4096\n");
    }

    #[test]
    fn a_group_is_found_by_its_path_or_by_a_name_that_no_other_has() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in
            ["system.slice/nginx.service", "system.slice/docker-0123456789ab.scope", "a/web", "b/web", "memory/old/one"]
        {
            group(root, path);
        }
        let source = Source::new(root);
        let of = |name: &str| find(&source, name).map(|it| it.strip_prefix(root).unwrap().display().to_string());
        let nginx = Ok("sys/fs/cgroup/system.slice/nginx.service".to_owned());
        for name in [
            "system.slice/nginx.service",
            "/system.slice/nginx.service",
            "/sys/fs/cgroup/system.slice/nginx.service",
            "nginx",
            "nginx.service",
        ] {
            assert_eq!(of(name), nginx, "{name}");
        }
        assert_eq!(of("0123456"), Ok("sys/fs/cgroup/system.slice/docker-0123456789ab.scope".into()));
        assert_eq!(of("old/one"), Ok("sys/fs/cgroup/memory/old/one".into()));
        assert!(of("web").unwrap_err().ends_with("several cgroups: /a/web, /b/web"));
        assert!(of("none").unwrap_err().contains("no cgroup `none` tells of memory"));
        assert!(of("/").unwrap_err().contains("root") && of("../../etc").is_err());
    }

    #[test]
    fn a_group_may_have_no_more_than_one_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        group(root, "a/b");
        write(root, "sys/fs/cgroup/a/memory.max", "8192\n");
        write(root, "sys/fs/cgroup/a/b/memory.max", "max\n");
        let now = GroupNow::take(&root.join("sys/fs/cgroup/a/b"));
        let usage = now.usage().unwrap();
        assert_eq!((usage.total, usage.free), (Some(2.0), Some(1.0)));
        write(root, "sys/fs/cgroup/memory/c/memory.usage_in_bytes", "4096\n");
        write(root, "sys/fs/cgroup/memory/c/memory.limit_in_bytes", "9223372036854771712\n");
        let folder = root.join("sys/fs/cgroup/memory/c");
        assert_eq!(GroupNow::take(&folder).usage().unwrap().total, None);
        assert_eq!(settings(&folder)["memory.limit_in_bytes"], "max");
    }

    #[test]
    fn what_a_group_counts_is_told_as_the_computer_counts() {
        let stat = |refaults: u64, stolen: u64| GroupNow {
            stat: named(&format!(
                "anon 4096\npgsteal {stolen}\nworkingset_refault_file {refaults}\npgmajfault {refaults}\n"
            )),
            stalled: Some(Stalled { some_us: 1000 * refaults, ..Stalled::default() }),
            ..GroupNow::default()
        };
        let signs = between(&stat(100, 0), &stat(700, 1000), 2.0);
        assert_eq!(
            (signs.refaulted_file, signs.major_faults, signs.stolen()),
            (Some(600.0), Some(600.0), Some(1000.0))
        );
        assert_eq!((signs.some_waited_percent, signs.all_waited_percent), (Some(30.0), Some(0.0)));
    }

    #[test]
    fn a_process_is_in_a_group_of_either_version() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "proc/7/stat", "7 (a (b)) S 1 7 7 0 -1 4194304 100 0 33 0 5 5 0 0 20 0 1 0 1 1 1\n");
        write(root, "proc/7/status", "Name:\ta (b)\nVmRSS:\t  80 kB\nRssFile:\t 40 kB\nVmSwap:\t 8 kB\n");
        write(root, "proc/7/cgroup", "12:cpu:/x\n5:memory:/c\n0::/\n");
        let source = Source::new(root);
        let now = process(&source, 7).unwrap();
        assert_eq!((&*now.name, now.major_faults, now.resident, now.swapped), ("a (b)", 33, 20.0, 2.0));
        assert_eq!(of_process(&source, 7).unwrap(), None);
        write(root, "sys/fs/cgroup/memory/c/memory.usage_in_bytes", "4096\n");
        assert_eq!(of_process(&source, 7).unwrap(), Some(root.join("sys/fs/cgroup/memory/c")));
        assert!(process(&source, 8).unwrap_err().contains("/proc/8/stat"));
    }
}

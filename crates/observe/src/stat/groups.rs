//! Makes the rows of a report about this computer's cgroups. A cgroup gets rows if reclaim did something in it. The
//! rows have the same names as those about memory control groups in simulated runs.

use super::snapshot::{Source, stalled};
use crate::doctor::group::walk;
use engine::stat::Vmstat;
use figures::counters::named;
use figures::figure::{Better, Format, Row};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The counters of all cgroups at a moment, by path.
#[derive(Clone, Debug, Default)]
pub struct Groups(BTreeMap<String, Vmstat>);

/// Largest number of cgroups that get rows in a report.
const SHOWN_MAX: usize = 8;

/// Counters of `memory.stat`; the report has a row for each. They count pages, except for `pgmajfault`, which counts
/// faults.
const PAGES: [&str; 5] = ["pgscan", "pgsteal", "workingset_refault_anon", "workingset_refault_file", "pgmajfault"];

/// Events of `memory.events` that get rows. With cgroups of version 1, the row `max` shows `memory.failcnt`.
const EVENTS: [&str; 5] = ["low", "high", "max", "oom", "oom_kill"];

/// Files with a cgroup's limits and protection, each with its name in version 2 and its name in version 1. A limit or
/// protection gets a row if it is set.
const BOUNDS: [(&str, &str); 3] =
    [("memory.max", "memory.limit_in_bytes"), ("memory.high", "memory.high"), ("memory.low", "memory.low")];

/// Smallest number of bytes in a limit file that means "no limit". Without a limit, a cgroup of version 1 prints the
/// largest number that it can store.
const NO_LIMIT: u64 = 1 << 60;

/// Names under which a cgroup's memory PSI is kept among the cgroup's counters: the total stall times `some` and
/// `full`, us.
const STALLS: [&str; 2] = ["memory some", "memory full"];

impl Groups {
    /// Reads the counters of all cgroups with the memory controller, except for the one in the folder `except`.
    #[must_use]
    pub fn take(source: &Source, except: Option<&Path>) -> Self {
        let root = source.path("sys/fs/cgroup");
        let mut found = BTreeMap::new();
        walk(&root, 0, &mut |folder| {
            if let Some(counters) = counters(folder).filter(|_| Some(folder) != except) {
                found.insert(folder.strip_prefix(&root).unwrap_or(folder).display().to_string(), counters);
            }
        });
        Self(found)
    }

    /// Returns rows about the cgroups in which pages were scanned or refaulted, or limits or protections were reached,
    /// since the earlier reading `before`. The cgroups with the most such events come first.
    #[must_use]
    pub fn rows_since(&self, before: &Self, elapsed_s: f64) -> Vec<Row> {
        let grown = |path: &str, name: &str| {
            let value = |groups: &Self| groups.0.get(path).and_then(|it| it.get(name)).copied();
            Some(value(self)?.saturating_sub(value(before).unwrap_or(0)))
        };
        let weight = |path: &str| {
            let told = PAGES.iter().filter(|name| **name != "pgmajfault").chain(&EVENTS);
            told.filter_map(|name| grown(path, name)).sum::<u64>()
        };
        let mut met: Vec<(&String, u64)> = self.0.keys().map(|path| (path, weight(path))).collect();
        met.retain(|(path, events)| *events > 0 && (self.is_bounded(path) || self.is_lowest(path)));
        met.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        met.truncate(SHOWN_MAX);
        met.into_iter().flat_map(|(path, _)| self.rows(path, &|name| grown(path, name), elapsed_s)).collect()
    }

    /// Returns every row that a report about these cgroups may have. Only the names of the rows are of use, since the
    /// values are not measured.
    #[must_use]
    pub fn all_rows(&self) -> Vec<Row> {
        self.0.keys().flat_map(|path| self.rows(path, &|name| self.0[path].get(name).map(|_| 0), 1.0)).collect()
    }

    fn is_bounded(&self, path: &str) -> bool {
        BOUNDS.iter().any(|(name, _)| self.0[path].contains_key(*name))
    }

    /// Returns whether no other cgroup lies below the cgroup `path`.
    fn is_lowest(&self, path: &str) -> bool {
        !self.0.keys().any(|other| other.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }

    fn rows(&self, path: &str, grown: &dyn Fn(&str) -> Option<u64>, elapsed_s: f64) -> Vec<Row> {
        let title = format!("group {path}");
        let row = |name: &str, unit: &str, better, decimals, value| {
            Row::new(&title, format!("{path}: {name}"), unit, better, Format::Decimals(decimals), value)
        };
        let mib = |name: &str| {
            let bytes = self.0[path].get(name)?;
            Some(row(name, "MiB", Better::Neutral, 1, *bytes as f64 / f64::from(1 << 20)))
        };
        let sizes = std::iter::once("memory.current").chain(BOUNDS.map(|(name, _)| name)).filter_map(mib);
        let pages = PAGES.iter().filter_map(|name| {
            let unit = if *name == "pgmajfault" { "faults" } else { "pages" };
            Some(row(name, unit, Better::Lower, 0, grown(name)? as f64))
        });
        let events = EVENTS.iter().filter_map(|name| Some(row(name, "", Better::Neutral, 0, grown(name)? as f64)));
        let waited = STALLS.iter().filter(|_| elapsed_s > 0.0).filter_map(|name| {
            let share = (grown(name)? as f64 / 1e4 / elapsed_s).min(100.0);
            Some(row(name, "% of the time", Better::Lower, 2, share))
        });
        sizes.chain(pages).chain(events).chain(waited).collect()
    }
}

/// Reads the counters of a cgroup; none if the cgroup does not count memory.
fn counters(folder: &Path) -> Option<Vmstat> {
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = text("memory.stat").map(|text| named(&text)).unwrap_or_default();
    let events = text("memory.events.local").or_else(|| text("memory.events")).map(|text| named(&text));
    let mut found: Vmstat = PAGES.iter().filter_map(|name| Some(((*name).to_owned(), *stat.get(*name)?))).collect();
    found.insert("memory.current".into(), used);
    match (events, number("memory.failcnt")) {
        (Some(events), _) => found.extend(events.into_iter().filter(|(name, _)| EVENTS.contains(&name.as_str()))),
        (None, Some(times)) => drop(found.insert("max".into(), times)),
        (None, None) => {}
    }
    for (name, of_v1) in BOUNDS {
        let bytes = number(name).or_else(|| number(of_v1)).filter(|bytes| *bytes > 0 && *bytes < NO_LIMIT);
        found.extend(bytes.map(|bytes| (name.to_owned(), bytes)));
    }
    if let Some(stalls) = text("memory.pressure").map(|text| stalled(&text)) {
        found.extend(STALLS.into_iter().map(ToOwned::to_owned).zip([stalls.some_us, stalls.full_us]));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::scratch::write;

    #[test]
    fn groups_with_events_have_rows_the_busiest_first() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let put = |path: &str, file: &str, text: &str| write(root, &format!("sys/fs/cgroup/{path}/{file}"), text);
        let at = |scanned: u64, high: u64, times: u64, us: u64| {
            for path in ["a", "a/web", "idle", "mine"] {
                let scanned = if path == "idle" { 0 } else { scanned };
                put(path, "memory.current", "1048576\n");
                put(path, "memory.stat", &format!("anon 5\npgscan {scanned}\npgsteal 0\n"));
            }
            put("a/web", "memory.high", "2097152\n");
            put("a/web", "memory.events.local", &format!("low 0\nhigh {high}\nmax 0\n"));
            put("a/web", "memory.pressure", &format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\n"));
            put("memory/old", "memory.usage_in_bytes", "4096\n");
            put("memory/old", "memory.limit_in_bytes", "9223372036854771712\n");
            put("memory/old", "memory.failcnt", &times.to_string());
            Groups::take(&Source::new(root), Some(&root.join("sys/fs/cgroup/mine")))
        };
        let (before, after) = (at(100, 1, 2, 0), at(600, 4, 9, 500_000));
        let rows = after.rows_since(&before, 1.0);
        let told: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.value)).collect();
        assert_eq!(
            told,
            [
                ("a/web: memory.current", 1.0),
                ("a/web: memory.high", 2.0),
                ("a/web: pgscan", 500.0),
                ("a/web: pgsteal", 0.0),
                ("a/web: low", 0.0),
                ("a/web: high", 3.0),
                ("a/web: max", 0.0),
                ("a/web: memory some", 50.0),
                ("a/web: memory full", 0.0),
                ("memory/old: memory.current", 4096.0 / 1_048_576.0),
                ("memory/old: max", 7.0),
            ]
        );
        assert!(after.rows_since(&after, 1.0).is_empty());
        assert!(after.all_rows().iter().any(|row| row.name == "idle: pgscan"));
    }
}

//! Settings from the output of `sysctl vm`, from lines of `/etc/sysctl.conf` (`vm.swappiness = 60`), and from files of
//! `/proc/sys/vm` as `grep`, `head` and `tail` show them.

use super::{Look, Took};
use std::collections::BTreeMap;

/// Sysctls with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sysctls {
    /// Values by name, such as `vm.swappiness`. A value with several numbers is kept as text.
    pub values: BTreeMap<String, String>,
    /// Name of the sysctl whose value stands on the next line. The name is from a heading such as `==>
    /// /proc/sys/vm/swappiness <==`.
    above: Option<String>,
}

/// Names of files in `/proc/sys/vm` that are recognised even if a line does not name this folder, because `grep . *`,
/// run in the folder, writes just `swappiness:60`.
const FILES: [&str; 14] = [
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_ratio",
    "extfrag_threshold",
    "lowmem_reserve_ratio",
    "min_free_kbytes",
    "overcommit_memory",
    "page-cluster",
    "swappiness",
    "vfs_cache_pressure",
    "watermark_boost_factor",
    "watermark_scale_factor",
    "zone_reclaim_mode",
];

/// Returns whether a line sets or shows a sysctl of `vm`.
#[must_use]
pub fn begins(line: &str) -> bool {
    parse(line).is_some_and(|(name, _)| name.starts_with("vm.")) || heading(line).is_some()
}

/// Reads the sysctl's name from a line `==> /proc/sys/vm/swappiness <==`.
fn heading(line: &str) -> Option<String> {
    let path = line.trim().strip_prefix("==>")?.strip_suffix("<==")?.trim();
    Some(path.strip_prefix("/proc/sys/")?.replace('/', "."))
}

/// Reads the name and the value from a line, also in the form `/proc/sys/vm/swappiness:60` that `grep` prints.
fn parse(line: &str) -> Option<(String, &str)> {
    let line = line.trim();
    let in_folder = || line.split_once(':').filter(|(name, _)| FILES.contains(name));
    let (name, value) = match line.strip_prefix("/proc/sys/") {
        Some(rest) => rest.split_once(':').map(|(path, value)| (path.replace('/', "."), value))?,
        None if in_folder().is_some() => in_folder().map(|(name, value)| (format!("vm.{name}"), value))?,
        None => line.split_once('=').map(|(name, value)| (name.trim().to_owned(), value))?,
    };
    let is_name =
        ["vm.", "kernel.", "fs.", "net.", "user.", "dev.", "abi.", "debug."].iter().any(|it| name.starts_with(it))
            && !name.contains(char::is_whitespace);
    is_name.then_some((name, value.trim()))
}

impl Look for Sysctls {
    fn take(&mut self, line: &str) -> Took {
        if let Some(name) = heading(line) {
            self.above = Some(name);
            return Took::Yes;
        }
        if let Some(name) = self.above.take_if(|_| !line.trim().is_empty()) {
            self.values.insert(name, line.trim().to_owned());
            return Took::Yes;
        }
        let Some((name, value)) = parse(line) else { return Took::No };
        // If a setting occurs twice, its last value counts, as with `sysctl -p`.
        self.values.insert(name, value.to_owned());
        Took::Yes
    }
}

impl Sysctls {
    /// Returns the value of a sysctl; none if the sysctl is missing or its value is not a single number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.values.get(name)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_all_three_forms() {
        let text = "vm.swappiness = 60\nvm.lowmem_reserve_ratio = 256\t256\t32\t0\t0\nvm.min_free_kbytes=67584\n\
                    /proc/sys/vm/page-cluster:3\nsysctl: permission denied on key 'vm.x'\n";
        let found = Sysctls::of(text);
        assert_eq!(
            ["vm.swappiness", "vm.min_free_kbytes", "vm.page-cluster"].map(|it| found.number(it)),
            [Some(60), Some(67_584), Some(3)]
        );
        assert_eq!((found.values.len(), found.number("vm.lowmem_reserve_ratio")), (4, None));
    }

    #[test]
    fn files_of_the_folder_have_their_names_above_or_before_them() {
        let text = "==> /proc/sys/vm/swappiness <==\n60\n\n==> /proc/sys/vm/min_free_kbytes <==\n67584\nswappiness:10\nstranger:7\n";
        let found = Sysctls::of(text);
        assert_eq!(["vm.swappiness", "vm.min_free_kbytes"].map(|it| found.number(it)), [Some(10), Some(67_584)]);
        assert!(begins("==> /proc/sys/vm/swappiness <==") && begins("swappiness:60") && !begins("stranger:7"));
    }
}

//! Names that users know from Linux, each with the key or counter of this program that corresponds to it. They come
//! from the file `names.toml`.

use placed::{Error, Node};
use serde::Deserialize;
use std::sync::LazyLock;

/// A group of names that users know from Linux, such as sysctls, with an explanation of how this program models the
/// named things, or of what it has instead.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The names in the group. A name begins with its folder in `/proc/sys`, if it has one: `vm.swappiness`.
    pub names: Vec<String>,
    /// The explanation: it says how this program models the named thing, or what this program has in place of the
    /// thing.
    pub says: String,
    /// Keys of kernel, machine and experiment files that have the meaning of `names`.
    #[serde(default)]
    pub keys: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    name: Vec<Known>,
}

const FILE: &str = "names.toml";

/// Returns all groups of names that users know from Linux.
///
/// # Panics
/// Panics if the built-in file `names.toml` is wrong. A test reads this file, so no release panics.
pub fn all() -> &'static [Known] {
    static ALL: LazyLock<Vec<Known>> = LazyLock::new(|| {
        let read = || -> Result<Names, Error> { Node::parse(FILE, include_str!("../names.toml"))?.read() };
        read().unwrap_or_else(|error| panic!("{error}")).name
    });
    &ALL
}

/// Folders of Linux in which names such as `vm/swappiness` are files. A folder stands before the folders that contain
/// it.
const FOLDERS: [&str; 9] = [
    "/proc/sys/",
    "/sys/kernel/mm/",
    "/sys/kernel/debug/",
    "/sys/fs/cgroup/",
    "/sys/module/",
    "/sys/block/",
    "/sys/",
    "/proc/",
    "/",
];

/// Splits a name such as `/proc/sys/vm/swappiness` or `vm.swappiness` at slashes and dots into its parts. Leaves out a
/// leading folder, such as `/proc/sys/`.
fn parts(name: &str) -> Vec<String> {
    let lower = name.trim().to_lowercase();
    let rest = FOLDERS.iter().find_map(|folder| lower.strip_prefix(folder)).unwrap_or(&lower);
    let separated = rest.split(['/', '.']).filter(|part| !part.is_empty());
    separated.map(|part| part.replace('-', "_")).collect()
}

/// Finds the entry for a Linux name, such as `/proc/sys/vm/swappiness`, `vm.swappiness` or `swappiness` alone. A device
/// or a cgroup may stand before the known name, as in `block/sda/queue/scheduler`. Returns none if no entry or more
/// than one fits.
#[must_use]
pub fn find(name: &str) -> Option<&'static Known> {
    let wanted = parts(name);
    if wanted.is_empty() {
        return None;
    }
    let only = |fits: &dyn Fn(&[String]) -> bool| {
        let mut found = all().iter().filter(|known| known.names.iter().any(|name| fits(&parts(name))));
        // A word that may stand for several names finds none: `defrag`, `enabled`.
        found.next().filter(|_| found.next().is_none())
    };
    // Names in the list lack the device or cgroup that stands within a path.
    let within = |known: &[String]| known.len() > 1 && wanted.len() > known.len() && wanted.ends_with(known);
    // A bare word is first taken for a sysctl.
    let sysctl: Vec<String> = std::iter::once("vm".to_owned()).chain(wanted.iter().cloned()).collect();
    only(&|known| known == wanted)
        .or_else(|| only(&|known| known == sysctl))
        .or_else(|| only(&|known| known.ends_with(&wanted)))
        .or_else(|| only(&within))
}

/// Returns the groups of names in which at least one name contains `word`.
pub fn containing(word: &str) -> impl Iterator<Item = &'static Known> {
    let word = word.to_lowercase();
    all().iter().filter(move |known| known.names.iter().any(|name| name.to_lowercase().contains(&word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meanings;
    use engine::kernel::choice::{self, Choice};
    use study::plan;

    /// The sysctls of `vm` that the documentation of Linux 6.18 describes (admin-guide/sysctl/vm), and
    /// `vfs_cache_pressure_denom`, which it does not describe.
    const VM: &str = "admin_reserve_kbytes compact_memory compact_unevictable_allowed compaction_proactiveness defrag_mode \
        dirty_background_bytes dirty_background_ratio dirty_bytes dirty_expire_centisecs dirty_ratio dirty_writeback_centisecs \
        dirtytime_expire_seconds drop_caches enable_soft_offline extfrag_threshold highmem_is_dirtyable hugetlb_shm_group laptop_mode \
        legacy_va_layout lowmem_reserve_ratio max_map_count mem_profiling memory_failure_early_kill memory_failure_recovery \
        min_free_kbytes min_slab_ratio min_unmapped_ratio mmap_min_addr mmap_rnd_bits mmap_rnd_compat_bits movable_gigantic_pages \
        nr_hugepages nr_hugepages_mempolicy nr_overcommit_hugepages nr_trim_pages numa_stat numa_zonelist_order oom_dump_tasks \
        oom_kill_allocating_task overcommit_kbytes overcommit_memory overcommit_ratio page-cluster page_lock_unfairness panic_on_oom \
        percpu_pagelist_high_fraction stat_interval stat_refresh swappiness unprivileged_userfaultfd user_reserve_kbytes \
        vfs_cache_pressure vfs_cache_pressure_denom watermark_boost_factor watermark_scale_factor zone_reclaim_mode";

    #[test]
    fn every_key_that_is_named_is_there() {
        let machines = meanings::of_machines();
        for Known { names, says, keys } in all() {
            assert!(says.ends_with('.') && !names.is_empty(), "{names:?}");
            for key in keys {
                let is_there = match (key.strip_prefix(plan::OF_MACHINE), key.strip_prefix(plan::OF_PARAMS)) {
                    (Some(path), _) => machines.iter().any(|(known, _)| known == path),
                    (_, Some(param)) => meanings::params().iter().any(|known| known == param),
                    _ => Choice::find(key).is_some_and(|choice| choice.path() == *key),
                };
                assert!(is_there, "{names:?}: there is no key `{key}`");
            }
        }
    }

    /// A key whose description begins with a name of Linux models this name. The entry of the name must say so.
    #[test]
    fn a_name_that_a_key_models_is_not_said_to_lack_a_model() {
        let of_machines = meanings::of_machines().into_iter().map(|(path, about)| {
            let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
            (format!("{}{path}", plan::OF_MACHINE), about)
        });
        let all = choice::all().map(|choice| (choice.path(), choice.about())).chain(of_machines);
        let mut checked = 0;
        for (key, about) in all {
            let rest = ["Sysctl ", "Sysfs file "].iter().find_map(|word| about.strip_prefix(word)).unwrap_or(&about);
            let name = rest.strip_prefix('`').and_then(|rest| rest.split_once('`'));
            let Some((name, known)) = name.and_then(|(name, _)| Some((name, find(name)?))) else { continue };
            checked += 1;
            assert!(!known.says.starts_with("Not modelled"), "`{key}` models {name}: {}", known.says);
            assert!(known.keys.contains(&key), "the entry of {name} does not name `{key}`");
        }
        assert!(checked > 20, "{checked}");
    }

    #[test]
    fn no_name_stands_twice_and_each_sysctl_of_vm_is_answered() {
        let names: Vec<Vec<String>> = all().iter().flat_map(|known| &known.names).map(|name| parts(name)).collect();
        for (n, name) in names.iter().enumerate() {
            assert!(!names[..n].contains(name), "{name:?} stands twice");
        }
        for name in VM.split_whitespace() {
            let known = find(&format!("vm.{name}")).unwrap_or_else(|| panic!("nothing is said of vm.{name}"));
            assert_eq!(find(&format!("/proc/sys/vm/{name}")), Some(known));
            assert_eq!(find(name), Some(known));
        }
    }

    #[test]
    fn names_are_found_however_they_are_written() {
        let first = |name: &str| find(name).map(|known| known.names[0].as_str());
        assert_eq!(first("memory.high"), Some("memory.high"));
        assert_eq!(first("/sys/fs/cgroup/user.slice/memory.high"), Some("memory.high"));
        assert_eq!(first("transparent_hugepage/enabled"), Some("/sys/kernel/mm/transparent_hugepage/enabled"));
        assert_eq!(first("lru_gen"), first("/sys/kernel/mm/lru_gen/enabled"));
        assert_eq!(first("/sys/block/sda/queue/scheduler"), Some("/sys/block/queue/nr_requests"));
        assert_eq!(first("VM.Page_Cluster"), Some("vm.page-cluster"));
        assert_eq!(["enabled", "", "/", "nonesuch"].map(first), [None; 4]);
        assert!(containing("oom").count() > 0);
    }
}

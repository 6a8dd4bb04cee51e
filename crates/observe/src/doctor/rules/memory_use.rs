//! Rules about memory that reclaim cannot take, and about the holders of this memory.
//!
//! Memory is for page cache and programs. Unreclaimable slab, page tables, kernel stacks and per-CPU memory belong to
//! the kernel, and are small on a healthy computer. Shared memory, locked memory and pools of huge pages are a user's
//! choice; they are no illness while enough memory is left for others.

use super::{Said, figure, if_known, mib, percent};
use crate::doctor::signs::{Signs, need};
use crate::doctor::usage::MemoryUse;
use crate::doctor::{Finding, Weight};

/// Share of memory, percent, below which available memory (`MemAvailable`) counts as scarce.
pub const SCARCE_MAX: f64 = 20.0;

/// Share of memory, percent, below which available memory (`MemAvailable`) counts as nearly exhausted. The watermarks,
/// at which kswapd reclaims, are a few percent of memory.
pub const SHORT_MAX: f64 = 5.0;

/// A use of memory, such as page tables, whose pages reclaim cannot free.
struct Holder {
    cause: &'static str,
    /// The name of this use of memory in reports. The name is that of a line of `/proc/meminfo`.
    name: &'static str,
    pages: fn(&MemoryUse) -> Option<f64>,
    /// Smallest share of memory, percent, at which this use of memory is reported.
    share_min: f64,
    /// True if the kernel itself uses the memory. Other uses are reported only if memory is scarce.
    is_kernels: bool,
    /// The rest of the finding's sentence, which begins with a share such as `72 % of memory (46270 MiB) `.
    is_what: &'static str,
}

/// The uses of memory that reclaim cannot free.
///
/// A use is reported if its share of memory is far above the normal one: unreclaimable slab takes 1 to 5 % on a server,
/// more on a small computer with many devices. A stack takes 16 KiB, so 3 % of 16 GiB are 30,000 threads.
/// Memory that no line accounts for belongs to drivers, or to ballooning in virtual machines; elsewhere it is a few
/// percent.
const HOLDERS: [Holder; 8] = [
    Holder {
        cause: "unreclaimable-slab",
        name: "SUnreclaim",
        pages: |usage| usage.slab_unreclaimable,
        share_min: 15.0,
        is_kernels: true,
        is_what: "is slab that cannot be reclaimed: a part of the kernel leaks, or keeps what it should give back",
    },
    Holder {
        cause: "unused-huge-pages",
        name: "HugePages_Free",
        pages: |usage| Some((usage.huge_free? - usage.huge_reserved.unwrap_or(0.0)).max(0.0)),
        share_min: 10.0,
        is_kernels: true,
        is_what: "is huge pages that are reserved and that nobody uses: nothing else can have them",
    },
    Holder {
        cause: "huge-pages",
        name: "Hugetlb",
        pages: |usage| Some(usage.huge_pool? - (usage.huge_free? - usage.huge_reserved.unwrap_or(0.0)).max(0.0)),
        share_min: 25.0,
        is_kernels: false,
        is_what: "is huge pages of a pool that programs have or have reserved: nothing else can have them, and they cannot leave to swap",
    },
    Holder {
        cause: "kernel-stacks",
        name: "KernelStack",
        pages: |usage| usage.kernel_stack,
        share_min: 3.0,
        is_kernels: true,
        is_what: "is stacks of the kernel, one for each thread",
    },
    Holder {
        cause: "percpu-memory",
        name: "Percpu",
        pages: |usage| usage.percpu,
        share_min: 5.0,
        is_kernels: true,
        is_what: "is per-CPU memory, which cgroups, mounts and BPF maps take for each CPU",
    },
    Holder {
        cause: "shared-memory",
        name: "Shmem",
        pages: |usage| usage.shmem,
        share_min: 25.0,
        is_kernels: false,
        is_what: "is shared memory and files of tmpfs, which can leave to swap alone",
    },
    Holder {
        cause: "locked-memory",
        name: "Mlocked",
        pages: |usage| usage.mlocked,
        share_min: 25.0,
        is_kernels: false,
        is_what: "is locked by programs (mlock), so that reclaim may not take it",
    },
    Holder {
        cause: "unaccounted-memory",
        name: "in no line",
        pages: MemoryUse::unaccounted,
        share_min: 15.0,
        is_kernels: true,
        is_what: "is in no line that tells what memory is used for: pages that drivers, a file system of its own (ZFS) or the balloon of a virtual machine took",
    },
];

/// Returns whether the size of memory is known, so that the uses of memory can be compared with it.
#[must_use]
pub fn is_known(signs: &Signs) -> bool {
    signs.usage.as_ref().is_some_and(|usage| usage.last.total.is_some())
}

/// Finds large uses of memory that reclaim cannot take, such as unreclaimable slab.
pub fn held(signs: &Signs) -> Said {
    let usage = signs.usage.as_ref().ok_or("/proc/meminfo")?;
    let now = &*usage.last;
    let total = need(now.total, "MemTotal")?;
    // A pool of huge pages that a user requested is no leak, even at half of memory. The memory available beside it
    // decides.
    let available = available(now, total);
    let is_scarce = available.is_none_or(|share| share < SCARCE_MAX);
    let mut found: Vec<(&Holder, f64)> = HOLDERS
        .iter()
        .filter(|holder| is_scarce || holder.is_kernels)
        .filter_map(|holder| Some((holder, (holder.pages)(now)?)))
        .filter(|(holder, pages)| percent(*pages, total) >= holder.share_min)
        .collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some(((first, _), _)) = found.split_first() else { return Ok(None) };
    let mut sentences: Vec<String> = Vec::new();
    for (holder, pages) in &found {
        sentences.push(format!(
            "{:.0} % of memory ({:.0} MiB) {}.",
            percent(*pages, total),
            mib(*pages),
            holder.is_what
        ));
        if holder.cause == "unreclaimable-slab" {
            sentences.extend(worst_caches(&signs.slabs, *pages));
        }
    }
    let mut figures = vec![figure("MemTotal", mib(total), "MiB")];
    figures.extend(found.iter().map(|(holder, pages)| figure(holder.name, mib(*pages), "MiB")));
    figures.extend(available.map(|share| figure("available", share, "% of memory")));
    let shares: Vec<String> = HOLDERS.iter().map(|holder| format!("{} {} %", holder.name, holder.share_min)).collect();
    let rule = format!(
        "of memory at least: {}; shared and locked memory only where less than {SCARCE_MAX} % is available, and an illness only there",
        shares.join(", ")
    );
    Ok(Some(Finding {
        weight: if is_scarce { Weight::Illness } else { Weight::Notice },
        ..Finding::new(first.cause, sentences.join(" "), figures, rule)
    }))
}

/// Smallest share of memory, percent, at which page tables count as large. Page tables take 0.2 % of mapped memory, so 5 %
/// are 25 times the normal size, as when a thousand processes each map one segment.
const TABLES_MIN: f64 = 5.0;

/// Number of bytes of memory that one byte of page tables maps: an entry of 8 bytes maps a page of 4 KiB.
const MAPPED_BY_TABLES: f64 = 512.0;

/// Smallest number of processes at which page tables count as those of shared memory, if each of the processes maps all
/// of it in small pages.
const SHARERS_MIN: f64 = 10.0;

/// Smallest share of memory, percent, of shared memory that is worth huge pages.
const SHARED_MIN: f64 = 2.0;

/// Returns the number of processes that would have the page tables if each mapped all shared memory in small pages. Returns
/// none if page tables are not large, if they are too small for that to be the reason, or if little memory is shared.
pub fn sharers(signs: &Signs) -> Option<f64> {
    let now = &*signs.usage.as_ref()?.last;
    let (total, tables, shared) = (now.total?, now.page_tables?, now.shmem?);
    let sharers = tables * MAPPED_BY_TABLES / shared;
    let is_large = percent(tables, total) >= TABLES_MIN && percent(shared, total) >= SHARED_MIN;
    (is_large && sharers >= SHARERS_MIN).then_some(sharers)
}

/// Finds page tables that take much memory. This is an illness if little memory is available.
pub fn page_tables(signs: &Signs) -> Said {
    let now = &*signs.usage.as_ref().ok_or("/proc/meminfo")?.last;
    // Outputs of `free` and `top` do not tell of page tables.
    let (total, Some(tables)) = (need(now.total, "MemTotal")?, now.page_tables) else { return Ok(None) };
    let share = percent(tables, total);
    if share < TABLES_MIN {
        return Ok(None);
    }
    let why = match sharers(signs).zip(now.shmem) {
        Some((sharers, shared)) => format!(
            "as many as {sharers:.0} processes need that each map all {:.0} MiB of shared memory in pages of 4 KiB. Huge pages make the \
             tables hundreds of times smaller",
            mib(shared)
        ),
        None => "many processes map much memory, each with tables of its own".to_owned(),
    };
    let available = available(now, total);
    let figures = [
        Some(figure("MemTotal", mib(total), "MiB")),
        Some(figure("PageTables", mib(tables), "MiB")),
        if_known("Shmem", now.shmem.map(mib), "MiB"),
        if_known("available", available, "% of memory"),
    ];
    let is_scarce = available.is_none_or(|share| share < SCARCE_MAX);
    let sentence = format!("{share:.0} % of memory ({:.0} MiB) is page tables: {why}.", mib(tables));
    let rule = format!(
        "page tables are at least {TABLES_MIN} % of memory; an illness where less than {SCARCE_MAX} % is available; shared memory is \
         named where at least {SHARERS_MIN} processes that map all of it would need such tables"
    );
    Ok(Some(Finding {
        weight: if is_scarce { Weight::Illness } else { Weight::Notice },
        ..Finding::new("page-tables", sentence, figures.into_iter().flatten().collect(), rule)
    }))
}

/// Smallest share of memory, percent, at which reclaimable slab is reported. A file server keeps as much of names and inodes
/// as a few percent of memory; a quarter is more than what is looked up again soon.
const RECLAIMABLE_MIN: f64 = 25.0;

/// Parts of the names of slab caches that reclaim can shrink: names of files (dentries), inodes, and what indexes their
/// pages.
const RECLAIMABLE: [&str; 4] = ["dentry", "inode", "radix_tree_node", "buffer_head"];

/// Finds reclaimable slab that takes much memory. It is an illness only if little memory is available.
pub fn reclaimable_slab(signs: &Signs) -> Said {
    let now = &*signs.usage.as_ref().ok_or("/proc/meminfo")?.last;
    let (total, Some(slab)) = (need(now.total, "MemTotal")?, now.slab_reclaimable) else { return Ok(None) };
    let share = percent(slab, total);
    if share < RECLAIMABLE_MIN {
        return Ok(None);
    }
    let available = available(now, total);
    let is_scarce = available.is_some_and(|share| share < SCARCE_MAX);
    let caches: Vec<(String, f64)> =
        signs.slabs.iter().filter(|(name, _)| RECLAIMABLE.iter().any(|part| name.contains(part))).cloned().collect();
    let which = worst_caches(&caches, slab).unwrap_or_else(|| {
        "It is mostly names (dentries) and inodes of files that programs looked up, also names that do not exist."
            .to_owned()
    });
    let what = if is_scarce {
        "and yet little memory is available: reclaim does not get at it, or programs hold it"
    } else {
        "which reclaim gives back when memory is wanted, so it is no lack of memory"
    };
    let sentence =
        format!("{share:.0} % of memory ({:.0} MiB) is slab that can be reclaimed, {what}. {which}", mib(slab));
    let figures = [
        Some(figure("MemTotal", mib(total), "MiB")),
        Some(figure("SReclaimable", mib(slab), "MiB")),
        if_known("available", available, "% of memory"),
    ];
    let rule = format!(
        "reclaimable slab is at least {RECLAIMABLE_MIN} % of memory; an illness where less than {SCARCE_MAX} % is available"
    );
    Ok(Some(Finding {
        weight: if is_scarce { Weight::Illness } else { Weight::Notice },
        ..Finding::new("reclaimable-slab", sentence, figures.into_iter().flatten().collect(), rule)
    }))
}

/// Returns the available share of memory, percent. Kernels before 3.14 do not estimate it; free memory and page cache then
/// count as available.
fn available(now: &MemoryUse, total: f64) -> Option<f64> {
    now.available.or_else(|| Some(now.free? + now.files()?)).map(|pages| percent(pages, total))
}

/// Returns the available share of memory, percent, if it is known and large enough that no lack of memory is an illness.
pub(super) fn enough_available(signs: &Signs) -> Option<f64> {
    let now = &*signs.usage.as_ref()?.last;
    available(now, now.total?).filter(|share| *share >= SCARCE_MAX)
}

/// Returns whether the input shows the sizes of slab caches or processes, but not the size of memory.
pub fn is_alone(signs: &Signs) -> bool {
    let is_told = !signs.slabs.is_empty() || !signs.processes.is_empty();
    is_told && !is_known(signs)
}

/// Reports the largest slab caches and the largest processes. `doctor` applies this rule only if the size of memory is
/// unknown: then the share of memory that each takes cannot be computed.
pub fn largest(signs: &Signs) -> Said {
    let list = |all: &[(String, f64)]| {
        let sum: f64 = all.iter().map(|(_, pages)| pages).sum();
        let told =
            |(name, pages): &(String, f64)| format!("{name} ({:.0} MiB, {:.0} %)", mib(*pages), percent(*pages, sum));
        (!all.is_empty()).then(|| (sum, all.iter().take(3).map(told).collect::<Vec<_>>().join(", ")))
    };
    let mut sentences = Vec::new();
    let mut figures = Vec::new();
    for (what, all) in [("slab caches", &signs.slabs), ("processes", &signs.processes)] {
        if let Some((sum, told)) = list(all) {
            sentences.push(format!("The largest {what} are {told}: shares of the {:.0} MiB that all have.", mib(sum)));
            figures.push(figure(&format!("all {what}"), mib(sum), "MiB"));
        }
    }
    sentences.push(
        "How much of memory that is nothing tells: /proc/meminfo beside it does, and two copies of /proc/vmstat with --seconds tell \
         what reclaim does."
            .to_owned(),
    );
    Ok(Some(Finding {
        weight: Weight::Notice,
        ..Finding::new("largest-users", sentences.join(" "), figures, "the size of memory is not known".to_owned())
    }))
}

/// Returns a sentence on the largest of some slab caches. `all` is the number of pages of the kind of slab; caches with
/// less than 5 % of it are not named. Returns none if no cache is left.
fn worst_caches(caches: &[(String, f64)], all: f64) -> Option<String> {
    let caches: Vec<String> = caches
        .iter()
        .take(3)
        .filter(|(_, pages)| percent(*pages, all) >= 5.0)
        .map(|(name, pages)| format!("{name} has {:.0} MiB", mib(*pages)))
        .collect();
    (!caches.is_empty()).then(|| format!("Of the slab caches {}.", caches.join(", ")))
}

/// Returns the load of a span: its length, s, multiplied by the ratio of [`SHORT_MAX`] to the share of memory that is
/// available at the end of the span. A span with more available memory has no load.
pub fn shortage(signs: &Signs) -> f64 {
    let share = || {
        let now = &*signs.usage.as_ref()?.last;
        Some(percent(now.available?, now.total?))
    };
    let share = share().filter(|share| *share < SHORT_MAX);
    share.map_or(0.0, |share| signs.elapsed_s.unwrap_or(0.0) * SHORT_MAX / share.max(0.1))
}

/// Reports a finding if nearly no memory is available.
pub fn short(signs: &Signs) -> Said {
    let usage = signs.usage.as_ref().ok_or("/proc/meminfo")?;
    let now = &*usage.last;
    let total = need(now.total, "MemTotal")?;
    // Kernels before 3.14 do not estimate available memory, and reports of the OOM killer show more than this rule
    // would.
    let Some(available) = now.available else { return Ok(None) };
    let share = percent(available, total);
    if share >= SHORT_MAX {
        return Ok(None);
    }
    let [swap, free_swap] = signs.swap.unwrap_or_default();
    let has_swap = swap > 0.0 && percent(free_swap, swap) >= super::SWAP_FREE_MIN;
    let of_swap = match (signs.swap, has_swap) {
        (None, _) => "The input tells nothing of swap.",
        (Some([total, _]), _) if total <= 0.0 => {
            "There is no swap: what is wanted next is taken from page cache, and then somebody is killed."
        }
        (_, false) => "Swap is full, too: what is wanted next is taken from page cache, and then somebody is killed.",
        (_, true) => "Swap has room: pages of programs leave for it.",
    };
    let parts = [
        ("memory of programs", now.anon),
        ("page cache", now.files()),
        ("shared memory", now.shmem),
        ("huge pages of a pool", now.huge_pool),
        ("slab", now.slab_reclaimable.zip(now.slab_unreclaimable).map(|(can, cannot)| can + cannot)),
    ];
    let mut parts: Vec<(&str, f64)> =
        parts.into_iter().filter_map(|(name, pages)| Some((name, percent(pages?, total)))).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let parts: Vec<String> = parts
        .iter()
        .take(2)
        .filter(|(_, share)| *share >= 10.0)
        .map(|(name, share)| format!("{name} {share:.0} %"))
        .collect();
    let uses = if parts.is_empty() { String::new() } else { format!(" Most is {}.", parts.join(", and ")) };
    let processes: Vec<String> =
        signs.processes.iter().take(3).map(|(name, pages)| format!("{name} ({:.0} MiB)", mib(*pages))).collect();
    let who = if processes.is_empty() {
        String::new()
    } else {
        format!(" The largest processes are {}.", processes.join(", "))
    };
    let figures = [
        Some(figure("MemTotal", mib(total), "MiB")),
        Some(figure("MemAvailable", mib(available), "MiB")),
        if_known("swap", signs.swap.map(|[total, _]| mib(total)), "MiB"),
        if_known("free swap", signs.swap.map(|[_, free]| mib(free)), "MiB"),
    ];
    let sentence = format!("Next to nothing is left: {share:.1} % of memory is available.{uses}{who} {of_swap}");
    let rule =
        format!("less than {SHORT_MAX} % of memory is available; an illness where swap is full or there is none");
    let is_ill = signs.swap.is_some() && !has_swap;
    Ok(Some(Finding {
        weight: if is_ill { Weight::Illness } else { Weight::Notice },
        ..Finding::new("memory-short", sentence, figures.into_iter().flatten().collect(), rule)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Usage;
    use recordings::looks::{Look as _, Meminfo};

    fn signs(meminfo: &str) -> Signs {
        let meminfo = Meminfo::of(meminfo);
        let swap = meminfo.swap_kib().map(|kib| kib.map(|kib| kib as f64 / 4.0));
        Signs { usage: Some(Usage::at(MemoryUse::of_meminfo(&meminfo).unwrap())), swap, ..Signs::default() }
    }

    /// The text of `/proc/meminfo` on a desktop computer with 16 GiB of memory that is in use and not short of memory.
    const HEALTHY: &str = "\
MemTotal:       16266448 kB
MemFree:         1180508 kB
MemAvailable:    9575468 kB
Buffers:          412604 kB
Cached:          7873596 kB
SwapCached:            0 kB
Active:          6012344 kB
Inactive:        7100220 kB
Active(anon):    4012344 kB
Inactive(anon):   900100 kB
Active(file):    2000000 kB
Inactive(file):  6200120 kB
Unevictable:       80044 kB
Mlocked:           80044 kB
SwapTotal:       8191996 kB
SwapFree:        8191996 kB
AnonPages:       4900300 kB
Mapped:          1200300 kB
Shmem:            612404 kB
KReclaimable:     620100 kB
Slab:             980200 kB
SReclaimable:     620100 kB
SUnreclaim:       360100 kB
KernelStack:       22400 kB
PageTables:        61400 kB
VmallocUsed:       90100 kB
Percpu:            16300 kB
HugePages_Total:       0
HugePages_Free:        0
HugePages_Rsvd:        0
Hugepagesize:       2048 kB
Hugetlb:               0 kB
";

    /// Reads the counters and levels (signs) from [`HEALTHY`], a text of `/proc/meminfo`, in which some values are
    /// replaced. Each of `lines` has the name of a line and its new value, KiB.
    fn with(lines: &[(&str, u64)]) -> Signs {
        let mut text = HEALTHY.to_owned();
        for (name, value) in lines {
            let line = HEALTHY.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
            text = text.replace(line, &format!("{name}: {value} kB"));
        }
        signs(&text)
    }

    fn found(signs: &Signs) -> Option<(&'static str, Weight)> {
        held(signs).unwrap().map(|it| (it.cause, it.weight))
    }

    #[test]
    fn a_healthy_computer_is_not_spoken_of() {
        assert_eq!((found(&signs(HEALTHY)), short(&signs(HEALTHY))), (None, Ok(None)));
        // A database server uses a pool of huge pages, and much shared memory while enough is left.
        let pool = HEALTHY.replace("HugePages_Total:       0", "HugePages_Total:    3500");
        let text = pool
            .replace("MemFree:         1180508", "MemFree:         180508")
            .replace("Cached:          7873596", "Cached: 1705596");
        assert_eq!(found(&signs(&text)), None);
        assert_eq!(found(&with(&[("Shmem", 6_000_000)])), None);
    }

    #[test]
    fn short_memory_is_no_illness_where_swap_is_unknown() {
        let mut signs = with(&[("MemAvailable", 160_000), ("SwapFree", 0)]);
        assert_eq!(short(&signs).unwrap().unwrap().weight, Weight::Illness);
        signs.swap = None;
        let finding = short(&signs).unwrap().unwrap();
        assert_eq!((finding.weight, finding.figures.len()), (Weight::Notice, 2), "{finding:?}");
        assert!(finding.sentence.ends_with("tells nothing of swap."), "{}", finding.sentence);
    }

    #[test]
    fn full_swap_is_no_illness_while_memory_is_available_and_nothing_moves() {
        let weight = |signs: &Signs| crate::doctor::rules::swap::swap_full(signs).unwrap().map(|it| it.weight);
        let mut signs = with(&[("SwapFree", 0)]);
        assert_eq!(weight(&signs), Some(Weight::Illness), "how much moves is not known");
        (signs.swapped_in, signs.swapped_out) = (Some(0.1), Some(0.0));
        assert_eq!(weight(&signs), Some(Weight::Notice));
        signs.swapped_out = Some(1000.0);
        assert_eq!(weight(&signs), Some(Weight::Illness));
        let mut scarce = with(&[("SwapFree", 0), ("MemAvailable", 800_000)]);
        (scarce.swapped_in, scarce.swapped_out) = (Some(0.0), Some(0.0));
        assert_eq!(weight(&scarce), Some(Weight::Illness));
    }

    #[test]
    fn each_holder_is_named_with_its_share() {
        let scarce = ("MemAvailable", 800_000);
        for (lines, cause, part) in [
            (
                &[("SUnreclaim", 9_000_000)][..],
                "unreclaimable-slab",
                "55 % of memory (8789 MiB) is slab that cannot be reclaimed",
            ),
            (&[("KernelStack", 900_000)], "kernel-stacks", "one for each thread"),
            (&[("Percpu", 900_000)], "percpu-memory", "for each CPU"),
            (&[("Shmem", 7_000_000)], "shared-memory", "can leave to swap alone"),
            (&[("Mlocked", 7_000_000)], "locked-memory", "locked by programs"),
            (
                &[("Cached", 1_000_000), ("Active(file)", 100_000), ("Inactive(file)", 500_000)],
                "unaccounted-memory",
                "in no line",
            ),
        ] {
            let ill = with(&[lines, &[scarce]].concat());
            let finding = held(&ill).unwrap().unwrap_or_else(|| panic!("{cause}"));
            assert_eq!((finding.cause, finding.weight), (cause, Weight::Illness));
            assert!(finding.sentence.contains(part), "{}", finding.sentence);
        }
        let unused = HEALTHY
            .replace("HugePages_Total:       0", "HugePages_Total:    2048")
            .replace("HugePages_Free:        0", "HugePages_Free:     2000");
        assert_eq!(found(&signs(&unused)), Some(("unused-huge-pages", Weight::Notice)));
        assert_eq!(found(&signs(&unused.replace("HugePages_Rsvd:        0", "HugePages_Rsvd:     1990"))), None);
        // The kernel's own memory is a notice even if enough is left.
        assert_eq!(found(&with(&[("KernelStack", 900_000)])), Some(("kernel-stacks", Weight::Notice)));
    }

    #[test]
    fn a_size_of_memory_of_0_kb_gives_no_shares() {
        let none = with(&[("MemTotal", 0), ("MemAvailable", 100)]);
        assert!(!is_known(&none) && held(&none).is_err() && short(&none).is_err() && page_tables(&none).is_err());
    }

    #[test]
    fn reclaimable_slab_is_named_with_its_caches_and_is_no_illness_while_memory_is_available() {
        let of = |lines: &[(&str, u64)], slabs: &[(&str, f64)]| {
            let slabs = slabs.iter().map(|(name, pages)| ((*name).to_owned(), *pages)).collect();
            let found = reclaimable_slab(&Signs { slabs, ..with(lines) }).unwrap();
            found.map(|it| (it.cause, it.weight, it.sentence))
        };
        let caches = [("dentry", 2_000_000.0), ("kmalloc-512", 400_000.0), ("ext4_inode_cache", 200_000.0)];
        let (cause, weight, sentence) = of(&[("SReclaimable", 9_272_000)], &caches).unwrap();
        assert_eq!((cause, weight), ("reclaimable-slab", Weight::Notice));
        assert!(
            sentence.starts_with("57 % of memory (9055 MiB) is slab that can be reclaimed, which reclaim gives"),
            "{sentence}"
        );
        assert!(
            sentence.ends_with("Of the slab caches dentry has 7812 MiB, ext4_inode_cache has 781 MiB."),
            "{sentence}"
        );
        let (_, _, sentence) = of(&[("SReclaimable", 9_272_000)], &[]).unwrap();
        assert!(sentence.ends_with("also names that do not exist."), "{sentence}");
        let scarce = of(&[("SReclaimable", 9_272_000), ("MemAvailable", 900_000)], &[]).unwrap();
        assert_eq!(scarce.1, Weight::Illness);
        let steps = crate::doctor::advice::next("reclaimable-slab", &with(&[]));
        let steps: Vec<String> = steps.iter().map(crate::doctor::Step::show).collect();
        for part in ["slabtop", "dentry-state", "names that do not exist", "vm.vfs_cache_pressure"] {
            assert!(steps.iter().any(|step| step.contains(part)), "{part}: {steps:?}");
        }
        assert_eq!((of(&[], &[]), of(&[("SReclaimable", 2_000_000)], &[])), (None, None));
    }

    #[test]
    fn large_page_tables_are_a_finding_of_their_own_and_shared_memory_is_told_to_be_the_reason() {
        let told = |lines: &[(&str, u64)]| {
            let signs = with(lines);
            let finding = page_tables(&signs).unwrap().unwrap();
            let steps: Vec<String> =
                crate::doctor::advice::next(finding.cause, &signs).iter().map(crate::doctor::Step::show).collect();
            (finding.weight, finding.sentence, steps.join("\n"))
        };
        // Shared memory is larger than its page tables, and each is a finding. Tables of 512 processes are as large as the
        // memory that they map.
        let shared = [("PageTables", 3_000_000), ("Shmem", 5_000_000), ("MemAvailable", 800_000)];
        assert_eq!(found(&with(&shared)), Some(("shared-memory", Weight::Illness)));
        let (weight, sentence, steps) = told(&shared);
        assert_eq!(weight, Weight::Illness);
        assert!(
            sentence.starts_with("18 % of memory (2930 MiB) is page tables: as many as 307 processes"),
            "{sentence}"
        );
        assert!(
            steps.contains("set vm.nr_hugepages to 2442 (huge pages of 2 MiB") && steps.contains("shmem_enabled"),
            "{steps}"
        );
        let (weight, sentence, steps) = told(&[("PageTables", 3_000_000), ("Shmem", 5000)]);
        assert_eq!(weight, Weight::Notice);
        assert!(sentence.ends_with("each with tables of its own."), "{sentence}");
        assert!(!steps.contains("shmem_enabled"), "{steps}");
        assert_eq!(page_tables(&with(&[])), Ok(None));
    }

    #[test]
    fn the_largest_of_several_comes_first_and_caches_are_named() {
        let mut ill = with(&[("SUnreclaim", 5_000_000), ("KernelStack", 1_000_000), ("MemAvailable", 200_000)]);
        ill.slabs =
            vec![("kmalloc-512".to_owned(), 1_000_000.0), ("dentry".to_owned(), 100_000.0), ("x".to_owned(), 5.0)];
        let finding = held(&ill).unwrap().unwrap();
        assert_eq!(finding.cause, "unreclaimable-slab");
        assert!(finding.sentence.contains("kmalloc-512 has 3906 MiB, dentry has 391 MiB."), "{}", finding.sentence);
        assert!(finding.sentence.contains("is stacks of the kernel"), "{}", finding.sentence);
    }

    #[test]
    fn memory_that_is_as_good_as_gone_is_an_illness_where_swap_cannot_help() {
        let of = |lines: &[(&str, u64)]| short(&with(lines)).unwrap().map(|it| (it.weight, it.sentence));
        let (weight, sentence) = of(&[("MemAvailable", 300_000), ("SwapFree", 0), ("AnonPages", 14_000_000)]).unwrap();
        assert_eq!(weight, Weight::Illness);
        assert!(sentence.contains("1.8 % of memory is available. Most is memory of programs 86 %"), "{sentence}");
        assert_eq!(of(&[("MemAvailable", 300_000)]).unwrap().0, Weight::Notice);
        assert_eq!(of(&[("MemAvailable", 900_000), ("SwapFree", 0)]), None);
        assert_eq!(short(&Signs::default()), Err("/proc/meminfo".into()));
    }
}

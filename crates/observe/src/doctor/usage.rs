//! Uses of memory: levels in pages, under the words of `/proc/meminfo`.

use engine::stat::Vmstat;
use recordings::PAGE_KIB;
use recordings::looks::Meminfo;
use std::sync::Arc;

/// The use of memory at a moment, pages. An unknown level is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// `MemTotal`.
    pub total: Option<f64>,
    /// `MemFree`.
    pub free: Option<f64>,
    /// `MemAvailable`.
    pub available: Option<f64>,
    /// `Buffers`: pages of block devices.
    pub buffers: Option<f64>,
    /// `Cached`: pages of files, including tmpfs and shared memory. If a source has one number for these, buffers and
    /// the swap cache, it is this number.
    pub cached: Option<f64>,
    /// `SwapCached`.
    pub swap_cached: Option<f64>,
    /// `Active(anon)`.
    pub active_anon: Option<f64>,
    /// `Inactive(anon)`.
    pub inactive_anon: Option<f64>,
    /// `Active(file)`.
    pub active_file: Option<f64>,
    /// `Inactive(file)`.
    pub inactive_file: Option<f64>,
    /// `Unevictable`.
    pub unevictable: Option<f64>,
    /// `Mlocked`.
    pub mlocked: Option<f64>,
    /// `Dirty`.
    pub dirty: Option<f64>,
    /// `Writeback`.
    pub writeback: Option<f64>,
    /// `AnonPages`.
    pub anon: Option<f64>,
    /// `Mapped`: pages of files that programs map.
    pub mapped: Option<f64>,
    /// `Shmem`: tmpfs and shared memory, which leave only by swap.
    pub shmem: Option<f64>,
    /// `SReclaimable`.
    pub slab_reclaimable: Option<f64>,
    /// `SUnreclaim`.
    pub slab_unreclaimable: Option<f64>,
    /// `KernelStack`.
    pub kernel_stack: Option<f64>,
    /// `PageTables`.
    pub page_tables: Option<f64>,
    /// `VmallocUsed`.
    pub vmalloc_used: Option<f64>,
    /// `Percpu`.
    pub percpu: Option<f64>,
    /// Pages in the pool of huge pages (`HugePages_Total`, in pages of the base size).
    pub huge_pool: Option<f64>,
    /// Unused huge pages of the pool (`HugePages_Free`).
    pub huge_free: Option<f64>,
    /// Reserved huge pages of the pool (`HugePages_Rsvd`).
    pub huge_reserved: Option<f64>,
    /// The sum of other lines: `SecPageTables`, `Zswap`, `Balloon` and their like.
    pub other: Option<f64>,
}

impl MemoryUse {
    /// Returns the levels of `/proc/meminfo`; none if it has no `MemFree`.
    #[must_use]
    pub fn of_meminfo(meminfo: &Meminfo) -> Option<Self> {
        let kib = |name: &str| meminfo.get(name).map(|kib| kib as f64);
        let of = |name: &str| kib(name).map(|kib| kib / PAGE_KIB);
        // Counted in huge pages, of which another line has the size; `Hugetlb` has the pools of all sizes, since 4.15.
        let huge = |name: &str| Some(kib(name)? * of("Hugepagesize")?);
        let others = ["SecPageTables", "Zswap", "Balloon", "Bounce", "HardwareCorrupted", "GPUActive", "GPUReclaim"];
        Some(Self {
            total: of("MemTotal"),
            free: Some(of("MemFree")?),
            available: of("MemAvailable"),
            buffers: of("Buffers"),
            cached: of("Cached"),
            swap_cached: of("SwapCached"),
            active_anon: of("Active(anon)"),
            inactive_anon: of("Inactive(anon)"),
            active_file: of("Active(file)"),
            inactive_file: of("Inactive(file)"),
            unevictable: of("Unevictable"),
            mlocked: of("Mlocked"),
            dirty: of("Dirty"),
            writeback: of("Writeback"),
            anon: of("AnonPages"),
            mapped: of("Mapped"),
            shmem: of("Shmem"),
            slab_reclaimable: of("SReclaimable"),
            slab_unreclaimable: of("SUnreclaim"),
            kernel_stack: of("KernelStack"),
            page_tables: of("PageTables"),
            vmalloc_used: of("VmallocUsed"),
            percpu: of("Percpu"),
            huge_pool: of("Hugetlb").or_else(|| huge("HugePages_Total")),
            huge_free: huge("HugePages_Free"),
            huge_reserved: huge("HugePages_Rsvd"),
            other: Some(others.iter().filter_map(|name| of(name)).sum()),
        })
    }

    /// Returns levels under the names of `/proc/vmstat`; none without `nr_free_pages`.
    #[must_use]
    pub fn of_vmstat(levels: &Vmstat) -> Option<Self> {
        let of = |name: &str| levels.get(name).map(|pages| *pages as f64);
        let swap_cached = of("nr_swapcached");
        Some(Self {
            free: Some(of("nr_free_pages")?),
            cached: of("nr_file_pages").map(|pages| pages - swap_cached.unwrap_or(0.0)),
            swap_cached,
            active_anon: of("nr_active_anon"),
            inactive_anon: of("nr_inactive_anon"),
            active_file: of("nr_active_file"),
            inactive_file: of("nr_inactive_file"),
            unevictable: of("nr_unevictable"),
            mlocked: of("nr_mlock"),
            dirty: of("nr_dirty"),
            writeback: of("nr_writeback"),
            anon: of("nr_anon_pages"),
            mapped: of("nr_mapped"),
            shmem: of("nr_shmem"),
            slab_reclaimable: of("nr_slab_reclaimable"),
            slab_unreclaimable: of("nr_slab_unreclaimable"),
            page_tables: of("nr_page_table_pages"),
            ..Self::default()
        })
    }

    /// Returns file pages that can leave without swap: cache and buffers, without shared memory.
    #[must_use]
    pub fn files(&self) -> Option<f64> {
        // What a source tells as one number may hold the swap cache, and of shared memory a part may be in swap.
        let cached = self.cached? + self.buffers.unwrap_or(0.0) - self.shmem.unwrap_or(0.0);
        Some(cached.max(0.0))
    }

    /// Returns the pages that no level accounts for, if a source has all other levels; none otherwise.
    #[must_use]
    pub fn unaccounted(&self) -> Option<f64> {
        let lists = [self.active_anon, self.inactive_anon, self.active_file, self.inactive_file, self.unevictable];
        let on_lists: Option<f64> = lists.into_iter().sum();
        // Pages of programs that are in the swap cache are on lists and in two of the lines.
        let by_lines = self.anon.zip(self.cached).map(|(anon, cached)| anon + cached + self.buffers.unwrap_or(0.0));
        let programs_and_files = on_lists.into_iter().chain(by_lines).reduce(f64::max)?;
        let known = [self.free, self.slab_unreclaimable, self.page_tables].into_iter().sum::<Option<f64>>()?;
        let rest =
            [self.slab_reclaimable, self.kernel_stack, self.vmalloc_used, self.percpu, self.huge_pool, self.other];
        let rest: f64 = rest.into_iter().flatten().sum();
        Some((self.total? - programs_and_files - known - rest).max(0.0))
    }

    /// Returns the pages that levels account for, a lower bound of memory. Returns none if programs' own pages, which
    /// may be most, are unknown.
    #[must_use]
    pub fn known(&self) -> Option<f64> {
        // A page in the swap cache is on a list of anonymous pages, and where files have one number in that too.
        let lists = [self.active_anon, self.inactive_anon, self.active_file, self.inactive_file];
        let on_lists = lists.iter().copied().sum::<Option<f64>>().map(|pages| pages + self.unevictable.unwrap_or(0.0));
        let by_kind = || Some(self.anon? + self.cached? + self.buffers.unwrap_or(0.0));
        let used = on_lists.or_else(by_kind)?;
        let others = [self.free, self.slab_reclaimable, self.slab_unreclaimable, self.page_tables, self.kernel_stack];
        Some(used + others.into_iter().flatten().sum::<f64>())
    }
}

/// The use of memory over some time. Adjacent intervals share moments.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// At its beginning.
    pub first: Arc<MemoryUse>,
    /// At its end.
    pub last: Arc<MemoryUse>,
    /// The moment with the fewest free pages.
    pub least: Arc<MemoryUse>,
    /// The moment with the fewest file pages.
    pub least_files: Arc<MemoryUse>,
    /// Most pages that levels accounted for; none if too little is known.
    known: Option<f64>,
}

impl Usage {
    /// Makes the usage of one moment.
    #[must_use]
    pub fn at(now: MemoryUse) -> Self {
        let now = Arc::new(now);
        Self::between(&now, &now)
    }

    /// Makes the usage between two moments.
    #[must_use]
    pub fn between(before: &Arc<MemoryUse>, after: &Arc<MemoryUse>) -> Self {
        let (least, least_files) = (lesser(before, after, |it| it.free), lesser(before, after, |it| it.files()));
        let known = larger(before.known(), after.known());
        Self { first: before.clone(), last: after.clone(), least, least_files, known }
    }

    /// Returns the size of memory, pages; if no source has it, the most pages that levels accounted for.
    #[must_use]
    pub fn total(&self) -> Option<f64> {
        self.last.total.or(self.first.total).or(self.known)
    }

    /// Joins a following time.
    pub fn then(&mut self, later: &Self) {
        self.last = later.last.clone();
        self.known = larger(self.known, later.known);
        self.least = lesser(&self.least, &later.least, |it| it.free);
        self.least_files = lesser(&self.least_files, &later.least_files, MemoryUse::files);
    }
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| a.max(b)).or(a).or(b)
}

/// Returns the moment of two that has less of something; the first if it is unknown for one.
fn lesser(now: &Arc<MemoryUse>, later: &Arc<MemoryUse>, of: impl Fn(&MemoryUse) -> Option<f64>) -> Arc<MemoryUse> {
    match of(now).zip(of(later)) {
        Some((now_is, later_is)) if later_is < now_is => later.clone(),
        Some(_) => now.clone(),
        None => if of(now).is_none() { later } else { now }.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recordings::looks::Look as _;

    #[test]
    fn the_least_of_several_moments_is_kept() {
        let at = |free: f64, cached: f64| {
            Arc::new(MemoryUse { free: Some(free), cached: Some(cached), ..MemoryUse::default() })
        };
        let moments = [at(9.0, 1.0), at(2.0, 5.0), at(7.0, 3.0)];
        let mut usage = Usage::between(&moments[0], &moments[1]);
        usage.then(&Usage::between(&moments[1], &moments[2]));
        assert_eq!((usage.first.free, usage.last.free, usage.least.free), (Some(9.0), Some(7.0), Some(2.0)));
        assert_eq!(usage.least_files.files(), Some(1.0));
    }

    #[test]
    fn meminfo_is_told_in_pages() {
        let text = "MemTotal:  4000 kB\nMemFree: 400 kB\nCached: 80 kB\nSwapCached: 4 kB\nHugePages_Total:  3\n\
                    HugePages_Rsvd: 1\nHugepagesize:  2048 kB\n";
        let of = |text: &str| MemoryUse::of_meminfo(&Meminfo::of(text));
        let now = of(text).unwrap();
        assert_eq!(
            (now.total, now.free, now.cached, now.swap_cached),
            (Some(1000.0), Some(100.0), Some(20.0), Some(1.0))
        );
        assert_eq!((now.huge_pool, now.huge_reserved, now.huge_free), (Some(1536.0), Some(512.0), None));
        assert_eq!(of("pgfault 1\n"), None);
    }

    #[test]
    fn shared_memory_is_no_file_that_can_leave() {
        let levels = [("nr_free_pages", 5), ("nr_file_pages", 100), ("nr_shmem", 30), ("nr_swapcached", 10)];
        let levels: Vmstat = levels.iter().map(|(name, pages)| ((*name).to_owned(), *pages)).collect();
        let now = MemoryUse::of_vmstat(&levels).unwrap();
        assert_eq!((now.files(), now.known()), (Some(60.0), None));
        assert_eq!(MemoryUse::of_vmstat(&Vmstat::new()), None);
    }
}

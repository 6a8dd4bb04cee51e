//! The uses of memory at a moment: numbers of pages, named as in `/proc/meminfo`.

use engine::stat::Vmstat;
use recordings::PAGE_KIB;
use recordings::looks::Meminfo;
use std::sync::Arc;

/// The use of memory at a moment. Each field is a number of pages; none if it is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// `MemTotal` of `/proc/meminfo`, pages.
    pub total: Option<f64>,
    /// `MemFree` of `/proc/meminfo`, pages.
    pub free: Option<f64>,
    /// `MemAvailable` of `/proc/meminfo`, pages.
    pub available: Option<f64>,
    /// `Buffers` of `/proc/meminfo`, pages: cached blocks of block devices.
    pub buffers: Option<f64>,
    /// `Cached` of `/proc/meminfo`, pages: cached pages of files, including tmpfs and shared memory. If a source has
    /// only the sum of `Cached`, `Buffers` and the swap cache, this is the sum.
    pub cached: Option<f64>,
    /// `SwapCached` of `/proc/meminfo`, pages.
    pub swap_cached: Option<f64>,
    /// `Active(anon)` of `/proc/meminfo`, pages.
    pub active_anon: Option<f64>,
    /// `Inactive(anon)` of `/proc/meminfo`, pages.
    pub inactive_anon: Option<f64>,
    /// `Active(file)` of `/proc/meminfo`, pages.
    pub active_file: Option<f64>,
    /// `Inactive(file)` of `/proc/meminfo`, pages.
    pub inactive_file: Option<f64>,
    /// `Unevictable` of `/proc/meminfo`, pages.
    pub unevictable: Option<f64>,
    /// `Mlocked` of `/proc/meminfo`, pages.
    pub mlocked: Option<f64>,
    /// `Dirty` of `/proc/meminfo`, pages.
    pub dirty: Option<f64>,
    /// `Writeback` of `/proc/meminfo`, pages.
    pub writeback: Option<f64>,
    /// `AnonPages` of `/proc/meminfo`, pages.
    pub anon: Option<f64>,
    /// `Mapped` of `/proc/meminfo`, pages: pages of files that programs map.
    pub mapped: Option<f64>,
    /// `Shmem` of `/proc/meminfo`, pages: tmpfs and shared memory, which can be evicted only to swap.
    pub shmem: Option<f64>,
    /// `SReclaimable` of `/proc/meminfo`, pages.
    pub slab_reclaimable: Option<f64>,
    /// `SUnreclaim` of `/proc/meminfo`, pages.
    pub slab_unreclaimable: Option<f64>,
    /// `KernelStack` of `/proc/meminfo`, pages.
    pub kernel_stack: Option<f64>,
    /// `PageTables` of `/proc/meminfo`, pages.
    pub page_tables: Option<f64>,
    /// `VmallocUsed` of `/proc/meminfo`, pages.
    pub vmalloc_used: Option<f64>,
    /// `Percpu` of `/proc/meminfo`, pages.
    pub percpu: Option<f64>,
    /// Size of the pools of huge pages, in base pages (`Hugetlb`, or else `HugePages_Total` times the size of a huge
    /// page).
    pub huge_pool: Option<f64>,
    /// Unused huge pages in the pool, in base pages (`HugePages_Free`).
    pub huge_free: Option<f64>,
    /// Reserved huge pages in the pool, in base pages (`HugePages_Rsvd`).
    pub huge_reserved: Option<f64>,
    /// Sum of the lines of `/proc/meminfo` that have no field of their own here, such as `SecPageTables`, `Zswap` and
    /// `Balloon`, pages.
    pub other: Option<f64>,
}

impl MemoryUse {
    /// Returns the use of memory that a `/proc/meminfo` shows; none if it has no line `MemFree`.
    #[must_use]
    pub fn of_meminfo(meminfo: &Meminfo) -> Option<Self> {
        let kib = |name: &str| meminfo.get(name).map(|kib| kib as f64);
        let of = |name: &str| kib(name).map(|kib| kib / PAGE_KIB);
        // The lines of huge pages count pages of a size that another line states. Since 4.15 `Hugetlb` has the pools of
        // all sizes.
        let huge = |name: &str| Some(kib(name)? * of("Hugepagesize")?);
        let others = ["SecPageTables", "Zswap", "Balloon", "Bounce", "HardwareCorrupted", "GPUActive", "GPUReclaim"];
        Some(Self {
            // No computer has a memory of no size.
            total: of("MemTotal").filter(|pages| *pages > 0.0),
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

    /// Returns the use of memory that follows from `levels`, values under the names of `/proc/vmstat`; none if
    /// `nr_free_pages` is missing.
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

    /// Returns the number of file pages, which can leave memory without swap: cache and buffers, without shared memory.
    /// Returns none if the size of the cache is unknown.
    #[must_use]
    pub fn files(&self) -> Option<f64> {
        // A single number for the cache may include the swap cache, and part of shared memory may be in swap.
        let cached = self.cached? + self.buffers.unwrap_or(0.0) - self.shmem.unwrap_or(0.0);
        Some(cached.max(0.0))
    }

    /// Returns the number of pages that no line of `/proc/meminfo` accounts for. Returns none if a line that every
    /// source should have is unknown.
    #[must_use]
    pub fn unaccounted(&self) -> Option<f64> {
        let lists = [self.active_anon, self.inactive_anon, self.active_file, self.inactive_file, self.unevictable];
        let on_lists: Option<f64> = lists.into_iter().sum();
        // Programs' pages in the swap cache are on the lists once, but two lines of `/proc/meminfo` count them.
        let by_lines = self.anon.zip(self.cached).map(|(anon, cached)| anon + cached + self.buffers.unwrap_or(0.0));
        let programs_and_files = on_lists.into_iter().chain(by_lines).reduce(f64::max)?;
        let known = [self.free, self.slab_unreclaimable, self.page_tables].into_iter().sum::<Option<f64>>()?;
        let rest =
            [self.slab_reclaimable, self.kernel_stack, self.vmalloc_used, self.percpu, self.huge_pool, self.other];
        let rest: f64 = rest.into_iter().flatten().sum();
        Some((self.total? - programs_and_files - known - rest).max(0.0))
    }

    /// Returns the sum of the known uses of memory, pages. It is less than the size of memory, since `/proc/meminfo`
    /// has no line for some uses. Returns none if the number of pages of programs is unknown, which are the largest use
    /// in most cases.
    #[must_use]
    pub fn known(&self) -> Option<f64> {
        // Pages in the swap cache are on lists of anonymous pages; a single number for the cache may include them, too.
        let lists = [self.active_anon, self.inactive_anon, self.active_file, self.inactive_file];
        let on_lists = lists.iter().copied().sum::<Option<f64>>().map(|pages| pages + self.unevictable.unwrap_or(0.0));
        let by_kind = || Some(self.anon? + self.cached? + self.buffers.unwrap_or(0.0));
        let used = on_lists.or_else(by_kind)?;
        let others = [self.free, self.slab_reclaimable, self.slab_unreclaimable, self.page_tables, self.kernel_stack];
        Some(used + others.into_iter().flatten().sum::<f64>())
    }
}

/// The use of memory at some moments of a period. The end of a period is also the beginning of the following period.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// The use of memory at the beginning of the period.
    pub first: Arc<MemoryUse>,
    /// The use of memory at the end of the period.
    pub last: Arc<MemoryUse>,
    /// The use of memory at the moment with the fewest free pages.
    pub least: Arc<MemoryUse>,
    /// The use of memory at the moment with the fewest file pages.
    pub least_files: Arc<MemoryUse>,
    /// The largest sum, over the moments of the period, of the known uses of memory, in pages; none if too few uses are
    /// known.
    known: Option<f64>,
}

impl Usage {
    /// Returns the use of memory over a period of length zero, whose beginning and end are both `now`.
    #[must_use]
    pub fn at(now: MemoryUse) -> Self {
        let now = Arc::new(now);
        Self::between(&now, &now)
    }

    /// Returns the use of memory over a period, from the uses at its start (`before`) and at its end (`after`).
    #[must_use]
    pub fn between(before: &Arc<MemoryUse>, after: &Arc<MemoryUse>) -> Self {
        let (least, least_files) = (lesser(before, after, |it| it.free), lesser(before, after, |it| it.files()));
        let known = larger(before.known(), after.known());
        Self { first: before.clone(), last: after.clone(), least, least_files, known }
    }

    /// Returns the size of memory, pages. If no source states it, returns the largest sum of the known uses of memory
    /// instead.
    #[must_use]
    pub fn total(&self) -> Option<f64> {
        self.last.total.or(self.first.total).or(self.known)
    }

    /// Adds what a text about a single moment says and the uses over the period do not: the size of memory, and how much
    /// of the cache is shared memory, which can leave to swap alone. At a moment with less cache than that, shared memory
    /// was less, too, and stays unknown.
    pub fn complement(&mut self, moment: &MemoryUse) {
        for now in [&mut self.first, &mut self.last, &mut self.least, &mut self.least_files] {
            let total = now.total.or(moment.total);
            let cache = now.cached.map_or(0.0, |cached| cached + now.buffers.unwrap_or(0.0));
            let shmem = now.shmem.or(moment.shmem.filter(|shmem| *shmem <= cache));
            if (total, shmem) != (now.total, now.shmem) {
                let now = Arc::make_mut(now);
                (now.total, now.shmem) = (total, shmem);
            }
        }
    }

    /// Extends the period that `self` describes by the period that follows it, which `later` describes.
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

/// Returns the one of two uses of memory (`now` and `later`) for which `of` returns fewer pages; `now` if the numbers
/// are equal. If `of` returns a number for only one of them, returns that one.
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
    fn shared_memory_that_another_text_tells_is_left_out_of_the_cache() {
        let mut usage = Usage::at(MemoryUse { cached: Some(50.0), ..MemoryUse::default() });
        usage.complement(&MemoryUse { total: Some(90.0), shmem: Some(40.0), free: Some(7.0), ..MemoryUse::default() });
        assert_eq!((usage.total(), usage.least_files.files(), usage.last.free), (Some(90.0), Some(10.0), None));
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

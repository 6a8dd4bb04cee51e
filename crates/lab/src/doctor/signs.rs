//! What is known of memory in some time. What no source told is none, and is not guessed.

use std::collections::BTreeMap;

/// What is missing, in words.
pub type Missing = String;

/// Pages that somebody scanned and reclaimed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scan {
    /// Pages of inactive lists that it looked at.
    pub scanned: Option<f64>,
    /// Those of them that it reclaimed.
    pub stolen: Option<f64>,
}

/// A zone at the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Zone {
    /// As the kernel calls it.
    pub name: String,
    /// Free pages.
    pub free: f64,
    /// Its marks, pages: min, low, high.
    pub marks: [f64; 3],
    /// Free blocks by order; empty where they are not known.
    pub blocks: Vec<f64>,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// Time in which it had something to do, percent.
    pub busy_percent: Option<f64>,
    /// How long a write took, its wait in the queue included, ms.
    pub write_wait_ms: Option<f64>,
}

/// A file system on a disk, at the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileSystem {
    /// Where it is mounted.
    pub mount: String,
    /// Its size, bytes.
    pub bytes: f64,
    /// What is left for users who are not root, bytes.
    pub free_bytes: f64,
}

/// What a cgroup counted while it had to have memory and found none to reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OutOfMemory {
    /// How often an allocation was about to fail at its limit.
    pub times: f64,
    /// Processes of it that were killed.
    pub kills: f64,
    /// How often it was killed as a whole.
    pub group_kills: f64,
    /// Does a process wait in it, at the end, for memory that nobody frees?
    pub is_waiting: bool,
}

/// Dirty pages over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dirty {
    /// Share of the looks at which so much was dirty or under writeback that writers are held back, percent.
    pub held_back_percent: f64,
    /// The most that was dirty or under writeback, pages.
    pub most: f64,
    /// From how much on writers are held back, pages, at the last look: half-way between the two limits.
    pub from: f64,
    /// Pages dirtied, where that is counted.
    pub dirtied: Option<f64>,
}

/// All signs. Counters are what they grew by, levels are those at the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signs {
    /// How long it was, s.
    pub elapsed_s: Option<f64>,
    /// Reclaim in the background.
    pub kswapd: Scan,
    /// Reclaim by tasks that want memory.
    pub direct: Scan,
    /// CPU time of all kswapd, s.
    pub kswapd_cpu_s: Option<f64>,
    /// Pages scanned by zone.
    pub scanned_by_zone: BTreeMap<String, f64>,
    /// Pages allocated by zone.
    pub allocated_by_zone: BTreeMap<String, f64>,
    /// Direct reclaims (`allocstall`).
    pub stalls: Option<f64>,
    /// Pages reclaimed by whomever, those of cgroups at their limits included where the kernel counts them.
    pub stolen_together: Option<f64>,
    /// Time in direct reclaim, of the tasks that are measured, s.
    pub direct_s: Option<f64>,
    /// Share of the time in which some task waited for memory (PSI), percent.
    pub some_waited_percent: Option<f64>,
    /// The same for all tasks that had something to do.
    pub all_waited_percent: Option<f64>,
    /// Pages read from swap.
    pub swapped_in: Option<f64>,
    /// Pages written to swap.
    pub swapped_out: Option<f64>,
    /// Pages of zeroes that came back from swap, for which nothing is read: not among those read.
    pub zeroes_in: Option<f64>,
    /// Pages of zeroes that left for swap, for which nothing is written: not among those written.
    pub zeroes_out: Option<f64>,
    /// Anonymous pages that came back after they were reclaimed; none where 0, for kernels before 5.9 do not count it.
    pub refaulted_anon: Option<f64>,
    /// Pages of files that came back after they were reclaimed.
    pub refaulted_file: Option<f64>,
    /// Those of them that had left so recently that they became active at once.
    pub activated_file: Option<f64>,
    /// Page faults that waited for a disk.
    pub major_faults: Option<f64>,
    /// Huge pages that faults got.
    pub huge_got: Option<f64>,
    /// Faults that wanted a huge page and got none.
    pub huge_failed: Option<f64>,
    /// Compactions that a task did for itself.
    pub compactions: Option<f64>,
    /// Those of them after which it had a block.
    pub compactions_succeeded: Option<f64>,
    /// Those of them after which it had no block.
    pub compactions_failed: Option<f64>,
    /// Zones, where they are known.
    pub zones: Option<Vec<Zone>>,
    /// Dirty pages, where they are known.
    pub dirty: Option<Dirty>,
    /// Disks, where they are known.
    pub disks: Vec<Disk>,
    /// File systems on disks that can be written, where they are known.
    pub file_systems: Option<Vec<FileSystem>>,
    /// Pages of files that reclaim wrote itself.
    pub file_writes: Option<f64>,
    /// Pages that reclaim met before they were written, and marked.
    pub met_unwritten: Option<f64>,
    /// Swap and what was free of it when it was least, pages; at the end where there was one look.
    pub swap: Option<[f64; 2]>,
    /// The most that was in swap, pages, where a source tells that alone.
    pub swap_used: Option<f64>,
    /// How often each cgroup came to its limit; those that did not may be left out.
    pub at_limit: Option<BTreeMap<String, f64>>,
    /// Cgroups that had to have memory and found none to reclaim; none where no cgroup tells.
    pub out_of_memory: Option<BTreeMap<String, OutOfMemory>>,
    /// Processes killed for want of memory.
    pub killed: Option<f64>,
    /// Requests that found neither a free page nor one to reclaim, and failed: what the engine counts, whose programs nobody kills.
    pub exhausted: Option<f64>,
    /// What a source does not tell, and is assumed.
    pub assumed: Vec<String>,
    /// What could not be read, and why.
    pub missing: Vec<String>,
}

impl Signs {
    /// Pages reclaimed by whomever: what kswapd and tasks took, or all together where that is more.
    #[must_use]
    pub fn stolen(&self) -> Option<f64> {
        let apart = self.kswapd.stolen.zip(self.direct.stolen).map(|(kswapd, direct)| kswapd + direct);
        match (apart, self.stolen_together) {
            (Some(apart), Some(together)) => Some(apart.max(together)),
            (apart, together) => apart.or(together),
        }
    }

    /// How long it was, s.
    ///
    /// # Errors
    /// When that is not known, or no time.
    pub fn seconds(&self) -> Result<f64, Missing> {
        self.elapsed_s.filter(|time| *time > 0.0).ok_or_else(|| "elapsed time".to_owned())
    }
}

/// A sign that a rule cannot do without.
///
/// # Errors
/// Its name, where it is none.
pub fn need(sign: Option<f64>, name: &str) -> Result<f64, Missing> {
    sign.ok_or_else(|| name.to_owned())
}

//! Badness: the score by which the out-of-memory killer chooses a process (`oom_badness`; mechanisms/killer, 2).

use crate::anonymous::{Process, Resident};

/// Returns the badness of a process: the number of pages that its end would free, plus `oom_score_adj` thousandths of
/// `total_pages`. The value may be negative. Returns `None` if `oom_score_adj` says that the process must never be
/// killed ([`Process::NEVER`]).
#[must_use]
pub fn badness(resident: &Resident, oom_score_adj: i16, total_pages: u64) -> Option<i64> {
    if oom_score_adj == Process::NEVER {
        return None;
    }
    let pages = resident.rss() + resident.swapped + resident.tables;
    Some(pages as i64 + i64::from(oom_score_adj) * (total_pages as i64 / 1000))
}

/// Returns the index of the process with the largest badness. If several processes have the largest badness, returns
/// the index of the last of them. Returns `None` if no process can be killed.
#[must_use]
pub fn worst(badness: impl Iterator<Item = Option<i64>>) -> Option<usize> {
    let known = badness.enumerate().filter_map(|(n, points)| Some((n, points?)));
    known.max_by_key(|(_, points)| *points).map(|(n, _)| n)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process as the tests state it: its anonymous pages in memory, its pages in swap and its page-table pages, then
    /// its `oom_score_adj`.
    type Made = ([u64; 3], i16);

    fn chosen(total_pages: u64, processes: &[Made]) -> Option<usize> {
        worst(processes.iter().map(|([anon, swapped, tables], adj)| {
            let resident = Resident { anon: *anon, swapped: *swapped, tables: *tables, ..Resident::default() };
            badness(&resident, *adj, total_pages)
        }))
    }

    /// Checks, for ten sets of processes, which process is killed. Memory and swap together have 10,000 pages.
    #[test]
    fn the_worst_process_of_a_set_is_chosen() {
        let sets: [(&str, &[Made], Option<usize>); 10] = [
            ("the largest", &[([100, 0, 1], 0), ([900, 0, 2], 0), ([899, 0, 2], 0)], Some(1)),
            ("swapped pages count", &[([500, 0, 1], 0), ([10, 600, 2], 0)], Some(1)),
            ("page tables count", &[([500, 0, 1], 0), ([490, 0, 20], 0)], Some(1)),
            ("a raised score outweighs size", &[([3000, 0, 6], 0), ([10, 0, 1], 300)], Some(1)),
            ("a lowered score protects", &[([3000, 0, 6], -300), ([10, 0, 1], 0)], Some(1)),
            ("-1000 is never killed", &[([9000, 0, 18], -1000), ([1, 0, 1], 0)], Some(1)),
            ("-999 is killed last, but is killed", &[([9000, 0, 18], -999), ([9, 0, 1], -1000)], Some(0)),
            ("of equal ones, the last", &[([70, 0, 1], 0), ([70, 0, 1], 0), ([69, 0, 1], 0)], Some(1)),
            ("nobody can be killed", &[([70, 0, 1], -1000), ([9, 0, 1], -1000)], None),
            ("there is nobody", &[], None),
        ];
        for (name, processes, killed) in sets {
            assert_eq!(chosen(10_000, processes), killed, "{name}");
        }
    }

    /// Checks that `oom_score_adj` counts in thousandths of all memory and swap, and that a thousandth is rounded down
    /// to whole pages.
    #[test]
    fn a_score_is_in_thousandths_of_memory() {
        let none = Resident::default();
        assert_eq!(badness(&none, 1000, 25_999), Some(25_000));
        assert_eq!(badness(&none, -1, 25_999), Some(-25));
        let resident = Resident { mapped: 500, anon: 7, file: 5, swapped: 3, tables: 1 };
        assert_eq!(badness(&resident, 0, 25_999), Some(16));
    }
}

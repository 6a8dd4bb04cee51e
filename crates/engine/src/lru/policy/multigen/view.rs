//! Shows the generations to users: the text of `lru_gen` and `lru_gen_full` in debugfs (mechanisms/multigen, 11). The
//! commands of `lru_gen` are in [`super::command`].

use super::controller::Rate;
use super::generations::Seqs;
use super::uses::TIERS;
use crate::lru::{Family, Lru, Lruvec};
use crate::memory::GroupId;
use machine::Machine;
use std::fmt::Write;

/// The counts of one tier of a family, which [`Lru::lru_gen_full`] shows under a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TierCounts {
    /// The generation is neither the oldest nor the youngest, so it has no counts.
    None,
    /// The counts of the oldest generation: numbers of pages that refaulted, were evicted, and were protected.
    Oldest([u64; 3]),
    /// The moving averages of the tier's counts over earlier generations: of the refaulted pages, and of all.
    /// `lru_gen_full` shows them under the youngest generation.
    Youngest(Rate),
}

impl TierCounts {
    /// Returns the three counts of the tier, each with the letter that `lru_gen_full` prints after the count, such as
    /// `r` for refaulted pages. A count that the tier does not have is 0, with the letter `x`.
    fn fields(self) -> [(u64, char); 3] {
        match self {
            Self::None => [(0, 'x'); 3],
            Self::Oldest([refaulted, evicted, protected]) => [(refaulted, 'r'), (evicted, 'e'), (protected, 'p')],
            Self::Youngest(Rate { refaulted, total }) => [(refaulted, 'R'), (total, 'T'), (0, 'x')],
        }
    }
}

/// Returns the line of text for a generation: its number, its age in ms, its number of anonymous pages and its number
/// of file pages.
fn generation_row(seq: u64, age_ms: u64, [anon, file]: [u64; 2]) -> String {
    format!(" {seq:10} {age_ms:10} {anon:10} {file:10}\n")
}

/// Returns the line of text for a tier: its number, three counts for anonymous pages, and three for file pages.
fn tier_row(tier: usize, counts: [TierCounts; 2]) -> String {
    let mut row = format!("{:12}{tier:10}", "");
    for (count, letter) in counts.into_iter().flat_map(TierCounts::fields) {
        let _ = write!(row, " {count:10}{letter}");
    }
    row.push('\n');
    row
}

impl<M: Machine> Lru<M> {
    /// Returns the generations of the root group in the format of debugfs' `lru_gen`: a line for the group, one for
    /// each node, and one for each generation with its number, its age in ms, and its numbers of anonymous pages and of
    /// pages of files. Returns an empty text if the kernel has no generations. If each zone has its own lruvec, the
    /// node's line is repeated before the generations of each of the node's lruvecs.
    #[must_use]
    pub fn lru_gen(&self) -> String {
        self.show_generations(false)
    }

    /// Returns the text of `lru_gen_full`: the text of [`Self::lru_gen`], with a line for each tier under the oldest
    /// and the youngest generation of a family. Under the oldest generation, the line has the numbers of pages that
    /// refaulted (`r`), were evicted (`e`) and were protected (`p`) since this generation became the oldest. Under the
    /// youngest generation, the line has averages over earlier generations: pages that refaulted (`R`), and pages that
    /// were evicted or protected (`T`). The first three numbers of a line are of anonymous pages, the others of file
    /// pages; `x` marks a number that does not exist.
    #[must_use]
    pub fn lru_gen_full(&self) -> String {
        self.show_generations(true)
    }

    fn show_generations(&self, has_tiers: bool) -> String {
        let mut text = String::new();
        let Some(multigen) = self.multigen() else { return text };
        let now = self.machine.now();
        text.push_str("memcg     0 /\n");
        for lruvec in self.lruvecs_of_group(GroupId::ROOT) {
            let generations = &lruvec.generational().generations;
            let seqs = generations.seqs();
            let _ = writeln!(text, " node {:5}", lruvec.node.0);
            for seq in seqs.min[0].min(seqs.min[1])..=seqs.max {
                let age_ms = now.since(generations.born(seq)).0 / 1_000_000;
                let pages = Family::ALL.map(|family| match seq >= seqs.min[family as usize] {
                    true => generations.pages(seq, family),
                    false => 0,
                });
                text += &generation_row(seq, age_ms, pages);
                if has_tiers && (seq == seqs.max || seqs.min.contains(&seq)) {
                    let tiers = 0..multigen.choices.tiers as usize;
                    text.extend(tiers.map(|tier| tier_row(tier, self.counts_of_tier(lruvec, &seqs, seq, tier))));
                }
            }
        }
        text
    }

    fn counts_of_tier(&self, lruvec: &Lruvec<M>, seqs: &Seqs, seq: u64, tier: usize) -> [TierCounts; 2] {
        let controller = &lruvec.generational().controller;
        Family::ALL.map(|family| match seq {
            seq if seq == seqs.max => TierCounts::Youngest(controller.averages(family, tier)),
            seq if seq == seqs.min[family as usize] => TierCounts::Oldest(controller.counted(family, tier)),
            _ => TierCounts::None,
        })
    }

    /// Returns the last tier whose pages are evicted from the oldest generation of a family in an lruvec. Returns
    /// `None` if the kernel has no generations.
    #[must_use]
    pub fn tier_limit(&self, lruvec: &Lruvec<M>, family: Family) -> Option<usize> {
        let multigen = self.multigen()?;
        Some(lruvec.generational().controller.tier_limit(&multigen.choices, family))
    }

    /// Returns the numbers of an lruvec's youngest and oldest generations. Returns `None` if the kernel has no
    /// generations.
    #[must_use]
    pub fn generation_numbers(&self, lruvec: &Lruvec<M>) -> Option<Seqs> {
        self.multigen().map(|_| lruvec.generational().generations.seqs())
    }

    /// Returns the controller's counts of a family's tiers in the oldest generation: for each tier, the numbers of
    /// refaulted, evicted and protected pages. Returns `None` if the kernel has no generations.
    #[must_use]
    pub fn tier_counts(&self, lruvec: &Lruvec<M>, family: Family) -> Option<[[u64; 3]; TIERS]> {
        self.multigen()?;
        let controller = &lruvec.generational().controller;
        Some([0, 1, 2, 3].map(|tier| controller.counted(family, tier)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_has_its_number_age_and_pages() {
        assert_eq!(generation_row(12, 3456, [7, 89_012]), "         12       3456          7      89012\n");
    }

    #[test]
    fn a_tier_has_three_counts_of_each_type_with_their_letters() {
        let oldest = TierCounts::Oldest([1, 20, 3]);
        assert_eq!(
            tier_row(2, [TierCounts::None, oldest]),
            "                     2          0x          0x          0x          1r         20e          3p\n"
        );
        let youngest = TierCounts::Youngest(Rate { refaulted: 4, total: 500 });
        assert_eq!(
            tier_row(0, [oldest, youngest]),
            "                     0          1r         20e          3p          4R        500T          0x\n"
        );
    }
}

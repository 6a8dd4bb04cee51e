//! What generations look like from outside: the text of `lru_gen` in debugfs, and its commands (mechanisms/multigen, 11).

use super::Multigen;
use super::evict::Evictable;
use super::generations::{GENERATIONS_MIN, Seqs};
use super::uses::TIERS;
use crate::lru::policy::Demand;
use crate::lru::{Family, Lru};
use crate::memory::{NodeId, Zone};
use machine::Machine;
use std::fmt::Write;

/// Why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The kernel has no generations.
    NoGenerations,
    /// There is no such node.
    NoNode,
    /// The generation named is not the youngest, or too young to be evicted.
    WrongGeneration,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoGenerations => "this kernel has no generations",
            Self::NoNode => "there is no such node",
            Self::WrongGeneration => "the generation is not the youngest, or too young to be evicted",
        })
    }
}

impl std::error::Error for Refused {}

impl<M: Machine> Lru<M> {
    /// The generations of all lruvecs as `lru_gen` of debugfs shows them: a line for the one cgroup there is, one for each node,
    /// and one for each generation with its number, its age in ms, and its anonymous pages and pages of files. Nothing where the
    /// kernel has none. Where zones have lruvecs of their own, each has the line of its node.
    #[must_use]
    pub fn lru_gen(&self) -> String {
        let mut text = String::new();
        let Some(multigen) = &self.multigen else { return text };
        let now = self.machine.now();
        text.push_str("memcg     0 /\n");
        for zone in self.lruvec_zones() {
            let generations = &multigen.of(zone).generations;
            let seqs = generations.seqs();
            let _ = writeln!(text, " node {:5}", zone.node.0);
            for seq in seqs.min[0].min(seqs.min[1])..=seqs.max {
                let age = now.since(generations.born(seq)).0 / 1_000_000;
                let [anon, file] = Family::ALL.map(|family| match seq >= seqs.min[family as usize] {
                    true => generations.pages(seq, family),
                    false => 0,
                });
                let _ = writeln!(text, " {seq:10} {age:10} {anon:10} {file:10}");
            }
        }
        text
    }

    /// One zone of each lruvec, by lruvec: the highest.
    fn lruvec_zones(&self) -> impl Iterator<Item = &Zone<M>> {
        let zones = &self.zones;
        zones
            .iter()
            .enumerate()
            .filter(|(n, zone)| zones.get(n + 1).is_none_or(|next| next.lruvec != zone.lruvec))
            .map(|(_, zone)| zone)
    }

    /// The last tier whose pages go from a zone's oldest generation of a type; none where the kernel has no generations.
    #[must_use]
    pub fn tier_limit(&self, zone: &Zone<M>, family: Family) -> Option<usize> {
        let multigen = self.multigen.as_ref()?;
        Some(multigen.of(zone).controller.tier_limit(&multigen.choices, family))
    }

    /// The numbers of a zone's generations; none where the kernel has none.
    #[must_use]
    pub fn generation_numbers(&self, zone: &Zone<M>) -> Option<Seqs> {
        Some(self.multigen.as_ref()?.of(zone).generations.seqs())
    }

    /// What the controller has counted of a type's tiers in the oldest generation: refaulted, evicted, protected.
    #[must_use]
    pub fn tier_counts(&self, zone: &Zone<M>, family: Family) -> Option<[[u64; 3]; TIERS]> {
        let controller = &self.multigen.as_ref()?.of(zone).controller;
        Some([0, 1, 2, 3].map(|tier| controller.counted(family, tier)))
    }

    /// Begins a generation of a node now, as the command `+` does. `youngest` is the number of the youngest. *May take locks of
    /// page tables.*
    ///
    /// # Errors
    /// When there is no such node, or the number is another by now.
    pub fn begin_generation_now(&self, node: NodeId, youngest: u64) -> Result<(), Refused> {
        let (multigen, zone) = self.generations_of_node(node)?;
        let seqs = multigen.of(zone).generations.seqs();
        let is_begun = seqs.max == youngest && self.age_generations(multigen, zone, self.evictable(&Demand::ANY));
        is_begun.then_some(()).ok_or(Refused::WrongGeneration)
    }

    /// Which types the command `-` takes pages of, and whether generations up to `oldest` can be evicted. Reclaim does the rest.
    ///
    /// # Errors
    /// When there is no such node, or fewer than two generations would stay.
    pub(crate) fn check_eviction(&self, node: NodeId, oldest: u64) -> Result<&Zone<M>, Refused> {
        let (multigen, zone) = self.generations_of_node(node)?;
        let seqs = multigen.of(zone).generations.seqs();
        (oldest + GENERATIONS_MIN <= seqs.max).then_some(zone).ok_or(Refused::WrongGeneration)
    }

    /// A batch of pages of generations up to `oldest`, for the command `-`; none when there are no such pages left.
    pub(crate) fn next_old_batch(&self, zone: &Zone<M>, oldest: u64, pages: u64) -> Option<super::evict::Batch> {
        let multigen = self.multigen.as_ref()?;
        let seqs = multigen.of(zone).generations.seqs();
        let may_go = self.evictable(&Demand::ANY);
        let evictable: Evictable = [0, 1].map(|family| may_go[family] && seqs.min[family] <= oldest);
        let batch =
            evictable.contains(&true).then(|| self.evict_batch(multigen, zone, &Demand::ANY, evictable, pages))?;
        (batch.scanned > 0).then_some(batch)
    }

    fn generations_of_node(&self, node: NodeId) -> Result<(&Multigen<M>, &Zone<M>), Refused> {
        let multigen = self.multigen.as_ref().ok_or(Refused::NoGenerations)?;
        let zone = self.lruvec_zones().filter(|zone| zone.node == node).last().ok_or(Refused::NoNode)?;
        Ok((multigen, zone))
    }
}

//! Begins new generations (mechanisms/multigen, 2.4 and 5.1).

use super::Multigen;
use super::choices::{Ageing, Saturated, TypeRule, Walk};
use super::command::ONLY_ANON;
use super::evict::{Evictable, LOOKED_AT_MAX};
use super::generations::{GENERATIONS, GENERATIONS_MIN, Generations, Seqs, is_of, slot_in, slot_of, with_slot};
use super::lists::{ListId, Lists};
use super::uses;
use crate::lru::policy::Demand;
use crate::lru::wait::STALL;
use crate::lru::{CLUSTER, DEF_PRIORITY, Family, Lru, Lruvec};
use crate::memory::Flags;
use crate::stat::Gauge;
use machine::{Lock, Machine, Nanos, Step};

/// The limit in two conditions (`Ageing::BeforeRounds`). The older generations have at least this many pages for each
/// page in the youngest one; and each family that has pages has more than this many generations. If both hold, no new
/// generation begins before a round of kswapd. The value is the initial value of the knob `spread`.
const SPREAD: u64 = 2;

/// If a scan of kswapd frees at least this many pages, kswapd's next round begins no generation (`Ageing::KeepsThree`).
pub(in crate::lru) const GOT_ON: u64 = 64;

/// A direct reclaimer at a priority with a number below this one waits for a generation that another task is about to
/// begin, because there is nothing to reclaim before. At higher numbers it goes on without the generation. The value is
/// that of version 2 of the patches (mechanisms/multigen, 5.1), and is used for all versions.
const WAITS_BELOW: u32 = 10;

/// The numbers that decide whether a generation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ages {
    /// Number of generations of the evictable family (anonymous or file pages) with the most generations.
    most: u64,
    /// Number of generations of the evictable family with the fewest generations. A family without pages does not
    /// count.
    fewest: u64,
    /// Number of pages in the youngest generation.
    young: u64,
    /// Number of pages in the third youngest generation.
    old: u64,
    /// Number of pages in all generations together.
    total: u64,
}

impl Ages {
    pub(super) fn of(generations: &Generations, evictable: Evictable) -> Self {
        let seqs = generations.seqs();
        let families = || Family::ALL.into_iter().filter(|family| evictable[*family as usize]);
        let sum = |pages: &dyn Fn(Family) -> u64| families().map(pages).sum::<u64>();
        let old = |family: Family| match seqs.max.checked_sub(2) {
            Some(seq) if seq >= seqs.min[family as usize] => generations.pages(seq, family),
            _ => 0,
        };
        let with_pages = families().filter(|family| generations.all_pages(*family) > 0);
        Self {
            most: families().map(|family| seqs.generations(family)).max().unwrap_or(0),
            fewest: with_pages.map(|family| seqs.generations(family)).min().unwrap_or(0),
            young: sum(&|family| generations.pages(seqs.max, family)),
            old: sum(&old),
            total: sum(&|family| generations.all_pages(family)),
        }
    }
}

/// Returns whether the rule `rule` demands that a new generation begins before a round of kswapd.
pub(super) const fn is_wanted_before_round(rule: Ageing, ages: &Ages) -> bool {
    match rule {
        Ageing::BeforeRounds => {
            let is_old_enough = ages.total - ages.young >= ages.young * SPREAD && ages.fewest > SPREAD;
            ages.total >= CLUSTER && !is_old_enough
        }
        Ageing::KeepsThree => is_wanted_to_keep_three(ages),
        Ageing::AtThree | Ageing::WithinScan => false,
    }
}

const fn is_wanted_to_keep_three(ages: &Ages) -> bool {
    match ages.most {
        0..=GENERATIONS_MIN => true,
        3 => ages.young * 2 > ages.total || ages.old * 4 < ages.total,
        _ => false,
    }
}

/// Returns whether a scan for `demand` begins a new generation. `rule` is the choice `multigen.ageing`, and `ages` has
/// the numbers of generations and pages that decide. `has_memcg_lru` is `true` if reclaim visits memory control groups
/// in the order of a list (`multigen.memcg_lru`).
pub(super) const fn is_wanted_in_scan(rule: Ageing, ages: &Ages, demand: &Demand, has_memcg_lru: bool) -> bool {
    match rule {
        Ageing::BeforeRounds => ages.most <= GENERATIONS_MIN && !demand.is_kswapd,
        // Without a list of groups, the generations that kswapd needs begin before its rounds.
        Ageing::KeepsThree => {
            is_wanted_to_keep_three(ages) && (has_memcg_lru || !demand.is_kswapd) && demand.priority < DEF_PRIORITY
        }
        Ageing::AtThree | Ageing::WithinScan => ages.most <= 3 && demand.priority < DEF_PRIORITY,
    }
}

impl<M: Machine> Lru<M> {
    /// Returns the families (anonymous pages, file pages) whose pages a reclaim may take from an lruvec.
    pub(super) fn evictable(&self, lruvec: &Lruvec<M>, demand: &Demand) -> Evictable {
        let may_swap_out =
            self.swap_floor().has_swap_room(lruvec.group) || demand.doubts_marks && self.swap.cache.pages() > 0;
        let swappiness = self.swappiness(demand);
        [swappiness > 0 && demand.may_swap && may_swap_out, swappiness < ONLY_ANON]
    }

    /// Returns the swappiness of a reclaim: the value in `demand` if there is one, otherwise `lru.swappiness`.
    pub(super) fn swappiness(&self, demand: &Demand) -> u64 {
        demand.swappiness.unwrap_or(self.choices.swappiness)
    }

    /// Returns whether reclaim may begin generations before its next round. Only kswapd may, and only with two values
    /// of `multigen.ageing`: with `BeforeRounds` always, and with `KeepsThree` if `has_got_on` and `has_memcg_lru` are
    /// both `false`. `has_got_on` is `true` before the first round of a reclaim, and if a scan of the previous round
    /// freed [`GOT_ON`] pages or more. `has_memcg_lru` is `true` if reclaim visits memory control groups in the order
    /// of a list (`multigen.memcg_lru`).
    pub(in crate::lru) const fn begins_round_with_ageing(
        multigen: &Multigen,
        is_kswapd: bool,
        has_got_on: bool,
        has_memcg_lru: bool,
    ) -> bool {
        is_kswapd
            && match multigen.choices.ageing {
                Ageing::KeepsThree => !has_got_on && !has_memcg_lru,
                Ageing::BeforeRounds => true,
                Ageing::AtThree | Ageing::WithinScan => false,
            }
    }

    /// Begins a generation before a round of kswapd, if `multigen.ageing` demands one.
    pub(in crate::lru) fn age_before_round(&self, multigen: &Multigen, lruvec: &Lruvec<M>, demand: &Demand) {
        let evictable = self.evictable(lruvec, demand);
        if is_wanted_before_round(multigen.choices.ageing, &Ages::of(&lruvec.generational().generations, evictable)) {
            self.age_generations(multigen, lruvec, evictable, false);
        }
    }

    /// Begins a generation during a scan, if `multigen.ageing` demands one. The result states whether a generation was
    /// needed and, if so, whether it has begun or another task is still beginning it.
    pub(super) fn age_in_scan(
        &self,
        multigen: &Multigen,
        lruvec: &Lruvec<M>,
        demand: &Demand,
        evictable: Evictable,
    ) -> Aged {
        let ages = Ages::of(&lruvec.generational().generations, evictable);
        if !is_wanted_in_scan(multigen.choices.ageing, &ages, demand, self.memcg_lru.is_some()) {
            return Aged::NotWanted;
        }
        let of = lruvec.generational();
        let seen = of.generations.seqs().max;
        // The first attempt may meet a round that is about to end. The second attempt then begins a round of its own.
        for _ in 0..2 {
            if self.age_generations(multigen, lruvec, evictable, false) {
                return Aged::Begun;
            }
            if demand.is_kswapd || demand.priority >= WAITS_BELOW {
                break;
            }
            let is_over = || of.generations.seqs().max > seen;
            of.rounds.wait(&self.machine, is_over, STALL);
            if is_over() {
                return Aged::Begun;
            }
        }
        Aged::ByOthers
    }

    /// Walks page tables to find used pages, then begins a generation. If other tasks are already on such a walk and
    /// share it, helps them: walks the regions that no task has begun. Returns `true` only if this call began the
    /// generation. With `is_forced`, also walks touched tables that the Bloom filter would leave out, and does not
    /// share the walk with other tasks.
    pub(super) fn age_generations(
        &self,
        multigen: &Multigen,
        lruvec: &Lruvec<M>,
        evictable: Evictable,
        is_forced: bool,
    ) -> bool {
        let of = lruvec.generational();
        let seen = of.generations.seqs().max;
        let is_over = || of.generations.seqs().max != seen;
        let regions = || match multigen.choices.walk {
            Walk::Never => Vec::new(),
            Walk::TouchedTables | Walk::Filtered => self.anonymous().regions(),
        };
        let begin = || match multigen.choices.walk {
            Walk::Never | Walk::TouchedTables => {}
            Walk::Filtered => of.filters.begin(seen),
        };
        if !of.rounds.join(seen, !is_forced, regions, begin, is_over) {
            return false;
        }
        self.walk_regions(multigen, lruvec, evictable, is_forced);
        if !of.rounds.leave() {
            return false;
        }
        let is_begun = self.begin_generation(multigen, lruvec, seen, evictable);
        if let Ageing::BeforeRounds = multigen.choices.ageing {
            let dirty = self.memory().gauge(Gauge::NrDirty);
            if dirty > 0 {
                self.wake_flushers(dirty);
            }
        }
        of.rounds.end(&self.machine);
        is_begun
    }

    /// Begins a generation, unless another task has done so since the caller looked: `seen` is the number of the
    /// youngest generation at that time. Returns whether this call began the generation.
    fn begin_generation(&self, multigen: &Multigen, lruvec: &Lruvec<M>, seen: u64, evictable: Evictable) -> bool {
        let of = lruvec.generational();
        loop {
            let mut lists = of.lists.lock();
            if of.generations.seqs().max != seen {
                return false;
            }
            let is_room = Family::ALL.into_iter().all(|family| {
                of.generations.seqs().generations(family) < GENERATIONS as u64
                    || self.give_up_oldest(multigen, &mut lists, lruvec, family, evictable)
            });
            if is_room {
                self.swap_sides(lruvec);
                of.generations.advance_max(self.machine.now());
                return true;
            }
            drop(lists);
            self.machine.cond_resched();
        }
    }

    /// Gives up the oldest generation of a family that already has the largest number of generations (four). Moves the
    /// pages of the oldest generation to the next one. If the family is not evictable, its pages stay on their lists
    /// instead, and the new youngest generation takes over the lists. Returns `false` if there are more pages than can
    /// be moved under one hold of the lock.
    #[doc(alias = "inc_min_seq")]
    fn give_up_oldest(
        &self,
        multigen: &Multigen,
        lists: &mut Lists,
        lruvec: &Lruvec<M>,
        family: Family,
        evictable: Evictable,
    ) -> bool {
        let of = lruvec.generational();
        let choices = &multigen.choices;
        let oldest = of.generations.seqs().min[family as usize];
        let (from, to) = (slot_of(oldest), slot_of(oldest + 1));
        let mut moved = 0;
        for zone in self.zones_of(lruvec).iter().filter(|_| evictable[family as usize]) {
            let list = ListId::new(from, family, zone.kind);
            let mut counted = 0;
            while moved < LOOKED_AT_MAX
                && let Some(frame) = lists.last(list)
            {
                moved += 1;
                let weight = self.frames.pages(frame);
                let changed = |flags: Flags| {
                    (slot_in(flags) == from).then(|| with_slot(uses::cleared(choices.use_marks, flags), to))
                };
                let result = self.frames[frame].update(changed);
                lists.remove(&self.frames, frame);
                match result {
                    Ok(before) => {
                        debug_assert!(is_of(before) == family, "{frame} is on a list of {family:?}");
                        counted += weight;
                        let is_counted = match choices.saturated {
                            Saturated::Lifted => !uses::is_saturated(before),
                            Saturated::LikeOthers | Saturated::Protected => true,
                        };
                        if is_counted {
                            let tier = uses::tier(choices.use_marks, choices.tiers, before);
                            self.note_protected(lruvec, family, tier, weight);
                        }
                        lists.push_back(&self.frames, ListId::new(to, family, zone.kind), frame);
                    }
                    // A walk has found the page used, and changed its generation.
                    Err(now) => {
                        lists.push_front(&self.frames, ListId::new(slot_in(now), family, zone.kind), frame);
                    }
                }
            }
            self.count_moved(lruvec, zone, family, (from, to), counted);
            if !lists.is_empty(list) {
                self.machine.spend(Step::LruMove, moved as u32);
                return false;
            }
        }
        self.machine.spend(Step::LruMove, moved as u32);
        of.controller.fold(family);
        of.generations.set_min(family, oldest + 1);
        true
    }

    /// Advances the number of each family's oldest generation past generations whose lists are empty.
    #[doc(alias = "try_to_inc_min_seq")]
    pub(super) fn advance_oldest(&self, multigen: &Multigen, lists: &Lists, lruvec: &Lruvec<M>, evictable: Evictable) {
        let of = lruvec.generational();
        let seqs = of.generations.seqs();
        let zones = self.zones_of(lruvec);
        let first_with_pages = |family: Family| {
            let mut seq = seqs.min[family as usize];
            let is_empty = |seq| zones.iter().all(|zone| lists.is_empty(ListId::new(slot_of(seq), family, zone.kind)));
            while evictable[family as usize] && seq + GENERATIONS_MIN <= seqs.max && is_empty(seq) {
                seq += 1;
            }
            seq
        };
        let wanted = Family::ALL.map(first_with_pages);
        let bounded = match evictable {
            [true, true] => bounded(multigen.choices.type_rule, wanted, &seqs),
            [false, _] | [_, false] => wanted,
        };
        for family in Family::ALL {
            if bounded[family as usize] > seqs.min[family as usize] {
                of.controller.fold(family);
                of.generations.set_min(family, bounded[family as usize]);
            }
        }
    }

    /// Returns whether the oldest generation of the evictable families is too young to be reclaimed (`min_ttl_ms`).
    pub(super) fn is_too_young(&self, multigen: &Multigen, lruvec: &Lruvec<M>, evictable: Evictable) -> bool {
        let ttl = Nanos::from_millis(multigen.choices.min_ttl_ms);
        if ttl == Nanos(0) {
            return false;
        }
        let generations = &lruvec.generational().generations;
        let seqs = generations.seqs();
        let oldest = Family::ALL.into_iter().filter(|family| evictable[*family as usize]);
        let oldest = oldest.map(|family| seqs.min[family as usize]).min().unwrap_or(seqs.max);
        self.machine.now().since(generations.born(oldest)) < ttl
    }
}

/// Returns, for anonymous and for file pages, the largest number that the oldest generation may get when empty
/// generations are ended. In most cases these are the numbers in `wanted`: those of the oldest generations that have
/// pages. `rule` may lower one of them, so that the oldest pages of one family do not become too young in comparison
/// with the other family's.
fn bounded(rule: TypeRule, wanted: [u64; 2], seqs: &Seqs) -> [u64; 2] {
    let [anon, file] = wanted;
    match rule {
        TypeRule::OlderThenTierZero => wanted,
        // The oldest anonymous pages never count as younger than the oldest file pages.
        TypeRule::OlderAnonThenTierZero => [anon.min(file).max(seqs.min[0]), file],
        // Neither type gets far ahead of the other.
        TypeRule::AllTiers | TypeRule::AllTiersStrictly => {
            let limit = seqs.max - GENERATIONS_MIN;
            match (anon > limit, file > limit) {
                (true, false) if file < limit => [limit.max(seqs.min[0]), file],
                (false, true) if anon < limit => [anon, limit.max(seqs.min[1])],
                _ => wanted,
            }
        }
    }
}

/// The outcome of an attempt to begin a generation in a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aged {
    /// No new generation was needed.
    NotWanted,
    /// The new generation has begun, by this task or by another.
    Begun,
    /// Another task is beginning the new generation.
    ByOthers,
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGES: Ages = Ages { most: 4, fewest: 4, young: 100, old: 300, total: 1000 };

    fn demand(priority: u32, is_kswapd: bool) -> Demand {
        Demand { priority, to_reclaim_pages: 32, is_kswapd, ..Demand::ANY }
    }

    #[test]
    fn a_round_of_kswapd_begins_one_by_the_rule_of_its_version() {
        let before = |ages| is_wanted_before_round(Ageing::BeforeRounds, &ages);
        assert!(!before(AGES) && before(Ages { young: 400, ..AGES }) && before(Ages { fewest: 2, ..AGES }));
        assert!(!before(Ages { total: 31, young: 31, ..AGES }), "next to nothing");
        let three = |ages| is_wanted_before_round(Ageing::KeepsThree, &ages);
        let of_three = Ages { most: 3, ..AGES };
        assert!(!three(AGES) && !three(of_three) && three(Ages { most: 2, ..AGES }));
        assert!(three(Ages { young: 501, ..of_three }) && three(Ages { old: 249, ..of_three }));
        assert!(!is_wanted_before_round(Ageing::AtThree, &Ages { most: 2, ..AGES }));
    }

    #[test]
    fn a_scan_begins_one_when_it_has_nothing_to_take_or_soon_has() {
        let at = |rule, most, priority, is_kswapd| {
            is_wanted_in_scan(rule, &Ages { most, ..AGES }, &demand(priority, is_kswapd), false)
        };
        assert!(at(Ageing::BeforeRounds, 2, 12, false) && !at(Ageing::BeforeRounds, 2, 12, true));
        assert!(!at(Ageing::BeforeRounds, 3, 0, false));
        assert!(at(Ageing::KeepsThree, 2, 11, false) && !at(Ageing::KeepsThree, 2, 11, true));
        assert!(!at(Ageing::KeepsThree, 2, 12, false));
        let ages = Ages { most: 2, ..AGES };
        assert!(is_wanted_in_scan(Ageing::KeepsThree, &ages, &demand(11, true), true), "with a list of groups");
        for rule in [Ageing::AtThree, Ageing::WithinScan] {
            assert!(at(rule, 3, 11, true) && at(rule, 2, 11, false) && !at(rule, 4, 0, true) && !at(rule, 2, 12, true));
        }
    }

    #[test]
    fn no_type_runs_away_from_the_other() {
        let seqs = Seqs { max: 10, min: [7, 7] };
        assert_eq!(bounded(TypeRule::OlderThenTierZero, [9, 7], &seqs), [9, 7]);
        assert_eq!(bounded(TypeRule::OlderAnonThenTierZero, [9, 7], &seqs), [7, 7]);
        assert_eq!(bounded(TypeRule::OlderAnonThenTierZero, [7, 9], &seqs), [7, 9]);
        assert_eq!(bounded(TypeRule::AllTiers, [9, 7], &seqs), [8, 7]);
        assert_eq!(bounded(TypeRule::AllTiers, [7, 9], &seqs), [7, 8]);
        assert_eq!(bounded(TypeRule::AllTiers, [9, 8], &seqs), [9, 8]);
        let ahead = Seqs { max: 10, min: [9, 7] };
        assert_eq!(bounded(TypeRule::OlderAnonThenTierZero, [9, 8], &ahead), [9, 8], "what is gone is gone");
    }
}

//! Invariants of generations, for the whole-machine check ([`crate::check`]; mechanisms/multigen, 15).

use super::command::ONLY_ANON;
use super::generations::{GENERATIONS, GENERATIONS_MIN, is_of, slot_in, slot_of};
use super::lists::ListId;
use super::uses;
use crate::lru::{Family, ListKind, Lru, Lruvec};
use crate::memory::Flags;
use machine::{FrameNumber, Lock, Machine};

impl<M: Machine> Lru<M> {
    /// Calls `visit` for each page on the lists of an lruvec, with the kind of list (active or inactive) under which
    /// the page is counted.
    pub(in crate::lru) fn for_each_in_generations(
        &self,
        lruvec: &Lruvec<M>,
        mut visit: impl FnMut(ListKind, FrameNumber),
    ) {
        let lists = lruvec.generational().lists.lock();
        for list in ListId::all() {
            for frame in lists.iter(&self.frames, list) {
                visit(self.kind_in_generations(frame), frame);
            }
        }
    }

    /// Checks the generations of an lruvec: their number, that the counted size of each equals the number of its pages
    /// on the lists, and that the flags of each listed page fit its list.
    ///
    /// # Errors
    /// Returns a description of the first disagreement.
    pub(in crate::lru) fn check_generations(&self, lruvec: &Lruvec<M>) -> Result<(), String> {
        self.zones_of(lruvec).iter().try_for_each(|zone| {
            let of = lruvec.generational();
            let seqs = of.generations.seqs();
            for family in Family::ALL {
                let found = seqs.generations(family);
                if !(GENERATIONS_MIN..=GENERATIONS as u64).contains(&found) {
                    return Err(format!("{zone}: {family:?} has {found} generations: {seqs:?}"));
                }
            }
            let mut pages = [[0i64; 2]; GENERATIONS];
            let lists = of.lists.lock();
            for list in ListId::all() {
                for frame in lists.iter(&self.frames, list).filter(|frame| zone.holds(*frame)) {
                    let flags = self.frames[frame].flags();
                    let (family, slot) = (is_of(flags), slot_in(flags));
                    let is_sound = flags.has(Flags::LRU) && !flags.has(Flags::ACTIVE);
                    let is_here = list == ListId::new(list.slot(), family, zone.kind);
                    // The page's flags may name another generation than the list: the generation that was the youngest
                    // when a walk found the page used.
                    if !is_sound || !is_here {
                        return Err(format!("{frame} is on {list:?} and says {:?}", self.frames[frame]));
                    }
                    if flags.has(Flags::USED_AGAIN) && !uses::is_saturated(flags) {
                        return Err(format!(
                            "{frame} has a full count of uses, and no first: {:?}",
                            self.frames[frame]
                        ));
                    }
                    pages[slot][family as usize] += self.frames.pages(frame).cast_signed();
                }
            }
            for (slot, found) in pages.into_iter().enumerate() {
                for family in Family::ALL {
                    let counted = of.generations.counted(slot, family, zone.kind);
                    let found = found[family as usize];
                    if counted != found {
                        return Err(format!(
                            "{zone}: {found} {family:?} pages of generation slot {slot}, counted {counted}"
                        ));
                    }
                    // A generation of pages that could not be taken may have become the youngest. A walk may have
                    // changed the flags of some of its pages before. Such a page stays when the generation that its
                    // flags name has ended, until the next generation begins in that generation's slot.
                    let may_outlive = family == Family::Anon || self.choices.swappiness >= ONLY_ANON;
                    let is_live = (seqs.min[family as usize]..=seqs.max).any(|seq| slot_of(seq) == slot);
                    if found > 0 && !is_live && !may_outlive {
                        return Err(format!(
                            "{zone}: {found} {family:?} pages of slot {slot}, which is of no generation"
                        ));
                    }
                }
            }
            Ok(())
        })
    }
}

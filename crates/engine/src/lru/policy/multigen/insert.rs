//! Puts pages on lists and takes them off, and counts the pages of each generation.

use super::choices::FileUse;
use super::generations::{Seqs, is_of, slot_in, slot_of, with_slot};
use super::lists::{ListId, Lists};
use super::placement::{Coming, ListPlace, place};
use super::{Multigen, uses};
use crate::anonymous::Region;
use crate::lru::batch::Apply;
use crate::lru::huge::{INHERITED, MAPPED};
use crate::lru::{Family, ListKind, Lru, Lruvec, Reach};
use crate::memory::{Flags, Warmth, Zone};
use crate::stat::Event;
use machine::{FrameNumber, Func, Lock, Machine, Step};

/// Returns the list under which pages of a family are counted. `is_active` is `true` for pages in the two youngest
/// generations.
const fn list_of(family: Family, is_active: bool) -> ListKind {
    if is_active { family.active() } else { family.inactive() }
}

impl<M: Machine> Lru<M> {
    /// Adds `pages`, which may be negative, to the number of pages of `zone` and `family` in the generation that uses
    /// the slot `slot`. The caller holds the lock of the lists.
    pub(super) fn count_pages(&self, lruvec: &Lruvec<M>, zone: &Zone<M>, family: Family, slot: usize, pages: i64) {
        let of = lruvec.generational();
        of.generations.add(slot, family, zone.kind, pages);
        let list = list_of(family, of.generations.seqs().is_active(slot));
        self.count_listed(lruvec, zone, list, pages);
    }

    /// Counts a move of pages of a zone: subtracts them from the generation in slot `from`, and adds them to the
    /// generation in slot `to`. Called once for all pages that were moved under one hold of the lists' lock.
    pub(super) fn count_moved(
        &self,
        lruvec: &Lruvec<M>,
        zone: &Zone<M>,
        family: Family,
        (from, to): (usize, usize),
        pages: u64,
    ) {
        if pages > 0 {
            self.count_pages(lruvec, zone, family, from, -pages.cast_signed());
            self.count_pages(lruvec, zone, family, to, pages.cast_signed());
        }
    }

    /// Moves the counts of two generations between the gauges of active and inactive pages, just before a generation
    /// begins. The second youngest generation becomes inactive. The slot that the new generation takes becomes active.
    pub(super) fn swap_sides(&self, lruvec: &Lruvec<M>) {
        let of = lruvec.generational();
        let Seqs { max, .. } = of.generations.seqs();
        for zone in self.zones_of(lruvec) {
            for family in Family::ALL {
                for (slot, is_active) in [(slot_of(max - 1), false), (slot_of(max + 1), true)] {
                    let pages = of.generations.counted(slot, family, zone.kind);
                    self.count_listed(lruvec, zone, list_of(family, !is_active), -pages);
                    self.count_listed(lruvec, zone, list_of(family, is_active), pages);
                }
            }
        }
    }

    /// Puts a page that is on no list on a list. The page's flags, and the way in which it comes (`coming`), determine
    /// the list and the place.
    pub(super) fn link(&self, multigen: &Multigen, lists: &mut Lists, frame: FrameNumber, coming: Coming) {
        let lruvec = self.lruvec_of_page(frame);
        let choices = &multigen.choices;
        let seqs = lruvec.generational().generations.seqs();
        let place = place(choices.placement, choices.rejected, self.frames[frame].flags(), coming, &seqs);
        self.link_at(lruvec, lists, frame, place);
    }

    /// Puts a page at the place `place` on the lists. The page was on no list before.
    pub(super) fn link_at(&self, lruvec: &Lruvec<M>, lists: &mut Lists, frame: FrameNumber, place: ListPlace) {
        let (zone, slot) = (self.memory().zone_of(frame), slot_of(place.seq));
        let listed = |flags: Flags| Some(with_slot(flags.without(Flags::ACTIVE), slot).with(Flags::LRU));
        let (Ok(before) | Err(before)) = self.frames[frame].update(listed);
        debug_assert!(!before.has(Flags::LRU), "{frame} is on a list already: {:?}", self.frames[frame]);
        let family = is_of(before);
        let list = ListId::new(slot, family, zone.kind);
        match place.at_tail {
            true => lists.push_back(&self.frames, list, frame),
            false => lists.push_front(&self.frames, list, frame),
        }
        self.count_pages(lruvec, zone, family, slot, self.frames.pages(frame).cast_signed());
    }

    /// Takes a listed page off its list. Returns the flags that the page had before.
    pub(super) fn unlink_listed(&self, lruvec: &Lruvec<M>, lists: &mut Lists, frame: FrameNumber) -> Flags {
        let unlisted = |flags: Flags| Some(with_slot(flags.without(Flags::LRU), 0));
        let (Ok(before) | Err(before)) = self.frames[frame].update(unlisted);
        debug_assert!(before.has(Flags::LRU), "{frame} is on no list: {:?}", self.frames[frame]);
        lists.remove(&self.frames, frame);
        let weight = self.frames.pages(frame).cast_signed();
        self.count_pages(lruvec, self.memory().zone_of(frame), is_of(before), slot_in(before), -weight);
        before
    }

    /// Takes those of `pages` that are on lists off their lists. All of `pages` lie in one zone.
    pub(in crate::lru) fn unlink_generations(&self, reach: Reach<'_, M>, pages: &[FrameNumber]) {
        let of = reach.lruvec.generational();
        let mut lists = of.lists.lock();
        let mut moved = 0;
        for &frame in pages.iter().filter(|frame| self.frames[**frame].is(Flags::LRU)) {
            self.unlink_listed(reach.lruvec, &mut lists, frame);
            moved += 1;
        }
        self.machine.spend(Step::LruMove, moved);
    }

    /// Adds, activates or rotates the pages of a batch, as `apply` says. All of the pages lie in one zone. `is_same(n)`
    /// returns whether frame `pages[n]` still holds the page that was put into the batch.
    pub(in crate::lru) fn flush_generations(
        &self,
        multigen: &Multigen,
        reach: Reach<'_, M>,
        pages: &[FrameNumber],
        apply: Apply,
        is_same: impl Fn(usize) -> bool,
    ) {
        let of = reach.lruvec.generational();
        let mut lists = of.lists.lock();
        self.charge_flush(apply, pages);
        for (n, &frame) in pages.iter().enumerate() {
            let flags = self.frames[frame].flags();
            match apply {
                Apply::Add(_) => self.link(multigen, &mut lists, frame, Coming::New),
                Apply::Activate if flags.has(Flags::LRU) && slot_in(flags) != slot_of(of.generations.seqs().max) => {
                    self.unlink_listed(reach.lruvec, &mut lists, frame);
                    let youngest = ListPlace { seq: of.generations.seqs().max, at_tail: false };
                    self.link_at(reach.lruvec, &mut lists, frame, youngest);
                    self.stat.count(Event::Pgactivate, self.frames.pages(frame));
                }
                Apply::Rotate if flags.has(Flags::LRU) && is_same(n) => {
                    self.unlink_listed(reach.lruvec, &mut lists, frame);
                    self.link(multigen, &mut lists, frame, Coming::Rotated);
                    self.stat.count(Event::Pgrotated, self.frames.pages(frame));
                }
                // The page was isolated, activated or freed since it was parked, or the frame holds another page by
                // now.
                Apply::Activate | Apply::Rotate => {}
            }
        }
    }

    /// Notes a use of a page through its file. `flags` are the flags that the page had before this use.
    pub(in crate::lru) fn note_file_use(&self, multigen: &Multigen, frame: FrameNumber, flags: Flags) {
        if flags.has(Flags::SWAPBACKED) {
            // Uses of anonymous pages are seen in page tables.
            return;
        }
        let marks = multigen.choices.use_marks;
        match multigen.choices.file_use {
            FileUse::Counted => {
                let _ = self.frames[frame].update(|flags| {
                    let used = uses::used(marks, flags);
                    (used != flags).then_some(used)
                });
            }
            FileUse::Activates if !flags.has(Flags::REFERENCED) => self.frames[frame].set(Flags::REFERENCED),
            FileUse::Activates if flags.has(Flags::LRU) => {
                self.activate(frame);
                self.frames[frame].clear(Flags::REFERENCED);
            }
            FileUse::Activates => {}
        }
    }

    /// Puts isolated pages, which stay in memory, back on the lists of their lruvec, and drops the references that
    /// isolation took.
    pub(in crate::lru) fn put_back_generations(
        &self,
        multigen: &Multigen,
        lruvec: &Lruvec<M>,
        pages: &[FrameNumber],
        coming: Coming,
    ) {
        let _span = self.machine.span(Func::PutbackInactivePages);
        let of = lruvec.generational();
        let mut gone = Vec::new();
        {
            let mut lists = of.lists.lock();
            for &frame in pages {
                self.link(multigen, &mut lists, frame, coming);
                if self.frames[frame].put() {
                    // All other users released the page meanwhile.
                    self.unlink_listed(lruvec, &mut lists, frame);
                    gone.push(frame);
                }
            }
            self.machine.spend(Step::LruMove, pages.len() as u32);
        }
        gone.into_iter().for_each(|frame| self.memory().free_folio(frame, Warmth::Cold));
    }

    /// Takes the listed page in `frame` off its list, so that the caller can move it to another frame. Takes one more
    /// reference to the page. Returns `false`, and leaves the page alone, if its last reference is being dropped. A
    /// page of the two youngest generations is marked as active.
    pub(in crate::lru) fn isolate_given_generation(
        &self,
        lruvec: &Lruvec<M>,
        lists: &mut Lists,
        frame: FrameNumber,
        by_family: &mut [u64; Family::ALL.len()],
    ) -> bool {
        if !self.frames[frame].get_unless_zero() {
            return false;
        }
        let of = lruvec.generational();
        let before = self.unlink_listed(lruvec, lists, frame);
        if of.generations.seqs().is_active(slot_in(before)) {
            self.frames[frame].set(Flags::ACTIVE);
        }
        let (family, weight) = (is_of(before), self.frames.pages(frame));
        self.count_isolated(lruvec, family, weight);
        by_family[family as usize] += weight;
        true
    }

    /// Splits a huge page into small ones, and puts them on lists. Returns `false` if other references prevent the
    /// split ([`Lru::split_frames`]).
    pub(in crate::lru) fn split_in_generations(
        &self,
        multigen: &Multigen,
        region: &Region<M>,
        head: FrameNumber,
    ) -> bool {
        let mut lists = self.lruvec_of_page(head).generational().lists.lock();
        let head_flags = self.frames[head].flags();
        self.split_frames(region, head, INHERITED.without(Flags::ACTIVE), MAPPED, |tail| {
            self.link_split(multigen, &mut lists, head, head_flags, tail);
            // The tail needs no more counting: `link` counted it, or it was counted before with its head.
            true
        })
    }

    /// Puts `tail`, a page of a huge page that is about to be split, on a list. It goes directly after the huge page's
    /// head, towards the list's tail; the head's flags were `flags`. If the head is on no list (isolated), `tail` goes
    /// to the end of a list from which reclaim takes the next pages. The caller holds the lock of the lists.
    fn link_split(&self, multigen: &Multigen, lists: &mut Lists, head: FrameNumber, flags: Flags, tail: FrameNumber) {
        if flags.has(Flags::LRU) {
            self.frames[tail].set(with_slot(Flags::LRU, slot_in(flags)));
            lists.insert_behind(&self.frames, head, tail);
        } else {
            self.link(multigen, lists, tail, Coming::Rotated);
        }
    }

    /// Returns the list under which a listed page is counted, which depends on the page's generation.
    pub(in crate::lru) fn kind_in_generations(&self, frame: FrameNumber) -> ListKind {
        let flags = self.frames[frame].flags();
        let family = is_of(flags);
        match self.lruvec_of_page(frame).generational().generations.seqs().is_active(slot_in(flags)) {
            true => family.active(),
            false => family.inactive(),
        }
    }
}

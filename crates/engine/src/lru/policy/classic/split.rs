//! Splits of huge pages in classic lists.

use crate::anonymous::Region;
use crate::lru::Lru;
use crate::lru::huge::{INHERITED, MAPPED};
use crate::memory::Flags;
use machine::{FrameNumber, Lock, Machine};

impl<M: Machine> Lru<M> {
    /// Splits a huge page into single pages. All pages but the head go right behind the head on the head's list; if the
    /// head is on no list, they go to the tail of the list that their flags name. Returns `false` if other references
    /// prevent the split ([`Lru::split_frames`]).
    pub(in crate::lru) fn split_in_classic(&self, region: &Region<M>, head: FrameNumber) -> bool {
        let mut lists = self.lruvec_of_page(head).classic().lists.lock();
        let is_listed = self.frames[head].is(Flags::LRU);
        self.split_frames(region, head, INHERITED, MAPPED, |tail| {
            self.frames[tail].set(Flags::LRU);
            let list = lists.list_mut(self.kind_of(self.frames[tail].flags()));
            match is_listed {
                true => list.insert_behind(&self.frames, head, tail),
                false => list.push_back(&self.frames, tail),
            }
            is_listed
        })
    }
}

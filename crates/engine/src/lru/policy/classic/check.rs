//! Shows the lists, for the whole-machine check ([`crate::check`]).

use crate::lru::{ListKind, Lru};
use crate::memory::Zone;
use machine::{FrameNumber, Lock, Machine};

impl<M: Machine> Lru<M> {
    /// Shows all pages of a zone that are on lists.
    pub(in crate::lru) fn for_each_in_classic(&self, zone: &Zone<M>, mut visit: impl FnMut(ListKind, FrameNumber)) {
        let lists = self.classic_lists(zone).lock();
        for kind in ListKind::ALL {
            let pages = lists.list(kind).iter(&self.frames).filter(|frame| zone.holds(*frame));
            pages.for_each(|frame| visit(kind, frame));
        }
    }
}

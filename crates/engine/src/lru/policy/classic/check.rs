//! Visits the pages of lists, for the whole-machine check ([`crate::check`]).

use crate::lru::{ListKind, Lru, Lruvec};
use machine::{FrameNumber, Lock, Machine};

impl<M: Machine> Lru<M> {
    /// Calls `visit` for each listed page of an lruvec, with the list that the page is on.
    pub(in crate::lru) fn for_each_in_classic(&self, lruvec: &Lruvec<M>, mut visit: impl FnMut(ListKind, FrameNumber)) {
        let lists = lruvec.classic().lists.lock();
        for kind in ListKind::ALL {
            lists.list(kind).iter(&self.frames).for_each(|frame| visit(kind, frame));
        }
    }
}

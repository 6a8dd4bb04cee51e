//! Walks over lruvecs: those of a node, or of the zones of a request.

use super::Reclaim;
use crate::lru::Reach;
use crate::memory::Zone;
use machine::Machine;

impl<M: Machine> Reclaim<M> {
    /// Returns the lruvecs of `zones`, each once, in the order of the zones. Zones that share an lruvec must follow
    /// each other in `zones`. The first of them must be the highest that the request can use: the lruvec is returned
    /// with this zone.
    pub(super) fn lruvecs<'a>(
        &'a self,
        zones: impl Iterator<Item = &'a Zone<M>>,
    ) -> impl Iterator<Item = Reach<'a, M>> {
        let mut last = None;
        zones.filter(move |zone| last.replace(zone.lruvec) != Some(zone.lruvec)).map(|zone| self.lru().reach(zone))
    }
}

//! Spans: stretches of a run whose CPU time is charged to one function in the profile.

use crate::record::profile::NodeId;
use crate::record::trace::is_recorded;
use crate::world::World;
use machine::Func;

/// A part of a run whose CPU time is charged to one function. The time of the running task or handler is charged until
/// the span is dropped.
pub struct Span<'a> {
    world: &'a World,
    before: NodeId,
    func: Func,
    /// Virtual time at which the span began, ps; 0 if the trace does not record calls of the span's function.
    from: u64,
}

impl<'a> Span<'a> {
    #[inline]
    pub(crate) fn enter(world: &'a World, func: Func) -> Self {
        let Some(lane) = world.running() else { return Self { world, before: 0, func, from: 0 } };
        world.charge(lane);
        let before = lane.node.get();
        lane.node.set(world.profile.child(before, func));
        let from = if is_recorded(func) { world.clock.get() } else { 0 };
        Self { world, before, func, from }
    }
}

impl Drop for Span<'_> {
    #[inline]
    fn drop(&mut self) {
        // After a panic the call path is kept, because the report of the failure shows it.
        if self.world.is_dying() {
            return;
        }
        if let Some(lane) = self.world.running() {
            self.world.charge(lane);
            lane.node.set(self.before);
            if is_recorded(self.func) {
                self.world.note_function(self.from, self.func);
            }
        }
    }
}

impl World {
    /// Runs `body` with its time charged to `func`.
    #[inline]
    pub(crate) fn within(&self, func: Func, body: impl FnOnce()) {
        let span = Span::enter(self, func);
        body();
        drop(span);
    }
}

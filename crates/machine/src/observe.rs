//! Observation: what the engine says of the work and the waits of tasks.

use crate::{Func, Note, WaitReason};

/// Receives spans and notes, for machines that keep profiles and records.
///
/// *The engine promises* that it does the same on a machine that ignores them all. *The ground promises* that they take no time that
/// its tasks could notice, wait for nobody, and do not panic. Spans may begin in every context of [`crate::Machine`]; notes come from
/// tasks, which may hold locks and slots.
pub trait Observe {
    /// Ends the span begun by [`Observe::span`] when it is dropped.
    type Span<'a>
    where
        Self: 'a;

    /// Notes that the calling task is in `func` until the span is dropped; its work meanwhile is charged to that
    /// function. Spans of a task nest: the engine drops the one that began last first. The task may sleep within.
    fn span(&self, func: Func) -> Self::Span<'_>;

    /// Notes that the calling task cannot continue for lack of memory (`begins`), or can again. The task reclaims or compacts
    /// itself, waits for others to do so, or waits for a page that reclaim took. Stalls may be nested, and each that begins ends
    /// in the same task: use [`crate::Stalled`]. For pressure statistics (`/proc/pressure/memory`); by default it does nothing.
    #[inline]
    fn note_stall(&self, begins: bool) {
        let _ = begins;
    }

    /// Notes the reason for which the calling task sleeps, if it sleeps from now on; `None` ends that. Waits are not
    /// nested: use [`crate::Waiting`], which makes both calls. By default it does nothing.
    #[inline]
    fn note_wait(&self, reason: Option<WaitReason>) {
        let _ = reason;
    }

    /// Records what the calling task waited for, at the end of the wait. `note` is called only if the machine records
    /// notes, so it must change nothing. By default nothing is recorded.
    #[inline]
    fn note(&self, note: impl FnOnce() -> Note) {
        let _ = note;
    }
}

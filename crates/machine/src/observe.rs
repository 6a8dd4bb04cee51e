//! Observation: the engine's reports on the work and the waits of tasks.

use crate::{Func, Note, WaitReason};

/// Receives spans and notes, for machines that keep profiles and records.
///
/// *The engine promises* that it does the same on a machine that ignores all spans and notes. *The ground promises*
/// that these methods take no time that its tasks could notice, wait for no task, and do not panic. Spans may begin in
/// every context of [`crate::Machine`]; notes come from tasks, which may hold locks and slots.
pub trait Observe {
    /// The guard of a span that [`Observe::span`] began; the span ends when the guard is dropped.
    type Span<'a>
    where
        Self: 'a;

    /// Notes that the calling task is in `func` until the span is dropped; its work meanwhile is charged to that
    /// function. Spans of a task nest: the engine drops the one that began last first. The task may sleep within.
    fn span(&self, func: Func) -> Self::Span<'_>;

    /// Notes that the calling task cannot continue for lack of memory (`begins` is `true`), or can continue again
    /// (`false`). Meanwhile the task reclaims or compacts memory itself, waits for others to do so, or waits for a page
    /// that reclaim took. Stalls may be nested, and each ends in the task in which it began: use [`crate::Stalled`].
    /// For pressure statistics (`/proc/pressure/memory`); by default it does nothing.
    #[inline]
    fn note_stall(&self, begins: bool) {
        let _ = begins;
    }

    /// Notes the reason for which the calling task sleeps, if it sleeps from now on; `None` says that the wait is over.
    /// Waits are not nested: use [`crate::Waiting`], which makes both calls. By default it does nothing.
    #[inline]
    fn note_wait(&self, reason: Option<WaitReason>) {
        let _ = reason;
    }

    /// Records what the calling task waited for, at the end of the wait. `note` is called only if the machine records
    /// notes, so the closure must change nothing. By default nothing is recorded.
    #[inline]
    fn note(&self, note: impl FnOnce() -> Note) {
        let _ = note;
    }
}

//! [`Observe`]: the trait through which the engine reports the work and the waits of tasks to the machine.

use crate::{Func, Note, WaitReason};

/// Receives spans and notes, for machines that keep profiles and records.
///
/// *The engine promises* that it behaves the same on a machine that ignores all spans and notes. *The machine promises*
/// that these methods take no time that tasks could notice, wait for no task, and do not panic. The engine begins spans
/// in every context that [`crate::Machine`] describes. Notes are made only by tasks, also by tasks that hold locks and
/// per-CPU slots.
pub trait Observe {
    /// The guard of a span that [`Observe::span`] began; the span ends when the guard is dropped.
    type Span<'a>
    where
        Self: 'a;

    /// Reports that the calling task is in the function `func` until the returned span is dropped. Until then, a
    /// profile charges the task's work to this function. Spans of a task nest: the engine always drops the span that
    /// began last before the spans that began earlier. The task may sleep within a span.
    fn span(&self, func: Func) -> Self::Span<'_>;

    /// Reports that a stall of the calling task begins (`begins` is `true`) or ends (`false`), for pressure statistics
    /// (`/proc/pressure/memory`). A stalled task lacks memory: it reclaims or compacts memory itself, waits for other
    /// tasks to do so, or waits for a page that reclaim took. Stalls may be nested. Each stall ends in the task in
    /// which it began; [`crate::Stalled`] ensures this. The default implementation does nothing.
    #[inline]
    fn note_stall(&self, begins: bool) {
        let _ = begins;
    }

    /// Reports that a memory control group was created as a child of `parent`. The root group is number 0 and always
    /// exists. The number of a removed group may be used for a new group. The default implementation does nothing.
    #[inline]
    fn note_new_group(&self, group: u16, parent: u16) {
        let _ = (group, parent);
    }

    /// Reports that the calling task is in a memory control group from now on. Before the first report, a task is in
    /// the group of the task that started it, or in the root group. The default implementation does nothing.
    #[inline]
    fn note_group(&self, group: u16) {
        let _ = group;
    }

    /// Reports the reason for any sleep of the calling task from now on, until a call with `None`. Waits are not
    /// nested. [`crate::Waiting`] makes both calls. The default implementation does nothing.
    #[inline]
    fn note_wait(&self, reason: Option<WaitReason>) {
        let _ = reason;
    }

    /// Records a note on a wait of the calling task that has just ended. The closure `note`, which makes the note, is
    /// called only if the machine records notes, so the closure must have no side effects. The default implementation
    /// does nothing.
    #[inline]
    fn note(&self, note: impl FnOnce() -> Note) {
        let _ = note;
    }
}

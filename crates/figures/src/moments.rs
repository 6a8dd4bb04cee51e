//! Recording of the state of a simulated machine at even intervals, and at moments that its workload marks.

use machine::Nanos;

/// Records the state of a machine as a `T` for each moment: at even intervals of virtual time, and at moments that the
/// workload marks.
#[derive(Clone, Debug)]
pub struct Recorder<T> {
    every: Nanos,
    next: Nanos,
    moments: Vec<T>,
}

impl<T> Recorder<T> {
    /// Makes a recorder that records the state of a machine at the interval `every` of virtual time.
    #[must_use]
    pub const fn new(every: Nanos) -> Self {
        Self { every, next: Nanos(0), moments: Vec::new() }
    }

    /// Returns whether the interval since the last record has passed, so that the caller should call
    /// [`Recorder::push`].
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        now >= self.next
    }

    /// Records the state at `now`, and sets the time of the next record.
    pub fn push(&mut self, now: Nanos, moment: T) {
        self.next = Nanos((now.0 + 1).next_multiple_of(self.every.0.max(1)));
        self.moments.push(moment);
    }

    /// Records the state at a moment that the workload marks. The interval of the other records does not change.
    pub fn mark(&mut self, moment: T) {
        self.moments.push(moment);
    }

    /// Returns all records, in order of time.
    #[must_use]
    pub fn finish(self) -> Vec<T> {
        self.moments
    }
}

/// The recorded moments of one run, with the run's column and seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfRun<T> {
    /// Name of the column to which the run belongs. A report has a column for each kernel.
    pub column: String,
    /// The run's seed.
    pub seed: u64,
    /// The moments that were recorded, in the order of time.
    pub moments: Vec<T>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorder_looks_once_in_an_interval() {
        let mut recorder = Recorder::new(Nanos(100));
        for now in (0..1000).step_by(30).map(Nanos) {
            if recorder.is_due(now) {
                recorder.push(now, now.0);
            }
        }
        assert_eq!(recorder.finish(), [0, 120, 210, 300, 420, 510, 600, 720, 810, 900]);
    }

    #[test]
    fn a_mark_is_recorded_when_it_is_and_leaves_the_interval_alone() {
        let mut recorder = Recorder::new(Nanos(100));
        for now in (0..300).step_by(30).map(Nanos) {
            if recorder.is_due(now) {
                recorder.push(now, (now.0, None));
            }
            if now.0 == 150 {
                recorder.mark((now.0, Some("half")));
            }
        }
        assert_eq!(recorder.finish(), [(0, None), (120, None), (150, Some("half")), (210, None)]);
    }
}

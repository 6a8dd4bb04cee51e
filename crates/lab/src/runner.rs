//! Runs jobs side by side, each on a thread of its own; results come in the order of the jobs.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use crate::{
    job::{Failure, Progress},
    panics,
};

/// Sees jobs begin and end; wall time may be looked at here and nowhere else.
pub trait Watch: Sync {
    /// Job number `index` begins.
    fn began(&self, index: usize, progress: &Progress);
    /// Job number `index` ended.
    fn ended(&self, index: usize);
}

/// Sees nothing.
impl Watch for () {
    fn began(&self, _: usize, _: &Progress) {}
    fn ended(&self, _: usize) {}
}

/// As many threads as this computer has cores.
#[must_use]
pub fn all_cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work` for 0 to `count` - 1 on `threads` threads, catching panics; results in that order.
/// After a failure nothing further begins: what did not run is `None`.
pub fn each<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<T, Failure> + Sync,
) -> Vec<Option<Result<T, Failure>>> {
    let results: Vec<Mutex<Option<Result<T, Failure>>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let take =
        || (!failed.load(Ordering::Relaxed)).then(|| next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < count);
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                while let Some(index) = take() {
                    let result = catch_unwind(AssertUnwindSafe(|| work(index))).unwrap_or_else(|payload| {
                        Err(Failure(format!("a bug stopped it: {}", panics::message(&*payload))))
                    });
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    *results[index].lock().expect("only this thread has this place") = Some(result);
                }
            });
        }
    });
    results.into_iter().map(|result| result.into_inner().expect("its thread has ended")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_ends_first() {
        let work = |index: usize| {
            thread::sleep(std::time::Duration::from_millis(if index == 0 { 30 } else { 0 }));
            Ok(index)
        };
        for threads in [1, 2, 8] {
            let found: Vec<usize> = each(5, threads, work).into_iter().map(|result| result.unwrap().unwrap()).collect();
            assert_eq!(found, [0, 1, 2, 3, 4]);
        }
        assert!(each(0, 2, work).is_empty());
    }

    #[test]
    fn a_panic_is_a_failure_and_nothing_begins_after_it() {
        let results = each(4, 1, |index| {
            assert!(index != 1, "frame 0x{index:x} isolated twice");
            Ok(index)
        });
        assert_eq!(results[0], Some(Ok(0)));
        let Some(Err(Failure(message))) = &results[1] else { panic!("{:?}", results[1]) };
        assert!(message.contains("frame 0x1 isolated twice"), "{message}");
        assert_eq!(results[2..], [None, None]);
    }
}

//! Runs jobs in parallel, each on its own thread. Results are in the order of the jobs.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use grounds::job::Failure;
use kit::panics;
use kit::progress::Progress;

/// An observer of jobs. Only an observer may use wall time.
pub trait Watch: Sync {
    /// Called when job number `number`, named `title`, begins.
    fn began(&self, number: usize, title: &str, progress: &Progress);
    /// Called when job number `number` has ended.
    fn ended(&self, number: usize);
    /// Called when a job was found in a store. Such a job neither begins nor ends.
    fn found(&self) {}
}

/// An observer that ignores all events.
impl Watch for () {
    fn began(&self, _: usize, _: &str, _: &Progress) {}
    fn ended(&self, _: usize) {}
}

/// Returns the number of cores of this computer.
#[must_use]
pub fn all_cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Calls `work` for each of `items` on `threads` threads. A panic counts as a failure. Returns each item with its
/// result, in the order of `items`. After the first failure, no further call begins, and items without a call are left
/// out of the results.
pub fn each<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    work: impl Fn(&I) -> Result<T, Failure> + Sync,
) -> Vec<(&I, Result<T, Failure>)> {
    side_by_side(items, threads, true, work)
}

/// Calls `work` for each of `items` as [`each`] does, but goes on after a failure. Returns each item with its result,
/// in order.
pub fn all<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    work: impl Fn(&I) -> Result<T, Failure> + Sync,
) -> Vec<(&I, Result<T, Failure>)> {
    side_by_side(items, threads, false, work)
}

fn side_by_side<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    ends_at_failure: bool,
    work: impl Fn(&I) -> Result<T, Failure> + Sync,
) -> Vec<(&I, Result<T, Failure>)> {
    let results: Vec<Mutex<Option<Result<T, Failure>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let take = || {
        let index = (!failed.load(Ordering::Relaxed)).then(|| next.fetch_add(1, Ordering::Relaxed))?;
        Some((items.get(index)?, &results[index]))
    };
    thread::scope(|scope| {
        let work_off = || {
            while let Some((item, place)) = take() {
                let result = catch_unwind(AssertUnwindSafe(|| work(item))).unwrap_or_else(|payload| {
                    Err(Failure(format!("a bug stopped it: {}", panics::message(&*payload))))
                });
                failed.fetch_or(ends_at_failure && result.is_err(), Ordering::Relaxed);
                *place.lock().expect("only this thread has this place") = Some(result);
            }
        };
        for n in 0..threads.clamp(1, items.len().max(1)) {
            // If the system has no more threads for this user, the threads that have started do all of the work.
            let spawned = thread::Builder::new().spawn_scoped(scope, work_off);
            if spawned.is_err() {
                if n == 0 {
                    work_off();
                }
                break;
            }
        }
    });
    let ended = results.into_iter().map(|result| result.into_inner().expect("its thread has ended"));
    items.iter().zip(ended).filter_map(|(item, result)| Some((item, result?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_ends_first() {
        let work = |item: &usize| {
            thread::sleep(std::time::Duration::from_millis(if *item == 0 { 30 } else { 0 }));
            Ok(10 * item)
        };
        for threads in [1, 2, 8] {
            let items = [0, 1, 2, 3, 4];
            let found: Vec<(usize, usize)> =
                each(&items, threads, work).into_iter().map(|(item, result)| (*item, result.unwrap())).collect();
            assert_eq!(found, [(0, 0), (1, 10), (2, 20), (3, 30), (4, 40)]);
        }
        assert!(each(&[], 2, work).is_empty());
    }

    #[test]
    fn a_panic_is_a_failure_and_nothing_begins_after_it() {
        let results = each(&[0, 1, 2, 3], 1, |item| {
            assert!(*item != 1, "frame 0x{item:x} isolated twice");
            Ok(*item)
        });
        let [(0, Ok(0)), (1, Err(Failure(message)))] = results.as_slice() else { panic!("{results:?}") };
        assert!(message.contains("frame 0x1 isolated twice"), "{message}");
        let results = all(&[0, 1, 2, 3], 1, |item| if *item == 1 { Err(Failure("full".into())) } else { Ok(*item) });
        assert_eq!(
            results.iter().map(|(item, result)| (**item, result.is_ok())).collect::<Vec<_>>(),
            [(0, true), (1, false), (2, true), (3, true)]
        );
    }
}

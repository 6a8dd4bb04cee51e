//! Memory that is no file: held as it was recorded.

use crate::meter::Tally;
use crate::system::{System, SystemError};
use ::trace::{Metadata, PAGE_BYTES};
use machine::Nanos;
use serde_json::Value;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Pages that are mapped or unmapped together. Memory that grows or shrinks by less stays as it is.
const CHUNK_PAGES: u64 = 64;

/// Interval at which the memory looks how far the replaying tasks have come.
const LOOK_EVERY: Nanos = Nanos(100_000);

/// Interval at which a replaying task looks whether the memory has followed.
const WAIT_EVERY: Nanos = Nanos(20_000);

/// Interval at which the memory is touched again, so that it stays in use.
const TOUCH_EVERY: Nanos = Nanos::from_millis(50);

/// The course of the memory that is no file: pairs of a time of the trace in µs and a number of pages, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resident(Vec<(u64, u64)>);

impl Resident {
    /// Reads the recorded course: anonymous and shared memory, and page tables.
    pub fn of(metadata: &Metadata) -> Self {
        let samples = metadata.get("rss").and_then(Value::as_array).into_iter().flatten();
        let course = samples.filter_map(|sample| {
            let of = |name: &str| sample.get(name).and_then(Value::as_u64);
            let bytes = of("anon_bytes")? + of("shmem_bytes").unwrap_or(0) + of("page_table_bytes").unwrap_or(0);
            Some((of("time_us")?, bytes.div_ceil(PAGE_BYTES)))
        });
        let mut course: Vec<(u64, u64)> = course.collect();
        course.sort_by_key(|(time_us, _)| *time_us);
        Self(course)
    }

    /// Returns the largest number of pages.
    pub fn most_pages(&self) -> u64 {
        self.0.iter().map(|(_, pages)| *pages).max().unwrap_or(0)
    }

    /// Returns the number of samples until a time of the trace.
    pub fn samples_until(&self, time_us: u64) -> usize {
        self.0.partition_point(|(at, _)| *at <= time_us)
    }

    /// Returns the number of pages after so many samples: before the first sample, as many as in the first.
    fn pages_after(&self, samples: usize) -> u64 {
        self.0.get(samples.saturating_sub(1)).map_or(0, |(_, pages)| *pages)
    }
}

/// How far the memory has followed its course. Replaying tasks wait for it, since they may come through seconds of the
/// trace in no time, and a peak of memory evicts pages however short it is.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// Number of samples until the request that the tasks have come to.
    wanted: AtomicUsize,
    /// Number of samples that the memory has followed.
    done: AtomicUsize,
}

impl Followed {
    /// Waits until the memory has followed its course up to `samples` samples.
    pub fn wait<S: System>(&self, system: &S, tally: &Tally, samples: usize) {
        self.wanted.fetch_max(samples, Relaxed);
        while self.done.load(Relaxed) < samples && !tally.is_over() && !system.is_killed() {
            system.sleep(WAIT_EVERY);
        }
    }
}

/// Holds anonymous memory as it was recorded, at the time of the trace to which the replaying tasks have come, until the
/// measurement is over.
pub(super) fn hold<S: System>(
    system: &S,
    course: &Resident,
    followed: &Followed,
    tally: &Tally,
) -> Result<(), SystemError> {
    let mut held: Vec<S::Region> = Vec::new();
    let (mut is_begun, mut touched) = (false, system.now());
    while !(system.is_killed() || is_begun && tally.is_over()) {
        let done = followed.done.load(Relaxed);
        let next = if done < followed.wanted.load(Relaxed) { done + 1 } else { done };
        let is_due = system.now().since(touched) >= TOUCH_EVERY;
        if is_due {
            touched = system.now();
        }
        let wanted = course.pages_after(next).div_ceil(CHUNK_PAGES) as usize;
        if let Err(error) = adjust(system, &mut held, wanted, is_due)
            && !system.is_killed()
        {
            return Err(error);
        }
        followed.done.store(next, Relaxed);
        if !std::mem::replace(&mut is_begun, true) {
            tally.begin(system);
        }
        if next == followed.wanted.load(Relaxed) {
            system.sleep(LOOK_EVERY);
        }
    }
    held.into_iter().for_each(|region| system.unmap(region));
    Ok(())
}

/// Makes the held memory as large as `wanted` chunks. Touches all of it if `touches` is set.
fn adjust<S: System>(system: &S, held: &mut Vec<S::Region>, wanted: usize, touches: bool) -> Result<(), SystemError> {
    while held.len() > wanted {
        held.pop().into_iter().for_each(|region| system.unmap(region));
    }
    for region in held.iter().filter(|_| touches) {
        system.touch(region, 0..CHUNK_PAGES as u32, true)?;
    }
    while held.len() < wanted {
        held.push(system.map(CHUNK_PAGES as u32)?);
        system.touch(&held[held.len() - 1], 0..CHUNK_PAGES as u32, true)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_course_follows_the_samples() {
        let sample =
            |time_us: u64, anon: u64| json!({"time_us": time_us, "anon_bytes": anon, "page_table_bytes": 4096});
        let mut metadata = Metadata::new();
        metadata.insert("rss".into(), json!([sample(100, 8192), sample(200, 40_960), sample(300, 4096)]));
        let resident = Resident::of(&metadata);
        let pages_at = |time_us| resident.pages_after(resident.samples_until(time_us));
        assert_eq!([0, 100, 199, 250, 9999].map(pages_at), [3, 3, 3, 11, 2]);
        assert_eq!(resident.most_pages(), 11);
        assert_eq!(Resident::of(&Metadata::new()).most_pages(), 0);
    }
}

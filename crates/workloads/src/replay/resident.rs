//! Memory that is no file: held as it was recorded.

use super::worker::Shared;
use crate::meter::Tally;
use crate::system::{System, SystemError};
use ::trace::{Metadata, PAGE_BYTES};
use machine::Nanos;
use serde_json::Value;

/// Pages that are mapped or unmapped together. Memory that grows or shrinks by less stays as it is.
const CHUNK_PAGES: u64 = 64;

/// Interval at which the memory that is held is looked at, and touched again, so that it stays in use.
const LOOK_EVERY: Nanos = Nanos::from_millis(50);

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

    /// Returns the number of pages at a time of the trace: that of the last sample until then, or of the first sample.
    fn pages_at(&self, time_us: u64) -> u64 {
        let next = self.0.partition_point(|(at, _)| *at <= time_us);
        self.0.get(next.saturating_sub(1)).map_or(0, |(_, pages)| *pages)
    }
}

/// Holds anonymous memory as it was recorded, at the time of the trace to which the replaying tasks have come, until the
/// measurement is over.
pub(super) fn hold<S: System>(system: &S, shared: &Shared, tally: &Tally) -> Result<(), SystemError> {
    let mut held: Vec<S::Region> = Vec::new();
    let mut is_begun = false;
    while !system.is_killed() && !(is_begun && tally.is_over()) {
        let wanted = shared.loaded.resident.pages_at(shared.trace_time_us()).div_ceil(CHUNK_PAGES) as usize;
        if let Err(error) = adjust(system, &mut held, wanted)
            && !system.is_killed()
        {
            return Err(error);
        }
        if !std::mem::replace(&mut is_begun, true) {
            tally.begin(system);
        }
        system.sleep(LOOK_EVERY);
    }
    held.into_iter().for_each(|region| system.unmap(region));
    Ok(())
}

/// Makes the held memory as large as `wanted` chunks, and touches all of it.
fn adjust<S: System>(system: &S, held: &mut Vec<S::Region>, wanted: usize) -> Result<(), SystemError> {
    while held.len() > wanted {
        held.pop().into_iter().for_each(|region| system.unmap(region));
    }
    for region in &*held {
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
        let sample = |time_us: u64, anon: u64| json!({"time_us": time_us, "anon_bytes": anon, "page_table_bytes": 4096});
        let mut metadata = Metadata::new();
        metadata.insert("rss".into(), json!([sample(100, 8192), sample(200, 40_960), sample(300, 4096)]));
        let resident = Resident::of(&metadata);
        assert_eq!([0, 100, 199, 250, 9999].map(|at| resident.pages_at(at)), [3, 3, 3, 11, 2]);
        assert_eq!(resident.most_pages(), 11);
        assert_eq!(Resident::of(&Metadata::new()).most_pages(), 0);
    }
}

//! The extent of a run (duration, longest wait, operations, file pages), predicted from its parameters. Runs that would
//! not end are refused, and users see the remaining time.

use figures::scale::Scale;

/// Longest duration of a run by its own clock, seconds: ten hours. The simulator's clock ends at twenty hours.
pub const TIME_MAX_S: u64 = 36_000;

/// Largest memory of one program at full scale, MiB: 1 TiB. Page numbers of 32 bits, which can reach 16 TiB, then
/// suffice.
pub const MEMORY_MAX_MIB: u64 = 1 << 20;

/// Largest number of operations in a run. A simulator does some million operations a second, so such a run takes hours.
pub const OPERATIONS_MAX: u64 = 10_000_000_000;

/// The predicted extent of a run: its duration, operations and file pages. Values are lower bounds, capped at
/// `u64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Duration of the run in virtual or real time, seconds; none if the parameters do not determine it.
    pub time_s: Option<u64>,
    /// Duration of the longest sleep or computation that a task does without a break, seconds.
    pub wait_s: u64,
    /// Number of operations of all tasks together.
    pub operations: u64,
    /// Largest number of file pages that exist at the same time.
    pub file_pages: u64,
}

impl Extent {
    /// Refuses a run that exceeds the limits of time or operations. Also refuses a run whose files need more pages than
    /// `device_pages`, the number of pages that files may take on the device, if this number is known.
    ///
    /// # Errors
    /// When a quantity is too large. The message names the quantity and its limit.
    pub fn check(&self, device_pages: Option<u64>) -> Result<(), String> {
        let Self { time_s, wait_s, operations, file_pages } = *self;
        if let Some(time_s) = time_s.filter(|time_s| *time_s > TIME_MAX_S) {
            return Err(format!("a run of {time_s} s: at most {TIME_MAX_S} s can be run"));
        }
        if wait_s > TIME_MAX_S {
            return Err(format!("a wait of {wait_s} s: at most {TIME_MAX_S} s can be run"));
        }
        if let Some(pages) = device_pages.filter(|pages| file_pages > *pages) {
            return Err(format!("{file_pages} pages of files: the device has room for {pages}"));
        }
        if operations > OPERATIONS_MAX {
            return Err(format!("{operations} operations: at most {OPERATIONS_MAX} can be run"));
        }
        Ok(())
    }
}

/// Returns how many times `step_ns` nanoseconds fit into `time_s` seconds.
#[must_use]
pub fn times(time_s: u64, step_ns: u64) -> u64 {
    time_s.saturating_mul(1_000_000_000) / step_ns.max(1)
}

/// Returns the number of pages in `kib` KiB, rounded up.
#[must_use]
pub fn kib_pages(kib: u64) -> u64 {
    kib.div_ceil(4)
}

/// Returns the number of pages, at the scale `scale`, of memory that has `mib` MiB at full scale.
#[must_use]
pub fn mib_pages(mib: u64, scale: Scale) -> u64 {
    scale.of(mib.saturating_mul(256))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_is_refused() {
        let told = |extent: Extent| extent.check(Some(1000)).err().unwrap_or_default();
        assert_eq!(told(Extent { time_s: Some(TIME_MAX_S), file_pages: 1000, ..Extent::default() }), "");
        let long = Extent { time_s: Some(TIME_MAX_S + 1), ..Extent::default() };
        assert_eq!(told(long), "a run of 36001 s: at most 36000 s can be run");
        assert!(told(Extent { wait_s: u64::MAX, ..Extent::default() }).starts_with("a wait of 18446744073709551615 s"));
        assert!(told(Extent { file_pages: 1001, ..Extent::default() }).ends_with("has room for 1000"));
        let many = Extent { operations: times(u64::MAX, 1), ..Extent::default() };
        assert!(told(many).starts_with("18446744073709551615 operations: "));
    }
}

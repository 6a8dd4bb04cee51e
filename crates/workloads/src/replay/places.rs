//! [`Places`]: where the parts of a device or a sparse file lie in the file of a run.

use std::ops::Range;

/// Size of the parts into which a sparse file is divided, bytes. Readahead windows are smaller than a part.
pub(super) const PART_BYTES: u64 = 1 << 20;

/// The parts of a file that a trace uses, in ascending order. The file of a run has only these parts, one after the
/// other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places(Vec<u64>);

impl Places {
    /// Returns the places of the parts with these numbers.
    pub fn of(mut parts: Vec<u64>) -> Self {
        parts.sort_unstable();
        parts.dedup();
        Self(parts)
    }

    /// Returns the length of the file of a run, bytes.
    pub const fn bytes(&self) -> u64 {
        self.0.len() as u64 * PART_BYTES
    }

    /// Returns the ranges in the file of a run that stand for the range of the trace. Ranges that follow one another
    /// are one.
    pub fn ranges(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut found: Vec<Range<u64>> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let (part, within) = (at / PART_BYTES, at % PART_BYTES);
            let end = range.end.min((part + 1) * PART_BYTES);
            if let Ok(place) = self.0.binary_search(&part) {
                let start = place as u64 * PART_BYTES + within;
                match found.last_mut() {
                    Some(last) if last.end == start => last.end += end - at,
                    _ => found.push(start..start + (end - at)),
                }
            }
            at = end;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_one_after_the_other() {
        let places = Places::of(vec![900, 7, 8, 7]);
        assert_eq!(places.bytes(), 3 * PART_BYTES);
        let start = 7 * PART_BYTES;
        assert_eq!(places.ranges(start + 5..start + PART_BYTES + 9), std::slice::from_ref(&(5..PART_BYTES + 9)));
        assert_eq!(
            places.ranges(900 * PART_BYTES..900 * PART_BYTES + 3),
            std::slice::from_ref(&(2 * PART_BYTES..2 * PART_BYTES + 3))
        );
        assert!(places.ranges(20 * PART_BYTES..20 * PART_BYTES + 3).is_empty(), "no part of the trace");
    }
}

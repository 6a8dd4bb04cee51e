//! Spans of time in which the server completed no request, or only few.

use machine::Nanos;

/// Returns the lengths of the gaps in `from`..`to` in which no request ended and that are at least `least` long. `ends`
/// are the times at which requests ended, in order. The first gap begins at `from`, and the last gap ends at `to`.
#[must_use]
pub fn gaps(ends: &[Nanos], from: Nanos, to: Nanos, least: Nanos) -> Vec<Nanos> {
    let inside = ends.iter().copied().filter(|end| (from..to).contains(end));
    let mut last = from;
    let mut found = Vec::new();
    for end in inside.chain([to]) {
        let gap = end.since(last);
        if gap >= least && gap > Nanos(0) {
            found.push(gap);
        }
        last = end;
    }
    found
}

/// Returns the number of whole seconds in `from`..`to` in which fewer than `least` requests ended. A partial second at
/// the end does not count.
#[must_use]
pub fn slow_seconds(ends: &[Nanos], from: Nanos, to: Nanos, least: f64) -> u64 {
    let second = Nanos::from_secs(1).0;
    let mut counts = vec![0_u64; (to.since(from).0 / second) as usize];
    for end in ends.iter().filter(|end| **end >= from) {
        if let Some(count) = counts.get_mut((end.since(from).0 / second) as usize) {
            *count += 1;
        }
    }
    counts.into_iter().filter(|count| (*count as f64) < least).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_slow_with_fewer_requests_than_the_least() {
        let ends: Vec<Nanos> = [100, 900, 1100, 2500, 2600, 2700, 5200].map(Nanos::from_millis).to_vec();
        let slow = |from, to, least| slow_seconds(&ends, Nanos::from_millis(from), Nanos::from_millis(to), least);
        assert_eq!(slow(0, 5000, 2.0), 3, "the second, the fourth, the fifth");
        assert_eq!(slow(0, 5900, 2.0), 3, "what is left is no whole second");
        assert_eq!((slow(0, 5000, 1.0), slow(0, 5000, 0.0), slow(1000, 1900, 9.0)), (2, 0, 0));
    }

    #[test]
    fn gaps_reach_from_the_start_to_the_end_and_short_ones_do_not_count() {
        let of = |ends: &[u64], from, to| {
            let ends: Vec<Nanos> = ends.iter().map(|end| Nanos(*end)).collect();
            gaps(&ends, Nanos(from), Nanos(to), Nanos(10)).iter().map(|gap| gap.0).collect::<Vec<_>>()
        };
        assert_eq!(of(&[5, 12, 30, 39, 50], 0, 55), [18, 11], "12 to 30, 39 to 50");
        assert_eq!(of(&[], 0, 100), [100], "nobody got on at all");
        assert_eq!(of(&[1, 2, 3], 10, 100), [90], "what was before does not count");
        assert_eq!(of(&[50, 200], 0, 100), [50, 50], "the gap that is open at the end counts up to it");
        assert!(of(&[5, 14, 23], 0, 30).is_empty());
        assert!(of(&[], 10, 10).is_empty());
    }
}

//! A recording as a series of intervals, each with its signs: the counters and levels that rules judge.
//!
//! A counter's sign is its growth within the interval; a level's sign is the level at the end. [`Signs::then`] joins
//! consecutive intervals, so that a rule judges any span in the same way as the whole recording.

use super::signs::Signs;
use std::fmt;
use std::ops::Deref;

/// Number of intervals at which a [`Course`] is too long and joins its intervals in pairs. A day of `vmstat 1` (86,400
/// lines) stays below this number and is kept line by line, at about 1.5 KiB per line.
const INTERVALS_MAX: usize = 1 << 17;

/// The place of an interval or span within a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum Extent {
    /// Lines of a text, counted from 1. The place includes the first and the last line.
    Lines {
        /// Number of the first line of the interval or span.
        first: usize,
        /// Number of the last line of the interval or span.
        last: usize,
    },
    /// The place is given by two times of day.
    Times {
        /// Time at which the interval or span begins, s since the midnight before the recording.
        from: f64,
        /// Time at which the interval or span ends, s since the midnight before the recording.
        to: f64,
    },
    /// The place is given by two times, in seconds since the recording began.
    Seconds {
        /// Time at which the interval or span begins, s since the recording began.
        from: f64,
        /// Time at which the interval or span ends, s since the recording began.
        to: f64,
    },
}

impl Extent {
    /// Returns the place that begins where `self` begins and ends where `end` ends; `end` lies later in the recording.
    /// Returns `self` if the two places are of different kinds, such as lines and times.
    #[must_use]
    pub fn until(&self, end: &Self) -> Self {
        match (self, end) {
            (Self::Lines { first, .. }, Self::Lines { last, .. }) => Self::Lines { first: *first, last: *last },
            (Self::Times { from, .. }, Self::Times { to, .. }) => Self::Times { from: *from, to: *to },
            (Self::Seconds { from, .. }, Self::Seconds { to, .. }) => Self::Seconds { from: *from, to: *to },
            _ => self.clone(),
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lines { first, last } if first == last => write!(f, "line {first}"),
            Self::Lines { first, last } => write!(f, "lines {first} to {last}"),
            Self::Times { from, to } => write!(f, "{} to {}", time_of_day(*from), time_of_day(*to)),
            Self::Seconds { from, to } => write!(f, "{from:.1} s to {to:.1} s"),
        }
    }
}

/// Formats a time of day as recordings print it, such as `10:07:12`. `seconds` counts from the midnight of any day.
fn time_of_day(seconds: f64) -> String {
    let seconds = seconds.rem_euclid(86_400.0).floor() as u32;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// An interval of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// The interval's position in the recording.
    pub place: Extent,
    /// The signs (growth of counters, and levels) over the interval. Their `elapsed_s` is the interval's length.
    pub signs: Signs,
}

impl Interval {
    /// Extends the interval by `later`, the interval that directly follows `self`.
    pub fn then(&mut self, later: &Self) {
        self.place = self.place.until(&later.place);
        self.signs.then(&later.signs);
    }

    /// Returns the time from the beginning of the interval to its end by the clock, s. It is longer than the samples if
    /// no tool ran between them, as in an archive that runs `vmstat 1 3` every 30 s.
    #[must_use]
    pub fn clock_s(&self) -> f64 {
        let sampled_s = self.signs.elapsed_s.unwrap_or(0.0);
        match self.place {
            Extent::Times { from, to } => sampled_s.max(to - from),
            Extent::Lines { .. } | Extent::Seconds { .. } => sampled_s,
        }
    }
}

/// The intervals of a recording, in order. Rules treat the intervals as if no time lay between them. If a recording has
/// too many intervals, neighbouring ones are joined, so that a kept interval covers several intervals of the recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    intervals: Vec<Interval>,
    /// Number of intervals of the recording that each kept interval covers.
    grain: usize,
    /// Number of intervals of the recording that the last kept interval covers so far.
    in_last: usize,
}

impl Course {
    /// Adds an interval at the end. If there are then too many intervals, neighbouring intervals are joined in pairs.
    pub fn push(&mut self, interval: Interval) {
        self.grain = self.grain.max(1);
        match self.intervals.last_mut().filter(|_| self.in_last < self.grain) {
            Some(last) => last.then(&interval),
            None => {
                self.intervals.push(interval);
                self.in_last = 0;
            }
        }
        self.in_last += 1;
        if self.intervals.len() == INTERVALS_MAX && self.in_last == self.grain {
            self.intervals = in_pairs(&self.intervals);
            self.grain *= 2;
            self.in_last = self.grain;
        }
    }

    /// Returns all intervals joined into one; none if the course has no intervals.
    #[must_use]
    pub fn whole(&self) -> Option<Interval> {
        together(&self.intervals)
    }
}

impl Course {
    /// Calls `change` with the signs of each interval.
    pub fn for_each_mut(&mut self, change: impl FnMut(&mut Signs)) {
        self.intervals.iter_mut().map(|interval| &mut interval.signs).for_each(change);
    }
}

impl Deref for Course {
    type Target = [Interval];

    fn deref(&self) -> &[Interval] {
        &self.intervals
    }
}

impl FromIterator<Interval> for Course {
    fn from_iter<I: IntoIterator<Item = Interval>>(intervals: I) -> Self {
        let mut course = Self::default();
        intervals.into_iter().for_each(|interval| course.push(interval));
        course
    }
}

/// Joins consecutive intervals into one, and returns it; none if `intervals` is empty.
#[must_use]
pub fn together(intervals: &[Interval]) -> Option<Interval> {
    let (first, rest) = intervals.split_first()?;
    let mut whole = first.clone();
    rest.iter().for_each(|later| whole.then(later));
    Some(whole)
}

/// Joins neighbouring intervals in pairs. If the number of intervals is odd, the last interval stays alone.
#[must_use]
pub fn in_pairs(intervals: &[Interval]) -> Vec<Interval> {
    intervals.chunks(2).filter_map(together).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(line: usize, swapped_in: f64) -> Interval {
        Interval {
            place: Extent::Lines { first: line, last: line },
            signs: Signs { elapsed_s: Some(1.0), swapped_in: Some(swapped_in), ..Signs::default() },
        }
    }

    #[test]
    fn places_are_told_as_the_recording_counts() {
        let shown = |place: Extent| place.to_string();
        assert_eq!(shown(Extent::Lines { first: 7, last: 7 }), "line 7");
        assert_eq!(shown(interval(403, 0.0).place.until(&interval(414, 0.0).place)), "lines 403 to 414");
        let times = |from: f64, to: f64| Extent::Times { from, to };
        assert_eq!(shown(times(36_432.0, 36_444.9)), "10:07:12 to 10:07:24");
        assert_eq!(shown(times(86_399.0, 86_401.0)), "23:59:59 to 00:00:01");
        let seconds = |from, to| Extent::Seconds { from, to };
        assert_eq!(shown(seconds(12.0, 13.0).until(&seconds(20.0, 24.04))), "12.0 s to 24.0 s");
    }

    #[test]
    fn a_long_course_is_kept_in_coarser_intervals_and_loses_nothing() {
        let lines = INTERVALS_MAX + 1;
        let course: Course = (1..=lines).map(|line| interval(line, 2.0)).collect();
        assert!((INTERVALS_MAX / 2..=INTERVALS_MAX / 2 + 1).contains(&course.len()), "{}", course.len());
        assert_eq!(course[0].place, Extent::Lines { first: 1, last: 2 });
        let whole = course.whole().unwrap();
        assert_eq!(whole.place, Extent::Lines { first: 1, last: lines });
        assert_eq!((whole.signs.elapsed_s, whole.signs.swapped_in), (Some(lines as f64), Some(2.0 * lines as f64)));
        assert_eq!(Course::default().whole(), None);
    }
}

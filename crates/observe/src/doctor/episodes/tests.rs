//! Tests of episodes: a rule that holds for a part of a log, however long, is reported with the lines of this part. A
//! single moment is no episode.

use super::*;
use crate::doctor::course::Extent;
use crate::doctor::{Diagnosis, Patient};

/// Makes a course as `vmstat 1` would record it. Each of `lines` has the pages that were swapped in and out within one
/// second.
fn course(lines: impl IntoIterator<Item = (f64, f64)>) -> Course {
    let interval = |(n, (come, left)): (usize, (f64, f64))| Interval {
        place: Extent::Lines { first: n + 1, last: n + 1 },
        signs: Signs { elapsed_s: Some(1.0), swapped_in: Some(come), swapped_out: Some(left), ..Signs::default() },
    };
    lines.into_iter().enumerate().map(interval).collect()
}

/// Diagnoses a recorded course of samples. Returns the finding `anonymous-thrashing`, if there is one: its sentence,
/// and the part of the course for which it holds, which is `None` for the whole course.
fn found(course: Course) -> Option<(String, Option<When>)> {
    let diagnosis = Diagnosis::of_patient(&Patient::of_course("v", course));
    let finding = diagnosis.findings.into_iter().find(|it| it.cause == "anonymous-thrashing")?;
    Some((finding.sentence, finding.when))
}

/// Makes a course of `lines` seconds without swapping, except for the ranges `loud`, in which programs thrash. Lines
/// are counted from 1.
fn quiet_but(lines: usize, loud: &[std::ops::RangeInclusive<usize>]) -> Course {
    course((1..=lines).map(|n| if loud.iter().any(|it| it.contains(&n)) { (2000.0, 1800.0) } else { (0.0, 0.0) }))
}

fn when(course: Course) -> When {
    found(course).expect("it is found").1.expect("not all the time")
}

#[test]
fn a_short_episode_is_found_in_logs_of_any_length_with_its_very_lines() {
    for (lines, episodes) in
        [(100, &[(41, 52), (37, 66), (1, 12)][..]), (900, &[(403, 414)]), (86_400, &[(50_001, 50_030)])]
    {
        for (first, last) in episodes.iter().copied() {
            let when = when(quiet_but(lines, &[first..=last]));
            assert_eq!(when.worst.place, format!("lines {first} to {last}"), "{lines}");
            assert_eq!((when.worst.seconds, when.count), ((last - first + 1) as f64, 1), "{lines}");
            assert_eq!((when.of_s, when.over_for_s), (lines as f64, (lines - last) as f64));
        }
    }
}

#[test]
fn what_is_said_is_of_the_span() {
    let (sentence, when) = found(quiet_but(900, &[403..=414])).expect("it is found");
    assert!(sentence.starts_with("For 12.0 s (lines 403 to 414): Pages go to and fro"), "{sentence}");
    assert!(sentence.contains("2000 pages a second come back"), "{sentence}");
    let shown = when.expect("a span").show();
    assert_eq!(shown, "lines 403 to 414, 12.0 s of 15 min; it is over for 486 s at the end");
}

#[test]
fn spans_are_counted_and_the_last_may_go_on() {
    let when = when(quiet_but(2000, &[101..=110, 700..=729, 1980..=2000]));
    assert_eq!((when.worst.place.as_str(), when.count, when.together_s), ("lines 700 to 729", 3, 61.0));
    assert_eq!(when.over_for_s, 0.0);
    let shown = when.show();
    assert!(shown.contains("3 times, 61 s of 33 min in all, also lines 101 to 110, lines 1980 to 2000"), "{shown}");
    assert!(shown.ends_with("the last time it goes on to the end"), "{shown}");
}

#[test]
fn a_breath_does_not_make_two_spans_of_one() {
    let when = when(quiet_but(900, &[300..=330, 333..=350]));
    assert_eq!((when.worst.place.as_str(), when.count), ("lines 300 to 350", 1));
}

#[test]
fn what_is_weak_is_found_where_it_lasts() {
    // Twenty minutes of a day with 40 pages/s.
    let weak = course((1..=86_400).map(|n| if (20_000..21_200).contains(&n) { (40.0, 40.0) } else { (0.0, 0.0) }));
    assert_eq!(when(weak).worst.place, "lines 20000 to 21199");
    // A minute with 40 pages/s moves no more than a nightly job.
    let short = course((1..=3600).map(|n| if (2000..2060).contains(&n) { (40.0, 40.0) } else { (0.0, 0.0) }));
    assert_eq!(found(short), None);
}

#[test]
fn pages_that_leave_and_come_in_other_seconds_are_one_episode() {
    let turns = course((1..=600).map(|n| match (n, n % 2) {
        (200..=231, 0) => (3000.0, 0.0),
        (200..=231, _) => (0.0, 3000.0),
        _ => (0.0, 0.0),
    }));
    let (_, when) = found(turns).expect("it is found");
    assert_eq!(when.expect("a span").worst.place, "lines 200 to 230");
}

#[test]
fn a_moment_is_no_episode_however_much_it_is() {
    let spike = |at: &'static [usize]| move |n: usize| if at.contains(&n) { (50_000.0, 50_000.0) } else { (0.0, 0.0) };
    for lines in [20, 60, 900, 3600] {
        assert_eq!(found(course((1..=lines).map(spike(&[10])))), None, "{lines}");
    }
    // Two moments that are far apart are no episode either.
    assert_eq!(found(course((1..=900).map(spike(&[10, 800])))), None);
}

#[test]
fn what_is_so_all_the_time_has_the_whole_recording_as_its_span() {
    let (sentence, when) = found(course(vec![(500.0, 400.0); 700])).expect("it is found");
    assert!(sentence.starts_with("Pages go to and fro"), "{sentence}");
    assert_eq!(when.expect("a span").show(), "lines 1 to 700, 12 min: the whole recording");
    // A recording that is too short for spans is judged as a whole, and so is one interval, such as an average of `sar`.
    for (intervals, shown) in
        [(3, "lines 1 to 3, 3.0 s: the whole recording"), (1, "line 1, 1.0 s: the whole recording")]
    {
        let (_, when) = found(course(vec![(500.0, 400.0); intervals])).expect("it is found");
        assert_eq!(when.expect("a span").show(), shown);
    }
    // A notice about the whole recording, and an illness that a text beside the recording shows, have none.
    let interval = Interval {
        place: Extent::Lines { first: 1, last: 1 },
        signs: Signs { elapsed_s: Some(60.0), swap: Some([1000.0, 900.0]), ..Signs::default() },
    };
    let mut patient = Patient::of_course("v", Course::from_iter([interval]));
    patient.signs.swap = Some([1000.0, 1.0]);
    let finding = &Diagnosis::of_patient(&patient).findings[0];
    assert_eq!((finding.cause, &finding.when), ("swap-full", &None));
}

#[test]
fn a_sample_of_ten_minutes_is_enough() {
    let sample = |(n, come): (usize, f64)| Interval {
        place: Extent::Times { from: 600.0 * n as f64, to: 600.0 * (n + 1) as f64 },
        signs: Signs {
            elapsed_s: Some(600.0),
            swapped_in: Some(600.0 * come),
            swapped_out: Some(600.0 * come),
            ..Signs::default()
        },
    };
    let day: Course = (0..144).map(|n| (n, if n == 66 { 800.0 } else { 0.1 })).map(sample).collect();
    assert_eq!(when(day).worst.place, "11:00:00 to 11:10:00");
}

#[test]
fn levels_are_told_with_the_moments_in_which_they_were_so() {
    let full = |n: usize| if (50..60).contains(&n) { 1.0 } else { 900.0 };
    let intervals = (1..=100).map(|n| Interval {
        place: Extent::Lines { first: n, last: n },
        signs: Signs { elapsed_s: Some(1.0), swap: Some([1000.0, full(n)]), ..Signs::default() },
    });
    let diagnosis = Diagnosis::of_patient(&Patient::of_course("v", intervals.collect()));
    let finding = &diagnosis.findings[0];
    assert_eq!(finding.cause, "swap-full");
    assert_eq!(finding.when.as_ref().map(|when| when.worst.place.as_str()), Some("lines 50 to 59"));
}

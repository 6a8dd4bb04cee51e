//! Episodes in a recording: spans of any length in which a rule holds.
//!
//! A mean over an hour hides half a minute of trouble, and a mean over a second is noise. Each rule is therefore asked
//! about windows of several lengths: the shortest length that is no noise, then twice as long, and so on. Each window
//! overlaps half of the one before. Overlapping windows in which the rule holds are joined, and their quiet edges are
//! cut off. A rule also holds in any longer window around an episode, so a longer window counts only where no shorter
//! one was found. For each interval of a recording, a rule is asked about approximately three windows, however long the
//! recording is.

use super::course::{Course, Interval, in_pairs, together};
use super::rules::{Over, Rule};
use super::signs::Signs;
use super::{Finding, Weight};
use serde::Serialize;
use std::ops::Range;

/// Shortest span (part of a recording), s, that can be an episode. A shorter burst of reclaim is noise: the start of a
/// program causes one, or the return to an idle browser tab.
pub const SPAN_MIN_S: f64 = 5.0;

/// Smallest number of samples in a span that is shorter than [`LONG_S`]. In a longer span, one sample is enough,
/// because the sample is a mean over a long time.
const SAMPLES_MIN: usize = 2;

/// Shortest sample, s, whose mean counts as more than noise.
const LONG_S: f64 = 60.0;

/// Smallest load, s, of a span (a part of a recording) in which an illness is reported. The load is the amount of
/// reclaim work in the span, such as a number of pages, divided by the smallest rate that counts as an illness. If this
/// rate is 25 pages/s, a load of 300 s is 7,500 pages (29 MiB). Reclaim moves less on an idle desktop or in a nightly
/// job, and more in half a minute of thrashing on a hard disk.
pub const LOAD_MIN_S: f64 = 300.0;

/// Smallest share of a span's time, percent, that the busy intervals of the span must take. An interval is busy if its
/// own rate counts as an illness. Without this limit, two short events an hour apart would make a span of an hour.
const BUSY_MIN: f64 = 10.0;

/// Share of the recording, percent, from which an illness counts as present in the whole recording: the spans in which
/// it was found cover at least this share together.
const ALL_THE_TIME: f64 = 90.0;

/// Largest number of spans whose places in the recording a finding lists. Further spans are only counted.
const NAMED_MAX: usize = 10;

/// A span of a recording in which a rule finds an illness.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    /// The span's place in the recording, such as "lines 403 to 414".
    pub place: String,
    /// Duration of the span by the clock, s.
    pub seconds: f64,
}

/// The spans of a recording in which a finding held.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct When {
    /// The span that the finding describes: the one in which reclaim did the most work.
    pub worst: Span,
    /// Number of spans of the recording in which the finding held.
    pub count: usize,
    /// The spans in which the finding held, in the order of time: the first ones, at most `NAMED_MAX`.
    pub spans: Vec<Span>,
    /// Total length of the spans, s.
    pub together_s: f64,
    /// Length of the whole recording, s.
    pub of_s: f64,
    /// Time from the end of the last span to the end of the recording, s; 0 if the last span reaches the end of the
    /// recording.
    pub over_for_s: f64,
}

impl When {
    /// Returns the one span that is a whole recording.
    #[must_use]
    pub fn whole(recording: &Interval) -> Self {
        let seconds = recording.clock_s();
        let worst = Span { place: recording.place.to_string(), seconds };
        Self { spans: vec![worst.clone()], worst, count: 1, together_s: seconds, of_s: seconds, over_for_s: 0.0 }
    }

    /// Returns a text about the spans: the place and length of the worst, their number and total length, the places of
    /// others, and the time since the last one ended.
    #[must_use]
    pub fn show(&self) -> String {
        let Self { worst, count, spans, together_s, of_s, over_for_s } = self;
        if *count == 1 && worst.seconds == *of_s {
            return format!("{}, {}: the whole recording", worst.place, time(worst.seconds));
        }
        let end = match *over_for_s {
            0.0 => "it goes on to the end".to_owned(),
            seconds => format!("it is over for {} at the end", time(seconds)),
        };
        if *count == 1 {
            return format!("{}, {} of {}; {end}", worst.place, time(worst.seconds), time(*of_s));
        }
        let others: Vec<&str> = spans.iter().filter(|it| *it != worst).map(|it| it.place.as_str()).collect();
        let unnamed = match count.saturating_sub(1 + others.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(
            "worst {}, {}; {count} times, {} of {} in all, also {}{unnamed}; the last time {end}",
            worst.place,
            time(worst.seconds),
            time(*together_s),
            time(*of_s),
            others.join(", ")
        )
    }
}

/// Formats a duration: `12.5 s`, `14 min`, `3.5 h`.
fn time(seconds: f64) -> String {
    match seconds {
        ..60.0 => format!("{seconds:.1} s"),
        ..600.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// The result of a rule for a recording, after the rule's finding over the whole recording was compared with the spans
/// in which the rule holds.
pub enum OverTime {
    /// The rule's result for the whole recording is kept: its finding, or that there is none.
    Whole,
    /// The rule's finding over the whole recording is dropped, because a few seconds of the recording caused at least
    /// half of the load that the rule judges.
    Nothing,
    /// The rule holds only for spans of the recording. The finding describes the worst of these spans.
    Span(Box<Finding>),
}

/// The spans of a recording in which rules hold: those that the search has found so far. The recording is given as a
/// course, which is a sequence of intervals.
pub struct Spans<'c> {
    course: &'c Course,
    /// Start of each interval, s from the start of the recording. The last entry is the end of the last interval.
    began_s: Vec<f64>,
    /// For each rule, the spans found so far in which the rule holds, as ranges of interval numbers in ascending order.
    found: Vec<Vec<Range<usize>>>,
}

impl<'c> Spans<'c> {
    /// Finds the spans of a course in which each of `rules` holds, by asking the rules about windows of all lengths.
    #[must_use]
    pub fn of(course: &'c Course, rules: &[Rule]) -> Self {
        let mut began_s = vec![0.0];
        for interval in course.iter() {
            began_s.push(began_s[began_s.len() - 1] + seconds(&interval.signs));
        }
        let mut this = Self { course, began_s, found: vec![Vec::new(); rules.len()] };
        // Windows of 1, 2, 4, … intervals, side by side; and between two neighbours one more that overlaps half of
        // each.
        let mut tiles: Vec<Interval> = course.to_vec();
        let mut parts: Vec<Interval> = Vec::new();
        let mut length = 1;
        loop {
            let mut new: Vec<Vec<Range<usize>>> = vec![Vec::new(); rules.len()];
            let mut ask = |window: &Interval, start: usize| {
                this.ask(rules, &window.signs, start..(start + length).min(course.len()), &mut new);
            };
            tiles.iter().enumerate().for_each(|(n, tile)| ask(tile, n * length));
            for (n, halves) in parts.get(1..).unwrap_or_default().chunks_exact(2).enumerate() {
                together(halves).iter().for_each(|window| ask(window, n * length + length / 2));
            }
            for (n, new) in new.into_iter().enumerate() {
                this.add(&rules[n], n, new);
            }
            if tiles.len() <= 1 {
                break;
            }
            let pairs = in_pairs(&tiles);
            parts = std::mem::replace(&mut tiles, pairs);
            length *= 2;
        }
        for (n, rule) in rules.iter().enumerate() {
            this.join(rule, n);
        }
        this
    }

    fn seconds(&self, range: &Range<usize>) -> f64 {
        self.began_s[range.end] - self.began_s[range.start]
    }

    /// Asks the rules about one window of the recording. For each rule that finds something there, adds the window to
    /// `new`. A rule is not asked if a span that was already found for this rule overlaps the window.
    fn ask(&self, rules: &[Rule], signs: &Signs, range: Range<usize>, new: &mut [Vec<Range<usize>>]) {
        let seconds = self.seconds(&range);
        if seconds < SPAN_MIN_S || range.len() < SAMPLES_MIN && seconds < LONG_S {
            return;
        }
        for ((rule, found), new) in rules.iter().zip(&self.found).zip(new) {
            let Some(load) = rule.over.load() else { continue };
            let load = load(signs);
            let near = found.partition_point(|it| it.end <= range.start);
            let overlaps = found.get(near).is_some_and(|it| it.start < range.end);
            if load >= LOAD_MIN_S && load >= seconds && !overlaps && holds(rule, signs) {
                new.push(range.clone());
            }
        }
    }

    /// Makes spans in which rule number `n` finds an illness, and stores those that are more than noise. `new` has
    /// windows of equal length in which the rule found one. Windows that overlap or touch become one span. Intervals at
    /// the ends of a span are cut off if they are quiet (their own rate is no illness), and the intervals beside the span
    /// are added up to the next quiet one. A span is dropped if the rule does not hold in what is left: quiet intervals
    /// made the window seem ill.
    fn add(&mut self, rule: &Rule, n: usize, mut new: Vec<Range<usize>>) {
        let Some(load) = rule.over.load() else { return };
        new.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<usize>> = Vec::new();
        for range in new {
            match joined.last_mut().filter(|last| range.start <= last.end) {
                Some(last) => last.end = last.end.max(range.end),
                None => joined.push(range),
            }
        }
        let is_quiet = |n: usize| load(&self.course[n].signs) < seconds(&self.course[n].signs);
        let mut added: Vec<Range<usize>> = Vec::new();
        for range in joined {
            let Some(first) = range.clone().find(|n| !is_quiet(*n)) else { continue };
            let last = range.clone().rev().find(|n| !is_quiet(*n)).unwrap_or(first);
            let is_taken = |at: usize| self.found[n].iter().chain(&added).any(|it| it.contains(&at));
            let start = (0..first).rev().take_while(|n| !is_quiet(*n) && !is_taken(*n)).last().unwrap_or(first);
            let end =
                (last + 1..self.course.len()).take_while(|n| !is_quiet(*n) && !is_taken(*n)).last().unwrap_or(last) + 1;
            let is_there = |range: &Range<usize>| {
                let signs = together(&self.course[range.clone()]);
                signs.is_some_and(|here| holds(rule, &here.signs)) && self.is_sound(range, load)
            };
            added.extend([start..end, first..last + 1].into_iter().find(is_there));
        }
        self.found[n].extend(added);
        self.found[n].sort_by_key(|range| range.start);
    }

    /// Returns whether a span is long enough to be more than noise, and has enough busy intervals: intervals whose own
    /// rate counts as an illness.
    fn is_sound(&self, range: &Range<usize>, load: fn(&Signs) -> f64) -> bool {
        let all = self.seconds(range);
        let is_long = all >= SPAN_MIN_S && (range.len() >= SAMPLES_MIN || all >= LONG_S);
        is_long && self.busy_s(range, load) >= SPAN_MIN_S.max(all * BUSY_MIN / 100.0)
    }

    /// Returns the total time, s, of the busy intervals within a span. An interval is busy if its own rate counts as an
    /// illness: `load` of its signs is at least its length in seconds.
    fn busy_s(&self, range: &Range<usize>, load: fn(&Signs) -> f64) -> f64 {
        let intervals = self.course[range.clone()].iter().map(|it| (load(&it.signs), seconds(&it.signs)));
        intervals.filter(|(load, seconds)| load >= seconds).map(|(_, seconds)| seconds).sum()
    }

    /// Joins neighbouring spans of rule number `n` if the gap between them is shorter than the longer of the two, and
    /// if the rule also holds over both spans and the gap together.
    fn join(&mut self, rule: &Rule, n: usize) {
        let mut joined: Vec<(Range<usize>, Signs)> = Vec::new();
        for range in std::mem::take(&mut self.found[n]) {
            let Some(here) = together(&self.course[range.clone()]) else { continue };
            if let Some((last, signs)) = joined.last_mut() {
                let gap = last.end..range.start;
                let longer = self.seconds(last).max(self.seconds(&range));
                let mut both = signs.clone();
                self.course[gap.clone()].iter().for_each(|between| both.then(&between.signs));
                both.then(&here.signs);
                if self.seconds(&gap) < longer && holds(rule, &both) {
                    (*last, *signs) = (last.start..range.end, both);
                    continue;
                }
            }
            joined.push((range, here.signs));
        }
        self.found[n] = joined.into_iter().map(|(range, _)| range).collect();
    }

    /// Returns the part of the recording in which `rule` found an illness. `n` is the number of the rule. `signs` are
    /// those of the whole recording, and `whole` is the rule's finding over the whole recording.
    #[must_use]
    pub fn found(&self, n: usize, rule: &Rule, signs: &Signs, whole: Option<&Finding>) -> OverTime {
        let is_found = whole.is_some_and(|it| counts(rule, it));
        let all = 0..self.course.len();
        let of_s = self.seconds(&all);
        let mut spans = self.found[n].clone();
        match rule.over {
            Over::Whole => return OverTime::Whole,
            Over::Spans(load) | Over::Shares(load) | Over::Notices(load) => {
                let together_s: f64 = spans.iter().map(|range| self.seconds(range)).sum();
                if is_found && 100.0 * together_s >= of_s * ALL_THE_TIME {
                    return OverTime::Whole;
                }
                if spans.is_empty() && is_found {
                    let is_share = !matches!(rule.over, Over::Spans(_));
                    return if is_share || self.is_borne_out(rule, signs, load) {
                        OverTime::Whole
                    } else {
                        OverTime::Nothing
                    };
                }
            }
            Over::Moments if is_found => {
                spans = self.moments(rule);
                if spans.iter().map(|range| range.len()).sum::<usize>() == all.len() {
                    return OverTime::Whole;
                }
            }
            Over::Moments => return OverTime::Whole,
        }
        self.worst(rule, &spans, whole)
    }

    /// Returns whether the course confirms a finding of `rule` over the whole recording. It does if the load (work of
    /// reclaim) did not come in one short burst: the intervals with the most load per second that together have half of
    /// all load last at least [`SPAN_MIN_S`]. And the rule must hold in these intervals alone. Also returns `true` if the
    /// course is too short, or has less than half of the load that `signs` state.
    fn is_borne_out(&self, rule: &Rule, signs: &Signs, load: fn(&Signs) -> f64) -> bool {
        let mut moments: Vec<(f64, f64, usize)> = self
            .course
            .iter()
            .enumerate()
            .map(|(n, it)| (load(&it.signs), seconds(&it.signs), n))
            .filter(|(load, ..)| *load > 0.0)
            .collect();
        let all: f64 = moments.iter().map(|(load, ..)| load).sum();
        let is_short = self.seconds(&(0..self.course.len())) < 2.0 * SPAN_MIN_S || self.course.len() < 4;
        if is_short || all < load(signs) / 2.0 {
            return true;
        }
        // The intervals with the most load per second come first.
        moments.sort_by(|(a, a_s, _), (b, b_s, _)| (b * a_s).total_cmp(&(a * b_s)));
        let (mut carried, mut in_s, mut loudest) = (0.0, 0.0, Vec::new());
        for (load, seconds, n) in moments {
            (carried, in_s) = (carried + load, in_s + seconds);
            loudest.push(n);
            if carried >= all / 2.0 {
                break;
            }
        }
        loudest.sort_unstable();
        let mut loudest = loudest.into_iter().map(|n| &self.course[n].signs);
        let joined = loudest.next().cloned().map(|first| {
            loudest.fold(first, |mut joined, next| {
                joined.then(next);
                joined
            })
        });
        in_s >= SPAN_MIN_S && joined.is_none_or(|joined| holds(rule, &joined))
    }

    /// Returns the intervals in which a rule, asked about the interval alone, finds an illness. Consecutive intervals
    /// are returned as one range.
    fn moments(&self, rule: &Rule) -> Vec<Range<usize>> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        for n in (0..self.course.len()).filter(|n| is_ill(rule, &self.course[*n].signs)) {
            match spans.last_mut().filter(|last| last.end == n) {
                Some(last) => last.end = n + 1,
                None => spans.push(n..n + 1),
            }
        }
        spans
    }

    /// Returns what a rule finds in the worst of `spans`: the one in which reclaim did the most work or, for a rule
    /// about levels, the longest. The result lists up to [`NAMED_MAX`] spans. For a rule about levels the finding is
    /// `whole`, that over the whole recording.
    fn worst(&self, rule: &Rule, spans: &[Range<usize>], whole: Option<&Finding>) -> OverTime {
        let of = |range: &Range<usize>| together(&self.course[range.clone()]);
        // A span with an illness is worse than any with a notice.
        let load = |interval: &Interval| match rule.over.load() {
            Some(load) => (is_ill(rule, &interval.signs), load(&interval.signs)),
            None => (true, seconds(&interval.signs)),
        };
        let mut worst: Option<((bool, f64), Interval)> = None;
        for interval in spans.iter().filter_map(of) {
            let load = load(&interval);
            if worst.as_ref().is_none_or(|(most, _)| load > *most) {
                worst = Some((load, interval));
            }
        }
        let Some((_, interval)) = worst else { return OverTime::Whole };
        let span = |interval: &Interval| Span { place: interval.place.to_string(), seconds: interval.clock_s() };
        let clock_s = |range: Range<usize>| of(&range).map_or(0.0, |interval| interval.clock_s());
        let last = spans.last().map_or(0, |range| range.end);
        let when = When {
            worst: span(&interval),
            count: spans.len(),
            spans: spans.iter().take(NAMED_MAX).filter_map(of).map(|it| span(&it)).collect(),
            together_s: spans.iter().cloned().map(clock_s).sum(),
            of_s: clock_s(0..self.course.len()),
            over_for_s: clock_s(last..self.course.len()),
        };
        let finding = match rule.over {
            // A finding about levels describes the whole time.
            Over::Moments => whole.cloned(),
            _ => (rule.ask)(&interval.signs).ok().flatten(),
        };
        finding.map_or(OverTime::Whole, |finding| {
            let sentence = match rule.over {
                Over::Moments => finding.sentence.clone(),
                _ => {
                    format!("For {} ({}): {}", time(when.worst.seconds), when.worst.place, finding.sentence)
                }
            };
            OverTime::Span(Box::new(Finding { when: Some(when), sentence, ..finding }))
        })
    }
}

fn seconds(signs: &Signs) -> f64 {
    signs.elapsed_s.unwrap_or(0.0)
}

/// Returns whether a finding of `rule` makes a span: an illness, or also a notice of a rule whose notices have spans.
fn counts(rule: &Rule, finding: &Finding) -> bool {
    finding.weight == Weight::Illness || matches!(rule.over, Over::Notices(_))
}

/// Returns whether a rule, asked about `signs` alone, finds what makes a span.
fn holds(rule: &Rule, signs: &Signs) -> bool {
    (rule.ask)(signs).is_ok_and(|found| found.is_some_and(|finding| counts(rule, &finding)))
}

/// Returns whether a rule, asked about `signs` alone, finds an illness.
#[must_use]
pub fn is_ill(rule: &Rule, signs: &Signs) -> bool {
    matches!((rule.ask)(signs), Ok(Some(Finding { weight: Weight::Illness, .. })))
}

#[cfg(test)]
mod tests;

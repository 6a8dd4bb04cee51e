//! Diagnoses of memory in words: `highwater doctor`.
//!
//! - [`signs`] has the counters and levels over a time, each of which may be missing. [`usage`] has the uses of memory,
//!   and [`course`] has the intervals of a recording with their signs.
//! - [`rules`] has a function for each illness. It reads the signs and returns its finding, none, or the name of a
//!   missing sign. [`episodes`] asks the function about spans of all lengths, and [`advice`] adds next steps.
//! - [`source`] takes signs from saved reports and series, [`recorded`] from recordings of other tools, [`live`] from
//!   the running kernel.
//!
//! Nothing is guessed: a rule whose signs are missing is reported as not asked.
//!
//! Next: [`signs`].

pub mod advice;
pub mod course;
pub mod episodes;
pub mod given;
#[cfg(feature = "linux")]
pub mod group;
pub mod group_stat;
#[cfg(feature = "linux")]
pub mod live;
pub mod looks;
pub mod recorded;
pub mod rules;
pub mod signs;
pub mod source;
pub mod usage;
pub mod want;

use self::episodes::{OverTime, Spans};
use kit::shown;
use report::Look;
use report::csv::field;
use report::grid::hanging;
use report::html::{Page, Part, Section};
use serde::Serialize;
use serde_json::json;
use std::fmt::Write as _;

pub use advice::Step;
pub use course::{Course, Extent, Interval};
pub use episodes::{Span, When};
pub use rules::Rule;
pub use rules::group_bounds::OfGroup;
pub use signs::{Disk, FileSystem, Scan, Signs, Zone};
pub use usage::{MemoryUse, Usage};

/// The weight of a finding: an illness, or only a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Normal work of reclaim, worth knowing but no illness.
    Notice,
    /// A problem that slows down at least one program.
    Illness,
}

/// A figure that supports a finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// The figure's name. A counter has the name that the kernel gives it.
    pub name: String,
    /// The figure's value, in the unit that the field `unit` names.
    pub value: f64,
    /// The figure's unit.
    pub unit: &'static str,
}

/// A finding of one of the doctor's rules: an illness, or a notice about normal work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The name of the illness, a fixed word such as `direct-reclaim`.
    pub cause: &'static str,
    /// The finding's weight.
    pub weight: Weight,
    /// The finding in one or two sentences.
    pub sentence: String,
    /// The figures that support the finding.
    pub figures: Vec<Evidence>,
    /// The condition under which the rule finds the illness, in words.
    pub rule: String,
    /// The facts that would refute the finding. The rule has checked that they do not hold. Empty if there are no such
    /// facts.
    pub unless: &'static str,
    /// The spans in which the finding held; none if it is not from a recording, or is no illness that its intervals show.
    pub when: Option<When>,
    /// Suggested next steps.
    pub next: Vec<Step>,
}

impl Finding {
    /// Returns the condition of the finding, followed by the facts that would refute the finding.
    fn whole_rule(&self) -> String {
        match self.unless {
            "" => self.rule.clone(),
            unless => format!("{}; not where {unless}", self.rule),
        }
    }

    /// Makes a finding of an illness that held over the whole observed period.
    #[must_use]
    pub fn new(cause: &'static str, sentence: String, figures: Vec<Evidence>, rule: String) -> Self {
        let (weight, unless, when, next) = (Weight::Illness, "", None, Vec::new());
        Self { cause, weight, sentence, figures, rule, unless, when, next }
    }
}

/// A rule that could not be applied because the input lacks a sign (a counter or level) that the rule needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unasked {
    /// The name of the illness that the rule is about.
    pub cause: &'static str,
    /// The name of the missing sign (counter or level).
    pub missing: String,
}

/// The answers of all rules about one observed period.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The findings of the rules. Illnesses come first, possible causes before effects. Notices follow.
    pub findings: Vec<Finding>,
    /// Rules that could not be evaluated, because the input lacks a sign that they need.
    pub unasked: Vec<Unasked>,
    /// Number of rules that could be evaluated.
    pub asked: usize,
    /// The cgroups about which rules found something; empty if the computer has fewer than two cgroups.
    pub by_group: Vec<OfGroup>,
    /// Number of cgroups for which rules were evaluated; 0 if the computer has fewer than two cgroups.
    pub groups: usize,
}

impl Diagnosis {
    /// Makes a diagnosis from the signs of the whole observed period. No rule is evaluated for single spans of the
    /// period.
    #[must_use]
    pub fn of(signs: &Signs) -> Self {
        Self::over(signs, &Course::default())
    }

    /// Evaluates all rules for the subject of a diagnosis, over the whole observed period and over spans of it.
    #[must_use]
    pub fn of_patient(patient: &Patient) -> Self {
        Self::over(&patient.signs, &patient.course)
    }

    fn over(signs: &Signs, course: &Course) -> Self {
        let mut this = Self::default();
        this.ask(&rules::ALL, signs, course);
        if rules::memory_use::is_known(signs) {
            this.ask(&rules::OF_USE, signs, course);
        }
        for (_, ask) in rules::OF_SOURCE.iter().filter(|(brings, _)| brings(signs)) {
            this.findings.extend(ask(signs).ok().flatten());
            this.asked += 1;
        }
        (this.by_group, this.groups) = rules::group_bounds::by_group(signs, &rules::ALL);
        for finding in &mut this.findings {
            finding.next = advice::next(finding.cause, signs);
            let is_ill = finding.weight == Weight::Illness;
            debug_assert!(!is_ill || !finding.next.is_empty(), "no step for {}", finding.cause);
            let is_spaced = |text: &str| text.contains("  ");
            debug_assert!(!is_spaced(&finding.sentence) && !is_spaced(&finding.rule), "two spaces: {finding:?}");
        }
        this.findings.sort_by_key(|finding| (finding.weight == Weight::Notice, rules::stage(finding.cause)));
        this
    }

    /// Evaluates `rules` over the whole observed period and over spans of it.
    fn ask(&mut self, rules: &[Rule], signs: &Signs, course: &Course) {
        // A single interval is the whole time, so there are no spans to search.
        let spans = (course.len() > 1).then(|| Spans::of(course, rules));
        let recording = course.whole();
        for (n, rule) in rules.iter().enumerate() {
            let whole = match (rule.ask)(signs) {
                Ok(whole) => {
                    self.asked += 1;
                    whole
                }
                Err(missing) => {
                    self.unasked.push(Unasked { cause: rule.cause, missing });
                    None
                }
            };
            let found = spans
                .as_ref()
                .filter(|_| !rules::is_of_group(rule.cause, signs))
                .map(|spans| spans.found(n, rule, signs, whole.as_ref()));
            let finding = match found {
                None | Some(OverTime::Whole) => whole,
                Some(OverTime::Nothing) => None,
                Some(OverTime::Span(finding)) => Some(*finding),
            };
            // What texts beside the recording tell is not of its time.
            let when = recording.as_ref().filter(|recording| episodes::is_ill(rule, &recording.signs)).map(When::whole);
            self.findings.extend(finding.map(|finding| Finding {
                unless: rule.unless,
                when: finding.when.or(when.filter(|_| finding.weight == Weight::Illness)),
                ..finding
            }));
        }
    }

    /// Returns the names of the illnesses that were found.
    pub fn illnesses(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.findings.iter().filter(|finding| finding.weight == Weight::Illness).map(|finding| finding.cause)
    }

    /// Returns whether no rule found an illness. Rules that could not be evaluated, because the input lacks a counter
    /// or level, do not count.
    #[must_use]
    pub fn has_no_illness(&self) -> bool {
        self.illnesses().next().is_none()
    }

    /// Returns whether no rule could be evaluated: the input has none of the counters and levels that rules need.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.asked == 0
    }
}

/// The subject of a diagnosis: this computer, a column of a report, or a run in a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Patient {
    /// Name of the patient (the subject of the diagnosis).
    pub name: String,
    /// The signs (growth of counters, and levels) over the whole observed period.
    pub signs: Signs,
    /// The signs in each interval of the observed period; empty if the input has only totals.
    pub course: Course,
    /// Names of the files from which the signs were read; empty if the patient's name already contains these names.
    pub sources: Vec<String>,
    /// Parts of the input that were not used, each with the reason.
    pub left_out: Vec<String>,
}

impl Patient {
    /// Creates a patient (the subject of a diagnosis) whose signs are known for the observed period as a whole, but not
    /// for its intervals.
    #[must_use]
    pub fn new(name: impl Into<String>, signs: Signs) -> Self {
        Self { name: name.into(), signs, course: Course::default(), sources: Vec::new(), left_out: Vec::new() }
    }

    /// Makes a patient from the signs in each interval. The signs over the whole observed period are those of all
    /// intervals joined.
    #[must_use]
    pub fn of_course(name: impl Into<String>, course: Course) -> Self {
        let signs = course.whole().map(|whole| whole.signs).unwrap_or_default();
        Self { course, ..Self::new(name, signs) }
    }
}

/// Diagnoses the patients (the subjects of the input), and returns the diagnoses as text.
#[must_use]
pub fn text(patients: &[Patient], look: Look) -> String {
    let mut text = String::new();
    for (n, patient) in patients.iter().enumerate() {
        let Patient { signs, sources, left_out, .. } = patient;
        if n > 0 {
            text.push('\n');
        }
        let diagnosis = Diagnosis::of_patient(patient);
        text.push_str(&hanging("", &verdict(patient, &diagnosis), look));
        // The answer by group comes first, and that nothing ails them last.
        let of_groups = (diagnosis.groups > 0).then(|| hanging("by group: ", &some_groups(&diagnosis), look));
        let (above, below) = if diagnosis.by_group.is_empty() { (None, of_groups) } else { (of_groups, None) };
        text.extend(above);
        for finding in &diagnosis.findings {
            let Finding { cause, weight, sentence, figures, when, next, .. } = finding;
            let mark = if *weight == Weight::Illness { "!" } else { "-" };
            let figures: Vec<String> = figures.iter().map(Evidence::show).collect();
            let _ = write!(text, "\n{}", hanging(&format!("{mark} "), &format!("{cause}: {sentence}"), look));
            if let Some(when) = when {
                text.push_str(&hanging("  when: ", &when.show(), look));
            }
            text.push_str(&hanging("  figures: ", &figures.join("; "), look));
            text.push_str(&hanging("  rule: ", &finding.whole_rule(), look));
            for step in next {
                text.push_str(&hanging("  next: ", &step.show(), look));
            }
        }
        let mut notes = String::new();
        notes.extend(below);
        if !signs.assumed.is_empty() {
            notes.push_str(&hanging("assumed: ", &signs.assumed.join("; "), look));
        }
        if !signs.missing.is_empty() {
            notes.push_str(&hanging("not readable: ", &signs.missing.join("; "), look));
        }
        if !diagnosis.unasked.is_empty() {
            notes.push_str(&hanging("not asked: ", &some_unasked(&diagnosis), look));
        }
        if !sources.is_empty() {
            notes.push_str(&hanging("read: ", &sources.join("; "), look));
        }
        if !left_out.is_empty() {
            notes.push_str(&hanging("left out: ", &left_out.join("; "), look));
        }
        if !notes.is_empty() {
            let _ = write!(text, "\n{notes}");
        }
    }
    text
}

/// Returns the first line of a diagnosis. It has the patient's name and the length of the observed period, and says
/// whether illnesses were found.
fn verdict(Patient { name, signs, course, .. }: &Patient, diagnosis: &Diagnosis) -> String {
    let clock_s = course.whole().map(|recording| recording.clock_s());
    let time = match (signs.elapsed_s, clock_s) {
        (None, _) => String::new(),
        (Some(sampled), Some(clock)) if clock >= sampled + 1.0 => {
            format!(", {clock:.1} s, of which samples cover {sampled:.1} s")
        }
        (Some(sampled), _) => format!(", {sampled:.1} s"),
    };
    // A patient can count as healthy although rules that few sources can answer were not asked.
    let is_asked_all = diagnosis.unasked.iter().all(|it| rules::SELDOM.contains(&it.cause));
    let verdict = match diagnosis.illnesses().count() {
        0 if is_asked_all => "healthy".to_owned(),
        0 => {
            let (unasked, rules) = (diagnosis.unasked.len(), diagnosis.unasked.len() + diagnosis.asked);
            format!("no illness found; {unasked} of {rules} rules could not be asked")
        }
        1 => "1 illness".to_owned(),
        illnesses => format!("{illnesses} illnesses{}", causes(diagnosis)),
    };
    format!("{name}{time}: {verdict}")
}

/// Returns words that say which of the illnesses may cause other illnesses. Returns an empty text if all illnesses are
/// at the same [`rules::stage`] between cause and effect.
fn causes(diagnosis: &Diagnosis) -> String {
    let all: Vec<&str> = diagnosis.illnesses().collect();
    let first = all.first().map_or(0, |cause| rules::stage(cause));
    let causes: Vec<&str> = all.iter().copied().filter(|cause| rules::stage(cause) == first).collect();
    match all.len() - causes.len() {
        0 => String::new(),
        1 => format!(", of which {} may be the cause of the other: {}", causes.len(), causes.join(", ")),
        _ => format!(", of which {} may be the cause of the others: {}", causes.len(), causes.join(", ")),
    }
}

/// Largest number of rules that a diagnosis as text names, of those rules that could not be evaluated because the input
/// lacks what they need. Diagnoses as JSON and as pages name all of them.
const UNASKED_MAX: usize = 4;

/// Largest number of cgroups that a diagnosis as text names. JSON names all.
const GROUPS_MAX: usize = 8;

/// Returns the line of the diagnosis that names cgroups with findings, at most [`GROUPS_MAX`] of them, each with the
/// names of the findings about it.
fn some_groups(diagnosis: &Diagnosis) -> String {
    rules::group_bounds::in_a_line(&diagnosis.by_group, diagnosis.groups, GROUPS_MAX)
}

/// Returns a text with the rules that could not be evaluated, because the input lacks what they need. The text names
/// the first [`UNASKED_MAX`] rules and the number of the others.
fn some_unasked(diagnosis: &Diagnosis) -> String {
    let mut named = unasked(diagnosis);
    let more = named.len().saturating_sub(UNASKED_MAX);
    named.truncate(UNASKED_MAX);
    if more > 0 {
        named.push(format!("{more} more, which --format json names"));
    }
    named.join("; ")
}

/// Returns a text for each rule that could not be evaluated: the name of the rule, and the sign (counter or level) that
/// it needs but the input lacks.
fn unasked(diagnosis: &Diagnosis) -> Vec<String> {
    diagnosis.unasked.iter().map(|it| format!("{} (no {})", it.cause, it.missing)).collect()
}

/// Diagnoses the patients (the subjects of the input), and returns the diagnoses as a page of HTML.
#[must_use]
pub fn page(patients: &[Patient]) -> Page {
    let section = |patient: &Patient| {
        let Patient { signs, sources, left_out, .. } = patient;
        let diagnosis = Diagnosis::of_patient(patient);
        let mut parts = Vec::new();
        for finding in &diagnosis.findings {
            let Finding { cause, weight, sentence, figures, when, next, .. } = finding;
            let kind = if *weight == Weight::Illness { "illness" } else { "worth knowing" };
            parts.push(Part::Heading(format!("{cause} ({kind})")));
            parts.push(Part::Words(sentence.clone()));
            parts.extend(when.as_ref().map(|when| Part::Words(format!("When: {}", when.show()))));
            parts.push(Part::Lines(figures.iter().map(Evidence::show).collect()));
            parts.push(Part::Words(format!("Rule: {}", finding.whole_rule())));
            if !next.is_empty() {
                parts.push(Part::Words("Next:".into()));
                parts.push(Part::Lines(next.iter().map(Step::show).collect()));
            }
        }
        let of_groups = (diagnosis.groups > 0).then(|| some_groups(&diagnosis)).into_iter().collect();
        let lists = [
            ("By group", of_groups),
            ("Not asked", unasked(&diagnosis)),
            ("Assumed", signs.assumed.clone()),
            ("Not readable", signs.missing.clone()),
            ("Read", sources.clone()),
            ("Left out", left_out.clone()),
        ];
        for (what, list) in lists {
            if !list.is_empty() {
                parts.push(Part::Words(format!("{what}: {}", list.join("; "))));
            }
        }
        Section::new(verdict(patient, &diagnosis), parts)
    };
    Page { title: "What ails memory".into(), about: Vec::new(), sections: patients.iter().map(section).collect() }
}

/// Diagnoses the patients (the subjects of the input), and returns the diagnoses as JSON, with a line break at the end.
#[must_use]
pub fn json(patients: &[Patient]) -> String {
    let one = |patient: &Patient| {
        let Patient { name, signs, sources, left_out, .. } = patient;
        let diagnosis = Diagnosis::of_patient(patient);
        json!({
            "name": name,
            "elapsed_s": signs.elapsed_s,
            "has_no_illness": diagnosis.has_no_illness(),
            "findings": diagnosis.findings,
            "unasked": diagnosis.unasked,
            "by_group": diagnosis.by_group,
            "assumed": signs.assumed,
            "not_readable": signs.missing,
            "sources": sources,
            "left_out": left_out,
        })
    };
    shown::json(&json!({ "schema": 1, "patients": patients.iter().map(one).collect::<Vec<_>>() }))
}

/// Diagnoses the patients (the subjects of the input), and returns the diagnoses as CSV: a line for each finding. A
/// patient without a finding has one line, too.
#[must_use]
pub fn csv(patients: &[Patient]) -> String {
    let head = ["patient", "verdict", "cause", "weight", "sentence", "when", "figures", "rule", "next"];
    let of_patient = |patient: &Patient| -> Vec<Vec<String>> {
        let diagnosis = Diagnosis::of_patient(patient);
        let start = [patient.name.clone(), verdict(patient, &diagnosis)];
        let line = |finding: &Finding| {
            let Finding { cause, weight, sentence, figures, when, next, .. } = finding;
            let weight = if *weight == Weight::Illness { "illness" } else { "notice" };
            let figures: Vec<String> = figures.iter().map(Evidence::show).collect();
            let next: Vec<String> = next.iter().map(Step::show).collect();
            let [cause, weight] = [*cause, weight].map(str::to_owned);
            let when = field(when.as_ref().map(When::show));
            let rest =
                [cause, weight, sentence.clone(), when, figures.join("; "), finding.whole_rule(), next.join("; ")];
            start.iter().cloned().chain(rest).collect()
        };
        match &*diagnosis.findings {
            [] => vec![start.iter().cloned().chain(vec![String::new(); head.len() - start.len()]).collect()],
            findings => findings.iter().map(line).collect(),
        }
    };
    report::csv::text(&head, &patients.iter().flat_map(of_patient).collect::<Vec<_>>())
}

impl Evidence {
    fn show(&self) -> String {
        let Self { name, value, unit } = self;
        let decimals = if value.fract() == 0.0 || value.abs() >= 1000.0 { 0 } else { 2 };
        let gap = if unit.is_empty() { "" } else { " " };
        format!("{name} {value:.decimals$}{gap}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn illnesses_stand_first_and_what_is_missing_is_told() {
        let signs = Signs {
            elapsed_s: Some(10.0),
            kswapd: Scan { scanned: Some(10_000.0), stolen: Some(9_000.0) },
            direct: Scan { scanned: Some(5000.0), stolen: Some(4000.0) },
            ..Signs::default()
        };
        let diagnosis = Diagnosis::of(&signs);
        let causes: Vec<&str> = diagnosis.findings.iter().map(|finding| finding.cause).collect();
        assert_eq!(causes, ["direct-reclaim", "kswapd-awake"]);
        assert!(!diagnosis.has_no_illness() && !diagnosis.is_blind());
        let patients = [Patient::new("mine", signs)];
        let text = text(&patients, Look::default());
        assert!(text.starts_with("mine, 10.0 s: 1 illness\n\n! direct-reclaim: "), "{text}");
        assert!(
            text.contains("\n- kswapd-awake: ")
                && text.contains("\nnot asked: killed (no oom_kill); all-wait (no PSI of memory); "),
            "{text}"
        );
        let value: serde_json::Value = serde_json::from_str(&json(&patients)).unwrap();
        assert_eq!(value["patients"][0]["findings"][0]["cause"], "direct-reclaim");
        assert_eq!(value["patients"][0]["has_no_illness"], false);
        let csv = csv(&[&patients[..], &[Patient::new("other", Signs::default())]].concat());
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines[1].starts_with("mine,\"mine, 10.0 s: 1 illness\",direct-reclaim,illness,"), "{csv}");
        assert!(lines[2].contains(",kswapd-awake,notice,") && lines[3].ends_with(",,,,,,,"), "{csv}");
    }

    #[test]
    fn the_first_line_says_which_illness_may_make_the_others() {
        let signs = Signs {
            elapsed_s: Some(10.0),
            swapped_in: Some(1e5),
            swapped_out: Some(1e5),
            all_waited_percent: Some(40.0),
            ..Signs::default()
        };
        let text = text(&[Patient::new("mine", signs)], Look::default());
        let first = "mine, 10.0 s: 2 illnesses, of which 1 may be the cause of the other: anonymous-thrashing\n\n! anonymous-thr";
        assert!(text.starts_with(first), "{text}");
    }

    #[test]
    fn nobody_is_called_healthy_whom_few_rules_could_be_asked_of() {
        let signs =
            Signs { elapsed_s: Some(2.0), swap: Some([0.0, 0.0]), assumed: vec!["a thing".into()], ..Signs::default() };
        let patient = Patient { left_out: vec!["line 7".into()], ..Patient::new("mine", signs) };
        let text = text(&[patient], Look::default());
        assert!(text.starts_with("mine, 2.0 s: no illness found; 18 of 19 rules could not be asked\n"), "{text}");
        assert!(text.contains("\n\nassumed: a thing\nnot asked: killed (no oom_kill); "), "{text}");
        assert!(text.contains("14 more, which --format") && text.contains("\nleft out: line 7\n"), "{text}");
    }

    #[test]
    fn without_signs_no_rule_can_be_asked() {
        let diagnosis = Diagnosis::of(&Signs::default());
        assert!(diagnosis.is_blind() && diagnosis.has_no_illness());
        assert!(diagnosis.unasked.iter().all(|it| !it.missing.is_empty()));
    }
}

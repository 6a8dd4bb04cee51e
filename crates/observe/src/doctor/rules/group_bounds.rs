//! Rules about events at a cgroup's `memory.high` and `memory.low`; and for each cgroup, the answers of all rules.

use super::groups::{GROUP_WAITED_MIN, capitalized};
use super::{Ask, RATE_MIN, Rule, Said, figure, groups, how_often, if_known, mib, percent};
use crate::doctor::signs::{Bounds, Signs};
use crate::doctor::{Finding, Weight};
use serde::Serialize;

/// Smallest excess over `memory.high`, percent of `memory.high`, that slows tasks down noticeably. The constant is used
/// only if the cgroup's PSI is not known. At 3 %, a task sleeps 58 ms for every 64 pages, so that it gets 4 MiB a
/// second.
const ABOVE_HIGH_MIN: f64 = 3.0;

/// Longest time, s, that a task sleeps for 64 pages charged above `memory.high` (docs/mechanisms/groups.md, 4).
const SLEEP_MAX_S: f64 = 2.0;

/// Largest number of cgroups that a finding names in addition to the worst cgroup.
const NAMED_MAX: usize = 2;

/// Returns the cgroups in `signs`, each with its path and its own signs. If `signs` are those of one examined cgroup,
/// returns this cgroup; otherwise returns the cgroups of the computer.
fn each(signs: &Signs) -> impl Iterator<Item = (&str, &Signs)> {
    let own = signs.group.as_deref().map(|name| (name, signs));
    let others = signs.groups.iter().map(|(name, group)| (name.as_str(), group)).filter(move |_| own.is_none());
    own.into_iter().chain(others)
}

/// Returns whether the input states the bounds (limits and protection) of at least one cgroup.
pub(super) fn are_known(signs: &Signs) -> bool {
    each(signs).any(|(_, group)| group.bounds.is_some())
}

/// Events at one of a cgroup's bounds: `memory.high` or `memory.low`.
struct Met<'s> {
    name: &'s str,
    group: &'s Signs,
    bounds: Bounds,
    events: f64,
    is_felt: bool,
}

impl Met<'_> {
    fn since(&self) -> &'static str {
        if self.group.is_since_start { " since it was made" } else { "" }
    }

    fn waits(&self) -> Option<bool> {
        self.group.some_waited_percent.map(|waited| waited >= GROUP_WAITED_MIN)
    }

    /// Returns a sentence about the time for which the cgroup's tasks waited for memory. If the tasks hardly waited,
    /// the sentence ends with the text `at_ease`.
    fn waited(&self, at_ease: &str) -> String {
        match (self.group.some_waited_percent, self.waits()) {
            (Some(waited), Some(true)) => format!(" Its tasks waited for memory {waited:.1} % of the time."),
            (Some(_), _) => format!(" Its tasks hardly wait for memory{at_ease}."),
            (None, _) => " Whether its tasks wait is not known: memory.pressure of the group tells it.".to_owned(),
        }
    }
}

/// Returns the cgroup with the worst events, and a sentence about the other cgroups: the text `others`, followed by
/// their names. The sentence is empty if there are no other cgroups. Returns none if `met` is empty.
fn worst<'s>(mut met: Vec<Met<'s>>, others: &str) -> Option<(Met<'s>, String)> {
    met.sort_by(|a, b| (b.is_felt, b.events).partial_cmp(&(a.is_felt, a.events)).unwrap_or(std::cmp::Ordering::Equal));
    let rest: Vec<&str> = met.iter().skip(1).map(|it| it.name).collect();
    let named = rest.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    let words = match rest.len().saturating_sub(NAMED_MAX) {
        _ if rest.is_empty() => String::new(),
        0 => format!(" {others} {named}."),
        more => format!(" {others} {named} and {more} more."),
    };
    met.into_iter().next().map(|first| (first, words))
}

/// Finds cgroups that exceeded `memory.high`. This is an illness if their tasks wait noticeably; otherwise it is a
/// notice.
pub(super) fn held_at_high(signs: &Signs) -> Said {
    let met = each(signs).filter_map(|(name, group)| {
        let bounds = group.bounds?;
        let events = bounds.high_events.filter(|events| *events > 0.0)?;
        // Where `memory.events.local` is missing, a group without a line of its own has the events of groups below it.
        if bounds.high.is_some_and(f64::is_infinite) {
            return None;
        }
        let is_above = bounds.above_high_percent().is_some_and(|above| above >= ABOVE_HIGH_MIN);
        let is_felt = group.some_waited_percent.map_or(is_above, |waited| waited >= GROUP_WAITED_MIN);
        Some(Met { name, group, bounds, events, is_felt })
    });
    let Some((it, others)) = worst(met.collect(), "The same happens to") else { return Ok(None) };
    let line = it.bounds.high.map_or_else(String::new, |high| format!(" of {:.0} MiB", mib(high)));
    let above = match (it.bounds.above_high_percent(), it.bounds.used) {
        (Some(above), Some(used)) if above >= 1.0 => {
            let sleep_s = (above * above / 1e4 * 64.0).min(SLEEP_MAX_S);
            format!(
                " It uses {:.0} MiB, {above:.0} % above: there a task sleeps about {sleep_s:.2} s for every 64 pages that it charges.",
                mib(used)
            )
        }
        _ => String::new(),
    };
    let sentence = format!(
        "{} is held at its memory.high{line}: tasks went above it {}{}, and had to reclaim pages of their own group.{above}{}{others}",
        capitalized(it.name),
        how_often(it.events),
        it.since(),
        it.waited(", so that it only keeps a cache")
    );
    let figures = [
        Some(figure("high of memory.events", it.events, "times")),
        if_known("memory.current", it.bounds.used.map(mib), "MiB"),
        if_known("memory.high", it.bounds.high.map(mib), "MiB"),
        if_known("pages reclaimed of the group", it.group.stolen(), "pages"),
        if_known("some of it waited for memory", it.group.some_waited_percent, "% of the time"),
    ];
    let rule = format!(
        "`high` of memory.events.local grows, or of memory.events where the group has a memory.high; an illness where the group's own PSI \
         is at least {GROUP_WAITED_MIN} % of the time, or, where PSI is not known, memory.current is {ABOVE_HIGH_MIN} % above memory.high"
    );
    Ok(Some(Finding {
        weight: if it.is_felt { Weight::Illness } else { Weight::Notice },
        unless: "the group's tasks do not wait",
        ..Finding::new("group-high", sentence, figures.into_iter().flatten().collect(), rule)
    }))
}

/// Finds cgroups that lost pages although `memory.low` protected them.
pub(super) fn protection_broken(signs: &Signs) -> Said {
    let met = each(signs).filter_map(|(name, group)| {
        let bounds = group.bounds?;
        let events = bounds.low_events.filter(|events| *events > 0.0)?;
        let waits = group.some_waited_percent.is_some_and(|waited| waited >= GROUP_WAITED_MIN);
        let is_felt = waits || rate(group).is_some_and(|rate| rate >= RATE_MIN);
        Some(Met { name, group, bounds, events, is_felt })
    });
    // Without its own events, a group has those of groups below it. The lowest groups are meant.
    let met: Vec<Met<'_>> = met.collect();
    let names: Vec<&str> = met.iter().map(|it| it.name).collect();
    let is_above = |it: &Met<'_>| {
        it.bounds.low == Some(0.0)
            && names.iter().any(|name| name.strip_prefix(it.name).is_some_and(|rest| rest.starts_with('/')))
    };
    let met = met.into_iter().filter(|it| !is_above(it)).collect();
    let Some((it, others)) = worst(met, "So did") else { return Ok(None) };
    let (name, group) = (it.name, it.group);
    let refaults = refaults(group);
    let protected = match it.bounds.low.filter(|low| *low > 0.0) {
        Some(low) if low.is_infinite() => " (all that it uses)".to_owned(),
        Some(low) => format!(" ({:.0} MiB)", mib(low)),
        None => String::new(),
    };
    let lost = match (group.stolen(), refaults) {
        (Some(stolen), Some(back)) => format!(" {stolen:.0} pages were reclaimed of it, and {back:.0} came back."),
        _ => String::new(),
    };
    let sentence = format!(
        "{} lost pages that memory.low{protected} protects, {}{}: reclaim found too little elsewhere, and went on without the \
         protection.{lost}{}{}{others}",
        capitalized(name),
        how_often(it.events),
        it.since(),
        beside(signs, name),
        it.waited("")
    );
    let figures = [
        Some(figure("low of memory.events", it.events, "times")),
        if_known("memory.current", it.bounds.used.map(mib), "MiB"),
        if_known("memory.low", it.bounds.low.map(mib), "MiB"),
        if_known("pages reclaimed of the group", group.stolen(), "pages"),
        if_known("refaults of the group", refaults, "pages"),
        if_known("some of it waited for memory", group.some_waited_percent, "% of the time"),
    ];
    let rule = format!(
        "`low` of memory.events grows; an illness where at least {RATE_MIN} pages a second come back, by the group's own memory.stat, or its \
         PSI is at least {GROUP_WAITED_MIN} % of the time"
    );
    Ok(Some(Finding {
        weight: if it.is_felt { Weight::Illness } else { Weight::Notice },
        unless: "nothing comes back and the group's tasks do not wait",
        ..Finding::new("protection-broken", sentence, figures.into_iter().flatten().collect(), rule)
    }))
}

fn refaults(group: &Signs) -> Option<f64> {
    match (group.refaulted_file, group.refaulted_anon) {
        (None, None) => None,
        (file, anon) => Some(file.unwrap_or(0.0) + anon.unwrap_or(0.0)),
    }
}

/// Returns a cgroup's refaults per second; none if they are unknown.
fn rate(group: &Signs) -> Option<f64> {
    Some(refaults(group)? / group.seconds().ok()?)
}

/// Smallest share of their parent's memory, percent, that sibling cgroups must protect together before a finding
/// mentions this sum.
const PROTECTED_MIN: f64 = 50.0;

/// Returns a sentence about how much memory the cgroup `name` and its siblings protect together. Returns an empty text
/// if this is less than half of their parent's memory, or unknown.
fn beside(signs: &Signs, name: &str) -> String {
    let above = |name: &str| name.rsplit_once('/').map_or(String::new(), |(above, _)| above.to_owned());
    let parent = above(name);
    let claims = signs.groups.iter().filter(|(other, _)| above(other) == parent).filter_map(|(_, group)| {
        let bounds = group.bounds?;
        let low = bounds.low.filter(|low| *low > 0.0)?;
        Some(bounds.used.map_or(low, |used| low.min(used)))
    });
    let claims: Vec<f64> = claims.filter(|pages| pages.is_finite()).collect();
    let of_parent = || {
        let bounds = signs.groups.get(&parent)?.bounds?;
        [bounds.max, bounds.high].into_iter().flatten().filter(|pages| pages.is_finite()).reduce(f64::min)
    };
    let of_computer = || signs.usage.as_ref().and_then(|usage| usage.least.total).filter(|_| signs.group.is_none());
    let sum: f64 = claims.iter().sum();
    match of_parent().or_else(of_computer).filter(|all| percent(sum, *all) >= PROTECTED_MIN) {
        Some(all) => {
            let groups = if claims.len() == 1 {
                "It protects".to_owned()
            } else {
                format!("The {} groups there protect", claims.len())
            };
            format!(" {groups} {:.0} of the {:.0} MiB above them.", mib(sum), mib(all))
        }
        None => String::new(),
    }
}

/// A cgroup, and the names of the findings about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfGroup {
    /// The cgroup's name.
    pub group: String,
    /// Names of the findings (illnesses and notices) of the rules about cgroups, for this cgroup.
    pub causes: Vec<&'static str>,
}

/// Names of the rules that are asked about the whole input and also about each cgroup.
const ABOUT_GROUPS: [&str; 3] = ["killed", "group-thrashing", "cgroup-limit"];

/// Asks the rules about cgroups for each cgroup of a computer. Returns the cgroups with findings, in the order of their
/// names, and the number of all cgroups. If there is only one cgroup or none, returns an empty list and 0, because the
/// findings about the computer then say the same.
pub(in crate::doctor) fn by_group(signs: &Signs, rules: &[Rule]) -> (Vec<OfGroup>, usize) {
    if signs.groups.len() < 2 {
        return (Vec::new(), 0);
    }
    let of = |(name, group): (&String, &Signs)| {
        let alone = Signs {
            group: Some(name.clone()),
            at_limit: signs.at_limit.as_ref().map(|all| only(all, name)),
            out_of_memory: signs.out_of_memory.as_ref().map(|all| only(all, name)),
            ..group.clone()
        };
        let asked = rules.iter().filter(|rule| ABOUT_GROUPS.contains(&rule.cause)).map(|rule| rule.ask);
        let found = asked.chain([held_at_high as Ask, protection_broken, groups::since_made]);
        let mut causes: Vec<&'static str> =
            found.filter_map(|ask| ask(&alone).ok().flatten()).map(|finding| finding.cause).collect();
        causes.retain(|cause| *cause != "since-group-made");
        (!causes.is_empty()).then(|| OfGroup { group: name.clone(), causes })
    };
    (signs.groups.iter().filter_map(of).collect(), signs.groups.len())
}

fn only<T: Clone>(all: &std::collections::BTreeMap<String, T>, name: &str) -> std::collections::BTreeMap<String, T> {
    all.get(name).map(|value| (name.to_owned(), value.clone())).into_iter().collect()
}

/// Returns a line with the cgroups in `found` (at most `max`) and their findings, and with the number of cgroups
/// without findings. `all` is the number of all cgroups.
pub(in crate::doctor) fn in_a_line(found: &[OfGroup], all: usize, max: usize) -> String {
    let named = found.iter().take(max).map(|it| format!("{} ({})", it.group, it.causes.join(", ")));
    let mut named: Vec<String> = named.collect();
    if found.len() > max {
        named.push(format!("{} more, which --format json names", found.len() - max));
    }
    match all - found.len() {
        0 => {}
        rest if found.is_empty() => named.push(format!("nothing ails the {rest} groups by themselves")),
        1 => named.push("nothing ails the other one".to_owned()),
        rest => named.push(format!("nothing ails the {rest} others")),
    }
    named.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::looks::Looks;
    use crate::doctor::{Diagnosis, Patient, text};
    use recordings::looks::{CgroupFiles, Told, all};
    use report::Look;

    /// Returns the signs in copies of cgroup files. Each line of a copy has the form `PATH:LINE`. Two copies are 10 s
    /// apart.
    fn signs(copies: &[&str]) -> Signs {
        let mut looks = Looks::default();
        for copy in copies {
            let lines: Vec<String> = copy.lines().map(|line| format!("/sys/fs/cgroup/{}", line.trim())).collect();
            let files: Vec<CgroupFiles> = all(&lines, |line| line, |line| panic!("left out: {line}"));
            files.into_iter().for_each(|files| looks.add(Told::Cgroup(files)));
        }
        looks.signs((copies.len() > 1).then_some(10.0))
    }

    fn findings(signs: &Signs) -> Vec<(&'static str, Weight)> {
        Diagnosis::of(signs).findings.iter().map(|it| (it.cause, it.weight)).collect()
    }

    fn sentence(signs: &Signs, cause: &str) -> String {
        let found = Diagnosis::of(signs).findings.into_iter().find(|it| it.cause == cause);
        found.unwrap_or_else(|| panic!("no {cause}")).sentence
    }

    const MIB: u64 = 1 << 20;

    fn above_high(used: u64, waited: &str) -> Signs {
        let waited = if waited.is_empty() {
            String::new()
        } else {
            format!("web/memory.pressure:some avg10={waited} avg60=0.00 avg300=0.00 total=9\n")
        };
        signs(&[&format!(
            "web/memory.events.local:low 0\nweb/memory.events.local:high 273\nweb/memory.events.local:max 0\n\
             web/memory.current:{}\nweb/memory.high:{}\nweb/memory.max:max\n{waited}",
            used * MIB,
            100 * MIB
        )])
    }

    #[test]
    fn a_group_above_its_high_is_ill_if_its_tasks_wait_or_it_is_far_above() {
        use Weight::{Illness, Notice};
        assert_eq!(findings(&above_high(112, "")), [("group-high", Illness)]);
        let told = sentence(&above_high(112, ""), "group-high");
        assert!(told.starts_with("The cgroup /sys/fs/cgroup/web is held at its memory.high of 100 MiB: tasks went above it 273 times since it was made"), "{told}");
        assert!(
            told.contains("It uses 112 MiB, 12 % above: there a task sleeps about 0.92 s for every 64 pages"),
            "{told}"
        );
        assert!(told.contains("Whether its tasks wait is not known"), "{told}");
        // Its own PSI refutes the illness: a cache is reclaimed at the line, and nobody waits.
        assert_eq!(findings(&above_high(112, "0.10")), [("group-high", Notice)]);
        assert!(
            sentence(&above_high(99, "0.10"), "group-high")
                .ends_with("hardly wait for memory, so that it only keeps a cache.")
        );
        assert_eq!(findings(&above_high(99, "")), [("group-high", Notice)]);
        assert_eq!(findings(&above_high(99, "30.00"))[0], ("group-high", Illness));
    }

    #[test]
    fn events_of_groups_below_are_not_those_of_a_group_without_a_line() {
        let told = signs(&["pod/memory.events:high 7\npod/memory.high:max\npod/memory.current:4096\n"]);
        assert!(findings(&told).is_empty());
        let none = signs(&["pod/memory.events:high 0\npod/memory.events:low 0\npod/memory.high:4096\n"]);
        assert!(findings(&none).is_empty());
    }

    /// For a test: returns the text of the cgroup files of two cgroups, `srv` and `backup`. `memory.low` of `srv`
    /// protects it, but pages were reclaimed from it `low` times in spite of this. It has `refaults` refaults.
    fn protected(low: u64, refaults: u64) -> String {
        format!(
            "srv/memory.events:low {low}\nsrv/memory.events:high 0\nsrv/memory.low:{}\nsrv/memory.current:{}\n\
             srv/memory.stat:anon 4096\nsrv/memory.stat:pgscan {}\nsrv/memory.stat:pgsteal {refaults}\n\
             srv/memory.stat:workingset_refault_file {refaults}\nsrv/memory.stat:pgmajfault {refaults}\n\
             backup/memory.events:low 0\nbackup/memory.events:max 3\nbackup/memory.max:{}\nbackup/memory.current:4096\n",
            12 * MIB,
            11 * MIB,
            2 * refaults,
            64 * MIB
        )
    }

    #[test]
    fn a_broken_protection_is_ill_if_pages_come_back() {
        let ill = signs(&[&protected(2, 100), &protected(5, 1100)]);
        assert!(findings(&ill).contains(&("protection-broken", Weight::Illness)), "{:?}", findings(&ill));
        let told = sentence(&ill, "protection-broken");
        assert!(told.starts_with("The cgroup /srv lost pages that memory.low (12 MiB) protects, 3 times: reclaim found too little elsewhere"), "{told}");
        assert!(told.contains("1000 pages were reclaimed of it, and 1000 came back."), "{told}");
        let quiet = signs(&[&protected(2, 100), &protected(5, 110)]);
        assert!(findings(&quiet).contains(&("protection-broken", Weight::Notice)), "{:?}", findings(&quiet));
        let whole = signs(&[&protected(5, 100), &protected(5, 1100)]);
        assert!(findings(&whole).iter().all(|(cause, _)| *cause != "protection-broken"), "no event of it grew");
    }

    #[test]
    fn too_much_protection_is_told_beside_what_there_is() {
        let group = |name: &str, low: u64| {
            format!(
                "pod/{name}/memory.low:{}\npod/{name}/memory.current:{}\npod/{name}/memory.events:low 4\n",
                low * MIB,
                99 * MIB
            )
        };
        let pod = format!("pod/memory.max:{}\npod/memory.current:4096\n", 80 * MIB);
        let told = sentence(&signs(&[&[pod, group("a", 40), group("b", 30)].concat()]), "protection-broken");
        assert!(told.contains("The 2 groups there protect 70 of the 80 MiB above them."), "{told}");
        assert!(told.ends_with("So did /pod/b."), "{told}");
    }

    #[test]
    fn each_group_is_named_with_what_ails_it() {
        let told = signs(&[&protected(2, 100), &protected(5, 1100)]);
        let shown = text(&[Patient::new("mine", told)], Look { width: 200, ..Look::default() });
        assert!(
            shown.contains("by group: /srv (group-thrashing, protection-broken); nothing ails the other one\n"),
            "{shown}"
        );
        let at_ease = signs(&["a/memory.current:4096\nb/memory.current:4096\n"]);
        let (found, all) = by_group(&at_ease, &super::super::ALL);
        assert_eq!(in_a_line(&found, all, 8), "nothing ails the 2 groups by themselves");
        let many: Vec<OfGroup> = (0..5).map(|n| OfGroup { group: format!("/{n}"), causes: vec!["killed"] }).collect();
        assert_eq!(
            in_a_line(&many, 9, 2),
            "/0 (killed); /1 (killed); 3 more, which --format json names; nothing ails the 4 others"
        );
        assert_eq!(by_group(&above_high(112, ""), &super::super::ALL).1, 0, "one group is the patient itself");
    }
}

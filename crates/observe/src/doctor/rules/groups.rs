//! Rules about cgroups: their limits, and how these affect tasks.

use super::{FREE_MUCH, RATE_MIN, REFAULT_MIN, Said, figure, if_known, ill, percent};
use crate::doctor::signs::Signs;
use crate::doctor::{Finding, Weight};

/// Share of time, percent, from which a cgroup's limit counts as harmful. In this time, at least one task of the cgroup
/// waits for memory (PSI `some`).
pub(super) const GROUP_WAITED_MIN: f64 = 1.0;

/// Smallest number of refaults on the whole computer for each 100 major faults of a cgroup, for a cgroup that does not
/// count its own refaults. From this number on, the cgroup's major faults count as reads of pages that were reclaimed
/// before. Below it, they count as first reads, as of a program that starts.
const BACKED_MIN: f64 = 50.0;

/// Free share of a cgroup's limit, percent, below which the cgroup counts as being at its limit now. The free part is
/// small but not 0, since the reclaim of a cgroup frees a few dozen pages at a time.
const GROUP_FREE_MIN: f64 = 2.0;

/// Number of refaults from which a cgroup counts as thrashing, if only its total since it was created is known. As
/// pages, the number is 29 MiB. It is reached in five minutes at [`RATE_MIN`].
const REFAULTS_MADE_MIN: f64 = RATE_MIN * 300.0;

/// Largest number of cgroups that a finding names.
const NAMED_MAX: usize = 3;

/// Figures of a cgroup that reads reclaimed pages again and again.
struct Thrashing {
    name: String,
    refaults: Option<f64>,
    major_faults: Option<f64>,
    stolen: Option<f64>,
    at_limit: Option<f64>,
    waited: Option<f64>,
    /// Rate at which the cgroup reads reclaimed pages again, pages/s. The cgroup with the highest rate is the worst.
    rate: f64,
}

/// Returns the figures of the cgroup `name` if it reads reclaimed pages again and again; none if it does not. `group`
/// are the signs of the cgroup, and `all` those of the computer, if known.
fn thrashing(name: &str, group: &Signs, all: Option<&Signs>) -> Option<Thrashing> {
    let seconds = group.seconds().ok()?;
    let refaults = sum(group.refaulted_file, group.refaulted_anon);
    let stolen = group.stolen().filter(|stolen| *stolen > 0.0);
    let faults = group.major_faults.map(|faults| faults / seconds);
    let at_limit = group.at_limit.as_ref().map(|at| at.values().sum::<f64>());
    let rate = match refaults {
        Some(refaults) => {
            let is_large = stolen.is_none_or(|stolen| percent(refaults, stolen) >= REFAULT_MIN);
            // Pages that their owner dropped and reads again were not reclaimed.
            let is_reclaimed = stolen.is_some() || at_limit.is_some_and(|times| times > 0.0);
            (is_large && is_reclaimed).then_some(refaults / seconds)?
        }
        // The cgroup's refaults are not counted. The computer's refaults confirm that its major faults are of reclaimed
        // pages.
        None => {
            let of_all = all.and_then(|all| sum(all.refaulted_file, all.refaulted_anon))?;
            let is_backed = percent(of_all, group.major_faults?) >= BACKED_MIN;
            (is_backed && at_limit? > 0.0).then_some(faults?)?
        }
    };
    (rate >= RATE_MIN).then(|| Thrashing {
        name: name.to_owned(),
        refaults,
        major_faults: group.major_faults,
        stolen,
        at_limit,
        waited: group.some_waited_percent,
        rate: rate.max(faults.unwrap_or(0.0)),
    })
}

fn sum(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
    }
}

/// Returns whether the cgroup `name` is below the cgroup `above` in the hierarchy.
fn is_below(name: &str, above: &str) -> bool {
    let above = above.trim_end_matches('/');
    name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
}

/// Returns the words for a cgroup within a sentence: `the cgroup NAME`. For a cgroup from saved files, which has no
/// name, `name` already is such words (`the cgroup of these files`) and is returned unchanged.
pub(super) fn called(name: &str) -> String {
    if name.starts_with("the ") { name.to_owned() } else { format!("the cgroup {name}") }
}

/// Returns the words for a cgroup at the beginning of a sentence: `The cgroup NAME`. See [`called`] for words within a
/// sentence.
pub(super) fn capitalized(name: &str) -> String {
    let called = called(name);
    format!("T{}", called.strip_prefix('t').unwrap_or(&called))
}

/// Returns the signs of the cgroup `name` that come from its own counters; none if the input has no such counters.
fn own<'s>(signs: &'s Signs, name: &str) -> Option<&'s Signs> {
    if signs.group.is_some() { Some(signs) } else { signs.groups.get(name) }
}

/// Returns whether the counters of the cgroup `name` are totals since the cgroup was made. This is so if the input has
/// only one copy of its `memory.stat`, so that no growth can be computed.
pub(super) fn is_since_made(signs: &Signs, name: &str) -> bool {
    own(signs, name).is_some_and(|group| group.is_since_start)
}

/// Returns whether the input has a single copy of `memory.stat` for at least one cgroup. The counters of such a copy
/// count since the cgroup was made, not over a period.
pub(super) fn is_made_known(signs: &Signs) -> bool {
    let has_stat = |group: &Signs| group.is_since_start && group.major_faults.is_some();
    signs.group.is_some() && has_stat(signs) || signs.groups.values().any(has_stat)
}

/// Reports how many pages a cgroup read again since it was made, from a single copy of its `memory.stat`. This is an
/// illness if the number is large and tasks of the cgroup wait for memory now.
pub(super) fn since_made(signs: &Signs) -> Said {
    let of = |group: &Signs| sum(group.refaulted_file, group.refaulted_anon).unwrap_or(0.0);
    let own = signs.group.iter().map(|name| (name, signs));
    let groups = own.chain(&signs.groups).filter(|(_, group)| group.is_since_start && group.major_faults.is_some());
    let Some((name, group)) = groups.max_by(|a, b| of(a.1).total_cmp(&of(b.1))) else { return Ok(None) };
    let refaults = sum(group.refaulted_file, group.refaulted_anon);
    let (back, faults) = (of(group), group.major_faults.unwrap_or(0.0));
    let stolen = group.stolen().filter(|stolen| *stolen > 0.0);
    let share = stolen.map(|stolen| percent(back, stolen));
    let is_large = back >= REFAULTS_MADE_MIN && share.is_none_or(|share| share >= REFAULT_MIN);
    let waits = group.some_waited_percent.filter(|waited| *waited >= GROUP_WAITED_MIN);
    let for_each = share.map_or_else(String::new, |share| format!(", {share:.0} for each 100 that reclaim took of it"));
    let now = match (waits, is_large) {
        (Some(waited), _) => format!(" Its tasks wait for memory now, {waited:.1} % of the time."),
        (None, true) => " Whether it does so now is not known.".to_owned(),
        (None, false) => String::new(),
    };
    let counts = match refaults {
        Some(_) => format!("{back:.0} pages came back that reclaim had taken{for_each}, and "),
        None => String::new(),
    };
    let sentence = format!(
        "Since {} was made {counts}{faults:.0} page faults waited for a disk.{now} When, and how fast, one copy of memory.stat does not \
         tell: a second one some time later, given behind the first with --seconds, does.",
        called(name)
    );
    let figures = [
        if_known("refaults of the group", refaults, "pages"),
        if_known("major faults of the group", group.major_faults, "faults"),
        if_known("pages reclaimed of the group", stolen, "pages"),
        if_known("some of it waited for memory", group.some_waited_percent, "% of the time"),
    ];
    let rule = format!(
        "there is one copy of memory.stat; it is thrashing where {REFAULTS_MADE_MIN} refaults, {REFAULT_MIN} for each 100 pages reclaimed, \
         are in it, and an illness where tasks of the group wait at least {GROUP_WAITED_MIN} % of the time now"
    );
    let cause = if is_large { "group-thrashing" } else { "since-group-made" };
    Ok(Some(Finding {
        weight: if is_large && waits.is_some() { Weight::Illness } else { Weight::Notice },
        ..Finding::new(cause, sentence, figures.into_iter().flatten().collect(), rule)
    }))
}

/// Smallest share of the computer's refaults, percent, at which a single cgroup counts as the cause of nearly all of
/// them.
const OF_ONE_MIN: f64 = 80.0;

/// Returns whether nearly all refaults of the computer are those of one cgroup, which reclaims at its own limit.
/// Returns `false` if the computer itself is short of memory, that is, if it has neither much free memory nor an idle
/// kswapd. `of` gets the number of refaults from signs.
pub(super) fn have_most(signs: &Signs, of: fn(&Signs) -> Option<f64>) -> bool {
    let is_idle = || signs.kswapd.scanned.zip(signs.elapsed_s).is_some_and(|(pages, time)| pages < RATE_MIN * time);
    let is_roomy = signs.group.is_none() && (signs.free_share().is_some_and(|share| share >= FREE_MUCH) || is_idle());
    let Some(all) = of(signs).filter(|_| is_roomy) else { return false };
    signs.groups.values().any(|group| {
        let is_at_limit = group.at_limit.iter().flatten().any(|(_, times)| *times > 0.0);
        match of(group) {
            Some(back) => {
                (is_at_limit || group.stolen().is_some_and(|pages| pages > 0.0)) && percent(back, all) >= OF_ONE_MIN
            }
            // Version 1 does not count refaults, but it counts major faults.
            None => {
                let faults = group.major_faults.zip(signs.major_faults);
                is_at_limit && faults.is_some_and(|(its, all)| percent(its, all) >= OF_ONE_MIN)
            }
        }
    })
}

/// Finds cgroups that read the same pages again and again, because the limit of the cgroup makes pages leave memory.
pub(super) fn group_thrashing(signs: &Signs) -> Said {
    let seconds = signs.seconds()?;
    let mut found: Vec<Thrashing> = match &signs.group {
        Some(name) => thrashing(name, signs, None).into_iter().collect(),
        None if signs.groups.values().all(|group| group.elapsed_s.is_none()) => {
            return Err("counters of cgroups".into());
        }
        None => signs.groups.iter().filter_map(|(name, group)| thrashing(name, group, Some(signs))).collect(),
    };
    // A cgroup's counters include those of cgroups below it, so only the lowest cgroups are reported.
    let names: Vec<String> = found.iter().map(|it| it.name.clone()).collect();
    found.retain(|it| !names.iter().any(|name| is_below(name, &it.name)));
    found.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let Some(worst) = found.first() else { return Ok(None) };
    let often = |what: &str, pages: f64| format!("{:.0} {what} a second", pages / seconds);
    let counts: Vec<String> = [
        worst.refaults.map(|pages| often("refaults", pages)),
        worst.major_faults.map(|faults| often("major faults", faults)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let at_limit = match worst.at_limit {
        Some(times) if times > 0.0 => format!(" It came to its limit {times:.0} times."),
        _ => String::new(),
    };
    let waited = worst
        .waited
        .map_or_else(String::new, |waited| format!(" Its tasks waited for memory {waited:.1} % of the time."));
    let others = match found.get(1..NAMED_MAX.min(found.len())).unwrap_or_default() {
        [] => String::new(),
        others => {
            let names: Vec<&str> = others.iter().map(|it| it.name.as_str()).collect();
            format!(" So do {}.", names.join(", "))
        }
    };
    let of_all = match (&signs.group, worst.refaults, sum(signs.refaulted_file, signs.refaulted_anon)) {
        (None, None, Some(pages)) => {
            format!(
                " Its own refaults are not known: the whole computer had {pages:.0}, and reclaimed {:.0} pages.",
                signs.stolen().unwrap_or(0.0)
            )
        }
        _ => String::new(),
    };
    let sentence = format!(
        "{} thrashes: it reads again what reclaim took of it, {}.{at_limit}{waited}{of_all}{others}",
        capitalized(&worst.name),
        counts.join(" and ")
    );
    let whole = |pages: Option<f64>| pages.filter(|_| signs.group.is_none() && worst.refaults.is_none());
    let figures = [
        if_known("refaults of the group", worst.refaults, "pages"),
        if_known("major faults of the group", worst.major_faults, "faults"),
        if_known("pages reclaimed of the group", worst.stolen, "pages"),
        if_known("times at its limit", worst.at_limit, "times"),
        if_known("some of it waited for memory", worst.waited, "% of the time"),
        if_known("refaults of the computer", whole(sum(signs.refaulted_file, signs.refaulted_anon)), "pages"),
        if_known("pages reclaimed of the computer", whole(signs.stolen()), "pages"),
    ];
    let rule = format!(
        "at least {RATE_MIN} refaults a second of the group's own memory.stat, and {REFAULT_MIN} for each 100 pages reclaimed of \
         it; where it does not count them, so many major faults of its own at its limit, and {BACKED_MIN} refaults of the computer for \
         each 100 of these"
    );
    Ok(ill("group-thrashing", sentence, figures.into_iter().flatten().collect(), rule))
}

/// Finds cgroups that reached their memory limit. The finding is a notice instead of an illness if none of their tasks
/// waits for memory, or if the limit was reached only in the past.
pub(super) fn cgroup_limit(signs: &Signs) -> Said {
    let at_limit = signs.at_limit.as_ref().ok_or("counts of cgroups at their limits")?;
    let mut hit: Vec<(&String, &f64)> = at_limit.iter().filter(|(_, times)| **times > 0.0).collect();
    hit.sort_by(|a, b| b.1.total_cmp(a.1));
    let Some((first, _)) = hit.first() else { return Ok(None) };
    let (others, limits) = match hit.len() - 1 {
        0 => (String::new(), "its limit"),
        others => (format!(" and {others} more"), "their limits"),
    };
    // A cgroup that keeps a cache is at its limit all the time without waiting.
    let is_at_ease = |name: &str| {
        own(signs, name).is_some_and(|group| {
            group.some_waited_percent.is_some_and(|waited| waited < GROUP_WAITED_MIN)
                && thrashing(name, group, Some(signs)).is_none()
        })
    };
    // A single copy of a cgroup's files does not show when it was at its limit.
    let is_past = |name: &str| {
        own(signs, name).filter(|group| group.is_since_start).is_some_and(|group| {
            let waits = group.some_waited_percent.is_some_and(|waited| waited >= GROUP_WAITED_MIN);
            let is_full = group.free_share().is_some_and(|share| share < GROUP_FREE_MIN);
            !waits && !is_full
        })
    };
    let is_felt = !hit.iter().all(|(name, _)| is_at_ease(name) || is_past(name));
    let ease = match is_felt {
        true => "",
        false if hit.iter().any(|(name, _)| is_past(name)) => {
            " That is since it was made: when it was one copy of its files does not tell, and a second one some time later does."
        }
        false => " It only keeps a cache: its tasks do not wait for memory.",
    };
    let sentence = format!(
        "Memory is short by a limit: {}{others} came to {limits}. Such reclaim is of the group's own pages, whatever is free outside.{ease}",
        called(first)
    );
    let figures = hit.iter().take(3).map(|(name, times)| figure(&format!("at the limit: {name}"), **times, "times"));
    let counter = if signs.is_v1 { "memory.failcnt" } else { "`max` of memory.events" };
    let rule = format!(
        "{counter} grows; no illness where the group's own PSI is known and below \
         {GROUP_WAITED_MIN} % of the time, and it does not thrash, nor where there is one copy of its files and {GROUP_FREE_MIN} % of \
         its limit are free"
    );
    Ok(Some(Finding {
        weight: if is_felt { Weight::Illness } else { Weight::Notice },
        ..Finding::new("cgroup-limit", sentence, figures.collect(), rule)
    }))
}

/// Finds that the examined process waits for a disk because its pages have left memory and it needs them again.
pub(super) fn process_faults(signs: &Signs) -> Said {
    let process = signs.process.as_ref().ok_or("process")?;
    let rate = process.major_faults / signs.seconds()?;
    // A starting program reads its pages for the first time, and grows by them. Readahead brings more pages than it
    // asks for.
    let is_starting = process.resident_grown >= process.major_faults;
    if rate < RATE_MIN || is_starting {
        return Ok(None);
    }
    let figures = vec![
        figure("major faults", process.major_faults, "faults"),
        figure("in memory", super::mib(process.resident), "MiB"),
        figure("of them of files", super::mib(process.resident_file), "MiB"),
        figure("in swap", super::mib(process.swapped), "MiB"),
        figure("grown by", super::mib(process.resident_grown), "MiB"),
    ];
    let from = if process.swapped > process.resident_file {
        format!("{:.0} MiB of it are in swap", super::mib(process.swapped))
    } else {
        format!(
            "{:.0} MiB of files are left of it in memory, its own code among them",
            super::mib(process.resident_file)
        )
    };
    let sentence = format!(
        "Process {} waits for its own pages: {rate:.0} of its page faults a second wait for a disk, and it does not grow by them. {from}.",
        process.name
    );
    let rule = format!("at least {RATE_MIN} major faults a second, and it grows by fewer pages than that");
    Ok(ill("process-faults", sentence, figures, rule))
}

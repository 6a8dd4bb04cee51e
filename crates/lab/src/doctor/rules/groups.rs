//! Cgroups: limits, and what they make of those who run under them.

use super::{RATE_MIN, REFAULT_MIN, Said, figure, if_known, ill, percent};
use crate::doctor::signs::Signs;
use crate::doctor::{Finding, Weight};

/// PSI of a group below which its tasks do not feel its limit, percent of the time.
const GROUP_WAITED_MIN: f64 = 1.0;

/// Refaults of the whole computer for each 100 major faults of a group that counts none of its own from which on those are of pages that
/// reclaim took, and not of a program that starts.
const BACKED_MIN: f64 = 50.0;

/// Share of a group's limit that is free from which on it is not there now, percent: its reclaim frees a few dozen pages at a time.
const GROUP_FREE_MIN: f64 = 2.0;

/// So many groups are named.
const NAMED_MAX: usize = 3;

/// A group that reads again what its reclaim took.
struct Thrashing {
    name: String,
    refaults: Option<f64>,
    major_faults: Option<f64>,
    stolen: Option<f64>,
    at_limit: Option<f64>,
    waited: Option<f64>,
    /// The worse, the more.
    rate: f64,
}

/// Returns how a group reads again what its reclaim took. `all` are the signs of the computer, where those of the group are not all that is known.
fn thrashing(name: &str, group: &Signs, all: Option<&Signs>) -> Option<Thrashing> {
    let seconds = group.seconds().ok()?;
    let refaults = sum(group.refaulted_file, group.refaulted_anon);
    let stolen = group.stolen().filter(|stolen| *stolen > 0.0);
    let faults = group.major_faults.map(|faults| faults / seconds);
    let at_limit = group.at_limit.as_ref().map(|at| at.values().sum::<f64>());
    let rate = match refaults {
        Some(refaults) => {
            let is_large = stolen.is_none_or(|stolen| percent(refaults, stolen) >= REFAULT_MIN);
            // What is read again, but was let go of by its owner, is no reclaim.
            let is_reclaimed = stolen.is_some() || at_limit.is_some_and(|times| times > 0.0);
            (is_large && is_reclaimed).then_some(refaults / seconds)?
        }
        // Its own are not counted. Those of the computer bear out that its faults are of pages that were there before.
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

/// Returns whether the group `name` lies below the group `above`.
fn is_below(name: &str, above: &str) -> bool {
    let above = above.trim_end_matches('/');
    name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
}

/// A cgroup at the beginning of a sentence.
pub(super) fn capitalized(name: &str) -> String {
    match name.strip_prefix("the ") {
        Some(rest) => format!("The {rest}"),
        None => format!("The cgroup {name}"),
    }
}

/// Finds cgroups that read again what reclaim at their limit took.
pub(super) fn group_thrashing(signs: &Signs) -> Said {
    let seconds = signs.seconds()?;
    let mut found: Vec<Thrashing> = match &signs.group {
        Some(name) => thrashing(name, signs, None).into_iter().collect(),
        None if signs.groups.values().all(|group| group.elapsed_s.is_none()) => {
            return Err("counters of cgroups".into());
        }
        None => signs.groups.iter().filter_map(|(name, group)| thrashing(name, group, Some(signs))).collect(),
    };
    // A group counts what those below it do: it is theirs.
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

/// Finds cgroups whose limit makes memory scarce.
pub(super) fn cgroup_limit(signs: &Signs) -> Said {
    let at_limit = signs.at_limit.as_ref().ok_or("counts of cgroups at their limits")?;
    let mut hit: Vec<(&String, &f64)> = at_limit.iter().filter(|(_, times)| **times > 0.0).collect();
    hit.sort_by(|a, b| b.1.total_cmp(a.1));
    let Some((first, _)) = hit.first() else { return Ok(None) };
    let others = match hit.len() - 1 {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    // A group that keeps a cache is at its limit all the time, and waits for nothing.
    let own = |name: &str| if signs.group.is_some() { Some(signs) } else { signs.groups.get(name) };
    let is_at_ease = |name: &str| {
        own(name).is_some_and(|group| {
            group.some_waited_percent.is_some_and(|waited| waited < GROUP_WAITED_MIN)
                && thrashing(name, group, Some(signs)).is_none()
        })
    };
    // Of one copy of its files it is not known when that was.
    let is_past = |name: &str| {
        own(name).filter(|group| group.elapsed_s.is_none()).is_some_and(|group| {
            let waits = group.some_waited_percent.is_some_and(|waited| waited >= GROUP_WAITED_MIN);
            let is_full = group.free_share().is_some_and(|share| share < GROUP_FREE_MIN);
            !waits && !is_full
        })
    };
    let is_felt = !hit.iter().all(|(name, _)| is_at_ease(name) || is_past(name));
    let ease = match is_felt {
        true => "",
        false if hit.iter().any(|(name, _)| is_past(name)) => {
            " When that was its files do not tell: a second copy of them some time later does."
        }
        false => " It only keeps a cache: its tasks do not wait for memory.",
    };
    let sentence = format!(
        "Memory is short by a limit: {first}{others} came to what its cgroup may have. Its reclaim is its own, whatever is free \
         outside.{ease}"
    );
    let figures = hit.iter().take(3).map(|(name, times)| figure(&format!("at the limit: {name}"), **times, "times"));
    let rule = format!(
        "`max` of memory.events, or memory.failcnt in version 1, grows; no illness where the group's own PSI is known and below \
         {GROUP_WAITED_MIN} % of the time, and it does not thrash, nor where there is one copy of its files and {GROUP_FREE_MIN} % of \
         its limit are free"
    );
    Ok(Some(Finding {
        weight: if is_felt { Weight::Illness } else { Weight::Notice },
        ..Finding::new("cgroup-limit", sentence, figures.collect(), rule)
    }))
}

/// Finds that the process that was looked at waits for a disk to have its pages back.
pub(super) fn process_faults(signs: &Signs) -> Said {
    let process = signs.process.as_ref().ok_or("process")?;
    let rate = process.major_faults / signs.seconds()?;
    // A program that starts reads its pages for the first time, and grows by them; readahead brings more than it asks for.
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

//! Report rows of the CPU time spent since memory was full, by task and by purpose.

use super::meter::Course;
use figures::figure::{Better, Format, Row};
use machine::{Func, LockClass, Nanos};
use std::collections::BTreeMap;

/// A choice of tasks for the report of CPU time: all tasks whose names have the same beginning.
#[derive(Clone, Copy, Debug)]
pub struct Who<'a> {
    /// Beginning of the tasks' names. All tasks whose names begin so are meant.
    pub prefix: &'a str,
    /// Name that the report's rows have for the tasks.
    pub name: &'a str,
    /// `true`: if there are several tasks, each of them has a row of its own, in addition to their common row.
    pub tells_each: bool,
}

/// The kswapd tasks of all nodes.
pub const KSWAPD: Who<'static> = Who { prefix: "kswapd", name: "kswapd", tells_each: true };

/// Reported parts of the tasks' CPU time. A part is the time that the tasks spend in a function and its callees. Each
/// entry has the function and the name of the part.
const PARTS: [(Func, &str); 4] = [
    (Func::RemoveMapping, "removal from indexes"),
    (Func::AddToPageCache, "insertion into indexes"),
    (Func::ShrinkActiveList, "active lists"),
    (Func::SpinLock, "spinning"),
];

/// Classes of locks whose waits are reported.
const LOCKS: [LockClass; 3] = [LockClass::IPages, LockClass::Lru, LockClass::Zone];

/// Returns rows with the CPU time that the tasks `who` have used since memory was full. The total is in percent of one
/// CPU, its parts are in percent of the total, and the time spent spinning for each class of locks is in percent of one
/// CPU. Returns no rows if the system has no profile, or if the tasks used no CPU time.
#[must_use]
pub fn rows(course: &Course, who: Who<'_>) -> Vec<Row> {
    let spent = course.spent.last().filter(|spent| !spent.profile.is_empty()).unwrap_or(&course.spent[0]);
    let is_theirs = |path: &str| path.starts_with(who.prefix);
    let sum = |is_counted: &dyn Fn(&str) -> bool| -> Nanos {
        let counted = spent.profile.iter().filter(|(path, _)| is_theirs(path) && is_counted(path));
        counted.fold(Nanos(0), |sum, (_, time)| sum + *time)
    };
    let total = sum(&|_| true);
    let elapsed = course.time_at_full();
    if total == Nanos(0) || elapsed == Nanos(0) {
        return Vec::new();
    }
    let percent = |part: Nanos, whole: Nanos| 100.0 * part.0 as f64 / whole.0 as f64;
    let row =
        |name: String, unit, value| Row::new("cpu at full", name, unit, Better::Lower, Format::Decimals(2), value);
    let mut rows = vec![row(format!("{} CPU", who.name), "% of a CPU", percent(total, elapsed))];
    let mut by_task: BTreeMap<&str, Nanos> = BTreeMap::new();
    for (path, time) in spent.profile.iter().filter(|(path, _)| is_theirs(path)) {
        let task = path.split(';').next().unwrap_or(path);
        *by_task.entry(task).or_default() += *time;
    }
    if who.tells_each && by_task.len() > 1 {
        rows.extend(
            by_task.iter().map(|(task, time)| row(format!("{task} CPU"), "% of a CPU", percent(*time, elapsed))),
        );
    }
    rows.extend(PARTS.map(|(func, part)| {
        let time = sum(&|path| path.split(';').any(|name| name == func.name()));
        row(format!("{}: {part}", who.name), "% of its time", percent(time, total))
    }));
    rows.extend(LOCKS.map(|class| {
        let waits = spent.lock_waits.iter().filter(|((path, lock), _)| is_theirs(path) && *lock == class.name());
        let time = waits.fold(Nanos(0), |sum, (_, time)| sum + *time);
        row(format!("{} waits for {}", who.name, class.name()), "% of a CPU", percent(time, elapsed))
    }));
    rows
}

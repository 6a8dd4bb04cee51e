//! Writes profiles as text in the two forms of `perf report`. A report has both forms for each column (kernel) and each
//! part of its runs.
//!
//! *Self time by task* lists for each task the functions in which it spent time: the share of the task's time, without
//! callees, and the call paths to the function. *Inclusive time of all tasks* is a tree of calls: for each call path
//! the share of all time, callees included. Shares below half a percent are left out.

use crate::profile::{self, ColumnProfile, RunProfile, View};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Smallest share of all CPU time, percent, with which a task or a function appears in a call tree.
const LEAST: f64 = 0.5;

/// Largest number of callers that are shown in the call path to a function.
const CALLERS: usize = 4;

/// A function at one place of a call tree, with the functions that it called (callees). `own` is the time in ns that
/// the function took without its callees, and `total` is the time with them.
#[derive(Default)]
struct Node<'a> {
    own: u64,
    total: u64,
    called: BTreeMap<&'a str, Node<'a>>,
}

impl<'a> Node<'a> {
    fn add(&mut self, path: &[&'a str], ns: u64) {
        self.total += ns;
        match path.split_first() {
            None => self.own += ns,
            Some((first, rest)) => self.called.entry(first).or_default().add(rest, ns),
        }
    }

    /// Returns the callees of this function with their names, the callee with the longest time first.
    fn by_time(&self) -> Vec<(&'a str, &Self)> {
        let mut called: Vec<_> = self.called.iter().map(|(name, node)| (*name, node)).collect();
        called.sort_by_key(|(_, node)| std::cmp::Reverse(node.total));
        called
    }

    /// Calls `visit` for each function of the tree that has self time, with the call path that ends in the function,
    /// and with its self time in ns.
    fn for_each_own(&self, path: &mut Vec<&'a str>, visit: &mut impl FnMut(&[&'a str], u64)) {
        if self.own > 0 {
            visit(path, self.own);
        }
        for (name, node) in &self.called {
            path.push(name);
            node.for_each_own(path, visit);
            path.pop();
        }
    }
}

/// Writes the profile of each kernel as text. For each phase of the runs, the text lists the functions of each task by
/// self time, and shows a tree of all calls.
///
/// # Errors
/// When writing fails.
pub fn write(profile: &[RunProfile], view: View, out: &mut dyn Write) -> io::Result<()> {
    for column in &profile::columns(profile, view) {
        let about = column.about();
        if !about.is_empty() {
            writeln!(out, "# {}: {about}\n", column.column)?;
        }
        for (part, tasks) in &trees(column) {
            writeln!(out, "# {}, {part}: self time by task, percent of the task's own", column.column)?;
            for (task, node) in tasks.by_time() {
                if share(node.total, tasks.total) >= LEAST {
                    write_own(task, node, out)?;
                }
            }
            writeln!(out, "\n# {}, {part}: inclusive time, percent of all tasks' together\n", column.column)?;
            write_inclusive(tasks, tasks.total, 0, out)?;
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Returns the call trees of a kernel, one for each phase of its runs, by the name of the phase.
fn trees(column: &ColumnProfile) -> BTreeMap<&str, Node<'_>> {
    let mut parts: BTreeMap<&str, Node<'_>> = BTreeMap::new();
    for (path, ns) in &column.stacks {
        let (part, rest) = path.split_once(';').unwrap_or((path, ""));
        let names: Vec<&str> = rest.split(';').filter(|name| !name.is_empty()).collect();
        parts.entry(part).or_default().add(&names, *ns);
    }
    parts
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// Writes the functions in which a task spent time of its own (without callees), the longest time first, each with the
/// call paths to it.
fn write_own(task: &str, node: &Node<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut by_function: BTreeMap<&str, BTreeMap<String, u64>> = BTreeMap::new();
    node.for_each_own(&mut Vec::new(), &mut |path, ns| {
        let (function, callers) = path.split_last().unwrap_or((&"[itself]", &[]));
        let callers = callers.iter().rev().take(CALLERS).map(|name| format!(" <- {name}")).collect();
        *by_function.entry(function).or_default().entry(callers).or_default() += ns;
    });
    let longest_first = |times: &mut Vec<(f64, String)>| times.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    writeln!(out, "\n{task}: {:.6} s", node.total as f64 / 1e9)?;
    let mut functions = Vec::new();
    for (function, paths) in by_function {
        let all = share(paths.values().sum(), node.total);
        let mut lines: Vec<_> = paths.into_iter().map(|(path, ns)| (share(ns, node.total), path)).collect();
        longest_first(&mut lines);
        lines.retain(|(share, path)| *share >= LEAST && !path.is_empty());
        let lines: String = lines.iter().map(|(share, path)| format!("{share:15.2} {path}\n")).collect();
        functions.push((all, format!("{function}\n{lines}")));
    }
    longest_first(&mut functions);
    functions
        .iter()
        .filter(|(share, _)| *share >= LEAST)
        .try_for_each(|(share, text)| write!(out, "{share:8.2}  {text}"))
}

fn write_inclusive(node: &Node<'_>, all: u64, depth: usize, out: &mut dyn Write) -> io::Result<()> {
    for (name, called) in node.by_time() {
        let share = share(called.total, all);
        if share >= LEAST {
            writeln!(out, "{share:8.2}  {:indent$}{name}", "", indent = 2 * depth)?;
            write_inclusive(called, all, depth + 1, out)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::profile_run as run;

    #[test]
    fn a_profile_is_told_by_task_and_for_all() {
        let first = [
            "full;kswapd0;balance_pgdat;__remove_mapping 400",
            "full;kswapd0;balance_pgdat;__remove_mapping;_raw_spin_lock 300",
            "full;kswapd0;balance_pgdat 97",
            "full;kswapd0;balance_pgdat;schedule 3",
            "full;reader 0 3000",
            "full;reader 0;user 4000",
        ];
        let runs =
            [run("a", "a_seed_1", &first), run("a", "a_seed_2", &["full;kswapd0;balance_pgdat;__remove_mapping 200"])];
        let mut out = Vec::new();
        write(&runs, View::default(), &mut out).unwrap();
        let expected = "\
# a: kernel time alone: user time, 50.0 % of all, is shown with --user-time; 2 runs added up

# a, full: self time by task, percent of the task's own

reader 0: 0.000003 s
  100.00  [itself]

kswapd0: 0.000001 s
   60.00  __remove_mapping
          60.00  <- balance_pgdat
   30.00  _raw_spin_lock
          30.00  <- __remove_mapping <- balance_pgdat
    9.70  balance_pgdat

# a, full: inclusive time, percent of all tasks' together

   75.00  reader 0
   25.00  kswapd0
   25.00    balance_pgdat
   22.50      __remove_mapping
    7.50        _raw_spin_lock

";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

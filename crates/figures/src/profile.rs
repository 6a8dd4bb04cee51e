//! Profiles: the CPU time of runs by call path.
//!
//! The profile of a run is a list of *folded stacks*: texts of the form `part;task;function;… ns`. For the option
//! `--profile`, [`lines`] returns all folded stacks. Flame graphs, call trees and HTML pages show less ([`View`]). They
//! sum the runs of a column over seeds, and leave out the time that programs spend in their own code, because this time
//! would hide the kernel's work.
//!
//! Next: `report::plot::flames`, [`crate::call_tree`].

use machine::Func;
use std::collections::BTreeMap;

/// The profile of one run: its CPU time by call path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunProfile {
    /// Id of the column to which the run belongs. A report has a column for each kernel.
    pub column: String,
    /// The name of the run: its column, and its seed if there are several seeds. Each folded stack that [`lines`]
    /// returns begins with the name of its run.
    pub root: String,
    /// The run's folded stacks: texts of the form `part;task;function;… ns`.
    pub stacks: Vec<String>,
}

impl RunProfile {
    /// Returns the seed of the run, which its name has at the end; none if the report has one seed.
    #[must_use]
    pub fn seed(&self) -> Option<u64> {
        self.root.strip_prefix(without_seed(&self.root))?.strip_prefix(SEED)?.parse().ok()
    }
}

/// Returns the folded stacks of all runs (`run;part;task;function;… ns`). Each begins with the name of its run.
pub fn lines(profiles: &[RunProfile]) -> impl Iterator<Item = String> {
    profiles
        .iter()
        .flat_map(|RunProfile { root, stacks, .. }| stacks.iter().map(move |stack| format!("{root};{stack}")))
}

/// Reads profiles from a text of folded stacks, which [`lines`] or another tool has made. The first element of each
/// stack is taken as the name of the run. Lines without a `;` are ignored.
#[must_use]
pub fn read(text: &str) -> Vec<RunProfile> {
    let mut found: Vec<RunProfile> = Vec::new();
    for (root, stack) in text.lines().filter_map(|line| line.split_once(';')) {
        match found.iter_mut().find(|known| known.root == root) {
            Some(known) => known.stacks.push(stack.to_owned()),
            None => {
                let column = without_seed(root).to_owned();
                found.push(RunProfile { column, root: root.to_owned(), stacks: vec![stack.to_owned()] });
            }
        }
    }
    found
}

/// Returns the name of a run's column: the name of the run without the seed at its end.
fn without_seed(root: &str) -> &str {
    match root.rsplit_once(SEED) {
        Some((column, seed)) if !seed.is_empty() && seed.bytes().all(|byte| byte.is_ascii_digit()) => column,
        _ => root,
    }
}

/// The text between column and seed in the name of a run.
const SEED: &str = "_seed_";

/// Options that decide which part of a profile is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// `true` if the time that programs spend in their own code is shown, too.
    pub user_time: bool,
}

/// The profile of one column of a report (one kernel), summed over all runs of the column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnProfile {
    /// Id of the column.
    pub column: String,
    /// Number of runs over which the profile is summed.
    pub runs: u64,
    /// CPU time in ns of each call path `part;task;function;…`. A part is a phase of a run.
    pub stacks: BTreeMap<String, u64>,
    /// CPU time in ns that programs spent in their own code and that is not in `stacks`; 0 if [`View::user_time`] is
    /// true.
    pub left_out_ns: u64,
}

impl ColumnProfile {
    /// Returns the CPU time in ns of each call path `task;function;…`, summed over the parts (phases) of the runs.
    #[must_use]
    pub fn by_task(&self) -> BTreeMap<String, u64> {
        let mut tasks = BTreeMap::new();
        for (path, ns) in &self.stacks {
            let path = path.split_once(';').map_or(path.as_str(), |(_, path)| path);
            *tasks.entry(path.to_owned()).or_default() += ns;
        }
        tasks
    }

    /// Returns the sum of all CPU time that the profile shows, ns.
    #[must_use]
    pub fn shown_ns(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// Returns a text that says how much time is not shown and how many runs are summed. The text is empty for a single
    /// run of which all time is shown.
    #[must_use]
    pub fn about(&self) -> String {
        let all = self.left_out_ns + self.shown_ns();
        let left_out = (self.left_out_ns > 0).then(|| {
            let percent = 100.0 * self.left_out_ns as f64 / all as f64;
            format!("kernel time alone: user time, {percent:.1} % of all, is shown with --user-time")
        });
        let runs = (self.runs > 1).then(|| format!("{} runs added up", self.runs));
        [left_out, runs].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// Returns, for each column, the sum of the profiles of its runs. The columns are in the order of their first runs.
#[must_use]
pub fn columns(profiles: &[RunProfile], view: View) -> Vec<ColumnProfile> {
    let mut found: Vec<ColumnProfile> = Vec::new();
    for run in profiles {
        let at = found.iter().position(|known| known.column == run.column).unwrap_or_else(|| {
            found.push(ColumnProfile { column: run.column.clone(), ..ColumnProfile::default() });
            found.len() - 1
        });
        let column = &mut found[at];
        column.runs += 1;
        for (path, ns) in run.stacks.iter().filter_map(|stack| time_of(stack)) {
            if view.user_time || !is_user(path) {
                *column.stacks.entry(path.to_owned()).or_default() += ns;
            } else {
                column.left_out_ns += ns;
            }
        }
    }
    found
}

/// Splits a folded stack into its call path and its time in ns; returns `None` for a line that is no folded stack.
fn time_of(stack: &str) -> Option<(&str, u64)> {
    let (path, ns) = stack.rsplit_once(' ')?;
    Some((path, ns.parse().ok()?))
}

/// Returns whether a call path ends in a program's own code. If the kernel works for the program, the path ends in a
/// kernel function instead.
fn is_user(path: &str) -> bool {
    path.rsplit_once(';').is_some_and(|(_, last)| last == Func::User.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::profile_run as run;

    #[test]
    fn seeds_are_added_up_and_user_time_is_shown_on_request_alone() {
        let runs = [
            run("a", "a_seed_1", &["0M;client;user 9000", "0M;client;user;handle_mm_fault 5", "0M;kswapd0;kswapd 70"]),
            run("b", "b_seed_1", &["0M;kswapd0;kswapd 1"]),
            run("a", "a_seed_2", &["0M;kswapd0;kswapd 30", "7M;kswapd0;kswapd 4", "broken"]),
        ];
        let [a, b] = &columns(&runs, View::default())[..] else { panic!("two columns") };
        assert_eq!((a.column.as_str(), a.runs, a.left_out_ns, a.shown_ns()), ("a", 2, 9000, 109));
        assert_eq!(a.stacks["0M;kswapd0;kswapd"], 100);
        assert_eq!(a.by_task()["kswapd0;kswapd"], 104, "parts are added up");
        assert_eq!(a.by_task()["client;user;handle_mm_fault"], 5, "a fault is the kernel's work");
        assert!(a.about().contains("98.8 %") && a.about().ends_with("2 runs added up"), "{}", a.about());
        assert_eq!((b.runs, b.about()), (1, String::new()));
        let all = columns(&runs, View { user_time: true });
        assert_eq!((all[0].stacks["0M;client;user"], all[0].left_out_ns), (9000, 0));
    }

    #[test]
    fn what_was_written_is_read_again() {
        let runs = [
            run("a", "a_seed_1", &["0M;x 1", "0M;y 2"]),
            run("a", "a_seed_2", &["0M;x 3"]),
            run("my_seed_x", "my_seed_x", &["0M;x 4"]),
        ];
        let text: Vec<String> = lines(&runs).collect();
        assert_eq!(text[2], "a_seed_2;0M;x 3");
        assert_eq!(read(&text.join("\n")), runs);
        assert_eq!(runs.map(|run| run.seed()), [Some(1), Some(2), None]);
    }
}

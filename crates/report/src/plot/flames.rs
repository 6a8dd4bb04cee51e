//! Virtual time as a flame graph. The lowest frames are tasks, or columns with their tasks above them.

use crate::table::Table;
use figures::figure::Better;
use figures::profile;
use figures::profile::{ColumnProfile, RunProfile, View};
use figures::statistics::percent;
use figures::verdict::{Comparison, Sample};
use inferno::flamegraph::{Options, from_lines};
use std::collections::BTreeMap;

/// Returns the picture of a profile, as SVG.
///
/// # Errors
/// When the view shows no time.
pub fn picture(table: &Table, profile: &[RunProfile], view: View) -> Result<Vec<u8>, String> {
    let columns = profile::columns(profile, view);
    let is_one = columns.len() == 1;
    let stacks = columns.iter().flat_map(|column| {
        let root = if is_one { String::new() } else { format!("{};", one_frame(&column.column)) };
        column.by_task().into_iter().map(move |(path, ns)| format!("{root}{path} {ns}"))
    });
    let stacks: Vec<String> = stacks.collect();
    let name = if is_one { format!(" of {}", columns[0].column) } else { String::new() };
    draw(table, format!("{}: virtual CPU time{name}", table.experiment), "", &columns, &stacks)
}

/// Returns the difference between two columns as a flame graph of the second column. A function is red if the second
/// column spends more time in it than the first, and blue if it spends less. With several runs, means are compared, and
/// only functions whose times are told apart have a colour.
///
/// # Errors
/// When there are not two columns, or when the view shows no time.
pub fn difference(table: &Table, profile: &[RunProfile], view: View) -> Result<Vec<u8>, String> {
    let columns = profile::columns(profile, view);
    let [first, second, ..] = &columns[..] else { return Err("a differential flame graph needs two columns".into()) };
    let runs = [first, second].map(|column| runs_of(&column.column, profile, view));
    let mut paths: Vec<&String> = runs.iter().flatten().flat_map(|(_, times)| times.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    let stack = |path: &String| {
        let [base, own] = runs.each_ref().map(|runs| samples(runs, |times| times.get(path).copied().unwrap_or(0)));
        let [from, to] = [&base, &own].map(|samples| mean(samples));
        // Without a difference, the frame has no colour.
        let from = if is_apart(&base, &own) { from } else { to };
        (from > 0 || to > 0).then(|| format!("{path} {from} {to}"))
    };
    let stacks: Vec<String> = paths.into_iter().filter_map(stack).collect();
    let totals = runs.each_ref().map(|runs| samples(runs, |times| times.values().sum()));
    let (from, to) = (&first.column, &second.column);
    let title = format!("{}: virtual CPU time of {to}, and what it differs by from {from}", table.experiment);
    draw(table, title, &format!("{} · ", total(&totals, [from, to])), &columns[..2], &stacks)
}

/// The time of each call path `task;function;…` in a run, ns.
type Times = BTreeMap<String, u64>;

/// Returns the times of each run of a column, with the run's seed.
fn runs_of(column: &str, profile: &[RunProfile], view: View) -> Vec<(u64, Times)> {
    let of_column = profile.iter().filter(|run| run.column == column);
    let times =
        |run: &RunProfile| profile::columns(std::slice::from_ref(run), view).first().map(ColumnProfile::by_task);
    of_column.map(|run| (run.seed().unwrap_or(0), times(run).unwrap_or_default())).collect()
}

/// Returns one time of each run as samples.
fn samples(runs: &[(u64, Times)], time: impl Fn(&Times) -> u64) -> Vec<Sample> {
    runs.iter().map(|(seed, times)| Sample { seed: *seed, value: time(times) as f64 }).collect()
}

fn mean(samples: &[Sample]) -> u64 {
    (samples.iter().map(|it| it.value).sum::<f64>() / samples.len().max(1) as f64) as u64
}

/// Returns whether two columns differ in a time by more than the spread over their seeds. With one run of each, nothing
/// is known of the spread, and each difference counts. With too few seeds for a verdict, the ranges must not overlap.
fn is_apart(base: &[Sample], own: &[Sample]) -> bool {
    if base.len().max(own.len()) < 2 {
        return true;
    }
    let ends = |samples: &[Sample]| {
        let values = || samples.iter().map(|it| it.value);
        [values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max)]
    };
    let ([low, high], [low_own, high_own]) = (ends(base), ends(own));
    match Comparison::of(Better::Neutral, base, own).filter(Comparison::is_known) {
        Some(comparison) => comparison.verdict.is_told_apart(),
        None => high < low_own || high_own < low,
    }
}

/// Returns a text on the time of all frames in two columns: both means, the verdict, and what colours mean.
fn total([base, own]: &[Vec<Sample>; 2], [from, to]: [&String; 2]) -> String {
    let seconds = |ns: f64| format!("{:.3} s", ns / 1e9);
    let [before, after] = [base, own].map(|samples| seconds(mean(samples) as f64));
    let text = format!("in all {after} with {to} beside {before} with {from}");
    let Some(it) = Comparison::of(Better::Neutral, base, own) else { return text };
    let verdict = match it.shift.coverage {
        None => it.basis_words(),
        Some(coverage) => format!(
            "{} ({} interval of the difference {} to {}; {})",
            it.verdict.word(),
            percent(coverage),
            seconds(it.shift.low),
            seconds(it.shift.high),
            it.basis_words()
        ),
    };
    let colours = if base.len().max(own.len()) < 2 { "" } else { " · coloured: more apart than seeds" };
    format!("{text}: {verdict}{colours}")
}

/// Returns a flame graph of `stacks`. Below the title stand the text `head` and a description of `columns`.
fn draw(
    table: &Table,
    title: String,
    head: &str,
    columns: &[ColumnProfile],
    stacks: &[String],
) -> Result<Vec<u8>, String> {
    if stacks.is_empty() {
        let why = match columns.iter().any(|column| column.left_out_ns > 0) {
            true => "programs spent all time in their own code, which --user-time shows",
            false => "no CPU time was spent",
        };
        return Err(format!("cannot draw the flame graph: {why}"));
    }
    let mut options = Options::default();
    options.title = title;
    options.subtitle = Some(format!("{head}{}{}", about(columns), table.footer()));
    options.count_name = "ns".to_owned();
    // Colours follow from names: a function has the same colour in every picture.
    options.deterministic = true;
    let mut svg = Vec::new();
    from_lines(&mut options, stacks.iter().map(String::as_str), &mut svg)
        .map_err(|error| format!("cannot draw the flame graph: {error}"))?;
    Ok(without_minus_zero(&svg))
}

/// Returns a picture in which no difference that is rounded to zero has a sign.
fn without_minus_zero(svg: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(svg);
    text.replace("; -0.00%)", "; 0.00%)").replace("; +0.00%)", "; 0.00%)").into_bytes()
}

/// Returns a text that says, for each column, how much time the picture leaves out, and over how many runs the times
/// were added up.
fn about(columns: &[ColumnProfile]) -> String {
    let several = columns.len() > 1;
    let about = columns.iter().map(|column| (column, column.about())).filter(|(_, about)| !about.is_empty());
    about
        .map(|(column, about)| if several { format!("{}: {about} · ", column.column) } else { format!("{about} · ") })
        .collect()
}

/// Returns the name with `_` in place of each `;`, because `;` separates the frames of a stack.
fn one_frame(name: &str) -> String {
    name.replace(';', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::head;
    use figures::samples::profile_run as run;

    #[test]
    fn a_profile_becomes_the_same_picture_every_time() {
        let table = Table::of_runs(head(&["a"], 1), &[], None);
        let stacks = [
            "0M;kswapd0;balance_pgdat;shrink_zone 600",
            "7M;kswapd0;balance_pgdat;shrink_zone 100",
            "0M;reader;user 90000",
        ];
        let profile = [run("a", "a", &stacks)];
        let draw = |view| String::from_utf8(picture(&table, &profile, view).unwrap()).unwrap();
        let svg = draw(View::default());
        assert!(svg.contains("shrink_zone") && svg.contains("700 ns") && svg.contains("parallelio"), "{svg}");
        assert!(!svg.contains("reader") && svg.contains("99.2 % of all"), "{svg}");
        assert_eq!(svg, draw(View::default()));
        assert!(draw(View { user_time: true }).contains("reader"));
        assert!(picture(&table, &[], View::default()).is_err());
        let user_alone = picture(&table, &[run("a", "a", &stacks[2..])], View::default()).unwrap_err();
        assert!(user_alone.contains("--user-time"), "{user_alone}");
    }

    #[test]
    fn two_columns_have_a_picture_of_their_difference_over_all_seeds() {
        let table = Table::of_runs(head(&["a", "b"], 2), &[], None);
        let of_a = |root: &str, ns: u64| run("a", root, &[&format!("run;kswapd0;shrink_zone {ns}")]);
        let of_b = |root: &str| run("b", root, &["run;kswapd0;shrink_zone 200", "run;kswapd0;evict 90"]);
        let profile = [of_a("a_seed_1", 600), of_a("a_seed_2", 800), of_b("b_seed_1"), of_b("b_seed_2")];
        let svg = String::from_utf8(difference(&table, &profile, View::default()).unwrap()).unwrap();
        assert!(svg.contains("virtual CPU time of b") && svg.contains("evict") && svg.contains("200 ns"), "{svg}");
        assert!(difference(&table, &profile[..2], View::default()).is_err());
        assert!(svg.contains("in all 0.000 s with b beside 0.000 s with a: 2 seeds: a verdict needs 4"), "{svg}");
        // `shrink_zone` differs in each seed, `evict` only in the mean.
        let runs = |column: &str, times: [[u64; 2]; 4]| {
            (1..)
                .zip(times)
                .map(|(seed, [zone, evict])| {
                    let stacks = [format!("run;kswapd0;shrink_zone {zone}"), format!("run;kswapd0;evict {evict}")];
                    run(column, &format!("{column}_seed_{seed}"), &stacks.each_ref().map(String::as_str))
                })
                .collect::<Vec<_>>()
        };
        let a = runs("a", [[1000, 500], [1001, 900], [1002, 400], [1003, 600]]);
        let b = runs("b", [[2000, 600], [2001, 800], [2002, 700], [2003, 500]]);
        let svg = String::from_utf8(difference(&table, &[a, b].concat(), View::default()).unwrap()).unwrap();
        let title = |name: &str| {
            let at = svg.find(&format!("<title>{name} (")).unwrap_or_else(|| panic!("{name}: {svg}"));
            svg[at..].split("</title>").next().unwrap_or_default().to_owned()
        };
        assert!(title("shrink_zone").contains("; +") && title("evict").contains("; 0.00%"), "{svg}");
        assert!(svg.contains("told apart (") && svg.contains("coloured: more apart than seeds"), "{svg}");
        let close = [run("a", "a", &["run;kswapd0;evict 1000000"]), run("b", "b", &["run;kswapd0;evict 999999"])];
        let svg = String::from_utf8(difference(&table, &close, View::default()).unwrap()).unwrap();
        assert!(svg.contains("100.00%; 0.00%)") && !svg.contains("-0.00%"), "{svg}");
    }
}

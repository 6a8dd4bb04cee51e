//! Virtual time as a flame graph. The lowest frames are tasks, or columns with their tasks above them.

use crate::table::Table;
use figures::profile;
use figures::profile::{ColumnProfile, RunProfile, View};
use inferno::flamegraph::{Options, from_lines};

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
    draw(table, format!("{}: virtual CPU time{name}", table.experiment), &columns, &stacks)
}

/// Returns the difference between two columns as a flame graph of the second column. A function is red if the second
/// column spends more time in it than the first, and blue if it spends less. With several runs, means are compared.
///
/// # Errors
/// When there are not two columns, or when the view shows no time.
pub fn difference(table: &Table, profile: &[RunProfile], view: View) -> Result<Vec<u8>, String> {
    let columns = profile::columns(profile, view);
    let [first, second, ..] = &columns[..] else { return Err("a differential flame graph needs two columns".into()) };
    let of = |column: &ColumnProfile| -> String {
        let mean = |ns: u64| ns / column.runs.max(1);
        column.by_task().into_iter().map(|(path, ns)| format!("{path} {}\n", mean(ns))).collect()
    };
    let told = |error: &dyn std::fmt::Display| format!("cannot draw the differential flame graph: {error}");
    let mut both = Vec::new();
    let scaled = inferno::differential::Options { normalize: false, strip_hex: false };
    inferno::differential::from_readers(scaled, of(first).as_bytes(), of(second).as_bytes(), &mut both)
        .map_err(|error| told(&error))?;
    let both = String::from_utf8(both).map_err(|error| told(&error))?;
    let stacks: Vec<String> = both.lines().map(str::to_owned).collect();
    let (from, to) = (&first.column, &second.column);
    let title = format!("{}: virtual CPU time of {to}, and what it differs by from {from}", table.experiment);
    draw(table, title, &columns[..2], &stacks)
}

/// Returns a flame graph of `stacks`, with a description of `columns`.
fn draw(table: &Table, title: String, columns: &[ColumnProfile], stacks: &[String]) -> Result<Vec<u8>, String> {
    if stacks.is_empty() {
        let why = match columns.iter().any(|column| column.left_out_ns > 0) {
            true => "programs spent all time in their own code, which --user-time shows",
            false => "no CPU time was spent",
        };
        return Err(format!("cannot draw the flame graph: {why}"));
    }
    let mut options = Options::default();
    options.title = title;
    options.subtitle = Some(format!("{}{}", about(columns), table.footer()));
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
        let close = [run("a", "a", &["run;kswapd0;evict 1000000"]), run("b", "b", &["run;kswapd0;evict 999999"])];
        let svg = String::from_utf8(difference(&table, &close, View::default()).unwrap()).unwrap();
        assert!(svg.contains("100.00%; 0.00%)") && !svg.contains("-0.00%"), "{svg}");
    }
}

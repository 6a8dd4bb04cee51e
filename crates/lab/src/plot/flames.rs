//! Where virtual time goes, as a flame graph.

use crate::report::Table;
use inferno::flamegraph::{Options, from_lines};

/// The picture of a profile in folded stacks, as SVG.
///
/// # Errors
/// When no time was spent at all.
pub fn picture(table: &Table, profile: &[String]) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    options.title = format!("{}: virtual CPU time", table.experiment);
    options.subtitle = Some(table.footer());
    options.count_name = "ns".to_owned();
    // Colours by name: the same function has the same one in every picture.
    options.deterministic = true;
    let mut svg = Vec::new();
    from_lines(&mut options, profile.iter().map(String::as_str), &mut svg)
        .map_err(|error| format!("cannot draw the flame graph: {error}"))?;
    Ok(svg)
}

/// How the second of two columns differs from the first, as a flame graph of the second: red where it spends more, blue where less.
///
/// # Errors
/// When there are no two columns, or one spent no time.
pub fn difference(table: &Table, profile: &[String]) -> Result<Vec<u8>, String> {
    let mut columns: Vec<&str> = Vec::new();
    for column in profile.iter().filter_map(|line| line.split(';').next()) {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let [first, second, ..] = columns[..] else { return Err("a differential flame graph needs two columns".into()) };
    let of = |column: &str| -> String {
        let stacks = profile.iter().filter_map(|line| line.strip_prefix(column)?.strip_prefix(';'));
        stacks.flat_map(|stack| [stack, "\n"]).collect()
    };
    let told = |error: &dyn std::fmt::Display| format!("cannot draw the differential flame graph: {error}");
    let mut both = Vec::new();
    let scaled = inferno::differential::Options { normalize: false, strip_hex: false };
    inferno::differential::from_readers(scaled, of(first).as_bytes(), of(second).as_bytes(), &mut both)
        .map_err(|error| told(&error))?;
    let both = String::from_utf8(both).map_err(|error| told(&error))?;
    let mut options = Options::default();
    options.title = format!("{}: virtual CPU time of {second}, and what it differs by from {first}", table.experiment);
    options.subtitle = Some(table.footer());
    options.count_name = "ns".to_owned();
    options.deterministic = true;
    let mut svg = Vec::new();
    from_lines(&mut options, both.lines(), &mut svg).map_err(|error| told(&error))?;
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::head;

    #[test]
    fn a_profile_becomes_the_same_picture_every_time() {
        let table = Table::of_runs(head(&["a"], 1), &[], None);
        let profile = ["a;kswapd0;balance_pgdat;shrink_zone 700", "a;kswapd0;balance_pgdat 300"].map(str::to_owned);
        let draw = || String::from_utf8(picture(&table, &profile).unwrap()).unwrap();
        let svg = draw();
        assert!(svg.contains("shrink_zone") && svg.contains("700 ns") && svg.contains("parallelio"), "{svg}");
        assert_eq!(svg, draw());
        assert!(picture(&table, &[]).is_err());
    }

    #[test]
    fn two_columns_have_a_picture_of_their_difference() {
        let table = Table::of_runs(head(&["a", "b"], 1), &[], None);
        let profile =
            ["a;kswapd0;shrink_zone 700", "b;kswapd0;shrink_zone 200", "b;kswapd0;evict 90"].map(str::to_owned);
        let svg = String::from_utf8(difference(&table, &profile).unwrap()).unwrap();
        assert!(svg.contains("virtual CPU time of b") && svg.contains("evict") && svg.contains("200 ns"), "{svg}");
        assert!(difference(&table, &profile[..1]).is_err());
    }
}

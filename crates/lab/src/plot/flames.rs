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
}

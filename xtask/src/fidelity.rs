//! Writes docs/fidelity.md: every published figure beside the simulated figure.
//!
//! The text between `<!-- fidelity: ARGUMENTS -->` and `<!-- end -->` is the output of `highwater fidelity ARGUMENTS`.
//! Making this output takes too long for every check. So the page also names the fingerprints that the golden reports
//! had when the output was made, and a test compares these with the present fingerprints: a difference means that the
//! page is outdated.

use std::{fs, path::Path};

use crate::{
    Outcome, highwater, output,
    splice::{names, spliced},
};

const PAGE: &str = "docs/fidelity.md";
const BEGIN: &str = "<!-- fidelity: ";
const GOLDEN: &str = "<!-- golden: ";

/// Makes the tables in docs/fidelity.md anew. With `only`, names of experiments separated by commas, makes only the
/// tables for these experiments.
pub fn write(root: &Path, only: Option<&str>) -> Outcome {
    let read = || fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"));
    let page = read()?;
    let is_wanted = |arguments: &str, experiment: &str| arguments.split_whitespace().any(|word| word == experiment);
    if let Some(missing) = only
        .into_iter()
        .flat_map(|only| only.split(','))
        .find(|experiment| !names(&page, BEGIN).any(|arguments| is_wanted(arguments, experiment)))
    {
        return Err(format!("{PAGE}: no table has the experiment `{missing}`"));
    }
    let wanted = |arguments: &str| only.is_none_or(|only| only.split(',').any(|it| is_wanted(arguments, it)));
    let program = highwater()?;
    let print = |arguments: &str| {
        if !wanted(arguments) {
            return Ok(None);
        }
        eprintln!("--- highwater fidelity {arguments}");
        let words = arguments.split_whitespace();
        let words: Vec<&str> = ["fidelity"].into_iter().chain(words).chain(["--format", "markdown"]).collect();
        Ok(Some(folded(&output(&program, &words)?)))
    };
    // The fingerprint of a golden report is renewed with the table that contains its experiment.
    let is_made_anew =
        |name: &str| names(&page, BEGIN).any(|arguments| wanted(arguments) && is_wanted(arguments, name));
    let golden = |name: &str| is_made_anew(name).then(|| golden(root, name)).transpose();
    let text = spliced(&page, BEGIN, &print)?;
    let text = spliced(&text, GOLDEN, &golden)?;
    fs::write(root.join(PAGE), text).map_err(|error| format!("{PAGE}: {error}"))
}

/// Returns a report with its long tables folded. These are the tables below headings of level three.
fn folded(report: &str) -> String {
    let mut parts = report.split("\n### ");
    let mut text = parts.next().unwrap_or_default().trim_end().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('\n').unwrap_or((part, ""));
        // The text after the table is the end of the report.
        let (table, after) = rest.rsplit_once("\n\n").filter(|(_, after)| !after.contains('|')).unwrap_or((rest, ""));
        let table = table.trim();
        text.push_str(&format!("\n\n<details><summary>{name}: every figure</summary>\n\n{table}\n\n</details>"));
        if !after.is_empty() {
            text.push_str(&format!("\n\n{}", after.trim_end()));
        }
    }
    text
}

/// Returns a line with the fingerprint of an experiment's golden report.
fn golden(root: &Path, experiment: &str) -> Result<String, String> {
    let fingerprint = fingerprint(root, experiment)?;
    Ok(format!("Made when the golden report of `{experiment}` had fingerprint `{fingerprint}`."))
}

/// Returns the fingerprint of an experiment's golden report.
pub fn fingerprint(root: &Path, experiment: &str) -> Result<String, String> {
    let file = format!("crates/catalogue/experiments/{experiment}/report.smoke.txt");
    let report = fs::read_to_string(root.join(&file)).map_err(|error| format!("{file}: {error}"))?;
    let fingerprint = report.rsplit_once("fingerprint ").and_then(|(_, rest)| rest.split_whitespace().next());
    fingerprint.map(str::to_owned).ok_or_else(|| format!("{file}: no fingerprint"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_of_the_program_at_hand() {
        let root = crate::root();
        let page = fs::read_to_string(root.join(PAGE)).unwrap();
        let now = spliced(&page, GOLDEN, &|name: &str| Ok(Some(golden(&root, name)?))).unwrap();
        assert!(page.contains(GOLDEN));
        let empty = spliced(&page, BEGIN, &|_: &str| Ok(Some(String::new()))).unwrap();
        let tables = page.matches("<details>").count();
        assert!(tables >= 5 && !empty.contains("<details>"), "{PAGE} has {tables} tables, each between its marks");
        assert!(page == now, "{PAGE} is stale: run `cargo xtask fidelity`");
    }

    #[test]
    fn long_tables_are_folded_away() {
        let report = "| a | b |\n|---|---|\n\n### one\n\n| x |\n|---|\n\n### two\n\n| y |\n|---|\n\nseed 1\n";
        let text = folded(report);
        assert_eq!(text.matches("<details>").count(), 2);
        assert!(text.contains("<summary>one: every figure</summary>\n\n| x |\n|---|\n\n</details>"), "{text}");
        assert!(text.ends_with("</details>\n\nseed 1"), "{text}");
    }
}

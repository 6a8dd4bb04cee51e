//! Writes docs/truth.md: simulated counters compared with the counters of real kernels.
//!
//! `docs/truth/*.json` are records that `highwater truth --record` wrote. For each record, the page has the present
//! output of `highwater truth --recorded FILE` between `<!-- truth: FILE -->` and `<!-- end -->`. The figures in the
//! first lines of these outputs are also written to `crates/study/truth-last.toml`, from which `highwater fidelity`
//! prints them.

use std::{fmt::Write as _, fs, path::Path};

use crate::{
    Outcome, highwater, output,
    readme::quoted,
    splice::{names, spliced},
};

const PAGE: &str = "docs/truth.md";
const BEGIN: &str = "<!-- truth: ";

const LAST: &str = "crates/study/truth-last.toml";
const LAST_HEAD: &str = "\
# What `cargo xtask truth` last found, for `highwater fidelity`: of each record in docs/truth, how many counters agree and how many
# differences between two kernels have the right sign, of how many. That command writes this file.
";

/// Runs the loads of all records on the simulator, and writes the results to the page `docs/truth.md` and to the file
/// `truth-last.toml`, which is derived from the page. With `is_check`, writes nothing and fails if the page is stale.
pub fn write(root: &Path, is_check: bool) -> Outcome {
    let old = read(root, PAGE)?;
    let program = highwater()?;
    let print = |file: &str| {
        let arguments = ["truth", "--recorded", file, "--runs", "5"];
        Ok(Some(quoted(&format!("highwater {}", arguments.join(" ")), &output(&program, &arguments)?)))
    };
    let new = spliced(&old, BEGIN, &print)?;
    match (new == old, is_check) {
        (true, true) => Ok(()),
        (false, true) => Err(format!("{PAGE} is stale: run cargo xtask truth")),
        (_, false) => [(PAGE, new.clone()), (LAST, last(&new)?)]
            .into_iter()
            .try_for_each(|(name, text)| fs::write(root.join(name), text).map_err(|error| format!("{name}: {error}"))),
    }
}

fn read(root: &Path, name: &str) -> Result<String, String> {
    fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))
}

/// The first lines of the output for one record. Each states a number of counters or signs that agree, and the number
/// of all that were compared.
struct Shares<'a> {
    name: &'a str,
    counters: [usize; 2],
    signs: [usize; 2],
}

/// Reads from the page the output of `highwater truth` for the record `file`: how many counters agree, and how many
/// differences between kernels have the right sign.
fn shares<'a>(page: &str, file: &'a str) -> Result<Shares<'a>, String> {
    let name = file.rsplit('/').next().and_then(|name| name.strip_suffix(".json")).unwrap_or(file);
    let answer = page.split_once(&format!("{BEGIN}{file} -->")).map_or("", |(_, rest)| rest);
    let share = |of: &str| {
        let line = answer.lines().take_while(|line| *line != "<!-- end -->").find(|line| line.contains(of))?;
        let mut words = line.split(' ');
        Some([words.next()?.parse().ok()?, words.nth(1)?.parse().ok()?])
    };
    let counters = share(" counters agree").ok_or_else(|| format!("{PAGE}: no share of counters of {file}"))?;
    // A record of a single kernel has no differences between kernels.
    Ok(Shares { name, counters, signs: share(" differences between two kernels").unwrap_or_default() })
}

/// Returns the results that the page states, as text for the file that `highwater fidelity` reads.
fn last(page: &str) -> Result<String, String> {
    let mut text = LAST_HEAD.to_owned();
    for file in names(page, BEGIN) {
        let Shares { name, counters, signs } = shares(page, file)?;
        let _ = write!(text, "\n[[record]]\nname = \"{name}\"\ncounters = {counters:?}\nsigns = {signs:?}\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fidelity_says_of_kernels_is_what_the_page_says() {
        let root = crate::root();
        let expected = last(&read(&root, PAGE).unwrap()).unwrap();
        assert!(read(&root, LAST).unwrap() == expected, "{LAST} is stale: run cargo xtask truth");
        assert!(expected.contains("\"debian-6.1.176\""), "{expected}");
    }

    #[test]
    fn shares_are_those_of_the_record_alone() {
        let page = "<!-- truth: a/one.json -->\n```text\n$ x\n3 of 4 counters agree (75 %)\n```\n<!-- end -->\n\
                    <!-- truth: a/two.json -->\n5 of 6 counters agree (83 %)\n1 of 2 differences between two kernels have \
                    the right sign\n<!-- end -->\n";
        let of = |file| shares(page, file).map(|it| (it.name.to_owned(), it.counters, it.signs));
        assert_eq!(of("a/one.json"), Ok(("one".to_owned(), [3, 4], [0, 0])));
        assert_eq!(of("a/two.json"), Ok(("two".to_owned(), [5, 6], [1, 2])));
        assert!(of("a/three.json").is_err());
    }
}

//! Simulations held against what kernels counted, in docs/truth.md.
//!
//! `docs/truth/*.json` are records that `highwater truth --record` wrote. Between `<!-- truth: FILE -->` and `<!-- end -->`
//! stands what `highwater truth --recorded FILE` prints today.

use std::{fs, path::Path};

use crate::{Outcome, highwater, output, readme::quoted, splice::spliced};

const PAGE: &str = "docs/truth.md";
const BEGIN: &str = "<!-- truth: ";

/// Runs the loads of all records on `sim` and writes the page; with `is_check` only says whether it is stale.
pub fn write(root: &Path, is_check: bool) -> Outcome {
    let page = root.join(PAGE);
    let old = fs::read_to_string(&page).map_err(|error| format!("{PAGE}: {error}"))?;
    let program = highwater()?;
    let print = |file: &str| {
        let arguments = ["truth", "--recorded", file];
        Ok(Some(quoted(&format!("highwater {}", arguments.join(" ")), &output(&program, &arguments)?)))
    };
    let new = spliced(&old, BEGIN, &print)?;
    match (new == old, is_check) {
        (true, _) => Ok(()),
        (false, true) => Err(format!("{PAGE} is stale: run cargo xtask truth")),
        (false, false) => fs::write(&page, new).map_err(|error| format!("{PAGE}: {error}")),
    }
}

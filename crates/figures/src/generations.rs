//! The generations of pages (multi-generational LRU) over time, as the option `--lru-gen` writes them.

use std::{borrow::Cow, io};

use serde::{Deserialize, Serialize};

use crate::moments::OfRun;

/// The generations of pages at one moment of a run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Moment {
    /// Time since the system started, ns.
    pub now_ns: u64,
    /// The name that the workload gave to this moment; `None` for a moment that was recorded at the regular interval.
    pub mark: Option<Cow<'static, str>>,
    /// The generations in the form of `lru_gen_full` of debugfs.
    pub text: String,
}

/// The generations of pages over one run.
pub type RunGenerations = OfRun<Moment>;

/// Writes the generations of runs as text. For each moment there is a line that begins with `#` and has the time, the
/// run and the moment's name, if any. The generations at this moment follow.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write(runs: &[RunGenerations], out: &mut dyn io::Write) -> io::Result<()> {
    for RunGenerations { column, seed, moments } in runs {
        for Moment { now_ns, mark, text } in moments {
            let mark = mark.as_ref().map_or_else(String::new, |mark| format!(", {mark}"));
            writeln!(out, "# {:.3} s, {column}, seed {seed}{mark}", *now_ns as f64 / 1e9)?;
            writeln!(out, "{text}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_has_its_time_and_run_above() {
        let moment = |ms: u64, mark: Option<&'static str>| Moment {
            now_ns: ms * 1_000_000,
            mark: mark.map(Cow::from),
            text: "memcg     0 /\n".into(),
        };
        let runs = [
            RunGenerations { column: "a".into(), seed: 7, moments: vec![moment(0, None), moment(1500, Some("here"))] },
            RunGenerations { column: "b".into(), seed: 8, moments: vec![moment(2000, None)] },
        ];
        let mut out = Vec::new();
        write(&runs, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "# 0.000 s, a, seed 7\nmemcg     0 /\n\n# 1.500 s, a, seed 7, here\nmemcg     0 /\n\n# 2.000 s, b, seed 8\nmemcg     0 /\n\n"
        );
    }
}

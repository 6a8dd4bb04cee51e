//! The CPU time that each step of kernel work costs, and where each figure is from.

use crate::sourced::Origin;
use machine::Step;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// CPU time of every [`Step`], in picoseconds, with the origin of each figure.
///
/// In TOML the model is a table with an entry for every step:
/// `scan_page = { ns = 90, from = "fitted", to = "parallelio: Kswapd pages scanned" }`. The key `to` names the
/// published figure to which the cost was fitted. If the origin `from` is not `fitted`, the key `source` takes the
/// place of `to`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "BTreeMap<String, Entry>")]
pub struct CostModel {
    picos: [u64; Step::ALL.len()],
    origins: Vec<(Origin, String)>,
}

/// The cost of one [`Step`] of kernel work and the origin of this figure, as an entry of the TOML table states them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    ns: f64,
    from: Origin,
    #[serde(alias = "to")]
    source: String,
}

impl TryFrom<BTreeMap<String, Entry>> for CostModel {
    type Error = String;

    fn try_from(mut entries: BTreeMap<String, Entry>) -> Result<Self, String> {
        let known = |name: &str| Step::ALL.into_iter().any(|step| step.name() == name);
        if let Some(name) = entries.keys().find(|name| !known(name)) {
            let near = Step::ALL.into_iter().map(Step::name).min_by_key(|step| strsim::levenshtein(name, step));
            return Err(format!("unknown step `{name}`: did you mean `{}`?", near.expect("there are steps")));
        }
        let mut model = Self { picos: [0; Step::ALL.len()], origins: Vec::new() };
        for step in Step::ALL {
            let name = step.name();
            let Some(entry) = entries.remove(name) else { return Err(format!("step `{name}` has no cost")) };
            if !(0.0..1e12).contains(&entry.ns) {
                return Err(format!("step `{name}`: {} ns is not a cost", entry.ns));
            }
            model.picos[step as usize] = (entry.ns * 1000.0).round() as u64;
            model.origins.push((entry.from, entry.source));
        }
        Ok(model)
    }
}

impl CostModel {
    /// Returns a model in which every step costs the same; for tests.
    #[must_use]
    pub fn uniform(ns: u64) -> Self {
        let origin = (Origin::Assumed, "a test".to_owned());
        Self { picos: [ns * 1000; Step::ALL.len()], origins: vec![origin; Step::ALL.len()] }
    }

    /// Returns this cost model with one change: `step` costs `ns` nanoseconds.
    #[must_use]
    pub fn with(mut self, step: Step, ns: u64) -> Self {
        self.picos[step as usize] = ns * 1000;
        self
    }

    /// Returns the model of a CPU on which each step takes `factor` times as long.
    #[must_use]
    pub fn slowed(mut self, factor: u64) -> Self {
        self.picos = self.picos.map(|picos| picos.saturating_mul(factor));
        self
    }

    /// Returns the cost of one step, in picoseconds.
    #[must_use]
    pub fn picos(&self, step: Step) -> u64 {
        self.picos[step as usize]
    }

    /// Returns the origin of the cost of one step: the way in which the cost was found, and the text of its source.
    #[must_use]
    pub fn origin(&self, step: Step) -> (Origin, &str) {
        let (origin, source) = &self.origins[step as usize];
        (*origin, source)
    }

    pub(crate) fn table(&self) -> [u64; Step::ALL.len()] {
        self.picos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(change: impl Fn(&'static str) -> String) -> Result<CostModel, String> {
        let lines: Vec<String> = Step::ALL.into_iter().map(|step| change(step.name())).collect();
        toml::from_str(&lines.join("\n")).map_err(|error| error.to_string())
    }

    fn line(name: &str) -> String {
        format!("{name} = {{ ns = 90.5, from = \"fitted\", to = \"a row\" }}")
    }

    #[test]
    fn each_step_of_a_slow_cpu_takes_as_many_times_as_long() {
        let model = CostModel::uniform(90).with(Step::LruMove, 7).slowed(15);
        assert_eq!([Step::LruMove, Step::ScanCount].map(|step| model.picos(step)), [105_000, 1_350_000]);
    }

    #[test]
    fn costs_may_have_decimals_and_say_where_they_are_from() {
        let model = file(line).unwrap();
        assert_eq!(model.picos(Step::ScanPage), 90_500);
        assert_eq!(model.origin(Step::ScanPage), (Origin::Fitted, "a row"));
    }

    #[test]
    fn an_unknown_step_names_the_nearest() {
        let error = file(|name| line(if name == "scan_page" { "scan_pgae" } else { name })).unwrap_err();
        assert!(error.contains("unknown step `scan_pgae`: did you mean `scan_page`?"), "{error}");
    }

    #[test]
    fn a_missing_step_is_named() {
        let error = file(|name| if name == "wake" { String::new() } else { line(name) }).unwrap_err();
        assert!(error.contains("step `wake` has no cost"), "{error}");
    }

    #[test]
    fn an_origin_needs_its_text() {
        let error = file(|name| format!("{name} = {{ ns = 1, from = \"published\" }}")).unwrap_err();
        assert!(error.contains("source"), "{error}");
    }
}

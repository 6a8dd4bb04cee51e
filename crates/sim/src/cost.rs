//! What each step costs, and where each figure comes from.

use machine::Step;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use std::fmt;

/// CPU time of every [`Step`], in picoseconds, with the origin of each figure.
///
/// In TOML it is a table with one entry for each step, none missing:
/// `scan_page = { ns = 90, from = "fitted", to = "parallelio: Kswapd pages scanned" }`.
#[derive(Clone, Debug, PartialEq)]
pub struct CostModel {
    picos: [u64; Step::ALL.len()],
    origins: Vec<Origin>,
}

/// Where a constant comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Chosen so that a figure comes out; `to` names the figure.
    Fitted {
        /// The figure.
        to: String,
    },
    /// Printed somewhere.
    Published {
        /// Where.
        source: String,
    },
    /// Given by a maker.
    DataSheet {
        /// By which data sheet.
        source: String,
    },
    /// Measured on a real computer.
    Measured {
        /// On which, and how.
        source: String,
    },
    /// Worked out from other figures in print.
    Inferred {
        /// From which.
        source: String,
    },
    /// Not known: taken for plausible.
    Assumed {
        /// Why.
        source: String,
    },
}

impl CostModel {
    /// Every step costs the same; for tests.
    #[must_use]
    pub fn uniform(ns: u64) -> Self {
        Self {
            picos: [ns * 1000; Step::ALL.len()],
            origins: vec![Origin::Fitted { to: "a test".into() }; Step::ALL.len()],
        }
    }

    /// The same model with another cost of one step.
    #[must_use]
    pub fn with(mut self, step: Step, ns: u64) -> Self {
        self.picos[step as usize] = ns * 1000;
        self
    }

    /// Picoseconds of one step.
    #[must_use]
    pub fn picos(&self, step: Step) -> u64 {
        self.picos[step as usize]
    }

    /// Where the cost of one step comes from.
    #[must_use]
    pub fn origin(&self, step: Step) -> &Origin {
        &self.origins[step as usize]
    }

    pub(crate) fn table(&self) -> [u64; Step::ALL.len()] {
        self.picos
    }
}

/// One entry, as it stands in the file.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    ns: Decimal,
    from: From,
    to: Option<String>,
    source: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum From {
    Fitted,
    Published,
    DataSheet,
    Measured,
    Inferred,
    Assumed,
}

/// Nanoseconds, whole or with decimals.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Decimal {
    Whole(u64),
    Parts(f64),
}

impl Entry {
    fn picos(&self) -> Result<u64, String> {
        match self.ns {
            Decimal::Whole(ns) => ns.checked_mul(1000).ok_or_else(|| format!("{ns} ns is too long")),
            Decimal::Parts(ns) if (0.0..1e12).contains(&ns) => Ok((ns * 1000.0).round() as u64),
            Decimal::Parts(ns) => Err(format!("{ns} ns is not a cost")),
        }
    }

    fn origin(self) -> Result<Origin, String> {
        match (self.from, self.to, self.source) {
            (From::Fitted, Some(to), None) => Ok(Origin::Fitted { to }),
            (From::Fitted, ..) => Err("a fitted cost says what it was fitted to: `to = \"…\"`".into()),
            (From::Published, None, Some(source)) => Ok(Origin::Published { source }),
            (From::DataSheet, None, Some(source)) => Ok(Origin::DataSheet { source }),
            (From::Measured, None, Some(source)) => Ok(Origin::Measured { source }),
            (From::Inferred, None, Some(source)) => Ok(Origin::Inferred { source }),
            (From::Assumed, None, Some(source)) => Ok(Origin::Assumed { source }),
            _ => Err("a cost that was not fitted says where it is from: `source = \"…\"`".into()),
        }
    }
}

impl<'de> Deserialize<'de> for CostModel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ModelVisitor)
    }
}

struct ModelVisitor;

impl<'de> Visitor<'de> for ModelVisitor {
    type Value = CostModel;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one cost for each step")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CostModel, A::Error> {
        let mut entries = [const { None }; Step::ALL.len()];
        let mut unknown: Vec<String> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let Some(step) = Step::ALL.into_iter().find(|step| step.name() == key) else {
                unknown.push(key);
                map.next_value::<serde::de::IgnoredAny>()?;
                continue;
            };
            let entry: Entry = map.next_value()?;
            let picos = entry.picos().map_err(|why| A::Error::custom(format!("step `{key}`: {why}")))?;
            let origin = entry.origin().map_err(|why| A::Error::custom(format!("step `{key}`: {why}")))?;
            entries[step as usize] = Some((picos, origin));
        }
        if let Some(key) = unknown.first() {
            let near = nearest(key);
            return Err(A::Error::custom(format!("unknown step `{key}`: did you mean `{near}`?")));
        }
        let mut model = CostModel { picos: [0; Step::ALL.len()], origins: Vec::new() };
        for (step, entry) in Step::ALL.into_iter().zip(entries) {
            let Some((picos, origin)) = entry else {
                return Err(A::Error::custom(format!("step `{}` has no cost", step.name())));
            };
            model.picos[step as usize] = picos;
            model.origins.push(origin);
        }
        Ok(model)
    }
}

/// The step whose name is the fewest edits away from `key`.
fn nearest(key: &str) -> &'static str {
    Step::ALL.into_iter().map(Step::name).min_by_key(|name| edits(key, name)).expect("there are steps")
}

/// Insertions, deletions and replacements that turn `a` into `b`.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replace = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
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
    fn costs_may_have_decimals_and_say_where_they_are_from() {
        let model = file(line).unwrap();
        assert_eq!(model.picos(Step::ScanPage), 90_500);
        assert_eq!(model.origin(Step::ScanPage), &Origin::Fitted { to: "a row".into() });
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

//! An experiment: a machine, a workload, kernels to compare, and published figures.

use placed::{Error, Node, Place, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::group::Group;
use figures::figure::{Better, PublishedFigure};
use figures::scale::Scale;

/// An experiment as its folder describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Name of the experiment's folder.
    pub name: String,
    /// Name by which messages refer to the experiment's file.
    pub file: String,
    /// Description of the experiment in one line.
    pub about: String,
    /// The purpose of the experiment, and what to look for in its results.
    pub analysis: String,
    /// Ways in which the experiment is unfair to a kernel or differs from the published experiment.
    pub fairness: String,
    /// Name of a built-in machine, or path of a machine file.
    pub machine: String,
    /// Name of the workload.
    pub workload: String,
    /// Names of built-in kernels, or paths of kernel files; the first is the baseline.
    pub kernels: Vec<String>,
    /// The scale of the golden report, the small report that tests compare byte for byte; none if there is no such
    /// report.
    pub smoke_scale: Option<Scale>,
    /// Values that are changed for the golden report (a small report that tests compare byte for byte), each as
    /// `KEY=VALUE` as in `--set`.
    pub smoke_set: Vec<String>,
    /// The variants: the experiment on other machines or with other parameters.
    pub variants: Vec<Variant>,
    /// Names of the rows (the figures of a report) that the command `highwater variants` shows.
    pub variant_rows: Vec<String>,
    /// Name of the main row: the figure of a report by which `study::ranking` compares kernels. A name that ends with
    /// `-` is a prefix, and stands for the last row whose name begins with it.
    pub main_row: Option<String>,
    /// File and line of the key `main_row`.
    pub main_row_place: Option<Place>,
    /// The places of the values `machine`, `workload` and `kernels` in the file.
    pub name_places: NamePlaces,
    /// The rows that a comparison prints by default in addition to the main row. Each text is a part of a row's name,
    /// as for `--rows`.
    pub main_rows: Vec<String>,
    /// File and line of the key `main_rows`.
    pub main_rows_place: Option<Place>,
    /// CPU time in seconds that a comparison of the kernels takes at full size on a simulated machine. It was measured
    /// once.
    pub cpu_s: Option<u32>,
    /// The kind of picture in which a run is drawn.
    pub picture: Picture,
    /// Panels of the picture over time. If the list is empty, the picture has the default panels.
    pub plot: Vec<PlotPanel>,
    /// The machine, the scale and the values of keys that all compared runs get, instead of those of the experiment, if
    /// one of these runs is in a virtual machine (ground `guest`). The reason: virtual machines are slow on many
    /// computers.
    pub guest: OnGuest,
    /// The workload's parameters.
    pub params: Node,
    /// The sections `[[group]]` of the experiment's file. Each adds a control group to those of the machine, or
    /// replaces keys of the machine's group with the same name.
    pub groups: Vec<Node>,
    /// Published figures, if there are any.
    pub published: Option<Published>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentText {
    about: String,
    #[serde(default)]
    analysis: String,
    #[serde(default)]
    fairness: String,
    machine: String,
    workload: String,
    kernels: Vec<String>,
    smoke_scale: Option<String>,
    #[serde(default)]
    smoke_set: Vec<String>,
    #[serde(default)]
    variant_rows: Vec<String>,
    main_row: Option<String>,
    #[serde(default)]
    main_rows: Vec<String>,
    cpu_s: Option<u32>,
    #[serde(default)]
    picture: Picture,
}

/// The machine, scale and values that replace those of the experiment if one of the compared runs is in a virtual
/// machine (ground `guest`). They then apply to all compared runs. Values that the user gives take precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnGuest {
    /// Name or file of the machine that replaces the experiment's own. None: the experiment's machine is kept.
    pub machine: Option<String>,
    /// The scale as text; full size by default.
    pub scale: Option<String>,
    /// The values that replace those of the experiment, under their keys, as in `--set KEY=VALUE`. A value is written as
    /// in a file.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

/// The kind of picture in which a run is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Picture {
    /// A picture of counters over time.
    #[default]
    OverTime,
    /// A picture of the longest period with interrupts off: the work done in it, and the packets that wait for its end.
    Packets,
}

/// A panel of a picture over time. It shows the sum of some of the counters that the option `--series` writes. Counters
/// of events are shown as rates per second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlotPanel {
    /// Caption of the panel: its subject and unit.
    pub caption: String,
    /// Names of the counters to add up; `pgscan_kswapd_*` means all counters whose names begin with `pgscan_kswapd_`.
    pub sum: Vec<String>,
    /// Unit into which the counters are converted.
    #[serde(default)]
    pub unit: PanelUnit,
}

/// The unit in which a panel shows its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PanelUnit {
    /// The unit in which the counters are reported.
    #[default]
    #[serde(rename = "count")]
    Count,
    /// The panel shows MiB; the counters are in pages.
    #[serde(rename = "MiB")]
    Mib,
    /// The panel shows MiB; the counters are in KiB.
    #[serde(rename = "MiB of KiB")]
    KibAsMib,
}

/// A variant of an experiment: the experiment on another machine, with other kernels, or with other parameters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Name of the variant: it says in words what is different from the experiment.
    pub name: String,
    /// Names of the kernels that the variant applies to; all kernels if empty.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// The values that replace those of the experiment, under their keys, as in `--set KEY=VALUE`. A value is written as
    /// in a file.
    pub set: BTreeMap<String, String>,
}

impl Experiment {
    /// Returns the variant named `word`, or the only one whose name contains `word`. Case does not matter.
    ///
    /// # Errors
    /// When no variant matches, or several do.
    pub fn variant(&self, word: &str) -> Result<&Variant, Error> {
        let lower = word.to_lowercase();
        let is_meant = |variant: &&Variant| variant.name.to_lowercase().contains(&lower);
        let meant: Vec<&Variant> = self.variants.iter().filter(is_meant).collect();
        if let Some(variant) = meant.iter().find(|variant| variant.name.eq_ignore_ascii_case(word)) {
            return Ok(variant);
        }
        let names = |variants: &[&Variant]| {
            variants.iter().map(|variant| format!("`{}`", variant.name)).collect::<Vec<_>>().join(", ")
        };
        let message = match meant.as_slice() {
            [variant] => return Ok(variant),
            [] if self.variants.is_empty() => format!("{}: the experiment has no [[variant]]", self.file),
            [] => {
                let all: Vec<&Variant> = self.variants.iter().collect();
                format!("{}: no variant is called `{word}`; there are {}", self.file, names(&all))
            }
            several => format!("{}: `{word}` may be {}", self.file, names(several)),
        };
        Err(Error { place: None, message })
    }

    /// Makes an experiment from `experiment.toml` and, if present, from the `published.toml` beside it. `file` and
    /// `published` are pairs: the name of the file in messages, and its text.
    ///
    /// # Errors
    /// When a file is faulty. The error is the first fault, with file and line.
    pub fn parse(name: &str, file: (&str, &str), published: Option<(&str, &str)>) -> Result<Self, Error> {
        let mut node = Node::parse(file.0, file.1)?;
        let empty = Node { value: placed::Value::Table(Vec::new()), ..node.clone() };
        let params = node.take("params").unwrap_or(empty);
        let variants = node.take("variant").map(|list| list.read()).transpose()?.unwrap_or_default();
        let plot = node.take("plot").map(|list| list.read()).transpose()?.unwrap_or_default();
        let groups = node.take("group").map(groups_of).transpose()?.unwrap_or_default();
        let guest = node.take("guest");
        let on_guest: OnGuest = guest.as_ref().map(Node::read).transpose()?.unwrap_or_default();
        if let Some(Err(message)) = on_guest.scale.as_ref().map(|text| text.parse::<Scale>()) {
            let place = guest.as_ref().and_then(|guest| guest.get("scale")).map_or(&node.place, |scale| &scale.place);
            return Err(Error::at(place, format!("`guest.scale`: {message}")));
        }
        let text: ExperimentText = node.read()?;
        let ExperimentText {
            about,
            analysis,
            fairness,
            machine,
            workload,
            kernels,
            smoke_scale,
            smoke_set,
            variant_rows,
            main_row,
            main_rows,
            cpu_s,
            picture,
        } = text;
        let place_of = |key: &str| node.get(key).map_or(&node.place, |node| &node.place);
        if kernels.is_empty() {
            return Err(Error::at(place_of("kernels"), "an experiment compares at least one kernel"));
        }
        let smoke_scale = match smoke_scale.map(|text| text.parse()).transpose() {
            Ok(scale) => scale,
            Err(message) => return Err(Error::at(place_of("smoke_scale"), format!("`smoke_scale`: {message}"))),
        };
        let [machine_place, workload_place, kernels_place] =
            ["machine", "workload", "kernels"].map(|key| place_of(key).clone());
        let name_places = NamePlaces { machine: machine_place, workload: workload_place, kernels: kernels_place };
        let main_row_place = main_row.as_ref().map(|_| place_of("main_row").clone());
        let main_rows_place = node.get("main_rows").map(|node| node.place.clone());
        let published = published.map(|(file, text)| Published::parse(file, text)).transpose()?;
        let (name, file) = (name.to_owned(), file.0.to_owned());
        let (analysis, fairness) = (analysis.trim().to_owned(), fairness.trim().to_owned());
        Ok(Self {
            name,
            file,
            about,
            analysis,
            fairness,
            machine,
            workload,
            kernels,
            smoke_scale,
            smoke_set,
            variants,
            variant_rows,
            main_row,
            main_row_place,
            name_places,
            main_rows,
            main_rows_place,
            cpu_s,
            picture,
            plot,
            guest: on_guest,
            params,
            groups,
            published,
        })
    }
}

/// Returns the `[[group]]` tables of an experiment, which define its memory control groups. Checks only each table by
/// itself. The names are compared with the machine's groups later, when the groups are added to the machine.
///
/// # Errors
/// When a table does not define a group. The error has file and line.
fn groups_of(list: Node) -> Result<Vec<Node>, Error> {
    let told = |error: Error| Error { message: format!("in [[group]]: {}", error.message), ..error };
    match list.value {
        Value::List(tables) => {
            tables.iter().try_for_each(|table| table.read::<Group>().map(drop).map_err(told))?;
            Ok(tables)
        }
        _ => Err(Error::at(&list.place, "expected control groups, each as a section [[group]]")),
    }
}

/// The places in an experiment's file at which other files and the workload are named, for messages if there is none of
/// this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePlaces {
    /// The place of `machine`.
    pub machine: Place,
    /// The place of `workload`.
    pub workload: Place,
    /// The place of `kernels`.
    pub kernels: Place,
}

/// Published figures, transcribed digit for digit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Version of the format of files with published figures. It is 1.
    pub schema: u32,
    /// The posting with the figures.
    pub posting: Posting,
    /// Subject of the published table.
    pub title: String,
    /// Names of the kernels, in the order of the values in each row.
    pub columns: Vec<String>,
    /// Names of the kernels as the posting (the published message with the figures) prints them over the columns of its
    /// table.
    #[serde(default)]
    pub printed_columns: Vec<String>,
    /// The kernel that percentages are relative to.
    pub baseline: String,
    /// Name of the rule by which the printed percentages were computed. The names are the values of the option
    /// `--percent`.
    pub pct_rule: String,
    /// The rows of the published table.
    #[serde(default)]
    pub rows: Vec<PublishedRow>,
    /// The machine on which the published figures were measured: its description in the posting, and conclusions from
    /// the posting's figures.
    #[serde(skip)]
    pub machine: Option<Node>,
    /// Numbers that the posting states in its prose, and not in a table.
    #[serde(skip)]
    pub facts: Option<Node>,
    /// Statements of the posting's prose that order kernels by a figure, but give no number.
    #[serde(skip)]
    pub claims: Option<Node>,
}

/// A posting with figures.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Posting {
    /// Author of the posting.
    pub author: String,
    /// Subject of the posting.
    pub title: String,
    /// Date of the posting, year first.
    pub date: String,
}

/// The way in which a published figure summarises its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The figure is a total, a rate or a mean of the runs.
    #[default]
    Value,
    /// The figure is a spread over the runs: a standard deviation or a range.
    Spread,
    /// The figure is the smallest or the largest value of the runs.
    Extreme,
}

/// One row of a published table, with a figure for each kernel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRow {
    /// Name of the block in which the row stands in the published table.
    pub group: String,
    /// Name of the row.
    pub name: String,
    /// Unit of the row.
    pub unit: String,
    /// The better direction, higher or lower figures, which MMTests shows by the sign of its percentages.
    /// [`PublishedRow::better()`] also regards `neutral`.
    pub better: Better,
    /// The figures, one for each kernel; NaN where the posting prints none.
    pub values: Vec<f64>,
    /// The percentages that the posting prints in brackets, one for each kernel.
    #[serde(default)]
    pub pct: Vec<f64>,
    /// True if the row can be computed from other rows.
    #[serde(default)]
    pub derived: bool,
    /// True if the row is only context, so that neither more nor less is better.
    #[serde(default)]
    pub neutral: bool,
    /// Number of runs from which each figure was computed.
    #[serde(default = "one_run")]
    pub runs: u32,
    /// The way in which each figure summarises the values of the runs from which it was computed.
    #[serde(default)]
    pub statistic: Statistic,
    /// Name of the row in the same group that gives the published spread of this row. None if the posting gives no
    /// spread for the row.
    #[serde(default)]
    pub spread: Option<String>,
    /// A remark on the row for readers of the published table.
    #[serde(default)]
    pub note: Option<String>,
}

const fn one_run() -> u32 {
    1
}

impl PublishedRow {
    /// Returns whether more or less is better for the row's figures; `Neutral` if the row is only context.
    #[must_use]
    pub fn better(&self) -> Better {
        if self.neutral { Better::Neutral } else { self.better }
    }
}

impl Published {
    /// Makes published figures from the text of a `published.toml`.
    ///
    /// # Errors
    /// When the file is faulty. The error is the first fault, with file and line.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut node = Node::parse(file, text)?;
        let (machine, facts, claims) = (node.take("machine"), node.take("facts"), node.take("claims"));
        let published: Self = node.read()?;
        let columns = published.columns.len();
        for row in &published.rows {
            if row.values.len() != columns || !(row.pct.is_empty() || row.pct.len() == columns) {
                let message = format!("row `{}` needs {columns} values, one for each column", row.name);
                return Err(Error::at(&node.place, message));
            }
            if let Some(name) = row.spread.as_ref().filter(|name| published.row(&row.group, name).is_none()) {
                let message = format!("row `{}`: its group has no row `{name}` to be its spread", row.name);
                return Err(Error::at(&node.place, message));
            }
        }
        Ok(Self { machine, facts, claims, ..published })
    }

    /// Returns the row called `name` in a group; none if there is no such row.
    #[must_use]
    pub fn row(&self, group: &str, name: &str) -> Option<&PublishedRow> {
        self.rows.iter().find(|row| row.group == group && row.name == name)
    }

    /// Returns the number of published figures.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rows.iter().flat_map(|row| &row.values).filter(|value| !value.is_nan()).count()
    }

    /// Returns the published figure for a row and a kernel; none if the posting prints no such figure.
    #[must_use]
    pub fn figure(&self, group: &str, name: &str, kernel: &str) -> Option<PublishedFigure> {
        let column = self.columns.iter().position(|column| column == kernel)?;
        let row = self.row(group, name)?;
        let value = row.values[column];
        (!value.is_nan()).then(|| PublishedFigure { value, percent: row.pct.get(column).copied() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "about = \"a\"\nmachine = \"m\"\nworkload = \"w\"\nkernels = [\"k\"]\n";

    fn parse(text: &str) -> Result<Experiment, String> {
        Experiment::parse("e", ("e/experiment.toml", text), None).map_err(|error| error.to_string())
    }

    #[test]
    fn an_experiment_is_read_with_its_parameters_where_they_stand() {
        let experiment =
            parse(&format!("{TEXT}smoke_scale = \"1/16\"\nsmoke_set = [\"a=1\"]\n[params]\nsteps = 4\n")).unwrap();
        assert_eq!(experiment.params.get("steps").unwrap().place.to_string(), "e/experiment.toml:8");
        assert_eq!(
            (experiment.smoke_scale.unwrap().to_string(), &*experiment.smoke_set),
            ("1/16".into(), &["a=1".into()][..])
        );
        assert!(parse(TEXT).unwrap().params.entries().is_empty());
    }

    #[test]
    fn groups_are_kept_for_the_machine_and_checked_one_by_one() {
        let found = parse(&format!("{TEXT}[[group]]\nname = \"a\"\nlow_mib = 4\n[[group]]\nname = \"a/b\"\n")).unwrap();
        assert_eq!(
            found.groups.iter().map(|it| it.place.to_string()).collect::<Vec<_>>(),
            ["e/experiment.toml:5", "e/experiment.toml:8"]
        );
        assert_eq!(
            parse(&format!("{TEXT}[[group]]\nname = \"a\"\nmax_mb = 4\n")).unwrap_err(),
            "e/experiment.toml:7: in [[group]]: unknown key `max_mb`: did you mean `max_mib`?"
        );
        assert_eq!(
            parse(&format!("{TEXT}[group]\nname = \"a\"\n")).unwrap_err(),
            "e/experiment.toml:5: expected control groups, each as a section [[group]]"
        );
    }

    #[test]
    fn wrong_keys_and_values_are_told_with_their_line() {
        assert_eq!(
            parse(&TEXT.replace("machine", "machin")).unwrap_err(),
            "e/experiment.toml:2: unknown key `machin`: did you mean `machine`?"
        );
        assert_eq!(
            parse(&format!("{TEXT}smoke_scale = \"small\"\n")).unwrap_err().split(": ").next(),
            Some("e/experiment.toml:5")
        );
        assert_eq!(
            parse(&TEXT.replace("[\"k\"]", "[]")).unwrap_err(),
            "e/experiment.toml:4: an experiment compares at least one kernel"
        );
    }

    #[test]
    fn figures_are_found_by_group_name_and_kernel() {
        let text = crate::embedded::text("experiments/parallelio/published.toml").unwrap();
        let published = Published::parse("published.toml", text).unwrap();
        let figure = |name: &str, kernel: &str| published.figure("Ops", name, kernel);
        let found = figure("Ops memcachetest-2385M", "mm1-mmotm-20130606").unwrap();
        assert_eq!((found.value, found.percent), (23_564.0, Some(114.43)));
        assert_eq!(figure("Ops memcachetest-2385M", "mine"), None);
        assert_eq!(figure("Ops memcachetest-149M", "mm1-mmotm-20130606"), None);
        assert_eq!(published.rows.len(), 59);
    }
}

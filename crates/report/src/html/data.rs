//! The data for the script of a page, as JSON.

use crate::plot::lines::{Panel, Plot};
use crate::plot::over_time;
use figures::histogram::Histogram;
use figures::series::RunSeries;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Largest number of bytes that counters over time take in a report's HTML page. With this limit the page stays under 2
/// MB.
const COUNTERS_BYTES_MAX: usize = 700_000;

/// Smallest share of a column's time, as a fraction, for which a call is shown in a flame graph. Calls that took less
/// are left out.
const FLAME_LEAST: f64 = 0.000_2;

/// The form of a chart's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Straight lines between points.
    #[default]
    Line,
    /// A line that runs in steps, over a logarithmic horizontal scale. Used for histograms.
    Steps,
}

/// A chart of one quantity over another.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Subject and unit of the chart.
    pub caption: String,
    /// Name and unit of the quantity on the horizontal axis.
    pub across: String,
    /// Names of the lines.
    pub names: Vec<String>,
    /// The points of each line: the values on the horizontal and on the vertical axis.
    pub lines: Vec<Vec<(f64, f64)>>,
    /// The way in which the lines are drawn: straight between points, or in steps.
    pub shape: Shape,
    /// Name of the chart's group. Charts of one group are zoomed together.
    pub group: &'static str,
}

impl Chart {
    /// Makes a chart from a panel of a picture. The panels share the horizontal quantity `across`, and charts with the
    /// same `group` are zoomed together.
    #[must_use]
    pub fn of_panel(panel: Panel, names: &[String], across: &str, group: &'static str) -> Self {
        let Panel { caption, lines } = panel;
        Self { caption, across: across.to_owned(), names: names.to_vec(), lines, shape: Shape::Line, group }
    }

    /// Makes a chart from a plot that has its own horizontal axis. `names` are the names of the plot's lines.
    #[must_use]
    pub fn of_plot(Plot { panel, across }: Plot, names: &[String]) -> Self {
        let caption = format!("{} over {across}", panel.caption);
        Self { caption, ..Self::of_panel(panel, names, &across, "") }
    }

    /// Makes a chart of the durations of operations, with a line for each column that has durations.
    #[must_use]
    pub fn of_times(histogram: &Histogram) -> Self {
        let columns = histogram.columns.iter();
        Self {
            caption: format!("{}: share of operations by how long they took, %", histogram.name),
            across: "time, us".into(),
            names: columns.clone().map(|(name, _)| name.clone()).collect(),
            lines: columns.map(|(_, buckets)| buckets.shares()).collect(),
            shape: Shape::Steps,
            group: "",
        }
    }

    pub(super) fn json(&self) -> Value {
        let line = |(name, points): (&String, &Vec<(f64, f64)>)| {
            let (x, y): (Vec<Value>, Vec<Value>) = points.iter().map(|(x, y)| (short(*x), short(*y))).unzip();
            json!({ "name": name, "x": x, "y": y })
        };
        let lines: Vec<Value> = self.names.iter().zip(&self.lines).map(line).collect();
        let is_steps = self.shape == Shape::Steps;
        json!({ "caption": self.caption, "across": self.across, "lines": lines, "steps": is_steps, "group": self.group })
    }
}

/// Counters of runs over time.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Name and unit of the quantity on the horizontal axis.
    pub across: String,
    /// For each run, the name of its column, the times at which the counters were read, and the values of each counter
    /// at these times.
    runs: Vec<(String, Vec<f64>, Map<String, Value>)>,
    /// Number of counters that were left out because the page would be too large.
    pub left_out: usize,
}

impl Counters {
    /// Makes the counters of the runs `runs`. Leaves out counters that are 0 in all runs. A gauge (a level such as free
    /// memory) is shown as it is, a count of events as a rate.
    #[must_use]
    pub fn of(runs: &[&RunSeries], across: &str) -> Self {
        let mut names: Vec<&String> = runs.iter().flat_map(|run| &run.series.names).collect();
        names.sort();
        names.dedup();
        let mut this = Self { across: across.to_owned(), ..Self::default() };
        for run in runs {
            let any = run.series.names.first().map_or_else(Vec::new, |name| over_time::course_of(&run.series, name));
            let moments = any.into_iter().map(|(x, _)| x).collect();
            this.runs.push((run.column.clone(), moments, Map::new()));
        }
        let mut bytes = 0;
        for name in names {
            let courses: Vec<Vec<(f64, f64)>> =
                runs.iter().map(|run| over_time::course_of(&run.series, name)).collect();
            if courses.iter().flatten().all(|(_, y)| *y == 0.0) {
                continue;
            }
            let values: Vec<Value> =
                courses.iter().map(|points| points.iter().map(|(_, y)| short(*y)).collect::<Vec<_>>().into()).collect();
            let more: usize = values.iter().map(|it| it.to_string().len() + name.len() + 4).sum();
            if bytes + more > COUNTERS_BYTES_MAX {
                this.left_out += 1;
                continue;
            }
            bytes += more;
            for ((.., known), values) in this.runs.iter_mut().zip(values) {
                known.insert(name.clone(), values);
            }
        }
        this
    }

    /// Returns whether there are no values at all: none of any counter in any run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.iter().all(|(.., values)| values.is_empty())
    }

    pub(super) fn json(&self) -> Value {
        let run = |(name, moments, values): &(String, Vec<f64>, Map<String, Value>)| json!({ "name": name, "x": moments.iter().map(|x| short(*x)).collect::<Vec<_>>(), "values": values });
        json!({ "across": self.across, "runs": self.runs.iter().map(run).collect::<Vec<_>>() })
    }
}

/// The time that the runs of a column spent on each call path, as a flame graph.
#[derive(Clone, Debug, Default)]
pub struct Flame {
    /// Name of the column of the table.
    pub column: String,
    root: Call,
}

#[derive(Clone, Debug, Default)]
struct Call {
    /// Time spent in the function itself, ns.
    own_ns: u64,
    calls: BTreeMap<String, Call>,
}

impl Call {
    fn total_ns(&self) -> u64 {
        self.own_ns + self.calls.values().map(Call::total_ns).sum::<u64>()
    }

    /// Returns the tree of calls below a function as `[name, total, [calls]]`, with times in ns. The longest calls come
    /// first; calls shorter than `least` are left out.
    fn json(&self, name: &str, least: f64) -> Value {
        let mut calls: Vec<_> = self.calls.iter().map(|(name, call)| (name, call, call.total_ns())).collect();
        calls.retain(|(.., total)| *total as f64 >= least);
        calls.sort_by_key(|(.., total)| std::cmp::Reverse(*total));
        let calls: Vec<Value> = calls.into_iter().map(|(name, call, _)| call.json(name, least)).collect();
        json!([name, self.total_ns(), calls])
    }
}

impl Flame {
    /// Makes a flame graph from the nanoseconds spent on each call path.
    #[must_use]
    pub fn of(column: &str, stacks: &BTreeMap<String, u64>) -> Self {
        let mut root = Call::default();
        for (path, ns) in stacks {
            let call = path.split(';').fold(&mut root, |call, name| call.calls.entry(name.to_owned()).or_default());
            call.own_ns += ns;
        }
        Self { column: column.to_owned(), root }
    }

    /// Returns whether the column's profile has no CPU time.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.total_ns() == 0
    }

    /// Returns the flame graph as the script of the HTML page reads it: `[column, total, calls]`.
    #[must_use]
    pub fn json(&self) -> Value {
        self.root.json(&self.column, self.root.total_ns() as f64 * FLAME_LEAST)
    }
}

/// Returns a figure rounded to five digits, because a picture shows no more; null if the figure is no number.
fn short(value: f64) -> Value {
    let rounded: f64 = format!("{value:.4e}").parse().unwrap_or(f64::NAN);
    if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
        return Value::from(rounded as i64);
    }
    serde_json::Number::from_f64(rounded).map_or(Value::Null, Value::Number)
}

/// Returns a value as JSON text that is safe inside a script element.
pub(super) fn in_script(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;
    use figures::series::Series;
    use machine::Nanos;

    #[test]
    fn figures_have_the_digits_of_a_picture() {
        assert_eq!(
            [123_456.0, 0.123_456_7, 2.0, f64::NAN].map(short),
            [json!(123_460), json!(0.12346), json!(2), Value::Null]
        );
    }

    #[test]
    fn stacks_become_a_tree_with_the_longest_first() {
        let stacks = [("a;b", 10), ("a;c", 30), ("a", 5), ("d", 100), ("tiny", 0)];
        let flame = Flame::of("k", &stacks.map(|(path, ns)| (path.to_owned(), ns)).into());
        assert_eq!(flame.json(), json!(["k", 145, [["d", 100, []], ["a", 45, [["c", 30, []], ["b", 10, []]]]]]));
    }

    #[test]
    fn counters_that_never_change_are_left_out() {
        let mut series = Series::default();
        for n in 0..300_u64 {
            let values = [("pgfree", n * 7), ("pgfault", 3), ("nr_free_pages", 1000 - n)];
            series
                .push(Nanos::from_secs(n), &values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        }
        let run = RunSeries { column: "k".into(), seed: 1, series };
        let value = Counters::of(&[&run], "time, s").json();
        let names: Vec<&String> = value["runs"][0]["values"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["nr_free_pages", "pgfree"]);
        let moments = value["runs"][0]["x"].as_array().unwrap().len();
        assert_eq!(value["runs"][0]["values"]["pgfree"].as_array().unwrap().len(), moments);
    }

    #[test]
    fn nothing_ends_a_script() {
        assert_eq!(in_script(&json!("</script>")), "\"\\u003c/script>\"");
    }
}

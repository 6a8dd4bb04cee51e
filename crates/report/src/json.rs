//! The report as JSON, which `docs/json.md` describes.

use serde_json::{Map, Number, Value, json};

use crate::table::{Column, Table, TableCell, TableRow};
use figures::histogram::Histogram;
use figures::shift::Shift;
use figures::verdict::{Basis, Comparison};
use kit::shown;

/// Returns the whole report as JSON, with a line break at its end.
#[must_use]
pub fn render(table: &Table) -> String {
    let seeds: &[u64] = &table.seeds;
    let value = json!({
        "schema": 1,
        "experiment": table.experiment,
        "scale": table.scale.to_string(),
        "seeds": seeds,
        "fingerprint": table.fingerprint.map(|fingerprint| format!("{fingerprint:016x}")),
        "machine": table.machine,
        "notes": table.notes,
        "main_rows": table.main_rows,
        "columns": table.columns,
        "rows": table.rows.iter().map(|row| row_of(table, row)).collect::<Vec<_>>(),
        "histograms": table.histograms.iter().map(times_of).collect::<Vec<_>>(),
    });
    shown::json(&value)
}

/// Returns a list of reports as JSON, with a line break at its end.
#[must_use]
pub fn render_list<'t>(tables: impl IntoIterator<Item = &'t Table>) -> String {
    let reports: Vec<String> = tables.into_iter().map(|table| render(table).trim_end().to_owned()).collect();
    format!("[\n{}\n]\n", reports.join(",\n"))
}

fn row_of(table: &Table, row: &TableRow) -> Value {
    let estimate = |(column, cell): (&Column, &TableCell)| {
        let value = cell.value?;
        let [median, low, high] = [value.median, value.low, value.high].map(number);
        let mut told = json!({ "median": median, "low": low, "high": high, "n": value.n });
        if value.n > 1 {
            let samples: Vec<Value> = cell.samples.iter().map(|it| json!([it.seed, number(it.value)])).collect();
            told["coverage"] = value.coverage.map_or(Value::Null, number);
            told["samples"] = samples.into();
        }
        Some((column.id.clone(), told))
    };
    let values: Map<String, Value> = table.cells(row).filter_map(estimate).collect();
    let figure = |(column, cell): (&Column, &TableCell)| Some((column.id.clone(), number(cell.published?.value)));
    let published: Map<String, Value> = table.cells(row).filter_map(figure).collect();
    let difference = |n: usize| Some((table.columns[n].id.clone(), difference_of(&row.comparison(n)?)?));
    let differences: Map<String, Value> = (1..table.columns.len()).filter_map(difference).collect();
    let mut told = json!({
        "group": row.group,
        "name": row.name,
        "unit": row.unit,
        "better": row.better,
        "format": row.format,
        "values": values,
        "published": published,
    });
    if !differences.is_empty() {
        told["differences"] = differences.into();
    }
    told
}

/// Returns, as JSON, the difference of a column from the baseline. Returns none if there is only one seed, because no
/// confidence interval is then known.
fn difference_of(it: &Comparison) -> Option<Value> {
    let (is_paired, n) = match it.basis {
        Basis::Pairs(n) => (true, n),
        Basis::Sets(n, m) => (false, n.min(m)),
    };
    let Shift { value, low, high, coverage } = it.shift;
    let coverage = coverage.map_or(Value::Null, number);
    let told = json!({
        "verdict": it.verdict, "difference": number(value), "low": number(low), "high": number(high),
        "coverage": coverage, "n": n, "paired": is_paired,
    });
    (n > 1).then_some(told)
}

fn times_of(histogram: &Histogram) -> Value {
    let values: Map<String, Value> =
        histogram.columns.iter().map(|(id, buckets)| (id.clone(), json!(buckets))).collect();
    json!({ "name": histogram.name, "values": values })
}

/// Returns a number as JSON: without a decimal point if it is whole; null for NaN and infinite values.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_report_holds_its_columns_and_rows() {
        let run = |value| vec![vec![samples::ops("Ops memcachetest-0M", value)]];
        let table = Table::of_runs(samples::head(&["3.10-rc4-vanilla", "mine"], 1), &[run(9.5), run(10.0)], None);
        let value: Value = serde_json::from_str(&render(&table)).unwrap();
        assert_eq!(
            value,
            json!({
                "schema": 1,
                "experiment": "parallelio",
                "scale": "1",
                "seeds": [1],
                "fingerprint": "0000000000005f0c",
                "machine": "parallelio-8g",
                "notes": [],
                "main_rows": [],
                "columns": [
                    { "id": "3.10-rc4-vanilla", "kernel": "3.10-rc4-vanilla", "ground": "sim", "set": {} },
                    { "id": "mine", "kernel": "mine", "ground": "sim", "set": {} },
                ],
                "rows": [{
                    "group": "Ops",
                    "name": "Ops memcachetest-0M",
                    "unit": "ops/s",
                    "better": "higher",
                    "format": { "decimals": 2 },
                    "values": {
                        "3.10-rc4-vanilla": { "median": 9.5, "low": 9.5, "high": 9.5, "n": 1 },
                        "mine": { "median": 10, "low": 10, "high": 10, "n": 1 },
                    },
                    "published": {},
                }],
                "histograms": [],
            })
        );
    }

    #[test]
    fn several_seeds_have_their_values_and_what_differences_are_worth() {
        let runs = |value: f64| (0..6).map(|n| vec![samples::ops("Ops a", value + f64::from(n))]).collect();
        let table = Table::of_runs(samples::head(&["a", "b"], 6), &[runs(10.0), runs(20.0)], None);
        let value: Value = serde_json::from_str(&render(&table)).unwrap();
        let row = &value["rows"][0];
        assert_eq!(row["values"]["a"]["samples"], json!([[1, 10], [2, 11], [3, 12], [4, 13], [5, 14], [6, 15]]));
        assert_eq!((&row["values"]["a"]["coverage"], &row["values"]["a"]["low"]), (&json!(0.96875), &json!(10)));
        assert_eq!(
            row["differences"],
            json!({ "b": {
                "verdict": "better", "difference": 10, "low": 10, "high": 10, "coverage": 0.96875, "n": 6, "paired": true
            } })
        );
    }

    #[test]
    fn what_is_no_number_is_null() {
        assert_eq!([number(f64::NAN), number(f64::INFINITY), number(0.1)], [Value::Null, Value::Null, json!(0.1)]);
    }
}

//! The report as CSV: a line for each row and column of a table.

use figures::csv_error::io_error;
use std::io;

use crate::table::Table;
use crate::text::arrow;
use kit::shown::harmless;

/// Names of the fields in a line. If there are several tables, a field with the experiment's name stands before these.
const FIELDS: [&str; 15] = [
    "group",
    "name",
    "unit",
    "better",
    "column",
    "median",
    "low",
    "high",
    "n",
    "published",
    "coverage",
    "verdict",
    "difference_low",
    "difference_high",
    "failed",
];

/// Writes tables as CSV: a line with the names of the fields, and then a line for each row and column. With several
/// tables the first field of each line is the experiment. For a column whose runs failed, each row has a line without
/// figures; if there are no rows, the column has a single line.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write(tables: &[&Table], out: &mut dyn io::Write) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().from_writer(out);
    let mut write = |experiment: &str, fields: [&str; 15]| {
        let experiment = (tables.len() > 1).then_some(experiment);
        csv.write_record(experiment.into_iter().chain(fields)).map_err(io_error)
    };
    write("experiment", FIELDS)?;
    for (table, row) in tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row))) {
        for (n, (column, cell)) in table.cells(row).enumerate() {
            let failed = column.failure().unwrap_or_default();
            if cell.value.is_none() && !column.has_failed() {
                continue;
            }
            let value = cell.value.as_ref();
            let [median, low, high] =
                [value.map(|it| it.median), value.map(|it| it.low), value.map(|it| it.high)].map(field);
            let count = field(value.map(|it| it.n));
            let (published, covered) =
                (field(cell.published.map(|it| it.value)), field(value.and_then(|it| it.coverage)));
            let known = row.comparison(n).filter(|it| it.is_known());
            let verdict = known.map_or("", |it| it.verdict.word());
            let [from, to] = [known.map(|it| it.shift.low), known.map(|it| it.shift.high)].map(field);
            let (group, name, unit, id) = (&row.group, &row.name, &row.unit, &column.id);
            let better = arrow(row.better);
            write(
                &table.experiment,
                [
                    group, name, unit, better, id, &median, &low, &high, &count, &published, &covered, verdict, &from,
                    &to, &failed,
                ],
            )?;
        }
    }
    for table in tables.iter().filter(|table| table.rows.is_empty()) {
        for column in &table.columns {
            let mut fields = [""; 15];
            let failed = column.failure().unwrap_or_default();
            (fields[4], fields[14]) = (&column.id, &failed);
            if !failed.is_empty() {
                write(&table.experiment, fields)?;
            }
        }
    }
    csv.flush()
}

/// Returns a report that is no [`Table`] as CSV: a line with the names of the fields, and then `lines`. Control
/// characters in fields, which may come from files of others, are replaced.
///
/// # Panics
/// When a line has more or fewer fields than `head`.
#[must_use]
pub fn text(head: &[&str], lines: &[Vec<String>]) -> String {
    let mut csv = csv::WriterBuilder::new().from_writer(Vec::new());
    csv.write_record(head).expect("memory can be written to");
    for line in lines {
        csv.write_record(line.iter().map(|field| harmless(field).into_owned())).expect("memory can be written to");
    }
    let bytes = csv.into_inner().expect("memory can be written to");
    String::from_utf8(bytes).expect("fields are text")
}

/// Returns the text of a field: `value` in full precision, or nothing if it is none.
pub fn field(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use crate::table::Failed;

    #[test]
    fn each_row_and_column_has_a_line() {
        let run = |value| vec![vec![samples::ops("Ops a, b", value)]];
        let table = Table::of_runs(samples::head(&["x", "y"], 1), &[run(9.5), vec![]], None);
        let mut out = Vec::new();
        write(&[&table], &mut out).unwrap();
        let head = format!("{}\n", FIELDS.join(","));
        let line = "Ops,\"Ops a, b\",ops/s,higher,x,9.5,9.5,9.5,1,,,,,,\n";
        assert_eq!(String::from_utf8(out).unwrap(), format!("{head}{line}"));
        let mut out = Vec::new();
        write(&[&table, &table], &mut out).unwrap();
        let line = format!("{},{line}", table.experiment);
        assert_eq!(String::from_utf8(out).unwrap(), format!("experiment,{head}{line}{line}"));
    }

    #[test]
    fn another_report_has_its_own_fields() {
        let line = ["a, b".to_owned(), field(None::<f64>), field(Some(0.1)), "\u{1b}[2J".to_owned()];
        assert_eq!(super::text(&["w", "x", "y", "z"], &[line.to_vec()]), "w,x,y,z\n\"a, b\",,0.1,\u{fffd}[2J\n");
    }

    #[test]
    fn verdicts_and_failures_have_fields() {
        let runs = |value: f64| (0..6).map(|n| vec![samples::ops("Ops a", value + f64::from(n))]).collect();
        let mut head = samples::head(&["x", "y", "z"], 6);
        head.columns[2].failed = vec![Failed { why: "out of memory".into(), runs: 6, of: 6 }];
        let table = Table::of_runs(head, &[runs(1.0), runs(3.0), vec![vec![]; 6]], None);
        let lines = |table: &Table| -> Vec<String> {
            let mut out = Vec::new();
            write(&[table], &mut out).unwrap();
            String::from_utf8(out).unwrap().lines().skip(1).map(str::to_owned).collect()
        };
        assert_eq!(
            lines(&table)[1..],
            [
                "Ops,Ops a,ops/s,higher,y,5.5,3,8,6,,0.96875,better,2,2,",
                "Ops,Ops a,ops/s,higher,z,,,,,,,,,,failed: out of memory (6 of 6)",
            ]
        );
        let nothing = Table { rows: Vec::new(), ..table };
        assert_eq!(lines(&nothing), [",,,,z,,,,,,,,,,failed: out of memory (6 of 6)"]);
    }
}

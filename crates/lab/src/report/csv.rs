//! The report as CSV: one line for each row and column of a table.

use std::io;

use super::{Table, text};

/// Writes a heading and the lines; of several tables the first field is the experiment.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write(tables: &[&Table], out: &mut dyn io::Write) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().from_writer(out);
    let mut write = |experiment: &str, fields: [&str; 10]| {
        let experiment = (tables.len() > 1).then_some(experiment);
        csv.write_record(experiment.into_iter().chain(fields)).map_err(io_error)
    };
    write("experiment", ["group", "name", "unit", "better", "column", "median", "low", "high", "n", "published"])?;
    for (table, row) in tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row))) {
        for (column, cell) in table.cells(row) {
            let Some(value) = cell.value else { continue };
            let [median, low, high] = [value.median, value.low, value.high].map(|value| value.to_string());
            let published = cell.published.map_or_else(String::new, |figure| figure.value.to_string());
            let n = value.n.to_string();
            let better = text::arrow(row.better);
            let (group, name, unit, id) = (&row.group, &row.name, &row.unit, &column.id);
            write(&table.experiment, [group, name, unit, better, id, &median, &low, &high, &n, &published])?;
        }
    }
    csv.flush()
}

/// The kind of a write error is what tells a closed pipe from a full disk.
pub(crate) fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests;

    #[test]
    fn each_row_and_column_has_a_line() {
        let run = |value| vec![vec![tests::ops("Ops a, b", value)]];
        let table = Table::of_runs(tests::head(&["x", "y"], 1), &[run(9.5), vec![]], None);
        let mut out = Vec::new();
        write(&[&table], &mut out).unwrap();
        let head = "group,name,unit,better,column,median,low,high,n,published\n";
        let line = "Ops,\"Ops a, b\",ops/s,higher,x,9.5,9.5,9.5,1,\n";
        assert_eq!(String::from_utf8(out).unwrap(), format!("{head}{line}"));
        let mut out = Vec::new();
        write(&[&table, &table], &mut out).unwrap();
        let line = format!("{},{line}", table.experiment);
        assert_eq!(String::from_utf8(out).unwrap(), format!("experiment,{head}{line}{line}"));
    }
}

//! Sample tables for the tests of this crate and other crates.

use crate::table::{Column, TableHead};
use figures::figure::{Better, Format, Row};
use figures::scale::Scale;

/// Returns a column of a sample table, for runs of the kernel `id` on the simulator.
#[must_use]
pub fn column(id: &str) -> Column {
    Column { comparable: true, ..Column::new(id, "sim") }
}

/// Returns the head of a sample table (a report of the experiment `parallelio`), with a column for each kernel.
#[must_use]
pub fn head(kernels: &[&str], seeds: u64) -> TableHead {
    TableHead {
        experiment: "parallelio".into(),
        machine: "parallelio-8g".into(),
        scale: Scale::FULL,
        seeds: (1..=seeds).collect(),
        fingerprint: Some(0x5f0c),
        columns: kernels.iter().map(|kernel| column(kernel)).collect(),
        notes: Vec::new(),
    }
}

/// Returns a row whose unit is operations per second.
#[must_use]
pub fn ops(name: &str, value: f64) -> Row {
    Row::new("Ops", name, "ops/s", Better::Higher, Format::Decimals(2), value)
}

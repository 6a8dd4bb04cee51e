//! The rows that a report has for each memory node, on a machine with several nodes.
//!
//! The rows cover the whole run, including the time before the workload.

use crate::counters;
use crate::figure::{self, Better, Format, Row, RowName};
use engine::stat::Vmstat;

/// Counters that get a row for each memory node, with their units. A counter that is kept for each zone is summed over
/// the zones of the node.
const COUNTERS: [(&str, &str); 11] = [
    ("pgalloc", "pages"),
    ("numa_hit", "blocks"),
    ("numa_miss", "blocks"),
    ("numa_other", "blocks"),
    ("pgscan_kswapd", "pages"),
    ("pgsteal_kswapd", "pages"),
    ("pgscan_direct", "pages"),
    ("pgsteal_direct", "pages"),
    ("zone_reclaim_failed", "times"),
    ("workingset_refault_file", "pages"),
    ("nr_free_pages", "pages"),
];

/// Returns the rows of all memory nodes, from the counters of each node. Returns no rows if there is only one node.
#[must_use]
pub fn rows(nodes: &[Vmstat]) -> Vec<Row> {
    if nodes.len() < 2 {
        return Vec::new();
    }
    let rows_of = |(node, counts): (usize, &Vmstat)| {
        // A counter that the kernel does not have gets no row.
        let row = move |(counter, unit): (&str, &str)| {
            let value = counters::sum(counts, counter)? as f64;
            Some(Row::new("nodes", name_of(node, counter), unit, Better::Neutral, Format::Decimals(0), value))
        };
        COUNTERS.into_iter().filter_map(row).collect::<Vec<Row>>()
    };
    nodes.iter().enumerate().flat_map(rows_of).collect()
}

fn name_of(node: usize, counter: &str) -> String {
    format!("Node {node} {counter}")
}

/// Returns the names of the rows for a machine with `nodes` nodes and a kernel with all counters.
#[must_use]
pub fn names(nodes: usize) -> Vec<RowName> {
    let all = COUNTERS.map(|(counter, _)| (counter.to_owned(), 0));
    figure::names(rows(&vec![all.into(); nodes]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_nodes_has_its_rows() {
        let counts = |pages: u64| Vmstat::from([("pgalloc_dma32".into(), pages), ("pgalloc_normal".into(), 1)]);
        assert!(rows(&[counts(7)]).is_empty());
        let rows = rows(&[counts(7), counts(8)]);
        let value = |name: &str| rows.iter().find(|row| row.name == name).unwrap().value;
        assert_eq!((value("Node 0 pgalloc"), value("Node 1 pgalloc")), (8.0, 9.0));
        assert!(rows.iter().all(|row| names(2).iter().any(|known| known.name == row.name)));
        assert_eq!((rows.len(), names(1).len()), (2, 0), "what was not counted has no row");
    }
}

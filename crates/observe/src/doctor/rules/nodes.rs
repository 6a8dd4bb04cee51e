//! Rules about memory nodes.

use super::{DIRECT_MIN, FREE_MUCH, ONE_NODE, RATE_MIN, Said, figure, if_known, percent};
use crate::doctor::signs::{Node, Signs, need};
use crate::doctor::{Finding, Weight};

/// Smallest share of all scanning, percent, that must be on one node before reclaim counts as working on that node
/// alone.
const NODE_SCAN_MIN: f64 = 80.0;

/// Returns the full node that is scanned most, and all nodes with much free memory. Returns none if no node is full or
/// no node has much free memory.
pub(super) fn uneven(signs: &Signs) -> Option<(&Node, Vec<&Node>)> {
    let is_free = |node: &&Node| percent(node.free, node.pages) >= FREE_MUCH;
    let (free, full): (Vec<&Node>, Vec<&Node>) = signs.nodes.iter().filter(|node| node.pages > 0.0).partition(is_free);
    let busiest = |a: &&&Node, b: &&&Node| {
        let of = |node: &Node| (node.scanned(), -node.free);
        of(a).partial_cmp(&of(b)).unwrap_or(std::cmp::Ordering::Equal)
    };
    let node = *full.iter().max_by(busiest)?;
    (!free.is_empty()).then_some((node, free))
}

/// Share of a node's memory, percent, below which the node counts as full at one moment. Its page cache does not count as
/// free, because it may be that of the programs that run there.
const FULL_MAX: f64 = 5.0;

/// Returns whether the free memory of several nodes is known at one moment only.
pub fn are_of_a_moment(signs: &Signs) -> bool {
    signs.nodes.len() > 1 && signs.elapsed_s.is_none()
}

/// Finds a node that is full at one moment while others have much free memory. Whether a program suffers from it, one
/// moment does not tell.
pub fn full_node(signs: &Signs) -> Said {
    let is_full = |node: &Node| percent(node.free, node.pages) < FULL_MAX;
    let Some((node, others)) = uneven(signs).filter(|(node, _)| is_full(node)) else { return Ok(None) };
    let share = |node: &Node| format!("node {} {:.0} %", node.name, percent(node.free, node.pages));
    let free: Vec<String> = others.iter().map(|other| share(other)).collect();
    let mode = match signs.settings.get("vm.zone_reclaim_mode").map(String::as_str) {
        Some("0") => "programs that are bound to it (cpuset, mempolicy) have to reclaim or swap",
        Some(_) => "tasks there reclaim before they take memory of another node (vm.zone_reclaim_mode)",
        None => {
            "programs that are bound to it, or all that run there if vm.zone_reclaim_mode is not 0, have to reclaim or swap"
        }
    };
    let sentence = format!(
        "Node {} is full, {:.1} % of it is free, while others have free memory: {}. Where its pages are page cache this is normal; \
         otherwise {mode}.",
        node.name,
        percent(node.free, node.pages),
        free.join(", ")
    );
    let figures = std::iter::once(node)
        .chain(others)
        .map(|node| figure(&format!("free in node {}", node.name), super::mib(node.free), "MiB"));
    let rule = format!("less than {FULL_MAX} % of a node is free at one moment, and at least {FREE_MUCH} % of another");
    let finding = Finding::new(ONE_NODE, sentence, figures.collect(), rule);
    Ok(Some(Finding { weight: Weight::Notice, ..finding }))
}

/// Finds a memory node that is reclaimed while other nodes have free memory.
pub(super) fn one_node(signs: &Signs) -> Said {
    if signs.nodes.len() == 1 {
        return Ok(None);
    }
    if signs.nodes.is_empty() {
        return Err("free memory by node".into());
    }
    let seconds = signs.seconds()?;
    let (by_kswapd, by_tasks) = match signs.nodes.iter().all(|node| node.by_tasks.is_some()) {
        true => {
            let sum = |of: fn(&Node) -> Option<f64>| signs.nodes.iter().filter_map(of).sum::<f64>();
            (sum(|node| node.by_kswapd), sum(|node| node.by_tasks))
        }
        false => (need(signs.kswapd.scanned, "pgscan_kswapd")?, signs.direct.scanned.unwrap_or(0.0)),
    };
    let all = by_kswapd + by_tasks;
    let Some((node, others)) = uneven(signs).filter(|_| all / seconds >= RATE_MIN) else { return Ok(None) };
    let is_known = node.by_tasks.is_some();
    let share = percent(node.scanned(), all);
    if is_known && share < NODE_SCAN_MIN {
        return Ok(None);
    }
    let share_of_tasks = percent(by_tasks, all);
    let is_by_tasks = share_of_tasks >= DIRECT_MIN && by_tasks / seconds >= RATE_MIN;
    let swapped = signs.swapped_out.filter(|pages| pages / seconds >= RATE_MIN);
    let free: f64 = others.iter().map(|other| other.free).sum();
    let names: Vec<&str> = others.iter().map(|other| other.name.as_str()).collect();
    let figures = [
        Some(figure("scanned a second", all / seconds, "pages")),
        Some(figure("by tasks", share_of_tasks, "%")),
        if_known(&format!("in node {}", node.name), is_known.then_some(share), "%"),
        Some(figure(&format!("free in node {}, at least", node.name), node.free, "pages")),
        Some(figure("free in the others, at least", free, "pages")),
        if_known("zone_reclaim", signs.node_reclaims, "times"),
        if_known("pswpout", swapped, "pages"),
    ];
    let who = if is_by_tasks {
        format!("{share_of_tasks:.0} % of what is scanned is scanned by tasks, {:.0} pages a second", all / seconds)
    } else {
        format!("kswapd scans {:.0} pages a second", all / seconds)
    };
    let of_node = if is_known { format!(", {share:.0} % of it in node {}", node.name) } else { String::new() };
    let why = match signs.settings.get("vm.zone_reclaim_mode").map(String::as_str) {
        Some("0") => "vm.zone_reclaim_mode is 0: whoever runs there is bound to it (cpuset, mempolicy).".to_owned(),
        Some(mode) => {
            format!("vm.zone_reclaim_mode is {mode}: tasks reclaim their own node before they take from another.")
        }
        None if is_by_tasks => {
            "Tasks reclaim their own node before they take from another, if vm.zone_reclaim_mode is not 0, or are bound to it."
                .to_owned()
        }
        None => {
            "Memory is taken there first; where pages are bound to it, others' free memory is of no use.".to_owned()
        }
    };
    let sentence = format!(
        "Node {} is reclaimed while memory of others is free ({}): {who}{of_node}. {why}",
        node.name,
        names.join(", ")
    );
    let rule = format!(
        "at least {RATE_MIN} pages a second scanned, {NODE_SCAN_MIN} % of them in a node where that is counted, which has less than \
         {FREE_MUCH} % free, while another never has; an illness where tasks scan {DIRECT_MIN} %, or {RATE_MIN} pages a second are \
         swapped out"
    );
    Ok(Some(Finding {
        weight: if is_by_tasks || swapped.is_some() { Weight::Illness } else { Weight::Notice },
        ..Finding::new(ONE_NODE, sentence, figures.into_iter().flatten().collect(), rule)
    }))
}

/// Returns the load (amount of work) of a span, by which spans are compared: the number of scanned pages, divided by
/// [`RATE_MIN`], s.
pub(super) fn scanned(signs: &Signs) -> f64 {
    let of_nodes: f64 = signs.nodes.iter().map(Node::scanned).sum();
    let of_all = signs.kswapd.scanned.unwrap_or(0.0) + signs.direct.scanned.unwrap_or(0.0);
    of_nodes.max(of_all) / RATE_MIN
}

//! Reports the parts of a machine file that a guest does not have.

use crate::job::Job;
use engine::memory::ZoneLayout;
use guest::zoneinfo::Zone;

/// A difference in size between a guest's zone and the zone of the machine file is reported only if it exceeds 1/`PART`
/// of all pages.
const PART: u64 = 100;

/// Returns a line that lists the parts of a job's machine file that a guest does not have; `None` if it has them all.
/// `zones` are the guest's zones. Costs of operations and the speed of disks are not reported, because only a simulated
/// machine takes them from the file.
pub(super) fn line(job: &Job, zones: &[Zone]) -> Option<String> {
    let machine = &job.machine;
    let before = &machine.before;
    let mut found: Vec<String> = zones_of(job, zones).into_iter().collect();
    let spanned = |zone: &ZoneLayout| zone.spanned_pages > zone.managed_pages;
    if machine.memory.nodes.iter().flat_map(|node| &node.zones).any(spanned) {
        found.push("memory that comes later (`spanned_pages`)".into());
    }
    let mut of_before = vec![];
    for (key, mib) in [("idle_anon_mib", &before.idle_anon_mib), ("file_cache_mib", &before.file_cache_mib)] {
        of_before.extend((mib.value > 0).then_some(key));
    }
    of_before.extend(before.kernel_peak_mib.as_ref().map(|_| "kernel_peak_mib"));
    of_before.extend(before.programs.as_ref().map(|_| "programs"));
    of_before.extend((before.inode_tables_mib.value > 0).then_some("inode_tables_mib"));
    if !of_before.is_empty() {
        found.push(format!("{} of [before]", of_before.join(", ")));
    }
    found.extend(machine.network.as_ref().map(|_| "a network".into()));
    found.extend((machine.disks.len() > 2).then(|| "disks behind the second".into()));
    (!found.is_empty()).then(|| format!("of machine `{}` it lacks {}", machine.name, found.join("; ")))
}

/// Returns a phrase for the message, which lists the zones of the machine file, if the guest's zones `zones` differ
/// from them by more than 1/[`PART`] of all pages; otherwise `None`.
fn zones_of(job: &Job, zones: &[Zone]) -> Option<String> {
    let layout = job.layout();
    let mut wanted: Vec<Zone> = Vec::new();
    for (node, zone) in
        layout.nodes.iter().enumerate().flat_map(|(node, it)| it.zones.iter().map(move |zone| (node, zone)))
    {
        let (node, name, managed) = (node as u8, zone.kind.name().to_owned(), zone.managed_pages);
        wanted.push(Zone { node, name, managed, ..Zone::default() });
    }
    let largest = layout.pages() / PART;
    let pages = |zones: &[Zone], like: &Zone| {
        zones.iter().find(|zone| (zone.node, &zone.name) == (like.node, &like.name)).map_or(0, |zone| zone.managed)
    };
    let differs = |zone: &Zone| pages(&wanted, zone).abs_diff(pages(zones, zone)) > largest;
    wanted.iter().chain(zones).any(differs).then(|| {
        let shown: Vec<String> = wanted.iter().map(|zone| format!("{} {}", zone.called(), zone.managed)).collect();
        format!("its zones ({})", shown.join(", "))
    })
}

//! Describes the results of a recording in words.

use crate::options::Options;
use crate::session::Recorded;
use kit::words::counted;

/// Largest number of lines about unseen activity that are shown. The record has all lines.
const NOT_SEEN_MAX: usize = 8;

/// Returns the text that tells the user the outcome of a recording: what was recorded, where the record is, what was
/// not seen, and what to do next.
#[must_use]
pub fn answer(options: &Options, recorded: &Recorded) -> String {
    let sums = &recorded.sums;
    let mut text = format!(
        "Recorded {} in {:.2} s: {} of {}, {} read, {} written{}.\n\n",
        shortened(&options.target.described()),
        recorded.elapsed.as_secs_f64(),
        counted(sums.requests, "request"),
        counted(recorded.files as u64, "file"),
        bytes(sums.read_bytes),
        bytes(sums.written_bytes),
        if sums.touches > 0 { format!(", {} touched", counted(sums.touches, "mapped page")) } else { String::new() },
    );
    let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<9} {value}\n"));
    line("record", format!("{} ({})", options.output.display(), bytes(recorded.record_bytes)));
    let (kernel, is_all) = recorded.peak_kernel;
    let of = if is_all { "kernel memory" } else { "page tables" };
    line("memory", format!("peak {} resident without files, {} {of}", bytes(recorded.peak_resident), bytes(kernel)));
    if recorded.is_interrupted {
        line("ended", "by an interrupt: the record is complete up to then".to_owned());
    }
    if !recorded.left.is_empty() {
        let processes = recorded.left.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        line(
            "left",
            format!("{} still run, not recorded any more: {processes}", counted(recorded.left.len(), "process")),
        );
    }
    if recorded.files_in_memory > 0 {
        line("note", format!("{} in memory alone (tmpfs)", counted(recorded.files_in_memory, "file")));
    }
    for (number, what) in recorded.not_seen.iter().take(NOT_SEEN_MAX).enumerate() {
        line(if number == 0 { "not seen" } else { "" }, what.clone());
    }
    if recorded.not_seen.len() > NOT_SEEN_MAX {
        line("", format!("and {} more, in the record's metadata", recorded.not_seen.len() - NOT_SEEN_MAX));
    }
    line("next", format!("highwater trace info {}", options.output.display()));
    text
}

fn shortened(command: &str) -> String {
    const MAX: usize = 60;
    let line = command.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Returns a size as text, in the largest unit of which it has at least one.
fn bytes(bytes: u64) -> String {
    let units = [("GB", 30), ("MB", 20), ("kB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / f64::from(1_u32 << shift)),
        None => format!("{bytes} bytes"),
    }
}

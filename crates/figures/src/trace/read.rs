//! Reads a Perfetto trace that this crate has written, and returns its rows as the Perfetto UI shows them. For tests
//! and pictures.

use super::proto::{self, Type};
use prost::Message as _;
use std::collections::BTreeMap;

/// A slice (event with a duration) as the Perfetto UI shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Name of the slice.
    pub name: String,
    /// Start of the slice, ns.
    pub from: u64,
    /// End of the slice, ns.
    pub to: u64,
    /// Number of slices in the row that enclose this slice.
    pub depth: usize,
    /// Values of the figures that the UI shows with the slice, by name.
    pub figures: BTreeMap<String, u64>,
}

impl Shown {
    /// Returns the duration of the slice, ns.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.to - self.from
    }

    /// Returns whether this slice lies within the slice `other`.
    #[must_use]
    pub const fn is_in(&self, other: &Self) -> bool {
        other.from <= self.from && self.to <= other.to
    }
}

/// A row of the Perfetto UI. A track whose slices overlap has several rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the track, such as `CPU 0 locks`; for a run, the run's title.
    pub track: String,
    /// The slices in the row, in the order of their ends.
    pub slices: Vec<Shown>,
}

/// Decodes a trace that [`super::write`] has written. Returns its rows in the order in which they stand in the trace.
///
/// # Errors
/// When the bytes are no such trace. The error describes the fault.
pub fn rows(bytes: &[u8]) -> Result<Vec<Row>, String> {
    let trace = proto::Trace::decode(bytes).map_err(|error| format!("no trace: {error}"))?;
    let (mut names, mut places) = (BTreeMap::new(), BTreeMap::new());
    let (mut rows, mut open): (Vec<Row>, Vec<Vec<Shown>>) = Default::default();
    for packet in trace.packet {
        for word in packet.interned_data.into_iter().flat_map(|data| data.event_names) {
            names.insert(word.iid, word.name.unwrap_or_default());
        }
        if let Some(track) = packet.track_descriptor {
            let process = track.process.and_then(|process| process.process_name);
            let thread = track.thread.and_then(|thread| thread.thread_name);
            places.insert(track.uuid, rows.len());
            let track = track.name.or(process).or(thread).ok_or("a track has no name")?;
            rows.push(Row { track, slices: Vec::new() });
            open.push(Vec::new());
        }
        let Some(event) = packet.track_event else { continue };
        let place = *places.get(&event.track_uuid).ok_or("an event has no track")?;
        let (stack, time) = (&mut open[place], packet.timestamp.ok_or("an event has no time")?);
        match event.r#type() {
            Type::SliceBegin => {
                let figures = event.debug_annotations.into_iter();
                let figures = figures.filter_map(|figure| figure.name.zip(figure.uint_value)).collect();
                let name = names.get(&event.name_iid).cloned().unwrap_or_default();
                stack.push(Shown { name, from: time, to: time, depth: stack.len(), figures });
            }
            Type::SliceEnd => {
                let begun = stack.pop().filter(|begun| begun.from <= time);
                let begun = begun.ok_or_else(|| format!("what ends at {time} ns did not begin before"))?;
                rows[place].slices.push(Shown { to: time, ..begun });
            }
            Type::Instant | Type::Unspecified => {}
        }
    }
    match open.iter().flatten().next() {
        Some(slice) => Err(format!("`{}`, which began at {} ns, does not end", slice.name, slice.from)),
        None => Ok(rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_trace_is_told() {
        assert!(rows(b"not at all").unwrap_err().starts_with("no trace: "));
        assert_eq!(rows(b"").unwrap(), []);
    }
}

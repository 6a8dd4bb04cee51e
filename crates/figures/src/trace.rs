//! Writes traces of simulated runs for the Perfetto UI (ui.perfetto.dev), for the option `--trace`.
//!
//! In the trace, each run is a process, which has these tracks:
//! - for each CPU, the task on it, the periods with interrupts off and the interrupt handlers that ran in them, and the
//!   waits for locks;
//! - for each disk, its requests; for the network card, its packets;
//! - for each task, its passes of reclaim and its waits.
//!
//! The UI shows runs of several kernels and seeds below each other, on one axis of virtual time.

pub mod proto;
pub mod read;

use std::{cmp::Reverse, collections::BTreeMap, io};

use machine::{Nanos, Operation};
use prost::Message as _;
use proto::{
    DebugAnnotation, EventName, InternedData, ProcessDescriptor, ThreadDescriptor, TracePacket, TrackDescriptor,
    TrackEvent, Type,
};
use sim::trace::{Activity, Slice, Trace, TraceConfig};

use crate::waits;

/// Largest number of slices (events with a duration) in a trace file, summed over all runs in the file. So many slices
/// take about 40 MB.
pub const MAX_SLICES: usize = 1_000_000;

/// Shortest period for which a trace shows that a task disabled interrupts. Shorter periods are left out because there
/// are too many: every lock that disables interrupts causes one.
pub const SHORTEST_OFF: Nanos = Nanos(1000);

/// Shortest period with disabled interrupts that a trace records if it is configured by [`Window::of_waits`].
const SHORTEST_WAIT: Nanos = Nanos(200_000);

/// The part of a run that is traced, as a range of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Virtual time at which the traced part begins.
    pub from: Nanos,
    /// Virtual time at which the traced part ends.
    pub to: Nanos,
}

impl Default for Window {
    fn default() -> Self {
        Self { from: Nanos(0), to: Nanos(u64::MAX) }
    }
}

impl Window {
    /// Returns the configuration with which each of `runs` runs traces this part of its virtual time. Each run may
    /// record an equal share of [`MAX_SLICES`], because the traces of all runs go into one file.
    #[must_use]
    pub fn of_each(self, runs: usize) -> TraceConfig {
        let Self { from, to } = self;
        let max_slices = MAX_SLICES / runs.max(1);
        TraceConfig { from, to, max_slices, shortest_off: SHORTEST_OFF, waits_of: None }
    }

    /// Returns the configuration that traces only the activities that delay interrupts on the CPU `cpu`.
    #[must_use]
    pub fn of_waits(self, cpu: usize) -> TraceConfig {
        TraceConfig { max_slices: MAX_SLICES, shortest_off: SHORTEST_WAIT, waits_of: Some(cpu), ..self.of_each(1) }
    }
}

/// The trace of one run, with the title under which the Perfetto UI shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTrace {
    /// Title of the run: the name of its kernel, and its seed if there are several seeds.
    pub title: String,
    /// The recorded trace.
    pub trace: Trace,
}

impl RunTrace {
    /// Returns a warning for the user if the trace was full and slices were left out; otherwise `None`.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let Trace { slices, left_out, full_at, .. } = &self.trace;
        let seconds = (*full_at)?.0 as f64 / 1e9;
        Some(format!(
            "the trace of {} is full at {seconds:.3} s: {} slices are in it, {left_out} that ended later are not; \
             --trace-window, or --window of `explain stall`, picks a shorter time",
            self.title,
            slices.len()
        ))
    }
}

/// Writes the traces of runs as one Perfetto trace file.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write(runs: &[RunTrace], out: &mut dyn io::Write) -> io::Result<()> {
    let mut writer = Writer::new(out);
    runs.iter().try_for_each(|run| writer.run(run))
}

/// A track of a run in the Perfetto UI. Tracks are written in the order of these variants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    Cpu(usize),
    InterruptsOff(usize),
    Locks(usize),
    Disk(u32),
    Packets,
    Task(u32),
}

impl Track {
    fn of(slice: &Slice) -> Self {
        match slice.what {
            Activity::Runs { cpu, .. } => Self::Cpu(cpu),
            Activity::InterruptsOff { cpu, .. } | Activity::Interrupt { cpu, .. } => Self::InterruptsOff(cpu),
            Activity::LockWait { cpu, .. } | Activity::LockHold { cpu, .. } => Self::Locks(cpu),
            Activity::Request { disk, .. } => Self::Disk(disk.0),
            Activity::Packet { .. } => Self::Packets,
            Activity::Function { task, .. } | Activity::Wait { task, .. } | Activity::Queued { task } => {
                Self::Task(task.0)
            }
        }
    }

    /// Returns whether the UI may show slices of this track within each other, so that a slice contains those that
    /// begin and end within it. On the other tracks, slices that overlap are placed in separate rows.
    fn nests(self) -> bool {
        !matches!(self, Self::Disk(_) | Self::Packets)
    }

    /// Returns the name of the track. CPU numbers are padded with zeroes, because the UI sorts tracks by name.
    fn name(self, trace: &Trace) -> String {
        let digits = trace.cpus.saturating_sub(1).to_string().len();
        match self {
            Self::Cpu(cpu) => format!("CPU {cpu:0digits$}"),
            Self::InterruptsOff(cpu) => format!("CPU {cpu:0digits$} interrupts off"),
            Self::Locks(cpu) => format!("CPU {cpu:0digits$} locks"),
            Self::Disk(disk) => disk_name(disk),
            Self::Packets => "packets".into(),
            Self::Task(task) => trace.tasks[task as usize].clone(),
        }
    }
}

/// Returns the name of a disk: `sda` for disk 0, `sdb` for disk 1, and so on.
#[must_use]
pub fn disk_name(disk: u32) -> String {
    match u8::try_from(disk) {
        Ok(disk @ 0..26) => format!("sd{}", char::from(b'a' + disk)),
        _ => format!("disk {disk}"),
    }
}

/// Returns the name of the slice that shows an activity in the Perfetto UI, and the figures that the UI shows for the
/// slice.
fn name(what: &Activity, trace: &Trace) -> (String, Vec<(&'static str, u64)>) {
    match *what {
        Activity::Runs { task, .. } => (trace.tasks[task.0 as usize].clone(), vec![("task", task.0.into())]),
        Activity::Queued { .. } => ("waits for a CPU".into(), vec![]),
        Activity::InterruptsOff { cause, .. } => (cause.into(), vec![]),
        Activity::Interrupt { disk: Some(disk), pages, .. } => (disk_name(disk.0), vec![("pages", pages)]),
        Activity::Interrupt { disk: None, .. } => ("eth0".into(), vec![]),
        Activity::LockWait { class, .. } => (format!("waits for {class}"), vec![]),
        Activity::LockHold { class, .. } => (format!("holds {class}"), vec![]),
        Activity::Function { func, .. } => (func.name().into(), vec![]),
        Activity::Wait { reason, .. } => (format!("waits {}", waits::wait(reason)), vec![]),
        Activity::Request { operation, block, pages, has_failed, .. } => {
            let word = if operation == Operation::Read { "read" } else { "write" };
            let failed = if has_failed { " fails" } else { "" };
            (format!("{word}{failed}"), vec![("block", block), ("pages", pages)])
        }
        Activity::Packet { number } => ("packet".into(), vec![("number", number as u64)]),
    }
}

/// Returns 0 for an activity whose slice may enclose other slices, and 1 for an activity whose slice is enclosed.
/// Slices that begin and end together are sorted by this number, so that the enclosing slice comes first.
fn depth(what: &Activity) -> u8 {
    u8::from(matches!(what, Activity::Interrupt { .. } | Activity::LockHold { .. } | Activity::Wait { .. }))
}

/// Distributes the slices of a track over as few rows as possible. The slices of one row do not overlap; but if `nests`
/// is true, a slice may lie within another slice of its row.
fn rows(mut slices: Vec<&Slice>, nests: bool) -> Vec<Vec<&Slice>> {
    slices.sort_by_key(|slice| (slice.from, Reverse(slice.to), depth(&slice.what)));
    // For each row: its slices, and the ends of those slices that have begun and not ended.
    let mut rows: Vec<(Vec<&Slice>, Vec<Nanos>)> = Vec::new();
    for slice in slices {
        let fits = |(_, open): &mut (Vec<&Slice>, Vec<Nanos>)| {
            while open.last().is_some_and(|end| *end <= slice.from) {
                open.pop();
            }
            open.last().is_none_or(|end| nests && slice.to <= *end)
        };
        let index = rows.iter_mut().position(fits).unwrap_or(rows.len());
        if index == rows.len() {
            rows.push(Default::default());
        }
        rows[index].0.push(slice);
        rows[index].1.push(slice.to);
    }
    rows.into_iter().map(|(slices, _)| slices).collect()
}

/// A writer of the packets of a Perfetto trace. It gives numbers to names, tracks, processes and threads.
struct Writer<'a> {
    out: &'a mut dyn io::Write,
    buffer: Vec<u8>,
    is_begun: bool,
    names: BTreeMap<String, u64>,
    tracks: u64,
    numbers: i32,
}

impl<'a> Writer<'a> {
    fn new(out: &'a mut dyn io::Write) -> Self {
        Self { out, buffer: Vec::new(), is_begun: false, names: BTreeMap::new(), tracks: 0, numbers: 0 }
    }

    fn run(&mut self, traced: &RunTrace) -> io::Result<()> {
        let RunTrace { title, trace } = traced;
        let pid = self.number();
        let process = ProcessDescriptor { pid: Some(pid), process_name: Some(title.clone()) };
        let run = self.track(TrackDescriptor { process: Some(process), ..Default::default() })?;
        let mut tracks: BTreeMap<Track, Vec<&Slice>> = BTreeMap::new();
        for slice in &trace.slices {
            tracks.entry(Track::of(slice)).or_default().push(slice);
        }
        for (track, slices) in tracks {
            for (n, row) in rows(slices, track.nests()).into_iter().enumerate() {
                let name = Some(track.name(trace));
                let descriptor = match track {
                    Track::Task(_) if n == 0 => {
                        let tid = Some(self.number());
                        let thread = ThreadDescriptor { pid: Some(pid), tid, thread_name: name };
                        TrackDescriptor { thread: Some(thread), ..Default::default() }
                    }
                    _ => TrackDescriptor { name, parent_uuid: Some(run), ..Default::default() },
                };
                let uuid = self.track(descriptor)?;
                self.row(uuid, &row, trace)?;
            }
        }
        if let (Some(warning), Some(full_at)) = (traced.warning(), trace.full_at) {
            let name = Some("left out".to_owned());
            let uuid = self.track(TrackDescriptor { name, parent_uuid: Some(run), ..Default::default() })?;
            self.event(Type::Instant, uuid, full_at, Some(&warning), &[])?;
        }
        Ok(())
    }

    /// Writes the slices of one row as events on the track `track`. The slices must be in order of their beginnings,
    /// each before the slices that it encloses.
    fn row(&mut self, track: u64, slices: &[&Slice], trace: &Trace) -> io::Result<()> {
        let mut open: Vec<Nanos> = Vec::new();
        for slice in slices {
            while let Some(end) = open.pop_if(|end| *end <= slice.from) {
                self.event(Type::SliceEnd, track, end, None, &[])?;
            }
            let (name, figures) = name(&slice.what, trace);
            self.event(Type::SliceBegin, track, slice.from, Some(&name), &figures)?;
            open.push(slice.to);
            if let Activity::Request { done, .. } = slice.what
                && done < slice.to
            {
                self.event(Type::SliceBegin, track, done.max(slice.from), Some("done, waits for its CPU"), &[])?;
                open.push(slice.to);
            }
        }
        while let Some(end) = open.pop() {
            self.event(Type::SliceEnd, track, end, None, &[])?;
        }
        Ok(())
    }

    fn number(&mut self) -> i32 {
        self.numbers += 1;
        self.numbers
    }

    /// Writes a packet that declares a track. Returns the number that the track gets.
    fn track(&mut self, descriptor: TrackDescriptor) -> io::Result<u64> {
        self.tracks += 1;
        let descriptor = TrackDescriptor { uuid: Some(self.tracks), ..descriptor };
        self.packet(TracePacket { track_descriptor: Some(descriptor), ..Default::default() })?;
        Ok(self.tracks)
    }

    fn event(
        &mut self,
        kind: Type,
        track: u64,
        time: Nanos,
        name: Option<&str>,
        figures: &[(&str, u64)],
    ) -> io::Result<()> {
        let mut interned_data = None;
        let name_iid = name.map(|name| {
            self.names.get(name).copied().unwrap_or_else(|| {
                let iid = self.names.len() as u64 + 1;
                self.names.insert(name.to_owned(), iid);
                let event_names = vec![EventName { iid: Some(iid), name: Some(name.to_owned()) }];
                interned_data = Some(InternedData { event_names });
                iid
            })
        });
        let figure =
            |(name, value): &(&str, u64)| DebugAnnotation { uint_value: Some(*value), name: Some((*name).to_owned()) };
        let track_event = TrackEvent {
            debug_annotations: figures.iter().map(figure).collect(),
            r#type: Some(kind.into()),
            name_iid,
            track_uuid: Some(track),
        };
        self.packet(TracePacket {
            timestamp: Some(time.0),
            track_event: Some(track_event),
            interned_data,
            ..Default::default()
        })
    }

    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        let flags = if std::mem::replace(&mut self.is_begun, true) { proto::NEEDS_STATE } else { proto::STATE_CLEARED };
        let packet = TracePacket { trusted_packet_sequence_id: Some(1), sequence_flags: Some(flags), ..packet };
        self.buffer.clear();
        proto::Trace { packet: vec![packet] }.encode(&mut self.buffer)?;
        self.out.write_all(&self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{DeviceId, Func};
    use sim::TaskId;

    fn slice(from: u64, to: u64, what: Activity) -> Slice {
        Slice { from: Nanos(from), to: Nanos(to), what }
    }

    /// Decodes a trace, and returns it as lines of text: for each track its name, followed by its events.
    fn told(bytes: &[u8]) -> Vec<String> {
        let trace = proto::Trace::decode(bytes).expect("a trace");
        let (mut names, mut lines) = (BTreeMap::new(), Vec::new());
        for packet in trace.packet {
            let words = packet.interned_data.into_iter().flat_map(|data| data.event_names);
            names.extend(words.map(|word| (word.iid, word.name.unwrap_or_default())));
            if let Some(track) = packet.track_descriptor {
                let process = track.process.and_then(|process| process.process_name);
                let thread = track.thread.and_then(|thread| thread.thread_name);
                lines.push(process.or(thread).or(track.name).expect("it has a name"));
            }
            if let Some(event) = packet.track_event {
                let name = names.get(&event.name_iid).cloned().unwrap_or_default();
                let kind = format!("{:?}", event.r#type());
                lines.push(format!("  {} {kind} {name}", packet.timestamp.expect("a time")).trim_end().to_owned());
            }
        }
        lines
    }

    fn written(trace: Trace) -> Vec<String> {
        let mut bytes = Vec::new();
        write(&[RunTrace { title: "a seed 1".into(), trace }], &mut bytes).expect("a Vec takes everything");
        told(&bytes)
    }

    #[test]
    fn slices_lie_within_each_other_or_beside() {
        let disk = DeviceId(0);
        let request = |block, done| Activity::Request {
            disk,
            operation: Operation::Write,
            block,
            pages: 1,
            done: Nanos(done),
            has_failed: false,
        };
        let trace = Trace {
            slices: vec![
                slice(5, 9, Activity::Interrupt { cpu: 0, disk: Some(disk), pages: 2 }),
                slice(5, 9, Activity::InterruptsOff { cpu: 0, cause: "interrupt" }),
                slice(9, 9, Activity::InterruptsOff { cpu: 0, cause: "zone" }),
                slice(1, 8, request(7, 6)),
                slice(2, 9, request(8, 9)),
                slice(3, 4, Activity::Function { task: TaskId(0), func: Func::BalancePgdat }),
            ],
            tasks: vec!["kswapd0".into()],
            cpus: 1,
            ..Trace::default()
        };
        let expected = "a seed 1
CPU 0 interrupts off
  5 SliceBegin interrupt
  5 SliceBegin sda
  9 SliceEnd
  9 SliceEnd
  9 SliceBegin zone
  9 SliceEnd
sda
  1 SliceBegin write
  6 SliceBegin done, waits for its CPU
  8 SliceEnd
  8 SliceEnd
sda
  2 SliceBegin write
  9 SliceEnd
kswapd0
  3 SliceBegin balance_pgdat
  4 SliceEnd";
        assert_eq!(written(trace).join("\n"), expected);
    }

    #[test]
    fn a_full_trace_says_so() {
        let trace = Trace { left_out: 12, full_at: Some(Nanos(2_500_000_000)), ..Trace::default() };
        let lines = written(trace);
        assert_eq!(lines[1], "left out");
        assert!(lines[2].contains("Instant") && lines[2].contains("full at 2.500 s"), "{lines:?}");
    }
}

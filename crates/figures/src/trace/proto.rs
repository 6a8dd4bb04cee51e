//! The protobuf messages of a Perfetto trace, as far as this crate writes them. Their fields have the numbers and the
//! meanings that `protos/perfetto/trace/perfetto_trace.proto` gives them. Perfetto never changes these numbers and
//! meanings.

use prost::{Enumeration, Message};

/// The message of which a trace file consists. Several trace files, one after the other, are again a trace file.
#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    /// The trace's packets, in any order.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// A packet of a trace. It declares a track, or is an event on a track.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// Time of the event on a track, ns.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// Number of the sequence that contains the packet.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// The event on a track, if the packet holds one.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// Strings to which this packet and later packets in the sequence refer by number.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// Flags of the packet: [`STATE_CLEARED`] or [`NEEDS_STATE`].
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// The declaration of a track, if the packet holds one.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

/// Flag of a packet: with this packet, the numbering of strings begins anew.
pub const STATE_CLEARED: u32 = 1;
/// Flag of a packet: the packet refers to strings by number, so it needs the earlier packets of its sequence.
pub const NEEDS_STATE: u32 = 2;

/// The declaration of a track, which is a row (or several) in the Perfetto UI.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// Number by which events refer to the track.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// Name of the track, unless the track is a process or a thread.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// The process that the track represents, if it represents one.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// The thread that the track represents, if it represents one.
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    /// Number of the parent track.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
}

/// The descriptor of a process of a Perfetto trace. Each simulated run is written as one process.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    /// Number of the process.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Name of the process.
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
}

/// The descriptor of a thread of a Perfetto trace. Each simulated task is written as one thread.
#[derive(Clone, PartialEq, Message)]
pub struct ThreadDescriptor {
    /// Number of the thread's process.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Number of the thread, unique among threads and processes.
    #[prost(int32, optional, tag = "2")]
    pub tid: Option<i32>,
    /// Name of the thread.
    #[prost(string, optional, tag = "5")]
    pub thread_name: Option<String>,
}

/// An event on a track: the start or the end of a slice, or an event without a duration.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// Figures that the UI shows with the event.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// Kind of the event, as the number of a [`Type`].
    #[prost(enumeration = "Type", optional, tag = "9")]
    pub r#type: Option<i32>,
    /// Number of the event's name in [`InternedData`].
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// Number of the event's track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
}

/// The kind of an event on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Type {
    /// The event has no kind.
    Unspecified = 0,
    /// A slice begins.
    SliceBegin = 1,
    /// The slice that began last on the track, and has not ended yet, ends.
    SliceEnd = 2,
    /// An event without a duration.
    Instant = 3,
}

/// A figure, with its name, that the UI shows with an event.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// Value of the figure.
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    /// Name of the figure.
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
}

/// Strings, each with a number by which later packets refer to it.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    /// The names of events that this packet declares, each with its number.
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<EventName>,
}

/// The name of one or more events, with the number by which the events refer to it.
#[derive(Clone, PartialEq, Message)]
pub struct EventName {
    /// The number of the name, from 1.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The name, as the trace viewer shows it for the events.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

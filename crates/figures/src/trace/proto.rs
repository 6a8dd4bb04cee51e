//! The messages of a Perfetto trace that are written here. Numbers and meaning are those of
//! `protos/perfetto/trace/perfetto_trace.proto`, which never change.

use prost::{Enumeration, Message};

/// A file. Concatenated messages of this type are one message.
#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    /// The trace's packets, in any order.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// A packet of a sequence: a track, or an event on one.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// Time, ns.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// The sequence that contains it.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// An event.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// Strings that this packet and later ones of the sequence refer to by number.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// [`STATE_CLEARED`] or [`NEEDS_STATE`].
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// A track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

/// Flag: numbered strings begin with this packet.
pub const STATE_CLEARED: u32 = 1;
/// Flag: the packet refers to numbered strings.
pub const NEEDS_STATE: u32 = 2;

/// A row of the UI.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// The track's number in events.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// The track's name, unless it is a process or a thread.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// The process that it represents.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// The thread that it represents.
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    /// The parent track.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
}

/// A process; a run here.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    /// The process's number.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// The process's name.
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
}

/// A thread; a simulated task here.
#[derive(Clone, PartialEq, Message)]
pub struct ThreadDescriptor {
    /// The thread's process.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// The thread's number, unique among threads and processes.
    #[prost(int32, optional, tag = "2")]
    pub tid: Option<i32>,
    /// The thread's name.
    #[prost(string, optional, tag = "5")]
    pub thread_name: Option<String>,
}

/// The start or the end of a slice.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// Figures that the UI shows with it.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// The kind of event.
    #[prost(enumeration = "Type", optional, tag = "9")]
    pub r#type: Option<i32>,
    /// The number of its name.
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// The event's track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Type {
    /// None.
    Unspecified = 0,
    /// A slice begins.
    SliceBegin = 1,
    /// The last slice that began on the track ends.
    SliceEnd = 2,
    /// Something happens.
    Instant = 3,
}

/// A figure with a name.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// The figure's value.
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    /// The figure's name.
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
}

/// Numbered strings.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    /// Names of events.
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<EventName>,
}

/// A name of events.
#[derive(Clone, PartialEq, Message)]
pub struct EventName {
    /// The number of the name, from 1.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

//! The positions of the fields in a trace event, from the event's file `format` in tracefs.

use std::collections::HashMap;

/// The kinds of kernel events that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A read looks up pages in the page cache.
    Read,
    /// A fault on a mapped file, for a page that fault-around did not map.
    Fault,
    /// Fault-around: pages near a fault are mapped.
    Around,
    /// A write to a file.
    Write,
    /// A buffer of a block device is used, for example metadata of a file system.
    Block,
    /// A file is synced (`fsync`).
    Sync,
    /// A file was deleted.
    Delete,
    /// A task starts another task.
    Fork,
    /// A task begins to run another program.
    Exec,
    /// A task ends.
    Exit,
}

/// The tracepoints that are recorded: the kind of event, the group and name of the tracepoint, and its fields. Several
/// tracepoints may report one kind. Some kernels lack some tracepoints, and some tracepoints exist only for one file
/// system.
pub const EVENTS: [(What, &str, &[&str]); 11] = [
    (What::Read, "filemap/mm_filemap_get_pages", &["s_dev", "i_ino", "index", "last_index"]),
    (What::Fault, "filemap/mm_filemap_fault", &["s_dev", "i_ino", "index"]),
    (What::Around, "filemap/mm_filemap_map_pages", &["s_dev", "i_ino", "index", "last_index"]),
    (What::Write, "ext4/ext4_da_write_begin", &["dev", "ino", "pos", "len"]),
    (What::Write, "ext4/ext4_write_begin", &["dev", "ino", "pos", "len"]),
    (What::Block, "block/block_touch_buffer", &["dev", "sector", "size"]),
    (What::Sync, "ext4/ext4_sync_file_enter", &["dev", "ino"]),
    (What::Delete, "ext4/ext4_free_inode", &["dev", "ino"]),
    (What::Fork, "task/task_newtask", &["pid", "clone_flags"]),
    (What::Exec, "sched/sched_process_exec", &["filename"]),
    (What::Exit, "sched/sched_process_exit", &["pid"]),
];

/// Largest number of fields that are read from one event.
pub const FIELDS_MAX: usize = 4;

/// The place of a field within the bytes of an event: the offset of the field's first byte, and the field's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FieldPlace {
    at: usize,
    bytes: usize,
}

/// The layout of a trace event: where its fields lie in a record of the kernel's trace buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The kind of the event.
    pub what: What,
    places: [FieldPlace; FIELDS_MAX],
    task: FieldPlace,
}

/// The layout of each kind of event that is recorded, by the ID that the kernel gave to the event's tracepoint.
pub type Layouts = HashMap<u16, Layout>;

impl Layout {
    /// Returns an event's ID and the layout of its records, read from `format`, the text of the event's file of this
    /// name. Returns `None` if the ID or a field is missing, or a field has an unexpected size.
    #[must_use]
    pub fn of_format(what: What, fields: &[&str], format: &str) -> Option<(u16, Self)> {
        let number = format.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok())?;
        let mut places = [FieldPlace::default(); FIELDS_MAX];
        for (place, field) in places.iter_mut().zip(fields) {
            *place = place_of(format, field)?;
        }
        Some((number, Self { what, places, task: place_of(format, "common_pid")? }))
    }

    /// Returns the values of an event's fields, and the number of the task that caused the event. A field that lies
    /// beyond the end of the event has the value 0.
    #[must_use]
    pub fn values(&self, event: &[u8]) -> ([u64; FIELDS_MAX], u32) {
        let of = |place: &FieldPlace| {
            let mut bytes = [0; 8];
            if let Some(found) = event.get(place.at..place.at + place.bytes) {
                bytes[..place.bytes].copy_from_slice(found);
            }
            u64::from_le_bytes(bytes)
        };
        (self.places.each_ref().map(of), of(&self.task) as u32)
    }

    /// Returns the text of the event's first field, a string of variable length (`__data_loc`). The field itself holds
    /// the offset and the length of the text within the event.
    #[must_use]
    pub fn text<'a>(&self, event: &'a [u8]) -> &'a [u8] {
        let place = self.values(event).0[0];
        let (at, bytes) = ((place & 0xffff) as usize, (place >> 16 & 0xffff) as usize);
        let text = event.get(at..at + bytes).unwrap_or_default();
        text.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// Returns the place of the field `name`; `None` if `format` has no line for this field. Such a line has the form
/// `field:dev_t s_dev; offset:16; size:4; signed:0;`.
fn place_of(format: &str, name: &str) -> Option<FieldPlace> {
    format.lines().find_map(|line| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        let declared = parts.next()?;
        let own = declared.rsplit([' ', '*']).next()?;
        if own.split('[').next()? != name {
            return None;
        }
        let mut number = |what: &str| parts.next()?.strip_prefix(what)?.parse::<usize>().ok();
        let place = FieldPlace { at: number("offset:")?, bytes: number("size:")? };
        (place.bytes <= 8).then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "\
name: mm_filemap_fault
ID: 597
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned long i_ino;\toffset:8;\tsize:8;\tsigned:0;
\tfield:dev_t s_dev;\toffset:16;\tsize:4;\tsigned:0;
\tfield:unsigned long index;\toffset:24;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] name;\toffset:32;\tsize:4;\tsigned:0;
";

    #[test]
    fn fields_are_found_by_name() {
        let (number, layout) = Layout::of_format(What::Fault, &["s_dev", "i_ino", "index"], FORMAT).unwrap();
        assert_eq!(number, 597);
        let mut event = [0; 42];
        (event[4], event[8], event[16], event[24]) = (9, 1, 2, 3);
        assert_eq!(layout.values(&event), ([2, 1, 3, 0], 9));
        assert_eq!(layout.values(&event[..20]), ([2, 1, 0, 0], 9));
        assert_eq!(Layout::of_format(What::Fault, &["missing"], FORMAT), None);
        let (_, layout) = Layout::of_format(What::Exec, &["name"], FORMAT).unwrap();
        (event[32], event[34]) = (36, 6);
        event[36..].copy_from_slice(b"a/b\0cd");
        assert_eq!(layout.text(&event), b"a/b");
        event[34] = 200;
        assert_eq!(layout.text(&event), b"");
    }
}

//! Tables of separated values (CSV). The separator is a comma, a semicolon or a tab. A heading names the columns, or
//! else the user does.

use super::text::{SECOND, lossy, micros, number};
use super::{Format, Opened, keys, twitter, vscsi};
use crate::operation::Operation;
use crate::read::{Columns, Options, Parser, Role, Shape, Sink, Start};
use crate::request::{Flags, Kind, Request};

/// The format `csv`: comma-separated values.
pub static FORMAT: Format =
    Format { name: "csv", about: "comma-separated values, columns by name or `--columns`", recognise, open };

/// Columns that are recognised without `--columns`. Each entry has the role of such columns, their unit (ns for a time,
/// otherwise bytes), and their names in lower case.
const KNOWN: [(Role, u64, &[&str]); 11] = [
    (Role::Time, SECOND, &["time", "timestamp", "ts", "time_s", "timestamp_s", "seconds", "sec"]),
    (Role::Time, 1_000_000, &["time_ms", "timestamp_ms", "ts_ms", "ms"]),
    (Role::Time, 1000, &["time_us", "timestamp_us", "ts_us", "us"]),
    (Role::Time, 1, &["time_ns", "timestamp_ns", "ts_ns", "ns"]),
    (Role::Operation, 1, &["op", "operation", "opcode", "type", "io_type", "rw", "rwbs", "cmd"]),
    (Role::Offset, 1, &["offset", "off", "byte_offset", "offset_bytes", "address", "addr"]),
    (Role::Offset, 512, &["lbn", "lba", "sector", "block", "blkno"]),
    (Role::Size, 1, &["size", "len", "length", "bytes", "nbytes", "size_bytes", "obj_size"]),
    (Role::Size, 512, &["blocks", "sectors", "nsectors", "nblocks", "n_blocks"]),
    (Role::File, 1, &["file", "filename", "path", "device", "device_id", "dev", "disk", "volume"]),
    (Role::Task, 1, &["pid", "tid", "task", "process"]),
];
/// Names of columns, in lower case, that are known to hold the keys of objects.
const KEYS: [&str; 7] = ["key", "id", "obj_id", "object", "object_id", "obj", "url"];

/// For each role, the index of the field with this role in a line, and the unit of the field; `None` if no field has
/// the role.
#[derive(Clone, Copy, Debug, Default)]
struct Places([Option<(usize, u64)>; 7]);

impl Places {
    const fn get(self, role: Role) -> Option<(usize, u64)> {
        self.0[role as usize]
    }

    fn set(&mut self, role: Role, at: usize, unit: u64) {
        self.0[role as usize].get_or_insert((at, unit));
    }

    /// Finds the column of each role by the column names in `fields`, the heading of the file.
    fn by_heading(fields: &Fields) -> Self {
        let mut places = Self::default();
        for (at, name) in fields.iter().enumerate() {
            let name = String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase();
            let known = KNOWN.iter().find(|(_, _, names)| names.contains(&name.as_str()));
            if let Some((role, unit, _)) = known {
                places.set(*role, at, *unit);
            } else if KEYS.contains(&name.as_str()) {
                places.set(Role::Key, at, 1);
            }
        }
        places
    }

    /// Finds the columns that a user names. A name is looked up in `heading`, the fields of the first line; a number
    /// counts columns from 1.
    fn by_user(columns: &Columns, heading: &Fields) -> Result<Self, String> {
        let mut places = Self::default();
        for column in &columns.0 {
            // A number is never a name: without a heading, the first line's fields are numbers themselves.
            let by_name =
                || heading.iter().position(|name| name.trim_ascii().eq_ignore_ascii_case(column.name.as_bytes()));
            let by_number = number(column.name.as_bytes()).filter(|number| (1..=1000).contains(number));
            let at = by_number.map(|number| number as usize - 1).or_else(by_name).ok_or_else(|| {
                let names: Vec<_> = heading.iter().map(lossy).collect();
                format!("there is no column `{}`: the first line has {}", column.name, names.join(", "))
            })?;
            let unit = match &column.unit {
                Some(unit) => unit_of(column.role, unit)?,
                None => default_unit(column.role, &column.name),
            };
            places.set(column.role, at, unit);
        }
        Ok(places)
    }

    fn kind(self) -> Result<Kind, String> {
        match (self.get(Role::Offset), self.get(Role::Key)) {
            (Some(_), _) => Ok(Kind::Ranges),
            (None, Some(_)) => Ok(Kind::Objects),
            (None, None) => {
                Err("no column has offsets or keys: name one, such as `--columns offset=3:512,size=4`".to_owned())
            }
        }
    }
}

/// Reads the unit that the user gave for a column with the role `role`: a unit of time as a number of ns, or a number
/// of bytes.
fn unit_of(role: Role, unit: &str) -> Result<u64, String> {
    let found = match (role, unit) {
        (Role::Time, "s") => Some(SECOND),
        (Role::Time, "ms") => Some(1_000_000),
        (Role::Time, "us") => Some(1000),
        (Role::Time, "ns") => Some(1),
        (Role::Time, "filetime") => Some(100),
        (Role::Offset | Role::Size, _) => number(unit.as_bytes()).filter(|unit| (1..=1 << 30).contains(unit)),
        _ => None,
    };
    found.ok_or_else(|| match role {
        Role::Time => format!("`{unit}` is no unit of time: expected s, ms, us, ns or filetime"),
        Role::Offset | Role::Size => format!("`{unit}` is no unit: expected a number of bytes"),
        _ => format!("`{unit}`: this role has no unit"),
    })
}

/// Returns the unit of a column for which the user gave no unit. If the role has known column names and `name` is one
/// of them, returns the unit of this name. Otherwise returns a second for times, and 1 for other roles.
fn default_unit(role: Role, name: &str) -> u64 {
    let name = name.to_ascii_lowercase();
    let known = KNOWN.iter().find(|(known, _, names)| *known == role && names.contains(&name.as_str()));
    known.map_or(if role == Role::Time { SECOND } else { 1 }, |(_, unit, _)| *unit)
}

/// The fields into which a line was split, as one text and the end of each field in it.
#[derive(Debug, Default)]
pub(super) struct Fields {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Fields {
    /// Largest number of fields of a line that are kept.
    const MOST: usize = 1000;

    /// Splits a line at separators and keeps its fields. A separator between quotation marks does not split the line.
    pub(super) fn split(&mut self, line: &[u8], separator: u8) {
        self.text.clear();
        self.ends.clear();
        if memchr::memchr(b'"', line).is_none() {
            for field in line.split(|byte| *byte == separator).take(Self::MOST) {
                self.text.extend_from_slice(field);
                self.ends.push(self.text.len());
            }
            return;
        }
        let mut reader = csv_core::ReaderBuilder::new().delimiter(separator).build();
        let (mut text, mut ends) = (vec![0; line.len() + 1], vec![0; Self::MOST]);
        let (_, _, written, count) = reader.read_record(line, &mut text, &mut ends);
        // The end of the line ends the last field.
        let (_, _, _, more) = reader.read_record(&[], &mut text[written..], &mut ends[count..]);
        self.ends.extend_from_slice(&ends[..count + more]);
        text.truncate(self.ends.last().copied().unwrap_or(0));
        self.text = text;
    }

    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends.get(at)?;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        self.text.get(start..end)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).filter_map(|at| self.get(at))
    }

    pub(super) const fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Returns the separator of a line: the one that splits it most often.
fn separator_of(line: &[u8]) -> u8 {
    let count = |separator: u8| line.iter().filter(|byte| **byte == separator).count();
    [b',', b';', b'\t'].into_iter().rev().max_by_key(|separator| count(*separator)).unwrap_or(b',')
}

fn recognise(start: Start<'_>) -> bool {
    let Some(first) = start.lines().next() else { return false };
    let mut fields = Fields::default();
    fields.split(first, separator_of(first));
    start.is_text() && fields.len() > 1 && Places::by_heading(&fields).kind().is_ok()
}

fn open(start: Start<'_>, options: &Options) -> Result<Opened, String> {
    let first = start.lines().next().unwrap_or_default();
    let separator = separator_of(first);
    let mut fields = Fields::default();
    fields.split(first, separator);
    let places = if options.columns.0.is_empty() {
        Places::by_heading(&fields)
    } else {
        Places::by_user(&options.columns, &fields)?
    };
    let kind = places.kind()?;
    // A heading has a text where the first request has a number. Columns that are named need a heading; keys alone,
    // named by the number of their column, show none.
    let numeric = places.get(Role::Offset).or(places.get(Role::Time)).or(places.get(Role::Size));
    let is_text = |at: usize| fields.get(at).is_some_and(|field| micros(field.trim_ascii(), SECOND).is_none());
    let by_names = options.columns.0.iter().any(|column| number(column.name.as_bytes()).is_none());
    let has_heading = options.columns.0.is_empty() || by_names || numeric.is_some_and(|(at, _)| is_text(at));
    Ok((Shape::Lines, kind, Box::new(Csv { separator, places, is_heading: has_heading, fields })))
}

struct Csv {
    separator: u8,
    places: Places,
    /// `true` if the next line is the heading.
    is_heading: bool,
    fields: Fields,
}

impl Parser for Csv {
    fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), String> {
        if line.trim_ascii().is_empty() || std::mem::take(&mut self.is_heading) {
            return Ok(());
        }
        self.fields.split(line, self.separator);
        let (fields, places) = (&self.fields, self.places);
        let field = |role: Role| -> Result<Option<(&[u8], u64)>, String> {
            let Some((at, unit)) = places.get(role) else { return Ok(None) };
            let field = fields.get(at).ok_or_else(|| format!("expected {} columns or more", at + 1))?;
            Ok(Some((field.trim_ascii(), unit)))
        };
        let in_bytes = |role: Role| -> Result<Option<(u64, u64)>, String> {
            let Some((text, unit)) = field(role)? else { return Ok(None) };
            let value = number(text).and_then(|value| value.checked_mul(unit));
            Ok(Some((value.ok_or_else(|| format!("`{}`: expected a number", lossy(text)))?, unit)))
        };
        let mut request = Request::default();
        if let Some((text, unit)) = field(Role::Time)? {
            request.time_us = micros(text, unit).ok_or_else(|| format!("`{}`: expected a time", lossy(text)))?;
        }
        if let Some((text, _)) = field(Role::Operation)? {
            (request.operation, request.flags) = operation_of(text)?;
        }
        let unit = match in_bytes(Role::Offset)? {
            Some((offset, unit)) => {
                request.offset = offset;
                unit
            }
            None => {
                let key = field(Role::Key)?.map_or(&b""[..], |(text, _)| text);
                request.offset = keys::key_of(key);
                1
            }
        };
        request.len = in_bytes(Role::Size)?.map_or(unit, |(size, _)| size);
        if let Some((text, _)) = field(Role::Task)? {
            request.task = sink.tasks.intern(text);
        }
        if sink.kind() == Kind::Ranges {
            request.file = sink.files.intern(field(Role::File)?.map_or(&b"disk"[..], |(text, _)| text));
        }
        sink.push(request)
    }
}

/// Returns the operation and the flags that a field states. The field may be a word, the letters of the kernel's block
/// layer (such as `WS`), a SCSI command in hexadecimal, or 0 for a read and 1 for a write.
pub(super) fn operation_of(text: &[u8]) -> Result<(Operation, Flags), String> {
    let lower = text.to_ascii_lowercase();
    let plain = |operation| Ok((operation, Flags::NONE));
    match lower.as_slice() {
        b"r" | b"read" | b"reads" | b"rd" | b"0" => return plain(Operation::Read),
        b"w" | b"write" | b"writes" | b"wr" | b"1" => return plain(Operation::Write),
        b"d" | b"discard" | b"trim" => return plain(Operation::Punch),
        b"flush" | b"sync" | b"fsync" | b"f" => return plain(Operation::Sync),
        b"open" => return plain(Operation::Open),
        b"close" => return plain(Operation::Close),
        b"truncate" => return plain(Operation::Truncate),
        b"delete" | b"unlink" => return plain(Operation::Delete),
        _ => {}
    }
    if let Some(operation) = twitter::operation_of(&lower) {
        return plain(operation);
    }
    let is_hex = lower.len() == 2 || lower.starts_with(b"0x");
    if let Some(operation) = super::text::hex(&lower).filter(|_| is_hex).and_then(|code| vscsi::operation_of(code).ok())
    {
        return plain(operation);
    }
    super::blkparse::operation_of(text)
        .ok_or_else(|| format!("`{}`: expected an operation, such as read or W", lossy(text)))
}

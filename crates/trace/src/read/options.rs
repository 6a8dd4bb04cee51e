//! [`Options`]: what a user says of an input.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// What a user states about an input that its contents do not show: its format, its columns, the sizes of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Name of the format; none: recognised by the first bytes.
    pub from: Option<String>,
    /// Columns of a csv file; empty: known by their names in the first line.
    pub columns: Columns,
    /// Sizes of files, bytes, by their names in the source, for formats that name ranges past the end of a file: see
    /// [`formats`](crate::formats), `ftrace`, whose names are `major:minor inode` with the inode in hexadecimal.
    pub file_bytes: BTreeMap<String, u64>,
}

/// Meaning of a column of a csv file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Time of the request.
    Time,
    /// The operation.
    Operation,
    /// First byte or block of the range.
    Offset,
    /// Length of the range, or size of the object.
    Size,
    /// Name of the file or device.
    File,
    /// Name or number of the task.
    Task,
    /// Key of the object.
    Key,
}

impl Role {
    /// All roles, with their names on command lines.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Time, "time"),
        (Self::Operation, "op"),
        (Self::Offset, "offset"),
        (Self::Size, "size"),
        (Self::File, "file"),
        (Self::Task, "task"),
        (Self::Key, "key"),
    ];
}

/// A column that a user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// What the column holds.
    pub role: Role,
    /// The column's name in the first line, or its number from 1.
    pub name: String,
    /// Unit: of a time `s`, `ms`, `us`, `ns`, or `filetime` (100 ns); of an offset or a size the number of bytes. `None`:
    /// by the column's name.
    pub unit: Option<String>,
}

/// Columns that a user names: `time=ts:ms,op=type,offset=lba:512,size=bytes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns(pub Vec<Column>);

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut columns = Vec::<Column>::new();
        for part in text.split(',') {
            let (role, rest) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}`: expected role=column, such as `time=ts` or `offset=3:512`"))?;
            let names = Role::ALL.map(|(_, name)| name).join(", ");
            let found = Role::ALL.into_iter().find(|(_, name)| *name == role.trim());
            let (role, _) = found.ok_or_else(|| format!("`{role}` is no role of a column: expected one of {names}"))?;
            let (name, unit) = match rest.rsplit_once(':') {
                Some((name, unit)) => (name, Some(unit.trim().to_owned())),
                None => (rest, None),
            };
            if name.trim().is_empty() {
                return Err(format!("`{part}`: expected a column's name or number after `=`"));
            }
            if columns.iter().any(|column| column.role == role) {
                return Err(format!("`{part}`: this role has a column already"));
            }
            columns.push(Column { role, name: name.trim().to_owned(), unit });
        }
        Ok(Self(columns))
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, Column { role, name, unit }) in self.0.iter().enumerate() {
            let role_name = Role::ALL.iter().find(|(one, _)| one == role).map_or("", |(_, name)| name);
            write!(f, "{}{role_name}={name}", if n == 0 { "" } else { "," })?;
            unit.as_ref().map_or(Ok(()), |unit| write!(f, ":{unit}"))?;
        }
        Ok(())
    }
}

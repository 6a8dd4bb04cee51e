//! [`Options`]: the facts that a user states about an input, such as its format.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Facts about an input that the user states because the input's contents do not show them: format, columns, sizes of
/// files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Name of the format. If there is none, the format is recognised by the first bytes of the input.
    pub from: Option<String>,
    /// The meanings of the columns of a csv file. If none are given, the first line of the file must name the columns.
    pub columns: Columns,
    /// Sizes of files in bytes, by the names of the files in the input. They are needed for ftrace, whose reads may go
    /// past the end of a file. A trace of ftrace names a file `major:minor inode`, with the inode in hexadecimal.
    pub file_bytes: BTreeMap<String, u64>,
}

/// Meaning of a column of a csv file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Time of the request.
    Time,
    /// Operation of the request, such as a read.
    Operation,
    /// First byte or block of the range of the request.
    Offset,
    /// Length of the range, or size of the object.
    Size,
    /// Name of the file or device that the request addresses.
    File,
    /// Name or number of the task that made the request.
    Task,
    /// Key of the object that the request addresses.
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

/// A column of a csv file, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The meaning of the column.
    pub role: Role,
    /// The column's name in the first line, or its number from 1.
    pub name: String,
    /// Unit of the column's values. The unit of a time is `s`, `ms`, `us`, `ns` or `filetime` (100 ns); the unit of an
    /// offset or a size is a number of bytes. `None` if the column's name decides the unit.
    pub unit: Option<String>,
}

/// The columns of a csv file, as a user names them: `time=ts:ms,op=type,offset=lba:512,size=bytes`.
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

//! [`GroupError`]: the reason why a call on a group failed.

use std::fmt;

/// The reason why a call on a [`Group`](crate::Group) failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// The memory already has as many groups as [`Builder::groups`](crate::Builder::groups) allows. A removed group
    /// counts as long as pages are charged to it.
    NoRoom {
        /// The largest number of groups that the memory can have.
        room: u16,
    },
    /// A name of a group is empty or contains a `/`.
    Name,
    /// The group was removed, or is being removed.
    Removed,
    /// The group has children, so it cannot be removed.
    HasChildren,
    /// The group belongs to another [`Memory`](crate::Memory).
    OtherMemory,
    /// The file to be opened in a group is already open in another group, or in no group.
    OtherGroup,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom { room: 0 } => f.write_str("the memory was started without room for groups (`groups`)"),
            Self::NoRoom { room } => write!(f, "the memory has room for {room} groups (`groups`), and has as many"),
            Self::Name => f.write_str("a name must not be empty, and must not contain `/`"),
            Self::Removed => f.write_str("it was removed"),
            Self::HasChildren => f.write_str("it has children: remove them first"),
            Self::OtherMemory => f.write_str("it belongs to another memory"),
            Self::OtherGroup => f.write_str("the file is already open here, but not in this group"),
        }
    }
}

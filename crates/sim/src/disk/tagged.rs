//! Deserialization of tables with a tag: `model` of a disk, `name` of an elevator.
//!
//! Such a table is read as a stream with the tag first, and is not buffered as serde does for its own tagged enums. So
//! a reader that knows places can report the place of a wrong key. In machine files the order of keys means nothing, so
//! `lab` moves the tag to the front.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Error, MapAccess};

/// Returns the value of `tag`, which must be the first key of a table. The other keys remain in `map`.
pub(super) fn tag<'de, T: Deserialize<'de>, A: MapAccess<'de>>(map: &mut A, tag: &'static str) -> Result<T, A::Error> {
    match map.next_key::<String>()? {
        Some(key) if key == tag => map.next_value(),
        Some(key) => Err(A::Error::custom(format_args!("`{tag}` must come before `{key}`"))),
        None => Err(A::Error::missing_field(tag)),
    }
}

/// Returns the rest of a table, after its tag was read.
pub(super) fn rest<'de, T: Deserialize<'de>, A: MapAccess<'de>>(map: A) -> Result<T, A::Error> {
    T::deserialize(MapAccessDeserializer::new(map))
}

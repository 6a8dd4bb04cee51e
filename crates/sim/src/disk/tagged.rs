//! Deserialization of tables with a tag: `model` of a disk, `name` of an elevator.
//!
//! The tag must be the first key of its table, so that the table can be read as a stream. serde buffers a table for its
//! own tagged enums; without a buffer, a reader that knows line numbers can report the line of a wrong key. In machine
//! files keys may have any order, so the crate `catalogue` moves the tag to the front.

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

/// Reads the keys of a table that follow its tag, the key by which its type was determined.
pub(super) fn rest<'de, T: Deserialize<'de>, A: MapAccess<'de>>(map: A) -> Result<T, A::Error> {
    T::deserialize(MapAccessDeserializer::new(map))
}

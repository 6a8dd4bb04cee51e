//! Deserializes a table and checks its values. An error of the check has the place of the
//! table, or of what the beginning of the error names in it.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// Deserializes a table as a `T` and converts the `T` with `check`. If `check` returns an error, the message names the
/// line of what the beginning of the error names in the table, or else the line at which the table begins.
///
/// # Errors
/// When the value is no table, is no `T`, or `check` returns an error.
pub(super) fn within<'de, D: Deserializer<'de>, T: Deserialize<'de>, U>(
    deserializer: D,
    expected: &'static str,
    check: impl FnOnce(T) -> Result<U, String>,
) -> Result<U, D::Error> {
    deserializer.deserialize_map(Within { expected, check, read: PhantomData })
}

struct Within<T, F> {
    expected: &'static str,
    check: F,
    read: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>, U, F: FnOnce(T) -> Result<U, String>> Visitor<'de> for Within<T, F> {
    type Value = U;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<U, A::Error> {
        let read = T::deserialize(MapAccessDeserializer::new(map))?;
        (self.check)(read).map_err(A::Error::custom)
    }
}

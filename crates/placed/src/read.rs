//! Makes typed values from [`Node`]s, with serde.

use serde::de::{
    self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor,
    value::{MapDeserializer, SeqDeserializer},
};

use crate::{
    error::Error,
    node::{Entry, Node, Value},
};

impl Node {
    /// Reads the value of this node as a `T`.
    ///
    /// # Errors
    /// When a key is unknown or missing, or a value has the wrong type or is out of range.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        T::deserialize(self).map_err(|error| error.place_if_none(&self.place))
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let result = match &self.value {
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(value) => visitor.visit_bool(*value),
            Value::List(nodes) => {
                let mut left = SeqDeserializer::new(nodes.iter());
                visitor.visit_seq(&mut left).and_then(|value| left.end().map(|()| value))
            }
            Value::Table(entries) => {
                visitor.visit_map(MapDeserializer::new(entries.iter().map(|entry| (Key(entry), &entry.node))))
            }
        };
        result.map_err(|error| error.place_if_none(&self.place))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let result = match &self.value {
            Value::Text(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            Value::Table(entries) if entries.len() == 1 => visitor.visit_enum(de::value::MapAccessDeserializer::new(
                MapDeserializer::new(entries.iter().map(|entry| (Key(entry), &entry.node))),
            )),
            other => {
                let known = variants.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
                Err(de::Error::custom(format!("expected one of {known}, found {other}")))
            }
        };
        result.map_err(|error: Error| error.place_if_none(&self.place))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Error> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// A key of a table, as serde reads it. If serde does not know the key, the error states the place of the key.
struct Key<'n>(&'n Entry);

impl<'de> IntoDeserializer<'de, Error> for Key<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(&self.0.key).map_err(|error: Error| error.place_if_none(&self.0.place))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let name: de::value::StrDeserializer<'_, Error> = self.0.key.as_str().into_deserializer();
        visitor.visit_enum(name).map_err(|error: Error| error.place_if_none(&self.0.place))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Disk {
        name: String,
        seek_ns: u64,
        #[serde(default)]
        channels: Option<u8>,
    }

    fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
        Node::parse("m.toml", text).and_then(|node| node.read()).map_err(|error| error.to_string())
    }

    #[derive(Debug, Deserialize)]
    struct Machine {
        disk: Vec<Disk>,
    }

    #[test]
    fn a_typed_value_comes_out_of_its_text() {
        let machine: Machine = read("[[disk]]\nname = \"sda\"\nseek_ns = 6_000\n").unwrap();
        assert_eq!(machine.disk, [Disk { name: "sda".into(), seek_ns: 6000, channels: None }]);
    }

    #[test]
    fn an_unknown_key_is_named_with_line_and_nearest_key() {
        let error = read::<Machine>("[[disk]]\nname = \"sda\"\nseek_nss = 6\n").unwrap_err();
        assert_eq!(error, "m.toml:3: unknown key `seek_nss`: did you mean `seek_ns`?");
    }

    #[test]
    fn a_missing_key_is_told_at_its_table() {
        let error = read::<Machine>("\n[[disk]]\nname = \"sda\"\n").unwrap_err();
        assert_eq!(error, "m.toml:2: key `seek_ns` is missing");
    }

    #[test]
    fn wrong_types_and_ranges_are_told_in_plain_words() {
        let wrong = |line: &str| {
            let at = format!("[[disk]]\nname = \"sda\"\n{line}\n");
            read::<Machine>(&at).unwrap_err()
        };
        assert_eq!(wrong("seek_ns = \"fast\""), "m.toml:3: expected a whole number, 0 or more, found \"fast\"");
        assert_eq!(wrong("seek_ns = -1"), "m.toml:3: expected a whole number, 0 or more, found -1");
        assert_eq!(wrong("seek_ns = 1\nchannels = 300"), "m.toml:4: expected a whole number from 0 to 255, found 300");
    }
}

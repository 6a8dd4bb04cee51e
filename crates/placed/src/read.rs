//! Makes typed values from [`Node`]s, with serde.
//!
//! Each type asks for a value of its kind, and each kind has a method of its own here. So for a struct only the code
//! that reads tables is compiled, and not also the code that reads a list: this saves two fifths of what is compiled.

use std::slice;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Unexpected, Visitor,
    value::{MapAccessDeserializer, SeqDeserializer},
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

    /// Returns the error for a value that is not of the kind that a type expects.
    fn wrong(&self, expected: &dyn de::Expected) -> Error {
        let found = match &self.value {
            Value::Text(text) => Unexpected::Str(text),
            Value::Integer(number) => Unexpected::Signed(*number),
            Value::Float(number) => Unexpected::Float(*number),
            Value::Boolean(value) => Unexpected::Bool(*value),
            Value::List(_) => Unexpected::Seq,
            Value::Table(_) => Unexpected::Map,
        };
        de::Error::invalid_type(found, expected)
    }

    fn read_text<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Text(text) => visitor.visit_borrowed_str(text),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn read_boolean<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Boolean(value) => visitor.visit_bool(*value),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn read_integer<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Integer(number) => visitor.visit_i64(*number),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn read_number<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn read_list<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::List(nodes) => {
                let mut left = SeqDeserializer::new(nodes.iter());
                visitor.visit_seq(&mut left).and_then(|value| left.end().map(|()| value))
            }
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn read_table<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Table(entries) => visitor.visit_map(Entries::new(entries)),
            _ => Err(self.wrong(&visitor)),
        }
    }
}

/// Generates methods of a [`Deserializer`] that all read a value by the method `$by`.
macro_rules! read_by {
    ($by:ident: $($method:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.$by(visitor).map_err(|error| error.place_within(self))
        }
    )* };
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Text(_) => self.deserialize_str(visitor),
            Value::Integer(_) => self.deserialize_i64(visitor),
            Value::Float(_) => self.deserialize_f64(visitor),
            Value::Boolean(_) => self.deserialize_bool(visitor),
            Value::List(_) => self.deserialize_seq(visitor),
            Value::Table(_) => self.deserialize_map(visitor),
        }
    }

    read_by!(read_text: deserialize_str deserialize_string);
    read_by!(read_boolean: deserialize_bool);
    read_by!(read_integer: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64);
    read_by!(read_integer: deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64);
    read_by!(read_number: deserialize_f32 deserialize_f64);
    read_by!(read_list: deserialize_seq);
    read_by!(read_table: deserialize_map);

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
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
            Value::Table(entries) if entries.len() == 1 => {
                visitor.visit_enum(MapAccessDeserializer::new(Entries::new(entries)))
            }
            other => {
                let known = variants.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
                Err(de::Error::custom(format!("expected one of {known}, found {other}")))
            }
        };
        result.map_err(|error: Error| error.place_if_none(&self.place))
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple_struct identifier ignored_any
    }
}

/// The entries of a table, as serde reads them.
struct Entries<'n> {
    left: slice::Iter<'n, Entry>,
    /// The value of the key that was read last.
    value: Option<&'n Node>,
}

impl<'n> Entries<'n> {
    fn new(entries: &'n [Entry]) -> Self {
        Self { left: entries.iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let entry = self.left.next();
        self.value = entry.map(|entry| &entry.node);
        entry.map(|entry| seed.deserialize(Key(entry))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.value.take().expect("the key was read before"))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
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

    /// A check across several values names the one at fault.
    #[test]
    fn a_message_leads_to_the_line_of_what_it_is_about() {
        let text = "seconds = 3\n[task.a]\nsteps = [\n  { read = 1 },\n  { read = 2 },\n]\n";
        let node = Node::parse("m.toml", text).unwrap();
        let line = |message: &str| node.place_of(message).line;
        assert_eq!(line("task `a`, `steps`, step 2: no file is called `b`"), 5);
        assert_eq!(line("task `a`, `steps`, step 3: no file is called `b`"), 3);
        assert_eq!(line("task `a`: it has no operations"), 2);
        assert_eq!(line("`seconds`: too many"), 1);
        let whole = node.place.line;
        for message in ["task `c`: no", "no task: `a`", "task, 1, 2: three", "", "task `a", ": ", "task `: `"] {
            assert_eq!(line(message), whole, "{message}");
        }
    }

    #[test]
    fn wrong_types_and_ranges_are_told_in_plain_words() {
        let wrong = |line: &str| {
            let at = format!("[[disk]]\nname = \"sda\"\n{line}\n");
            read::<Machine>(&at).unwrap_err()
        };
        assert_eq!(wrong("seek_ns = \"fast\""), "m.toml:3: expected a whole number, 0 or more, found \"fast\"");
        assert_eq!(wrong("seek_ns = -1"), "m.toml:3: expected a whole number, 0 or more, found -1");
        assert_eq!(wrong("seek_ns = []"), "m.toml:3: expected a whole number, 0 or more, found a list");
        assert_eq!(
            read::<Machine>("disk = [[\"sda\", 6000, 4]]\n").unwrap_err(),
            "m.toml:1: expected a table, found a list",
            "values have no order"
        );
        assert_eq!(wrong("seek_ns = 1\nchannels = 300"), "m.toml:4: expected a whole number from 0 to 255, found 300");
    }
}

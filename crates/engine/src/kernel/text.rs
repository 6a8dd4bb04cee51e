//! TOML text in which every value knows its place, and typed values read from it.
//!
//! Kernel, machine and experiment files all come through here: a [`Node`] keeps file, line and
//! trailing comment of each value; [`Node::over`] lays one tree over another; [`Node::read`] makes a
//! typed value with serde. Whatever is wrong, [`Error`] says where, what was expected, and which
//! known name comes nearest. Nothing here touches a file system: text comes in, values go out.

use std::{fmt, sync::Arc};

use serde::de::{
    self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor,
    value::{MapDeserializer, SeqDeserializer},
};
use toml::de::{DeTable, DeValue};

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as the user would name it; `lru.batch=14` and the like for what comes from elsewhere.
    pub file: Arc<str>,
    /// The line, from 1; 0 where there are no lines.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Where, if that is known.
    pub place: Option<Place>,
    /// What is wrong, in lower case and with the values, hint included.
    pub message: String,
}

impl Error {
    /// An error at a place.
    #[must_use]
    pub fn at(place: &Place, message: impl Into<String>) -> Self {
        Self { place: Some(place.clone()), message: message.into() }
    }

    fn place_if_none(mut self, place: &Place) -> Self {
        self.place.get_or_insert_with(|| place.clone());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.message),
            None => write!(f, "{}", self.message),
        }
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { place: None, message: message.to_string() }
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::custom(format!("expected {}, found {}", plainly(expected), name_of(&found)))
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::custom(format!("expected {}, found {}", plainly(expected), name_of(&found)))
    }

    fn invalid_length(found: usize, expected: &dyn de::Expected) -> Self {
        // serde says "an array of length 2", "a tuple of size 2", or "2 elements in sequence".
        let words = expected.to_string();
        match words.split(' ').find_map(|word| word.parse::<usize>().ok()) {
            Some(count) => Self::custom(format!("expected a list of {}, found {found}", values(count))),
            None => Self::custom(format!("expected {}, found a list of {}", plainly(expected), values(found))),
        }
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format!("unknown value `{found}`{}", one_of(found, expected)))
    }

    fn unknown_field(found: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format!("unknown key `{found}`{}", one_of(found, expected)))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format!("key `{field}` is missing"))
    }
}

fn values(count: usize) -> String {
    format!("{count} {}", if count == 1 { "value" } else { "values" })
}

/// serde's words for Rust's types, in the words of who writes a file.
fn plainly(expected: &dyn de::Expected) -> String {
    let words = expected.to_string();
    let range = |low: i128, high: i128| format!("a whole number from {low} to {high}");
    match words.as_str() {
        "u8" => range(0, u8::MAX.into()),
        "u16" => range(0, u16::MAX.into()),
        "u32" => range(0, u32::MAX.into()),
        "u64" | "u128" | "usize" => "a whole number, 0 or more".into(),
        "i8" => range(i8::MIN.into(), i8::MAX.into()),
        "i16" => range(i16::MIN.into(), i16::MAX.into()),
        "i32" => range(i32::MIN.into(), i32::MAX.into()),
        "i64" | "i128" | "isize" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" => "text in quotes".into(),
        "a map" => "a table".into(),
        "a sequence" => "a list".into(),
        words if words.starts_with("enum ") => "one of a choice's names in quotes".into(),
        words if words.starts_with("struct ") => "a table".into(),
        _ => words,
    }
}

fn name_of(found: &de::Unexpected<'_>) -> String {
    match found {
        de::Unexpected::Bool(value) => format!("{value}"),
        de::Unexpected::Unsigned(value) => format!("{value}"),
        de::Unexpected::Signed(value) => format!("{value}"),
        de::Unexpected::Float(value) => format!("{value:?}"),
        de::Unexpected::Str(value) => format!("\"{value}\""),
        de::Unexpected::Map => "a table".into(),
        de::Unexpected::Seq => "a list".into(),
        other => other.to_string(),
    }
}

/// The known name that is nearest to `found`, if one is near enough to be a slip of the hand.
#[must_use]
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace(['_', '.', ' '], "-");
    let wanted = plain(found);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &plain(name)), name))
        .filter(|(distance, name)| {
            let is_near = *distance <= 1 + wanted.chars().count().min(name.chars().count()) / 3;
            let is_part = wanted.len() >= 3 && plain(name).contains(&wanted);
            let is_word = |word: &str| strsim::damerau_levenshtein(&wanted, word) <= 1;
            is_near || is_part || (wanted.len() >= 5 && plain(name).split('-').any(is_word))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The end of a message about an unknown name: "`: did you mean …?`", or all names if none is near.
#[must_use]
pub fn one_of(found: &str, known: &[&str]) -> String {
    match (nearest(found, known.iter().copied()), known) {
        (Some(name), _) => format!(": did you mean `{name}`?"),
        (None, []) => String::new(),
        (None, [only]) => format!(": only `{only}` is known"),
        (None, names) => {
            format!(": known are {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A value with its place. Two nodes are equal when their values are.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it stands.
    pub place: Place,
    /// The comment that ends its line: what the value is taken from.
    pub comment: Option<String>,
    /// The value.
    pub value: Value,
}

/// What a [`Node`] holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// A list.
    List(Vec<Node>),
    /// Keys and their values in the order of the file.
    Table(Vec<Entry>),
}

/// One key of a table. Two entries are equal when their keys and values are.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub place: Place,
    /// Its value.
    pub node: Node,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.node == other.node
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{}", toml::Value::String(text.clone())),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number:?}"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::List(nodes) => {
                write!(f, "[")?;
                for (i, node) in nodes.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "" } else { ", " }, node.value)?;
                }
                write!(f, "]")
            }
            Self::Table(entries) => {
                write!(f, "{{")?;
                for (i, entry) in entries.iter().enumerate() {
                    write!(f, "{} {} = {}", if i == 0 { "" } else { "," }, entry.key, entry.node.value)?;
                }
                write!(f, " }}")
            }
        }
    }
}

/// Turns byte offsets of one text into places and comments.
struct Lines<'t> {
    file: Arc<str>,
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(file: &str, text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        Self { file: file.into(), text, starts }
    }

    fn place(&self, offset: usize) -> Place {
        Place { file: self.file.clone(), line: self.starts.partition_point(|start| *start <= offset) }
    }

    /// The comment after a value that ends at `offset`, if it ends the line.
    fn comment(&self, offset: usize) -> Option<String> {
        let rest = self.text.get(offset..)?.lines().next()?.trim_start_matches([' ', '\t', ',']);
        let comment = rest.strip_prefix('#')?.trim();
        (!comment.is_empty()).then(|| comment.to_owned())
    }
}

impl Node {
    /// Reads a whole file's text; `file` is what messages call it.
    ///
    /// # Errors
    /// When the text is not TOML, or holds a date or a number of more than 63 bits.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let lines = Lines::new(file, text);
        let table = DeTable::parse(text).map_err(|error| {
            let place = lines.place(error.span().map_or(0, |span| span.start));
            Error::at(&place, format!("not TOML: {}", error.message().replace('\n', ", ")))
        })?;
        let place = lines.place(table.span().start);
        Ok(Self { place, comment: None, value: Self::of_table(&lines, table.get_ref())? })
    }

    fn of_table(lines: &Lines<'_>, table: &DeTable<'_>) -> Result<Value, Error> {
        let entry = |(key, value): (&toml::Spanned<_>, _)| -> Result<Entry, Error> {
            let key: &toml::Spanned<toml::de::DeString<'_>> = key;
            let place = lines.place(key.span().start);
            Ok(Entry { key: key.get_ref().to_string(), place, node: Self::of_value(lines, value)? })
        };
        Ok(Value::Table(table.iter().map(entry).collect::<Result<_, _>>()?))
    }

    fn of_value(lines: &Lines<'_>, value: &toml::Spanned<DeValue<'_>>) -> Result<Self, Error> {
        let place = lines.place(value.span().start);
        let wrong = |what: &str| Error::at(&place, what);
        let comment = lines.comment(value.span().end);
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => Value::Integer(
                i64::from_str_radix(number.as_str(), number.radix())
                    .map_err(|_| wrong("the number is too large: at most 9223372036854775807"))?,
            ),
            DeValue::Float(number) => Value::Float(number.as_str().parse().map_err(|_| wrong("expected a number"))?),
            DeValue::Boolean(value) => Value::Boolean(*value),
            DeValue::Datetime(_) => return Err(wrong("a date is not expected anywhere: put it in quotes")),
            DeValue::Array(values) => {
                Value::List(values.iter().map(|value| Self::of_value(lines, value)).collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => Self::of_table(lines, table)?,
        };
        Ok(Self { place, comment, value })
    }

    /// A node of a value that stands in no file.
    #[must_use]
    pub fn new(origin: &str, value: Value) -> Self {
        Self { place: Place { file: origin.into(), line: 0 }, comment: None, value }
    }

    /// The entries, if this is a table; otherwise none.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The value under `key` of a table.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The first of a list; anything else itself.
    #[must_use]
    pub fn first(&self) -> &Self {
        match &self.value {
            Value::List(nodes) => nodes.first().unwrap_or(self),
            _ => self,
        }
    }

    /// Takes the value under `key` out of a table.
    pub fn take(&mut self, key: &str) -> Option<Self> {
        let Value::Table(entries) = &mut self.value else { return None };
        let found = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(found).node)
    }

    /// Text, if this is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Lays `self` over `base`: tables key by key, anything else as a whole.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        let Self { place, comment, value } = self;
        match (value, base.value) {
            (Value::Table(own), Value::Table(mut entries)) => {
                for entry in own {
                    match entries.iter_mut().find(|below| below.key == entry.key) {
                        Some(below) => {
                            let node = std::mem::replace(&mut below.node, Self::new("", Value::Boolean(false)));
                            *below = Entry { node: entry.node.over(node), ..entry };
                        }
                        None => entries.push(entry),
                    }
                }
                Self { place, comment, value: Value::Table(entries) }
            }
            (value, _) => Self { place, comment, value },
        }
    }

    /// Makes a typed value.
    ///
    /// # Errors
    /// When a key is unknown or missing, or a value of the wrong type or out of its range.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        T::deserialize(self).map_err(|error| error.place_if_none(&self.place))
    }

    /// All keys known, or the first that is not.
    ///
    /// # Errors
    /// When a key of this table is not among `known`.
    pub fn only(&self, known: &[&str]) -> Result<(), Error> {
        match self.entries().iter().find(|entry| !known.contains(&entry.key.as_str())) {
            Some(entry) => {
                let what = if matches!(entry.node.value, Value::Table(_)) { "section" } else { "key" };
                Err(Error::at(&entry.place, format!("unknown {what} `{}`{}", entry.key, one_of(&entry.key, known))))
            }
            None => Ok(()),
        }
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

/// A key that knows its place, for messages about unknown keys.
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
    use super::*;
    use serde::Deserialize;

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

    #[test]
    fn what_is_not_toml_is_told_with_its_line() {
        assert!(read::<Machine>("a = 1\nb = = 2\n").unwrap_err().starts_with("m.toml:2: not TOML: "));
        assert!(read::<Machine>("a = 1\na = 2\n").unwrap_err().starts_with("m.toml:2: not TOML: "));
        assert_eq!(read::<Machine>("a = 1979-05-27\n").unwrap_err().split(':').nth(1), Some("1"));
        assert!(read::<Machine>("a = 99999999999999999999\n").unwrap_err().contains("too large"));
    }

    #[test]
    fn a_comment_after_a_value_is_its_source() {
        let node = Node::parse("f", "a = 1 # spec 18\nb = [1,\n 2] # two\nc = \"# no\"\nd = 2 #\n").unwrap();
        let comment = |key: &str| node.get(key).unwrap().comment.as_deref();
        assert_eq!(
            [comment("a"), comment("b"), comment("c"), comment("d")],
            [Some("spec 18"), Some("two"), None, None]
        );
    }

    #[test]
    fn a_text_over_another_keeps_what_it_does_not_name() {
        let base = Node::parse("base", "[a]\nx = 1\ny = 2\n").unwrap();
        let top = Node::parse("top", "[a]\ny = 3\n[b]\nz = 4\n").unwrap().over(base);
        let a = top.get("a").unwrap();
        assert_eq!(
            (a.get("x").unwrap().place.to_string(), &a.get("y").unwrap().value),
            ("base:2".into(), &Value::Integer(3))
        );
        assert_eq!(a.get("y").unwrap().place.to_string(), "top:2");
        assert!(top.get("b").is_some());
    }

    #[test]
    fn only_near_names_are_suggested() {
        let known = ["zone_balance", "min_scan_priority", "swappiness"];
        assert_eq!(nearest("zone_balence", known), Some("zone_balance"));
        assert_eq!(nearest("Zone-Balance", known), Some("zone_balance"));
        assert_eq!(nearest("scan_priority", known), Some("min_scan_priority"));
        assert_eq!(nearest("priorty", known), Some("min_scan_priority"));
        assert_eq!(nearest("colour", known), None);
    }
}

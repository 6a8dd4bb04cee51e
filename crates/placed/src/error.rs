//! Errors in a TOML text, each with its place in a file. Errors of serde are turned into words for the user who wrote
//! the file.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize, de};

use crate::{name::one_of, node::Node};

/// The place of a value in a TOML text: its file and line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Place {
    /// The name of the file. For a value that comes from no file, the name of its origin, such as the argument
    /// `lru.batch=14`.
    pub file: Arc<str>,
    /// The number of the line, from 1; 0 if the origin has no lines.
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

/// If a message quotes a name or a value, it shows at most this number of characters.
const QUOTED_MAX: usize = 200;

/// An error in a TOML text, with its place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file and line of the value that the error is about; none if unknown.
    pub place: Option<Place>,
    /// The message, in lower case. It names the wrong values and may end with a hint.
    pub message: String,
}

impl Error {
    /// Creates an error with a place.
    #[must_use]
    pub fn at(place: &Place, message: impl Into<String>) -> Self {
        Self { place: Some(place.clone()), message: message.into() }
    }

    /// Sets the place, if there is none yet, to that of the value in `node` that the message names.
    pub(crate) fn place_within(self, node: &Node) -> Self {
        let place = node.place_of(&self.message).clone();
        self.place_if_none(&place)
    }

    pub(crate) fn place_if_none(mut self, place: &Place) -> Self {
        self.place.get_or_insert_with(|| place.clone());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        // A part between backquotes may come from the file, and may then be as long as the file.
        for (n, part) in self.message.split('`').enumerate() {
            f.write_str(if n == 0 { "" } else { "`" })?;
            match part.char_indices().nth(QUOTED_MAX) {
                Some(_) if n % 2 == 0 => f.write_str(part)?,
                Some((end, _)) => write!(f, "{}… ({} bytes)", &part[..end], part.len())?,
                None => f.write_str(part)?,
            }
        }
        Ok(())
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
        // The number of values is looked for among all words, because serde writes "an array of length 2", "a tuple of
        // size 2" or "2 elements in sequence".
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

/// Describes what serde expected, in plain words for a user who wrote the file and does not know Rust's types.
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

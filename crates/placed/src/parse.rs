//! Parses a TOML text into values ([`Node`]) with their places.

use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use crate::{
    error::{Error, Place},
    node::{Entry, Node, Value},
};

/// A text and the byte offsets at which its lines start. The offsets serve to find the line of a value, and the comment
/// on this line.
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

    /// Returns the comment that follows a value on the same line. The value ends at byte `offset`. Between the value
    /// and the comment there may be only commas and blanks; otherwise returns `None`.
    fn comment(&self, offset: usize) -> Option<String> {
        let rest = self.text.get(offset..)?.lines().next()?.trim_start_matches([' ', '\t', ',']);
        let comment = rest.strip_prefix('#')?.trim();
        (!comment.is_empty()).then(|| comment.to_owned())
    }
}

impl Node {
    /// Parses the whole text of a file. `file` is the name of the file in messages.
    ///
    /// # Errors
    /// When the text is not TOML, or contains a date or a number of more than 63 bits.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let lines = Lines::new(file, text);
        let table = DeTable::parse(text).map_err(|error| {
            let place = lines.place(error.span().map_or(0, |span| span.start));
            // The parser says where the second key is, and not which key it is.
            let key = error.span().filter(|_| error.message() == "duplicate key").and_then(|span| text.get(span));
            let key = key.map_or_else(String::new, |key| format!(" `{key}`"));
            Error::at(&place, format!("not TOML: {}{key}", error.message().replace('\n', ", ")))
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        Node::parse("m.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_toml_is_told_with_its_line() {
        assert!(wrong("a = 1\nb = = 2\n").starts_with("m.toml:2: not TOML: "));
        assert_eq!(wrong("a = 1\na = 2\n"), "m.toml:2: not TOML: duplicate key `a`");
        assert_eq!(wrong("a = 1979-05-27\n").split(':').nth(1), Some("1"));
        assert!(wrong("a = 99999999999999999999\n").contains("too large"));
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
}

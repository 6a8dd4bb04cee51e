//! [`Node`]: a TOML value with its place in a file. Tables and lists of nodes form a tree.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Place},
    name::one_of,
};

/// A TOML value with its place in a file. Two nodes are equal if their values are equal, wherever they come from. A node
/// can be sent to another process with serde, together with the places of its values.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Node {
    /// The file and the line of the value.
    pub place: Place,
    /// The comment at the end of the value's line, which names the source of the value.
    pub comment: Option<String>,
    /// The TOML value.
    pub value: Value,
}

/// The TOML value that a [`Node`] holds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Value {
    /// A TOML string.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a decimal point or an exponent.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// A list.
    List(Vec<Node>),
    /// Keys and their values in the order of the file.
    Table(Vec<Entry>),
}

/// A key of a table, with its place and its value. Two entries are equal if both their keys and their values are equal.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Entry {
    /// The name of the key, without the keys of the tables around it.
    pub key: String,
    /// The place (file and line) where the key stands.
    pub place: Place,
    /// The value of the key.
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

impl Node {
    /// Creates a node for a value that comes from no file. `origin` names the origin of the value, and is shown in
    /// place of the file's name.
    #[must_use]
    pub fn new(origin: &str, value: Value) -> Self {
        Self { place: Place { file: origin.into(), line: 0 }, comment: None, value }
    }

    /// Returns the entries of a table; for any other value, an empty slice.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the value of the key `key`; `None` if this is no table or has no such key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// Returns the place of the node that a message about this table is about. The beginning of the message says where
    /// the node is, as in "task `reader`, `steps`, step 2: no file is called `tabel`". If a part is
    /// not found, returns the place of the last node that was found.
    pub(crate) fn place_of(&self, message: &str) -> &Place {
        let mut at = self;
        let where_to = message.split_once(": ").map_or("", |(head, _)| head);
        for part in where_to.split(", ") {
            let (word, name) = part.split_once(' ').unwrap_or(("", part));
            let found = match (&at.value, name.parse::<usize>()) {
                (Value::List(nodes), Ok(number)) => number.checked_sub(1).and_then(|n| nodes.get(n)),
                _ => {
                    let of_word = if word.is_empty() { Some(at) } else { at.get(word) };
                    of_word.and_then(|node| node.get(name.strip_prefix('`')?.strip_suffix('`')?))
                }
            };
            let Some(found) = found else { break };
            at = found;
        }
        &at.place
    }

    /// Returns the first element if the node is a list with elements; otherwise returns the node itself.
    #[must_use]
    pub fn first(&self) -> &Self {
        match &self.value {
            Value::List(nodes) => nodes.first().unwrap_or(self),
            _ => self,
        }
    }

    /// Returns the value of the key `key`, for changes; `None` if this is no table or has no such key.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        match &mut self.value {
            Value::Table(entries) => entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node),
            _ => None,
        }
    }

    /// Removes the key `key` from a table, and returns its value; `None` if this is no table or has no such key.
    pub fn take(&mut self, key: &str) -> Option<Self> {
        let Value::Table(entries) = &mut self.value else { return None };
        let found = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(found).node)
    }

    /// Returns the text, if the value is a text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Merges `self` into `base`, and returns the result. Tables are merged key by key. If both have a value for a key,
    /// the value of `self` replaces that of `base`.
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

    /// Checks that all keys of this table are known. The error names the first unknown key.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}

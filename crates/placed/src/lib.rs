//! A TOML reader in which each value knows its place (file and line), so that errors can name it.
//!
//! Kernel, machine and experiment files are all read by this crate. A [`Node`] is a value of a tree, with its file, its
//! line and the comment at the end of the line. [`Node::over`] merges two trees. [`Node::read`] makes a typed value
//! with serde. An [`Error`] names the place, the expected value, and the nearest known name. This crate opens no files:
//! it takes text and returns values.
//!
//! The crate `toml` parses the text. It gives each value's position only as a number of bytes in one text, but a tree
//! of values may come from several files. Therefore each [`Node`] keeps its line together with the name of its file.
//!
//! ```
//! use placed::Node;
//!
//! let base = Node::parse("base.toml", "[cpu]\ncount = 8 # data sheet\n")?;
//! let mine = Node::parse("mine.toml", "[cpu]\nmhz = \"fast\"\n")?.over(base);
//! let cpu = mine.get("cpu").expect("both have it");
//! let count = cpu.get("count").expect("the base has it");
//! assert_eq!((count.place.to_string().as_str(), count.comment.as_deref()), ("base.toml:2", Some("data sheet")));
//! let wrong = cpu.get("mhz").expect("mine has it").read::<u32>().unwrap_err();
//! assert_eq!(wrong.to_string(), "mine.toml:2: expected a whole number from 0 to 4294967295, found \"fast\"");
//! # Ok::<(), placed::Error>(())
//! ```

mod error;
mod name;
mod node;
mod parse;
mod read;

pub use error::{Error, Place};
pub use name::{nearest, one_of};
pub use node::{Entry, Node, Value};

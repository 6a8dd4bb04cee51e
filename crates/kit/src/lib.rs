//! Small parts that every room (crate) of the laboratory may use, and that depend on no other room.
//!
//! - [`input`] opens files that users name; [`draft`] writes files that appear complete or not at all; [`in_use`]
//!   tracks which files are read and written.
//! - [`wrong`] describes a fault in a file.
//! - [`interrupt`] notes that the user wants to stop; [`panics`] keeps the text of a panic; [`progress`] holds the
//!   progress of a run.
//! - [`shown`] makes foreign text harmless to a terminal; [`words`] puts numbers into sentences.
//! - [`contents`] makes bytes that can be verified; [`scratch`] writes files for tests.

pub mod contents;
pub mod draft;
pub mod in_use;
pub mod input;
pub mod interrupt;
pub mod panics;
pub mod progress;
pub mod scratch;
pub mod shown;
pub mod words;
pub mod wrong;

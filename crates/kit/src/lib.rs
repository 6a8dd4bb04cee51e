//! Small parts that every room of the laboratory may use and that depend on none of them.
//!
//! - [`input`] opens files that users name; [`draft`] writes files whole or not at all; [`in_use`] tracks files read
//!   and written.
//! - [`wrong`] is a fault in a file.
//! - [`interrupt`] notes that the user wants to stop; [`panics`] catches the text of a panic; [`progress`] is the
//!   progress of a run.
//! - [`shown`] makes foreign text harmless to a terminal; [`words`] puts numbers into sentences.
//! - [`contents`] makes bytes that can be verified; [`scratch`] writes files of tests.

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

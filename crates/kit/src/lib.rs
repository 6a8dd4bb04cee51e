//! Small modules that every crate of the laboratory (the command `highwater`) may use. The modules depend on no other
//! crate of the laboratory.
//!
//! - [`input`] opens files that users name; [`draft`] writes files that appear complete or not at all; [`in_use`]
//!   tracks which files are read and written.
//! - [`wrong`] describes a fault in a file.
//! - [`interrupt`] handles Ctrl-C and similar signals; [`panics`] turns panics into messages; [`progress`] shows other
//!   threads how far a run is.
//! - [`shown`] removes from text what would act on a terminal; [`words`] puts numbers into sentences.
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

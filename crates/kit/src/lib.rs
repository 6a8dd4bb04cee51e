//! Small parts that every room of the laboratory may use, and that know none of them.
//!
//! Files: [`input`] opens those that users name, [`draft`] writes them whole or not at all, [`in_use`] knows which are read and which
//! written, [`wrong`] is a fault in one. [`interrupt`] notes that the user wants to stop, [`panics`] takes what a panic says,
//! [`progress`] tells how far a run is. [`shown`] makes foreign text harmless to a terminal, [`words`] puts numbers into sentences.
//! [`contents`] makes bytes that can be verified, [`fnv`] is a hash; [`scratch`] writes files of tests.

pub mod contents;
pub mod draft;
pub mod fnv;
pub mod in_use;
pub mod input;
pub mod interrupt;
pub mod panics;
pub mod progress;
pub mod scratch;
pub mod shown;
pub mod words;
pub mod wrong;

//! Choices of the owners of pages.

pub mod choices;

pub use choices::Choices;

//! Textbook policies with one list, as a baseline for more expensive policies.

mod clock;
mod lru;

pub use clock::Clock;
pub use lru::Lru;

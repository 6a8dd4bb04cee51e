//! Textbook policies with one list: Clock and strict LRU. Other policies are compared with them.

mod clock;
mod lru;

pub use clock::Clock;
pub use lru::Lru;

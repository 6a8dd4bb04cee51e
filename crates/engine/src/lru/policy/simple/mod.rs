//! Policies of one list, as textbooks have them: what more costs is judged beside these.

mod clock;
mod lru;

pub use clock::Clock;
pub use lru::Lru;

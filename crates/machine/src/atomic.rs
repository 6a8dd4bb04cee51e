//! The atomics of the engine: one re-export, which a model checker can replace.

pub use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

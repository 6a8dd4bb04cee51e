//! Clock2Q+ in the version of libCacheSim 0.3.5 (2026).
//!
//! Clock2Q+ ("Clock2Q+: a simple and efficient replacement algorithm for metadata cache", 2026) is a 2Q with Clock
//! queues for metadata of storage, in which several requests in a short time are one use. One use leads from the small
//! queue to the main one, but uses do not count before half of the small queue came after the object (the *correlation
//! window*). The main queue is a Clock with one bit.

use super::three_queues::{Rule, Skip};

/// The choices of Clock2Q+ among those that policies with three queues have.
pub const RULE: Rule = Rule { promote: 1, rounds: 1, skip: Skip::Up(0.5), ..super::s3_fifo::RULE };

//! Clock2Q+ in the version of libCacheSim 0.3.5 (2026).
//!
//! Clock2Q+ ("Clock2Q+: a simple and efficient replacement algorithm for metadata cache", 2026) is a 2Q with Clock
//! queues for metadata of storage. Several requests for an object in a short time count as one use. An object that was
//! used once moves from the small queue to the main queue. A use of an object counts only after as many newer objects
//! have entered the small queue as fill half of it (the *correlation window*). The main queue is a Clock with one bit.

use super::three_queues::{Rule, Skip};

/// The rule by which a policy with three queues works as Clock2Q+.
pub const RULE: Rule = Rule { promote: 1, rounds: 1, skip: Skip::Up(0.5), ..super::s3_fifo::RULE };

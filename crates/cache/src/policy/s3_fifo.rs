//! S3-FIFO in the version of libCacheSim 0.3.5 (2026).
//!
//! J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, "FIFO queues are all you need for cache eviction", SOSP 2023. The
//! small queue has a tenth of the capacity, the ghosts nine tenths. An object with two uses in the small queue moves to
//! the main queue, in which up to three uses count. New objects enter the main queue while the small queue is full and
//! the cache is not, as in libCacheSim since 2024. The rule of the paper is [`s3_fifo_old`](super::s3_fifo_old).

use super::three_queues::{Rule, Skip};

/// The parameters that make the policy of `three_queues` behave as S3-FIFO.
pub const RULE: Rule =
    Rule { small: 0.1, ghosts: 0.9, promote: 2, rounds: 3, skip: Skip::Up(0.0), ghost_marks: 0, fills_main: true };

//! S3-FIFO in the version of libCacheSim 0.3.5 (2026).
//!
//! J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, "FIFO queues are all you need for cache eviction", SOSP 2023. The
//! small queue has a tenth of the capacity, the ghosts nine tenths; two uses in the small queue lead to the main one,
//! in which up to three uses count. As libCacheSim has it since 2024, objects enter the main queue while the small one
//! is full and the cache is not; the paper's rule is [`s3_fifo_old`](super::s3_fifo_old).

use super::three_queues::{Rule, Skip};

/// The choices of S3-FIFO among those that policies with three queues have.
pub const RULE: Rule =
    Rule { small: 0.1, ghosts: 0.9, promote: 2, rounds: 3, skip: Skip::Up(0.0), ghost_marks: 0, fills_main: true };

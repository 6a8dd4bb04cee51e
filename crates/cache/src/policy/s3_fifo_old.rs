//! S3-FIFO as in the paper, and in libCacheSim until 2024 (its `S3FIFOv0`).
//!
//! J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, "FIFO queues are all you need for cache eviction", SOSP 2023. All new
//! objects enter the small queue, also while the cache is not full.

use super::three_queues::Rule;

/// The choices by which a cache with three queues follows S3-FIFO as in the paper.
pub const RULE: Rule = Rule { fills_main: false, ..super::s3_fifo::RULE };

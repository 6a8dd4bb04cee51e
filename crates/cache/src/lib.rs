//! Cache replacement without time: policies, and the miss ratios that a trace of requests gives them.
//!
//! ```
//! use cache::{Kind, Plan, Requests, Size};
//!
//! // Six pages round and round, in a cache of half of them.
//! let requests = Requests::from_keys((0..60).map(|n| n % 6));
//! let plan = Plan { policies: vec![Kind::Lru, Kind::Optimal], sizes: vec![Size::share(0.5)], ..Plan::default() };
//! let report = cache::replay(&requests, &plan).unwrap();
//! let misses: Vec<u64> = report.rows.iter().map(|row| row.misses).collect();
//! // LRU evicts each page just before it returns. The optimum keeps some of them.
//! assert_eq!(misses[0], 60);
//! assert!(misses[1] < 40);
//! ```
//!
//! - [`Requests`] are the requests of a trace, with keys numbered once for all caches.
//! - [`policy`] has the policies, one file each; [`Kind`] names them.
//! - [`Cache`] is the trait that policies implement; a program can have a policy of its own.
//! - [`replay`](fn@replay) runs many policies and sizes on several threads.
//! - [`batches`] runs a policy that is told requests, and chooses victims, in batches.
//! - [`estimate`](fn@estimate) runs them on a [`Sample`] of the objects, and states the error of the result.

pub mod batches;
mod cache;
pub mod estimate;
pub mod keys;
pub mod list;
pub mod policy;
pub mod replay;
pub mod requests;
mod rng;
pub mod sample;
pub mod stack;
pub mod table;
pub mod weigh;
mod xxh64;

pub use cache::Cache;
pub use estimate::{Estimate, Estimates, estimate};
pub use policy::Kind;
pub use replay::{Plan, Report, Row, Size, WarmUp, replay};
pub use requests::{Requests, RequestsBuilder};
pub use sample::{Sample, SampleBuilder, Sampling};
pub use weigh::{Bytes, One, Weigh};

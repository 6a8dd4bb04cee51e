//! The policies, one file each. The head of a file cites the paper and says which version of its rule the file has.
//!
//! All policies implement [`Cache`]. Those of the engine ([`mod@engine`]) cache pages, which all weigh the same; all others
//! are generic over the weight of objects ([`Weigh`]).

pub mod arc;
pub mod classic;
pub mod clock;
pub mod clock2q_plus;
pub mod engine;
pub mod fifo;
pub mod highwater;
pub mod lfu;
pub mod lhd;
pub mod lirs;
pub mod lru;
pub mod multigen;
pub mod optimal;
pub mod s3_fifo;
pub mod s3_fifo_old;
pub mod s4_fifo;
pub mod sieve;
pub mod three_queues;
pub mod two_q;
pub mod w_tinylfu;

use crate::{Bytes, Cache, One, Requests, Weigh};
use multigen::Version;
use three_queues::ThreeQueues;

/// A policy that the replay knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Least recently used: see the module [`lru`].
    Lru,
    /// First in, first out: see the module [`fifo`].
    Fifo,
    /// Clock, or second chance: see the module [`clock`].
    Clock,
    /// Least frequently used: see the module [`lfu`].
    Lfu,
    /// 2Q: see the module [`two_q`].
    TwoQ,
    /// ARC: see the module [`arc`](mod@arc).
    Arc,
    /// LIRS: see the module [`lirs`].
    Lirs,
    /// W-TinyLFU: see the module [`w_tinylfu`].
    WTinyLfu,
    /// S3-FIFO as libCacheSim has it since 2024: see the module [`s3_fifo`].
    S3Fifo,
    /// S3-FIFO as in the paper: see the module [`s3_fifo_old`].
    S3FifoOld,
    /// S4-FIFO: see the module [`s4_fifo`].
    S4Fifo,
    /// SIEVE: see the module [`sieve`].
    Sieve,
    /// Clock2Q+: see the module [`clock2q_plus`].
    Clock2QPlus,
    /// LHD: see the module [`lhd`].
    Lhd,
    /// Belady's rule, which knows all requests to come: see the module [`optimal`].
    Optimal,
    /// The active and inactive lists of Linux: see the module [`classic`].
    Classic,
    /// The multi-generational LRU of Linux 7.2: see the module [`multigen`].
    Multigen,
    /// The multi-generational LRU of Linux 6.14: see the module [`multigen`].
    Multigen6_14,
    /// The multi-generational LRU of Linux 6.1: see the module [`multigen`].
    Multigen6_1,
    /// The policy of the kernel `highwater`: see the module [`highwater`].
    Highwater,
}

/// The seed of LHD's random choices.
const LHD_SEED: u64 = 1;

impl Kind {
    /// All policies, in the order of the documentation.
    pub const ALL: [Self; 20] = [
        Self::Lru,
        Self::Fifo,
        Self::Clock,
        Self::Lfu,
        Self::TwoQ,
        Self::Arc,
        Self::Lirs,
        Self::WTinyLfu,
        Self::S3Fifo,
        Self::S3FifoOld,
        Self::S4Fifo,
        Self::Sieve,
        Self::Clock2QPlus,
        Self::Lhd,
        Self::Optimal,
        Self::Classic,
        Self::Multigen,
        Self::Multigen6_14,
        Self::Multigen6_1,
        Self::Highwater,
    ];

    /// Returns the name of the policy, as the command takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Fifo => "fifo",
            Self::Clock => "clock",
            Self::Lfu => "lfu",
            Self::TwoQ => "2q",
            Self::Arc => "arc",
            Self::Lirs => "lirs",
            Self::WTinyLfu => "w-tinylfu",
            Self::S3Fifo => "s3-fifo",
            Self::S3FifoOld => "s3-fifo-old",
            Self::S4Fifo => "s4-fifo",
            Self::Sieve => "sieve",
            Self::Clock2QPlus => "clock2q+",
            Self::Lhd => "lhd",
            Self::Optimal => "optimal",
            Self::Classic => "classic",
            Self::Multigen => "multigen",
            Self::Multigen6_14 => "multigen-6.14",
            Self::Multigen6_1 => "multigen-6.1",
            Self::Highwater => "highwater",
        }
    }

    /// Returns the policy with the name `name`; `None` if there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns whether the capacity of a cache with this policy can be counted in bytes. The engine's policies count
    /// only in pages.
    #[must_use]
    pub const fn knows_bytes(self) -> bool {
        !matches!(self, Self::Classic | Self::Multigen | Self::Multigen6_14 | Self::Multigen6_1 | Self::Highwater)
    }

    /// Returns an empty cache of `capacity` objects with this policy, for the objects of `requests`.
    #[must_use]
    pub fn cache(self, capacity: u64, requests: &Requests) -> Box<dyn Cache> {
        let objects = requests.distinct();
        match self {
            Self::Classic => Box::new(classic::cache(capacity, objects)),
            Self::Multigen => Box::new(multigen::cache(Version::Linux7_2, capacity, objects)),
            Self::Multigen6_14 => Box::new(multigen::cache(Version::Linux6_14, capacity, objects)),
            Self::Multigen6_1 => Box::new(multigen::cache(Version::Linux6_1, capacity, objects)),
            Self::Highwater => Box::new(highwater::cache(capacity, objects)),
            _ => self.weighing(capacity, requests, One),
        }
    }

    /// Returns an empty cache of `capacity` bytes with this policy, for the objects of `requests`, which must have
    /// sizes.
    ///
    /// # Panics
    /// When the requests have no sizes, or the policy does not count bytes ([`Kind::knows_bytes`]).
    #[must_use]
    pub fn cache_of_bytes(self, capacity: u64, requests: &Requests) -> Box<dyn Cache> {
        assert_eq!(requests.object_sizes().len(), requests.distinct() as usize, "each object has a size");
        self.weighing(capacity, requests, Bytes::new(requests.object_sizes().clone()))
    }

    fn weighing<W: Weigh>(self, capacity: u64, requests: &Requests, weigh: W) -> Box<dyn Cache> {
        let objects = requests.distinct();
        let three = |rule, weigh| Box::new(ThreeQueues::new(rule, capacity, objects, weigh));
        match self {
            Self::Lru => Box::new(lru::Lru::new(capacity, objects, weigh)),
            Self::Fifo => Box::new(fifo::Fifo::new(capacity, objects, weigh)),
            Self::Clock => Box::new(clock::Clock::new(capacity, objects, weigh)),
            Self::Lfu => Box::new(lfu::Lfu::new(capacity, objects, weigh)),
            Self::TwoQ => Box::new(two_q::TwoQ::new(capacity, objects, weigh)),
            Self::Arc => Box::new(arc::Arc::new(capacity, objects, weigh)),
            Self::Lirs => Box::new(lirs::Lirs::new(capacity, objects, weigh)),
            Self::WTinyLfu => Box::new(w_tinylfu::WTinyLfu::new(capacity, requests.hashes(), weigh)),
            Self::S3Fifo => three(s3_fifo::RULE, weigh),
            Self::S3FifoOld => three(s3_fifo_old::RULE, weigh),
            Self::S4Fifo => three(s4_fifo::RULE, weigh),
            Self::Clock2QPlus => three(clock2q_plus::RULE, weigh),
            Self::Sieve => Box::new(sieve::Sieve::new(capacity, objects, weigh)),
            Self::Lhd => Box::new(lhd::Lhd::new(capacity, objects, weigh, LHD_SEED)),
            Self::Optimal => Box::new(optimal::Optimal::new(capacity, requests, weigh)),
            Self::Classic | Self::Multigen | Self::Multigen6_14 | Self::Multigen6_1 | Self::Highwater => {
                panic!("{} counts pages and not bytes", self.name())
            }
        }
    }
}

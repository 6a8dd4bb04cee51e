//! The shared memory of a database in WAL mode (the index of the log), and its locks.
//!
//! It is memory of this process, because the locks of the file keep other processes out. It exists as long as a
//! connection uses it. The next connection gets new memory, all zeroes, from which SQLite concludes that it has to read the
//! log anew.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Number of locks (`SQLITE_SHM_NLOCK`).
pub(crate) const LOCKS: usize = 8;

/// Largest number of bytes of a region: SQLite uses 32 KiB.
const REGION_MAX: usize = 1 << 20;

/// Largest number of regions. Those of SQLite's 32 KiB then index a log of 2^32 pages.
const REGIONS_MAX: u32 = 1 << 20;

/// A lock, which one connection holds alone, or several hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Shared(u32),
    Exclusive,
}

/// The locks that one connection holds, a bit for each.
#[derive(Debug, Default)]
pub(crate) struct Held {
    shared: u8,
    exclusive: u8,
}

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Beside other holders of the same kind.
    Shared,
    /// Alone.
    Exclusive,
}

/// The shared memory of one database.
#[derive(Debug)]
pub(crate) struct Shm {
    // `Arc` and not `Box`, because SQLite keeps pointers into a region while the map moves its values.
    regions: BTreeMap<u32, Arc<[AtomicU64]>>,
    slots: [Slot; LOCKS],
    connections: u32,
}

impl Default for Shm {
    fn default() -> Self {
        Self { regions: BTreeMap::new(), slots: [Slot::Shared(0); LOCKS], connections: 0 }
    }
}

impl Shm {
    /// Notes that one more connection uses the memory.
    pub(crate) fn join(&mut self) -> Held {
        self.connections += 1;
        Held::default()
    }

    /// Ends the use of the memory by a connection, and with the last one the memory.
    pub(crate) fn leave(&mut self, mut held: Held) {
        for (bits, kind) in [(held.shared, Kind::Shared), (held.exclusive, Kind::Exclusive)] {
            for at in (0..LOCKS).filter(|at| bits & (1 << at) != 0) {
                self.unlock(&mut held, at..at + 1, kind);
            }
        }
        self.connections -= 1;
        if self.connections == 0 {
            *self = Self::default();
        }
    }

    /// Returns region `number`, which has `bytes` bytes, at first zeroes. Returns `None` if the region does not exist and
    /// is not to be made.
    ///
    /// # Errors
    /// When the number or the size is beyond what SQLite uses, or the size is not the one the region was made with.
    pub(crate) fn region(
        &mut self,
        number: i32,
        bytes: i32,
        extend: bool,
    ) -> Result<Option<Arc<[AtomicU64]>>, &'static str> {
        let number = u32::try_from(number).ok().filter(|number| *number < REGIONS_MAX);
        let words = usize::try_from(bytes).ok().filter(|bytes| (1..=REGION_MAX).contains(bytes) && bytes % 8 == 0);
        let (Some(number), Some(words)) = (number, words.map(|bytes| bytes / 8)) else {
            return Err("no such region of shared memory is possible");
        };
        if extend {
            self.regions.entry(number).or_insert_with(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        }
        match self.regions.get(&number) {
            Some(region) if region.len() != words => Err("the region of shared memory has another size"),
            found => Ok(found.cloned()),
        }
    }

    /// Takes the locks `range` for a connection, whose locks are `held`. Returns whether all could be taken; otherwise
    /// none is. It never waits.
    pub(crate) fn lock(&mut self, held: &mut Held, range: Range<usize>, kind: Kind) -> bool {
        let bits = bits(&range);
        match kind {
            Kind::Shared => {
                let new: Vec<usize> = range.filter(|at| held.shared & (1 << at) == 0).collect();
                if new.iter().any(|at| self.slots[*at] == Slot::Exclusive) {
                    return false;
                }
                for at in new {
                    if let Slot::Shared(holders) = &mut self.slots[at] {
                        *holders += 1;
                    }
                }
                held.shared |= bits;
            }
            Kind::Exclusive => {
                if range.clone().any(|at| self.slots[at] != Slot::Shared(0)) {
                    return false;
                }
                self.slots[range].fill(Slot::Exclusive);
                held.exclusive |= bits;
            }
        }
        true
    }

    /// Releases those of the locks `range` that the connection holds in this way.
    pub(crate) fn unlock(&mut self, held: &mut Held, range: Range<usize>, kind: Kind) {
        let own = match kind {
            Kind::Shared => &mut held.shared,
            Kind::Exclusive => &mut held.exclusive,
        };
        for at in range.clone().filter(|at| *own & (1 << at) != 0) {
            self.slots[at] = match self.slots[at] {
                Slot::Shared(holders) => Slot::Shared(holders.saturating_sub(1)),
                Slot::Exclusive => Slot::Shared(0),
            };
        }
        *own &= !bits(&range);
    }
}

fn bits(range: &Range<usize>) -> u8 {
    range.clone().fold(0, |bits, at| bits | 1 << at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn locks_are_shared_or_exclusive() {
        let mut shm = Shm::default();
        let (mut first, mut second) = (shm.join(), shm.join());
        assert!(shm.lock(&mut first, 3..4, Kind::Shared) && shm.lock(&mut second, 3..4, Kind::Shared));
        assert!(!shm.lock(&mut first, 0..8, Kind::Exclusive), "lock 3 is shared");
        assert!(shm.lock(&mut second, 4..8, Kind::Exclusive), "the refused request took nothing");
        assert!(!shm.lock(&mut first, 5..6, Kind::Shared));
        shm.unlock(&mut first, 4..8, Kind::Exclusive);
        assert!(!shm.lock(&mut first, 5..6, Kind::Shared), "only the holder releases a lock");
        shm.leave(second);
        assert!(shm.lock(&mut first, 4..8, Kind::Exclusive));
        shm.unlock(&mut first, 3..4, Kind::Shared);
        assert!(shm.lock(&mut first, 0..4, Kind::Exclusive));
    }

    #[test]
    fn memory_lives_as_long_as_a_connection_uses_it() {
        let mut shm = Shm::default();
        let (first, second) = (shm.join(), shm.join());
        assert!(shm.region(0, 32768, false).unwrap().is_none());
        let region = shm.region(0, 32768, true).unwrap().unwrap();
        region[4095].store(7, Ordering::Relaxed);
        shm.leave(first);
        assert_eq!(shm.region(0, 32768, false).unwrap().unwrap()[4095].load(Ordering::Relaxed), 7);
        shm.leave(second);
        let third = shm.join();
        assert!(shm.region(0, 32768, false).unwrap().is_none());
        assert_eq!(shm.region(0, 32768, true).unwrap().unwrap()[4095].load(Ordering::Relaxed), 0);
        shm.leave(third);
    }

    #[test]
    fn impossible_regions_are_refused() {
        let mut shm = Shm::default();
        for (number, bytes) in [(-1, 32768), (0, -8), (0, 0), (0, 12), (0, i32::MAX - 7), (i32::MAX, 32768)] {
            assert!(shm.region(number, bytes, true).is_err(), "{number} {bytes}");
        }
        assert!(shm.region(0, 32768, true).is_ok() && shm.region(0, 4096, false).is_err());
    }
}

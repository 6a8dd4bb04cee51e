//! The locks of a database file among the connections of this process.
//!
//! SQLite's rules: any number of connections hold `Shared`; one of them may hold more. The holder of `Reserved` is going
//! to write, and others may still begin to read. The holder of `Pending` waits for the readers to end, and no other
//! connection begins to read. The holder of `Exclusive` is alone, and writes the file.

/// The lock that a connection holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// No lock.
    #[default]
    None,
    /// The connection reads.
    Shared,
    /// The connection is going to write, beside readers.
    Reserved,
    /// The connection waits for readers to end, and keeps out new ones.
    Pending,
    /// The connection writes, alone.
    Exclusive,
}

impl Level {
    /// All levels, at the numbers that SQLite gives them.
    const ALL: [Self; 5] = [Self::None, Self::Shared, Self::Reserved, Self::Pending, Self::Exclusive];

    /// Returns the level to which SQLite gives the number `number` (`SQLITE_LOCK_NONE` and so on).
    pub(crate) fn of_number(number: i32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// The locks that the connections to one file hold together. Each connection keeps its own [`Level`].
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// Number of connections that hold `Shared` or more.
    holders: u32,
    /// The level of the one connection that holds more than `Shared`, or `None`.
    writer: Level,
}

impl Locks {
    /// Raises the level of a connection, which is `own`, to `wanted`. Returns whether this was possible; it never waits.
    /// A connection that holds `Reserved` and cannot get `Exclusive` is left with `Pending`.
    ///
    /// A connection without a lock can only get `Shared`, and no connection can ask for `Pending`. SQLite asks for
    /// nothing else; such a request fails.
    pub(crate) fn raise(&mut self, own: &mut Level, wanted: Level) -> bool {
        if *own >= wanted {
            return true;
        }
        let is_writer = *own > Level::Shared;
        match (*own, wanted) {
            (Level::None, Level::Shared) => {
                if self.writer >= Level::Pending {
                    return false;
                }
                self.holders += 1;
                *own = Level::Shared;
                true
            }
            (Level::Shared, Level::Reserved) => self.writer == Level::None && self.set_writer(own, Level::Reserved),
            (Level::Shared | Level::Reserved | Level::Pending, Level::Exclusive) => {
                if !is_writer && self.writer != Level::None {
                    return false;
                }
                if self.holders > 1 {
                    // A connection that asks from `Shared`, to roll back what another process left behind, must not wait
                    // with `Pending`: two such connections would wait for each other.
                    if is_writer {
                        self.set_writer(own, Level::Pending);
                    }
                    return false;
                }
                self.set_writer(own, Level::Exclusive)
            }
            _ => false,
        }
    }

    fn set_writer(&mut self, own: &mut Level, level: Level) -> bool {
        (*own, self.writer) = (level, level);
        true
    }

    /// Lowers the level of a connection, which is `own`, to `Shared` or `None`. A level that is lower already stays.
    pub(crate) fn lower(&mut self, own: &mut Level, to: Level) {
        if *own <= to {
            return;
        }
        if *own > Level::Shared {
            self.writer = Level::None;
        }
        if to == Level::None {
            self.holders -= 1;
        }
        *own = to.min(Level::Shared);
    }

    /// Returns whether a connection holds `Reserved` or more.
    pub(crate) fn is_reserved(&self) -> bool {
        self.writer > Level::Shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_waits_for_readers_and_keeps_out_new_ones() {
        let (mut locks, mut writer, mut reader, mut other) = (Locks::default(), Level::None, Level::None, Level::None);
        assert!(locks.raise(&mut reader, Level::Shared) && locks.raise(&mut writer, Level::Shared));
        assert!(locks.raise(&mut writer, Level::Reserved) && locks.is_reserved());
        assert!(!locks.raise(&mut reader, Level::Reserved), "one connection at a time is going to write");
        assert!(locks.raise(&mut other, Level::Shared), "others may begin to read");
        locks.lower(&mut other, Level::None);
        assert!(!locks.raise(&mut writer, Level::Exclusive));
        assert_eq!(writer, Level::Pending);
        assert!(!locks.raise(&mut other, Level::Shared), "nobody begins to read");
        locks.lower(&mut reader, Level::None);
        assert!(locks.raise(&mut writer, Level::Exclusive));
        assert!(!locks.raise(&mut other, Level::Shared));
        locks.lower(&mut writer, Level::Shared);
        assert!(locks.raise(&mut other, Level::Shared) && !locks.is_reserved());
    }

    #[test]
    fn readers_that_want_to_roll_back_do_not_keep_each_other_out() {
        let (mut locks, mut first, mut second) = (Locks::default(), Level::None, Level::None);
        assert!(locks.raise(&mut first, Level::Shared) && locks.raise(&mut second, Level::Shared));
        assert!(!locks.raise(&mut first, Level::Exclusive) && !locks.raise(&mut second, Level::Exclusive));
        assert_eq!((first, second), (Level::Shared, Level::Shared));
        locks.lower(&mut first, Level::None);
        assert!(locks.raise(&mut second, Level::Exclusive));
    }

    #[test]
    fn requests_that_sqlite_never_makes_fail() {
        let (mut locks, mut own) = (Locks::default(), Level::None);
        assert!(!locks.raise(&mut own, Level::Reserved) && !locks.raise(&mut own, Level::Exclusive));
        assert!(locks.raise(&mut own, Level::Shared) && !locks.raise(&mut own, Level::Pending));
        assert_eq!((Level::of_number(4), Level::of_number(5)), (Some(Level::Exclusive), None));
        assert_eq!(Level::of_number(-1), None);
    }

    /// Random requests of five connections never break the rules at the module's head.
    #[test]
    fn random_requests_keep_the_rules() {
        let (mut locks, mut levels, mut state, mut granted) = (Locks::default(), [Level::None; 5], 1u64, [0; 5]);
        for _ in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (at, wanted) = ((state >> 33) as usize % 5, Level::ALL[(state >> 40) as usize % 5]);
            let before = levels;
            if (state >> 50) % 3 == 0 {
                locks.lower(&mut levels[at], wanted.min(Level::Shared));
                assert!(levels[at] <= before[at]);
            } else if locks.raise(&mut levels[at], wanted) {
                assert!(levels[at] >= wanted && levels[at] >= before[at]);
                granted[wanted as usize] += 1;
            }
            let count = |least| levels.iter().filter(|level| **level >= least).count();
            assert_eq!(count(Level::Shared), locks.holders as usize);
            assert!(count(Level::Reserved) <= 1 && locks.is_reserved() == (count(Level::Reserved) == 1));
            assert!(count(Level::Exclusive) == 0 || count(Level::Shared) == 1, "{levels:?}");
            let began = before[at] == Level::None && levels[at] != Level::None;
            assert!(!began || !before.iter().any(|level| *level >= Level::Pending), "{before:?} {levels:?}");
        }
        assert!(granted[1] > 100 && granted[2] > 100 && granted[4] > 100, "{granted:?}");
    }
}

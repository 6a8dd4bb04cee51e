//! The commands of `lru_gen` in debugfs: a generation begins, and old ones are evicted (mechanisms/multigen, 11).

use super::Multigen;
use super::evict::Evictable;
use super::generations::GENERATIONS_MIN;
use crate::lru::policy::{Batch, Demand};
use crate::lru::{Lru, Lruvec, Reach};
use crate::memory::{GroupId, NodeId, ZoneId};
use machine::Machine;
use std::{fmt, vec};

/// The form of a command that begins a generation.
const AGE_FORM: &str = "+ MEMCG NODE MAX_GEN [CAN_SWAP [FORCE_SCAN]]";

/// The form of a command that evicts generations.
const EVICT_FORM: &str = "- MEMCG NODE MIN_GEN [SWAPPINESS [NR_TO_RECLAIM]]";

/// The swappiness at which only anonymous pages are evicted. A command writes it as `max`.
pub const ONLY_ANON: u64 = 201;
const ONLY_ANON_WORD: &str = "max";

/// A command that a user writes to `lru_gen` in debugfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The command `+`, which begins a generation.
    Age(Age),
    /// The command `-`, which evicts old generations.
    Evict(Evict),
}

/// A command to walk the page tables, and then to begin a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// Number of the cgroup to which the command applies; only 0 exists.
    pub cgroup: u64,
    /// The memory node to which the command applies.
    pub node: NodeId,
    /// The number that the node's youngest generation must have when the command runs. The new generation gets the next
    /// number.
    pub youngest: u64,
    /// The families that are aged: with 0 only file pages, with [`ONLY_ANON`] only anonymous pages, and with other
    /// values both, even if no swap slot is free. With `None`, file pages are aged, and also anonymous pages if they
    /// can go to swap.
    pub swappiness: Option<u64>,
    /// `true` if the walk covers all tables that were touched since the last walk, even tables that the filter would
    /// leave out. If a command has no `FORCE_SCAN` (0 or 1), the value is `true`. This field and the meaning of
    /// `swappiness` are general knowledge of Linux; mechanisms/multigen does not describe them.
    pub force_scan: bool,
}

/// A command to evict generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evict {
    /// Number of the cgroup to which the command applies; only 0 exists.
    pub cgroup: u64,
    /// The memory node to which the command applies.
    pub node: NodeId,
    /// The command's `MIN_GEN`: this generation and all older ones are evicted.
    pub oldest: u64,
    /// Value that is used in place of `lru.swappiness`; with [`ONLY_ANON`] only anonymous pages are evicted. With
    /// `None`, `lru.swappiness` is used.
    pub swappiness: Option<u64>,
    /// Largest number of pages that are freed. A huge page is freed as a whole, even beyond this number.
    pub pages: u64,
}

/// The error for a text of commands, one of which is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCommand {
    /// The text of the wrong command, without the commands around it.
    pub command: String,
    /// The word that is wrong; `None` if the command ends too early.
    pub found: Option<String>,
    /// A description of the word that was expected in this place.
    pub expected: &'static str,
    /// The form of a correct command of this kind.
    pub form: &'static str,
}

impl fmt::Display for BadCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, found, expected, form } = self;
        let found = found.as_ref().map_or_else(|| "nothing".to_owned(), |word| format!("`{word}`"));
        write!(f, "lru_gen: `{command}`: expected {expected}, found {found}; the form is `{form}`")
    }
}

impl std::error::Error for BadCommand {}

/// The reason why a command of `lru_gen` was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The kernel has no generations, because its policy is not the multi-generational LRU.
    NoGenerations,
    /// No cgroup has this number.
    NoCgroup {
        /// Number of the cgroup, as the command stated it.
        cgroup: u64,
    },
    /// No node has this number.
    NoNode {
        /// The node that the command named.
        node: NodeId,
    },
    /// Another task is about to begin the generation that the command asks for.
    ByOthers,
    /// A command that begins a generation has to name the youngest generation, and this command named another one. It
    /// may have been the youngest when the command was written: another task may have begun a generation meanwhile.
    NotYoungest {
        /// Number of the generation that the command named.
        named: u64,
        /// Number of the youngest generation.
        youngest: u64,
    },
    /// The command would leave fewer than two generations.
    TooYoung {
        /// Number of the generation that the command named.
        named: u64,
        /// Number of the youngest generation.
        youngest: u64,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGenerations => f.write_str("this kernel has no generations"),
            Self::NoCgroup { cgroup } => write!(f, "there is no memcg {cgroup}: expected 0, the only one"),
            Self::NoNode { node } => write!(f, "there is no node {}", node.0),
            Self::ByOthers => f.write_str("somebody else is about to begin this generation"),
            Self::NotYoungest { named, youngest } => {
                write!(f, "generation {named} is not the youngest: that is {youngest}")
            }
            Self::TooYoung { named, youngest } => {
                write!(
                    f,
                    "generation {named} is too young to be evicted: {GENERATIONS_MIN} stay, and the youngest is {youngest}"
                )
            }
        }
    }
}

impl std::error::Error for Refused {}

/// The error if none, or only some, of the commands of a text were carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// A part of the text is not a command. No command was carried out.
    Bad(BadCommand),
    /// A command was refused. The commands before it were carried out.
    Refused {
        /// Number of the refused command in the text, counted from 1.
        number: usize,
        /// The reason why the command was refused.
        why: Refused,
    },
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad(bad) => bad.fmt(f),
            Self::Refused { number, why } => write!(f, "lru_gen: command {number} was refused: {why}"),
        }
    }
}

impl std::error::Error for CommandError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bad(bad) => Some(bad),
            Self::Refused { why, .. } => Some(why),
        }
    }
}

impl Command {
    /// Splits a text into commands, at least one, and returns them. Commas, semicolons and line ends separate the
    /// commands.
    ///
    /// # Errors
    /// Fails if a part of the text is no command, or if there is no command. The error describes the first part that is
    /// wrong.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, BadCommand> {
        let lines = text.split([',', ';', '\n']).map(str::trim);
        let commands: Vec<Self> = lines.filter(|line| !line.is_empty()).map(Self::parse).collect::<Result<_, _>>()?;
        if commands.is_empty() {
            return Err(no_verb(text.trim(), None));
        }
        Ok(commands)
    }

    fn parse(line: &str) -> Result<Self, BadCommand> {
        let (verb, rest) = match line.chars().next() {
            Some(verb @ ('+' | '-')) => (verb, &line[1..]),
            _ => return Err(no_verb(line, line.split_whitespace().next())),
        };
        let form = if verb == '+' { AGE_FORM } else { EVICT_FORM };
        let mut words = Words { command: line, form, words: rest.split_whitespace() };
        let cgroup = words.number("MEMCG, a number")?;
        let node = NodeId(words.needed("NODE, a number from 0 to 255", |word| word.parse().ok())?);
        let command = if verb == '+' {
            let youngest = words.number("MAX_GEN, the number of the youngest generation")?;
            let swappiness = words.optional("CAN_SWAP: 0, 1, another swappiness up to 200, or max", swappiness)?;
            let force_scan = words.optional("FORCE_SCAN: 0 or 1", is_set)?.unwrap_or(true);
            Self::Age(Age { cgroup, node, youngest, swappiness, force_scan })
        } else {
            let oldest = words.number("MIN_GEN, the number of a generation")?;
            let swappiness = words.optional("SWAPPINESS: a number up to 200, or max", swappiness)?;
            let pages = words.optional("NR_TO_RECLAIM, a number of pages", |word| word.parse().ok())?;
            Self::Evict(Evict { cgroup, node, oldest, swappiness, pages: pages.unwrap_or(u64::MAX) })
        };
        words.end()?;
        Ok(command)
    }
}

/// The commands of a text that are not begun yet, the number of commands begun so far, and the eviction that is under
/// way.
#[derive(Debug)]
pub(crate) struct Commands {
    rest: vec::IntoIter<Command>,
    /// Number of commands that were begun so far.
    number: usize,
    eviction: Option<Eviction>,
}

/// The state of an eviction that a command has begun.
#[derive(Debug)]
struct Eviction {
    evict: Evict,
    zone: ZoneId,
    /// Number of pages that the eviction may still scan.
    left: u64,
    freed: u64,
}

impl Commands {
    /// Parses a text that a user writes to `lru_gen` in debugfs, and returns its commands.
    ///
    /// # Errors
    /// Fails if a part of the text is not a command.
    pub(crate) fn parse(text: &str) -> Result<Self, CommandError> {
        let commands = Command::parse_all(text).map_err(CommandError::Bad)?;
        Ok(Self { rest: commands.into_iter(), number: 0, eviction: None })
    }
}

fn no_verb(command: &str, found: Option<&str>) -> BadCommand {
    let form = "+ MEMCG NODE MAX_GEN, or - MEMCG NODE MIN_GEN";
    BadCommand { command: command.into(), found: found.map(Into::into), expected: "`+` or `-`", form }
}

fn swappiness(word: &str) -> Option<u64> {
    match word {
        ONLY_ANON_WORD => Some(ONLY_ANON),
        word => word.parse().ok().filter(|value| *value < ONLY_ANON),
    }
}

fn is_set(word: &str) -> Option<bool> {
    match word {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// The words of a command after its sign (`+` or `-`).
struct Words<'t> {
    command: &'t str,
    form: &'static str,
    words: std::str::SplitWhitespace<'t>,
}

impl Words<'_> {
    fn bad(&self, expected: &'static str, found: Option<&str>) -> BadCommand {
        BadCommand { command: self.command.into(), found: found.map(Into::into), expected, form: self.form }
    }

    fn optional<T>(
        &mut self,
        expected: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, BadCommand> {
        let Some(word) = self.words.next() else { return Ok(None) };
        read(word).map(Some).ok_or_else(|| self.bad(expected, Some(word)))
    }

    fn needed<T>(&mut self, expected: &'static str, read: impl Fn(&str) -> Option<T>) -> Result<T, BadCommand> {
        self.optional(expected, read)?.ok_or_else(|| self.bad(expected, None))
    }

    fn number(&mut self, expected: &'static str) -> Result<u64, BadCommand> {
        self.needed(expected, |word| word.parse().ok())
    }

    fn end(&mut self) -> Result<(), BadCommand> {
        match self.words.next() {
            None => Ok(()),
            Some(word) => Err(self.bad("the end of the command", Some(word))),
        }
    }
}

/// Returns the demand (the purpose of a scan) of a command to evict generations.
const fn demand(evict: &Evict) -> Demand {
    Demand { swappiness: evict.swappiness, ..Demand::ANY }
}

impl<M: Machine> Lru<M> {
    /// Begins a generation of a node now. If each zone has an lruvec of its own, only the lruvec of the node's highest
    /// zone begins one. This function may take locks of page tables.
    ///
    /// # Errors
    /// Fails if the kernel has no generations, if there is no such cgroup or node, if `age.youngest` is not the
    /// youngest generation any more, or if another task is about to begin the new one.
    fn begin_generation_now(&self, age: &Age) -> Result<(), Refused> {
        let (multigen, lruvec) = self.generations_of_node(age.cgroup, age.node)?;
        let youngest = || lruvec.generational().generations.seqs().max;
        let evictable = match age.swappiness {
            Some(swappiness) => [swappiness > 0, swappiness < ONLY_ANON],
            None => self.evictable(lruvec, &Demand::ANY),
        };
        if youngest() == age.youngest && self.age_generations(multigen, lruvec, evictable, age.force_scan) {
            return Ok(());
        }
        match youngest() {
            youngest if youngest == age.youngest => Err(Refused::ByOthers),
            youngest => Err(Refused::NotYoungest { named: age.youngest, youngest }),
        }
    }

    /// Checks a command that evicts generations. Returns the lruvec whose generations it evicts, with all zones of the
    /// lruvec.
    ///
    /// # Errors
    /// Fails if the kernel has no generations, if there is no such cgroup or node, or if fewer than two generations
    /// would stay.
    fn check_eviction(&self, evict: &Evict) -> Result<Reach<'_, M>, Refused> {
        let (_, lruvec) = self.generations_of_node(evict.cgroup, evict.node)?;
        let youngest = lruvec.generational().generations.seqs().max;
        let stay = youngest.saturating_sub(evict.oldest);
        (stay >= GENERATIONS_MIN)
            .then(|| self.reach(self.highest_zone(lruvec)))
            .ok_or(Refused::TooYoung { named: evict.oldest, youngest })
    }

    /// Carries out commands until one of them has taken a batch of pages off its lists to evict them. Returns this
    /// batch with its lruvec, or `None` when all commands were carried out. `freed` is the number of pages of the
    /// previous batch that were freed. This function may take locks of page tables.
    ///
    /// # Errors
    /// Fails when a command is refused. The commands before it were carried out.
    pub(crate) fn next_commanded(
        &self,
        commands: &mut Commands,
        freed: u64,
    ) -> Result<Option<(Reach<'_, M>, Batch)>, CommandError> {
        if let Some(eviction) = &mut commands.eviction {
            eviction.freed += freed;
            self.machine.cond_resched();
        }
        loop {
            if let Some(eviction) = &mut commands.eviction
                && let Some(batch) = self.next_of_eviction(eviction)
            {
                return Ok(Some((self.reach(self.memory().zone(eviction.zone)), batch)));
            }
            commands.eviction = None;
            let Some(command) = commands.rest.next() else { return Ok(None) };
            commands.number += 1;
            let number = commands.number;
            commands.eviction = match command {
                Command::Age(age) => self.begin_generation_now(&age).map(|()| None),
                Command::Evict(evict) => self.begin_eviction(evict).map(Some),
            }
            .map_err(|why| CommandError::Refused { number, why })?;
        }
    }

    fn begin_eviction(&self, evict: Evict) -> Result<Eviction, Refused> {
        let reach = self.check_eviction(&evict)?;
        self.drain_before_scan();
        // Twice the number of listed pages, because the scan meets pages that cannot be evicted more than once.
        Ok(Eviction { evict, zone: reach.zone.id, left: 2 * self.listed_pages(reach), freed: 0 })
    }

    /// Returns a batch of pages of the generations that a command evicts. Returns `None` when these generations have no
    /// pages left, or when enough pages were freed or scanned.
    fn next_of_eviction(&self, eviction: &mut Eviction) -> Option<Batch> {
        let Eviction { evict, zone, left, freed } = eviction;
        if *freed >= evict.pages || *left == 0 || self.machine.is_killed() {
            return None;
        }
        let (multigen, reach) = (self.multigen()?, self.reach(self.memory().zone(*zone)));
        let budget = (*left).min(evict.pages - *freed);
        let seqs = reach.lruvec.generational().generations.seqs();
        let demand = demand(evict);
        let may_go = self.evictable(reach.lruvec, &demand);
        let evictable: Evictable = [0, 1].map(|family| may_go[family] && seqs.min[family] <= evict.oldest);
        let batch = evictable.contains(&true).then(|| self.evict_batch(multigen, reach, &demand, evictable, budget))?;
        *left = left.saturating_sub(batch.scanned);
        (batch.scanned > 0).then_some(batch)
    }

    fn generations_of_node(&self, cgroup: u64, node: NodeId) -> Result<(&Multigen, &Lruvec<M>), Refused> {
        let multigen = self.multigen().ok_or(Refused::NoGenerations)?;
        if cgroup != 0 {
            return Err(Refused::NoCgroup { cgroup });
        }
        let lruvec = self.lruvecs_of_group(GroupId::ROOT).iter().rfind(|lruvec| lruvec.node == node);
        Ok((multigen, lruvec.ok_or(Refused::NoNode { node })?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Age = Age { cgroup: 0, node: NodeId(0), youngest: 3, swappiness: None, force_scan: true };
    const EVICT: Evict = Evict { cgroup: 0, node: NodeId(1), oldest: 2, swappiness: None, pages: u64::MAX };

    fn parsed(text: &str) -> Vec<Command> {
        Command::parse_all(text).unwrap_or_else(|bad| panic!("{bad}"))
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        assert_eq!(parsed("+ 0 0 3"), [Command::Age(AGE)]);
        assert_eq!(parsed("+0 0 3"), [Command::Age(AGE)], "as scanf reads it");
        assert_eq!(parsed("+ 0 0 3 1"), [Command::Age(Age { swappiness: Some(1), ..AGE })]);
        assert_eq!(parsed("+ 0 0 3 0 0"), [Command::Age(Age { swappiness: Some(0), force_scan: false, ..AGE })]);
        assert_eq!(parsed("- 0 1 2"), [Command::Evict(EVICT)]);
        assert_eq!(parsed("- 0 1 2 max"), [Command::Evict(Evict { swappiness: Some(ONLY_ANON), ..EVICT })]);
        assert_eq!(parsed("- 0 1 2 200 4096"), [Command::Evict(Evict { swappiness: Some(200), pages: 4096, ..EVICT })]);
    }

    #[test]
    fn several_commands_are_separated_by_commas_semicolons_and_line_ends() {
        let all = [Command::Age(AGE), Command::Evict(EVICT), Command::Age(Age { youngest: 4, ..AGE })];
        assert_eq!(parsed("+ 0 0 3, - 0 1 2; + 0 0 4\n\n"), all);
    }

    #[test]
    fn what_is_no_command_is_told_with_what_was_expected() {
        for (text, message) in [
            ("", "lru_gen: ``: expected `+` or `-`, found nothing"),
            (" ;\n", "lru_gen: `;`: expected `+` or `-`, found nothing"),
            ("age 0 0 3", "lru_gen: `age 0 0 3`: expected `+` or `-`, found `age`"),
            (
                "+",
                "lru_gen: `+`: expected MEMCG, a number, found nothing; the form is `+ MEMCG NODE MAX_GEN [CAN_SWAP [FORCE_SCAN]]`",
            ),
            ("+ root 0 3", "lru_gen: `+ root 0 3`: expected MEMCG, a number, found `root`"),
            ("+ 0 256 3", "lru_gen: `+ 0 256 3`: expected NODE, a number from 0 to 255, found `256`"),
            ("+ 0 0", "lru_gen: `+ 0 0`: expected MAX_GEN, the number of the youngest generation, found nothing"),
            (
                "+ 0 0 3 201",
                "lru_gen: `+ 0 0 3 201`: expected CAN_SWAP: 0, 1, another swappiness up to 200, or max, found `201`",
            ),
            ("+ 0 0 3 1 yes", "lru_gen: `+ 0 0 3 1 yes`: expected FORCE_SCAN: 0 or 1, found `yes`"),
            ("+ 0 0 3 1 1 1", "lru_gen: `+ 0 0 3 1 1 1`: expected the end of the command, found `1`"),
            (
                "+ 0 0 3; - 0 0 -1",
                "lru_gen: `- 0 0 -1`: expected MIN_GEN, the number of a generation, found `-1`; the form is `- MEMCG NODE MIN_GEN [SWAPPINESS [NR_TO_RECLAIM]]`",
            ),
            ("- 0 0 1 300", "lru_gen: `- 0 0 1 300`: expected SWAPPINESS: a number up to 200, or max, found `300`"),
            ("- 0 0 1 60 1G", "lru_gen: `- 0 0 1 60 1G`: expected NR_TO_RECLAIM, a number of pages, found `1G`"),
            ("é 0 0 1", "lru_gen: `é 0 0 1`: expected `+` or `-`, found `é`"),
        ] {
            let told = Command::parse_all(text).expect_err(text).to_string();
            assert!(told.starts_with(message), "{told}\ndoes not start with\n{message}");
        }
    }

    #[test]
    fn a_refusal_says_what_there_is() {
        let refused = CommandError::Refused { number: 2, why: Refused::NotYoungest { named: 3, youngest: 5 } };
        assert_eq!(refused.to_string(), "lru_gen: command 2 was refused: generation 3 is not the youngest: that is 5");
        assert_eq!(
            Refused::TooYoung { named: 4, youngest: 5 }.to_string(),
            "generation 4 is too young to be evicted: 2 stay, and the youngest is 5"
        );
    }
}

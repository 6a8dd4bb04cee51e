//! What is shown beside the figures themselves.

use crate::grid::Look;
use crate::percent::PercentRule;

/// The parts that are shown beside the figures themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Show {
    /// Published figures under the rows that have them (always in JSON and CSV).
    pub published: bool,
    /// Width and colours of tables.
    pub look: Look,
    /// The rule for the percentages in brackets.
    pub percent: PercentRule,
    /// True where a text for people is the answer and its main rows alone, if the table has some.
    pub is_short: bool,
}

//! Options for the display of figures.

use crate::grid::Look;
use crate::percent::PercentRule;

/// Options for the display of figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Show {
    /// True if published figures are shown below the rows that have them. JSON and CSV always contain them.
    pub published: bool,
    /// Width and colours of tables.
    pub look: Look,
    /// The rule for the percentages in brackets.
    pub percent: PercentRule,
    /// True if a text report contains only the answer and the main rows. Has no effect on a table without a main row.
    pub is_short: bool,
}

//! Texts of numbers for sentences, with the noun and the verb in the right form.

use std::fmt::Display;

/// Returns a number with its noun in the right form, such as "`1 run`" or "`3 runs`".
#[must_use]
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str) -> String {
    let many = if count == N::from(1) { "" } else { "s" };
    format!("{count} {one}{many}")
}

/// Returns words for the number of values that differ, such as "`1 of 9 values differs`" or "`3 of 9 values differ`".
#[must_use]
pub fn differ(count: usize, all: usize) -> String {
    let s = if count == 1 { "s" } else { "" };
    format!("{count} of {} differ{s}", counted(all, "value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_no_s() {
        assert_eq!([0_u64, 1, 2].map(|n| counted(n, "run")), ["0 runs", "1 run", "2 runs"]);
        assert_eq!([1, 2].map(|n| differ(n, 9)), ["1 of 9 values differs", "2 of 9 values differ"]);
    }
}

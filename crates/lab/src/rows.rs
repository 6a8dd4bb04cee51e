//! Which rows of a report are meant by words of the command line.

use crate::report::Table;

/// Does each of `words` fit one of `names`?
///
/// # Errors
/// When one does not: the message lists the names.
pub fn check(names: &[&str], words: &[String]) -> Result<(), String> {
    match words.iter().find(|word| !names.iter().any(|name| contains(name, word))) {
        Some(word) => Err(format!("no row has `{word}` in its name; the rows are: {}", names.join(", "))),
        None => Ok(()),
    }
}

/// Leaves the rows whose name contains one of `words`, in any case; a `.` stands for any character.
/// What a table says beside its rows stays: the fingerprint covers the whole run. Where no word fits any row, all rows stay,
/// so that the run was not for nothing.
///
/// # Errors
/// When a word fits no row, as [`check`]; the rows of the others are left all the same.
pub fn keep(table: &mut Table, words: &[String]) -> Result<(), String> {
    if words.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = table.rows.iter().map(|row| row.name.as_str()).collect();
    let checked = check(&names, words);
    let is_meant = |name: &str| words.iter().any(|word| contains(name, word));
    if table.rows.iter().any(|row| is_meant(&row.name)) {
        table.rows.retain(|row| is_meant(&row.name));
    }
    checked
}

/// Is `word` somewhere in `name`, in any case? A `.` stands for any character.
#[must_use]
pub fn contains(name: &str, word: &str) -> bool {
    let of = |text: &str| text.to_lowercase().chars().collect::<Vec<char>>();
    let (name, word) = (of(name), of(word));
    let fits = |window: &[char]| window.iter().zip(&word).all(|(c, wanted)| *wanted == '.' || c == wanted);
    word.is_empty() || name.windows(word.len()).any(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{head, ops};

    fn table() -> Table {
        let rows = ["Ops memcachetest-0M", "Kswapd pages scanned", "Direct pages scanned"];
        Table::of_runs(head(&["a"], 1), &[vec![rows.map(|name| ops(name, 1.0)).to_vec()]], None)
    }

    fn names(words: &[&str]) -> Result<Vec<String>, String> {
        let mut table = table();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        keep(&mut table, &words)?;
        Ok(table.rows.into_iter().map(|row| row.name).collect())
    }

    #[test]
    fn rows_are_found_by_parts_of_their_names_in_their_own_order() {
        assert_eq!(names(&["kswapd.pages", "MEMCACHE"]).unwrap(), ["Ops memcachetest-0M", "Kswapd pages scanned"]);
        assert_eq!(names(&["scanned"]).unwrap(), ["Kswapd pages scanned", "Direct pages scanned"]);
        assert_eq!(names(&[]).unwrap().len(), 3);
        let mut whole = table();
        assert!(keep(&mut whole, &["none".to_owned()]).is_err() && whole.rows.len() == 3);
    }

    #[test]
    fn a_word_that_fits_no_row_is_told_with_the_names() {
        let message = names(&["scanned", "swaptotal"]).unwrap_err();
        assert!(message.starts_with("no row has `swaptotal` in its name; the rows are: Ops memcachetest-0M, "));
    }
}

//! Which rows of a report are meant by words of the command line.

use crate::report::Table;

/// Does each of `words` fit one of `names`?
///
/// # Errors
/// When one does not: the message has all such words, and lists the names.
pub fn check(names: &[&str], words: &[String]) -> Result<(), String> {
    fits(names, words)?.map_or(Ok(()), Err)
}

/// Says which of `words` fit none of `names`, and lists these; none where each fits.
///
/// # Errors
/// The same where no word fits.
pub fn fits(names: &[&str], words: &[String]) -> Result<Option<String>, String> {
    let mut missing: Vec<String> = Vec::new();
    for word in words.iter().filter(|word| !names.iter().any(|name| contains(name, word))) {
        let word = format!("`{word}`");
        if !missing.contains(&word) {
            missing.push(word);
        }
    }
    if missing.is_empty() {
        return Ok(None);
    }
    // Groups and reports may have rows of one name.
    let mut known: Vec<&str> = Vec::new();
    for name in names {
        if !known.contains(name) {
            known.push(name);
        }
    }
    let message = format!("no row has {} in its name; the rows are: {}", missing.join(" or "), known.join(", "));
    let is_any = words.iter().any(|word| names.iter().any(|name| contains(name, word)));
    if is_any { Ok(Some(message)) } else { Err(message) }
}

/// Leaves the rows whose name contains one of `words`, in any case; a `.` stands for any character.
/// What a table says beside its rows stays: the fingerprint covers the whole run. Says which words fit no row, as [`fits`].
///
/// # Errors
/// When no word fits any row: all rows stay, so that the run was not for nothing.
pub fn keep(table: &mut Table, words: &[String]) -> Result<Option<String>, String> {
    keep_of_all([table], words)
}

/// The same of several tables; a word may fit rows of one of them alone.
///
/// # Errors
/// When no word fits any row of any table: all rows stay.
pub fn keep_of_all<'t>(
    tables: impl IntoIterator<Item = &'t mut Table>,
    words: &[String],
) -> Result<Option<String>, String> {
    let mut tables: Vec<&mut Table> = tables.into_iter().collect();
    let names: Vec<&str> = tables.iter().flat_map(|table| &table.rows).map(|row| row.name.as_str()).collect();
    let missing = fits(&names, words)?;
    if !words.is_empty() {
        let is_meant = |name: &str| words.iter().any(|word| contains(name, word));
        tables.iter_mut().for_each(|table| table.rows.retain(|row| is_meant(&row.name)));
    }
    Ok(missing)
}

/// Is `name`, one of `names`, meant by `word`? A word that is a whole name means that row alone, another all that contain it.
pub fn is_meant<'n>(name: &str, word: &str, mut names: impl Iterator<Item = &'n str>) -> bool {
    if names.any(|it| it.eq_ignore_ascii_case(word)) { name.eq_ignore_ascii_case(word) } else { contains(name, word) }
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
        let names = ["Ops memcachetest-0M", "Kswapd pages scanned", "Ops memcachetest-0M"];
        let of = |words: &[&str]| fits(&names, &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let listed = "in its name; the rows are: Ops memcachetest-0M, Kswapd pages scanned";
        let expected = format!("no row has `swaptotal` or `b` {listed}");
        assert_eq!(of(&["scanned", "swaptotal", "b", "b"]), Ok(Some(expected.clone())));
        assert_eq!(of(&["swaptotal", "b"]), Err(expected));
        assert_eq!((of(&["scanned"]), of(&[])), (Ok(None), Ok(None)));
        let words = ["scanned", "b"].map(str::to_owned);
        assert!(check(&names, &words).is_err() && check(&names, &words[..1]).is_ok());
        assert!(keep(&mut table(), &words).unwrap().unwrap().starts_with("no row has `b` in"));
    }
}

//! Selection of rows by words on the command line.

use crate::grid::{Look, hanging};
use crate::table::{Table, TableRow};
use figures::figure::RowName;

/// Checks that each of `words` matches one of the rows `names`.
///
/// # Errors
/// When a word matches no row. The message lists all such words, and the rows with similar names, or all rows by block if
/// no name is similar.
pub fn check(names: &[RowName], words: &[String]) -> Result<(), String> {
    match missing(names, words) {
        None => Ok(()),
        Some(Missing { message, has_near: true }) => Err(message),
        Some(Missing { message, .. }) => Err(format!("{message}; {}", listed(names))),
    }
}

/// A message about words that match no row.
struct Missing {
    message: String,
    /// True if the message names rows with similar names.
    has_near: bool,
}

/// Returns a message about the words that match none of the rows `names`, with rows of similar names; none if each
/// word matches.
///
/// # Errors
/// When no word matches any row. The error is that of [`check`].
pub fn fits(names: &[RowName], words: &[String]) -> Result<Option<String>, String> {
    match missing(names, words) {
        Some(_) if !words.iter().any(|word| means_any(names, word)) => check(names, words).map(|()| None),
        missing => Ok(missing.map(|it| it.message)),
    }
}

/// Returns the start of a message that lists the words that match no row; none if each word matches one.
fn missing(names: &[RowName], words: &[String]) -> Option<Missing> {
    let mut missing: Vec<&str> = Vec::new();
    for word in words.iter().filter(|word| !means_any(names, word)) {
        if !missing.contains(&word.as_str()) {
            missing.push(word);
        }
    }
    let quoted =
        |words: &[&str], between| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(between);
    let near: Vec<&str> = near(names, &missing);
    let has_near = !near.is_empty();
    let near = if has_near { format!("; near are {}", quoted(&near, ", ")) } else { String::new() };
    let message = || format!("no row has {} in its name, and no block is called so{near}", quoted(&missing, " or "));
    (!missing.is_empty()).then(|| Missing { message: message(), has_near })
}

/// Largest number of similar row names that an error message about an unknown row proposes.
const NEAR_MAX: usize = 5;

/// Returns the names of rows that have a part in common with one of `words`, exactly or nearly. The best match is
/// first.
fn near<'n>(names: &'n [RowName], words: &[&str]) -> Vec<&'n str> {
    let pieces = |text: &str| -> Vec<String> {
        let pieces = text.split(|c: char| !c.is_alphanumeric()).filter(|piece| piece.len() > 2);
        pieces.map(str::to_lowercase).collect()
    };
    let known: Vec<(&str, Vec<String>)> = names.iter().map(|row| (row.name.as_str(), pieces(&row.name))).collect();
    let all = || known.iter().flat_map(|(_, pieces)| pieces).map(String::as_str);
    let wanted: Vec<&str> =
        words.iter().flat_map(|word| pieces(word)).filter_map(|piece| placed::nearest(&piece, all())).collect();
    let mut found: Vec<(usize, &str)> = Vec::new();
    for (name, pieces) in &known {
        let shared = pieces.iter().filter(|piece| wanted.contains(&piece.as_str())).count();
        if shared > 0 && !found.iter().any(|(_, other)| other == name) {
            found.push((shared, name));
        }
    }
    found.sort_by_key(|(shared, _)| std::cmp::Reverse(*shared));
    found.into_iter().map(|(_, name)| name).take(NEAR_MAX).collect()
}

/// Returns a text that lists all rows by group, for the end of a message.
#[must_use]
pub fn listed(names: &[RowName]) -> String {
    let mut blocks: Vec<(&str, Vec<&str>)> = Vec::new();
    for RowName { group, name } in names {
        match blocks.iter_mut().find(|(known, _)| known == group) {
            // Reports of several experiments may have rows with equal names, which are listed once.
            Some((_, rows)) if rows.contains(&name.as_str()) => {}
            Some((_, rows)) => rows.push(name),
            None => blocks.push((group, vec![name])),
        }
    }
    let width = blocks.iter().map(|(group, _)| group.chars().count()).max().unwrap_or(0);
    let block = |(group, rows): &(&str, Vec<&str>)| {
        // A line is not broken within a name.
        let rows: Vec<String> = rows.iter().map(|name| name.replace(' ', UNBROKEN)).collect();
        hanging(&format!("  {group:width$}  "), &rows.join(", "), Look::default()).replace(UNBROKEN, " ")
    };
    let blocks: String = blocks.iter().map(block).collect();
    format!("the rows by block:\n{}", blocks.trim_end())
}

/// Character that replaces the spaces in names, so that no line is broken within a name. The Unicode non-breaking space
/// cannot be used, because `split_whitespace` splits at it, too.
const UNBROKEN: &str = "\u{2060}";

/// Returns whether a word matches any of the rows `names`.
#[must_use]
pub fn means_any(names: &[RowName], word: &str) -> bool {
    names.iter().any(|RowName { group, name }| is_meant(group, name, word))
}

/// Returns whether a word matches a row: the word is a part of the row's name, or is the name of the row's block.
#[must_use]
pub fn is_meant(group: &str, name: &str, word: &str) -> bool {
    contains(name, word) || group.to_lowercase() == word.to_lowercase()
}

/// Keeps only the rows that `words` match. A word matches a row if it is a part of the row's name, or if it is the name
/// of the row's block. Case does not matter, and `.` matches any character. Other parts of the table stay, since the
/// fingerprint covers the whole run. Returns a message about words that match no row, as [`fits`] does.
///
/// # Errors
/// When no word matches any row. All rows then stay, so that the results of the run are not lost.
pub fn keep(table: &mut Table, words: &[String]) -> Result<Option<String>, String> {
    keep_of_all([table], words)
}

/// Keeps in several tables only the rows that match one of `words`; keeps all rows if `words` is empty. A word need not
/// match a row of every table. Returns a message that names the words which match no row of any table, if there are
/// any.
///
/// # Errors
/// When no word matches any row of any table. The tables then stay as they are.
pub fn keep_of_all<'t>(
    tables: impl IntoIterator<Item = &'t mut Table>,
    words: &[String],
) -> Result<Option<String>, String> {
    let mut tables: Vec<&mut Table> = tables.into_iter().collect();
    let names: Vec<RowName> = tables.iter().flat_map(|table| table.row_names()).collect();
    let missing = fits(&names, words)?;
    if !words.is_empty() {
        let is_meant = |row: &TableRow| words.iter().any(|word| is_meant(&row.group, &row.name, word));
        tables.iter_mut().for_each(|table| table.rows.retain(is_meant));
    }
    Ok(missing)
}

/// Returns whether `word` matches `name`, which is one of `names`. A word that equals one of the names matches only
/// this name. Any other word matches all names that contain it.
#[must_use]
pub fn is_named<'n>(name: &str, word: &str, mut names: impl Iterator<Item = &'n str>) -> bool {
    if names.any(|it| it.eq_ignore_ascii_case(word)) { name.eq_ignore_ascii_case(word) } else { contains(name, word) }
}

/// Returns whether `name` contains `word`. Case does not matter, and `.` matches any character.
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
    use crate::samples::{head, ops};
    use figures::figure::duration_rows;

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
    fn a_block_is_meant_by_its_name() {
        let rows = vec![vec![[vec![ops("Ops a", 1.0)], duration_rows(1.0, 2.0, 3.0)].concat()]];
        let mut table = Table::of_runs(head(&["a"], 1), &rows, None);
        assert_eq!(keep(&mut table, &["DURATION".to_owned()]), Ok(None));
        assert_eq!(table.rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["User", "System", "Elapsed"]);
    }

    #[test]
    fn a_word_that_fits_no_row_is_told_with_those_that_are_near() {
        let names: Vec<RowName> = ["Ops memcachetest-0M", "Kswapd pages scanned", "Ops memcachetest-0M"]
            .map(|name| RowName { group: "Ops".into(), name: name.into() })
            .into();
        let of = |words: &[&str]| fits(&names, &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let listed = "the rows by block:\n  Ops  Ops memcachetest-0M, Kswapd pages scanned";
        let missing = "no row has `xyzzy` or `b` in its name, and no block is called so";
        assert_eq!(of(&["scanned", "xyzzy", "b", "b"]), Ok(Some(missing.to_owned())));
        assert_eq!(of(&["xyzzy", "b"]), Err(format!("{missing}; {listed}")));
        assert_eq!((of(&["scanned"]), of(&[])), (Ok(None), Ok(None)));
        let near = of(&["pgscan_kswpad"]).unwrap_err();
        assert!(near.ends_with("is called so; near are `Kswapd pages scanned`"), "{near}");
        let words = ["scanned", "b"].map(str::to_owned);
        assert!(check(&names, &words).is_err() && check(&names, &words[..1]).is_ok());
        assert!(keep(&mut table(), &words).unwrap().unwrap().starts_with("no row has `b` in"));
    }

    #[test]
    fn a_hundred_names_are_told_by_block_on_lines_that_fit() {
        let names: Vec<RowName> = (0..130)
            .map(|n| RowName { group: ["Ops", "vmstat"][n % 2].into(), name: format!("Pages of kind {n}") })
            .collect();
        let message = check(&names, &["xyzzy".to_owned()]).unwrap_err();
        assert!(message.lines().skip(1).all(|line| line.chars().count() <= 100), "{message}");
        assert!(message.contains("\n  vmstat  Pages of kind 1, Pages of kind 3,"), "{message}");
        assert!(message.lines().all(|line| !line.ends_with("Pages")), "no name is broken: {message}");
    }
}

//! Checks citations of the book in `docs/mechanisms`: each must name an existing chapter and existing sections.
//!
//! A citation is `mechanisms/CHAPTER, SECTION`, where the sections may be a list: `12.1 and 12.2`, `1 to 7`, `8, 9`. A
//! chapter is a file `docs/mechanisms/CHAPTER.md`, or all files in a folder with the chapter's name; a section is a
//! heading that begins with its number. Inside the book, `§12.3` is a section of the chapter that contains it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    Outcome,
    readme::{files_below, files_of, prose, read},
};

/// Folders that may contain citations, each with the extensions of the files to read.
const CITING: [(&str, &[&str]); 3] = [("crates", &["rs", "toml", "md"]), ("xtask", &["rs"]), ("docs", &["md", "toml"])];

/// The beginning of a citation.
const BOOK: &str = "mechanisms/";

/// The section numbers in each chapter.
type Chapters = BTreeMap<String, BTreeSet<String>>;

/// Checks that every citation names an existing section: in code, in kernel, machine and experiment files, and in
/// texts.
pub fn check(root: &Path) -> Outcome {
    let chapters = chapters(&root.join("docs/mechanisms"))?;
    let mut files: Vec<_> = CITING.iter().flat_map(|(folder, ends)| files_below(&root.join(folder), ends)).collect();
    files.extend(files_of(root, &["md"]));
    let mut wrong = Vec::new();
    for path in files {
        let text = read(&path)?;
        let own = chapter_of(root, &path);
        for (index, line) in text.lines().enumerate() {
            for what in faults(line, own.as_deref(), &chapters) {
                wrong.push(format!("{}:{}: {what}", path.display(), index + 1));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\nerror: ")) }
}

/// Returns the chapter that a file of the book belongs to; `None` for the book's index and for files outside of the
/// book.
fn chapter_of(root: &Path, path: &Path) -> Option<String> {
    let inside = path.strip_prefix(root.join("docs/mechanisms")).ok()?;
    let first = inside.components().next()?.as_os_str().to_str()?;
    (first != "README.md").then(|| first.trim_end_matches(".md").to_owned())
}

/// Returns the chapters with their section numbers, from the headings of the book. A repeated number in a chapter is an
/// error.
fn chapters(book: &Path) -> Result<Chapters, String> {
    let mut chapters = Chapters::new();
    for path in files_below(book, &["md"]) {
        let Some(chapter) = chapter_of(book.parent().and_then(Path::parent).unwrap_or(book), &path) else { continue };
        let sections = chapters.entry(chapter).or_default();
        for (line, text) in prose(&read(&path)?) {
            let heading = text.strip_prefix('#').map(|rest| rest.trim_start_matches('#').trim_start());
            if let Some((number, _)) = heading.and_then(number)
                && !sections.insert(number.to_owned())
            {
                return Err(format!("{}:{line}: section {number} stands twice in this chapter", path.display()));
            }
        }
    }
    Ok(chapters)
}

/// Returns a message for each mistake in the citations on a line of text. `own` is the name of the chapter that
/// contains the line, if any.
fn faults(line: &str, own: Option<&str>, chapters: &Chapters) -> Vec<String> {
    let mut faults = Vec::new();
    let has = |chapter: &str, section: &str| chapters.get(chapter).is_some_and(|sections| sections.contains(section));
    for (at, _) in line.match_indices(BOOK) {
        let rest = &line[at + BOOK.len()..];
        let length = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(rest.len());
        let (chapter, rest) = rest.split_at(length);
        if chapter.is_empty() || rest.starts_with('/') || rest.starts_with(".md") {
            continue; // a path, which the check of links covers
        }
        let Some(listed) = rest.strip_prefix(", ") else {
            if !rest.is_empty() && !chapters.contains_key(chapter) || rest == "," {
                faults
                    .push(format!("`{BOOK}{chapter}` names no section on this line, or no chapter of docs/mechanisms"));
            }
            continue;
        };
        let (sections, is_cut) = sections(listed);
        if !chapters.contains_key(chapter) {
            let known: Vec<_> = chapters.keys().map(String::as_str).collect();
            faults.push(format!("docs/mechanisms has no chapter `{chapter}`; it has {}", known.join(", ")));
        } else if sections.is_empty() || is_cut {
            faults.push(format!("`{BOOK}{chapter}, …` needs its section numbers on the same line"));
        }
        let missing = sections.into_iter().filter(|section| chapters.contains_key(chapter) && !has(chapter, section));
        faults.extend(missing.map(|section| format!("docs/mechanisms has no section {section} in `{chapter}`")));
    }
    for (at, sign) in line.match_indices('§') {
        let Some(own) = own else { break };
        if let Some((section, _)) = number(&line[at + sign.len()..])
            && !has(own, section)
        {
            faults.push(format!("§{section}: no such section in `{own}`"));
        }
    }
    faults
}

/// Returns the section numbers at the start of a text, and whether the list continues after the end of the line.
fn sections(mut text: &str) -> (Vec<&str>, bool) {
    let mut sections = Vec::new();
    while let Some((section, rest)) = number(text) {
        sections.push(section);
        let Some(next) = [", and ", ", ", " and ", " to "].iter().find_map(|between| rest.strip_prefix(between)) else {
            return (sections, rest == ",");
        };
        text = next;
    }
    let is_cut = text.is_empty();
    (sections, is_cut)
}

/// Returns the section number at the start of a text, and the rest of the text; `None` if there is no number. `37*` and
/// `23pv` are kernels, not numbers.
fn number(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let digits = text[..end].trim_end_matches('.');
    let rest = &text[digits.len()..];
    let is_row = rest.starts_with('*') && !rest.starts_with("**");
    let is_word = is_row || rest.starts_with(|c: char| c.is_alphanumeric() || c == '%');
    (!digits.is_empty() && !digits.starts_with('.') && !is_word).then_some((digits, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cite(rest: &str) -> Vec<String> {
        let sections = ["1", "12.1", "12.3", "20"].map(str::to_owned);
        let chapters = Chapters::from([("reclaim".to_owned(), BTreeSet::from(sections))]);
        faults(&format!("// see {BOOK}{rest}"), Some("reclaim"), &chapters)
    }

    #[test]
    fn citations_of_sections_that_exist_pass() {
        for good in [
            "reclaim, 12.3",
            "reclaim, 12.3: a reason",
            "reclaim, 12.1 and 12.3, row 23",
            "reclaim, 1 to 20.",
            "reclaim, 12.1, 37*",
            "reclaim, 12.1** (below)",
            "reclaim, 20, 23pv",
            "reclaim/lru.md",
            "reclaim.md",
            "reclaim has it",
            "reclaim, 1; §12.3",
        ] {
            assert_eq!(cite(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn unknown_chapters_and_sections_are_named() {
        for (bad, said) in [
            ("reclaim, 12.2", "no section 12.2 in `reclaim`"),
            ("reclaim, 12.1 and 13", "no section 13 "),
            ("reclaim, 1, 2", "no section 2 "),
            ("reclam, 1", "no chapter `reclam`; it has reclaim"),
            ("reclaim,", "no section on this line"),
            ("reclaim, chapter 3", "needs its section numbers"),
            ("reclaim, 1, 12.1,", "on the same line"),
            ("reclaim, 1 and §7", "§7: no such section"),
        ] {
            let faults = cite(bad);
            assert!(faults.len() == 1 && faults[0].contains(said), "{bad}: {faults:?}");
        }
    }

    #[test]
    fn citations_of_this_repository_lead_somewhere() {
        check(&crate::root()).unwrap();
    }
}

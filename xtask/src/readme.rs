//! Inserts the output of commands into texts, and checks the links in texts.
//!
//! Between `<!-- spliced: COMMAND -->` and `<!-- end -->` there is a command with its output. `cargo xtask readme`
//! inserts both, so that no table in a text is older than the code. The command is `highwater …` or `cargo …`; with `|
//! head -N` at its end only the first N lines of output are kept.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Outcome, highwater, output, splice::spliced};

const BEGIN: &str = "<!-- spliced: ";

/// Returns the paths of the project's texts: the Markdown files in the folder `root`, and those below its folder
/// `docs`.
pub fn texts(root: &Path) -> Vec<PathBuf> {
    let mut texts = files_below(&root.join("docs"), &["md"]);
    texts.extend(files_of(root, &["md"]));
    texts.sort();
    texts
}

/// Returns the paths of the files in a folder whose extension is one of `endings`.
pub fn files_of(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = entries(folder).filter(|path| path.is_file()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| endings.iter().any(|it| ending == *it)));
    files.sort();
    files
}

/// Returns the paths of the files in a folder and in the folders below it whose extension is one of `endings`.
pub fn files_below(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let deeper = entries(folder).filter(|path| path.is_dir() && !path.ends_with("target"));
    let mut files: Vec<PathBuf> = deeper.flat_map(|path| files_below(&path, endings)).collect();
    files.extend(files_of(folder, endings));
    files.sort();
    files
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Returns the text of a file.
pub fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs the commands that the Markdown texts quote, and replaces the outputs in the texts by the present ones. If
/// `is_check` is true, changes no text and fails if an output is stale.
pub fn splice(root: &Path, is_check: bool) -> Outcome {
    let mut stale = Vec::new();
    for path in texts(root) {
        let old = read(&path)?;
        if !old.contains(BEGIN) {
            continue;
        }
        let print = |command: &str| Ok(Some(quoted(command, &printed_by(command)?)));
        let new = spliced(&old, BEGIN, &print).map_err(|error| format!("{}: {error}", path.display()))?;
        if new == old {
            continue;
        }
        stale.push(path.display().to_string());
        if !is_check {
            fs::write(&path, new).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    match (stale.is_empty(), is_check) {
        (false, true) => Err(format!("stale, run cargo xtask readme: {}", stale.join(", "))),
        _ => Ok(()),
    }
}

/// Runs a command that a text quotes. Returns the standard output, or only the lines of it that `| head -N` keeps.
fn printed_by(command: &str) -> Result<String, String> {
    let (run, lines) = match command.split_once(" | head -") {
        Some((run, lines)) => (run, lines.parse().map_err(|_| format!("{command}: no number behind `head -`"))?),
        None => (command, usize::MAX),
    };
    let words: Vec<&str> = run.split_whitespace().collect();
    let printed = match words.as_slice() {
        ["highwater", arguments @ ..] => output(&highwater()?, arguments)?,
        ["cargo", arguments @ ..] => output(Path::new("cargo"), arguments)?,
        _ => return Err(format!("{command}: neither `highwater` nor `cargo`")),
    };
    Ok(printed.lines().take(lines).map(|line| format!("{line}\n")).collect())
}

/// Returns a command and its output as a code block of Markdown.
pub fn quoted(command: &str, printed: &str) -> String {
    format!("```text\n$ {command}\n{}\n```", printed.trim_end())
}

/// Checks that every relative link in a text points to an existing file, and to an existing heading if the link names
/// one.
pub fn links(root: &Path) -> Outcome {
    let mut broken = Vec::new();
    for path in texts(root) {
        for (line, target) in targets(&read(&path)?) {
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let file = if file.is_empty() { path.clone() } else { path.with_file_name("").join(file) };
            let has_heading =
                || heading.is_empty() || read(&file).is_ok_and(|text| headings(&text).any(|it| it == heading));
            if !file.exists() || !has_heading() {
                broken.push(format!("{}:{line}: nothing at {target}", path.display()));
            }
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(broken.join("\nerror: ")) }
}

/// Returns the lines of a text that are not in fenced code, with their numbers from 1.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}

/// Returns each relative link of a text: the number of its line, and its target.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in prose(text) {
        for part in text.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push((line, target.to_owned()));
            }
        }
    }
    found
}

/// Returns the headings of a text in the form in which links name them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter_map(|(_, line)| {
        let heading = line.strip_prefix('#')?.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        Some(kept.map(|c| if c == ' ' { '-' } else { c }).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_commands_get_what_they_print() {
        let old = "<!-- spliced: highwater list -->\nold\n<!-- end -->\n";
        let new = spliced(old, BEGIN, &|command| Ok(Some(quoted(command, "list printed\n")))).unwrap();
        assert_eq!(
            new,
            "<!-- spliced: highwater list -->\n```text\n$ highwater list\nlist printed\n```\n<!-- end -->\n"
        );
    }

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "# One thing, at once\nsee [a](b.md#c) and [d](https://e)\n```\n[no](x)\n```\n";
        assert_eq!(targets(text), [(2, "b.md#c".to_owned())]);
        assert_eq!(headings(text).collect::<Vec<_>>(), ["one-thing-at-once"]);
    }

    #[test]
    fn links_of_this_repository_lead_somewhere() {
        links(&crate::root()).unwrap();
    }
}

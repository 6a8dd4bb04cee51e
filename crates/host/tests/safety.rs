//! Tests that docs/safety.md names every file with unsafe code, every public unsafe trait and every public unsafe
//! function.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 4] = ["machine", "engine", "sim", "host"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/").to_owned()
}

/// Adds the paths of all Rust files in `folder` and its subfolders to `found`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
}

/// Returns the code lines of a file, without comments and strings as far as a single line shows them.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.starts_with("//")).map(|line| line.split("//").next().unwrap_or(""))
}

/// Returns the name that follows `words` at the beginning of a line of code; `None` if the line begins otherwise.
fn declared<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(words)?;
    Some(&rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())])
}

/// Returns all words between backticks in the first column of the tables of `page`, a Markdown text.
fn listed(page: &str) -> BTreeSet<String> {
    let first_cells = page.lines().filter(|line| line.starts_with("| `")).map(|line| line.split('|').nth(1).unwrap());
    first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn the_page_of_unsafe_code_names_all_of_it() {
    let page = fs::read_to_string(crates().join("../docs/safety.md")).unwrap();
    let listed = listed(&page);
    let (mut with_unsafe, mut missing) = (BTreeSet::new(), Vec::new());
    for name in CRATES {
        let mut files = Vec::new();
        sources(&crates().join(name).join("src"), &mut files);
        for file in files {
            let path = file.strip_prefix(crates()).unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&file).unwrap();
            let has_unsafe = |line: &str| {
                ["unsafe {", "unsafe impl", "unsafe fn", "unsafe trait"].iter().any(|word| line.contains(word))
            };
            if code(&text).any(has_unsafe) {
                with_unsafe.insert(path.clone());
            }
            for line in code(&text) {
                let public_trait = declared(line, "pub trait ").or_else(|| declared(line, "pub unsafe trait "));
                if let Some(name) = public_trait.filter(|name| !page.contains(&format!("`{name}`"))) {
                    missing.push(format!("{path}: trait {name}"));
                }
                if let Some(name) =
                    declared(line, "pub unsafe fn ").filter(|name| !page.contains(&format!("::{name}`")))
                {
                    missing.push(format!("{path}: unsafe fn {name}"));
                }
                assert!(
                    !line.starts_with("pub unsafe trait ") || !page.contains("None of them is unsafe"),
                    "{path}: {line}"
                );
            }
        }
    }
    assert!(missing.is_empty(), "docs/safety.md does not name {missing:?}");
    let files: BTreeSet<String> = listed.into_iter().filter(|name| name.ends_with(".rs")).collect();
    assert_eq!(files, with_unsafe, "files with unsafe code, as docs/safety.md has them (left) and as they are");
}

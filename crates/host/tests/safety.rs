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

/// The sentence of the page that says that there are no public unsafe traits.
const NO_UNSAFE_TRAIT: &str = "No public trait is unsafe.";

/// Returns the name of the public unsafe function that a line of code declares; `None` if the line declares none.
fn unsafe_function(line: &str) -> Option<&str> {
    let (qualifiers, rest) = line.strip_prefix("pub ")?.split_once("fn ")?;
    let known = |word: &str| ["const", "async", "unsafe", "extern"].contains(&word) || word.starts_with('"');
    let mut words = qualifiers.split_whitespace();
    let is_unsafe = words.clone().any(|word| word == "unsafe") && words.all(known);
    is_unsafe.then(|| declared(rest, "")).flatten()
}

/// Returns the public traits and public unsafe functions of a file that `page` does not name, and the public unsafe
/// traits if the page says that there are none.
fn missing(page: &str, path: &str, text: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for line in code(text) {
        let unsafe_trait = declared(line, "pub unsafe trait ");
        let public_trait = unsafe_trait.or_else(|| declared(line, "pub trait "));
        if let Some(name) = public_trait.filter(|name| !page.contains(&format!("`{name}`"))) {
            missing.push(format!("{path}: trait {name}"));
        }
        if let Some(name) = unsafe_trait.filter(|_| page.contains(NO_UNSAFE_TRAIT)) {
            missing.push(format!("{path}: unsafe trait {name}"));
        }
        if let Some(name) = unsafe_function(line).filter(|name| !page.contains(&format!("::{name}`"))) {
            missing.push(format!("{path}: unsafe fn {name}"));
        }
    }
    missing
}

/// The check of the page finds what a page does not name.
#[test]
fn what_a_page_does_not_name_is_missing() {
    let text = "
        pub trait Known {}
        pub trait Other: Send {}
        pub unsafe trait Promised {}
        // pub unsafe fn comment() {}
        pub unsafe fn new() -> Self {
        pub const unsafe fn constant<T>() {}
        pub unsafe extern \"C\" fn foreign() {}
        pub const fn safe() { unsafe { call() } }
        pub(crate) unsafe fn own() {}
    ";
    let page = format!("{NO_UNSAFE_TRAIT} `Known` `Promised` `A::new`");
    let expected = ["f: trait Other", "f: unsafe trait Promised", "f: unsafe fn constant", "f: unsafe fn foreign"];
    assert_eq!(missing(&page, "f", text), expected);
    assert_eq!(missing("`Known` `Other` `Promised` `A::new` `constant` `x::foreign`", "f", text), expected[2..3]);
}

#[test]
fn the_page_of_unsafe_code_names_all_of_it() {
    let page = fs::read_to_string(crates().join("../docs/safety.md")).unwrap();
    assert!(page.contains(NO_UNSAFE_TRAIT), "without this sentence, unsafe traits are not looked for");
    let listed = listed(&page);
    let (mut with_unsafe, mut not_named) = (BTreeSet::new(), Vec::new());
    for name in CRATES {
        let mut files = Vec::new();
        sources(&crates().join(name).join("src"), &mut files);
        for file in files {
            let path = file.strip_prefix(crates()).unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&file).unwrap();
            let has_unsafe = |line: &str| {
                ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern", "unsafe trait"]
                    .iter()
                    .any(|word| line.contains(word))
            };
            if code(&text).any(has_unsafe) {
                with_unsafe.insert(path.clone());
            }
            not_named.extend(missing(&page, &path, &text));
        }
    }
    assert!(not_named.is_empty(), "docs/safety.md does not name {not_named:?}");
    let files: BTreeSet<String> = listed.into_iter().filter(|name| name.ends_with(".rs")).collect();
    assert_eq!(files, with_unsafe, "files with unsafe code, as docs/safety.md has them (left) and as they are");
}

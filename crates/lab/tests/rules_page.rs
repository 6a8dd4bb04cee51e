//! Tests that `docs/mechanisms/since.md`, the table of rules by release, agrees with the kernel files.
//!
//! `HIGHWATER_BLESS=1 cargo test --package highwater-lab --test rules_page` writes the last column of the table.

use engine::kernel::{Kernel, Origin, Setting};
use lab::find;
use lab::versions::{Version, released, version};
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/mechanisms/since.md";

/// The release with which the page's table compares all later releases. Only the later releases have rows in the table.
const FIRST: Version = (3, 10);

/// A kernel file of a release after [`FIRST`].
struct File {
    version: Version,
    has_generations: bool,
    kernel: Kernel,
}

impl File {
    fn setting(&self, path: &str) -> &Setting {
        let found = self.kernel.settings.iter().find(|it| format!("{}.{}", it.section, it.key) == path);
        found.unwrap_or_else(|| panic!("{PAGE}: there is no choice `{path}`"))
    }

    fn has(&self, rule: &Rule) -> bool {
        text(self.setting(&rule.path)) == rule.value
    }

    /// Returns whether the file deliberately leaves out the rule with this path.
    fn leaves_out(&self, path: &str) -> bool {
        matches!(&self.setting(path).origin, Origin::File { source: Some(source), .. } if source.starts_with("simplified"))
    }
}

/// A row of the table: a choice and its value, and the releases in which the choice has this value.
struct Rule {
    since: Version,
    until: Option<Version>,
    /// `true` if only kernels with generations (multi-gen LRU) have the rule, `false` if only kernels with active and
    /// inactive lists have it, none if both do.
    has_generations: Option<bool>,
    path: String,
    value: String,
}

impl Rule {
    /// Reads a rule from the cells of a row. Returns none if the row has no rule.
    fn read(cells: &[&str]) -> Option<Self> {
        let [releases, of, choice, ..] = cells else { return None };
        let (path, value) = choice.strip_prefix('`')?.strip_suffix('`')?.split_once("` = `")?;
        let release = |word: &str| version(word).unwrap_or_else(|| panic!("{PAGE}: {word} is no release"));
        let (since, until) = releases.split_once(" to ").unwrap_or((releases, ""));
        let has_generations = match *of {
            "all" => None,
            "lists" => Some(false),
            "generations" => Some(true),
            other => panic!("{PAGE}: expected all, lists or generations, found {other}"),
        };
        let until = (!until.is_empty()).then(|| release(until));
        Some(Self { since: release(since), until, has_generations, path: path.into(), value: value.into() })
    }

    fn is_of(&self, file: &File) -> bool {
        self.has_generations.is_none_or(|it| it == file.has_generations)
    }

    fn holds_in(&self, file: &File) -> bool {
        self.is_of(file) && self.since <= file.version && self.until.is_none_or(|until| file.version <= until)
    }
}

fn files() -> Vec<File> {
    let of = |has_generations| {
        let later = released(has_generations).into_iter().filter(|(version, _)| *version > FIRST);
        later.map(move |(version, name)| File { version, has_generations, kernel: find::kernel(name).unwrap() })
    };
    let mut files: Vec<File> = of(false).chain(of(true)).collect();
    files.sort_by(|one, other| (one.version, &one.kernel.name).cmp(&(other.version, &other.kernel.name)));
    files
}

/// Returns the value of a setting in the form that the table uses.
fn text(setting: &Setting) -> String {
    setting.value.to_string().trim_matches('"').to_owned()
}

/// Returns the cells of a table's line; empty for a line that is not part of a table.
fn cells(line: &str) -> Vec<&str> {
    let inside = line.strip_prefix("| ").and_then(|line| line.strip_suffix('|'));
    inside.map_or_else(Vec::new, |inside| inside.split('|').map(str::trim).collect())
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the text for a rule's last column: the releases whose files have the rule, then the names of files of these
/// releases without it.
fn in_files(rule: &Rule, files: &[File]) -> String {
    let release = |file: &File| format!("{}.{}", file.version.0, file.version.1);
    let inside: Vec<&File> = files.iter().filter(|file| rule.holds_in(file)).collect();
    let (first, last) = (inside.first().expect("a rule of a file"), inside.last().expect("a rule of a file"));
    let mut cell = match rule.until {
        None => format!("from {} on", release(first)),
        Some(_) if release(first) == release(last) => release(first),
        Some(_) => format!("{} to {}", release(first), release(last)),
    };
    let without: Vec<String> =
        inside.iter().filter(|file| !file.has(rule)).map(|file| format!("`{}`", file.kernel.name)).collect();
    if !without.is_empty() {
        cell.push_str(&format!(", not {}", without.join(", ")));
    }
    cell
}

#[test]
fn each_rule_is_in_the_files_of_its_releases_and_in_no_other() {
    let (page, files) = (page(), files());
    let rules: Vec<Rule> = page.lines().filter_map(|line| Rule::read(&cells(line))).collect();
    assert!(rules.len() > 60, "{} rules", rules.len());
    for (rule, file) in rules.iter().flat_map(|rule| files.iter().map(move |file| (rule, file))) {
        if !rule.is_of(file) {
            continue;
        }
        let (name, path, value) = (&file.kernel.name, &rule.path, &rule.value);
        let is_so = file.has(rule) == rule.holds_in(file) || !file.has(rule) && file.leaves_out(path);
        let expected = if rule.holds_in(file) { "expected" } else { "not expected" };
        assert!(is_so, "{name}: `{path}` is {}, {value} is {expected} by {PAGE}", text(file.setting(path)));
    }
}

#[test]
fn each_value_that_is_not_of_3_10_has_a_row() {
    let (page, files) = (page(), files());
    let rules: Vec<Rule> = page.lines().filter_map(|line| Rule::read(&cells(line))).collect();
    let old = find::kernel("3.10-rc4-vanilla").unwrap();
    for file in &files {
        for (setting, old) in file.kernel.settings.iter().zip(&old.settings) {
            let path = format!("{}.{}", setting.section, setting.key);
            let is_told = setting.value == old.value
                || file.leaves_out(&path)
                || rules.iter().any(|rule| rule.path == path && rule.holds_in(file) && file.has(rule));
            assert!(is_told, "{}: `{path}` = {} has no row in {PAGE}", file.kernel.name, text(setting));
        }
    }
}

#[test]
fn the_last_column_names_the_files() {
    let (page, files) = (page(), files());
    let line = |line: &str| match Rule::read(&cells(line)) {
        Some(rule) => {
            let cells = cells(line);
            let kept = cells[..cells.len() - 1].join(" | ");
            format!("| {kept} | {} |\n", in_files(&rule, &files))
        }
        None => format!("{line}\n"),
    };
    let expected: String = page.lines().map(line).collect();
    if std::env::var_os("HIGHWATER_BLESS").is_some() {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE), &expected).unwrap();
        return;
    }
    let stale = "is stale: HIGHWATER_BLESS=1 cargo test --package highwater-lab --test rules_page";
    assert!(page == expected, "{PAGE} {stale}");
}

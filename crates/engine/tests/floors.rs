//! A call to a floor (layer of the engine) that lies more than one floor down names the floor: `self.lru().put(…)`. Rust
//! would not ask for this, because each floor dereferences to the next.

#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The main types of the floors, from the highest to the lowest, each with the method that names the floor.
const FLOORS: [(&str, &str); 12] = [
    ("Access", "access"),
    ("Allocate", "allocate"),
    ("Reclaim", "reclaim"),
    ("Compact", "compact"),
    ("Migrate", "migrate"),
    ("Lru", "lru"),
    ("Writeback", "writeback"),
    ("Anonymous", "anonymous"),
    ("Swap", "swap_floor"),
    ("PageCache", "page_cache"),
    ("Slab", "slab"),
    ("Memory", "memory"),
];

/// The body of an `impl` block of a floor's main type.
struct Block {
    file: PathBuf,
    floor: usize,
    body: String,
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Returns the `impl` blocks of the floors' main types, without comments.
fn blocks() -> Vec<Block> {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    files.sort();
    let mut blocks = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let is_floor = |(name, _): &(&str, &str)| line.ends_with(&format!(" {name}<M> {{"));
            let Some(floor) = FLOORS.iter().position(is_floor).filter(|_| line.starts_with("impl")) else { continue };
            let body = lines.by_ref().take_while(|line| *line != "}").map(|line| line.split("//").next().unwrap());
            blocks.push(Block { file: file.clone(), floor, body: body.collect::<Vec<_>>().join("\n") });
        }
    }
    blocks
}

/// Returns the name at the beginning of a text.
fn name(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap()
}

/// Returns the names of the methods that a body declares.
fn methods(body: &str) -> impl Iterator<Item = &str> {
    let takes_self = |parameters: &str| {
        let first = parameters.split_once('(').and_then(|(_, rest)| rest.split([',', ')', ':']).next());
        first.is_some_and(|first| first.ends_with("self"))
    };
    body.split("fn ").skip(1).filter(move |text| takes_self(text)).map(name)
}

/// Returns the names of the methods that a body calls on `self`.
fn calls(body: &str) -> impl Iterator<Item = &str> {
    let after = body.split("self").skip(1).filter_map(|text| text.trim_start().strip_prefix('.'));
    after.map(|text| (name(text), text)).filter_map(|(name, text)| {
        let rest = &text[name.len()..];
        (rest.starts_with('(') || rest.starts_with("::<")).then_some(name)
    })
}

#[test]
fn calls_more_than_one_floor_down_name_the_floor() {
    let blocks = blocks();
    let mut declared: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    blocks.iter().for_each(|block| declared.entry(block.floor).or_default().extend(methods(&block.body)));
    assert!(declared.len() == FLOORS.len() && declared.values().map(BTreeSet::len).sum::<usize>() > 500);
    let mut far = Vec::new();
    for block in &blocks {
        for call in calls(&block.body) {
            let of = (block.floor..FLOORS.len()).find(|floor| declared[floor].contains(call));
            let is_name = FLOORS.iter().any(|(_, method)| *method == call);
            if let Some(of) = of.filter(|of| *of > block.floor + 1 && !is_name) {
                far.push(format!("{}: self.{}().{call}(…)", block.file.display(), FLOORS[of].1));
            }
        }
    }
    assert!(far.is_empty(), "calls that do not name their floor; write\n{}", far.join("\n"));
}

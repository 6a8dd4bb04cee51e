//! Tests that `docs/choices.md` lists every choice of a kernel, as the engine declares it.
//!
//! `HIGHWATER_BLESS=1 cargo test --package highwater-lab --test choices_page` writes the page.

use engine::kernel::{
    SECTIONS,
    choice::{Choice, Since},
};
use placed::Value;
use std::fmt::Write;
use std::fs;
use std::path::Path;

const HEAD: &str = "# Choices\n
This page lists what a kernel file can say: each section, its keys, and their values. For each value it names the first kernel that
has the value, and the source: a page and section of [docs/mechanisms](mechanisms/README.md), a patch, or the reason why the kernel
`highwater` has the value. If no kernel has a value, its last cell is empty. A value in *italics* is that of `2.6.23-rc5`, the kernel
on which all others are built.

This page is generated from the declarations of the choices in `crates/engine/src/<section>/choices.rs` (for `multigen`: in
`crates/engine/src/lru/policy/multigen`). `highwater explain KEY` shows the text about a single key, and which kernel has which
value. [add-a-kernel.md](add-a-kernel.md) shows how a kernel file is written, and how a choice is declared.\n";

#[test]
fn the_page_of_choices_is_what_is_declared() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/choices.md");
    let mut text = HEAD.to_owned();
    for section in &SECTIONS {
        write!(text, "\n## [{}]\n\n{}\n", section.name, section.about()).unwrap();
        section.choices.iter().for_each(|choice| text.push_str(&described(choice)));
    }
    if std::env::var_os("HIGHWATER_BLESS").is_some() {
        fs::write(&page, &text).unwrap();
    }
    let found = fs::read_to_string(&page).expect("HIGHWATER_BLESS=1 writes it");
    let stale = "docs/choices.md is stale: HIGHWATER_BLESS=1 cargo test --package highwater-lab --test choices_page";
    assert!(found == text, "{stale}");
}

/// Returns the text about one key: its meaning, and a line for each value.
fn described(choice: &Choice) -> String {
    let mut text = format!("\n### `{}`\n\n{}\n\n", choice.path(), choice.about());
    let default = choice.default();
    if let Some(range) = choice.range() {
        writeln!(text, "Values: {range}.\n\n| value | first kernel with it, source |\n| --- | --- |").unwrap();
        for (value, since) in choice.in_kernels() {
            let mark = if value == default { "*" } else { "" };
            text.push_str(&row(&[format!("{mark}`{value}`{mark}"), first_in(&since)]));
        }
        return text;
    }
    text.push_str("| value | what it does | first kernel with it, source |\n| --- | --- | --- |\n");
    for named in choice.values {
        let value = Value::Text(named.name.to_owned());
        let mark = if value == default { "*" } else { "" };
        let since = choice.since(&value).map_or_else(String::new, |since| first_in(&since));
        text.push_str(&row(&[format!("{mark}`{}`{mark}", named.name), named.about(), since]));
    }
    text
}

/// Returns a line of a table with these cells.
fn row(cells: &[String]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Returns the text of a table cell that says since which kernel a choice has a value: the first such kernel, and the
/// source.
fn first_in(since: &Since) -> String {
    format!("`{}`: {}", since.kernel, since.source)
}

//! Makes a table of what every choice means, of the comments in `src/*/choices.rs`: there is one place that says it.
//! And a table of the kernel files in `kernels/`.

// What the engine may not touch, its build may: it reads the engine's own text.
#![allow(clippy::disallowed_methods)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write,
    fs,
    path::Path,
};

use syn::{
    Attribute, Expr, Fields, Ident, Item, Lit, Meta, Token, Type, Variant, braced,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

/// The sections, in the order of `kernel::Choices`.
const SECTIONS: [&str; 10] =
    ["memory", "slab", "page_cache", "swap", "writeback", "lru", "compact", "reclaim", "allocate", "access"];

fn main() {
    let mut table = String::from("&[\n");
    for section in SECTIONS {
        let path = format!("src/{section}/choices.rs");
        println!("cargo::rerun-if-changed={path}");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        describe(section, &file, &mut table);
    }
    table.push(']');
    write("choices.rs", &table);
    write("kernels.rs", &kernels());
}

fn write(name: &str, table: &str) {
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join(name);
    fs::write(out, table).expect("cargo's output folder is writable");
}

/// A line for each kernel file. None says where the checkout lies: several may share a target folder.
fn kernels() -> String {
    println!("cargo::rerun-if-changed=kernels");
    let files = fs::read_dir("kernels").expect("the crate has kernels").flatten();
    let names = files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".toml")?.to_owned()));
    let mut table = String::from("&[\n");
    for name in names.collect::<BTreeSet<_>>() {
        let path = format!("/kernels/{name}.toml");
        writeln!(table, "({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?}))),")
            .expect("strings accept all");
    }
    table + "]"
}

/// A line for each field of a file's `Choices`.
fn describe(section: &str, file: &syn::File, table: &mut String) {
    let enums: BTreeMap<String, Vec<(String, String)>> = file.items.iter().filter_map(values).collect();
    let choices = file.items.iter().find_map(|item| match item {
        Item::Struct(item) if item.ident == "Choices" => Some(&item.fields),
        _ => None,
    });
    let Some(Fields::Named(fields)) = choices else { panic!("src/{section}/choices.rs has no struct `Choices`") };
    for field in &fields.named {
        let key = field.ident.as_ref().expect("named fields have names").to_string();
        let values = match &field.ty {
            Type::Path(path) => path.path.segments.last().and_then(|last| enums.get(&last.ident.to_string())),
            _ => None,
        };
        let values = values.cloned().unwrap_or_default();
        let about = doc(&field.attrs);
        writeln!(table, "Choice {{ section: {section:?}, key: {key:?}, about: {about:?}, values: &{values:?} }},")
            .expect("strings accept all");
    }
}

/// The name of a type that a choice has, and its values: of an enum, or of the macro `choice!`, which makes one.
fn values(item: &Item) -> Option<(String, Vec<(String, String)>)> {
    let (name, variants) = match item {
        Item::Enum(item) => (item.ident.clone(), item.variants.clone()),
        Item::Macro(item) if item.mac.path.is_ident("choice") => {
            item.mac.parse_body_with(body_of_choice).unwrap_or_else(|error| panic!("choice!: {error}"))
        }
        _ => return None,
    };
    let value = |variant: &Variant| (kebab(&variant.ident.to_string()), doc(&variant.attrs));
    Some((name.to_string(), variants.iter().map(value).collect()))
}

/// A comment, a name, and variants in braces.
fn body_of_choice(input: ParseStream<'_>) -> syn::Result<(Ident, Punctuated<Variant, Token![,]>)> {
    input.call(Attribute::parse_outer)?;
    let name = input.parse()?;
    let variants;
    braced!(variants in input);
    Ok((name, variants.parse_terminated(Variant::parse, Token![,])?))
}

/// The comment of an item as one text, without the brackets of links.
fn doc(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    let lines: Vec<String> = attributes.iter().filter_map(line).collect();
    lines.join(" ").replace("[`", "`").replace("`]", "`")
}

/// `OneByOne` as serde's `kebab-case` has it: `one-by-one`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for (n, c) in name.chars().enumerate() {
        if c.is_uppercase() && n > 0 {
            text.push('-');
        }
        text.extend(c.to_lowercase());
    }
    text
}

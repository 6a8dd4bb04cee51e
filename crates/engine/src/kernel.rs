//! A kernel: the choices of all modules, and the origin of each.
//!
//! A kernel file builds on an older kernel. [`ROOT`], the oldest kernel, names every key, and its values are the
//! defaults of the declarations. Every other file has only the keys in which it differs from its `base`, an earlier
//! kernel:
//!
//! ```toml
//! base = "3.10-rc4-vanilla"
//! about = "3.10-rc4 with a proportional early exit"
//!
//! [lru]
//! early_exit = "proportional"     # "mm: vmscan: Limit the number of pages kswapd reclaims", 2013
//! ```
//!
//! A section holds the keys of one module, and is declared in the module's `choices.rs`; [`crate::choice`] describes
//! the form. A key that no file of the chain names has the value of [`ROOT`]. [`Kernel::parse`] reads text. It gets the
//! texts of bases from its caller, because the engine opens no files. The files of the engine's own folder `kernels/`
//! are embedded in the program; [`files`] returns them. The module is called by `lab` for every command, and by
//! applications for their own kernels.
//!
//! Next: `reclaim/choices.rs`, the choices that separate most kernels.

pub mod choice;
pub mod files;

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, OnceLock},
};

use placed::{Entry, Error, Node, Place, Value, one_of};
use serde::Deserialize;

use crate::choice::{Refused, Section};
use crate::lru::choices::PolicyKind;
use crate::lru::policy::multigen;
use crate::{access, allocate, compact, lru, memory, page_cache, reclaim, slab, swap, writeback};

/// Declares [`Choices`] and [`SECTIONS`] from the names of the sections of a kernel file. Each section is a module of
/// the engine that has a file `choices.rs`.
macro_rules! sections {
    ($($section:ident),*) => {
        /// All choices of a kernel, with a section for each module.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Choices {
            $(#[doc = concat!("The section `[", stringify!($section), "]`.")] pub $section: $section::choices::Choices,)*
        }

        /// All sections of a kernel file, in the order of the fields of [`Choices`].
        pub static SECTIONS: [&Section; [$(stringify!($section)),*].len()] = [$(&$section::choices::SECTION),*];

        impl Choices {
            /// Returns the value of every key, as a table of sections.
            fn table(&self) -> Value {
                crate::choice::table([$((stringify!($section), self.$section.table())),*])
            }

            /// Checks that every number of every section is within the limits of its key.
            fn check_limits(&self) -> Result<(), Refused> {
                $(self.$section.check_limits()?;)*
                Ok(())
            }
        }
    };
}
sections!(memory, slab, page_cache, swap, writeback, lru, multigen, compact, reclaim, allocate, access);

impl Choices {
    /// Checks that every number is within the limits of its key. Also checks that the program has set a policy of its
    /// own ([`crate::lru::policy::set_own`]) if the choices ask for one. [`Kernel::parse`] checks the numbers of a file
    /// when it reads the file. This method is for choices that a program has made, or changed, in Rust.
    ///
    /// # Errors
    /// Fails at the first number that is outside of its limits, or if the program has set no policy and the choices ask
    /// for one. The error names the section, the key and the expected value.
    pub fn check(&self) -> Result<(), Error> {
        let refused =
            |section: &str, message| Error { place: None, message: format!("choices, [{section}]: {message}") };
        match self.lru.policy {
            PolicyKind::Own if !lru::policy::in_engine::has_own() => {
                return Err(refused("lru", "`policy = \"own\"`, but this program has brought no policy".to_owned()));
            }
            PolicyKind::Own | PolicyKind::Classic | PolicyKind::Multigen | PolicyKind::Lru | PolicyKind::Clock => {}
        }
        self.check_limits().map_err(|Refused { section, message }| refused(section, message))
    }
}

/// The name of the kernel that all others are built on. Its file names every key. The value of a key in this file is
/// also the default value that the key's declaration has in Rust.
pub const ROOT: &str = "2.6.23-rc5";

/// A kernel: its choices, and the origin of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Name of the kernel: the name of its file, without folder and ending.
    pub name: String,
    /// One line that describes the kernel.
    pub about: String,
    /// Names of the kernels that this kernel is built on: first its base, then the base of its base, and so on.
    pub bases: Vec<String>,
    /// The values of all choices, as the engine reads them.
    pub choices: Choices,
    /// Each key with its value and origin, in the order of [`Choices`].
    pub settings: Vec<Setting>,
}

/// A key that kernel files can set, with its value in one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Name of the section in which kernel files set the key: `lru` for `lru.swappiness`. It is also the name of a
    /// module of the engine.
    pub section: String,
    /// The key of the choice without its section: `swappiness` for `lru.swappiness`.
    pub key: String,
    /// The value of the key in the kernel.
    pub value: Value,
    /// The origin of the value: the file, line and source that set it.
    pub origin: Origin,
    /// The value that the key has in the kernel's base, or in [`ROOT`] if the kernel has no base; `None` if it equals
    /// `value`.
    pub replaces: Option<Value>,
}

/// The origin of a key's value: the place that sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Neither the kernel's file nor the file of any of its bases names the key, so the key has its value in [`ROOT`].
    Default,
    /// The value stands in a kernel file.
    File {
        /// Name of the kernel whose file has the value.
        kernel: String,
        /// File and line at which the key is set to the value.
        place: Place,
        /// The comment on the line of the value, which names the source of the value; `None` if the line has no
        /// comment.
        source: Option<String>,
    },
    /// A call of [`Kernel::set`] has set the value.
    Set,
}

/// The text of a kernel file, and the name of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name of the kernel file, as error messages show it.
    pub file: String,
    /// The text of the file.
    pub text: String,
}

impl Kernel {
    /// Reads a kernel from `text`, the text of its file, and from the files of its bases. `resolve` returns the file of
    /// the base with a given name, or a message that says why there is none.
    ///
    /// # Errors
    /// Fails at the first error in these files. The error names the file and the line. Errors are: text that is not
    /// TOML; an unknown section, key or value (the message has the nearest known name); a value of the wrong type or
    /// out of its range; a base that is missing or that builds on this kernel.
    pub fn parse(
        name: &str,
        file: &str,
        text: &str,
        resolve: &dyn Fn(&str) -> Result<Source, String>,
    ) -> Result<Self, Error> {
        let mut layers: Vec<(String, Arc<Layer>)> = Vec::new();
        let mut next = Some((name.to_owned(), Source { file: file.to_owned(), text: text.to_owned() }));
        while let Some((kernel, source)) = next.take() {
            let layer = Layer::of(&kernel, &source)?;
            if let Some(base) = &layer.base {
                let wanted: String = base.read()?;
                let names = || layers.iter().map(|(kernel, _)| kernel).chain([&kernel]).map(String::as_str);
                if names().any(|kernel| kernel == wanted) {
                    let chain = names().chain([wanted.as_str()]).collect::<Vec<_>>().join(" -> ");
                    return Err(Error::at(&base.place, format!("the bases go round in a circle: {chain}")));
                }
                // The files of the engine build on one another, whatever lies beside the file of a user.
                let own = files::source(&kernel).filter(|own| *own == source).and_then(|_| files::source(&wanted));
                let source = own.map_or_else(|| resolve(&wanted), Ok);
                let source = source.map_err(|message| Error::at(&base.place, message))?;
                next = Some((wanted, source));
            }
            layers.push((kernel, layer));
        }
        Self::assemble(name, &layers)
    }

    /// Returns the built-in kernel `name`, such as `3.10-rc4-vanilla`; `None` if there is no such kernel.
    ///
    /// # Panics
    /// Never panics, because the kernels of the engine are sound, as tests prove.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let Source { file, text } = files::source(name)?;
        let resolve = |base: &str| files::source(base).ok_or_else(|| format!("no kernel `{base}`"));
        Some(Self::parse(name, &file, &text, &resolve).expect("the kernels of the engine are sound"))
    }

    /// Makes a kernel from its own layer, which is the first, and those of its bases.
    fn assemble(name: &str, layers: &[(String, Arc<Layer>)]) -> Result<Self, Error> {
        let own = &layers[0].1;
        // The `about` line of a base describes the base, so it is not taken.
        let of_base = || Some(format!("{}, changed", own.base.as_ref()?.as_text()?));
        let about = own.about.clone().or_else(of_base).unwrap_or_default();
        let mut settings = Vec::new();
        for Entry { key: section, node: table, .. } in defaults().entries() {
            for Entry { key, node: default, .. } in table.entries() {
                let find = |from: usize| {
                    layers[from..].iter().find_map(|(kernel, layer)| Some((kernel, layer.get(section, key)?)))
                };
                let below = find(1).map_or(default, |(_, node)| node);
                let (node, origin) = match find(0) {
                    Some((kernel, node)) => {
                        let (kernel, place, source) = (kernel.clone(), node.place.clone(), node.comment.clone());
                        (node, Origin::File { kernel, place, source })
                    }
                    None => (default, Origin::Default),
                };
                let replaces = (node.value != below.value).then(|| below.value.clone());
                let value = node.value.clone();
                settings.push(Setting { section: section.clone(), key: key.clone(), value, origin, replaces });
            }
        }
        let bases = layers[1..].iter().map(|(kernel, _)| kernel.clone()).collect();
        let choices = choices_of(&settings)?;
        Ok(Self { name: name.to_owned(), about, bases, choices, settings })
    }

    /// Changes the value of one key, for example `set("lru.batch", "14")`. The value is written as in a kernel file,
    /// but a value that is a name needs no quotes.
    ///
    /// # Errors
    /// Fails if the key is unknown (the message has the nearest known key, or else the keys of its section), or if the
    /// value is not one of the key's values. On failure, the kernel is unchanged.
    pub fn set(&mut self, key_path: &str, value: &str) -> Result<(), Error> {
        let place = Place { file: format!("{key_path}={value}").into(), line: 0 };
        let known: Vec<String> = self.settings.iter().map(|s| format!("{}.{}", s.section, s.key)).collect();
        let Some(at) = known.iter().position(|known| known == key_path) else {
            let near = hint(key_path, &known);
            let words = if near.is_empty() { self.around(key_path) } else { near };
            return Err(Error::at(&place, format!("unknown key `{key_path}`{words}")));
        };
        let parsed = Node::parse("", &format!("v = {value}\n")).ok().and_then(|mut node| node.take("v"));
        let value = parsed.map_or_else(|| Value::Text(value.to_owned()), |node| node.value);
        let setting = &self.settings[at];
        check(&table_of(&setting.section, &setting.key, &place, value.clone()))?;
        let mut settings = self.settings.clone();
        let setting = &mut settings[at];
        let below = setting.replaces.take().unwrap_or_else(|| setting.value.clone());
        setting.replaces = (below != value).then_some(below);
        setting.value = value;
        setting.origin = Origin::Set;
        self.choices = choices_of(&settings)?;
        self.settings = settings;
        Ok(())
    }

    /// Returns the text that ends an error message about a key that no key is like: the keys of its section, or else
    /// the sections that there are.
    fn around(&self, key_path: &str) -> String {
        let section = key_path.split_once('.').map_or(key_path, |(section, _)| section);
        let listed = |names: &mut dyn Iterator<Item = &str>| names.map(|name| format!("`{name}`")).collect::<Vec<_>>();
        let keys = listed(&mut self.settings.iter().filter(|it| it.section == section).map(|it| &*it.key));
        if !keys.is_empty() {
            return format!(": [{section}] has {}", keys.join(", "));
        }
        let mut sections: Vec<&str> = self.settings.iter().map(|it| &*it.section).collect();
        sections.dedup();
        format!(": keys are SECTION.KEY, and the sections are {}", listed(&mut sections.into_iter()).join(", "))
    }

    /// Returns the settings in which this kernel differs from its base.
    pub fn differences(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter().filter(|setting| setting.replaces.is_some())
    }

    /// Returns the settings that stand in the kernel's own file, even those whose values equal the values of the base.
    pub fn own(&self) -> impl Iterator<Item = &Setting> {
        self.settings
            .iter()
            .filter(|setting| matches!(&setting.origin, Origin::File { kernel, .. } if *kernel == self.name))
    }
}

/// The content of one kernel file, with every key and value checked.
struct Layer {
    /// The `about` line.
    about: Option<String>,
    /// The name of the base.
    base: Option<Node>,
    /// The sections.
    values: Node,
}

impl Layer {
    /// Returns the content of `source`, the file of the kernel `name`. A file that comes with the engine is read once
    /// in a program, because most kernels build on many of them.
    fn of(name: &str, source: &Source) -> Result<Arc<Self>, Error> {
        static BUILT_IN: LazyLock<BTreeMap<&str, OnceLock<Arc<Layer>>>> =
            LazyLock::new(|| files::names().map(|name| (name, OnceLock::new())).collect());
        let is_built_in = files::source(name).is_some_and(|known| known == *source);
        let Some(once) = BUILT_IN.get(name).filter(|_| is_built_in) else { return Self::read(source).map(Arc::new) };
        if let Some(layer) = once.get() {
            return Ok(layer.clone());
        }
        let layer = Arc::new(Self::read(source)?);
        Ok(once.get_or_init(|| layer).clone())
    }

    fn read(source: &Source) -> Result<Self, Error> {
        let mut values = Node::parse(&source.file, &source.text)?;
        let about = values.take("about").map(|line| line.read()).transpose()?;
        let base = values.take("base");
        check(&values)?;
        Ok(Self { about, base, values })
    }

    fn get(&self, section: &str, key: &str) -> Option<&Node> {
        self.values.get(section)?.get(key)
    }
}

/// Returns the choices that `settings` make, which have a value for each key.
fn choices_of(settings: &[Setting]) -> Result<Choices, Error> {
    let place = Place { file: "settings".into(), line: 0 };
    let tables = settings.iter().map(|it| table_of(&it.section, &it.key, &place, it.value.clone()));
    let all = tables.reduce(|below, top| top.over(below));
    all.map_or_else(|| Ok(Choices::default()), |all| all.read())
}

/// Returns the tree of a kernel file that sets a single key, at `place`.
fn table_of(section: &str, key: &str, place: &Place, value: Value) -> Node {
    let table = |key: &str, value| {
        let node = Node { place: place.clone(), comment: None, value };
        Value::Table(vec![Entry { key: key.to_owned(), place: place.clone(), node }])
    };
    Node { place: place.clone(), comment: None, value: table(section, table(key, value)) }
}

/// Returns the key, such as `lru.swappiness`, that a wrong path probably means. The path may be a sysctl's name
/// (`vm.swappiness`), a key without its section, or a key with a wrong section. Returns `None` if the path fits no key.
#[must_use]
pub fn meant_key(path: &str) -> Option<String> {
    meant(path, &keys_of(defaults())).map(|(key, _)| key.to_owned())
}

/// Returns all keys of a tree of defaults, each with its section: `lru.swappiness`.
fn keys_of(defaults: &Node) -> Vec<String> {
    let of = |section: &Entry| -> Vec<String> {
        section.node.entries().iter().map(|entry| format!("{}.{}", section.key, entry.key)).collect()
    };
    defaults.entries().iter().flat_map(of).collect()
}

/// Returns the default value of every key, as a tree of sections and keys. The defaults are the values of [`ROOT`].
fn defaults() -> &'static Node {
    // The tree is made once, because a command that runs many kernels needs it for each kernel.
    static DEFAULTS: LazyLock<Node> = LazyLock::new(|| Node::new(crate::choice::DEFAULT, Choices::default().table()));
    &DEFAULTS
}

/// Checks the keys and the values of one kernel file. This happens before the values replace those of the file's base,
/// so that an error message names the right file.
fn check(node: &Node) -> Result<(), Error> {
    let is_section = |entry: &Entry| matches!(entry.node.value, Value::Table(_));
    let choices = if node.entries().iter().all(is_section) { node.read::<Choices>().ok() } else { None };
    if choices.is_some_and(|choices| choices.check_limits().is_ok()) { Ok(()) } else { check_each(node, defaults()) }
}

/// Checks the keys and the values of one kernel file, each by itself: the error is the first of the file, and names its
/// key.
fn check_each(node: &Node, defaults: &Node) -> Result<(), Error> {
    let sections: Vec<&str> = defaults.entries().iter().map(|entry| entry.key.as_str()).collect();
    for Entry { key: section, place, node: table } in node.entries() {
        let Some(known) = defaults.get(section) else {
            if section == FORMER_SECTION
                && let Some(Entry { key, place, .. }) = table.entries().first()
            {
                let path = format!("{section}.{key}");
                let message = format!("unknown key `{path}`{}", hint(&path, &keys_of(defaults)));
                return Err(Error::at(place, message));
            }
            return Err(Error::at(place, unknown_at_top(section, table, defaults, &sections)));
        };
        if !matches!(table.value, Value::Table(_)) {
            return Err(Error::at(place, format!("`{section}` is a section: write `[{section}]`, then its keys")));
        }
        let keys: Vec<&str> = known.entries().iter().map(|entry| entry.key.as_str()).collect();
        for Entry { key, place, node: value } in table.entries() {
            if !keys.contains(&key.as_str()) {
                let elsewhere = defaults.entries().iter().find(|other| other.node.get(key).is_some());
                let hint = match elsewhere {
                    Some(other) => format!(": it belongs in [{}]", other.key),
                    None if AT_TOP.contains(&key.as_str()) => ": it belongs above the first section".to_owned(),
                    None => one_of(key, &keys),
                };
                return Err(Error::at(place, format!("unknown key `{key}` in [{section}]{hint}")));
            }
            let one = table_of(section, key, place, value.value.clone());
            let choices = one.read::<Choices>();
            let choices = choices.map_err(|error| Error { message: format!("`{key}`: {}", error.message), ..error })?;
            choices.check_limits().map_err(|Refused { message, .. }| Error::at(&value.place, message))?;
        }
    }
    Ok(())
}

/// Returns the error message for an unknown top-level key, one that is neither a section nor `base` or `about`.
fn unknown_at_top(key: &str, node: &Node, defaults: &Node, sections: &[&str]) -> String {
    let keys = keys_of(defaults);
    // A line of sysctl.conf such as `vm.swappiness = 10` is a table in TOML.
    if let [entry] = node.entries()
        && SYSCTL_FOLDERS.contains(&key)
    {
        let path = format!("{key}.{}", entry.key);
        return format!("unknown key `{path}`{}", hint(&path, &keys));
    }
    if matches!(node.value, Value::Table(_)) {
        return format!("unknown section `{key}`{}", one_of(key, sections));
    }
    let of_top: Vec<&str> = AT_TOP.into_iter().chain(sections.iter().copied()).collect();
    let is_of_top = meant(key, &keys).is_none() && placed::nearest(key, of_top.iter().copied()).is_some();
    let words = if is_of_top { String::new() } else { hint(key, &keys) };
    let words = if words.is_empty() { one_of(key, &of_top) } else { words };
    format!("unknown key `{key}`{words}")
}

/// The keys of a kernel file that belong to no section.
const AT_TOP: [&str; 2] = ["base", "about"];

/// Folders of /proc/sys with which the name of a sysctl may begin.
const SYSCTL_FOLDERS: [&str; 1] = ["vm"];

/// Sysctls for which the engine's key has another name or another unit. Each entry has the sysctl's name, the key, and
/// a remark on the key's unit.
const SYSCTLS: [(&str, &str, &str); 4] = [
    ("dirty_expire_centisecs", "writeback.dirty_expire_ms", ", in ms"),
    ("dirty_writeback_centisecs", "writeback.dirty_writeback_ms", ", in ms"),
    ("page-cluster", "swap.page_cluster", ""),
    ("transparent_hugepage", "access.huge_pages", ""),
];

/// Name of a section that kernel files could have in earlier versions of the engine, but cannot have now.
const FORMER_SECTION: &str = "mapping";

/// Keys that were renamed. Each entry has the old name, the new key, and a remark on the unit of the new key.
const FORMER_KEYS: [(&str, &str, &str); 4] = [
    ("slab_order", "slab.order", ""),
    ("swap_readahead", "swap.readahead", ""),
    ("swap_window", "swap.window", ""),
    ("writeback_chunk", "writeback.chunk", ""),
];

/// Returns the key that `path` means, and a remark on the key's unit. `path` is a sysctl's name, a former key, a key
/// without its section, or a key with a wrong section. Returns `None` if `path` fits no key.
fn meant<'k>(path: &str, keys: &'k [String]) -> Option<(&'k str, &'static str)> {
    let last = path.rsplit('.').next().unwrap_or(path);
    if let Some((_, key, unit)) = SYSCTLS.iter().chain(&FORMER_KEYS).find(|(other, ..)| *other == last) {
        return keys.iter().find(|known| known == key).map(|known| (known.as_str(), *unit));
    }
    let is_last = |known: &&String| known.split_once('.').is_some_and(|(_, key)| key == last);
    keys.iter().find(is_last).map(|known| (known.as_str(), ""))
}

/// Returns the text that ends an error message about the unknown key `path`. The text names the key that the user
/// probably meant. It is empty if no key in `keys` is similar.
fn hint(path: &str, keys: &[String]) -> String {
    if let Some((key, unit)) = meant(path, keys) {
        let (section, name) = key.split_once('.').expect("keys have a section");
        return format!(": `{name}` belongs in [{section}]: `{key}`{unit}");
    }
    let is_sysctl = path.split_once('.').is_some_and(|(folder, _)| SYSCTL_FOLDERS.contains(&folder));
    let last = path.rsplit('.').next().unwrap_or(path);
    // The name of a sysctl is compared without its folder, because no section here is called like the folder.
    let nearest = placed::nearest(if is_sysctl { last } else { path }, keys.iter().map(String::as_str));
    match nearest {
        Some(name) => format!(": did you mean `{name}`?"),
        None if is_sysctl => ": no choice of a kernel stands for this sysctl".into(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "about = \"the base\"\n[lru]\nswappiness = 10 # measured\n[reclaim]\nkswapd_floor = \"zero\"\n";

    fn resolve(name: &str) -> Result<Source, String> {
        match name {
            "base" => Ok(Source { file: "kernels/base.toml".into(), text: BASE.into() }),
            "loop" => Ok(Source { file: "kernels/loop.toml".into(), text: "base = \"mine\"".into() }),
            _ => Err(format!("no kernel `{name}`")),
        }
    }

    fn parse(text: &str) -> Result<Kernel, String> {
        Kernel::parse("mine", "mine.toml", text, &resolve).map_err(|error| error.to_string())
    }

    fn setting<'a>(kernel: &'a Kernel, key: &str) -> &'a Setting {
        kernel.settings.iter().find(|setting| setting.key == key).unwrap()
    }

    #[test]
    fn an_empty_file_is_the_root() {
        let kernel = parse("").unwrap();
        assert_eq!(kernel.choices, Kernel::built_in(ROOT).unwrap().choices);
        assert!(kernel.settings.iter().all(|setting| setting.origin == Origin::Default));
    }

    #[test]
    fn the_defaults_of_the_declarations_are_the_values_of_the_root() {
        let root = Kernel::built_in(ROOT).unwrap();
        assert_eq!(root.choices, Choices::default());
        assert_eq!(root.differences().count(), 0);
        assert!(root.bases.is_empty());
    }

    #[test]
    fn the_root_names_every_key_and_every_kernel_is_built_on_it() {
        for name in files::names() {
            let kernel = Kernel::built_in(name).unwrap();
            assert_eq!(kernel.bases.last().map_or(name, String::as_str), ROOT, "{name}");
            for it in &kernel.settings {
                let is_named = matches!(it.origin, Origin::File { .. });
                assert!(is_named, "{ROOT} has to name `{}.{}`, with its source", it.section, it.key);
            }
        }
        assert_eq!(Kernel::built_in("nonesuch"), None);
    }

    /// Checks that the two kernel files of a Linux version, one with classic lists and one with generations, have equal
    /// values except for the policy and for waits.
    #[test]
    fn classic_and_generations_of_a_version_differ_in_lists_and_waits_alone() {
        for version in ["6.1", "6.6", "6.12"] {
            let [classic, generations] = ["classic", "mglru"].map(|lists| format!("{version}-{lists}"));
            let [classic, generations] = [classic, generations].map(|name| Kernel::built_in(&name).unwrap().settings);
            for (classic, generations) in classic.iter().zip(&generations) {
                let key = format!("{}.{}", classic.section, classic.key);
                let may_differ = key.starts_with("multigen.")
                    || ["lru.policy", "lru.isolated_limit", "lru.isolated_wait", "reclaim.list_stall"].contains(&&*key);
                assert!(may_differ || classic.value == generations.value, "{version}: {key}");
            }
        }
    }

    #[test]
    fn choices_made_in_rust_have_the_limits_of_a_file() {
        Choices::default().check().unwrap();
        for choice in choice::all() {
            let (section, key) = (choice.section, choice.key);
            let Some((low, high)) = choice.limits else { continue };
            for wrong in [low.checked_sub(1), high.checked_add(1)].into_iter().flatten().filter(|n| *n >= 0) {
                let list = if key == "lowmem_reserve_ratio" { format!("[1, {wrong}, 1]") } else { wrong.to_string() };
                // A number that no file may contain must be refused in Rust, too. Numbers that do not fit into the
                // key's type are skipped.
                let node = Node::parse("", &format!("[{section}]\n{key} = {list}\n")).unwrap();
                let Ok(made) = node.read::<Choices>() else { continue };
                let refused = made.check().unwrap_err().to_string();
                assert!(refused.starts_with(&format!("choices, [{section}]: `{key}`: expected ")), "{refused}");
                let in_file = parse(&format!("[{section}]\n{key} = {list}\n")).unwrap_err();
                assert_eq!(in_file.split(": ").nth(2), refused.split(": ").nth(2));
            }
        }
        let made = memory::choices::Choices { lowmem_reserve_ratio: [256, u64::MAX, 32], ..Default::default() };
        assert!(Choices { memory: made, ..Choices::default() }.check().is_err());
    }

    #[test]
    fn a_file_changes_its_base_key_by_key() {
        let kernel = parse("base = \"base\"\n[reclaim]\nkswapd_floor = \"one\" # 2013\n[lru]\nbatch = 15\n").unwrap();
        assert_eq!((kernel.choices.lru.swappiness, kernel.choices.lru.batch), (10, 15));
        assert!(matches!(kernel.choices.reclaim.kswapd_floor, reclaim::choices::KswapdFloor::One));
        assert_eq!((kernel.about.as_str(), kernel.bases.as_slice()), ("base, changed", ["base".to_owned()].as_slice()));
        let Origin::File { kernel: of, place, source } = &setting(&kernel, "swappiness").origin else { panic!() };
        assert_eq!(
            (of.as_str(), place.to_string().as_str(), source.as_deref()),
            ("base", "kernels/base.toml:3", Some("measured"))
        );
        let Origin::File { place, source, .. } = &setting(&kernel, "kswapd_floor").origin else { panic!() };
        assert_eq!((place.to_string().as_str(), source.as_deref()), ("mine.toml:3", Some("2013")));
        assert_eq!(setting(&kernel, "kswapd_floor").replaces, Some(Value::Text("zero".into())));
        let differing: Vec<&str> = kernel.differences().map(|setting| setting.key.as_str()).collect();
        assert_eq!(differing, ["batch", "kswapd_floor"]);
        assert_eq!(kernel.own().count(), 2);
    }

    #[test]
    fn unknown_names_are_told_with_line_and_nearest_name() {
        let wrong = |text: &str| parse(text).unwrap_err();
        assert_eq!(wrong("\n[reclam]\n"), "mine.toml:2: unknown section `reclam`: did you mean `reclaim`?");
        assert_eq!(wrong("bases = \"x\""), "mine.toml:1: unknown key `bases`: did you mean `base`?");
        assert_eq!(
            wrong("[lru]\n\nswapiness = 1"),
            "mine.toml:3: unknown key `swapiness` in [lru]: did you mean `swappiness`?"
        );
        assert_eq!(
            wrong("[reclaim]\nswappiness = 1"),
            "mine.toml:2: unknown key `swappiness` in [reclaim]: it belongs in [lru]"
        );
        assert_eq!(
            wrong("[lru]\nabout = \"mine\""),
            "mine.toml:2: unknown key `about` in [lru]: it belongs above the first section"
        );
        assert_eq!(
            wrong("[reclaim]\nkswapd_floor = \"on\""),
            "mine.toml:2: `kswapd_floor`: unknown value `on`: did you mean `one`?"
        );
        assert_eq!(
            wrong("[reclaim]\nkswapd_floor = \"lowest\""),
            "mine.toml:2: `kswapd_floor`: unknown value `lowest`: known are `zero`, `one`"
        );
        assert_eq!(
            wrong("[reclaim]\nkswapd_floor = 0"),
            "mine.toml:2: `kswapd_floor`: expected one of \"zero\", \"one\", found 0"
        );
        assert_eq!(wrong("lru = 14"), "mine.toml:1: `lru` is a section: write `[lru]`, then its keys");
    }

    #[test]
    fn a_key_in_no_section_or_under_its_sysctl_name_is_told_its_own() {
        let wrong = |text: &str| parse(text).unwrap_err();
        let swappiness = "`swappiness` belongs in [lru]: `lru.swappiness`";
        assert_eq!(wrong("swappiness = 1"), format!("mine.toml:1: unknown key `swappiness`: {swappiness}"));
        assert_eq!(wrong("vm.swappiness = 1"), format!("mine.toml:1: unknown key `vm.swappiness`: {swappiness}"));
        assert_eq!(wrong("[vm]\nswappiness = 1"), format!("mine.toml:1: unknown key `vm.swappiness`: {swappiness}"));
        assert_eq!(wrong("swapiness = 1"), "mine.toml:1: unknown key `swapiness`: did you mean `lru.swappiness`?");
        let mut kernel = parse("").unwrap();
        let mut wrong = |key: &str| kernel.set(key, "1").unwrap_err().message;
        for key in ["vm.swappiness", "swappiness", "reclaim.swappiness"] {
            assert_eq!(wrong(key), format!("unknown key `{key}`: {swappiness}"));
        }
        assert_eq!(
            wrong("vm.dirty_expire_centisecs"),
            "unknown key `vm.dirty_expire_centisecs`: `dirty_expire_ms` belongs in [writeback]: `writeback.dirty_expire_ms`, in ms"
        );
        for (former, now) in [
            ("swap_window", "`window` belongs in [swap]: `swap.window`"),
            ("dirty_ratio", "`dirty_ratio` belongs in [writeback]: `writeback.dirty_ratio`"),
        ] {
            assert_eq!(wrong(&format!("mapping.{former}")), format!("unknown key `mapping.{former}`: {now}"));
            let in_file = parse(&format!("[mapping]\n{former} = 1")).unwrap_err();
            assert_eq!(in_file, format!("mine.toml:2: unknown key `mapping.{former}`: {now}"));
        }
        assert!(wrong("vm.swapiness").ends_with("did you mean `lru.swappiness`?"));
        assert!(wrong("vm.overcommit_memory").ends_with("no choice of a kernel stands for this sysctl"));
    }

    #[test]
    fn sysctls_of_another_name_name_existing_keys() {
        let kernel = Kernel::built_in(ROOT).unwrap();
        let keys: Vec<String> = kernel.settings.iter().map(|it| format!("{}.{}", it.section, it.key)).collect();
        for (sysctl, key, _) in SYSCTLS.into_iter().chain(FORMER_KEYS) {
            assert_eq!(meant(sysctl, &keys).map(|(key, _)| key), Some(key));
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let wrong = |text: &str| parse(text).unwrap_err();
        assert_eq!(wrong("[lru]\nbatch = 0"), "mine.toml:2: `batch`: expected 1 to 64, found 0");
        assert_eq!(
            wrong("[lru]\nbatch = \"many\""),
            "mine.toml:2: `batch`: expected a whole number from 0 to 4294967295, found \"many\""
        );
        assert_eq!(
            wrong("[memory]\nlowmem_reserve_ratio = [256, 0, 32]"),
            "mine.toml:2: `lowmem_reserve_ratio`: expected at least 1, found 0"
        );
        assert!(wrong("[memory]\nlowmem_reserve_ratio = [256]").starts_with("mine.toml:2: `lowmem_reserve_ratio`: "));
    }

    #[test]
    fn a_file_beside_a_users_kernel_changes_no_kernel_of_the_engine() {
        let own = |name: &str| match name {
            "3.10-rc4-vanilla" => Err("another file".to_owned()),
            name => files::source(name).ok_or_else(|| format!("no kernel `{name}`")),
        };
        let mine = Kernel::parse("mine", "mine.toml", "base = \"6.1-classic\"\n[lru]\nbatch = 20\n", &own).unwrap();
        assert!(mine.bases.iter().any(|base| base == "3.10-rc4-vanilla"));
        assert_eq!(mine.differences().count(), 1);
    }

    #[test]
    fn a_missing_base_and_a_circle_are_told() {
        assert_eq!(parse("\nbase = \"bose\"").unwrap_err(), "mine.toml:2: no kernel `bose`");
        assert_eq!(
            parse("base = \"loop\"").unwrap_err(),
            "kernels/loop.toml:1: the bases go round in a circle: mine -> loop -> mine"
        );
        assert_eq!(parse("base = 3").unwrap_err(), "mine.toml:1: expected text in quotes, found 3");
    }

    #[test]
    fn one_value_can_be_set() {
        let mut kernel = parse("base = \"base\"").unwrap();
        kernel.set("lru.batch", "31").unwrap();
        kernel.set("reclaim.kswapd_floor", "one").unwrap();
        kernel.set("lru.early_exit", "\"never\"").unwrap();
        assert_eq!(kernel.choices.lru.batch, 31);
        assert!(matches!(kernel.choices.reclaim.kswapd_floor, reclaim::choices::KswapdFloor::One));
        assert_eq!(setting(&kernel, "batch").origin, Origin::Set);
        assert_eq!(kernel.differences().count(), 2);
        let before = kernel.clone();
        let wrong = kernel.set("lru.bacth", "1").unwrap_err().to_string();
        assert_eq!(wrong, "lru.bacth=1: unknown key `lru.bacth`: did you mean `lru.batch`?");
        let wrong = kernel.set("lru.batch", "0").unwrap_err().to_string();
        assert_eq!(wrong, "lru.batch=0: `batch`: expected 1 to 64, found 0");
        assert_eq!(kernel, before);
    }
}

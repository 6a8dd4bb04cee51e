//! Explanations of keys: their meaning, their values, and the files that set each value.

use engine::{
    kernel::{
        ROOT,
        choice::{self, Choice, Condition},
        meant_key,
    },
    stat::vmstat,
};
use placed::Error;

use super::origin;
use crate::{known_names, meanings};
use catalogue::difference::plain;
use catalogue::values::constant;
use catalogue::{embedded, find};
use figures::counters;
use report::Look;
use report::grid::{Cell, Grid, hanging};
use report::html::{Page, Part, Section};
use study::page;
use study::plan::{OF_MACHINE, OF_PARAMS};

/// The explanation of a key: its meaning and its values.
#[derive(Default)]
pub struct Known {
    /// The word that was asked for, if it is not the key's name: for example the key without its section, or a sysctl.
    asked: Option<String>,
    /// The meaning of the word that was asked for, if it is a name of Linux or a counter.
    says: Option<String>,
    /// The key's name; empty if no key corresponds to the word that was asked for.
    key: String,
    /// The key's meaning.
    about: String,
    /// The key's values, each with its meaning.
    values: Vec<(&'static str, String)>,
    /// The key's range and default, and the condition under which the key is read.
    limits: Vec<String>,
    /// The kind of files that set the key: `kernels`, `machines`, `experiments`.
    owners: &'static str,
    /// The different values to which files set the key. Each has the names of these files, and the source that the
    /// first of them states for the value.
    by_value: Vec<Owned>,
    /// Other keys that match the word which the user asked for, besides `key`. Each comes with its meaning.
    also: Vec<(String, String)>,
}

/// A value of a key, with the files that set it.
struct Owned {
    value: String,
    owners: Vec<String>,
    /// The source that the first file of `owners` states for the value.
    source: String,
}

/// Records in `all` that the file `owner` sets a key to `value`.
fn own(all: &mut Vec<Owned>, owner: &str, value: String, source: String) {
    match all.iter_mut().find(|known| known.value == value) {
        Some(known) => known.owners.push(owner.to_owned()),
        None => all.push(Owned { value, owners: vec![owner.to_owned()], source }),
    }
}

impl Known {
    /// Returns the sentence about the word that the user asked for, which is printed before the explanation of the key:
    /// the word's meaning, or the key that the word means. Returns `None` if the word is the key's name itself.
    fn asked(&self) -> Option<String> {
        let Self { asked, says, key, .. } = self;
        let asked = asked.as_ref()?;
        Some(match says {
            Some(says) => format!("{asked}: {says}"),
            None => format!("`{asked}` means the key `{key}`"),
        })
    }

    /// Returns the explanation as an HTML page.
    pub fn page(&self) -> Page {
        let Self { key, about, values, limits, owners, by_value, also, .. } = self;
        let grid = |head: &[&str], lines: Vec<Vec<Cell>>| Grid {
            keys: 1,
            head: page::head(head),
            texts: (0..head.len()).collect(),
            lines,
        };
        let mut parts: Vec<Part> = Vec::new();
        if !values.is_empty() {
            let lines = values.iter().map(|(name, about)| vec![(*name).into(), about.clone().into()]).collect();
            parts.push(Part::table("Values", grid(&["value", "means"], lines)));
        }
        parts.extend(limits.iter().cloned().map(Part::Words));
        let mut sections = vec![Section::new("Values", parts)];
        if !by_value.is_empty() {
            let line = |it: &Owned| [it.value.clone(), it.owners.join(", "), it.source.clone()].map(Cell::from).into();
            let owned = grid(&["value", *owners, "source"], by_value.iter().map(line).collect());
            sections.push(Section::new(*owners, vec![Part::table(*owners, owned)]));
        }
        if !also.is_empty() {
            let line = |(key, about): &(String, String)| vec![key.clone().into(), about.clone().into()];
            let other = grid(&["key", "means"], also.iter().map(line).collect());
            sections.push(Section::new("See also", vec![Part::table("See also", other)]));
        }
        sections.retain(|section| !section.parts.is_empty());
        let title = if key.is_empty() { self.asked.clone().unwrap_or_default() } else { key.clone() };
        Page { title, about: self.asked().into_iter().chain([about.clone()]).collect(), sections }
    }

    /// Returns the explanation as text.
    pub fn text(&self, look: Look) -> String {
        let Self { key, about, values, limits, owners, by_value, also, .. } = self;
        let mut text = String::new();
        if let Some(asked) = self.asked() {
            text += &hanging("", &asked, look);
        }
        if !key.is_empty() {
            let gap = if text.is_empty() { "" } else { "\n" };
            text += &format!("{gap}{key}\n{}\n", hanging("  ", about, look));
        }
        if !values.is_empty() || !limits.is_empty() {
            text += "values\n";
            let width = values.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            for (name, about) in values {
                text += &hanging(&format!("  {name:width$}  "), about, look);
            }
            text.extend(limits.iter().map(|limit| hanging("  ", limit, look)));
            text.push('\n');
        }
        if !by_value.is_empty() {
            text += &format!("{owners}\n");
        }
        let width = by_value.iter().map(|it| it.value.chars().count()).max().unwrap_or(0).min(40);
        for Owned { value, owners, source } in by_value {
            text += &hanging(&format!("  {value:width$}  "), &owners.join(", "), look);
            text += &hanging(&" ".repeat(width + 6), source, look);
        }
        if !also.is_empty() {
            text += "\nsee also\n";
        }
        for (key, about) in also {
            text += &hanging(&format!("  {key}  "), about, look);
        }
        text
    }
}

/// Explains a key, a counter, or a name that users know from Linux. Returns none if `key` is none of these, or if
/// several keys match.
///
/// # Errors
/// When an embedded file is faulty.
pub fn explain(key: &str) -> Result<Option<Known>, Error> {
    if let Some(path) = key.strip_prefix(OF_MACHINE) {
        return of_machines(path);
    }
    if let Some(param) = key.strip_prefix(OF_PARAMS) {
        return of_experiments(param);
    }
    if let Some(choice) = choice::all().find(|choice| choice.path() == key) {
        return of_kernels(choice).map(Some);
    }
    if let Some(named) = known_names::find(key).filter(|_| key.contains(['.', '/']) || last_parts(key).is_empty()) {
        return of_name(key, named).map(Some);
    }
    if let Some(found) = of_counter(key) {
        return Ok(Some(found));
    }
    let found = match &last_parts(key)[..] {
        [only] => explain(only)?,
        [] => meant_key(key).and_then(|key| Choice::find(&key)).map(of_kernels).transpose()?,
        _ => None,
    };
    Ok(found.map(|found| Known { asked: Some(key.to_owned()), ..found }))
}

/// Returns the keys of kernels, machines and experiments whose last part (after the last dot) is `word`.
fn last_parts(word: &str) -> Vec<String> {
    let of_kernels = choice::all().filter(|choice| choice.key == word).map(Choice::path);
    let is_last = |path: &String| path.rsplit('.').next() == Some(word);
    let of_machines = meanings::of_machines().into_iter().map(|(path, _)| path).filter(is_last);
    let params = meanings::params().into_iter().filter(is_last);
    let all = of_kernels
        .chain(of_machines.map(|path| format!("{OF_MACHINE}{path}")))
        .chain(params.map(|param| format!("{OF_PARAMS}{param}")));
    all.collect()
}

/// Explains `asked`, a name that users know from Linux, by the first key that corresponds to it, and lists the other
/// keys that correspond to it.
fn of_name(asked: &str, named: &known_names::Known) -> Result<Known, Error> {
    let first = named.keys.first().map(|key| explain(key)).transpose()?.flatten().unwrap_or_default();
    let also = named.keys.iter().skip(1).map(|key| (key.clone(), meaning(key))).collect();
    Ok(Known { asked: Some(asked.to_owned()), says: Some(named.says.clone()), also, ..first })
}

/// Explains `name` if it names a counter of `/proc/vmstat` that simulations keep; returns `None` for other names. A
/// counter's name may have the name of a zone at its end. It then counts for this zone alone.
fn of_counter(name: &str) -> Option<Known> {
    let (counter, about) =
        vmstat::described().find(|(known, _)| *known == name || counters::zone_of(name, known).is_some())?;
    let of_zone = counters::zone_of(name, counter).map_or_else(String::new, |zone| format!(" In zone `{zone}` alone."));
    let says = format!("A counter of /proc/vmstat: {about}{of_zone} `--series FILE` writes it over time.");
    Some(Known { asked: Some(name.to_owned()), says: Some(says), ..Known::default() })
}

/// Returns the meaning of a key in one or two sentences; empty if the key is unknown.
fn meaning(key: &str) -> String {
    match (key.strip_prefix(OF_MACHINE), key.strip_prefix(OF_PARAMS)) {
        (Some(path), _) => meanings::of_machine(path).unwrap_or_default(),
        (_, Some(param)) => meanings::of_param(param).swap_remove(0).0,
        _ => Choice::find(key).map(Choice::about).unwrap_or_default(),
    }
}

/// Returns the key of kernel files whose spelling is most like that of `key`, if one is similar enough.
pub fn nearest(key: &str) -> Option<String> {
    let keys: Vec<String> = choice::all().map(Choice::path).collect();
    placed::nearest(key, keys.iter().map(String::as_str)).map(ToOwned::to_owned)
}

/// Searches all names that can be explained (of kernels, keys, counters and so on) for those in which a word begins
/// with `word`. Returns these names with their descriptions, grouped by kind. If there are none, searches for `word`
/// anywhere in names, then for names with all of its parts between dots, and then anywhere in descriptions.
#[must_use]
pub fn matching(word: &str) -> Vec<(&'static str, Vec<(String, String)>)> {
    let word = word.to_lowercase();
    let named = |folder: &'static str| -> Vec<(String, String)> {
        embedded::names(folder).map(|name| (name.to_owned(), about_file(folder, name))).collect()
    };
    let keys = choice::all().flat_map(|choice| {
        let value =
            |value: &engine::kernel::choice::Named| (format!("{} = {}", choice.path(), value.name), value.about());
        std::iter::once((choice.path(), choice.about())).chain(choice.values.iter().map(value))
    });
    let machine_keys = meanings::of_machines().into_iter().map(|(path, _)| (format!("{OF_MACHINE}{path}"), path));
    let machine_keys = machine_keys.map(|(key, path)| (key, meanings::of_machine(&path).unwrap_or_default()));
    let params = meanings::params().into_iter().map(|param| (format!("{OF_PARAMS}{param}"), param));
    let params = params.map(|(key, param)| (key, meanings::of_param(&param).swap_remove(0).0));
    let names =
        known_names::all().iter().flat_map(|known| known.names.iter().map(|name| (name.clone(), known.says.clone())));
    let workloads = grounds::all().iter().map(|it| (it.name().to_owned(), it.about().to_owned()));
    let all = [
        ("kernels", named("kernels")),
        ("machines", named("machines")),
        ("experiments", named("experiments")),
        ("workloads", workloads.collect()),
        ("keys of kernels", keys.collect()),
        ("keys of machines", machine_keys.collect()),
        ("parameters", params.collect::<Vec<_>>()),
        ("counters", vmstat::described().map(|(name, about)| (name.to_owned(), about.to_owned())).collect()),
        ("names of Linux", names.collect()),
    ];
    let with = |is_meant: &dyn Fn(&(String, String)) -> bool| {
        let kinds =
            all.iter().map(|(kind, lines)| (*kind, lines.iter().filter(|line| is_meant(line)).cloned().collect()));
        kinds.filter(|(_, lines): &(_, Vec<_>)| !lines.is_empty()).collect::<Vec<_>>()
    };
    // A match must begin a word: a search for `oom` means `oom_killer`, but not `room_percent`.
    let begins = |name: &str| {
        let name = name.to_lowercase();
        let at_begin = |at: usize| !name[..at].ends_with(char::is_alphanumeric);
        name.match_indices(&word).any(|(at, _)| at_begin(at))
    };
    let within = |name: &str| name.to_lowercase().contains(&word);
    let mut found = with(&|(name, _)| begins(name));
    if found.is_empty() {
        found = with(&|(name, _)| within(name));
    }
    // `machine.swap` means `machine.disk.swap_slots`.
    let pieces: Vec<&str> = word.split(['.', '_']).filter(|piece| !piece.is_empty()).collect();
    if found.is_empty() && pieces.len() > 1 {
        found = with(&|(name, _)| pieces.iter().all(|piece| name.to_lowercase().contains(piece)));
    }
    if found.is_empty() {
        found = with(&|(_, about)| within(about));
    }
    found
}

/// Returns the description that an embedded file of a kernel, machine or experiment has.
fn about_file(folder: &str, name: &str) -> String {
    match folder {
        "kernels" => find::kernel(name).map(|kernel| kernel.about),
        "machines" => find::machine(name).map(|machine| machine.about),
        _ => find::experiment(name).map(|experiment| experiment.about),
    }
    .unwrap_or_default()
}

/// Explains a key of kernel files: its meaning and its values. For each value, lists the kernels that set it, each with
/// the source that its file states.
fn of_kernels(choice: &Choice) -> Result<Known, Error> {
    let Choice { section, key, values, .. } = choice;
    let mut by_value = Vec::new();
    for name in embedded::names("kernels") {
        let kernel = find::kernel(name)?;
        let Some(setting) = kernel.settings.iter().find(|it| (&*it.section, &*it.key) == (section, key)) else {
            continue;
        };
        own(&mut by_value, name, plain(&setting.value), origin(setting));
    }
    let default = format!("default: {}, as in {ROOT}", plain(&choice.default()));
    let conditions = choice.conditions().map(|Condition { what, values, is_one }| {
        format!("read {} {what} = {}", if *is_one { "with" } else { "unless" }, values.join(" or "))
    });
    Ok(Known {
        key: choice.path(),
        about: choice.about(),
        values: values.iter().map(|value| (value.name, value.about())).collect(),
        limits: choice.range().into_iter().chain([default]).chain(conditions).collect(),
        owners: "kernels",
        by_value,
        ..Known::default()
    })
}

/// Explains a key of machine files: its meaning, and for each machine the value of the key and the origin of this
/// value.
fn of_machines(path: &str) -> Result<Option<Known>, Error> {
    let mut by_value = Vec::new();
    for name in embedded::names("machines") {
        let node = find::machine(name)?.node;
        let found = path.split('.').try_fold(&node, |node, key| node.first().get(key));
        if let Some(node) = found {
            own(&mut by_value, name, constant(node), node.place.to_string());
        }
    }
    Ok(known(OF_MACHINE, path, meanings::of_machine(path), "machines", by_value))
}

/// Explains a workload's parameter `param`: its meaning, and its value in each experiment.
fn of_experiments(param: &str) -> Result<Option<Known>, Error> {
    let mut by_value = Vec::new();
    for name in embedded::names("experiments") {
        let experiment = find::experiment(name)?;
        let params = grounds::find(&experiment.workload).and_then(|workload| workload.params(&experiment.params));
        let at = || param.split('.').try_fold(params.as_ref()?, |value, key| value.get(key));
        let given = param.split('.').try_fold(&experiment.params, |node, key| node.get(key));
        match (given, at()) {
            (Some(node), _) => own(&mut by_value, name, constant(node), node.place.to_string()),
            (None, Some(value)) => own(&mut by_value, name, value.to_string(), "default".into()),
            (None, None) => {}
        }
    }
    let meanings = meanings::of_param(param);
    let several = meanings.len() > 1;
    let about = meanings.into_iter().map(|(about, workloads)| match several {
        true => format!("{}: {about}", workloads.join(", ")),
        false => about,
    });
    let about = about.collect::<Vec<_>>().join(" ");
    Ok(known(OF_PARAMS, param, (!about.is_empty()).then_some(about), "experiments", by_value))
}

/// Explains the key `path` of machine files or experiments' files (`owners`). `about` is the key's meaning, if known.
/// Returns `None` if the meaning is unknown and no file sets the key.
fn known(prefix: &str, path: &str, about: Option<String>, owners: &'static str, by_value: Vec<Owned>) -> Option<Known> {
    if about.is_none() && by_value.is_empty() {
        return None;
    }
    let key = format!("{prefix}{path}");
    let set = format!("`--set {key}=VALUE` changes it.");
    let about = [about, (!by_value.is_empty()).then_some(set)].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Some(Known { key, about, owners, by_value, ..Known::default() })
}

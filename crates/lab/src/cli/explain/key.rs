//! What a key means, which values it may have, and who has which.

use engine::kernel::{
    ROOT,
    choice::{self, Choice},
    meant_key,
};
use placed::Error;

use super::origin;
use crate::{
    difference::plain,
    embedded,
    html::{Page, Part, Section, results},
    library,
    plan::{OF_MACHINE, OF_PARAMS},
    report::{
        Look,
        grid::{Cell, Grid, hanging},
    },
    values::constant,
    workloads,
};

/// What is known of a key.
pub struct Known {
    /// The key as it was asked for, where that is not its name: without its section, in another, or a sysctl.
    asked: Option<String>,
    /// Its name.
    key: String,
    /// What it means.
    about: String,
    /// Its values, each with its meaning.
    values: Vec<(&'static str, String)>,
    /// Its range and its default.
    limits: Vec<String>,
    /// What has it: `kernels`, `machines`, `experiments`.
    owners: &'static str,
    /// Each that has it, with its value and where that is from.
    lines: Vec<[String; 3]>,
}

impl Known {
    /// The key as a page.
    pub fn page(&self) -> Page {
        let Self { asked, key, about, values, limits, owners, lines } = self;
        let asked = asked.iter().map(|asked| format!("`{asked}` means the key `{key}`"));
        let grid = |head: &[&str], lines: Vec<Vec<Cell>>| Grid {
            keys: 1,
            head: results::head(head),
            texts: (0..head.len()).collect(),
            lines,
        };
        let mut parts: Vec<Part> = Vec::new();
        if !values.is_empty() {
            let lines = values.iter().map(|(name, about)| vec![(*name).into(), about.clone().into()]).collect();
            parts.push(Part::table("Values", grid(&["value", "means"], lines)));
        }
        parts.extend(limits.iter().cloned().map(Part::Words));
        let owned = lines.iter().map(|line| line.iter().cloned().map(Cell::from).collect()).collect();
        let owned = Part::table(*owners, grid(&["who", "value", "source"], owned));
        let sections = vec![Section::new("Values", parts), Section::new(*owners, vec![owned])];
        let sections = sections.into_iter().filter(|section| !section.parts.is_empty()).collect();
        Page { title: key.clone(), about: asked.chain([about.clone()]).collect(), sections }
    }

    /// The key as text.
    pub fn text(&self, look: Look) -> String {
        let Self { asked, key, about, values, limits, owners, lines } = self;
        let mut text = String::new();
        if let Some(asked) = asked {
            text += &format!("`{asked}` means the key `{key}`:\n\n");
        }
        text += &format!("{key}\n{}\n", hanging("  ", about, look));
        if !values.is_empty() || !limits.is_empty() {
            text += "values\n";
            let width = values.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            for (name, about) in values {
                text += &hanging(&format!("  {name:width$}  "), about, look);
            }
            text.extend(limits.iter().map(|limit| format!("  {limit}\n")));
            text.push('\n');
        }
        text += &format!("{owners}\n");
        let width = |cell: usize| lines.iter().map(|line| line[cell].chars().count()).max().unwrap_or(0);
        let (name_width, value_width) = (width(0), width(1).min(64));
        for [name, value, place] in lines {
            text += &hanging(&format!("  {name:name_width$}  {value:value_width$}  "), place, look);
        }
        text
    }
}

/// What is known of a key; none where no kernel, machine or workload has it.
///
/// # Errors
/// When an embedded file is wrong.
pub fn explain(key: &str) -> Result<Option<Known>, Error> {
    if let Some(path) = key.strip_prefix(OF_MACHINE) {
        return of_machines(path);
    }
    if let Some(param) = key.strip_prefix(OF_PARAMS) {
        return of_experiments(param);
    }
    let meant = || meant_key(key).and_then(|key| Choice::find(&key));
    let Some(choice) = Choice::find(key).or_else(meant) else { return Ok(None) };
    let asked = (choice.path() != key).then(|| key.to_owned());
    Ok(Some(Known { asked, ..of_kernels(choice)? }))
}

/// The key of kernels that comes nearest.
pub fn nearest(key: &str) -> Option<String> {
    let keys: Vec<String> = choice::all().map(Choice::path).collect();
    placed::nearest(key, keys.iter().map(String::as_str)).map(ToOwned::to_owned)
}

/// A choice: its meaning, its values, and the value of each kernel with its source.
fn of_kernels(choice: &Choice) -> Result<Known, Error> {
    let Choice { section, key, values, .. } = choice;
    let mut lines = Vec::new();
    for name in embedded::names("kernels") {
        let kernel = library::kernel(name)?;
        let setting = kernel.settings.iter().find(|it| (&*it.section, &*it.key) == (section, key));
        lines.extend(setting.map(|setting| [name.to_owned(), plain(&setting.value), origin(setting)]));
    }
    let default = format!("default: {}, as in {ROOT}", plain(&choice.default()));
    Ok(Known {
        asked: None,
        key: choice.path(),
        about: choice.about(),
        values: values.iter().map(|value| (value.name, value.about())).collect(),
        limits: choice.range().into_iter().chain([default]).collect(),
        owners: "kernels",
        lines,
    })
}

/// A constant of machines: the value of each that has it, with its origin.
fn of_machines(path: &str) -> Result<Option<Known>, Error> {
    let mut lines = Vec::new();
    for name in embedded::names("machines") {
        let node = library::machine(name)?.node;
        let found = path.split('.').try_fold(&node, |node, key| node.first().get(key));
        lines.extend(found.map(|node| [name.to_owned(), constant(node), node.place.to_string()]));
    }
    Ok(set_alone(OF_MACHINE, path, "machines", lines))
}

/// A parameter of workloads: the value of each experiment whose workload has it.
fn of_experiments(param: &str) -> Result<Option<Known>, Error> {
    let mut lines = Vec::new();
    for name in embedded::names("experiments") {
        let experiment = library::experiment(name)?;
        let params = workloads::find(&experiment.workload).and_then(|workload| workload.params(&experiment.params));
        match (experiment.params.get(param), params.as_ref().and_then(|params| params.get(param))) {
            (Some(node), _) => lines.push([name.to_owned(), constant(node), node.place.to_string()]),
            (None, Some(value)) => lines.push([name.to_owned(), value.to_string(), "default".into()]),
            (None, None) => {}
        }
    }
    Ok(set_alone(OF_PARAMS, param, "experiments", lines))
}

/// A key of which nothing is known but who has it; none where nobody has it.
fn set_alone(prefix: &str, path: &str, owners: &'static str, lines: Vec<[String; 3]>) -> Option<Known> {
    let key = format!("{prefix}{path}");
    let about = format!("`--set {key}=VALUE` changes it");
    let known = Known { asked: None, key, about, values: Vec::new(), limits: Vec::new(), owners, lines };
    (!known.lines.is_empty()).then_some(known)
}

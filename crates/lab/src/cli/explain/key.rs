//! What a key means, which values it may have, and who has which.

use engine::kernel::{
    Kernel,
    choice::{self, Choice},
    meant_key,
};
use placed::Error;

use super::{constant, origin};
use crate::{
    difference::plain,
    embedded, library,
    plan::{OF_MACHINE, OF_PARAMS},
    workloads,
};

/// What is known of a key; none where no kernel, machine or workload has it.
///
/// # Errors
/// When an embedded file is wrong.
pub fn explain(key: &str) -> Result<Option<String>, Error> {
    if let Some(path) = key.strip_prefix(OF_MACHINE) {
        return of_machines(path);
    }
    if let Some(param) = key.strip_prefix(OF_PARAMS) {
        return of_experiments(param);
    }
    let meant = || meant_key(key).and_then(|key| Choice::find(&key));
    Choice::find(key).or_else(meant).map(of_kernels).transpose()
}

/// The key of kernels that comes nearest.
pub fn nearest(key: &str) -> Option<String> {
    let keys: Vec<String> = choice::all().map(Choice::path).collect();
    placed::nearest(key, keys.iter().map(String::as_str)).map(ToOwned::to_owned)
}

/// A choice: its meaning, its values, and the value of each kernel with its source.
fn of_kernels(choice: &Choice) -> Result<String, Error> {
    let Choice { section, key, values, .. } = choice;
    let mut text = format!("{}\n  {}\n\nvalues\n", choice.path(), choice.about());
    let width = values.iter().map(|value| value.name.len()).max().unwrap_or(0);
    for value in *values {
        text.push_str(&format!("  {:width$}  {}\n", value.name, value.about()));
    }
    text.extend(choice.range().map(|range| format!("  {range}\n")));
    text.push_str(&format!("  default: {}\n\nkernels\n", plain(&choice.default())));
    let of = |name: &'static str| -> Result<(&str, Kernel), Error> { Ok((name, library::kernel(name)?)) };
    let kernels = embedded::names("kernels").map(of).collect::<Result<Vec<_>, _>>()?;
    let lines = kernels.iter().filter_map(|(name, kernel)| {
        let setting = kernel.settings.iter().find(|it| (&*it.section, &*it.key) == (section, key))?;
        Some([(*name).to_owned(), plain(&setting.value), origin(setting)])
    });
    Ok(text + &table(lines.collect()))
}

/// A constant of machines: the value of each that has it, with its origin.
fn of_machines(path: &str) -> Result<Option<String>, Error> {
    let mut lines = Vec::new();
    for name in embedded::names("machines") {
        let node = library::machine(name)?.node;
        let found = path.split('.').try_fold(&node, |node, key| node.first().get(key));
        lines.extend(found.map(|node| [name.to_owned(), constant(node), node.place.to_string()]));
    }
    let head = format!("{OF_MACHINE}{path}\n  as `--set {OF_MACHINE}{path}=VALUE`\n\nmachines\n");
    Ok((!lines.is_empty()).then(|| head + &table(lines)))
}

/// A parameter of workloads: the value of each experiment whose workload has it.
fn of_experiments(param: &str) -> Result<Option<String>, Error> {
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
    let head = format!("{OF_PARAMS}{param}\n  as `--set {OF_PARAMS}{param}=VALUE`\n\nexperiments\n");
    Ok((!lines.is_empty()).then(|| head + &table(lines)))
}

/// Lines in columns.
fn table(lines: Vec<[String; 3]>) -> String {
    let width = |cell: usize| lines.iter().map(|line| line[cell].chars().count()).max().unwrap_or(0);
    let (name_width, value_width) = (width(0), width(1).min(64));
    let line = |[name, value, place]: &[String; 3]| {
        format!("  {name:name_width$}  {value:value_width$}  {place}").trim_end().to_owned() + "\n"
    };
    lines.iter().map(line).collect()
}

//! Changes that the user requests for a run: values of the kernel, of the machine, and of the workload's parameters.

use std::{collections::BTreeMap, sync::Arc};

use engine::kernel::{self, choice};
use placed::{Error, Node};

use super::Request;
use catalogue::change;
use catalogue::experiment::Experiment;
use catalogue::find;
use catalogue::group::Asked;
use catalogue::hardware::Hardware;
use grounds::job::Runnable;

/// Values for one key: of a kernel (`lru.batch`, with `1`, `14`), of the machine (`machine.cpu.count`), or of the
/// workload (`params.hogs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Path of the key: its section and its name.
    pub key: String,
    /// The values, as in a file; quotes are optional.
    pub values: Vec<String>,
}

/// Prefix of the machine's keys. Keys with neither this prefix nor [`OF_PARAMS`] belong to kernels.
pub const OF_MACHINE: &str = "machine.";
/// Prefix of the keys of the workload's parameters.
pub const OF_PARAMS: &str = "params.";

impl Set {
    /// Returns whether the key is a key of kernel files.
    #[must_use]
    pub fn is_of_kernel(&self) -> bool {
        !self.key.starts_with(OF_MACHINE) && !self.key.starts_with(OF_PARAMS)
    }
}

/// A machine and the parameters of the workload. Either may have changes.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// The machine, with those of its keys changed that the setup changes.
    pub machine: Arc<Hardware>,
    /// Name or file of the machine, followed by the changes to its keys.
    pub machine_word: String,
    /// The workload's parameters.
    pub params: Node,
    /// Name or file of the experiment, followed by the changes to its parameters.
    pub experiment_word: String,
    /// The values that differ from the machine file and the experiment file, by key.
    pub set: BTreeMap<String, String>,
}

impl Setup {
    /// Returns a setup for each combination of the values that a request sets. A request may set several values for
    /// each key of the machine (`machine.KEY`) and for each parameter of the workload (`params.KEY`).
    pub fn all(request: &Request, experiment: &Experiment) -> Result<Vec<Self>, Error> {
        let machine_word = request.machine.clone().unwrap_or_else(|| experiment.machine.clone());
        let machine_word = request.groups.iter().fold(machine_word, |word, group| word + &group.changes());
        let plain = [(machine_word, request.experiment.clone(), BTreeMap::new())];
        let others = request.set.iter().filter(|set| !set.is_of_kernel());
        let words = others.fold(plain.to_vec(), |words, set| {
            let with = |(machine, experiment, keys): &(String, String, BTreeMap<String, String>), value: &String| {
                let (mut machine, mut experiment, mut keys) = (machine.clone(), experiment.clone(), keys.clone());
                match set.key.strip_prefix(OF_MACHINE) {
                    Some(key) => machine.push_str(&format!("+{key}={value}")),
                    None => experiment.push_str(&format!("+{}={value}", &set.key[OF_PARAMS.len()..])),
                }
                keys.insert(set.key.clone(), value.clone());
                (machine, experiment, keys)
            };
            words.iter().flat_map(|word| set.values.iter().map(move |value| with(word, value))).collect()
        });
        let setup = |(machine_word, experiment_word, set): (String, String, BTreeMap<String, String>)| {
            let machine = find::machine_with(&machine_word, &experiment.groups).map_err(|error| {
                // A name that the experiment's file has wrong is wrong there.
                match (&request.machine, find::machine(&experiment.machine)) {
                    (None, Err(Error { place: None, message })) => Error::at(&experiment.name_places.machine, message),
                    _ => of_group(error, &request.groups).unwrap_or_else(|error| of_set(error, OF_MACHINE, &set)),
                }
            })?;
            let params = find::experiment(&experiment_word).map_err(|error| of_set(error, OF_PARAMS, &set))?.params;
            Ok(Self { machine: Arc::new(machine), machine_word, params, experiment_word, set })
        };
        words.into_iter().map(setup).collect()
    }

    /// Returns the message `why`. If `--set` changed the parameter that the message is about, the result begins with
    /// `--set KEY=VALUE`.
    pub fn told(&self, why: &str) -> String {
        let given = self.set.iter().find_map(|(key, value)| {
            let rest = why.strip_prefix(&format!("{}={value}: ", key.strip_prefix(OF_PARAMS)?))?;
            Some(format!("--set {key}={value}: {rest}"))
        });
        given.unwrap_or_else(|| why.to_owned())
    }
}

/// Puts the changes in `set` whose keys begin with `prefix` in front of the message of `error`. The new error has no
/// place: if `error` names a line of the file, this line becomes a part of the message. Returns `error` unchanged if
/// there are no such changes.
fn of_set(error: Error, prefix: &str, set: &BTreeMap<String, String>) -> Error {
    let given: Vec<String> = set
        .iter()
        .filter(|(key, _)| key.starts_with(prefix))
        .map(|(key, value)| format!("--set {key}={value}"))
        .collect();
    if given.is_empty() {
        return error;
    }
    let is_of_value = error.place.as_ref().is_none_or(|place| place.line == 0);
    let why = if is_of_value { error.message } else { error.to_string() };
    Error { place: None, message: format!("{}: {why}", given.join(" ")) }
}

/// Returns an error about a control group with another text, if an option of the command line defines the group: the
/// text then names this option instead of a place in the machine file.
///
/// # Errors
/// When no option defines the group, or `error` is about something else. The result is then `error`, unchanged.
fn of_group(error: Error, groups: &[Asked]) -> Result<Error, Error> {
    let place = error.place.as_ref().filter(|place| place.line == 0).map(|place| place.file.to_string());
    let option = place.and_then(|place| groups.iter().rev().find_map(|group| group.option_at(&place)));
    match option {
        Some(option) => {
            let message = error.message.strip_prefix("in [[group]]: ").unwrap_or(&error.message);
            Ok(Error { place: None, message: format!("{option}: {message}") })
        }
        None => Err(error),
    }
}

/// Returns a kernel for each pair of a kernel in `words` and a value in `values`: the kernel in which `key` has this
/// value.
pub(super) fn with_each(words: Vec<String>, Set { key, values }: &Set) -> Vec<String> {
    words.iter().flat_map(|word| values.iter().map(move |value| format!("{word}+{key}={value}"))).collect()
}

/// Checks that each key to be set has the prefix of the thing that it belongs to: `machine.` for the machine, `params.`
/// for the workload's parameters, and no prefix for kernels.
///
/// # Errors
/// When a key has a wrong prefix. The error names the first such key and its right name. A key that belongs to nothing
/// is an error here only if no key of kernels is like it; otherwise the function that reads its value refuses it.
pub(super) fn check_owners(
    request: &Request,
    experiment: &Experiment,
    setup: &Setup,
    workload: &dyn Runnable,
) -> Result<(), Error> {
    let is_of_kernel = |key: &str| choice::all().any(|choice| choice.path() == key);
    let defaults = workload.params(&experiment.params).unwrap_or_default();
    let is_param = |key: &str| {
        let mut words = key.split('.');
        let is_default = || key.split('.').try_fold(&defaults, |value, word| value.get(word)).is_some();
        words.try_fold(&experiment.params, |node, word| node.get(word)).is_some() || is_default()
    };
    // What a group may have is known when the machine is read.
    let is_of_machine =
        |key: &str| key.starts_with("group.") || key.contains('.') && change::find(&setup.machine.node, key).is_some();
    for key in request.set.iter().map(|set| set.key.as_str()) {
        let (plain, is_known) = match (key.strip_prefix(OF_MACHINE), key.strip_prefix(OF_PARAMS)) {
            (Some(plain), _) => (plain, is_of_machine(plain)),
            (_, Some(plain)) => (plain, is_param(plain)),
            _ => (key, is_of_kernel(key)),
        };
        if is_known {
            continue;
        }
        let owner = if is_param(plain) {
            Some((format!("{OF_PARAMS}{plain}"), "a parameter of the workload"))
        } else if is_of_machine(plain) {
            Some((format!("{OF_MACHINE}{plain}"), "of the machine"))
        } else if plain != key {
            kernel::meant_key(plain).map(|key| (key, "a choice of kernels"))
        } else {
            None
        };
        if let Some((name, whose)) = owner {
            return Err(Error { place: None, message: format!("--set {key}: it is {whose}: `{name}`") });
        }
        let is_like_any = || {
            let keys: Vec<String> = choice::all().map(choice::Choice::path).collect();
            placed::nearest(key, keys.iter().map(String::as_str)).is_some() || kernel::meant_key(key).is_some()
        };
        if plain == key && !key.starts_with("vm.") && !is_like_any() {
            let machine = setup.machine_word.split('+').next().unwrap_or_default();
            let name = &request.experiment;
            let message = format!(
                "--set {key}: unknown key: `highwater explain {}` lists the keys of kernels, `highwater explain {machine}` \
                 those of the machine (`{OF_MACHINE}KEY`), `highwater explain {name}` those of the workload \
                 (`{OF_PARAMS}KEY`)",
                kernel::ROOT
            );
            return Err(Error { place: None, message });
        }
    }
    Ok(())
}

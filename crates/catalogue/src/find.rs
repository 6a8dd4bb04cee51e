//! Finds kernels, machines and experiments: by name among the embedded files, or in a user's file.
//!
//! A word with a `/`, or with `.toml` at its end, is the path of a file. The `base` that this file names is searched
//! beside it, then among the embedded files. After a kernel's name or file, `+KEY=VALUE` changes a value.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use engine::kernel::{Kernel, Source, files};
use placed::{Error, Node, Place, one_of};

use crate::experiment::Experiment;
use crate::hardware::Hardware;
use crate::{embedded, hardware, versions};
use kit::input;

/// Returns whether `word` is the path of a file instead of the name of an embedded item.
#[must_use]
pub fn is_file(word: &str) -> bool {
    let word = if Path::new(word).exists() { word } else { word.split('+').next().unwrap_or(word) };
    word.contains(['/', std::path::MAIN_SEPARATOR])
        || word.ends_with(".toml")
        || word.ends_with(FIO)
        || word.ends_with(TRACE)
}

/// The extension of job files of fio, which are read as experiments.
const FIO: &str = ".fio";

/// The extension of traces, which are read as experiments that replay them.
const TRACE: &str = ".hwtrace";

/// Returns the name of the kernel, machine or experiment that a file describes. It is the file's name without
/// extension; for a file `experiment.toml`, it is the name of the file's folder.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    let folder = || fs::canonicalize(path).ok()?.parent()?.file_name().map(ToOwned::to_owned);
    let name = if stem == "experiment" { folder() } else { None };
    name.as_deref().unwrap_or(stem).to_string_lossy().into_owned()
}

/// Returns the file called `name` beside the file `path`, if there is one.
#[must_use]
pub fn beside(path: &Path, name: &str) -> Option<PathBuf> {
    let stem = name.strip_suffix(".toml").unwrap_or(name);
    let path = path.parent().unwrap_or(Path::new("")).join(format!("{stem}.toml"));
    path.exists().then_some(path)
}

/// Largest size of a file, bytes. A hand-written file has some thousand bytes. The limit guards against devices such as
/// `/dev/zero`, from which bytes can be read without end.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Returns the text of the file at `path`. `role` says in an error what the file is for; the error also names the file
/// and the cause.
pub fn read(path: &Path, role: &str) -> Result<String, Error> {
    let text = || {
        let mut bytes = Vec::new();
        input::open(path, role)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::other(format!("it has more than {} MiB", FILE_BYTES_MAX >> 20)));
        }
        String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
    };
    text().map_err(|error: io::Error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "there is no such file".to_owned(),
            io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
            _ if path.is_dir() => "it is a folder".to_owned(),
            _ => error.to_string(),
        };
        Error { place: None, message: format!("cannot read {}: {why}", path.display()) }
    })
}

fn unknown(kind: &str, folder: &str, name: &str) -> String {
    let mut names: Vec<&str> = embedded::names(folder).collect();
    names.sort_unstable();
    // If the name begins with a version, the nearest versions are better hints than names with similar letters, unless
    // only the part after the version is misspelt.
    let near = placed::nearest(name, names.iter().copied());
    let is_slip = |near: &str| name.contains('-') && versions::version(near) == versions::version(name);
    if kind == "kernel"
        && !near.is_some_and(is_slip)
        && let Some(hint) = versions::hint(name)
    {
        return format!("no kernel is called `{name}`{hint}");
    }
    let file = if names.is_empty() { ": none is embedded; a file has a `/` or ends in `.toml`" } else { "" };
    format!("no {kind} is called `{name}`{}{file}", one_of(name, &names))
}

/// A kind of file that can be found by name and may have a base.
#[derive(Clone, Copy)]
enum Kind {
    Kernel,
    Machine,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Machine => "machine",
        }
    }

    const fn folder(self) -> &'static str {
        match self {
            Self::Kernel => "kernels",
            Self::Machine => "machines",
        }
    }

    /// Returns the embedded file called `name`.
    fn embedded(self, name: &str) -> Result<Source, String> {
        let found = match self {
            Self::Kernel => files::source(name),
            Self::Machine => embedded::source(&format!("machines/{name}.toml")),
        };
        found.ok_or_else(|| unknown(self.name(), self.folder(), name))
    }

    /// Returns the base `name` of the kernel or machine that the file at `top` describes, or of one of its bases. The base
    /// is the file with this name in the same folder, or else the embedded file with this name. Returns a message if the
    /// base is the file at `top` itself.
    fn base_of(self, top: &Path, name: &str) -> Result<Source, String> {
        let Some(path) = beside(top, name) else {
            return self.embedded(name).map_err(|message| format!("{message} (nor is it beside this file)"));
        };
        // Bases are told apart by their names, and `x` and `x.toml` are one file.
        if path == top {
            return Err(format!("the bases go round in a circle: `{name}` is the file {} again", top.display()));
        }
        let text = read(&path, &format!("the base of a {}", self.name())).map_err(|error| error.message)?;
        Ok(Source { file: path.display().to_string(), text })
    }
}

/// Returns the kernel that `word` names. `word` is a name or a file, and may be followed by changes, each after a `+`:
/// `highwater+lru.batch=31+lru.swappiness=10`.
///
/// # Errors
/// When there is no such kernel or file (the error has the nearest names), when the file or one of its bases is wrong,
/// or when a change is wrong.
pub fn kernel(word: &str) -> Result<Kernel, Error> {
    kernel_of(word, unchanged_kernel)
}

/// Returns the kernels for several words, each as [`kernel`] returns it. A file that several words share is read once.
///
/// # Errors
/// When a word is wrong. The error is that of the first such word.
pub fn kernels<'w>(words: impl IntoIterator<Item = &'w str>) -> Result<Vec<Kernel>, Error> {
    let mut read: BTreeMap<String, Kernel> = BTreeMap::new();
    let mut plain = |word: &str| match read.get(word) {
        Some(kernel) => Ok(kernel.clone()),
        None => unchanged_kernel(word).inspect(|kernel| drop(read.insert(word.to_owned(), kernel.clone()))),
    };
    words.into_iter().map(|word| kernel_of(word, &mut plain)).collect()
}

fn kernel_of(word: &str, plain: impl FnOnce(&str) -> Result<Kernel, Error>) -> Result<Kernel, Error> {
    let (name, changes) = split_at_changes(word);
    let mut kernel = plain(name)?;
    for change in changes {
        let Some((key, value)) = change.split_once('=') else {
            let message = format!("{word}: expected KEY=VALUE after `+`, such as lru.batch=14, found `{change}`");
            return Err(Error { place: None, message });
        };
        kernel.set(key, value).map_err(|error| {
            // A message that guesses what is meant is an answer.
            if error.message.ends_with('?') {
                return error;
            }
            let command = match kernel.settings.iter().any(|it| format!("{}.{}", it.section, it.key) == key) {
                true => format!("`highwater explain {key}` says what its values mean"),
                false => format!("`highwater explain {name}` lists the keys"),
            };
            Error { message: format!("{}; {command}", error.message), ..error }
        })?;
    }
    Ok(kernel)
}

/// Splits a word at each `+` into the name and the changes. The path of an existing file is not split.
fn split_at_changes(word: &str) -> (&str, impl Iterator<Item = &str>) {
    let is_all_name = is_file(word) && Path::new(word).exists();
    let (name, changes) = match word.split_once('+').filter(|_| !is_all_name) {
        Some((name, changes)) => (name, Some(changes)),
        None => (word, None),
    };
    (name, changes.into_iter().flat_map(|changes| changes.split('+')))
}

fn unchanged_kernel(word: &str) -> Result<Kernel, Error> {
    if !is_file(word) {
        let Source { file, text } = Kind::Kernel.embedded(word).map_err(|message| Error { place: None, message })?;
        return Kernel::parse(word, &file, &text, &|name| Kind::Kernel.embedded(name));
    }
    let path = Path::new(word);
    let kernel =
        Kernel::parse(&name_of(path), word, &read(path, "a kernel")?, &|name| Kind::Kernel.base_of(path, name))?;
    if kernel.bases.is_empty() && kernel.own().next().is_none() {
        // An empty file would stand for the kernel from which all others derive. Nobody means that, so it is refused.
        let place = Place { file: word.into(), line: 1 };
        return Err(Error::at(&place, "the file has no value and no base: expected `base = \"…\"` or a [section]"));
    }
    Ok(kernel)
}

/// Returns the machine for `word`, with changes after a `+`: `ping-8g+cpu.count=4`.
///
/// # Errors
/// The errors of [`kernel`].
pub fn machine(word: &str) -> Result<Hardware, Error> {
    machine_with(word, &[])
}

/// Returns the machine for `word` as [`machine()`] does, with the control groups of an experiment
/// ([`Experiment::groups`]). Changes in `word` apply to these groups, too.
///
/// # Errors
/// The errors of [`kernel`].
pub fn machine_with(word: &str, groups: &[Node]) -> Result<Hardware, Error> {
    let (name, changes) = split(word)?;
    if is_file(name) {
        let path = Path::new(name);
        let called = word.replacen(name, &name_of(path), 1);
        let source = Source { file: name.to_owned(), text: read(path, "a machine")? };
        return hardware::machine(&called, source, &|base| Kind::Machine.base_of(path, base), groups, &changes);
    }
    let source = Kind::Machine.embedded(name).map_err(|message| Error { place: None, message })?;
    hardware::machine(word, source, &|base| Kind::Machine.embedded(base), groups, &changes)
}

/// Changed keys with their new values.
pub type Changes<'w> = Vec<(&'w str, &'w str)>;

/// Splits `name+key=value+…` into the name and its changes.
///
/// # Errors
/// When a text after a `+` is not of the form `key=value`.
pub fn split(word: &str) -> Result<(&str, Changes<'_>), Error> {
    if Path::new(word).exists() {
        return Ok((word, Vec::new()));
    }
    let mut parts = word.split('+');
    let name = parts.next().unwrap_or(word);
    let change = |change: &'_ str| Error {
        place: None,
        message: format!("{word}: expected KEY=VALUE after `+`, such as cpu.count=4, found `{change}`"),
    };
    let changes = parts.map(|part| part.split_once('=').ok_or_else(|| change(part))).collect::<Result<_, _>>()?;
    Ok((name, changes))
}

/// Returns the experiment that `word` names: an embedded experiment or a file. Each `+` in the word is followed by a
/// changed parameter: `ping+hogs=4`. With a file, published figures come from `published.toml` in the file's folder,
/// and relative paths of machines and kernels in the file start at this folder.
///
/// # Errors
/// The errors of [`kernel`].
pub fn experiment(word: &str) -> Result<Experiment, Error> {
    let (name, changes) = split(word)?;
    let mut experiment = unchanged_experiment(name)?;
    for (key, value) in changes {
        crate::change::set(&mut experiment.params, key, value)?;
        // The changes become part of the name, since reports show it.
        experiment.name.push_str(&format!("+{key}={value}"));
    }
    Ok(experiment)
}

fn unchanged_experiment(word: &str) -> Result<Experiment, Error> {
    if !is_file(word) {
        let [file, printed] = ["experiment", "published"].map(|file| format!("experiments/{word}/{file}.toml"));
        let experiment = embedded::source(&file)
            .ok_or_else(|| Error { place: None, message: unknown("experiment", "experiments", word) })?;
        let published = embedded::source(&printed);
        let published = published.as_ref().map(|source| (source.file.as_str(), source.text.as_str()));
        return Experiment::parse(word, (&experiment.file, &experiment.text), published);
    }
    let path = Path::new(word);
    if word.ends_with(TRACE) {
        // The workload reads the trace.
        let text = crate::traced::experiment(word, &name_of(path));
        return Experiment::parse(&name_of(path), (word, &text), None);
    }
    let mut text = read(path, "an experiment")?;
    if word.ends_with(FIO) {
        text = crate::fio::experiment(word, &name_of(path), &text)?;
    }
    let printed = path.with_file_name("published.toml");
    let published = if printed.exists() { Some(read(&printed, "published figures")?) } else { None };
    let printed = printed.display().to_string();
    let published = published.as_deref().map(|text| (printed.as_str(), text));
    let mut experiment = Experiment::parse(&name_of(path), (word, &text), published)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let from_folder = |word: &mut String| {
        if is_file(word) {
            *word = folder.join(&word).display().to_string();
        }
    };
    from_folder(&mut experiment.machine);
    experiment.kernels.iter_mut().for_each(from_folder);
    Ok(experiment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_a_slash_or_the_ending_are_files() {
        assert!(is_file("./mine") && is_file("mine.toml") && !is_file("3.10-rc4-vanilla"));
        assert_eq!(name_of(Path::new("a/3.10-rc4-vanilla.toml")), "3.10-rc4-vanilla");
    }

    #[test]
    fn a_base_beside_a_file_may_be_named_as_a_file() {
        let folder = std::env::temp_dir().join(format!("highwater-library-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("lower.toml"), "base = \"highwater\"\n[lru]\nbatch = 20\n").unwrap();
        for base in ["lower", "lower.toml", "./lower.toml", "./lower"] {
            let upper = folder.join("upper.toml");
            fs::write(&upper, format!("base = \"{base}\"\n[lru]\nrotation = \"one-by-one\"\n")).unwrap();
            let kernel = kernel(&upper.display().to_string()).unwrap_or_else(|error| panic!("{base}: {error}"));
            assert_eq!((kernel.choices.lru.batch, kernel.about), (20, format!("{base}, changed")));
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_stands_after_a_plus_is_a_change() {
        assert_eq!(kernel("highwater+lru.batch=3").unwrap().choices.lru.batch, 3);
        for word in ["highwater+", "highwater+lru.batch", "highwater++lru.batch=3"] {
            let error = kernel(word).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{word}: expected KEY=VALUE after `+`")), "{error}");
        }
    }

    #[test]
    fn a_wrong_change_comes_with_the_keys_or_values_and_their_list() {
        let wrong = |word: &str| kernel(word).unwrap_err().to_string();
        let section = wrong("highwater+foo.bar=1");
        assert!(section.contains("unknown key `foo.bar`: keys are SECTION.KEY, and the sections are `"), "{section}");
        assert!(section.ends_with("; `highwater explain highwater` lists the keys"), "{section}");
        let key = wrong("highwater+lru.foo=1");
        assert!(key.contains("unknown key `lru.foo`: [lru] has `") && key.contains("`batch`, "), "{key}");
        let value = wrong("highwater+lru.batch=many");
        assert!(value.ends_with("; `highwater explain lru.batch` says what its values mean"), "{value}");
        assert!(wrong("highwater+lru.batc=1").ends_with("did you mean `lru.batch`?"));
    }

    #[test]
    fn several_kernels_are_as_each_alone() {
        let words =
            ["highwater", "highwater+lru.batch=3", "3.10-rc4-vanilla", "highwater+lru.batch=3+lru.swappiness=1"];
        assert_eq!(kernels(words).unwrap(), words.map(|word| kernel(word).unwrap()));
        assert_eq!(kernels(["highwater+lru.batch", "x"]), Err(kernel("highwater+lru.batch").unwrap_err()));
    }

    #[test]
    fn an_unknown_name_comes_with_the_nearest() {
        let error = experiment("paralelio").unwrap_err().to_string();
        assert_eq!(error, "no experiment is called `paralelio`: did you mean `parallelio`?");
        let error = kernel("./nowhere.toml").unwrap_err().to_string();
        assert_eq!(error, "cannot read ./nowhere.toml: there is no such file");
    }

    #[test]
    fn every_embedded_experiment_is_read() {
        for name in embedded::names("experiments") {
            experiment(name).unwrap();
        }
    }
}

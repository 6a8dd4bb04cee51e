//! Checks packages that are to be published. Each must hold the licences and all files that its code embeds, and no
//! files that do not belong to a package, such as notes.

use std::{
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use crate::{
    Outcome,
    readme::{files_below, read},
    root, run, shown,
};

/// Names of single files that the package of a published crate may contain. Other files must be in one of the
/// [`FOLDERS`], and have the extension that the folder is listed with.
const NAMES: [&str; 14] = [
    ".cargo_vcs_info.json",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "build.rs",
    "clippy.toml",
    "kernel.config",
    "names.toml",
    "truth.toml",
    "truth-last.toml",
    // The licence of the charts' library.
    "src/html/uplot/LICENSE",
];
const FOLDERS: [(&str, &str); 10] = [
    ("benches", "rs"),
    ("examples", "rs"),
    ("src", "rs"),
    ("src", "css"),
    ("src", "js"),
    ("src", "md"),
    // Kernel logs that unit tests read.
    ("src", "txt"),
    ("kernels", "toml"),
    ("machines", "toml"),
    ("experiments", "toml"),
];
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Packages every published crate without building it, and checks its contents.
pub fn check() -> Outcome {
    let crates = published()?;
    let mut command = Command::new("cargo");
    command.args(["package", "--quiet", "--locked", "--no-verify", "--allow-dirty"]);
    run(command.args(crates.iter().flat_map(|(name, _)| ["--package", name])))?;
    let mut faults = Vec::new();
    for (name, folder) in &crates {
        let listed = said(Command::new("cargo").args(["package", "--quiet", "--list", "--allow-dirty", "-p", name]))?;
        let files: Vec<PathBuf> = listed.lines().map(PathBuf::from).collect();
        faults.extend(faults_of(folder, &files)?.into_iter().map(|fault| format!("{name}: {fault}")));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\nerror: ")) }
}

/// Returns the name and the folder of each crate that may be published.
fn published() -> Result<Vec<(String, PathBuf)>, String> {
    let text = said(Command::new("cargo").args(["metadata", "--no-deps", "--format-version", "1", "--locked"]))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let may_be = packages.iter().filter(|package| package["publish"].is_null());
    let of = |package: &serde_json::Value| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        Some((package["name"].as_str()?.to_owned(), manifest.parent()?.to_owned()))
    };
    may_be.map(|package| of(package).ok_or_else(|| "cargo metadata: a package without a name".to_owned())).collect()
}

/// Runs a command and returns its standard output. Returns an error if the command fails or its output is not UTF-8.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.current_dir(root()).output().map_err(|error| format!("{}: {error}", shown(command)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", shown(command), String::from_utf8_lossy(&output.stderr).trim_end()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{}: output is not UTF-8", shown(command)))
}

/// Returns the faults of the package of the crate in `folder`, which holds `files`.
fn faults_of(folder: &Path, files: &[PathBuf]) -> Result<Vec<String>, String> {
    let has = |path: &Path| files.iter().any(|file| file == path);
    let foreign = files.iter().filter(|file| !is_ours(file)).map(|file| format!("{} is foreign", file.display()));
    let mut faults: Vec<String> = foreign.collect();
    for name in LICENCES.iter().chain(&["README.md"]) {
        if !has(Path::new(name)) {
            faults.push(format!("{name} is missing"));
        }
    }
    for name in LICENCES {
        if fs::read(folder.join(name)).ok() != fs::read(root().join(name)).ok() {
            faults.push(format!("{name} is not the repository's"));
        }
    }
    for (name, ending) in FOLDERS {
        for path in files_below(&folder.join(name), &[ending]) {
            let path = path.strip_prefix(folder).map_err(|error| error.to_string())?;
            if !has(path) {
                faults.push(format!("{} is missing", path.display()));
            }
        }
    }
    for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "rs")) {
        for embedded in embedded(&read(&folder.join(file))?) {
            let path = plain(&file.with_file_name(embedded));
            if !path.as_ref().is_some_and(|path| has(path)) {
                faults.push(format!("{} embeds {embedded}, which is not in the package", file.display()));
            }
        }
    }
    Ok(faults)
}

fn is_ours(file: &Path) -> bool {
    let ending = file.extension().unwrap_or_default();
    NAMES.iter().any(|name| file == Path::new(name))
        || FOLDERS.iter().any(|(folder, its)| file.starts_with(folder) && ending == *its)
}

/// Returns the paths of the files that Rust code embeds, as written in the code.
fn embedded(code: &str) -> impl Iterator<Item = &str> {
    let openings = ["include_str!(\"", "include_bytes!(\"", "include!(\"", "#[path = \""];
    openings.into_iter().flat_map(|open| code.split(open).skip(1)).filter_map(|rest| rest.split('"').next())
}

/// Returns a relative path without its `.` and `..` parts. Returns `None` if a `..` leads above the folder to which the
/// path is relative.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if !plain.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            part => plain.push(part),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_code_takes_in_is_found() {
        let code = "include_str!(\"a.toml\") include_str!(concat!(env!(\"OUT_DIR\"), \"/b\")) #[path = \"../c.rs\"]";
        let code = &code.replace("include_str!(\"", &["include_", "str!(\""].concat());
        assert_eq!(embedded(code).collect::<Vec<_>>(), ["a.toml", "../c.rs"]);
    }

    #[test]
    fn a_path_may_not_lead_out_of_a_package() {
        assert_eq!(plain(Path::new("src/kernel/../a.toml")), Some("src/a.toml".into()));
        assert_eq!(plain(Path::new("src/../../a.toml")), None);
    }

    #[test]
    fn foreign_missing_and_embedded_files_are_told() {
        let folder = root().join("crates/machine");
        let all: Vec<PathBuf> = files_below(&folder, &["rs"])
            .into_iter()
            .map(|path| path.strip_prefix(&folder).unwrap().to_owned())
            .filter(|path| path.starts_with("src"))
            .chain(["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"].map(PathBuf::from))
            .collect();
        assert_eq!(faults_of(&folder, &all).unwrap(), [""; 0]);
        let mut wrong: Vec<PathBuf> = all.iter().filter(|file| *file != Path::new("src/lib.rs")).cloned().collect();
        wrong.push("notes.txt".into());
        assert_eq!(faults_of(&folder, &wrong).unwrap(), ["notes.txt is foreign", "src/lib.rs is missing"]);
    }
}

//! The pictures of docs/, made from runs.
//!
//! docs/pictures.toml lists them. Each says in its `metadata` which command made it, and the fingerprints that golden reports
//! had then; a test compares them with those at hand, so that no picture is of another program.

use crate::{Outcome, fidelity::fingerprint, highwater, run};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const LIST: &str = "docs/pictures.toml";

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    picture: Vec<Picture>,
}

/// One of them.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Picture {
    file: PathBuf,
    /// Arguments of `highwater`,
    command: Option<String>,
    /// or an example of the lab and its arguments.
    example: Option<String>,
    /// Experiments.
    golden: Vec<String>,
}

/// All pictures that there are.
fn list(root: &Path) -> Result<Vec<Picture>, String> {
    let text = fs::read_to_string(root.join(LIST)).map_err(|error| format!("{LIST}: {error}"))?;
    let list: List = toml::from_str(&text).map_err(|error| format!("{LIST}: {error}"))?;
    match list.picture.iter().find(|picture| picture.command.is_some() == picture.example.is_some()) {
        Some(picture) => Err(format!("{LIST}: {} needs a command or an example", picture.file.display())),
        None => Ok(list.picture),
    }
}

/// The names of all pictures: those of their files.
pub fn names(root: &Path) -> Result<Vec<String>, String> {
    Ok(list(root)?.iter().map(Picture::name).collect())
}

/// Makes the pictures that `wanted` holds the names of.
pub fn draw(root: &Path, wanted: impl Fn(&str) -> bool) -> Outcome {
    list(root)?.iter().filter(|picture| wanted(&picture.name())).try_for_each(|picture| picture.draw(root))
}

impl Picture {
    fn name(&self) -> String {
        self.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn draw(&self, root: &Path) -> Outcome {
        let file = root.join(&self.file);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        // The report is of no use here.
        let mut command = match (&self.command, &self.example) {
            (Some(command), _) => {
                let mut program = Command::new(highwater()?);
                program.args(words(command)).arg(&file).stdout(std::process::Stdio::null());
                program
            }
            (None, example) => {
                let mut cargo = Command::new("cargo");
                cargo.args(["run", "--release", "--package", "highwater-lab", "--example"]);
                let mut words = words(example.as_deref().unwrap_or_default()).into_iter();
                cargo.args(words.next()).arg("--").args(words).arg(&file);
                cargo
            }
        };
        run(&mut command)?;
        let told = |error: std::io::Error| format!("{}: {error}", self.file.display());
        let svg = fs::read_to_string(&file).map_err(told)?;
        fs::write(&file, stamped(&svg, &self.stamp(root)?)?).map_err(told)
    }

    /// What made it, and when.
    fn stamp(&self, root: &Path) -> Result<String, String> {
        let command = match (&self.command, &self.example) {
            (Some(command), _) => format!("highwater {command}"),
            (None, example) => format!("example {}", example.as_deref().unwrap_or_default()),
        };
        let golden = self.golden.iter().map(|name| Ok(format!("; golden {name} {}", fingerprint(root, name)?)));
        let golden = golden.collect::<Result<String, String>>()?;
        Ok(format!("<metadata>{command}{golden}</metadata>"))
    }
}

/// A picture with a stamp behind its first element's begin.
fn stamped(svg: &str, stamp: &str) -> Result<String, String> {
    let begin = svg.find("<svg ").ok_or("no SVG")?;
    let end = begin + svg[begin..].find('>').ok_or("no SVG")? + 1;
    Ok(format!("{}\n{stamp}{}", &svg[..end], &svg[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picture_is_of_the_program_at_hand_and_shown_somewhere() {
        let root = crate::root();
        let pictures = list(&root).unwrap();
        let texts: String = crate::readme::texts(&root).iter().map(|text| fs::read_to_string(text).unwrap()).collect();
        for picture in &pictures {
            let file = picture.file.display();
            let svg = fs::read_to_string(root.join(&picture.file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            let stamp = picture.stamp(&root).unwrap();
            assert!(svg.contains(&stamp), "{file} is stale: run `cargo xtask figures --only {}`", picture.name());
            assert!(texts.contains(&format!("{})", picture.name())), "{file} is in no text");
        }
        let in_docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
        for name in in_docs.filter(|name| name.to_string_lossy().ends_with(".svg")) {
            assert!(pictures.iter().any(|picture| *picture.name() == *name), "{LIST} does not list {name:?}");
        }
    }

    #[test]
    fn a_stamp_stands_behind_the_begin() {
        let svg = stamped("<?xml?><svg width=\"1\">\n</svg>", "<metadata>a</metadata>").unwrap();
        assert_eq!(svg, "<?xml?><svg width=\"1\">\n<metadata>a</metadata>\n</svg>");
        assert!(stamped("nothing", "a").is_err());
    }
}

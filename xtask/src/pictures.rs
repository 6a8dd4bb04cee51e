//! Makes the pictures in docs/ from runs.
//!
//! docs/pictures.toml lists the pictures, each with the command or the example that draws it. If an entry names a text
//! of docs/, the report of the command is inserted into this text, between `<!-- picture: NAME -->` and `<!-- end -->`,
//! so that table and picture come from the same runs. The `metadata` of a picture has its command and the fingerprints
//! that the golden reports had when it was drawn. A test compares these with the present fingerprints, so that no
//! picture is outdated.

use crate::{Outcome, fidelity::fingerprint, highwater, output, run, splice::spliced};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const LIST: &str = "docs/pictures.toml";
const BEGIN: &str = "<!-- picture: ";

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    picture: Vec<Picture>,
}

/// An entry of docs/pictures.toml: a picture, and the command or example that makes it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Picture {
    file: PathBuf,
    /// Arguments of `highwater`, if the picture is made by this command.
    command: Option<String>,
    /// If an example program of the lab makes the picture: the name of the program, and its arguments.
    example: Option<String>,
    /// Names of the experiments whose golden reports the picture shows. The picture is out of date when one of these
    /// reports changes.
    golden: Vec<String>,
    /// The documentation page into which the report of `command` is put, if any.
    page: Option<PathBuf>,
}

/// Returns the entries of docs/pictures.toml.
fn list(root: &Path) -> Result<Vec<Picture>, String> {
    let text = fs::read_to_string(root.join(LIST)).map_err(|error| format!("{LIST}: {error}"))?;
    let list: List = toml::from_str(&text).map_err(|error| format!("{LIST}: {error}"))?;
    let file = |picture: &Picture| picture.file.display().to_string();
    if let Some(picture) = list.picture.iter().find(|picture| picture.command.is_some() == picture.example.is_some()) {
        return Err(format!("{LIST}: {} needs a command or an example", file(picture)));
    }
    match list.picture.iter().find(|picture| picture.page.is_some() && picture.command.is_none()) {
        Some(picture) => {
            Err(format!("{LIST}: {} has a page, and no command whose report could go there", file(picture)))
        }
        None => Ok(list.picture),
    }
}

/// Returns the names of all pictures, which are the names of their files.
pub fn names(root: &Path) -> Result<Vec<String>, String> {
    Ok(list(root)?.iter().map(Picture::name).collect())
}

/// Makes the pictures whose names `wanted` accepts.
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
        match (&self.command, &self.page, &self.example) {
            (Some(command), Some(page), _) => {
                let file = file.display().to_string();
                let words = words(command);
                let words: Vec<&str> =
                    words.iter().map(String::as_str).chain([&*file, "--format", "markdown"]).collect();
                let report = output(&highwater()?, &words)?;
                self.put_into(&root.join(page), &report)?;
            }
            // No page shows the report of this command.
            (Some(command), None, _) => {
                let mut program = Command::new(highwater()?);
                run(program.args(words(command)).arg(&file).stdout(std::process::Stdio::null()))?;
            }
            (None, _, example) => {
                let mut cargo = Command::new("cargo");
                cargo.args(["run", "--release", "--package", "highwater-lab", "--example"]);
                let mut words = words(example.as_deref().unwrap_or_default()).into_iter();
                run(cargo.args(words.next()).arg("--").args(words).arg(&file))?;
            }
        }
        let told = |error: std::io::Error| format!("{}: {error}", self.file.display());
        let svg = fs::read_to_string(&file).map_err(told)?;
        fs::write(&file, stamped(&svg, &self.stamp(root)?)?).map_err(told)
    }

    /// Replaces the text between this picture's marks on a page by `report`, whose heading is left out.
    fn put_into(&self, page: &Path, report: &str) -> Outcome {
        let told = |error: std::io::Error| format!("{}: {error}", page.display());
        let text = fs::read_to_string(page).map_err(told)?;
        let report = match report.split_once('\n') {
            Some((heading, rest)) if heading.starts_with("## ") => rest,
            _ => report,
        };
        let body = |name: &str| Ok((name == self.name()).then(|| report.trim().to_owned()));
        fs::write(page, spliced(&text, BEGIN, &body)?).map_err(told)
    }

    /// Returns the stamp of the picture: its command, and the fingerprints of the golden reports that it depends on.
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

/// Returns the picture `svg` with the text `stamp` inserted after the tag `<svg …>`. Returns an error if there is no
/// such tag.
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
            if let Some(page) = &picture.page {
                let text = fs::read_to_string(root.join(page)).unwrap_or_default();
                let place = format!("{BEGIN}{} -->\n", picture.name());
                let report =
                    text.split_once(&place).map_or("", |(_, rest)| rest.split("<!-- end -->").next().unwrap_or(""));
                assert!(report.contains("fingerprint "), "{} has no report of {file}", page.display());
            }
        }
        for path in crate::readme::files_below(&root.join("docs"), &["svg"]) {
            let is_listed = pictures.iter().any(|picture| root.join(&picture.file) == path);
            assert!(is_listed, "{LIST} does not list {}", path.display());
        }
    }

    #[test]
    fn a_report_goes_to_the_place_of_its_picture() {
        let folder = std::env::temp_dir().join(format!("highwater-pictures-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let page = folder.join("page.md");
        fs::write(
            &page,
            "a\n<!-- picture: x.svg -->\nold\n<!-- end -->\n<!-- picture: y.svg -->\nkept\n<!-- end -->\n",
        )
        .unwrap();
        let picture = Picture {
            file: "docs/x.svg".into(),
            command: None,
            example: None,
            golden: Vec::new(),
            page: Some(page.clone()),
        };
        picture.put_into(&page, "## title\n\n| new |\n").unwrap();
        let text = fs::read_to_string(&page).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(text.starts_with("a\n<!-- picture: x.svg -->\n| new |\n<!-- end -->\n"), "{text}");
        assert!(text.contains("kept") && !text.contains("title"), "{text}");
    }

    #[test]
    fn a_stamp_stands_behind_the_begin() {
        let svg = stamped("<?xml?><svg width=\"1\">\n</svg>", "<metadata>a</metadata>").unwrap();
        assert_eq!(svg, "<?xml?><svg width=\"1\">\n<metadata>a</metadata>\n</svg>");
        assert!(stamped("nothing", "a").is_err());
    }
}

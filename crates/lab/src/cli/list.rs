//! `highwater list`.

use engine::kernel::text::Node;

use super::{End, print};
use crate::{embedded, library, workloads};

/// Prints everything that has a name, with one line about each.
pub fn run() -> Result<(), End> {
    let kernel = |name: &str| library::kernel(name).map(|kernel| kernel.about);
    let machine = |name: &str| {
        let text = embedded::text(&format!("machines/{name}.toml")).unwrap_or_default();
        let node = Node::parse(name, text)?;
        node.get("about").map_or(Ok(String::new()), Node::read)
    };
    let experiment = |name: &str| library::experiment(name).map(|experiment| experiment.about);
    let mut text = String::new();
    let mut block = |title: &str, lines: Vec<(&str, String)>| {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{title}\n"));
        let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, about) in lines {
            text.push_str(format!("  {name:<width$}  {about}").trim_end());
            text.push('\n');
        }
    };
    let named = |folder: &str, about: &dyn Fn(&str) -> Result<String, _>| {
        let line = |name| Ok((name, about(name)?));
        embedded::names(folder).map(line).collect::<Result<Vec<_>, engine::kernel::text::Error>>()
    };
    block("kernels", named("kernels", &kernel)?);
    block("machines", named("machines", &machine)?);
    block("experiments", named("experiments", &experiment)?);
    block("workloads", workloads::all().iter().map(|it| (it.name(), it.about().to_owned())).collect());
    print(&text)
}

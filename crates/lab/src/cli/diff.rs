//! `highwater diff`: what separates two kernels.

use super::{End, show};
use crate::{
    difference::differences,
    library,
    report::grid::{hanging, wrapped},
};

/// Arguments of `highwater diff`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A kernel: a name or a file
    from: String,
    /// Another kernel: a name or a file
    to: String,
}

/// Prints every value in which the second kernel differs from the first, and where that comes from.
pub fn run(Arguments { from, to }: &Arguments) -> Result<(), End> {
    let (old, new) = (library::kernel(from)?, library::kernel(to)?);
    let found = differences(&old, &new);
    let count = match found.len() {
        0 => "no value differs".into(),
        1 => format!("1 of {} values differs", old.settings.len()),
        n => format!("{n} of {} values differ", old.settings.len()),
    };
    let width = |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| text.chars().count()).max().unwrap_or(0);
    let (key, old, new) = (
        width(&mut found.iter().map(|it| &it.key)),
        width(&mut found.iter().map(|it| &it.from)),
        width(&mut found.iter().map(|it| &it.to)),
    );
    show(|look| {
        let mut text = wrapped(&format!("{from} -> {to}: {count}"), look);
        for it in &found {
            let origin =
                [it.place.as_deref(), it.source.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(": ");
            text += &hanging(&format!("  {:key$}  {:old$} -> {:new$}  ", it.key, it.from, it.to), &origin, look);
        }
        text
    })
}

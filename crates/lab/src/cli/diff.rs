//! The verb `diff`: shows the differences between two kernels.

use super::{End, TextOptions};
use catalogue::difference::differences;
use catalogue::find;
use kit::words::differ;
use report::grid::{hanging, wrapped};
use report::html::{Page, Part, Section};
use study::page;

/// Arguments of `highwater diff`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A kernel: a name or a file
    from: String,
    /// Another kernel: a name or a file
    to: String,
    #[command(flatten)]
    output: TextOptions,
}

/// Prints every value in which the second kernel differs from the first, with the source of the second kernel's value.
pub fn run(Arguments { from, to, output }: &Arguments) -> Result<(), End> {
    let (old, new) = (find::kernel(from)?, find::kernel(to)?);
    let found = differences(&old, &new);
    let count = match found.len() {
        0 => "no value differs".into(),
        n => differ(n, old.settings.len()),
    };
    let width = |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| text.chars().count()).max().unwrap_or(0);
    let (key_width, old_width, new_width) = (
        width(&mut found.iter().map(|it| &it.key)),
        width(&mut found.iter().map(|it| &it.from)),
        width(&mut found.iter().map(|it| &it.to)),
    );
    let text = |look| {
        let mut text = wrapped(&format!("{from} -> {to}: {count}"), look);
        for it in &found {
            let origin =
                [it.place.as_deref(), it.source.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(": ");
            let lead = format!("  {:key_width$}  {:old_width$} -> {:new_width$}  ", it.key, it.from, it.to);
            text += &hanging(&lead, &origin, look);
        }
        text
    };
    let page = || {
        let about = [&old, &new].map(|kernel| format!("{}: {}", kernel.name, kernel.about)).to_vec();
        let parts = vec![Part::Words(count.clone()), Part::table("Values that differ", page::difference_grid(&found))];
        Page { title: format!("{from} to {to}"), about, sections: vec![Section::new("Differences", parts)] }
    };
    output.write(text, page)
}

//! The command `highwater machine from`.

use super::{End, output};
use kit::shown::warn;
use kit::wrong::Wrong;
use observe::this_computer::text::Measured;
use observe::this_computer::{text, told};
use recordings::format::Told;
use recordings::formats;
use std::path::PathBuf;

/// Arguments of `highwater machine from`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Texts pasted from that computer: /proc/zoneinfo with /proc/meminfo, or a kernel log with a report of memory;
    /// also /proc/swaps and the output of `sysctl vm`, if there are any
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the machine file to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the machine file of the computer that the files describe.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let file = output::open("--output", arguments.output.as_deref())?;
    let wrong = |wrong: Wrong| End::Usage(wrong.to_string());
    let mut looks = Vec::new();
    for path in &arguments.files {
        let name = path.display().to_string();
        let text = recordings::read(path).map_err(wrong)?;
        let document = formats::read(&name, &text, None).map_err(wrong)?;
        looks.extend(document.told.into_iter().filter_map(|(_, told)| match told {
            Told::Look(look) => Some(look),
            Told::Recording(_) => None,
        }));
    }
    let names: Vec<String> = arguments
        .files
        .iter()
        .map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned())
        .collect();
    let names = names.join(", ");
    let computer = told::computer(&names, &looks).map_err(|why| End::Usage(format!("{names}: {why}")))?;
    computer.missing.iter().for_each(|why| warn(&format!("left out: {why}")));
    let text = text::machine(&computer, None, &Measured::default())?;
    output::report(file, |out, _| out.write_all(text.as_bytes()))
}

//! Everything that CI runs, and tools that put figures into texts: `cargo ci`, or `cargo xtask VERB`.

mod ci;
mod citations;
mod fidelity;
mod figures;
mod package;
mod pictures;
mod readme;
mod records;
mod sanitize;
mod scales;
mod splice;
mod truth;

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

const USAGE: &str = "\
usage: cargo xtask VERB
  ci [STEP...]      everything that CI runs, with the time that each step takes; or the steps that are named
  readme [--check]  put what their commands print into README.md and docs/; or say what is stale
  figures [--only NAME,...]
                    run what docs/studies/parallelio.toml and docs/pictures.toml list: put the tables into docs/studies/parallelio.md and
                    draw the pictures of docs/; takes many minutes, of single ones (--only ping.svg) seconds
  fidelity [--only EXPERIMENT,...]
                    set every published figure beside the simulated one, in docs/fidelity.md; takes many minutes; or make
                    the tables alone that have these experiments
  scales [--only EXPERIMENT,...] [--scale SCALE,...] [--kernel KERNEL,...] [--missing]
                    run every experiment by every kernel at every scale, put the figures into docs/scales.csv and the tables
                    into docs/scales.md; takes hours; or those that are named, or that docs/scales.csv lacks
  scales --page     make the tables anew, by docs/scales.csv
  truth [--check]   hold simulations against the records of guests in docs/truth, in docs/truth.md; or say that it is stale
  records [--check] put the measurements of docs/records into the tables of docs/; or say what is stale
  package           package every crate that is published, and look at what the packages hold
  links             look for what links in README.md and docs/, and citations of docs/mechanisms, point to
  sanitize [CHECK...]
                    loom, the address and thread sanitizers and valgrind, as far as this computer has them; or
                    those that are named: loom, address, thread, valgrind";

/// Success, or a failure in words for people.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["ci", names @ ..] => ci::run_steps(names),
        ["readme"] => readme::splice(&root(), false),
        ["readme", "--check"] => readme::splice(&root(), true),
        ["records"] => records::write(&root(), false),
        ["records", "--check"] => records::write(&root(), true),
        ["figures"] => figures::write(&root(), None),
        ["figures", "--only", names] => figures::write(&root(), Some(names)),
        ["truth"] => truth::write(&root(), false),
        ["truth", "--check"] => truth::write(&root(), true),
        ["fidelity"] => fidelity::write(&root(), None),
        ["fidelity", "--only", names] => fidelity::write(&root(), Some(names)),
        ["scales", "--page"] => scales::write_page(&root()),
        ["scales", rest @ ..] => match wanted_scales(rest) {
            Some(wanted) => scales::write(&root(), wanted),
            None => return wrong_usage(),
        },
        ["package"] => package::check(),
        ["links"] => links(),
        ["sanitize", names @ ..] => sanitize::sanitize(names).map(drop),
        _ => return wrong_usage(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn wrong_usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// Returns the runs that the arguments of the command `scales` request; `None` if an argument is unknown or incomplete.
fn wanted_scales<'a>(mut words: &'a [&'a str]) -> Option<scales::Wanted<'a>> {
    let mut wanted = scales::Wanted::default();
    loop {
        words = match words {
            [] => return Some(wanted),
            ["--missing", rest @ ..] => {
                wanted.missing = true;
                rest
            }
            ["--only", names, rest @ ..] => {
                wanted.experiments = Some(names);
                rest
            }
            ["--scale", scales, rest @ ..] => {
                wanted.scales = Some(scales);
                rest
            }
            ["--kernel", kernels, rest @ ..] => {
                wanted.kernels = Some(kernels);
                rest
            }
            _ => return None,
        }
    }
}

/// Returns the repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository").to_owned()
}

/// Checks the links and the citations in the texts of the repository.
fn links() -> Outcome {
    readme::links(&root())?;
    citations::check(&root())
}

fn cargo(arguments: &[&str]) -> Outcome {
    run(Command::new("cargo").args(arguments))
}

fn run(command: &mut Command) -> Outcome {
    eprintln!("--- {}", shown(command));
    match command.current_dir(root()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{}: {status}", shown(command))),
        Err(error) => Err(format!("{}: {error}", shown(command))),
    }
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value?.to_string_lossy();
        let quote = if value.contains(' ') { "'" } else { "" };
        Some(format!("{}={quote}{value}{quote}", name.to_string_lossy()).into())
    });
    let words = command.get_args().map(|word| word.to_string_lossy());
    variables.chain([program]).chain(words).collect::<Vec<_>>().join(" ")
}

/// Builds the command `highwater` in the profile `release`. Returns its path.
fn highwater() -> Result<PathBuf, String> {
    cargo(&["build", "--release", "--package", "highwater-lab", "--features", "parquet"])?;
    Ok(target().join("release").join(format!("highwater{}", env::consts::EXE_SUFFIX)))
}

/// Returns Cargo's target folder, in which the built programs lie.
fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from))
}

/// Returns the standard output of a command.
fn output(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    eprintln!("--- {}", shown(&command));
    let output = command.output().map_err(|error| format!("{}: {error}", shown(&command)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", shown(&command), String::from_utf8_lossy(&output.stderr).trim_end()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{}: output is not UTF-8", shown(&command)))
}

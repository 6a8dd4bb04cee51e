//! `cargo ci`: everything that CI runs, step by step, with the duration of each step.
//!
//! Cheap steps come first, so that a simple mistake is found early. The first failure ends the command. A step whose
//! tools this computer lacks is skipped, with a line that says so. The command uses two profiles: `dev` for lints,
//! checks and tests, and `release` for the last steps, which run commands at full size.

use std::{env, process::Command, time::Instant};

use crate::{Outcome, cargo, highwater, links, output, package, readme, root, run, sanitize, scales, target, truth};

/// The outcome of a step that did not fail.
enum Ended {
    Well,
    Skipped(String),
}

type Step = fn() -> Result<Ended, String>;

/// The steps of continuous integration, each with its name, in the order in which they run.
const STEPS: [(&str, Step); 18] = [
    ("fmt", || well(cargo(&["fmt", "--all", "--check"]))),
    ("links", || well(links())),
    ("deny", deny),
    ("package", || well(package::check())),
    ("clippy", || well(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))),
    ("test", || well(cargo(&["test", "--workspace"]))),
    ("python", python),
    ("no-linux", || well(without_linux())),
    ("no-parquet", || well(without_parquet())),
    ("windows", windows),
    ("msrv", msrv),
    ("doc", || {
        well(run(Command::new("cargo").args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings")))
    }),
    ("loom", || check("loom")),
    ("address", || check("address")),
    ("valgrind", || check("valgrind")),
    ("same-bytes", || well(same_bytes_twice(&["compare", "parallelio", "--scale", "1/16", "--format", "json"]))),
    ("swarm", || well(run(Command::new(highwater()?).args(["swarm", "--seed", "1", "--runs", "200"])))),
    ("readme", || well(readme::splice(&root(), true))),
];

/// Steps that take minutes to hours. They run only if they are named on the command line, as CI does every night.
const NIGHTLY: [(&str, Step); 3] = [
    ("scales", || well(scales::check(&root()))),
    ("truth", || well(truth::write(&root(), true))),
    ("verdicts", || {
        well(cargo(&["test", "--package", "highwater-lab", "--test", "verdicts", "--", "--ignored", "--nocapture"]))
    }),
];

fn well(outcome: Outcome) -> Result<Ended, String> {
    outcome.map(|()| Ended::Well)
}

/// Runs the steps called `names`, or all steps except the nightly ones, and prints the duration of each.
///
/// # Errors
/// The findings of the first step that failed, or an unknown name.
pub fn run_steps(names: &[&str]) -> Outcome {
    let all = || STEPS.iter().chain(&NIGHTLY);
    if let Some(unknown) = names.iter().find(|name| all().all(|(known, _)| known != *name)) {
        let known = all().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(format!("there is no step `{unknown}`, only {known}"));
    }
    let started = Instant::now();
    let mut told = Vec::new();
    let mut outcome = Ok(());
    let wanted = all().filter(|(name, _)| names.contains(name));
    let wanted: Vec<_> = if names.is_empty() { STEPS.iter().collect() } else { wanted.collect() };
    for (name, step) in wanted {
        eprintln!("=== {name}");
        let began = Instant::now();
        let result = step();
        let seconds = began.elapsed().as_secs();
        told.push(match &result {
            Ok(Ended::Well) => format!("{name:<10} {seconds:>5} s"),
            Ok(Ended::Skipped(why)) => format!("{name:<10} skipped: {why}"),
            Err(_) => format!("{name:<10} {seconds:>5} s  FAILED"),
        });
        eprintln!("=== {}", told.last().expect("it was told"));
        if let Err(error) = result {
            outcome = Err(format!("{name}: {error}"));
            break;
        }
    }
    println!("{}\n{:<10} {:>5} s", told.join("\n"), "all", started.elapsed().as_secs());
    outcome
}

/// Runs the check of [`sanitize`] called `name`.
fn check(name: &str) -> Result<Ended, String> {
    Ok(sanitize::sanitize(&[name])?.pop().map_or(Ended::Well, Ended::Skipped))
}

/// Checks the licences, sources and bans of all crates by the rules in deny.toml. It does not check security
/// advisories, because they need the network; people do that.
fn deny() -> Result<Ended, String> {
    if Command::new("cargo").args(["deny", "--version"]).output().is_ok_and(|output| output.status.success()) {
        return well(cargo(&["deny", "--locked", "check", "licenses", "bans", "sources"]));
    }
    Ok(Ended::Skipped("cargo-deny is not installed".into()))
}

/// Builds the wheel of the Python package in a separate Python environment (venv), and runs the wheel's quick tests.
fn python() -> Result<Ended, String> {
    let folder = target().join("python");
    let program = |name: &str| Command::new(folder.join("bin").join(name));
    let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).output();
    if !made.is_ok_and(|output| output.status.success()) {
        return Ok(Ended::Skipped("there is no python3 that makes environments (venv, pip)".into()));
    }
    const PACKAGES: [&str; 4] = ["maturin", "pytest", "pandas", "pyarrow"];
    let had = program("python").args(["-m", "pip", "install", "--quiet", "--retries", "1"]).args(PACKAGES).output();
    if !had.is_ok_and(|output| output.status.success()) {
        return Ok(Ended::Skipped(format!("pip cannot have {}", PACKAGES.join(", "))));
    }
    let (wheels, package) = (folder.join("wheels"), root().join("python"));
    let mut build = program("maturin");
    build.args(["build", "--quiet", "--profile", "dev", "--out"]).arg(&wheels).arg("--manifest-path");
    run(build.arg(package.join("Cargo.toml")).env("CARGO_TARGET_DIR", target()))?;
    let mut install = program("python");
    install.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", "--find-links"]);
    run(install.arg(&wheels).arg("highwater"))?;
    let mut tests = program("pytest");
    tests.args(["-q", "-p", "no:cacheprovider"]);
    tests.args(["test_quick.py", "test_replay.py"].map(|name| package.join("tests").join(name)));
    well(run(&mut tests))
}

/// Checks that the lab builds without the feature `linux`, and that this build refuses the grounds (systems to run on)
/// that need the feature.
fn without_linux() -> Outcome {
    const LAB: [&str; 3] = ["--package", "highwater-lab", "--no-default-features"];
    cargo(&[&["check"], LAB.as_slice(), &["--all-targets"]].concat())?;
    let refusal = "without_the_feature_linux_grounds_of_real_time_are_refused";
    cargo(&[&["test"], LAB.as_slice(), &["--test", "cli", refusal]].concat())
}

/// Checks that the lab without the feature `parquet`, as it is built by default, refuses a folder of runs.
fn without_parquet() -> Outcome {
    const REFUSED: i32 = 2;
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--package", "highwater-lab", "--", "results", "runs"]).current_dir(root());
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(REFUSED) && message.contains("--features parquet") {
        return Ok(());
    }
    Err(format!("`highwater results` without the feature `parquet`: {}, {message}", output.status))
}

/// Checks that the lab builds for Windows without the feature `linux`.
fn windows() -> Result<Ended, String> {
    const TARGET: &str = "x86_64-pc-windows-gnu";
    let found = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let folder = found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if folder.is_empty() || !std::path::Path::new(&folder).is_dir() {
        return Ok(Ended::Skipped(format!("the target {TARGET} is not installed")));
    }
    well(cargo(&["check", "--package", "highwater-lab", "--no-default-features", "--target", TARGET]))
}

/// Builds all crates with the oldest compiler that Cargo.toml permits.
fn msrv() -> Result<Ended, String> {
    let least = env!("CARGO_PKG_RUST_VERSION");
    let version = Command::new("rustup").args(["run", least, "rustc", "--version"]).output();
    if !version.is_ok_and(|output| output.status.success()) {
        return Ok(Ended::Skipped(format!("no toolchain {least}; `rustup toolchain install {least}` adds it")));
    }
    let mut command = Command::new("rustup");
    command.args(["run", least, "cargo", "check", "--workspace", "--locked"]);
    // redb needs a newer compiler.
    command.args(["--exclude", "highwater-redb", "--target-dir"]);
    // These variables name the compiler of the toolchain that runs this program, which must not be used here.
    well(run(command.arg(target().join("msrv")).env_remove("RUSTC").env_remove("RUSTDOC")))
}

/// Runs an experiment with one simulation at a time and with two in parallel, and compares reports and fingerprints.
fn same_bytes_twice(arguments: &[&str]) -> Outcome {
    let program = highwater()?;
    let with_jobs = |jobs| output(&program, &[arguments, &["--jobs", jobs]].concat());
    if with_jobs("1")? == with_jobs("2")? {
        return Ok(());
    }
    Err(format!("highwater {}: two runs differ", arguments.join(" ")))
}

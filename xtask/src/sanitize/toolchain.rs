//! Compilers that accept unstable flags: the present toolchain with the variable `RUSTC_BOOTSTRAP`, or else a nightly
//! toolchain. The present toolchain is preferred, so that the checked programs come from the compiler that builds the
//! released ones.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use super::folder;

/// The checks that the compiler can build into a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitizer {
    Address,
    Thread,
}

impl Sanitizer {
    const fn flag(self) -> &'static str {
        match self {
            Self::Address => "-Zsanitizer=address",
            Self::Thread => "-Zsanitizer=thread",
        }
    }
}

/// A toolchain that can build with a sanitizer.
#[derive(Debug)]
pub struct Toolchain {
    is_nightly: bool,
    /// The target triple of this computer.
    host: String,
}

impl Toolchain {
    /// Returns a toolchain that can build programs with the sanitizer `sanitizer`. `options` are options of the
    /// sanitizer with which such a program must run.
    ///
    /// # Errors
    /// When no toolchain can do this. The error says what is missing.
    pub fn with(sanitizer: Sanitizer, options: &str) -> Result<Self, String> {
        Self::first(|toolchain| {
            match sanitizer {
                Sanitizer::Address => toolchain.probe(sanitizer, options),
                // A program cannot be tried before the standard library is built with the sanitizer.
                Sanitizer::Thread => toolchain.check_has_sources(),
            }
        })
    }

    /// Returns the first toolchain that is new enough and that `check` accepts.
    fn first(check: impl Fn(&Self) -> Result<(), String>) -> Result<Self, String> {
        let mut missing = Vec::new();
        for is_nightly in [false, true] {
            let found = Self::find(is_nightly).and_then(|toolchain| check(&toolchain).map(|()| toolchain));
            let name = if is_nightly { "nightly" } else { "the toolchain at hand" };
            match found {
                Ok(toolchain) => return Ok(toolchain),
                Err(why) => missing.push(format!("{name}: {why}")),
            }
        }
        Err(missing.join("; "))
    }

    fn find(is_nightly: bool) -> Result<Self, String> {
        let mut toolchain = Self { is_nightly, host: String::new() };
        let version = said(toolchain.command("rustc").arg("-vV")).map_err(|_| "not installed".to_owned())?;
        let field = |name: &str| version.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let (release, least) = (field("release: "), env!("CARGO_PKG_RUST_VERSION"));
        if parts(release) < parts(least) {
            return Err(format!("it is {release}, and {least} is needed"));
        }
        toolchain.host = field("host: ").to_owned();
        Ok(toolchain)
    }

    /// Returns a command that runs `program` of the toolchain.
    pub fn command(&self, program: &str) -> Command {
        if self.is_nightly {
            let mut command = Command::new("rustup");
            command.args(["run", "nightly", program]);
            return command;
        }
        let mut command = Command::new(program);
        command.env("RUSTC_BOOTSTRAP", "1");
        command
    }

    /// Returns the command `cargo test` with a sanitizer. The command has the option `--target`: without it, build
    /// scripts and macros would be built with the sanitizer, too.
    pub fn tests(&self, sanitizer: Sanitizer, folder: &Path) -> Command {
        let mut command = self.command("cargo");
        command.args(["test", "--profile=sanitize", "--target", &self.host, "--target-dir"]).arg(folder);
        command.env("RUSTFLAGS", sanitizer.flag());
        if sanitizer == Sanitizer::Thread {
            command.arg("-Zbuild-std");
        }
        command
    }

    /// Checks that an empty program runs with the sanitizer.
    fn probe(&self, sanitizer: Sanitizer, options: &str) -> Result<(), String> {
        let folder = folder("probe");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let program = folder.join("probe");
        let mut compiler = self.command("rustc");
        compiler.args([sanitizer.flag(), "--target", &self.host, "--crate-name", "probe", "-", "-o"]).arg(&program);
        let compiler = compiler.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let compiled = compiler.and_then(|mut compiler| {
            // The pipe is closed at the end of this statement: the compiler waits for the end of its input.
            compiler.stdin.take().expect("piped").write_all(b"fn main() {}")?;
            compiler.wait_with_output()
        });
        let compiled = compiled.map_err(|error| error.to_string())?;
        if !compiled.status.success() {
            return Err(first_line(&compiled.stderr));
        }
        said(Command::new(program).env("ASAN_OPTIONS", options)).map(|_| ())
    }

    /// Checks that the toolchain has the sources of the standard library.
    fn check_has_sources(&self) -> Result<(), String> {
        let sysroot = said(self.command("rustc").args(["--print", "sysroot"]))?;
        let sources = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/Cargo.lock");
        let missing = "no rust-src to build an instrumented standard library from";
        if sources.exists() { Ok(()) } else { Err(missing.to_owned()) }
    }
}

/// Returns the output of a command. If the command fails, the error is the first line of its error output.
pub fn said(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(first_line(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn first_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("it fails without a word").trim().to_owned()
}

/// Returns the major and minor number of a version: `[1, 88]` for `1.88.0-nightly`.
fn parts(version: &str) -> [u32; 2] {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    [(); 2].map(|()| numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(parts("1.100.0-nightly") > parts("1.88") && parts("1.88.0") == parts("1.88"));
        assert!(parts("") < parts("1.88"));
    }

    #[test]
    fn why_a_command_failed_is_one_line() {
        let failed = said(Command::new("sh").args(["-c", "echo; echo '  first' >&2; echo second >&2; exit 1"]));
        assert_eq!(failed.unwrap_err(), "first");
        assert_eq!(said(Command::new("echo").arg("words")).unwrap(), "words\n");
        assert!(said(&mut Command::new("there is no such program")).is_err());
    }
}

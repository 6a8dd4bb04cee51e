//! Tests that every code block of the README and of docs/ agrees with this program.
//!
//! | block | what is done with it |
//! | --- | --- |
//! | `rust`, `rust,no_run` | the crate `docs` compiles the block; this test checks that the crate has the block's page |
//! | `rust,ignore of FILE`, `toml of FILE` | the file has the lines of the block, in this order |
//! | `diff of FILE` | the file has the lines without `+`, and does not have the added lines |
//! | `toml` | the loader reads the block as a kernel, machine, experiment or sweep; later commands find it as `mine.toml`, `machine.toml`, `experiment.toml` or `sweep.toml` |
//! | `toml in FILE` | the loader reads the file with the changes of the block |
//! | `sh` | the shell parses the block. Commands that begin with `highwater` run, here and in the text; long ones run with `--dry-run`. For `cargo` and `cp`, the files and names in the command are checked. Other programs are not run |
//! | `toml refused`, `sh refused` | the block works only after a step of the page, so now it must be refused as wrong input |
//! | `json` | the block is parsed |
//! | `python` | the block is parsed, if there is a `python3` |
//! | `text`, or no word | nothing is checked here; `cargo xtask readme --check` compares the output of commands |

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use lab::find;

/// Programs that a page's `sh` blocks may call although they are not part of this repository. They are not run.
const FOREIGN: [&str; 11] = [
    "apt-get",
    "awk",
    "chmod",
    "device=/dev/zram$(cat",
    "dpkg",
    "echo",
    "export",
    "mkdir",
    "mkfs.ext4",
    "modprobe",
    "mount",
];
const ALSO_FOREIGN: [&str; 7] = ["cd", "maturin", "pip", "python3", "pytest", "sbatch", "umount"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the Markdown files in a folder.
fn pages_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let mut pages: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    pages.sort();
    pages
}

/// Returns all pages: those at the root, in docs/ and its folders, and in each crate.
fn pages() -> Vec<PathBuf> {
    let root = root();
    let crates = ["machine", "engine", "sim", "host", "lab"].map(|name| root.join("crates").join(name));
    let folders = ["", "docs", "docs/studies", "docs/mechanisms", "docs/mechanisms/reclaim"].map(|it| root.join(it));
    let python = root.join("python");
    folders
        .iter()
        .chain(&crates)
        .chain([&python])
        .filter(|folder| folder.is_dir())
        .flat_map(|folder| pages_in(folder))
        .collect()
}

/// A code block of a page, or a command in its text.
#[derive(Debug)]
struct Block {
    line: usize,
    /// The words after the opening fence of the block, such as its language.
    info: String,
    text: String,
}

/// Returns the code blocks of a page. Commands in its text are returned as blocks of one line.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (index, line) in page.lines().enumerate() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            if !is_open {
                blocks.push(Block { line: index + 1, info: info.to_owned(), text: String::new() });
            }
            is_open = !is_open;
        } else if is_open {
            let block = blocks.last_mut().expect("it was opened");
            block.text += line;
            block.text.push('\n');
        } else {
            let spans = line.split('`').skip(1).step_by(2).filter(|span| span.starts_with("highwater "));
            // Commands with a placeholder, commands that continue on the next line, and those with the reader's files
            // are left out.
            let is_whole = |span: &&str| {
                !span.contains(['…', '|', '[']) && !span.contains("./") && line.contains(&format!("`{span}`"))
            };
            let is_name =
                |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || "=,_".contains(c));
            let are_words = |span: &&str| !span.split([' ', '=', '.']).any(is_name);
            for span in spans.filter(is_whole).filter(are_words) {
                blocks.push(Block { line: index + 1, info: "span".into(), text: format!("{span}\n") });
            }
        }
    }
    assert!(!is_open, "a fence is not closed");
    blocks
}

/// A folder for the files that the commands of a page read and write.
struct Desk {
    folder: tempfile::TempDir,
    faults: RefCell<Vec<String>>,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build's folder is writable");
        Self { folder, faults: RefCell::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn is_fault(&self, what: impl Into<String>) {
        self.faults.borrow_mut().push(what.into());
    }

    /// Returns the path of a file that a block names. Names that begin with `./` are files of the page, others of the
    /// repository.
    fn file(&self, name: &str) -> PathBuf {
        name.strip_prefix("./").map_or_else(|| root().join(name), |name| self.path(name))
    }

    /// Checks a code block of the page, and records the faults in it.
    fn look_at(&self, Block { info, text, .. }: &Block, compiled: &dyn Fn() -> bool) {
        let (language, rest) = info.split_once(' ').unwrap_or((info, ""));
        match (language, rest.split_once(' ').unwrap_or((rest, ""))) {
            ("" | "text", ("", _)) => {}
            ("rust" | "rust,no_run", ("", _)) if compiled() => {}
            ("rust" | "rust,no_run", ("", _)) => self.is_fault("docs/lib.rs does not name this page"),
            ("rust,ignore" | "toml", ("of", file)) => {
                let lines: Vec<&str> = text.lines().collect();
                self.stand_in(file, &lines);
            }
            ("diff", ("of", file)) => {
                let (new, old): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('+'));
                self.stand_in(file, &old.iter().map(|line| line.get(1..).unwrap_or_default()).collect::<Vec<_>>());
                let there = read(&self.file(file));
                let has = |line: &&str| there.lines().any(|it| it.trim() == line[1..].trim());
                if let Some(line) = new.iter().find(|line| has(line)) {
                    self.is_fault(format!("{file} has `{}` already", line[1..].trim()));
                }
            }
            ("toml", ("in", file)) => self.load(&changed(&read(&self.file(file)), text), false),
            // A job file of fio, for later commands of the page.
            ("ini", ("", _)) => fs::write(self.path("job.fio"), text).expect("a temporary file"),
            ("toml", (expected @ ("" | "refused"), _)) => self.load(text, expected == "refused"),
            ("sh" | "span", (expected @ ("" | "refused"), _)) => {
                self.parse(text);
                for line in text.lines().filter(|line| !line.starts_with(' ')) {
                    self.run(line, expected == "refused");
                }
            }
            ("python", ("", _)) => self.parse_python(text),
            ("json", ("", _)) => {
                if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
                    self.is_fault(error.to_string());
                }
            }
            _ => self.is_fault(format!("nobody looks at a block that begins with ```{info}")),
        }
    }

    /// Checks that a file contains the lines `lines` in this order. Other lines may stand between them.
    fn stand_in(&self, file: &str, lines: &[&str]) {
        let text = read(&self.file(file));
        // A page names the crate by `lab`, where the file itself has `crate`.
        let same = |shown: &str, there: &str| {
            shown.trim().replace("crate::", "lab::") == there.trim().replace("crate::", "lab::")
        };
        let mut there = text.lines();
        for line in lines.iter().filter(|line| !line.trim().is_empty()) {
            if !there.any(|it| same(line, it)) {
                return self.is_fault(format!("{file} does not have, at this place: {line}"));
            }
        }
    }

    /// Reads a kernel, machine, experiment or sweep file that a page shows, and keeps it for later commands of the
    /// page. Notes a fault if the file cannot be read, or, with `is_refused`, if it can.
    fn load(&self, text: &str, is_refused: bool) {
        let has = |key: &str| text.lines().any(|line| line.starts_with(key));
        let name = match (has("workload ="), has("[cpu]"), has("experiments =")) {
            (true, ..) => "experiment.toml",
            (_, true, _) => "machine.toml",
            (.., true) => "sweep.toml",
            _ => "mine.toml",
        };
        let path = self.path(name);
        fs::write(&path, text).expect("a temporary file");
        let word = path.to_str().expect("UTF-8");
        let read = match name {
            "experiment.toml" => find::experiment(word).and_then(|it| {
                it.kernels.iter().try_for_each(|kernel| find::kernel(kernel).map(drop))?;
                find::machine(&it.machine).map(drop)
            }),
            "machine.toml" => find::machine(word).map(drop),
            "sweep.toml" => lab::sweep::Sweep::parse(word, text, lab::grounds::find).map(drop),
            _ => find::kernel(word).map(drop),
        };
        match read {
            Err(error) if !is_refused => self.is_fault(error.to_string()),
            Ok(()) if is_refused => self.is_fault("this is a file that can be read"),
            _ => {}
        }
    }

    /// Checks the syntax of a shell block.
    fn parse(&self, text: &str) {
        let file = self.path("block.sh");
        fs::write(&file, text).expect("a temporary file");
        let output = Command::new("sh").arg("-n").arg(&file).output().expect("there is a shell");
        if !output.status.success() {
            self.is_fault(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }

    /// Checks the syntax of a Python block.
    fn parse_python(&self, text: &str) {
        let file = self.path("block.py");
        fs::write(&file, text).expect("a temporary file");
        let script = "import ast, sys; ast.parse(open(sys.argv[1]).read())";
        let Ok(output) = Command::new("python3").args(["-c", script]).arg(&file).output() else {
            eprintln!("skipped: there is no python3 to parse a block of Python");
            return;
        };
        if !output.status.success() {
            self.is_fault(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }

    /// Runs a command line if it is cheap. Otherwise checks the files and names in it.
    fn run(&self, line: &str, is_refused: bool) {
        let line = line.split(" #").next().unwrap_or_default().split(" | ").next().unwrap_or_default();
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => {}
            ["highwater" | "target/release/highwater", arguments @ ..]
            | ["cargo", "run", "--release", "--", arguments @ ..] => self.highwater(arguments, is_refused),
            ["cargo", "run", "--release", "--package", package, "--example", name]
            | ["cargo", "run", "--release", "--package", package, "--example", name, "--", ..] => {
                self.has_target(package, "example", name);
            }
            // A crate in examples/ whose program is `highwater` with an addition.
            ["cargo", "run", "--release", "--package", package, "--", arguments @ ..] => {
                let manifest = root().join("examples").join(package).join("Cargo.toml");
                if !read(&manifest).contains(&format!("name = \"{package}\"")) {
                    self.is_fault(format!("no crate of examples/ is called `{package}`"));
                }
                if let ["compare", ..] = arguments {
                    // The program tested here does not have the example's policy, so another takes its place.
                    let arguments: Vec<String> =
                        arguments.iter().map(|it| it.replace("policy=own", "policy=lru")).collect();
                    self.highwater(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), is_refused);
                }
            }
            ["cargo", "bench", "--package", package, "--bench", name, ..] => self.has_target(package, "bench", name),
            ["cargo", "bench", "--package", package] => drop(self.manifest(package)),
            ["cargo", "install", "--locked", "--path", folder, ..]
                if root().join(folder).join("Cargo.toml").exists() => {}
            ["cargo", "test", "--workspace"] | ["cargo", "build", "--release"] | ["cargo", "ci"] => {}
            ["cp", from, to] => {
                fs::copy(self.file(from), self.file(to)).map_err(|error| self.is_fault(error.to_string())).ok();
            }
            [program, ..] if FOREIGN.contains(program) || ALSO_FOREIGN.contains(program) => {}
            _ => self.is_fault(format!("nobody looks at a command like `{line}`")),
        }
    }

    fn highwater(&self, arguments: &[&str], is_refused: bool) {
        let here = self.folder.path().to_str().expect("UTF-8");
        let given = arguments.iter().map(|word| match *word {
            "DIR" | "/mnt/fast" => here,
            word => word,
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.args(given).current_dir(here).stdin(Stdio::null());
        match arguments {
            // Only the options of these commands are checked. A verb alone is a mention of it.
            ["bench" | "swarm" | "results" | "guest" | "truth", ..]
            | [
                "compare" | "run" | "ablate" | "variants" | "diff" | "explain" | "sweep" | "report" | "import"
                | "machine" | "calibrate",
            ]
            | ["explain", "stall"] => {
                command.arg("--help");
            }
            ["compare" | "run" | "ablate" | "variants" | "fidelity" | "rank" | "sweep", ..]
                if !arguments.contains(&"--dry-run") =>
            {
                command.arg("--dry-run");
            }
            _ => {}
        }
        let output = command.output().expect("the binary was built for this test");
        let expected = if is_refused { 2 } else { 0 };
        if output.status.code() != Some(expected) {
            let said = String::from_utf8_lossy(&output.stderr);
            self.is_fault(format!("`highwater {}`: {}: {said}", arguments.join(" "), output.status));
        }
    }

    /// Returns the manifest of a package. Records a fault if there is no such package.
    fn manifest(&self, package: &str) -> String {
        let folder = package.strip_prefix("highwater-").unwrap_or("host");
        let path = root().join("crates").join(folder).join("Cargo.toml");
        let text = fs::read_to_string(&path).unwrap_or_default();
        if !text.contains(&format!("name = \"{package}\"")) {
            self.is_fault(format!("no crate is called `{package}`"));
        }
        text
    }

    /// Checks that a package has an example or a bench with this name.
    fn has_target(&self, package: &str, kind: &str, name: &str) {
        if !self.manifest(package).contains(&format!("[[{kind}]]\nname = \"{name}\"")) {
            self.is_fault(format!("`{package}` has no {kind} `{name}`"));
        }
    }
}

/// Splits a line into words at spaces. A space between quotes does not end a word, and the quotes are left out.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for c in line.chars() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            (' ', None) => words.push(String::new()),
            _ => words.last_mut().expect("one at least").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the text of a file changed by a fragment. Each line of the fragment replaces the first line with the same
/// key, or is inserted at the top; whole tables are added at the end.
fn changed(file: &str, fragment: &str) -> String {
    let (keys, tables) = fragment.find("[[").map_or((fragment, ""), |at| fragment.split_at(at));
    let mut lines: Vec<&str> = file.lines().collect();
    for line in keys.lines().filter(|line| !line.trim().is_empty()) {
        let key = line.split(" =").next().expect("a part at least");
        match lines.iter().position(|it| it.split(" =").next() == Some(key)) {
            Some(at) => lines[at] = line,
            None => lines.insert(0, line),
        }
    }
    format!("{}\n\n{tables}", lines.join("\n"))
}

#[test]
fn every_code_block_is_true() {
    let compiled = read(&root().join("docs/lib.rs"));
    let look_at = |page: &PathBuf| {
        let desk = Desk::new();
        let text = read(page);
        let name = page.strip_prefix(root()).expect("a page of the repository").display().to_string();
        let from_docs = name.strip_prefix("docs/").map_or_else(|| format!("../{name}"), str::to_owned);
        let (blocks, mut faults) = (blocks(&text), Vec::new());
        for block in &blocks {
            desk.look_at(block, &|| compiled.contains(&format!("\"{from_docs}\"")));
            faults.extend(desk.faults.take().into_iter().map(|what| format!("{name}:{}: {what}", block.line)));
        }
        (blocks.len(), faults)
    };
    let (pages, next, found) = (pages(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Some commands look at this computer for seconds. Meanwhile other pages are looked at.
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some((n, page)) = Some(next.fetch_add(1, Relaxed)).and_then(|n| Some((n, pages.get(n)?))) {
                    let looked_at = look_at(page);
                    found.lock().unwrap_or_else(PoisonError::into_inner).push((n, looked_at));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort();
    assert_eq!(found.len(), pages.len());
    let looked_at: usize = found.iter().map(|(_, (looked_at, _))| looked_at).sum();
    let faults: Vec<String> = found.into_iter().flat_map(|(_, (_, faults))| faults).collect();
    assert!(looked_at > 100, "only {looked_at} blocks and commands were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn stale_blocks_are_told() {
    let told = |info: &str, text: &str| {
        let desk = Desk::new();
        desk.look_at(&Block { line: 1, info: info.into(), text: text.into() }, &|| false);
        desk.faults.take().join("\n")
    };
    for (info, text, expected) in [
        ("sh", "highwater compare parallelio --sclae 1/16\n", "unexpected argument '--sclae'"),
        ("sh", "highwater compare paralelio\n", "no experiment is called `paralelio`"),
        ("sh", "highwater run ping --kernel 2.6.23-rc5 --rows none\n", "none"),
        ("sh", "highwater list 'a\n", "block.sh"),
        ("sh", "frobnicate\n", "nobody looks at a command like `frobnicate`"),
        ("sh", "cargo run --release --package highwater-lab --example none\n", "no example `none`"),
        ("sh refused", "highwater list\n", "exit status: 0"),
        ("toml", "base = \"3.10-rc4-vanilla\"\n[reclaim]\nkswapd_flor = \"one\"\n", "did you mean `kswapd_floor`?"),
        ("toml refused", "base = \"3.10-rc4-vanilla\"\n[reclaim]\nkswapd_floor = \"one\"\n", "can be read"),
        ("toml in crates/catalogue/machines/ping-8g.toml", "elevator = \"none\"\n", "did you mean `noop`?"),
        ("toml of Cargo.toml", "members = []\n", "does not have, at this place: members = []"),
        ("diff of Cargo.toml", " [workspace]\n+resolver = \"3\"\n", "has `resolver = \"3\"` already"),
        ("rust,no_run", "fn main() {}\n", "docs/lib.rs does not name this page"),
        ("json", "{\n", "EOF"),
        ("toml", "experiments = \"randread\"\nrun = 3\n", "did you mean `runs`?"),
        ("rust,ignore", "\n", "nobody looks at a block"),
    ] {
        assert!(told(info, text).contains(expected), "{info}: {text}: {}", told(info, text));
    }
}

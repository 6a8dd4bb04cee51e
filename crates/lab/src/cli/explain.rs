//! The verb `explain`: shows every value in a file with its source, the meaning of a key ([`key`]), or the stalls of a
//! run's tasks ([`stall`]).

mod key;
mod stall;

use std::path::Path;

use engine::kernel::{Kernel, Origin, ROOT, Setting, choice};
use placed::{Entry, Node, Value, nearest, one_of};

use super::{End, TextOptions};
use catalogue::experiment::{Experiment, Variant};
use catalogue::hardware::Hardware;
use catalogue::{embedded, find, versions};
use kit::words::counted;
use report::Look;
use report::grid::{Cell, Grid, Tone, hanging, prose};
use report::html::{Page, Part, Section};
use study::page;
use study::plan::{OF_MACHINE, OF_PARAMS};

/// Arguments of `highwater explain`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    /// The thing to explain: a name from `highwater list`, or a file; a key, such as `lru.swappiness`,
    /// `machine.cpu.count`, `params.hogs`; a sysctl or a file of a cgroup, such as `vm.dirty_ratio`, `memory.high`; or
    /// a word, for a list of everything with this word in its name
    #[arg(required = true)]
    name: Option<String>,
    #[command(flatten)]
    output: TextOptions,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(clap::Subcommand)]
enum What {
    /// Run an experiment with one kernel, and explain each long direct reclaim and each long wait of a throttled
    /// writer: the request, the pages scanned, the reasons why pages stayed, and the tasks and devices waited for
    /// (`sim`)
    Stall(stall::Arguments),
}

/// Shows the explanation of a kernel, a machine, an experiment, a key or a word.
pub fn run(Arguments { name, output, what }: &Arguments) -> Result<(), End> {
    let name = match (what, name) {
        (Some(What::Stall(arguments)), _) => return stall::run(arguments),
        (None, Some(name)) => name,
        (None, None) => return Err(End::Usage("expected a name, a file or a key".into())),
    };
    let (plain, _) = find::split(name)?;
    // Files of /proc and /sys may exist on this computer, but are no files of this program.
    let is_of_kernel = ["/proc/", "/sys/"].iter().any(|folder| plain.starts_with(folder));
    if let Some(found) = is_of_kernel.then(|| key::explain(plain)).transpose()?.flatten() {
        return output.write(|look| found.text(look), || found.page());
    }
    let is = |folder| embedded::names(folder).any(|known| known == plain);
    match kind_of_file(plain)? {
        Some(Kind::Experiment) => return show_experiment(name, output),
        Some(Kind::Machine) => return show_machine(name, output),
        Some(Kind::Kernel) => return show_kernel(name, output),
        None => {}
    }
    if is("kernels") {
        return show_kernel(name, output);
    }
    match (is("machines"), is("experiments")) {
        (true, true) => return show_experiment_and_machine(name, output),
        (true, false) => return show_machine(name, output),
        (false, true) => return show_experiment(name, output),
        (false, false) => {}
    }
    // A section of kernel files is explained by all its keys, even if some other key has the same name.
    let is_section = choice::all().any(|choice| choice.section == plain);
    if let Some(found) = key::explain(plain)?.filter(|_| !is_section) {
        return output.write(|look| found.text(look), || found.page());
    }
    let is_version = || !embedded::names("kernels").any(|name| name.starts_with(plain));
    if let Some(hint) = versions::hint(plain).filter(|_| is_version()) {
        return Err(End::Usage(format!("no kernel is called `{plain}`{hint}")));
    }
    // Without its number, the name of a node's thread, such as `kswapd0`, is found.
    let word = plain.trim_end_matches(|c: char| c.is_ascii_digit());
    let found = [plain, word].map(|word| (word, key::matching(word)));
    let is_meant = |(word, matching): &(&str, Vec<_>)| word.chars().count() >= MATCHED_FROM && !matching.is_empty();
    if let Some((word, matching)) = found.iter().find(|it| is_meant(it)) {
        return output.write(|look| list(word, matching, look), || list_page(word, matching));
    }
    let known: Vec<&str> = ["kernels", "machines", "experiments"].into_iter().flat_map(embedded::names).collect();
    let hint = match (nearest(plain, known.iter().copied()), key::nearest(plain)) {
        (None, _) if plain.starts_with(OF_MACHINE) => {
            ": `highwater explain MACHINE` shows the keys of a machine".into()
        }
        (None, _) if plain.starts_with(OF_PARAMS) => {
            ": `highwater explain EXPERIMENT` shows the parameters of a workload".into()
        }
        (None, Some(key)) => format!(": did you mean `{key}`?"),
        (None, None) => ": `highwater list` shows the names, docs/choices.md the keys of kernels".into(),
        _ => one_of(plain, &known),
    };
    Err(End::Usage(format!("no kernel, machine, experiment or key is called `{plain}`{hint}")))
}

/// Least number of characters that a word must have to be searched for in names.
const MATCHED_FROM: usize = 3;

/// Names with their descriptions, grouped by kind (such as kernels, machines or parameters).
type Matching = [(&'static str, Vec<(String, String)>)];

/// Returns, as text, a list of all names that contain `word`, such as names of kernels, machines and parameters.
fn list(word: &str, matching: &Matching, look: Look) -> String {
    let all: usize = matching.iter().map(|(_, lines)| lines.len()).sum();
    let is =
        if choice::all().any(|it| it.section == word) { "a section of kernel files" } else { "no name of its own" };
    let mut text = format!("`{word}` is {is}; {} with it:\n", counted(all, "name"));
    for (kind, lines) in matching {
        text += &format!("\n{kind}\n");
        for (name, about) in lines {
            text += &hanging(&format!("  {name}  "), first_sentence(about), look);
        }
    }
    text
}

/// Returns, as an HTML page, a list of all names that contain `word`, such as names of kernels, machines and
/// parameters.
fn list_page(word: &str, matching: &Matching) -> Page {
    let section = |(kind, lines): &(&'static str, Vec<(String, String)>)| {
        let line = |(name, about): &(String, String)| vec![name.clone().into(), first_sentence(about).into()];
        let lines = lines.iter().map(line).collect();
        let grid = Grid { keys: 1, head: page::head(&["name", "is"]), lines, texts: vec![0, 1] };
        Section::new(*kind, vec![Part::table(*kind, grid)])
    };
    Page { title: format!("Names with `{word}`"), about: Vec::new(), sections: matching.iter().map(section).collect() }
}

/// Returns the first sentence of a text.
fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first)
}

fn show_kernel(name: &str, output: &TextOptions) -> Result<(), End> {
    let found = find::kernel(name)?;
    output.write(|look| kernel(&found, look), || kernel_page(&found))
}

fn show_machine(name: &str, output: &TextOptions) -> Result<(), End> {
    let found = find::machine(name)?;
    let page = || {
        let about = vec![found.about.clone(), bases_of(&found.bases)];
        Page { title: format!("machine {}", found.name), about, sections: vec![machine_section("Values", &found)] }
    };
    output.write(|look| machine(&found, look), page)
}

fn machine_section(title: &str, found: &Hardware) -> Section {
    Section::new(title, vec![Part::table("Values", page::values(&found.node))])
}

/// Shows an experiment and a machine that have the same name.
fn show_experiment_and_machine(name: &str, output: &TextOptions) -> Result<(), End> {
    let (runs, on) = (find::experiment(name)?, find::machine(name)?);
    let page = || {
        let mut page = experiment_page(&runs);
        page.sections.push(machine_section("Machine", &on));
        page
    };
    output.write(|look| format!("{}\n{}", experiment(&runs, look), machine(&on, look)), page)
}

fn show_experiment(name: &str, output: &TextOptions) -> Result<(), End> {
    let found = find::experiment(name)?;
    output.write(|look| experiment(&found, look), || experiment_page(&found))
}

fn bases_of(bases: &[String]) -> String {
    if bases.is_empty() { String::new() } else { format!("base: {}", bases.join(" -> ")) }
}

/// Returns a page with every value of a kernel by section. Values that differ from the base are in bold.
fn kernel_page(kernel: &Kernel) -> Page {
    let mut lines = Vec::new();
    for section in kernel.settings.chunk_by(|a, b| a.section == b.section) {
        lines.push(Vec::new());
        lines.push(vec![Cell::new(section[0].section.to_string(), Tone::Heading)]);
        for setting in section {
            let tone = if setting.replaces.is_some() { Tone::Heading } else { Tone::Plain };
            let value = Cell::new(setting.value.to_string(), tone);
            lines.push(vec![setting.key.to_string().into(), value, Cell::new(origin(setting), Tone::Faint)]);
        }
    }
    let grid = Grid { keys: 1, head: page::head(&["key", "value", "source"]), lines, texts: vec![0, 1, 2] };
    let few = differ_from_base(kernel);
    let differences = format!("{few} from the base: those in bold");
    let about = vec![kernel.about.clone(), bases_of(&kernel.bases), differences];
    let sections = vec![Section::new("Values", vec![Part::table("Values", grid)])];
    Page { title: format!("kernel {}", kernel.name), about, sections }
}

/// Returns a page about an experiment: its kernels, its parameters and variants, and its analysis.
fn experiment_page(experiment: &Experiment) -> Page {
    let Experiment { name, about, machine, workload, kernels, .. } = experiment;
    let runs = format!("machine {machine} · workload {workload} · kernels {}", kernels.join(", "));
    let mut left = String::new();
    defaults(experiment, Look::default(), &mut left);
    let mut parts = vec![Part::table("Parameters", page::values(&experiment.params))];
    if !left.is_empty() {
        parts.push(Part::Lines(left.lines().map(ToOwned::to_owned).collect()));
    }
    parts.extend(experiment.groups.iter().map(|group| Part::table("Control group", page::values(group))));
    let mut sections = vec![Section::new("Parameters", parts)];
    if !experiment.variants.is_empty() {
        let line = |Variant { name, kernels, set }: &Variant| -> Vec<Cell> {
            let set: Vec<String> = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
            vec![name.clone().into(), set.join(" ").into(), kernels.join(", ").into()]
        };
        let lines = experiment.variants.iter().map(line).collect();
        let grid = Grid { keys: 1, head: page::head(&["variant", "sets", "kernels"]), lines, texts: vec![0, 1, 2] };
        sections.push(Section::new("Variants", vec![Part::table("Variants", grid)]));
    }
    for (title, note) in [("What to look at", &experiment.analysis), ("Where it is unfair", &experiment.fairness)] {
        if !note.is_empty() {
            let words = |text: &str| Part::Words(text.split_whitespace().collect::<Vec<_>>().join(" "));
            sections.push(Section::new(title, note.split("\n\n").map(words).collect()));
        }
    }
    Page { title: format!("experiment {name}"), about: vec![about.clone(), runs], sections }
}

enum Kind {
    Kernel,
    Machine,
    Experiment,
}

/// Longest chain of bases (the file's base, the base of this base, and so on) that is searched for the kind of a file.
/// The limit ends the search if a file is its own ancestor. The reader of kernel and machine files reports that error
/// later.
const BASES_MAX: u32 = 16;

/// Returns the kind of the file `word`: a kernel, a machine or an experiment. The kind follows from keys that only one
/// kind has, or from the file's base. Returns none if `word` is no file.
fn kind_of_file(word: &str) -> Result<Option<Kind>, End> {
    let path = Path::new(word);
    if find::is_file(word) { kind_of(path, path, BASES_MAX).map(Some) } else { Ok(None) }
}

/// Returns what the file `path` describes: an experiment, a machine or a kernel. `top` is the file that the user named;
/// `path` is `top` itself or one of its bases. Bases are searched for in the folder of `top`, and among the files
/// embedded in this program. At most `bases_left` further bases are read.
fn kind_of(top: &Path, path: &Path, bases_left: u32) -> Result<Kind, End> {
    let text = find::read(path, "what is explained").unwrap_or_default();
    // If the file is faulty, its own reader gives a better message.
    let Ok(node) = Node::parse(&path.to_string_lossy(), &text) else { return Ok(Kind::Kernel) };
    let has = |key: &str| node.get(key).is_some();
    let has_nodes = || node.get("memory").is_some_and(|memory| memory.get("nodes").is_some());
    if has("workload") {
        return Ok(Kind::Experiment);
    }
    if ["cpu", "cost", "disk", "network", "before", "group"].into_iter().any(has) || has_nodes() {
        return Ok(Kind::Machine);
    }
    let Some((base, name)) = node.get("base").and_then(|base| Some((base, base.as_text()?))) else {
        return Ok(Kind::Kernel);
    };
    let is = |folder| embedded::names(folder).any(|known| known == name);
    match (is("kernels"), is("machines"), find::beside(top, name)) {
        (.., Some(file)) if bases_left > 0 => kind_of(top, &file, bases_left - 1),
        (true, ..) | (.., Some(_)) => Ok(Kind::Kernel),
        (_, true, _) => Ok(Kind::Machine),
        _ if node.entries().iter().any(|entry| !["about", "base"].contains(&entry.key.as_str())) => Ok(Kind::Kernel),
        _ => {
            let known = ["kernels", "machines"].into_iter().flat_map(embedded::names);
            let hint = match nearest(name, known) {
                Some(near) => format!(": did you mean `{near}`?"),
                None => ": `highwater list` shows the names".to_owned(),
            };
            Err(End::Usage(format!(
                "{}: no kernel or machine is called `{name}`, nor is it beside this file{hint}",
                base.place
            )))
        }
    }
}

/// Returns text that says how many values of the kernel are not those of its base.
fn differ_from_base(kernel: &Kernel) -> String {
    match kernel.differences().count() {
        1 => "1 value differs".into(),
        count => format!("{count} values differ"),
    }
}

/// Returns a text with all values of a kernel file, section by section. A `*` marks each value that differs from the
/// file's base.
fn kernel(kernel: &Kernel, look: Look) -> String {
    let mut text = format!("kernel {}\n", kernel.name);
    if !kernel.about.is_empty() {
        text += &hanging("  ", &kernel.about, look);
    }
    let base = match kernel.bases.as_slice() {
        [] if kernel.name == ROOT => "none".into(),
        [] => format!("none, so that what it does not name is as in {ROOT}"),
        bases => bases.join(" -> "),
    };
    let few = differ_from_base(kernel);
    text += &hanging("  ", &format!("base: {base}; {few} from it, marked *"), look);
    let name = |setting: &Setting| setting.key.chars().count();
    let key_width = kernel.settings.iter().map(name).max().unwrap_or(0);
    let value_width =
        kernel.settings.iter().map(|setting| setting.value.to_string().chars().count()).max().unwrap_or(0);
    for section in kernel.settings.chunk_by(|a, b| a.section == b.section) {
        text.push_str(&format!("\n[{}]\n", section[0].section));
        for setting in section {
            let mark = if setting.replaces.is_some() { '*' } else { ' ' };
            let (key, value) = (&setting.key, setting.value.to_string());
            let lead = format!("{mark} {key:<key_width$} = {value:<value_width$}  ");
            text += &hanging(&lead, &origin(setting), look);
        }
    }
    text
}

fn origin(setting: &Setting) -> String {
    let mut text = match &setting.origin {
        Origin::Default => format!("as in {ROOT}"),
        Origin::Set => "set on the command line".into(),
        Origin::File { place, source, .. } => match source {
            Some(source) => format!("{place}: {source}"),
            None => place.to_string(),
        },
    };
    if let Some(value) = &setting.replaces {
        text.push_str(&format!(" (base: {value})"));
    }
    text
}

fn machine(machine: &Hardware, look: Look) -> String {
    let mut text = format!("machine {}\n", machine.name);
    if !machine.about.is_empty() {
        text += &hanging("  ", &machine.about, look);
    }
    if !machine.bases.is_empty() {
        let bases = machine.bases.join(" -> ");
        text += &hanging("  ", &format!("base: {bases}; each value stands with the file that it is from"), look);
    }
    let sections = machine.node.entries().iter().filter(|entry| entry.key != "about");
    for Entry { key, node, .. } in sections {
        let several = match &node.value {
            Value::List(nodes) => nodes.iter().collect(),
            _ => vec![node],
        };
        for node in several {
            text.push_str(&format!("\n[{key}]\n"));
            values(node, look, &mut text);
        }
    }
    text
}

fn experiment(experiment: &Experiment, look: Look) -> String {
    let Experiment { name, about, machine, workload, kernels, .. } = experiment;
    let mut text = format!("experiment {name}\n{}\n", hanging("  ", about, look));
    text += &format!("machine   {machine}\nworkload  {workload}\n");
    text += &hanging("kernels   ", &kernels.join(", "), look);
    if let Some(published) = &experiment.published {
        let catalogue::experiment::Posting { author, title, date } = &published.posting;
        let posting = format!("{author}, \"{title}\", {date}: {}", counted(published.rows.len(), "row"));
        text += &hanging("published ", &posting, look);
    }
    text.push_str("\n[params]: as `--set params.KEY=VALUE`\n");
    values(&experiment.params, look, &mut text);
    defaults(experiment, look, &mut text);
    for group in &experiment.groups {
        text.push_str("\n[[group]]: beside those of the machine\n");
        values(group, look, &mut text);
    }
    if !experiment.variants.is_empty() {
        text.push_str("\nvariants\n");
    }
    for Variant { name, kernels, set } in &experiment.variants {
        let set: Vec<String> = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let of = if kernels.is_empty() { String::new() } else { format!(" (of {})", kernels.join(", ")) };
        text += &hanging(&format!("  {name}{of}: "), &set.join(" "), look);
    }
    for (title, note) in [("What to look at", &experiment.analysis), ("Where it is unfair", &experiment.fairness)] {
        if !note.is_empty() {
            text += &format!("\n{title}\n\n{}", prose(note, look));
        }
    }
    text
}

/// Adds to `text` the parameters that an experiment does not set, with their default values, one on each line.
fn defaults(experiment: &Experiment, look: Look, text: &mut String) {
    let params = grounds::find(&experiment.workload).and_then(|workload| workload.params(&experiment.params));
    let Some(serde_json::Value::Object(params)) = params else { return };
    let is_left = |key: &&String| experiment.params.get(key).is_none();
    let width = params.keys().filter(is_left).map(|key| key.chars().count()).max().unwrap_or(0);
    for (key, param) in params.iter().filter(|(key, _)| is_left(key)) {
        // The value is a constant with its origin, or a plain value.
        let word = |name| param.get(name).and_then(serde_json::Value::as_str);
        let line = match (param.get("value"), word("from"), word("source")) {
            (Some(value), Some(from), Some(source)) => format!("{value} ({from}: {source})"),
            _ => param.to_string(),
        };
        *text += &hanging(&format!("  {key:<width$} = {line}  "), "default", look);
    }
}

/// Adds to `text` every value below the table `node`, one on each line. A line also has the value's place (file and
/// line), and the comment that follows the value in the file.
fn values(node: &Node, look: Look, text: &mut String) {
    let lines = catalogue::values::listed(node);
    // Texts of more than 64 characters do not count for the width, so that a few of them do not push all places to the
    // right.
    let width = |texts: &mut dyn Iterator<Item = &String>| {
        texts.map(|text| text.chars().count()).filter(|width| *width <= 64).max().unwrap_or(0)
    };
    let path_width = width(&mut lines.iter().map(|(path, ..)| path));
    let value_width = width(&mut lines.iter().map(|(_, value, _)| value));
    for (path, value, node) in &lines {
        let source = node.comment.as_ref().map_or_else(String::new, |comment| format!(": {comment}"));
        let origin = format!("{}{source}", node.place);
        *text += &hanging(&format!("  {path:<path_width$} = {value:<value_width$}  "), &origin, look);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::kernel::Source;

    #[test]
    fn a_kernel_shows_values_origins_and_differences() {
        let base = "[reclaim]\nkswapd_floor = \"zero\" # spec\n";
        let resolve = |_: &str| Ok(Source { file: "kernels/base.toml".into(), text: base.into() });
        let text = "base = \"base\"\nabout = \"more in a batch\"\n[lru]\nbatch = 15 # a guess\n";
        let text = kernel(&Kernel::parse("mine", "mine.toml", text, &resolve).unwrap(), Look::default());
        assert!(
            text.starts_with("kernel mine\n  more in a batch\n  base: base; 1 value differs from it, marked *\n"),
            "{text}"
        );
        let line = |key: &str| {
            text.lines()
                .find(|line| line.get(2..).is_some_and(|line| line.starts_with(key)))
                .unwrap()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(line("batch"), "* batch = 15 mine.toml:4: a guess (base: 14)");
        assert_eq!(line("kswapd_floor"), "kswapd_floor = \"zero\" kernels/base.toml:2: spec");
        assert_eq!(line("swappiness"), "swappiness = 60 as in 2.6.23-rc5");
    }

    #[test]
    fn an_experiment_shows_all_its_parameters_and_variants() {
        let text = experiment(&find::experiment("simon").unwrap(), Look::default());
        assert!(text.contains("\n  client_ms      = 500  default\n"), "{text}");
        assert!(text.contains("\n  nothing is sent: params.client_ms=0\n"), "{text}");
        let text = experiment(&find::experiment("parallelio").unwrap(), Look::default());
        let places = |key: &str| text.lines().filter(|line| line.trim_start().starts_with(&format!("{key} "))).count();
        for key in find::experiment("parallelio").unwrap().params.entries() {
            assert_eq!(places(&key.key), 1, "{}", key.key);
        }
    }

    #[test]
    fn constants_show_their_origin() {
        let node = Node::parse(
            "m",
            "a = { ns = 90, from = \"fitted\", to = \"scans\" }\nb = 3 # guess\n[c]\nd = 1\nz = [{ k = 1 }]\n",
        )
        .unwrap();
        let mut text = String::new();
        values(&node, Look::default(), &mut text);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            ["a = 90 ns (fitted: scans) m:1", "b = 3 m:2: guess", "c.d = 1 m:4", "c.z[0] = { k = 1 } m:5"]
        );
    }
}

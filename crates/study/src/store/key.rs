//! The key of a run: everything that determines the run, as one text in a canonical form, and the hash of the text.

use std::collections::BTreeMap;

use engine::kernel::Kernel;
use placed::{Node, Value};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use grounds::job::Job;
use report::Column;

/// Version of the format of a run's key and of its file in a store. A program does not find runs that were stored with
/// another version.
pub const FORMAT: u32 = 1;

/// The name of a run in a store: experiment, machine, scale, kernel, changes and seed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct Identity {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the machine, followed by the changes to its keys.
    pub machine: String,
    /// The scale, as text.
    pub scale: String,
    /// Name of the kernel.
    pub kernel: String,
    /// The values that the user set in place of those in the named files, by key.
    pub set: BTreeMap<String, String>,
    /// The random seed.
    pub seed: u64,
}

impl Identity {
    /// Returns the name of the run's column: the kernel and its changes.
    #[must_use]
    pub fn column(&self) -> String {
        let changes: String = self.set.iter().map(|(key, value)| format!("+{key}={value}")).collect();
        format!("{}{changes}", self.kernel)
    }

    /// Returns the machine's name alone, without the changes to the machine's keys.
    #[must_use]
    pub fn plain_machine(&self) -> &str {
        self.machine.split('+').next().unwrap_or(&self.machine)
    }
}

/// The key of a run: everything that determines the run, with the hash that names the run's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The name of the run.
    pub identity: Identity,
    /// Everything that determines the run: a line for each value, sorted.
    pub text: String,
    /// The hash of the text: 32 hexadecimal digits.
    pub hash: String,
}

impl Key {
    /// Returns the key under which the store keeps the results of a simulated job. The job is one of the runs of
    /// `column`.
    #[must_use]
    pub fn of_job(job: &Job, column: &Column, workload: &str) -> Self {
        SeedKeys::of_job(job, column, workload).of_seed(job.seed)
    }
}

/// The keys of the runs in one column, which differ only in their seeds.
#[derive(Clone, Debug)]
pub struct SeedKeys {
    /// The identity of one of the runs, with any seed. The identities of the other runs differ from it only in the
    /// seed.
    identity: Identity,
    /// The key's text before the line of the seed.
    before: String,
    /// The key's text after the line of the seed.
    behind: String,
    /// State of the hasher after it has taken in the part of the key's text that precedes the line of the seed.
    hasher: Sha256,
}

impl SeedKeys {
    /// Creates the source of the keys of all runs in `column`, which differ only in the seed. `job` is the simulated
    /// job of one of these runs, whichever it is.
    #[must_use]
    pub fn of_job(job: &Job, column: &Column, workload: &str) -> Self {
        let identity = Identity {
            experiment: job.experiment.clone(),
            machine: job.machine.name.clone(),
            scale: job.scale.to_string(),
            kernel: column.kernel.clone(),
            set: column.set.clone(),
            seed: job.seed,
        };
        let mut lines = Vec::new();
        lines.push(format!("program = {:?}", concat!(env!("CARGO_PKG_VERSION"), " ", env!("HIGHWATER_SOURCES"))));
        lines.push(format!("workload = {workload:?}"));
        lines.push(format!("locks = {}", job.locks));
        of_kernel(&job.kernel, &mut lines);
        flatten("machine", &job.machine.node, &mut lines);
        flatten("params", &job.params, &mut lines);
        Self::of_lines(identity, lines)
    }

    /// Makes the keys of a column's runs. `identity` and `lines` are what all seeds of the column share: the text of a
    /// run's key has these lines, sorted, and a line with the run's seed, which must not be among `lines`.
    fn of_lines(identity: Identity, mut lines: Vec<String>) -> Self {
        let Identity { experiment, machine, scale, kernel, set, .. } = &identity;
        for (name, value) in [("experiment", experiment), ("machine", machine), ("scale", scale), ("kernel", kernel)] {
            lines.push(format!("run.{name} = {value:?}"));
        }
        lines.extend(set.iter().map(|(key, value)| format!("run.set.{key} = {value:?}")));
        lines.sort_unstable();
        // No other line begins with the prefix of the seed's line, so the place of this line does not depend on the
        // seed.
        let (before, behind) = lines.split_at(lines.partition_point(|line| line.as_str() < SEED));
        let ended = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let before = format!("highwater run, format {FORMAT}\n{}", ended(before));
        let hasher = Sha256::new_with_prefix(before.as_bytes());
        Self { before, behind: ended(behind), hasher, identity }
    }

    /// Returns the hash and the identity of the run of this column that has the seed `seed`.
    #[must_use]
    pub fn name(&self, seed: u64) -> (String, Identity) {
        let hasher = self.hasher.clone().chain_update(self.after(seed));
        (digits(&hasher.finalize()), Identity { seed, ..self.identity.clone() })
    }

    /// Returns the key of the run of this column that has the seed `seed`.
    #[must_use]
    pub fn of_seed(&self, seed: u64) -> Key {
        let (hash, identity) = self.name(seed);
        Key { identity, text: format!("{}{}", self.before, self.after(seed)), hash }
    }

    fn after(&self, seed: u64) -> String {
        format!("{SEED}{seed}\n{}", self.behind)
    }
}

/// Prefix of the line that holds the seed.
const SEED: &str = "run.seed = ";

/// Returns the hash of a key's text. The hash names the run's file.
#[must_use]
pub fn hash_of(text: &str) -> String {
    digits(&Sha256::digest(text.as_bytes()))
}

/// Returns the first half of a hash in hexadecimal digits.
fn digits(hash: &[u8]) -> String {
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Adds to `lines` a line for every value of a kernel. The line lacks the value's origin, which does not change a run.
fn of_kernel(kernel: &Kernel, lines: &mut Vec<String>) {
    for setting in &kernel.settings {
        let node = Node::new("", setting.value.clone());
        flatten(&format!("kernel.{}.{}", setting.section, setting.key), &node, lines);
    }
}

/// Keys whose values are explanations, which do not change the result of a run.
const PROSE: [&str; 3] = ["about", "from", "source"];

/// Adds to `lines` a line for each value in a tree of tables and lists. `path` is the path of the tree's root.
fn flatten(path: &str, node: &Node, lines: &mut Vec<String>) {
    match &node.value {
        Value::Text(text) => lines.push(format!("{path} = {text:?}")),
        Value::Integer(number) => lines.push(format!("{path} = {number}")),
        // The number's bits are written, since a printed form of a number may change.
        Value::Float(number) => lines.push(format!("{path} = float {:016x}", number.to_bits())),
        Value::Boolean(value) => lines.push(format!("{path} = {value}")),
        Value::List(nodes) => {
            lines.push(format!("{path} = list of {}", nodes.len()));
            for (n, node) in nodes.iter().enumerate() {
                flatten(&format!("{path}[{n}]"), node, lines);
            }
        }
        Value::Table(entries) => {
            for entry in entries.iter().filter(|entry| !PROSE.contains(&entry.key.as_str())) {
                flatten(&format!("{path}.{}", entry.key), &entry.node, lines);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            experiment: "parallelio".into(),
            machine: "parallelio-8g".into(),
            scale: "1/16".into(),
            kernel: "mine".into(),
            set: [("lru.batch".to_owned(), "14".to_owned())].into(),
            seed: 7,
        }
    }

    #[test]
    fn the_hash_is_the_same_on_every_computer_and_with_every_compiler() {
        let text = "about = \"x\"\n[a]\nb = { ns = 90, from = \"fitted\", source = \"y\" }\nc = [1, 0.5]\nd = true\n";
        let mut lines = Vec::new();
        flatten("machine", &Node::parse("m.toml", text).unwrap(), &mut lines);
        let key = SeedKeys::of_lines(identity(), lines).of_seed(7);
        let expected = "highwater run, format 1\n\
            machine.a.b.ns = 90\n\
            machine.a.c = list of 2\n\
            machine.a.c[0] = 1\n\
            machine.a.c[1] = float 3fe0000000000000\n\
            machine.a.d = true\n\
            run.experiment = \"parallelio\"\n\
            run.kernel = \"mine\"\n\
            run.machine = \"parallelio-8g\"\n\
            run.scale = \"1/16\"\n\
            run.seed = 7\n\
            run.set.lru.batch = \"14\"\n";
        assert_eq!(key.text, expected);
        assert_eq!(key.hash, "66680de83bc0ced2b8a7f1fb86e9de8a");
        assert_eq!(key.hash, hash_of(&key.text));
        // The example of the SHA-256 standard.
        assert_eq!(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223");
    }

    #[test]
    fn the_order_of_a_file_decides_nothing() {
        let of = |text: &str| {
            let mut lines = Vec::new();
            flatten("params", &Node::parse("p.toml", text).unwrap(), &mut lines);
            SeedKeys::of_lines(identity(), lines).name(7).0
        };
        assert_eq!(of("a = 1\nb = 2\n"), of("# words\nb = 2 # more\na = 1\n"));
        assert_ne!(of("a = 1\n"), of("a = 1.0\n"));
        assert_ne!(of("a = [1]\n"), of("a = [1, 2]\n"));
    }
}

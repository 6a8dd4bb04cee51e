//! Traces in the format `.hwtrace`, read as experiments whose load the workload `trace` runs.

/// Name of the machine on which a trace runs by default.
const MACHINE: &str = "trace-1g";

/// The kernels that are compared by default.
const KERNELS: &str = r#"["6.1-classic", "6.1-mglru"]"#;

/// Returns the text of an experiment that replays the trace in a file. `name` is the name of the load in the report.
pub fn experiment(file: &str, name: &str) -> String {
    let (file, name) = (quoted(file), quoted(name));
    format!(
        "about = {name}\nmachine = \"{MACHINE}\"\nworkload = \"trace\"\nkernels = {KERNELS}\nmain_row = \"Pages read\"\n\
         main_rows = [\"workingset_refault_file\", \"Hit ratio\", \"pgmajfault\", \"Pages written\", \"Elapsed\"]\n\
         [params]\nfile = {file}\n"
    )
}

/// Returns a text as a basic string of TOML. Names of files may contain quotes and control characters.
fn quoted(text: &str) -> String {
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    #[test]
    fn a_trace_is_an_experiment_whatever_its_name() {
        for file in ["./load.hwtrace", "a \"b\"\\c\n.hwtrace"] {
            let text = experiment(file, "load");
            let found = Experiment::parse("load", (file, &text), None).unwrap();
            assert_eq!((found.workload.as_str(), found.machine.as_str()), ("trace", MACHINE));
            assert_eq!(found.params.get("file").and_then(|node| node.as_text()), Some(file));
        }
    }
}

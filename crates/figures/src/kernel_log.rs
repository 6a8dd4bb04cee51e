//! Writes the logs of simulated kernels for the option `--kernel-log`.

use std::io;

use crate::moments::OfRun;

/// The kernel log of one run. Each moment is a line of the log, with its time.
pub type RunKernelLog = OfRun<String>;

/// Writes the logs of runs as text, each below a line that begins with `#` and names the run. If nothing was logged,
/// the text says so.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write(runs: &[RunKernelLog], out: &mut dyn io::Write) -> io::Result<()> {
    if runs.is_empty() {
        writeln!(out, "# no process was killed")?;
    }
    for RunKernelLog { column, seed, moments } in runs {
        writeln!(out, "# {column}, seed {seed}")?;
        moments.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(())
}

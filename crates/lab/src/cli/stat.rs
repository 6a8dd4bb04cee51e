//! The verb `stat`: reports what reclaim of the running kernel did while a command ran, or until Ctrl-C.

use super::{End, Form, options::parse_word, with_command};
use computer::sys::Used;
use computer::{counters, sys};
use figures::cgroup::Cgroup;
use figures::figure;
use figures::figure::{Better, Format, Row};
use figures::scale::Scale;
use grounds::system::linux::limit::Limit;
use kit::{interrupt, shown};
use observe::stat::snapshot::{Source, stalled};
use observe::stat::{Groups, Interval, Snapshot, live};
use report::html::tables;
use report::{Column, ReportFormat, Show, Table, TableHead, rows};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Arguments of `highwater stat`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Seconds between lines of figures, which are printed in addition to the report at the end
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    every: Option<Duration>,
    /// Seconds after which to end [default: at the end of the command, or without a command at Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, conflicts_with = "command")]
    seconds: Option<Duration>,
    /// Run the command in a cgroup with this memory limit: 512M, 2G
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, requires = "command")]
    cgroup: Option<u64>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
    /// Write the report to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show only rows whose names contain one of these words; capitals do not matter, and `.` is any character. Free
    /// blocks are shown as two sums for each zone; with the word `order` they are shown for each order
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    rows: Vec<String>,
    /// The command, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Interval at which the command is checked for its end.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Number of lines of figures between two headings.
const LINES: usize = 20;

/// Reports what reclaim does while a command runs, or until an interrupt.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let form = Form::open(arguments.format, arguments.output.as_deref())?;
    let source = Source::default();
    let _guard = interrupt::guard();
    let limit = arguments.cgroup.map(Limit::new).transpose().map_err(End::Failed)?;
    let before = Snapshot::take(&source);
    before.missing.iter().for_each(|why| shown::warn(&format!("left out: {why}")));
    if before.vmstat.is_empty() {
        return Err(End::Failed("nothing can be said without /proc/vmstat".into()));
    }
    // The command's own cgroup has rows of its own.
    let own = limit.as_ref().map(|limit| limit.cgroup.path.clone());
    let groups = Groups::take(&source, own.as_deref());
    let is_short = is_short(arguments, &before, &groups, limit.as_ref())?;
    let used_before = sys::used_by_children();
    let begun = Instant::now();
    let mut child = start(&arguments.command, limit.as_ref().map(|limit| &limit.cgroup))?;
    let ended = watch(arguments, &source, &before, begun, child.as_mut())?;
    let after = Snapshot::take(&source);
    let elapsed_s = after.seconds_since(&before);
    let command = child.is_some().then(|| used_since(used_before));
    let interval = Interval { before: &before, after: &after, command, elapsed_s };
    let mut rows = if is_short { interval.short_rows() } else { interval.rows() };
    rows.extend(Groups::take(&source, own.as_deref()).rows_since(&groups, elapsed_s));
    if let Some(limit) = &limit {
        rows.extend(limit_rows(limit, elapsed_s));
    }
    drop(limit);
    let title = if arguments.command.is_empty() { "stat".to_owned() } else { title_of(&arguments.command) };
    let mut table = table(&title, rows);
    // Words without a match were reported before the command ran.
    let _ = rows::keep(&mut table, &arguments.rows);
    form.write(&table, Show::default(), |show| with_command(tables::page(&table, show)))?;
    ended.map_or(Ok(()), |why| Err(End::Failed(why)))
}

/// Returns whether the report shows the free blocks of a zone as two sums instead of a row for each order. The report
/// shows the sums in formats that people read, unless a word of `--rows` names a row for one order. This function also
/// warns, before the command runs, of words that match no row.
fn is_short(arguments: &Arguments, before: &Snapshot, groups: &Groups, limit: Option<&Limit>) -> Result<bool, End> {
    let is_for_people = matches!(arguments.format, ReportFormat::Table | ReportFormat::Markdown | ReportFormat::Html);
    if arguments.rows.is_empty() {
        return Ok(is_for_people);
    }
    let command = (!arguments.command.is_empty()).then(Used::default);
    let nothing = Interval { before, after: before, command, elapsed_s: 0.0 };
    let words_missing = |rows: Vec<Row>| {
        let of_limit = limit.into_iter().flat_map(|limit| limit_rows(limit, 1.0));
        let rows: Vec<Row> = rows.into_iter().chain(groups.all_rows()).chain(of_limit).collect();
        rows::fits(&figure::names(rows), &arguments.rows)
    };
    if is_for_people && words_missing(nothing.short_rows()) == Ok(None) {
        return Ok(true);
    }
    super::warn_of(words_missing(nothing.rows()).map_err(End::Usage)?);
    Ok(false)
}

/// Largest number of characters in a title.
const TITLE_MAX: usize = 100;

/// Returns the title of a report: the command on one line, cut at the end if it is too long.
fn title_of(command: &[String]) -> String {
    let line = command.iter().flat_map(|word| word.split_whitespace()).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TITLE_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn start(command: &[String], cgroup: Option<&Cgroup>) -> Result<Option<Child>, End> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    let told = |error: std::io::Error| End::Failed(format!("cannot run `{program}`: {error}"));
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(cgroup) = cgroup {
        // The child enters the cgroup before the program begins, so that all its memory is charged to the cgroup.
        sys::start_in(&mut command, cgroup.path.join("cgroup.procs"));
    }
    command.spawn().map(Some).map_err(told)
}

/// Waits until the command ends or the requested time is over, and prints lines of figures meanwhile. If the command
/// failed, returns the reason.
fn watch(
    arguments: &Arguments,
    source: &Source,
    before: &Snapshot,
    begun: Instant,
    mut child: Option<&mut Child>,
) -> Result<Option<String>, End> {
    let mut last = before.clone();
    let mut next = arguments.every.map(|every| begun + every);
    let (mut lines, mut is_told) = (0, false);
    loop {
        if let Some(child) = child.as_mut()
            && let Some(status) =
                child.try_wait().map_err(|error| End::Failed(format!("cannot wait for the command: {error}")))?
        {
            return Ok((!status.success()).then(|| format!("the command ended with {status}")));
        }
        let is_over = arguments.seconds.is_some_and(|seconds| begun.elapsed() >= seconds);
        // The last line is printed even if it is late.
        if let (Some(at), Some(every)) = (next, arguments.every)
            && (Instant::now() >= at || is_over && at <= begun + arguments.seconds.unwrap_or_default())
        {
            let now = Snapshot::take(source);
            // If a program reads the report from standard output, nothing else is printed there.
            let mut out: Box<dyn Write> = match arguments.format {
                ReportFormat::Table => Box::new(std::io::stdout().lock()),
                _ if arguments.output.is_some() => Box::new(std::io::stdout().lock()),
                _ => Box::new(std::io::stderr().lock()),
            };
            if lines % LINES == 0 {
                writeln!(out, "{}", live::heading())?;
            }
            writeln!(out, "{}", live::line(&last, &now, begun.elapsed().as_secs_f64()))?;
            out.flush()?;
            last = now;
            next = Some(at + every);
            lines += 1;
        }
        // After a signal the command's end is still awaited. A terminal sends its signals to the command, too; SIGTERM
        // is passed on here.
        if let Some(child) = child.as_mut()
            && interrupt::is_passed_on()
            && !is_told
        {
            // The command may just have ended.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
            is_told = true;
        }
        if child.is_none() && (is_over || interrupt::is_set()) {
            return Ok(None);
        }
        sleep(LOOK_EVERY);
    }
}

fn used_since(before: Used) -> Used {
    let after = sys::used_by_children();
    Used {
        user_s: after.user_s - before.user_s,
        system_s: after.system_s - before.system_s,
        major_faults: after.major_faults - before.major_faults,
        minor_faults: after.minor_faults - before.minor_faults,
    }
}

/// Names and units of the counters that the report takes from the `memory.stat` of the command's cgroup. The cgroup is
/// made for the command, so it counts no events of other programs.
const OF_CGROUP: [(&str, &str); 9] = [
    ("pgscan", "pages"),
    ("pgsteal", "pages"),
    ("pgmajfault", "faults"),
    ("workingset_refault_anon", "pages"),
    ("workingset_refault_file", "pages"),
    ("workingset_activate_anon", "pages"),
    ("workingset_activate_file", "pages"),
    ("pswpin", "pages"),
    ("pswpout", "pages"),
];

/// Returns the rows about a cgroup with a limit: how often it was at the limit, how many of its processes were killed,
/// how long tasks waited for memory (PSI), and the counters of its `memory.stat`.
fn limit_rows(limit: &Limit, elapsed_s: f64) -> Vec<Row> {
    let row = |name: &str, unit: &str, value: u64| {
        Row::new("cgroup", name, unit, Better::Lower, Format::Decimals(0), value as f64)
    };
    let kills = limit.cgroup.kills().map(|kills| row("Processes killed", "processes", kills));
    let times = limit.cgroup.times_at_limit().map(|times| row("Times at the limit", "times", times));
    let stat = limit.cgroup.stat();
    let own = OF_CGROUP
        .iter()
        .filter_map(|(name, unit)| Some(row(&format!("{name} of the cgroup"), unit, *stat.get(*name)?)));
    let stalled = limit.cgroup.pressure().map(|text| stalled(&text)).filter(|_| elapsed_s > 0.0);
    let waited = stalled.iter().flat_map(|it| [("some", it.some_us), ("full", it.full_us)]).map(|(who, us)| {
        let share = (us as f64 / 1e4 / elapsed_s).min(100.0);
        Row::new(
            "cgroup",
            format!("memory {who} of the cgroup"),
            "% of the time",
            Better::Lower,
            Format::Decimals(2),
            share,
        )
    });
    kills.into_iter().chain(times).chain(own).chain(waited).collect()
}

fn table(title: &str, rows: Vec<Row>) -> Table {
    let kernel = format!("linux {}", counters::release());
    let column = Column::new(&kernel, "linux");
    let head = TableHead {
        experiment: title.to_owned(),
        machine: "this computer".into(),
        scale: Scale::FULL,
        seeds: Vec::new(),
        fingerprint: None,
        columns: vec![column],
        notes: Vec::new(),
    };
    Table::of_runs(head, &[vec![rows]], None)
}

pub(super) fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.strip_suffix('s').unwrap_or(text).parse::<f64>() {
        Ok(seconds) if (0.01..=1e8).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds, from 0.01 to 100000000, such as 1 or 0.5s".into()),
    }
}

pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let told = || "expected bytes with K, M or G behind them, such as 512M".to_owned();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match &*unit.to_ascii_uppercase() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        _ => return Err(told()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)).ok_or_else(told)?;
    // A limit must at least have room for the program itself.
    if bytes < 1 << 20 { Err("at least 1M: a program must fit".into()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_a_title_of_one_line() {
        let of = |words: &[&str]| title_of(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["python3", "-c", "\nprint(1)\n"]), "python3 -c print(1)");
        assert_eq!(of(&["é".repeat(200).as_str()]), "é".repeat(100) + "…");
    }

    #[test]
    fn sizes_and_times_are_read() {
        assert_eq!(["512M", "2g", "1048576", "3MiB"].map(|text| parse_bytes(text).unwrap() >> 20), [512, 2048, 1, 3]);
        assert!(["", "M", "12", "1T", "1MIBIB", "99999999999999G"].iter().all(|text| parse_bytes(text).is_err()));
        assert_eq!(parse_seconds("1.5s").unwrap(), Duration::from_millis(1500));
        assert!(["0", "-1", "x", "nan", "1ss"].iter().all(|text| parse_seconds(text).is_err()));
    }
}

//! Output of `top` and `ps aux`: memory and swap from the head of `top`, and the table of processes from both.

use super::{Look, Took, size_kib};

/// A process.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// The process's number.
    pub pid: u64,
    /// The process's name or command.
    pub name: String,
    /// The process's resident memory, KiB.
    pub rss_kib: f64,
    /// The process's share of a CPU, percent; none if there is no such column.
    pub cpu_percent: Option<f64>,
}

/// The output of `top` or `ps`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processes {
    /// The processes, in the order in which `top` or `ps` printed them.
    pub all: Vec<Process>,
    /// Total memory, free memory, and buffers plus cache, KiB.
    pub memory_kib: Option<[f64; 3]>,
    /// Memory available to a new program (`avail Mem`), KiB.
    pub available_kib: Option<f64>,
    /// Total swap and free swap, KiB.
    pub swap_kib: Option<[f64; 2]>,
    /// Time since boot, s.
    pub uptime_s: Option<f64>,
    columns: Option<Columns>,
    has_head: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Columns {
    pid: usize,
    rss: usize,
    cpu: Option<usize>,
    name: usize,
}

/// Returns whether a line is the first line of `top`, or the heading of a table of processes with a column for their
/// memory.
#[must_use]
pub fn begins(line: &str) -> bool {
    is_first_of_top(line) || columns(line).is_some()
}

fn is_first_of_top(line: &str) -> bool {
    line.trim_start().starts_with("top - ") && line.contains("load average")
}

fn columns(line: &str) -> Option<Columns> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = |names: &[&str]| words.iter().position(|word| names.contains(word));
    // The names must be in capitals: the kernel's OOM killer prints a table with a column `pid`.
    let (pid, rss, name) = (at(&["PID"])?, at(&["RES", "RSS"])?, at(&["COMMAND", "CMD"])?);
    (name + 1 == words.len()).then_some(Columns { pid, rss, cpu: at(&["%CPU"]), name })
}

/// Reads a line in the head of `top`: `KiB Mem : 16266448 total, 180508 free, 13012344 used, 3073596 buff/cache`, or
/// from procps 2 `Mem:  16266448k total, 16085940k used, 180508k free, 73596k buffers`. Returns each word after the
/// colon with its size, KiB. Returns none if the word before the colon is not `of`.
fn head<'a>(line: &'a str, of: &str) -> Option<Vec<(&'a str, f64)>> {
    let (what, rest) = line.split_once(':')?;
    let mut words = what.split_whitespace().rev();
    if words.next()? != of {
        return None;
    }
    let bare_kib = match words.next() {
        None | Some("KiB") => 1.0,
        Some("MiB") => 1024.0,
        Some("GiB") => 1024.0 * 1024.0,
        Some("TiB") => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let words: Vec<&str> = rest.split([',', ' ', '\t']).filter(|word| !word.is_empty()).collect();
    // The line has pairs of a number and a word: `16266448 total`, `2575468 avail Mem`. The last word about swap ends
    // with a full stop.
    let pairs = words
        .windows(2)
        .filter_map(|pair| Some((pair[1].trim_end_matches('.'), size_kib(pair[0].trim_end_matches('+'), bare_kib)?)));
    Some(pairs.collect())
}

impl Look for Processes {
    fn take(&mut self, line: &str) -> Took {
        if is_first_of_top(line) {
            if self.has_head || !self.all.is_empty() {
                return Took::Next;
            }
            self.has_head = true;
            self.uptime_s = uptime(line);
            return Took::Yes;
        }
        if let Some(columns) = columns(line) {
            if self.columns.is_some() {
                return Took::Next;
            }
            self.columns = Some(columns);
            return Took::Yes;
        }
        // In some languages numbers have a comma, as in `15885,2 total, …`. Such a comma is recognised because no space
        // follows.
        let of = |pairs: &[(&str, f64)], name: &str| pairs.iter().find(|(word, _)| *word == name).map(|(_, kib)| *kib);
        if let Some(pairs) = head(&decimal_points(line), "Mem") {
            let cache = of(&pairs, "buff/cache").or_else(|| of(&pairs, "buffers"));
            self.memory_kib =
                of(&pairs, "total").zip(of(&pairs, "free")).map(|(total, free)| [total, free, cache.unwrap_or(0.0)]);
            return Took::Yes;
        }
        if let Some(pairs) = head(&decimal_points(line), "Swap") {
            self.swap_kib = of(&pairs, "total").zip(of(&pairs, "free")).map(|(total, free)| [total, free]);
            self.available_kib = of(&pairs, "avail");
            // procps 2 prints the page cache on this line.
            if let (Some(memory), Some(cached)) = (&mut self.memory_kib, of(&pairs, "cached")) {
                memory[2] += cached;
            }
            return Took::Yes;
        }
        let is_head =
            ["Tasks:", "Threads:", "%Cpu", "Cpu(s):", "Cpu"].iter().any(|it| line.trim_start().starts_with(it));
        match self.columns.as_ref().and_then(|columns| process(columns, line)) {
            Some(process) => self.all.push(process),
            None if self.has_head && is_head => {}
            None => return Took::No,
        }
        Took::Yes
    }
}

/// Reads the uptime from the first line of `top`, s: `up 10 days,  3:02,`, `up 1 day, 5 min,`, `up  3:02,`.
fn uptime(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once(" up ")?;
    let mut seconds = None;
    for part in rest.split(',') {
        let words: Vec<&str> = part.split_whitespace().collect();
        let added = match words.as_slice() {
            [days, "day" | "days"] => days.parse::<f64>().ok()? * 86_400.0,
            [minutes, "min" | "mins"] => minutes.parse::<f64>().ok()? * 60.0,
            [clock] => {
                let (hours, minutes) = clock.split_once(':')?;
                hours.parse::<f64>().ok()? * 3600.0 + minutes.parse::<f64>().ok()? * 60.0
            }
            _ => break,
        };
        seconds = Some(seconds.unwrap_or(0.0) + added);
    }
    seconds
}

/// Returns `line` with a point in place of each comma that stands between two digits.
fn decimal_points(line: &str) -> String {
    let bytes = line.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    line.char_indices()
        .map(|(at, c)| if c == ',' && is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)) { '.' } else { c })
        .collect()
}

fn process(columns: &Columns, line: &str) -> Option<Process> {
    let words: Vec<&str> = line.split_whitespace().collect();
    Some(Process {
        pid: words.get(columns.pid)?.parse().ok()?,
        rss_kib: size_kib(words.get(columns.rss)?, 1.0)?,
        cpu_percent: columns.cpu.and_then(|cpu| super::super::number(words.get(cpu)?)),
        name: words.get(columns.name..).filter(|name| !name.is_empty())?.join(" "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_tells_of_memory_swap_and_processes() {
        let text = "top - 10:00:00 up 10 days,  3:02,  2 users,  load average: 9.00, 8.01, 0.05\n\
                    Tasks: 123 total,   1 running, 122 sleeping,   0 stopped,   0 zombie\n\
                    %Cpu(s):  1.0 us,  0.3 sy,  0.0 ni, 98.7 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st\n\
                    MiB Mem :  15885.2 total,    176.3 free,  12707.4 used,   3001.5 buff/cache\n\
                    MiB Swap:   8000.0 total,      0.0 free,   8000.0 used.   2515.1 avail Mem\n\n\
                    \x20   PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n\
                    \x20   812 mysql     20   0   20.1g  11.5g  12345 S  98.7  74.2  99:59.99 mysqld\n\
                    \x20    45 root      20   0       0      0      0 R 100.0   0.0   9:59.99 kswapd0\n";
        let found = Processes::of(text);
        assert_eq!(found.memory_kib.map(|kib| kib.map(f64::round)), Some([16_266_445.0, 180_531.0, 3_073_536.0]));
        assert_eq!(
            (found.swap_kib, found.available_kib.map(f64::round)),
            (Some([8_192_000.0, 0.0]), Some(2_575_462.0))
        );
        let names: Vec<(&str, f64, Option<f64>)> =
            found.all.iter().map(|it| (&*it.name, it.rss_kib, it.cpu_percent)).collect();
        assert_eq!(names, [("mysqld", 12_058_624.0, Some(98.7)), ("kswapd0", 0.0, Some(100.0))]);
        // The same text in a language with decimal commas, and a text with a second screen of the batch mode.
        let german = text.replace('.', ",");
        assert_eq!(Processes::of(&german).memory_kib, found.memory_kib);
        let lines: Vec<String> = text.lines().chain(text.lines()).map(str::to_owned).collect();
        let looks: Vec<Processes> = super::super::all(&lines, |line| line, |line| panic!("{line}"));
        assert_eq!(looks.len(), 2);
    }

    #[test]
    fn older_top_and_ps_are_read() {
        let old = "top - 10:00:00 up 1 day,  2 users,  load average: 0.00, 0.01, 0.05\n\
                   Mem:  16266448k total, 16085940k used,   180508k free,    73596k buffers\n\
                   Swap:  8191996k total,  8191996k used,        0k free,  3000000k cached\n";
        let found = Processes::of(old);
        assert_eq!(
            (found.memory_kib, found.swap_kib),
            (Some([16_266_448.0, 180_508.0, 3_073_596.0]), Some([8_191_996.0, 0.0]))
        );
        let ps = "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n\
                  mysql        812 98.0 74.1 21076764 12058624 ?   Ssl  Nov16 999:59 /usr/sbin/mysqld --defaults-file=/etc/my.cnf\n";
        let found = Processes::of(ps);
        assert_eq!(
            (found.all[0].rss_kib, &*found.all[0].name),
            (12_058_624.0, "/usr/sbin/mysqld --defaults-file=/etc/my.cnf")
        );
        assert!(!begins("[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name"));
    }
}

//! The table of text formats. Each has signs by which it is recognised, and a reader.
//!
//! A text may have several formats: a paste of `free -m`, of `vmstat 1` and of the kernel log, one after the other.
//! [`read`] cleans the text ([`super::text`]), splits it into blocks where a format begins, and reads each block.
//! [`Document::left_out`] names text that belongs to no format. A new format needs a reader and a line in [`ALL`].

use super::format::{Format, Recording, Told};
use super::looks::{self, cgroup_files};
use super::text::{Block, Line, Text};
use super::{atop, collectl, procps, sadf, sar, sysstat, vmstat_disks};
use kit::wrong::Wrong;

/// All formats. If several formats recognise a line as the beginning of a block, the first of these formats is used.
pub const ALL: &[&Format] = &[
    &procps::VMSTAT,
    &procps::SUMS,
    &vmstat_disks::DISKS,
    // The title of `iostat` is that of `sar`, so `iostat` comes first.
    &sysstat::IOSTAT,
    &sar::SAR,
    &sadf::JSON,
    &sadf::LINES,
    &sadf::PAIRS,
    &atop::TEXT,
    &atop::PARSABLE,
    &collectl::PLOT,
    &collectl::TEXT,
    &looks::formats::KERNEL_LOG,
    &looks::formats::MEMINFO,
    &looks::formats::NUMASTAT,
    &looks::formats::VMSTAT_FILE,
    &looks::formats::ZONEINFO,
    &looks::formats::PAGETYPEINFO,
    &looks::formats::BUDDYINFO,
    &looks::formats::SLABS,
    &looks::formats::PRESSURE,
    &looks::formats::CGROUP,
    &looks::formats::FREE,
    &looks::formats::SWAPS,
    &looks::formats::PROCESSES,
    &looks::formats::SYSCTLS,
];

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The name of the file that was read.
    pub file: String,
    /// The contents of the file's blocks (lines in one format each), with the number of each block's first line.
    pub told: Vec<(usize, Told)>,
    /// Parts of the file that were left out, each with the reason.
    pub left_out: Vec<String>,
}

impl Document {
    /// Returns the recordings in the file.
    pub fn recordings(&self) -> impl Iterator<Item = &Recording> {
        self.told.iter().filter_map(|(_, told)| match told {
            Told::Recording(recording) => Some(recording),
            Told::Look(_) => None,
        })
    }
}

/// Reads a text that may have blocks of any formats. `interval_s` is the length of a sample if the text does not
/// state it.
///
/// # Errors
/// When nothing in the text is recognised, or when nothing of what is recognised can be read.
pub fn read(file: &str, text: &str, interval_s: Option<f64>) -> Result<Document, Wrong> {
    let Text { lines, commands, hosts, mut left_out } = Text::of(text);
    let blocks = match cgroup_files::file_name(file) {
        // A file with one number is recognised by the file's name alone. A file of PSI is recognised by its lines
        // instead.
        Some(_) if lines.iter().any(|line| cgroup_files::is_of_one_file(&line.text)) => {
            vec![(&looks::formats::CGROUP, 0)]
        }
        _ => cut(&lines),
    };
    let Some((_, first)) = blocks.first() else {
        return Err(unrecognised(file, &lines));
    };
    lines[..*first].iter().for_each(|line| left_out.line(line));
    let mut told = Vec::new();
    let mut wrong = Vec::new();
    for (n, (format, start)) in blocks.iter().enumerate() {
        let end = blocks.get(n + 1).map_or(lines.len(), |(_, next)| *next);
        let lines = &lines[*start..end];
        match (format.read)(&Block { file, lines, commands: &commands, interval_s }, &mut left_out) {
            Ok(all) => told.extend(all.into_iter().map(|one| (lines[0].number, one))),
            Err(why) => wrong.push((lines[0].number, why)),
        }
    }
    if told.is_empty() {
        return Err(wrong.swap_remove(0).1);
    }
    wrong.into_iter().for_each(|(line, why)| left_out.note(why.line.unwrap_or(line), why.what));
    let mut left_out = left_out.told();
    if hosts.len() > 1 {
        left_out.push(format!("which of the computers {} a text is of: all count as one", hosts.join(", ")));
    }
    Ok(Document { file: file.to_owned(), told, left_out })
}

/// Divides lines into blocks, each of lines in one format. Returns the format of each block, and the index of its first
/// line.
fn cut(lines: &[Line<'_>]) -> Vec<(&'static Format, usize)> {
    let mut blocks: Vec<(&'static Format, usize)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let open = blocks.last().map(|(format, _)| *format);
        if line.is_blank() || open.is_some_and(|format| (format.holds)(&line.text)) {
            continue;
        }
        if let Some(format) = ALL.iter().find(|format| (format.begins)(&lines[at..]))
            && open.is_none_or(|open| open.name != format.name)
        {
            blocks.push((format, at));
        }
    }
    blocks
}

/// A function that returns whether a line belongs to one kind of text, which this program recognises but does not read.
type IsOf = fn(&str) -> bool;

/// Kinds of text that are recognised but not read. Each kind has a function that recognises a line of such a text, and
/// a message for the user.
const KNOWN: &[(IsOf, &str)] = &[
    (
        |line| line.contains("avm") && line.contains("fre") && line.contains("flt"),
        "this is the `vmstat` of a BSD: only that of Linux is read",
    ),
    (
        |line| line.contains("kthr") && line.contains("page"),
        "this is the `vmstat` of AIX or Solaris: only that of Linux is read",
    ),
    (|line| line.contains("avm") && line.contains("fre"), "this is the `vmstat` of AIX: only that of Linux is read"),
    (|line| line.starts_with("Mach Virtual Memory Statistics"), "this is the `vm_stat` of macOS: only Linux is read"),
    (
        |line| line.starts_with("# Overhead") || line.starts_with("# To display the perf.data"),
        "this is a report of `perf`, which tells where time goes, not what memory lacks: it is not read",
    ),
    (|line| line.starts_with("Performance counter stats"), "this is of `perf stat`: it is not read"),
    (
        |line| {
            let lower = line.trim_start().to_ascii_lowercase();
            lower.starts_with("<!doctype html") || lower.starts_with("<html")
        },
        "this is a page for browsers: give the text that it shows",
    ),
    (
        |line| line.trim_start().starts_with("<?xml") || line.contains("<sysstat"),
        "this is XML, as `sadf -x` writes it: `sadf -j FILE -- -A` writes the same as JSON, which is read",
    ),
    (
        |line| line.trim_end().ends_with(" total reads") || line.trim_end().ends_with(" merged reads"),
        "this is `vmstat -D`, which adds up all disks since the start: `vmstat -d 1 10` tells of each over time, and is read",
    ),
    (
        |line| line.contains("read sectors") && line.contains("requested writes"),
        "this is `vmstat -p`, which counts requests of a partition and no times: `vmstat -d 1 10` tells of disks, and is read",
    ),
    (
        |line| line.trim_end().ends_with(" forks"),
        "this is `vmstat -f`, which tells nothing of memory: `vmstat 1` and `vmstat -s` do",
    ),
    (
        |line| line.starts_with("#<") || line.starts_with("#cpu ") || line.starts_with("# CPU"),
        "this is of `collectl` without its columns of memory: `collectl -sm --verbose` has them",
    ),
    (|line| line.starts_with("diff --git ") || line.starts_with("commit "), "this is of git: it is not read"),
    (
        |line| line.contains("usr sys idl wai"),
        "this is of `dstat`, which is not read: `vmstat 1` or `sar -B -W 1` tell the same, and more",
    ),
    (
        |line| is_of_kernel_log(line),
        "this is a kernel log without a report of memory (`… invoked oom-killer`, `page allocation failure`): there is \
         nothing in it to read",
    ),
];

/// Returns whether a line comes from a kernel log: it has a time since boot in brackets, or the name `kernel:`.
fn is_of_kernel_log(line: &str) -> bool {
    let stamped = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let is_stamp =
        |stamp: &str| stamp.trim().split_once('.').is_some_and(|(s, us)| s.parse::<u64>().is_ok() && us.len() == 6);
    stamped.is_some_and(|(stamp, _)| is_stamp(stamp)) || line.contains(" kernel: ")
}

/// If a message shows a line, it shows at most this number of characters.
const SHOWN_CHARS_MAX: usize = 60;

/// Makes the message that nothing in a text is recognised. It guesses what the text is, and lists the formats that were
/// tried.
fn unrecognised(file: &str, lines: &[Line<'_>]) -> Wrong {
    for line in lines {
        if let Some((_, what)) = KNOWN.iter().find(|(is_it, _)| is_it(&line.text)) {
            return Wrong::at(file, line.number - 1, *what);
        }
    }
    let names: Vec<&str> = ALL.iter().map(|format| format.name).collect();
    let expected = format!(
        "expected the JSON of `highwater stat`, `run`, `compare` or `results`, the CSV of their --series, or the text of {}",
        names.join(", ")
    );
    match lines.iter().find(|line| !line.is_blank()) {
        Some(line) => {
            let trimmed = line.text.trim();
            let shown: String = trimmed.chars().take(SHOWN_CHARS_MAX).collect();
            let more = if trimmed.chars().count() > SHOWN_CHARS_MAX { "…" } else { "" };
            Wrong::at(file, line.number - 1, format!("nothing is recognised from `{shown}{more}` on: {expected}"))
        }
        None => Wrong::of(file, format!("it is empty: {expected}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::decode;
    use rand_core::{RngCore as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    const VMSTAT: &str = "\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 2  3 640000  71200   3100 180400   11   14    61    80  230  360  6  3 90  1  0
 1  6 641200  70100   3000 175100 3900 5100  4300  5200 3000 5100  7 11 11 71  0
 2  8 643100  69800   2900 171200 4100 4900  4500  5000 2900 5000  8 12  9 71  0
 1  7 644000  70400   2800 170900 4000 5000  4400  5100 2950 4900  8 11 10 71  0
";

    const SAR: &str = "\
Linux 5.4.0-100-generic (web1) \t11/26/26 \t_x86_64_\t(4 CPU)

10:00:00     pgpgin/s pgpgout/s   fault/s  majflt/s  pgfree/s pgscank/s pgscand/s pgsteal/s    %vmeff
10:00:01      4100.00   5200.00   9000.00    310.00  12000.00   9000.00   4000.00   2000.00     15.38
10:00:02      4300.00   5000.00   9100.00    320.00  12100.00   9100.00   4100.00   2100.00     15.91

Average:      4200.00   5100.00   9050.00    315.00  12050.00   9050.00   4050.00   2050.00     15.65
";

    const IOSTAT: &str = "\
Linux 6.1.0 (web1) \t11/26/26 \t_x86_64_\t(4 CPU)

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           5.00    0.00    2.00   40.00    0.00   53.00

Device            r/s     rkB/s   r_await     w/s     wkB/s   w_await  aqu-sz  %util
sda              1.00      4.00      1.00    2.00      8.00      2.00    0.01   1.00
dm-0             1.00      4.00      1.00    2.00      8.00      2.00    0.01   1.00

Device            r/s     rkB/s   r_await     w/s     wkB/s   w_await  aqu-sz  %util
sda            100.00    400.00     30.00  200.00    800.00    240.00   60.01  99.50
dm-0           100.00    400.00     30.00  200.00    800.00    240.00   60.01  99.50
";

    const DISKS: &str = "\
disk- ------------reads------------ ------------writes----------- -----IO------
       total merged sectors      ms  total merged sectors      ms    cur    sec
sda     1000    200  900000    5000   2000    700  800000    9000      0    500
sdb        0      0       0       0      0      0       0       0      0      0
sda     1100    200  900000    8000   2050    700  800000   19000      3    502
sdb        0      0       0       0      0      0       0       0      0      0
";

    const COLLECTL: &str = "\
waiting for 1 second sample...
#<-----------Memory----------->
#Free Buff Cach Inac Slab  Map
   2G 220M   1G   1G 210M   3G
 512M 220M   1G   1G 210M   3G
";

    struct Random(Xoshiro256PlusPlus);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            (self.0.next_u64() % end as u64) as usize
        }

        fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
            of[self.below(of.len())]
        }
    }

    /// Reads a text, and returns what was found in it, without line numbers.
    fn told(text: &[u8]) -> Vec<Told> {
        let text = decode("f", text.to_vec()).unwrap();
        let document = read("f", &text, None).unwrap_or_else(|wrong| panic!("{wrong}:\n{text}"));
        let mut told: Vec<Told> = document.told.into_iter().map(|(_, told)| told).collect();
        for recording in &mut told {
            if let Told::Recording(recording) = recording {
                recording.samples.iter_mut().for_each(|sample| sample.line = 0);
            }
        }
        told
    }

    /// Lines that may stand before or after a recording, or between its lines.
    const AROUND: [&str; 18] = [
        "me@web1:~$ ls",
        "[root@web1 ~]# ",
        "# free -m",
        "$ dmesg | tail",
        "^C",
        "^Z",
        "```",
        "```text",
        "~~~",
        "{noformat}",
        "[1]+  Stopped                 ./work",
        "This is while it was slow, about five minutes in:",
        "\u{1b}[0m",
        "<pre>",
        "[code]",
        "➜  ~ ",
        "- - - 8< - - -",
        "Thanks in advance!",
    ];

    /// Returns `text` with random changes, as it may be after a user has copied it: lines around it, quote marks, line
    /// numbers, terminal control sequences, and other line ends or encodings.
    fn pasted(text: &str, random: &mut Random) -> Vec<u8> {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for _ in 0..random.below(6) {
            let (at, around) = (random.below(lines.len() + 1), random.one(&AROUND));
            lines.insert(at, around.to_owned());
        }
        match random.below(8) {
            0 => lines.iter_mut().for_each(|line| *line = format!("> {line}")),
            1 => lines.iter_mut().for_each(|line| *line = format!("| {line}")),
            2 => lines.iter_mut().enumerate().for_each(|(n, line)| *line = format!("{:6}\t{line}", n + 1)),
            3 => lines.iter_mut().enumerate().for_each(|(n, line)| *line = format!("{}:{line}", n + 1)),
            4 => lines.iter_mut().for_each(|line| *line = format!("    {line}")),
            5 => {
                lines.insert(0, "Script started on 2026-11-26 10:00:00+00:00 [COMMAND=\"./work\"]".into());
                lines.push("Script done on 2026-11-26 10:00:09+00:00".into());
            }
            _ => {}
        }
        for line in &mut lines {
            match random.below(12) {
                0 => *line = format!("\u{1b}[1;32m{line}\u{1b}[0m"),
                1 => *line = line.replace("  ", "\u{a0}\u{a0}"),
                2 => *line = line.replace("  ", "&nbsp; "),
                3 => line.push_str("   "),
                4 => *line = format!("xyz\u{8}\u{8}\u{8}{line}"),
                _ => {}
            }
        }
        let end = random.one(&["\n", "\r\n", "\n\n"]);
        let mut text = lines.join(end) + end;
        if random.below(4) == 0 {
            text.insert(0, '\u{feff}');
        }
        match random.below(6) {
            0 => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            1 => [0xfe, 0xff].into_iter().chain(text.encode_utf16().flat_map(u16::to_be_bytes)).collect(),
            2 => [text.as_bytes(), &[0; 100]].concat(),
            _ => text.into_bytes(),
        }
    }

    #[test]
    fn what_stands_around_a_recording_changes_nothing_of_it() {
        let others = [(IOSTAT, 800..1000), (DISKS, 1000..1200), (COLLECTL, 1200..1400)];
        for (text, seeds) in [(VMSTAT, 0..400), (SAR, 400..800)].into_iter().chain(others) {
            let expected = told(text.as_bytes());
            for seed in seeds {
                let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(seed));
                let pasted = pasted(text, &mut random);
                assert_eq!(told(&pasted), expected, "seed {seed}:\n{}", String::from_utf8_lossy(&pasted));
            }
        }
    }

    #[test]
    fn no_text_is_too_odd_to_be_read() {
        let odd = [
            "^C", "\u{1b}[", "&#", "<", "[", "{", "10:00:01", "|", "\u{0}", "é", "```", "zzz", "PM", "r b swpd", "-1",
            "1e999", "\t", "\r", "\n",
        ];
        for seed in 0..1000 {
            let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(seed));
            let text = [VMSTAT, SAR, IOSTAT, DISKS, COLLECTL][seed as usize % 5];
            let mut bytes = pasted(text, &mut random);
            for _ in 0..random.below(30) {
                let (at, word) = (random.below(bytes.len() + 1), random.one(&odd));
                let end = (at + random.below(40)).min(bytes.len());
                bytes.splice(at..end, word.bytes());
            }
            // Bytes may be decoded to a text that is not recognised.
            if let Ok(text) = decode("f", bytes) {
                let _ = read("f", &text, Some(1.0));
            }
        }
    }

    #[test]
    fn prompts_of_several_computers_are_told() {
        let free = "       total  used  free  shared  buff/cache  available\nMem:  7821  7602  96  4  122  41\n";
        let of = |second: &str| {
            let text = format!("root@a:~# free -m\n{free}root@{second}:~# free -m\n{free}");
            read("f", &text, None).unwrap().left_out
        };
        assert_eq!(of("b"), ["lines 1, 4 (prompt)", "which of the computers a, b a text is of: all count as one"]);
        assert_eq!(of("a"), ["lines 1, 4 (prompt)"]);
    }

    #[test]
    fn several_formats_in_one_text_are_each_read() {
        let text = format!("$ vmstat 1 4\n{VMSTAT}\nAnd this is sar:\n$ sar -B 1 2\n{SAR}\nThanks!\n");
        let document = read("f", &text, None).unwrap();
        let tools: Vec<&str> = document.recordings().map(|it| it.tool).collect();
        assert_eq!(tools, ["vmstat", "sar"]);
        assert_eq!(document.left_out, ["lines 1, 10 (prompt)", "lines 9, 19 (a note)"]);
    }

    #[test]
    fn what_is_not_recognised_is_named() {
        let wrong = |text: &str| read("f", text, None).unwrap_err().to_string();
        for (text, what) in [
            (
                " procs     memory       page                    disks     faults       cpu\n r b w     avm     fre  flt  re  pi  po    fr   sr ad0 ad1   in    sy    cs us sy id\n",
                "of a BSD",
            ),
            (
                "kthr    memory              page              faults        cpu\n r  b   avm   fre  re  pi  po  fr   sr  cy  in   sy  cs us sy id wa\n",
                "of AIX",
            ),
            ("Mach Virtual Memory Statistics: (page size of 16384 bytes)\n", "of macOS"),
            (
                "[    0.000000] Linux version 6.1\n[    1.000000] usb 1-1: new device\n",
                "f:1: this is a kernel log without a report of memory",
            ),
            ("Nov 26 10:00:00 web1 kernel: usb 1-1: new device\n", "this is a kernel log"),
            (
                "<?xml version=\"1.0\"?>\n<!DOCTYPE sysstat>\n<sysstat>\n",
                "`sadf -j FILE -- -A` writes the same as JSON",
            ),
            ("           26 disks \n            2 partitions \n       524364 total reads\n", "this is `vmstat -D`"),
            ("sda1          reads   read sectors  writes    requested writes\n 1 2 3 4\n", "this is `vmstat -p`"),
            ("     12345 forks\n", "this is `vmstat -f`"),
            (
                "#<--------CPU--------><----------Disks----------->\n#cpu sys inter  ctxsw KBRead  Reads KBWrit Writes\n   0   0   1 2 0 0 0 0\n",
                "`collectl -sm --verbose`",
            ),
            ("<!DOCTYPE html>\n<html>", "a page for browsers"),
            ("", "f: it is empty: expected the JSON"),
            ("[root@web1 ~]# uptime\n", "f: it is empty"),
            ("\nhello\n", "f:2: nothing is recognised from `hello` on: expected the JSON"),
        ] {
            assert!(wrong(text).contains(what), "{text}: {}", wrong(text));
        }
    }
}

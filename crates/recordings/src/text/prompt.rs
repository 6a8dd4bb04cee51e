//! Lines of a terminal that are not output: prompts, commands, `^C`, and lines that `script` and `watch` add.

/// A line of a terminal that is not output of a tool, such as a prompt with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The kind of line.
    pub what: &'static str,
    /// The command that was typed in this line, if any.
    pub command: Option<String>,
}

/// Tools whose output is read, and commands that may precede them.
const TOOLS: [&str; 29] = [
    "vmstat",
    "sar",
    "sadf",
    "iostat",
    "mpstat",
    "pidstat",
    "free",
    "top",
    "htop",
    "atop",
    "collectl",
    "dmesg",
    "journalctl",
    "cat",
    "zcat",
    "head",
    "tail",
    "grep",
    "slabtop",
    "numactl",
    "numastat",
    "watch",
    "sudo",
    "swapon",
    "sysctl",
    "uptime",
    "uname",
    "script",
    "nmon",
];

/// Shell commands that are not in [`TOOLS`], and that are recognised only after a prompt.
const OTHERS: [&str; 38] = [
    "ls",
    "cd",
    "ps",
    "ssh",
    "su",
    "exit",
    "logout",
    "clear",
    "echo",
    "date",
    "for",
    "while",
    "time",
    "timeout",
    "env",
    "export",
    "docker",
    "podman",
    "kubectl",
    "systemctl",
    "nproc",
    "lscpu",
    "lsmem",
    "df",
    "mount",
    "zramctl",
    "perf",
    "crash",
    "history",
    "bash",
    "sh",
    "less",
    "more",
    "awk",
    "sed",
    "tee",
    "nohup",
    "exec",
];

/// Characters that end a prompt.
const ENDS: [char; 10] = ['$', '#', '%', '>', '❯', '»', '›', 'λ', '➜', '▶'];

/// Characters that stand at the beginning of prompts and of no other lines.
const BEGINS: [char; 9] = ['➜', '❯', 'λ', '»', '▶', '┌', '╭', '└', '╰'];

/// Largest number of characters that a prompt has before the command.
const PROMPT_CHARS_MAX: usize = 80;

/// Returns the computer that a prompt names, as in `root@web1:~#` or `[root@web1 ~]#`; none if it names none.
#[must_use]
pub fn host(line: &str) -> Option<&str> {
    let prompt = line.split(ENDS).next()?;
    let (_, rest) = prompt.split_once('@')?;
    let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '-' || letter == '.'));
    Some(&rest[..end.unwrap_or(rest.len())]).filter(|host| !host.is_empty())
}

/// Recognises a line that is not output of a tool, such as a prompt with a command. Returns none for any other line.
#[must_use]
pub fn of(line: &str) -> Option<Prompt> {
    let line = line.trim();
    let told = |what, command: Option<&str>| Some(Prompt { what, command: command.map(str::to_owned) });
    // The heading of `collectl` begins and ends with characters of prompts, and so does the name that `tail` writes
    // above a file of `/proc/sys`.
    if line.is_empty() || line.starts_with("#<") || line.starts_with("==> /proc/sys/") || is_of_trace(line) {
        return None;
    }
    if let Some(rest) = behind_interrupts(line) {
        return of(rest).or_else(|| told("^C", None)).filter(|_| rest.is_empty() || of(rest).is_some());
    }
    if line.starts_with("Script started") || line.starts_with("Script done") {
        let command = line.split_once("COMMAND=\"").and_then(|(_, rest)| rest.split('"').next());
        return told("script", command);
    }
    if let Some((_, rest)) = line.strip_prefix("Every ").and_then(|rest| rest.split_once("s: ")) {
        return told("watch", rest.split("  ").next());
    }
    if is_job(line) {
        return told("shell", None);
    }
    if let Some(command) = behind_prompt(line) {
        return told("prompt", Some(command).filter(|command| !command.is_empty()));
    }
    is_bare_command(line).then(|| Prompt { what: "command", command: Some(line.to_owned()) })
}

/// Returns whether a line is a mark within a call trace of the kernel, such as ` <TASK>` or ` </IRQ>`.
fn is_of_trace(line: &str) -> bool {
    const MARKS: [&str; 8] = ["TASK", "IRQ", "NMI", "EOI", "SOFTIRQ", "HARDIRQ", "ENTRY_TRAMPOLINE", "EOE"];
    let last = line.split_whitespace().last().unwrap_or(line);
    let mark = last.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    mark.is_some_and(|mark| MARKS.contains(&mark.trim_start_matches('/')))
}

/// Returns whether a command line runs a tool.
#[must_use]
pub fn calls(command: &str, tool: &str) -> bool {
    command.split(|c: char| c.is_whitespace() || "`'\"();|&".contains(c)).any(|word| base(word) == tool)
}

/// Returns the command of `vmstat` or `sar` at the end of a line of prose: `vmstat -S M 5` for `this is vmstat -S M
/// 5:`. Only options, single letters and numbers may follow the tool's name. For a line that `head` or `tail` prints
/// above a file, such as `==> /proc/pressure/memory <==`, returns the path.
#[must_use]
pub fn mentioned(line: &str) -> Option<String> {
    if let Some(path) = line.trim().strip_prefix("==> ").and_then(|rest| rest.strip_suffix(" <==")) {
        return Some(path.to_owned());
    }
    let at = ["vmstat ", "sar "].iter().find_map(|tool| line.find(tool))?;
    let is_start = line[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '/');
    let command = line[at..].trim_end_matches(|c: char| c.is_whitespace() || "`'\":.,;)*".contains(c));
    let is_argument =
        |word: &str| word.len() == 1 || word.starts_with('-') || word.bytes().all(|byte| byte.is_ascii_digit());
    (is_start && command.split_whitespace().skip(1).all(is_argument)).then(|| command.to_owned())
}

/// Returns the name of a program without its folder.
fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns the rest of a line after `^C` and similar marks at its start; none if there are no marks.
fn behind_interrupts(line: &str) -> Option<&str> {
    let mut rest = line;
    while let Some(behind) = ["^C", "^Z", "^D", "^\\", "^X", "^S", "^Q"].iter().find_map(|key| rest.strip_prefix(key)) {
        rest = behind.trim_start();
    }
    (rest.len() < line.len()).then_some(rest)
}

/// Returns a line without `^C` and similar marks at its end.
#[must_use]
pub fn without_interrupt(line: &str) -> &str {
    let trimmed = line.trim_end();
    ["^C", "^Z", "^D", "^\\"].iter().find_map(|key| trimmed.strip_suffix(key)).unwrap_or(line)
}

/// Returns whether a line is a shell's message about a job, such as `[1]+  Stopped   vmstat 1`.
fn is_job(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_number = |word: &str| {
        word.strip_prefix('[').is_some_and(|rest| {
            let digits = rest.trim_end_matches(['+', '-', ']']);
            digits.len() < rest.len() && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let states = ["Stopped", "Done", "Running", "Terminated", "Killed", "Exit", "Interrupt", "suspended", "+", "-"];
    match words.as_slice() {
        [job, number] => is_number(job) && number.bytes().all(|byte| byte.is_ascii_digit()),
        [job, state, ..] => is_number(job) && states.contains(state),
        _ => false,
    }
}

fn is_command(word: &str) -> bool {
    let is_variable = word
        .split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
    let is_path = word.starts_with("./") || (word.starts_with('/') && word.len() > 1);
    is_variable || is_path || TOOLS.contains(&base(word)) || OTHERS.contains(&base(word))
}

/// Returns the words after a prompt; empty if nothing was typed. Returns none if the line has no prompt.
fn behind_prompt(line: &str) -> Option<&str> {
    if line.starts_with(BEGINS) {
        let at = line
            .match_indices(' ')
            .map(|(at, _)| at + 1)
            .find(|at| line[*at..].split(' ').next().is_some_and(is_command));
        return Some(at.map_or("", |at| &line[at..]));
    }
    if let Some(command) = line.strip_prefix("$ ") {
        return Some(command.trim());
    }
    if is_of_user(line) {
        return behind_end(line);
    }
    // Whatever the prompt is, a known command may follow the character that ends it.
    for (at, end) in line.char_indices().take(PROMPT_CHARS_MAX).filter(|(_, c)| ENDS.contains(c)) {
        let rest = line[at + end.len_utf8()..].trim_start();
        if rest.split_whitespace().next().is_some_and(is_command) {
            return Some(rest);
        }
    }
    // The line may be a prompt after which nothing was typed.
    let before = line.strip_suffix(ENDS)?;
    let is_short = line.chars().count() <= PROMPT_CHARS_MAX;
    (is_short && (before.is_empty() || !before.contains(char::is_whitespace) || before.contains(['~', '/'])))
        .then_some("")
}

/// Returns whether a line begins with the names of a user and of a computer, such as `root@web1`. A time, a bracket or
/// the name of a Python environment, such as `(base)`, may come first.
fn is_of_user(line: &str) -> bool {
    for word in line.split_whitespace() {
        let name = word.trim_start_matches('[');
        if let Some((user, host)) = name.split_once('@') {
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '\\');
            return !user.is_empty() && user.chars().all(is_name) && host.starts_with(is_name);
        }
        let is_time = word.contains(':') && word.chars().all(|c| c.is_ascii_digit() || ":.[]()".contains(c));
        let is_environment = word.starts_with('(') && word.ends_with(')');
        if !is_time && !is_environment {
            return false;
        }
    }
    false
}

/// Returns the part of a line after a prompt with a user's name, such as `user@host$`; none if the line has no such
/// prompt.
fn behind_end(line: &str) -> Option<&str> {
    let at = line.find('@')?;
    let is_end = |(_, c): &(usize, char)| ENDS.contains(c);
    let (end, c) = line[at..].char_indices().take(PROMPT_CHARS_MAX).filter(is_end).find(|(end, c)| {
        let rest = &line[at + end + c.len_utf8()..];
        rest.is_empty() || rest.starts_with(' ')
    })?;
    Some(line[at + end + c.len_utf8()..].trim())
}

/// Returns whether a line is a command without a prompt. A tool must stand alone or with options: `top - 10:00:00 up …`
/// is no command.
fn is_bare_command(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let Some(first) = words.next().filter(|word| TOOLS.contains(&base(word))) else {
        return false;
    };
    match words.next() {
        None => true,
        Some("-") => false,
        Some(second) if ["sudo", "watch", "script"].contains(&first) => is_command(second) || second.starts_with('-'),
        Some(second) if ["free", "top", "uptime"].contains(&first) => second.starts_with('-'),
        Some(second) => second.starts_with(['-', '/', '|']) || second.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_may_name_its_computer() {
        for (line, name) in [
            ("root@web1:~# free -m", Some("web1")),
            ("[root@db-2.example ~]$ mail a@b", Some("db-2.example")),
            ("$ ssh root@web1", None),
            ("~ $ free", None),
            ("root@# free", None),
        ] {
            assert_eq!(host(line), name, "{line}");
        }
    }

    #[test]
    fn marks_of_a_call_trace_are_no_prompts() {
        for line in
            ["[ 7712.402125]  <TASK>", "[ 7712.402150]  </TASK>", " </TASK>", "Nov 26 10:00:00 h kernel:  <IRQ>"]
        {
            assert_eq!(of(line), None, "{line}");
        }
        assert!(of("me@host ~>").is_some());
    }

    #[test]
    fn prompts_of_many_shells_are_recognised() {
        for line in [
            "admin@web1:~$ vmstat 1",
            "[root@web1 ~]# vmstat 1",
            "root@h:/var/log# vmstat 1",
            "# vmstat 1",
            "$ vmstat 1",
            "% vmstat 1",
            "> vmstat 1",
            "web1:~ # vmstat 1",
            "/ # vmstat 1",
            "bash-5.1# vmstat 1",
            "-sh-4.2$ vmstat 1",
            "host% vmstat 1",
            "(base) me@host:~$ vmstat 1",
            "[10:00:01] me@host:~$ vmstat 1",
            "10:00:01 me@host ~ $ vmstat 1",
            "me@host ~> vmstat 1",
            "me@MacBook-Pro ~ % vmstat 1",
            "➜  ~ vmstat 1",
            "➜  src git:(main) ✗ vmstat 1",
            "❯ vmstat 1",
            "└─$ vmstat 1",
            "^C[root@web1 ~]# vmstat 1",
            "PS C:\\Users\\me> vmstat 1",
            "vmstat 1",
            "Script started on 2026-11-26 10:00:00+00:00 [COMMAND=\"vmstat 1\"]",
            "Every 2.0s: vmstat 1        web1: Thu Nov 26 10:00:00 2026",
        ] {
            assert_eq!(of(line).and_then(|it| it.command).as_deref(), Some("vmstat 1"), "{line}");
        }
        for line in [
            "[root@web1 ~]# ",
            "$",
            "#",
            "admin@web1:~$",
            "^C",
            "^Z",
            "^C^C",
            "web1:~ #",
            "[1]+  Stopped     vmstat 1",
            "┌──(me㉿kali)-[~]",
            "Script done on 2026",
        ] {
            assert_eq!(of(line).map(|it| it.command), Some(None), "{line}");
        }
    }

    #[test]
    fn output_is_no_prompt() {
        for line in [
            "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----",
            " 1  6 641200  70100   3000 175100 3900 5100  4300  5200 3000 5100  7 11 11 71  0",
            "top - 10:00:01 up 10 days,  1:02,  2 users,  load average: 0.00, 0.01, 0.05",
            "[ 1201.402113] worker invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            "[    0.000000] PPS API <giometti@linux.it>",
            "# hostname;interval;timestamp;pgpgin/s",
            "# name            <active_objs> <num_objs> <objsize>",
            "#Date Time [MEM]Tot [MEM]Used",
            "# MEMORY SUMMARY",
            "#<-----------Memory----------->",
            "==> /proc/sys/vm/swappiness <==",
            "%Cpu(s):  1.0 us,  0.5 sy",
            "10:00:00        CPU     %user     %nice   %system",
            "Average:     pswpin/s pswpout/s",
            "Linux 6.1.0-18-amd64 (web1) \t11/26/26 \t_x86_64_\t(4 CPU)",
            "free:915900 free_pcp:60 free_cma:128300",
            "",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn a_key_typed_behind_a_line_is_taken_away() {
        assert_eq!(without_interrupt("1 2 3^C "), "1 2 3");
        assert_eq!(without_interrupt("1 2 3"), "1 2 3");
    }

    #[test]
    fn the_tool_of_a_command_is_known() {
        assert!(calls("sudo /usr/bin/vmstat 1 | tee log", "vmstat") && calls("sh -c 'vmstat 1'", "vmstat"));
        assert!(!calls("cat /proc/vmstat.old", "vmstat"));
    }
}

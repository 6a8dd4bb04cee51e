//! The formats of texts that describe one moment, such as `/proc/meminfo`. Each is an entry of the table of formats.

use super::{
    Buddyinfo, CgroupFiles, Free, Look, Meminfo, Numastat, Pagetypeinfo, Pressure, Processes, Resource, Slabs, Swaps,
    Sysctls, Told, Took, VmstatFile, Zoneinfo, all, buddyinfo, cgroup_files, free, meminfo, numastat, pressure,
    processes, slabs, swaps, sysctls, vmstat_file, zoneinfo,
};
use crate::format::{self, Format, Recording};
use crate::text::{Block, LeftOut, Line};
use crate::{Figures, Sample, kernel_log, procps, since};
use kit::wrong::Wrong;

/// The format of a kernel log.
pub const KERNEL_LOG: Format = Format {
    name: "the kernel log (dmesg, journalctl -k)",
    how: "a line of a report of memory, such as `invoked oom-killer` or `page allocation failure`",
    begins: |lines| {
        // A mail program may have wrapped the first line.
        let is_wrapped = |next: &Line<'_>| {
            kernel_log::line::has_time(&lines[0].text)
                && !kernel_log::tells(&next.text)
                && kernel_log::tells(&format!("{} {}", lines[0].text.trim_end(), next.text.trim_start()))
        };
        // `kubectl describe` names a container above the line with its ID; what was killed comes later.
        let is_of_container = |next: &Line<'_>| {
            lines[0].text.trim_end().ends_with(':') && next.text.trim_start().starts_with("Container ID:")
        };
        kernel_log::tells(&lines[0].text) || lines.get(1).is_some_and(|next| is_wrapped(next) || is_of_container(next))
    },
    holds: kernel_log::holds,
    read: |block, _| {
        let log = kernel_log::read_lines(block.lines.iter().map(|line| (line.number, &*line.text)));
        Ok(vec![format::Told::Look(Told::Log(log))])
    },
};

/// The format of `/proc/meminfo`.
pub const MEMINFO: Format = Format {
    name: "/proc/meminfo",
    how: "a line `MemTotal: N kB`",
    begins: |lines| {
        let words = |line: &Line<'_>| procps::is_of_archive(&line.words());
        let first = || lines.iter().filter(|line| !line.is_blank()).find(|line| !words(line));
        meminfo::begins(&lines[0].text) || words(&lines[0]) && first().is_some_and(|line| meminfo::begins(&line.text))
    },
    holds: takes::<Meminfo>,
    read: |block, left_out| {
        let figures = |look: &Meminfo| look.values.iter().map(|(name, kib)| (name.clone(), *kib as f64)).collect();
        match over_time(block, left_out, COPIES_OF_MEMINFO, &figures) {
            Some(recording) => Ok(vec![format::Told::Recording(recording)]),
            None => read(block, left_out, Told::Meminfo),
        }
    },
};

/// The format of `numastat -m`.
pub const NUMASTAT: Format = Format {
    name: "numastat -m",
    how: "a title `Per-node system memory usage`, or a heading `Node 0 Node 1 Total` above `MemTotal`",
    begins: |lines| numastat::begins(&mut texts(lines)),
    holds: numastat::holds,
    read: |block, left_out| read(block, left_out, |look: Numastat| Told::Meminfo(look.meminfo)),
};

/// The format of `/proc/vmstat`.
pub const VMSTAT_FILE: Format = Format {
    name: "/proc/vmstat",
    how: "lines of a name and a number, such as `pgscan_kswapd N`",
    begins: |lines| vmstat_file::begins(&mut texts(lines)),
    holds: vmstat_file::holds,
    read: |block, left_out| {
        let figures = |VmstatFile(counters): &VmstatFile| {
            counters.iter().map(|(name, value)| (name.clone(), *value as f64)).collect()
        };
        match over_time(block, left_out, COPIES_OF_VMSTAT, &figures) {
            Some(recording) => Ok(vec![format::Told::Recording(recording)]),
            None => read(block, left_out, Told::Vmstat),
        }
    },
};

/// The format of `/proc/zoneinfo`.
pub const ZONEINFO: Format = Format {
    name: "/proc/zoneinfo",
    how: "a line `Node 0, zone Normal`",
    begins: |lines| zoneinfo::begins(&lines[0].text),
    // Newer kernels count reclaim by node, so indented lines may have names of `/proc/vmstat`.
    holds: |line| line.starts_with([' ', '\t']) || takes::<Zoneinfo>(line),
    read: |block, left_out| read(block, left_out, Told::Zoneinfo),
};

/// The format of `/proc/buddyinfo`.
pub const BUDDYINFO: Format = Format {
    name: "/proc/buddyinfo",
    how: "a line `Node 0, zone Normal` with numbers of free blocks behind it",
    begins: |lines| buddyinfo::begins(&lines[0].text),
    holds: takes::<Buddyinfo>,
    read: |block, left_out| read(block, left_out, Told::Buddyinfo),
};

/// The format of `/proc/pagetypeinfo`.
pub const PAGETYPEINFO: Format = Format {
    name: "/proc/pagetypeinfo",
    how: "a line `Node 0, zone Normal, type Movable` with numbers of free blocks behind it",
    begins: |lines| buddyinfo::begins_types(&lines[0].text),
    holds: buddyinfo::holds_types,
    read: |block, left_out| read(block, left_out, |look: Pagetypeinfo| Told::Buddyinfo(look.blocks)),
};

/// The format of `slabtop` and `/proc/slabinfo`.
pub const SLABS: Format = Format {
    name: "slabtop, vmstat -m, /proc/slabinfo",
    how: "a heading `OBJS ACTIVE USE …`, `Cache Num Total Size Pages` or `# name <active_objs> …`",
    begins: |lines| slabs::begins(&lines[0].text),
    holds: takes::<Slabs>,
    read: |block, left_out| read(block, left_out, Told::Slabs),
};

/// The format of files with PSI, such as `/proc/pressure/memory`.
pub const PRESSURE: Format = Format {
    name: "/proc/pressure/memory",
    how: "lines `some avg10=… total=…` and `full …`; the name of the file or a command tells whose",
    begins: |lines| {
        let is_psi = |line: &Line<'_>| pressure::begins(&line.text) || pressure::named(&line.text).is_some();
        let next = || lines[1..].iter().find(|line| !line.is_blank());
        is_psi(&lines[0]) || pressure::heading(&lines[0].text).is_some() && next().is_some_and(is_psi)
    },
    holds: |line| takes::<Pressure>(line) || pressure::named(line).is_some() || pressure::heading(line).is_some(),
    read: |block, left_out| {
        let figures = |look: &Pressure| {
            let of = |name: &str, stalls: Option<pressure::Stalls>| Some((name.to_owned(), stalls?.total_us as f64));
            of("some", look.some).into_iter().chain(of("full", look.full)).collect()
        };
        let is_of_memory = Resource::of_path(block.file).is_none_or(|it| it == Resource::Memory);
        let is_of_commands = !block.commands.is_empty();
        if is_of_memory
            && !is_of_commands
            && let Some(recording) = over_time(block, left_out, COPIES_OF_PRESSURE, &figures)
        {
            return Ok(vec![format::Told::Recording(recording)]);
        }
        let mut files = PressureFiles::of(block);
        for line in block.lines.iter().filter(|line| !line.is_blank()) {
            if !files.take(line) {
                left_out.line(line);
            }
        }
        Ok(files.told())
    },
};

/// The format of files of a memory cgroup.
pub const CGROUP: Format = Format {
    name: "memory.stat, memory.events and other files of a cgroup",
    how: "the name of such a file, before its lines, above them, or of the file itself; or the first names within",
    begins: |lines| cgroup_files::begins(&mut texts(lines)),
    holds: cgroup_files::holds,
    read: read_cgroup,
};

/// The format of `free`.
pub const FREE: Format = Format {
    name: "free",
    how: "a heading `total used free shared buff/cache available`, in any language",
    begins: |lines| free::begins(&lines[0].text),
    holds: takes::<Free>,
    read: |block, left_out| {
        let unit = block.last_command(first(block)).and_then(free::Unit::of_command);
        read(block, left_out, |look| Told::Free(look, unit))
    },
};

/// The format of `/proc/swaps` and `swapon`.
pub const SWAPS: Format = Format {
    name: "/proc/swaps, swapon",
    how: "a heading `Filename Type Size Used Priority`",
    begins: |lines| swaps::begins(&lines[0].text),
    holds: takes::<Swaps>,
    read: |block, left_out| read(block, left_out, Told::Swaps),
};

/// The format of `top` and `ps`.
pub const PROCESSES: Format = Format {
    name: "top, ps",
    how: "a line `top - … load average: …`, or a heading with PID, RES or RSS, and COMMAND",
    begins: |lines| processes::begins(&lines[0].text),
    holds: takes::<Processes>,
    read: |block, left_out| read(block, left_out, Told::Processes),
};

/// The format of `sysctl`.
pub const SYSCTLS: Format = Format {
    name: "sysctl",
    how: "a line `vm.NAME = VALUE`, or `/proc/sys/vm/NAME:VALUE`",
    begins: |lines| sysctls::begins(&lines[0].text),
    holds: takes::<Sysctls>,
    read: |block, left_out| read(block, left_out, Told::Sysctls),
};

/// The name under which a loop that printed the time and `/proc/vmstat` is a recording.
pub const COPIES_OF_VMSTAT: &str = "copies of /proc/vmstat";

/// The name under which a loop that printed the time and `/proc/pressure/memory` is a recording.
pub const COPIES_OF_PRESSURE: &str = "copies of /proc/pressure/memory";

/// The name under which a loop or an archive that printed the time and `/proc/meminfo` is a recording.
pub const COPIES_OF_MEMINFO: &str = "copies of /proc/meminfo";

/// Smallest number of copies of a text, each below a time, that are a recording.
const COPIES_MIN: usize = 3;

/// Reads the output of a loop such as `while sleep 10; do date; cat /proc/vmstat; done` as a recording: each copy of the
/// text is a sample, with the figures that the copy has. The first sample has no length. Returns none if the block has
/// few copies, or if times do not stand above them; no line is then noted as left out. Where the time above the first copy
/// is not in the block, the first interval is taken to be as long as the second.
fn over_time<L: Look>(
    block: &Block<'_>,
    left_out: &mut LeftOut,
    tool: &'static str,
    figures: &dyn Fn(&L) -> Vec<(String, f64)>,
) -> Option<Recording> {
    let mut copies: Vec<(usize, Option<f64>, L)> = Vec::new();
    let (mut clock, mut others) = (None, Vec::new());
    for line in block.lines.iter().filter(|line| !line.is_blank()) {
        if let Some(now) = procps::clock_of(&line.words()) {
            clock = Some(now);
            continue;
        }
        let last = copies.last_mut().filter(|_| clock.is_none());
        let mut took = last.map_or(Took::Next, |(.., look)| look.take(&line.text));
        if took == Took::Next {
            let mut look = L::default();
            took = look.take(&line.text);
            if took == Took::Yes {
                copies.push((line.number, clock.take(), look));
            }
        }
        if took != Took::Yes && !procps::is_of_archive(&line.words()) {
            others.push(line);
        }
    }
    let clocks: Vec<f64> = copies.iter().skip(1).map(|(_, clock, _)| *clock).collect::<Option<_>>()?;
    if copies.len() < COPIES_MIN {
        return None;
    }
    let lengths: Vec<f64> = clocks.windows(2).map(|pair| since(pair[0], pair[1])).collect::<Option<_>>()?;
    let first = copies[0].1.and_then(|first| since(first, clocks[0])).or(lengths.first().copied())?;
    let lengths: Vec<f64> = [0.0, first].into_iter().chain(lengths).collect();
    if lengths[1..].iter().any(|seconds| *seconds <= 0.0) {
        return None;
    }
    others.into_iter().for_each(|line| left_out.line(line));
    let mut at_s = clocks[0] - lengths[1];
    let samples = copies.iter().zip(lengths).map(|((line, _, look), seconds)| {
        at_s += seconds;
        Sample { seconds, at_s: Some(at_s), line: *line, values: Figures::of(figures(look)) }
    });
    Some(Recording { tool, samples: samples.collect(), has_times: true, ..Recording::default() })
}

fn texts<'l>(lines: &'l [Line<'_>]) -> impl Iterator<Item = &'l str> {
    lines.iter().map(|line| &*line.text)
}

/// Returns whether a line can belong to a text that the reader `L` reads, as its first line or a later one.
fn takes<L: Look>(line: &str) -> bool {
    L::default().take(line) == Took::Yes
}

fn first(block: &Block<'_>) -> usize {
    block.lines.first().map_or(0, |line| line.number)
}

fn read<L: Look>(
    block: &Block<'_>,
    left_out: &mut LeftOut,
    told: impl Fn(L) -> Told,
) -> Result<Vec<format::Told>, Wrong> {
    let looks = all(block.lines, |line| &line.text, |line| left_out.line(line));
    Ok(looks.into_iter().map(|look| format::Told::Look(told(look))).collect())
}

/// Reads texts of files of cgroups. If a line does not show which cgroup file it is from, the command before the line
/// or the name of the input file may show this. Also reads pressure (PSI) that is from no file of a cgroup.
fn read_cgroup(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Vec<format::Told>, Wrong> {
    let mut look = CgroupFiles::default();
    let mut told = Vec::new();
    let mut stalls = PressureFiles::of(block);
    let mut last_command = block.last_command(first(block));
    let of_command = last_command.and_then(|command| command.split_whitespace().last());
    let names = of_command.into_iter().chain([block.file]);
    if let Some(path) = names.into_iter().find(|path| cgroup_files::file_name(path).is_some()) {
        look.begin_file(path);
    }
    for line in block.lines {
        let command = block.last_command(line.number);
        if command != last_command {
            last_command = command;
            let path = command.and_then(file_of_command).unwrap_or("another file");
            let heading = format!("==> {path} <==");
            if look.take(&heading) == Took::Next {
                told.push(format::Told::Look(Told::Cgroup(std::mem::take(&mut look))));
                look.take(&heading);
            }
        }
        let mut took = look.take(&line.text);
        if took == Took::Next {
            told.push(format::Told::Look(Told::Cgroup(std::mem::take(&mut look))));
            took = look.take(&line.text);
        }
        match took {
            Took::Yes => {}
            Took::No if stalls.take(line) => {}
            Took::No | Took::Next => left_out.line(line),
        }
    }
    told.extend(stalls.told());
    told.push(format::Told::Look(Told::Cgroup(look)));
    Ok(told)
}

/// The files of PSI in a block of text. The resource of each is told by a path before its lines or above them, by the
/// command that printed it, or by the name of the input file.
struct PressureFiles<'b> {
    block: &'b Block<'b>,
    /// The last command before the lines that are read.
    command: Option<&'b str>,
    /// The resource of the last heading, such as `==> /proc/pressure/io <==`, since the last command.
    heading: Option<Resource>,
    /// The files that were read, each with the resource that a path names.
    found: Vec<(Option<Resource>, Pressure)>,
    /// Number of the files in `found` that the last command did not print.
    before: usize,
    /// True if the next line belongs to another file than the last one did.
    is_at_end: bool,
}

impl<'b> PressureFiles<'b> {
    fn of(block: &'b Block<'b>) -> Self {
        Self { block, command: None, heading: None, found: Vec::new(), before: 0, is_at_end: true }
    }

    /// Takes a line. Returns whether it belongs to a file of PSI.
    fn take(&mut self, line: &Line<'_>) -> bool {
        let command = self.block.last_command(line.number);
        if command != self.command {
            self.end_command();
            (self.command, self.heading, self.is_at_end) = (command, None, true);
        }
        if let Some(resource) = pressure::heading(&line.text) {
            (self.heading, self.is_at_end) = (Some(resource), true);
            return true;
        }
        let (named, rest) = match pressure::named(&line.text) {
            Some((resource, rest)) => (Some(resource), rest),
            None => (self.heading, &*line.text),
        };
        let last = self.found.last_mut().filter(|(resource, _)| !self.is_at_end && *resource == named);
        let mut took = last.map_or(Took::Next, |(_, look)| look.take(rest));
        if took == Took::Next {
            let mut look = Pressure::default();
            took = look.take(rest);
            if took == Took::Yes {
                self.found.push((named, look));
            }
        }
        self.is_at_end &= took != Took::Yes;
        took == Took::Yes
    }

    /// Finds out the resources of the files that the last command printed, where no path names them.
    fn end_command(&mut self) {
        let printed = &mut self.found[self.before..];
        let shown = self.command.and_then(|command| pressure::shown_by(command, printed.len()));
        for (n, (resource, _)) in printed.iter_mut().enumerate() {
            let of_command = || match &shown {
                Some(shown) => shown.get(n).copied(),
                None => self.command.and_then(Resource::of_path),
            };
            *resource = resource.or_else(of_command).or_else(|| Resource::of_path(self.block.file));
        }
        self.before = self.found.len();
    }

    fn told(mut self) -> Vec<format::Told> {
        self.end_command();
        let told = |(resource, look)| format::Told::Look(Told::Pressure(resource, look));
        self.found.into_iter().map(told).collect()
    }
}

/// Returns the path of the cgroup's file that a command shows, as in `cat /sys/fs/cgroup/a/memory.max`; none if the
/// command shows no such file or several.
fn file_of_command(command: &str) -> Option<&str> {
    let mut files = command.split_whitespace().skip(1).filter(|word| cgroup_files::file_name(word).is_some());
    files.next().filter(|path| files.next().is_none() && !path.contains(['*', '{', '?']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats;

    #[test]
    fn each_command_tells_the_file_of_the_lines_behind_it() {
        let text = "$ cat /sys/fs/cgroup/a/memory.stat\nanon 4096\nfile 8192\npgscan 5\n$ cat /sys/fs/cgroup/a/memory.high\n65536\n\
                    $ cat /sys/fs/cgroup/b/memory.events\nlow 7\nhigh 3\nmax 0\n$ cat /sys/fs/cgroup/b/memory.pressure\n\
                    some avg10=4.00 avg60=0.00 avg300=0.00 total=5\n$ cat /proc/pressure/memory\n\
                    some avg10=9.00 avg60=0.00 avg300=0.00 total=5\n";
        let document = formats::read("paste", text, None).unwrap();
        let groups: Vec<&CgroupFiles> = document
            .told
            .iter()
            .filter_map(|(_, told)| match told {
                format::Told::Look(Told::Cgroup(look)) => Some(look),
                _ => None,
            })
            .collect();
        let [a, b] = groups.as_slice() else { panic!("{document:?}") };
        assert_eq!((a.path.as_deref(), a.get("memory.high", "")), (Some("/sys/fs/cgroup/a"), Some(65_536)));
        assert_eq!((b.get("memory.events", "low"), b.pressure.some.unwrap().percent[0]), (Some(7), 4.0));
        let of_computer = document.told.iter().find_map(|(_, told)| match told {
            format::Told::Look(Told::Pressure(Some(Resource::Memory), look)) => Some(look.some.unwrap().percent[0]),
            _ => None,
        });
        assert_eq!(of_computer, Some(9.0));
    }

    #[test]
    fn counters_of_nodes_within_zoneinfo_begin_no_other_text() {
        let text = "Node 0, zone   Normal\n  per-node stats\n      nr_inactive_anon 5\n      pgscan_kswapd 7\n      pgsteal_kswapd 3\n  \
                    pages free     120\n        min      10\n        managed  4000\n      nr_free_pages 120\n";
        let document = formats::read("z", text, None).unwrap();
        let [(1, format::Told::Look(Told::Zoneinfo(look)))] = document.told.as_slice() else { panic!("{document:?}") };
        assert_eq!((look.zones[0].managed(), document.left_out.is_empty()), (4000, true));
    }

    #[test]
    fn psi_of_disks_and_cpus_is_not_that_of_memory() {
        let line = |percent: u32| format!("some avg10={percent}.00 avg60=0.00 avg300=0.00 total=5\n");
        let both = |percent: u32| format!("{}{}", line(percent), line(percent + 1).replace("some", "full"));
        let (memory, io, cpu, irq) = (both(10), both(20), line(30), line(40).replace("some", "full"));
        let prefixed = |path: &str, lines: &str| lines.lines().map(|it| format!("{path}:{it}\n")).collect::<String>();
        let texts = [
            format!(
                "==> /proc/pressure/memory <==\n{memory}\n==> /proc/pressure/io <==\n{io}\n==> /proc/pressure/cpu <==\n{cpu}"
            ),
            format!(
                "$ cat /proc/pressure/memory\n{memory}$ cat /proc/pressure/io\n{io}$ cat /proc/pressure/cpu\n{cpu}"
            ),
            format!("/proc/pressure/cpu:\n{cpu}\n/proc/pressure/io:\n{io}\n/proc/pressure/memory:\n{memory}"),
            format!(
                "{}{}{}",
                prefixed("/proc/pressure/cpu", &cpu),
                prefixed("/proc/pressure/io", &io),
                prefixed("/proc/pressure/memory", &memory)
            ),
            format!("{}{}{}", prefixed("memory", &memory), prefixed("io", &io), prefixed("cpu", &cpu)),
            format!("$ cat /proc/pressure/*\n{cpu}{io}{irq}{memory}"),
            format!("$ cat /proc/pressure/{{memory,io,cpu}}\n{memory}{io}{cpu}"),
            format!("$ cat /proc/pressure/memory /proc/pressure/io\n{memory}{io}"),
        ];
        for text in texts {
            let document = formats::read("paste", &text, None).unwrap();
            let of = |wanted: Resource| {
                let found: Vec<f64> = document
                    .told
                    .iter()
                    .filter_map(|(_, told)| match told {
                        format::Told::Look(Told::Pressure(of, look)) if *of == Some(wanted) => {
                            Some(look.some?.percent[0])
                        }
                        _ => None,
                    })
                    .collect();
                found
            };
            assert_eq!((of(Resource::Memory), of(Resource::Io)), (vec![10.0], vec![20.0]), "{text}");
        }
        let document = formats::read("psi/io", &io, None).unwrap();
        assert!(matches!(document.told[..], [(_, format::Told::Look(Told::Pressure(Some(Resource::Io), _)))]));
    }
}

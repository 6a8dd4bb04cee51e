//! Readers of `sadf`: of JSON (`-j`, and `iostat -o JSON`), of lines with semicolons (`-d`), and of lines with one
//! figure each (`-p`).
//!
//! Samples have the column names of `sar`, so that the rules of `doctor` need no other names.

use super::format::{Format, Recording, Told};
use super::text::{Block, LeftOut, Line};
use super::{Figures, Sample, number};
use kit::wrong::Wrong;
use serde_json::Value;
use std::collections::BTreeMap;

/// The format of `sadf -j`.
pub const JSON: Format = Format {
    name: "sadf -j, iostat -o JSON",
    how: "JSON whose first key is `sysstat`",
    begins: |lines| {
        let start: String =
            lines.iter().take(4).flat_map(|line| line.text.chars().take(200)).filter(|c| !c.is_whitespace()).collect();
        start.starts_with("{\"sysstat\":") || start == "{"
    },
    holds: |_| true,
    read: read_json,
};

/// The format of `sadf -d`.
pub const LINES: Format = Format {
    name: "sadf -d",
    how: "a heading `# hostname;interval;timestamp;…`",
    begins: |lines| is_heading(&lines[0].text),
    holds: |line| line.matches(';').count() >= 3,
    read: read_lines,
};

/// The format of `sadf -p`.
pub const PAIRS: Format = Format {
    name: "sadf -p",
    how: "lines of a computer, an interval, a time, a device or `-`, a column of sar such as pgscank/s, and a figure",
    begins: |lines| pair_of(&lines[0]).is_some_and(|pair| pair.name.contains('/') || pair.name.starts_with(['%', 'k'])),
    holds: |line| line.split('\t').count() >= 5,
    read: read_pairs,
};

/// Objects and keys in the JSON. Each pair of object and key has the column of `sar` to which it corresponds.
const KEYS: [(&str, &str, &str); 33] = [
    ("paging", "pgpgin", "pgpgin/s"),
    ("paging", "pgpgout", "pgpgout/s"),
    ("paging", "fault", "fault/s"),
    ("paging", "majflt", "majflt/s"),
    ("paging", "pgfree", "pgfree/s"),
    ("paging", "pgscank", "pgscank/s"),
    ("paging", "pgscand", "pgscand/s"),
    ("paging", "pgsteal", "pgsteal/s"),
    ("swap-pages", "pswpin", "pswpin/s"),
    ("swap-pages", "pswpout", "pswpout/s"),
    ("memory", "memfree", "kbmemfree"),
    ("memory", "avail", "kbavail"),
    ("memory", "memused", "kbmemused"),
    ("memory", "memused-percent", "%memused"),
    ("memory", "buffers", "kbbuffers"),
    ("memory", "cached", "kbcached"),
    ("memory", "commit", "kbcommit"),
    ("memory", "active", "kbactive"),
    ("memory", "inactive", "kbinact"),
    ("memory", "dirty", "kbdirty"),
    ("memory", "anonpg", "kbanonpg"),
    ("memory", "slab", "kbslab"),
    ("memory", "kstack", "kbkstack"),
    ("memory", "pgtbl", "kbpgtbl"),
    ("memory", "vmused", "kbvmused"),
    ("memory", "swpfree", "kbswpfree"),
    ("memory", "swpused", "kbswpused"),
    ("memory", "swpused-percent", "%swpused"),
    ("psi-mem", "some_avg", "%smem"),
    ("psi-mem", "full_avg", "%fmem"),
    ("hugepages", "hugfree", "kbhugfree"),
    ("hugepages", "hugused", "kbhugused"),
    ("hugepages", "hugrsvd", "kbhugrsvd"),
];

/// Returns whether the column with this name in `sar` is read.
fn is_read(name: &str) -> bool {
    KEYS.iter().any(|(.., column)| *column == name)
}

/// The samples read so far, by time.
#[derive(Default)]
struct Moments {
    samples: BTreeMap<(String, String), Sample>,
    disks: BTreeMap<String, Vec<Figures>>,
}

impl Moments {
    /// Adds figures of one moment. `date` and `time` are sorted as texts, and this order must be the order of time.
    fn add(&mut self, date: &str, time: &str, seconds: f64, line: usize, values: Figures) {
        let sample = self.samples.entry((date.to_owned(), time.to_owned())).or_insert_with(|| Sample {
            seconds,
            line,
            ..Sample::default()
        });
        if values.iter().all(|(name, _)| sample.values.get(name).is_none()) {
            sample.values.extend(values);
        }
    }

    fn finish(self, host: Option<String>, kernel: Option<String>, block: &Block<'_>) -> Result<Vec<Told>, Wrong> {
        let Self { samples, disks } = self;
        let mut days: Vec<String> = Vec::new();
        let samples: Vec<Sample> = samples
            .into_iter()
            .map(|((date, time), sample)| {
                if days.last() != Some(&date) {
                    days.push(date);
                }
                let of_day = super::procps::seconds_of_day(&time).or_else(|| time.parse().ok());
                Sample { at_s: of_day.map(|at_s| at_s + 86_400.0 * (days.len() - 1) as f64), ..sample }
            })
            .collect();
        if samples.is_empty() && disks.is_empty() {
            let line = block.lines.first().map_or(0, |line| line.number.saturating_sub(1));
            let what = "expected figures of memory: write `sadf -j FILE -- -A` or `sadf -d FILE -- -B -W -r -S`";
            return Err(Wrong::at(block.file, line, what));
        }
        Ok(vec![Told::Recording(Recording {
            tool: "sar",
            host,
            kernel,
            samples,
            disks,
            has_times: true,
            assumed: Vec::new(),
        })])
    }
}

fn figures(pairs: &[(String, f64)]) -> Figures {
    let names = pairs.iter().map(|(name, _)| name.clone()).collect();
    Figures(vec![(names, pairs.iter().map(|(_, figure)| *figure).collect())])
}

fn read_json(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Vec<Told>, Wrong> {
    let first = block.lines.first().map_or(0, |line| line.number.saturating_sub(1));
    let text: String = block.lines.iter().flat_map(|line| [&*line.text, "\n"]).collect();
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(why)) => {
            let line = block.lines.get(why.line().saturating_sub(1)).map_or(first, |line| line.number - 1);
            return Err(Wrong::at(block.file, line, format!("expected the whole JSON of `sadf -j`: {why}")));
        }
        None => return Err(Wrong::at(block.file, first, "expected the JSON of `sadf -j`")),
    };
    let read = text[..values.byte_offset()].matches('\n').count();
    block.lines.iter().skip(read + 1).for_each(|line| left_out.line(line));
    let hosts = value["sysstat"]["hosts"].as_array().cloned().unwrap_or_default();
    let mut told = Vec::new();
    let mut nothing = None;
    for host in &hosts {
        let mut moments = Moments::default();
        let mut of_iostat: BTreeMap<String, Vec<Figures>> = BTreeMap::new();
        let number = block.lines.first().map_or(1, |line| line.number);
        for one in host["statistics"].as_array().into_iter().flatten() {
            for disk in one["disk"].as_array().into_iter().flatten() {
                let columns = ["r/s", "w/s", "tps", "r_await", "w_await"].map(|name| (name, name)).into_iter();
                let columns = columns.chain([("util", "%util")]);
                let pairs: Vec<(String, f64)> =
                    columns.filter_map(|(key, name)| Some((name.to_owned(), disk[key].as_f64()?))).collect();
                if let Some(name) = disk["disk_device"].as_str().filter(|_| !pairs.is_empty()) {
                    of_iostat.entry(name.to_owned()).or_default().push(figures(&pairs));
                }
            }
            let stamp = &one["timestamp"];
            let word = |key: &str| stamp[key].as_str().unwrap_or_default();
            let Some(seconds) = stamp["interval"].as_f64().filter(|seconds| *seconds > 0.0) else {
                continue;
            };
            let figure = |object: &str, key: &str| {
                let group = [&one[object], &one["psi"][object]].into_iter().find(|group| group.is_object())?;
                group[key].as_f64().filter(|figure| super::COUNTED.contains(figure))
            };
            let pairs: Vec<(String, f64)> = KEYS
                .iter()
                .filter_map(|(object, key, name)| Some(((*name).to_owned(), figure(object, key)?)))
                .collect();
            if !pairs.is_empty() {
                moments.add(word("date"), word("time"), seconds, number, figures(&pairs));
            }
            for disk in one["disk"].as_array().into_iter().flatten() {
                let columns = [("await", "await"), ("util-percent", "%util"), ("tps", "tps")];
                let pairs: Vec<(String, f64)> =
                    columns.iter().filter_map(|(key, name)| Some(((*name).to_owned(), disk[*key].as_f64()?))).collect();
                if let Some(name) = disk["disk-device"].as_str().filter(|_| !pairs.is_empty()) {
                    moments.disks.entry(name.to_owned()).or_default().push(figures(&pairs));
                }
            }
        }
        // The first report of `iostat` is the average since boot, and is left out unless it is the only one.
        of_iostat.values_mut().filter(|all| all.len() > 1).for_each(|all| drop(all.remove(0)));
        let is_of_iostat = !of_iostat.is_empty();
        moments.disks.extend(of_iostat);
        let word = |key: &str| host[key].as_str().map(str::to_owned);
        match moments.finish(word("nodename"), word("release"), block) {
            Ok(mut all) => {
                for told in &mut all {
                    if let Told::Recording(recording) = told {
                        recording.tool = if is_of_iostat { "iostat" } else { recording.tool };
                    }
                }
                told.extend(all);
            }
            Err(why) => nothing = Some(why),
        }
    }
    match told.is_empty() {
        true => {
            Err(nothing.unwrap_or_else(|| Wrong::at(block.file, first, "expected `hosts` in the JSON of `sadf -j`")))
        }
        false => Ok(told),
    }
}

fn is_heading(line: &str) -> bool {
    line.trim_start_matches(['#', ' ']).starts_with("hostname;interval;timestamp")
}

/// Splits a time of `sadf` into date and time: `2026-11-26 10:00:10 UTC`, or seconds since 1970.
fn stamp_of(words: &str) -> Option<(&str, &str)> {
    let mut words = words.split_whitespace();
    let first = words.next()?;
    match words.next().filter(|time| super::procps::seconds_of_day(time).is_some()) {
        Some(time) => Some((first, time)),
        None => first.bytes().all(|byte| byte.is_ascii_digit()).then_some(("", first)),
    }
}

fn read_lines(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Vec<Told>, Wrong> {
    let mut moments = Moments::default();
    let mut heading: Vec<String> = Vec::new();
    let mut host = None;
    for line in block.lines {
        if line.is_blank() {
            continue;
        }
        if is_heading(&line.text) {
            let names = line.text.trim_start_matches(['#', ' ']).trim().split(';');
            heading = names.map(str::to_owned).collect();
            continue;
        }
        let fields: Vec<&str> = line.text.trim().split(';').collect();
        if fields.iter().any(|field| field.contains("RESTART")) {
            continue;
        }
        let times =
            fields.get(1).and_then(|seconds| number(seconds)).zip(fields.get(2).and_then(|stamp| stamp_of(stamp)));
        let (Some((seconds, (date, time))), true) = (times, fields.len() == heading.len()) else {
            left_out.note(line.number, if fields.len() > 3 { "cut off" } else { "a note" });
            continue;
        };
        let columns = || heading.iter().zip(&fields).skip(3);
        let of_disk = heading.get(3).is_some_and(|name| name == "DEV");
        let wanted = |name: &str| if of_disk { name != "DEV" } else { is_read(name) };
        let pairs: Vec<(String, f64)> = columns()
            .filter(|(name, _)| wanted(name))
            .filter_map(|(name, field)| Some((name.clone(), number(field).filter(|it| super::COUNTED.contains(it))?)))
            .collect();
        host = host.or_else(|| fields.first().map(|name| (*name).to_owned()));
        if pairs.is_empty() {
            left_out.note(
                line.number,
                format!("block {}", heading[3..].iter().take(2).map(String::as_str).collect::<Vec<_>>().join(" ")),
            );
        } else if of_disk {
            moments.disks.entry(fields[3].to_owned()).or_default().push(figures(&pairs));
        } else if seconds > 0.0 {
            moments.add(date, time, seconds, line.number, figures(&pairs));
        }
    }
    moments.finish(host, None, block)
}

/// A line of `sadf -p`. Each line has one figure.
struct Pair<'t> {
    host: &'t str,
    seconds: f64,
    date: &'t str,
    time: &'t str,
    device: &'t str,
    name: &'t str,
    figure: f64,
}

fn pair_of<'t>(line: &'t Line<'_>) -> Option<Pair<'t>> {
    let fields: Vec<&str> = line.text.trim().split('\t').map(str::trim).collect();
    let [host, seconds, stamp, device, name, figure] = fields[..] else {
        return None;
    };
    let (date, time) = stamp_of(stamp)?;
    let figure = number(figure).filter(|figure| super::COUNTED.contains(figure))?;
    Some(Pair { host, seconds: number(seconds)?, date, time, device, name, figure })
}

fn read_pairs(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Vec<Told>, Wrong> {
    let mut moments = Moments::default();
    let mut host = None;
    for line in block.lines {
        match pair_of(line) {
            Some(pair) if pair.device == "-" && is_read(pair.name) && pair.seconds > 0.0 => {
                host = host.or_else(|| Some(pair.host.to_owned()));
                let values = figures(&[(pair.name.to_owned(), pair.figure)]);
                moments.add(pair.date, pair.time, pair.seconds, line.number, values);
            }
            Some(_) => left_out.note(line.number, "figures of other things"),
            None => left_out.line(line),
        }
    }
    moments.finish(host, None, block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::read as read_text;

    fn recording(text: &str) -> (Recording, Vec<String>) {
        let document = read_text("s", text, None).unwrap_or_else(|wrong| panic!("{wrong}"));
        let Some((_, Told::Recording(recording))) = document.told.into_iter().next() else {
            panic!("no recording");
        };
        (recording, document.left_out)
    }

    const JSON_PRINTED: &str = r#"{"sysstat": {
	"hosts": [{"nodename": "web1", "sysname": "Linux", "release": "6.1.0-18-amd64", "machine": "x86_64", "number-of-cpus": 4,
	"statistics": [
		{"timestamp": {"date": "2026-11-26", "time": "23:59:50", "utc": 1, "interval": 10},
		"paging": {"pgpgin": 1.00, "majflt": 3.00, "pgscank": 900.00, "pgscand": 40.00, "pgsteal": 200.00, "vmeff-percent": 21.00},
		"memory": {"memfree": 1000, "memused": 9000, "memused-percent": 90.00, "swpfree": 100, "swpused": 900},
		"psi": {"psi-mem": {"some_avg10": 1.00, "some_avg": 20.00, "full_avg": 10.00}},
		"disk": [{"disk-device": "sda", "tps": 1.00, "await": 20.00, "util-percent": 99.00}]},
		{"timestamp": {"date": "2026-11-27", "time": "00:00:00", "utc": 1, "interval": 10}, "paging": {"pgscank": 1.00}}
	]}]}}
"#;

    #[test]
    fn json_has_the_columns_of_sar() {
        for text in [
            JSON_PRINTED.to_owned(),
            format!("$ sadf -j -- -A\n{JSON_PRINTED}me@h:~$\n"),
            JSON_PRINTED.replacen("{\"sysstat\"", "{\n\t\"sysstat\"", 1),
        ] {
            let (recording, _) = recording(&text);
            assert_eq!(
                (recording.host.as_deref(), recording.kernel.as_deref()),
                (Some("web1"), Some("6.1.0-18-amd64"))
            );
            let [first, second] = &recording.samples[..] else { panic!("{:?}", recording.samples) };
            assert_eq!((first.seconds, first.values["pgscank/s"], first.values["kbswpused"]), (10.0, 900.0, 900.0));
            assert_eq!((first.values["%smem"], recording.disks["sda"][0]["%util"]), (20.0, 99.0));
            assert_eq!((first.at_s, second.at_s), (Some(86_390.0), Some(86_400.0)));
        }
        let cut = read_text("s", &JSON_PRINTED[..JSON_PRINTED.len() / 2], None).unwrap_err().to_string();
        assert!(cut.starts_with("s:") && cut.contains("expected the whole JSON of `sadf -j`: "), "{cut}");
    }

    #[test]
    fn json_of_iostat_tells_of_disks_without_the_average_since_the_start() {
        let report = |util: f64| {
            format!(
                r#"{{"avg-cpu": {{"user": 1.0}}, "disk": [{{"disk_device": "sda", "r/s": 1.0, "w_await": 20.0, "util": {util}}}]}}"#
            )
        };
        let text = format!(
            "{{\"sysstat\": {{\n\"hosts\": [{{\"nodename\": \"web1\", \"statistics\": [\n{},\n{}\n]}}]}}}}\n",
            report(1.0),
            report(99.0)
        );
        let (recording, _) = recording(&text);
        assert_eq!(
            (recording.tool, recording.disks["sda"].len(), recording.disks["sda"][0]["%util"]),
            ("iostat", 1, 99.0)
        );
    }

    #[test]
    fn lines_with_semicolons_have_the_columns_of_sar() {
        let text = "# hostname;interval;timestamp;pgpgin/s;majflt/s;pgscank/s;pgscand/s;pgsteal/s;%vmeff\n\
            web1;10;2026-11-26 10:00:10 UTC;1.00;3,00;900.00;40.00;200.00;21.00\n\
            web1;-1;2026-11-26 10:00:15 UTC;LINUX-RESTART\t(4 CPU)\n\
            web1;10;2026-11-26 10:00:20 UTC;1.00;3.00;900.00;40.00;200.00;21.00\n\
            # hostname;interval;timestamp;CPU;%user;%idle\nweb1;10;2026-11-26 10:00:10 UTC;-1;1.00;99.00\n\
            # hostname;interval;timestamp;pswpin/s;pswpout/s\nweb1;10;2026-11-26 10:00:10 UTC;5.00;6.00\nweb1;10;2026-11";
        let (recording, left_out) = recording(text);
        let values = &recording.samples[0].values;
        assert_eq!((recording.samples.len(), values["majflt/s"], values["pswpin/s"]), (2, 3.0, 5.0));
        assert_eq!((recording.samples[1].at_s, recording.host.as_deref()), (Some(36_020.0), Some("web1")));
        assert_eq!(left_out, ["line 6 (block CPU %user)", "line 9 (a note)"]);
        let epoch =
            text.replace("2026-11-26 10:00:10 UTC", "1764151210").replace("2026-11-26 10:00:20 UTC", "1764151220");
        assert_eq!(super::tests::recording(&epoch).0.samples.len(), 2);
    }

    #[test]
    fn lines_of_one_figure_have_the_columns_of_sar() {
        let text = "web1\t10\t2026-11-26 10:00:10 UTC\t-\tpgscank/s\t900.00\nweb1\t10\t2026-11-26 10:00:10 UTC\t-\tpswpin/s\t5.00\n\
            web1\t10\t2026-11-26 10:00:10 UTC\tall\t%user\t5.00\n";
        let (recording, left_out) = recording(text);
        assert_eq!((recording.samples.len(), recording.samples[0].values["pswpin/s"]), (1, 5.0));
        assert_eq!(left_out, ["line 3 (figures of other things)"]);
    }
}

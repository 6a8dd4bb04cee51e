//! Output of `free` with any of the options `-b -k -m -g -h -w -l -t`: from procps 3, from procps 2 with its line `-/+
//! buffers/cache:`, from busybox, and in other languages.
//!
//! With `-h` a unit follows each number. Without it the text states no unit: a command before the text may state it
//! (`free -m`); otherwise it is inferred from the numbers: see [`Unit::of_numbers`].

use super::{Look, Took, size_kib};

/// Unit of the sizes in an output of `free`, if the output names no unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes (`-b`).
    Bytes,
    /// KiB (no option, or `-k`).
    Kib,
    /// MiB (`-m`).
    Mib,
    /// GiB (`-g`).
    Gib,
}

impl Unit {
    /// Returns the size of the unit, KiB.
    #[must_use]
    pub const fn kib(self) -> f64 {
        match self {
            Self::Bytes => 1.0 / 1024.0,
            Self::Kib => 1.0,
            Self::Mib => 1024.0,
            Self::Gib => 1024.0 * 1024.0,
        }
    }

    /// Returns the unit's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Kib => "KiB",
            Self::Mib => "MiB",
            Self::Gib => "GiB",
        }
    }

    /// Returns the unit in which a command prints sizes: MiB for `free -m` and `free --mebi -s 5`, KiB for `free`
    /// without a unit. Returns `None` if the command is not `free`.
    #[must_use]
    pub fn of_command(command: &str) -> Option<Self> {
        let mut words = command.split_whitespace().skip_while(|word| !(*word == "free" || word.ends_with("/free")));
        words.next()?;
        let of = |word: &str| {
            let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
            let has = |letter: char, names: [&str; 2]| {
                letters.is_some_and(|letters| letters.contains(letter)) || names.contains(&word)
            };
            [
                (has('b', ["--bytes", "--bytes"]), Self::Bytes),
                (has('m', ["--mebi", "--mebibytes"]), Self::Mib),
                (has('g', ["--gibi", "--gibibytes"]), Self::Gib),
            ]
            .into_iter()
            .find_map(|(is_it, unit)| is_it.then_some(unit))
        };
        Some(words.find_map(of).unwrap_or(Self::Kib))
    }

    /// Infers the unit from the numbers of a text; none if there is no number above 0. The kernel counts pages, so
    /// numbers of bytes are multiples of 4096, and numbers of KiB are multiples of 4. MiB and GiB are rounded, and only
    /// a quarter of such numbers are multiples of 4 by chance. Computers are assumed to have 64 MiB to 64 TiB.
    #[must_use]
    pub fn of_numbers(numbers: &[f64]) -> Option<Self> {
        let total = numbers.iter().copied().reduce(f64::max).filter(|total| *total > 0.0)?;
        let are_multiples = |of: f64| numbers.iter().all(|number| number % of == 0.0);
        let kib_in = |unit: Self| total * unit.kib();
        let can_be = |unit: Self| (65_536.0..=68_719_476_736.0).contains(&kib_in(unit));
        Some(if can_be(Self::Bytes) && are_multiples(4096.0) {
            Self::Bytes
        } else if can_be(Self::Kib) && (are_multiples(4.0) || !can_be(Self::Mib)) {
            Self::Kib
        } else if total >= 512.0 {
            Self::Mib
        } else {
            Self::Gib
        })
    }
}

/// The output of `free`, in the unit in which it was printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Free {
    columns: Vec<Column>,
    /// The numbers on the line `Mem:`, in the order of [`Free::columns`].
    memory: Vec<Size>,
    swap: Vec<Size>,
    /// Used and free memory from the line `-/+ buffers/cache`. This line counts buffers and cache as free.
    without_cache: Vec<Size>,
}

/// A number as `free` printed it, with its unit if one was printed.
#[derive(Clone, Debug, PartialEq)]
struct Size(String);

/// A column of the line about memory in the output of `free`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Total,
    Used,
    Free,
    Shared,
    Buffers,
    Cache,
    /// Buffers and cache together.
    BuffersAndCache,
    Available,
}

/// The sizes that `free` printed, KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sizes {
    /// Total memory (the column `total`).
    pub total: Option<f64>,
    /// Memory that nothing uses (the column `free`).
    pub free: Option<f64>,
    /// Shared memory and tmpfs.
    pub shared: Option<f64>,
    /// Buffers and page cache, and since procps 3.3.10 reclaimable slab.
    pub cache: Option<f64>,
    /// The kernel's estimate of memory available to a new program.
    pub available: Option<f64>,
    /// Total swap and free swap.
    pub swap: Option<[f64; 2]>,
}

/// Returns whether a line is the heading of `free`: `total used free shared buff/cache available`, or a line of this
/// form in another language, without digits.
#[must_use]
pub fn begins(line: &str) -> bool {
    columns(line).is_some()
}

fn columns(line: &str) -> Option<Vec<Column>> {
    use Column::{Available, Buffers, BuffersAndCache, Cache, Free, Shared, Total, Used};
    let words: Vec<String> = line.split_whitespace().map(str::to_lowercase).collect();
    let has_digits = line.bytes().any(|byte| byte.is_ascii_digit());
    if has_digits || line.contains([':', '=']) {
        return None;
    }
    let is_english =
        words.first().is_some_and(|word| word == "total") && words.get(2).is_some_and(|word| word == "free");
    let joined = words.iter().position(|word| word.contains('/'));
    match (words.len(), joined) {
        // With `-w`, buffers and cache have separate columns.
        (7, None) if is_english => Some(vec![Total, Used, Free, Shared, Buffers, Cache, Available]),
        (6, Some(4)) => Some(vec![Total, Used, Free, Shared, BuffersAndCache, Available]),
        // A mail program has put the last word on a line of its own.
        (5, Some(4)) => Some(vec![Total, Used, Free, Shared, BuffersAndCache]),
        (6, None) if is_english => Some(vec![Total, Used, Free, Shared, Buffers, Cache]),
        // The heading of busybox before 1.29.
        (5, None) if is_english => Some(vec![Total, Used, Free, Shared, Buffers]),
        _ => None,
    }
}

impl Look for Free {
    fn take(&mut self, line: &str) -> Took {
        if self.take_wrapped(line.trim()) {
            return Took::Yes;
        }
        if let Some(columns) = columns(line) {
            if !self.columns.is_empty() {
                return Took::Next;
            }
            self.columns = columns;
            return Took::Yes;
        }
        let Some((name, numbers)) = line.split_once(':') else { return Took::No };
        let words: Vec<&str> = numbers.split_whitespace().collect();
        if self.columns.is_empty() || words.len() < 2 || words.iter().any(|word| size_kib(word, 1.0).is_none()) {
            return Took::No;
        }
        let name = name.trim();
        let place = match (name, words.len()) {
            ("Low" | "High" | "Total" | "Comm", _) => return Took::Yes,
            (name, 2) if name.starts_with("-/+") => &mut self.without_cache,
            (_, n) if n == self.columns.len() && self.memory.is_empty() => &mut self.memory,
            (_, 5) if self.columns.last() == Some(&Column::Available) && self.memory.is_empty() => &mut self.memory,
            (_, 3) if self.swap.is_empty() => &mut self.swap,
            // The line of totals that `-t` adds, in another language.
            (_, 3) if !self.memory.is_empty() => return Took::Yes,
            _ => return Took::No,
        };
        *place = words.into_iter().map(|word| Size(word.to_owned())).collect();
        Took::Yes
    }
}

impl Free {
    /// Takes a line with the word or the number that a mail program has wrapped: the heading of the last column, or the
    /// last size of the line about memory. Returns whether it is such a line.
    fn take_wrapped(&mut self, line: &str) -> bool {
        let is_one = !line.is_empty() && !line.contains(char::is_whitespace);
        let is_word = line.chars().all(char::is_alphabetic);
        if is_one && is_word && self.memory.is_empty() && self.columns.last() == Some(&Column::BuffersAndCache) {
            self.columns.push(Column::Available);
            return true;
        }
        let lacks_one = self.swap.is_empty() && self.memory.len() == 5 && self.columns.len() == 6;
        let is_taken = is_one && lacks_one && size_kib(line, 1.0).is_some();
        if is_taken {
            self.memory.push(Size(line.to_owned()));
        }
        is_taken
    }

    /// Returns those sizes in the output of `free` that have no unit, as they were printed.
    #[must_use]
    pub fn bare_numbers(&self) -> Vec<f64> {
        let all = self.memory.iter().chain(&self.swap).chain(&self.without_cache);
        all.filter_map(|Size(word)| super::super::number(word)).collect()
    }

    /// Returns the sizes that `free` printed. Those without a unit are taken to be in `unit`.
    #[must_use]
    pub fn sizes(&self, unit: Unit) -> Sizes {
        let kib = |Size(word): &Size| size_kib(word, unit.kib());
        let of = |wanted: Column| {
            let place = self.columns.iter().position(|column| *column == wanted)?;
            kib(self.memory.get(place)?)
        };
        let apart = of(Column::Buffers).map(|buffers| buffers + of(Column::Cache).unwrap_or(0.0));
        let swap = self.swap.iter().filter_map(kib).collect::<Vec<f64>>();
        Sizes {
            total: of(Column::Total),
            free: of(Column::Free),
            shared: of(Column::Shared),
            cache: of(Column::BuffersAndCache).or(apart),
            available: of(Column::Available),
            swap: match swap.as_slice() {
                [total, _, free] => Some([*total, *free]),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> (Option<Unit>, Sizes) {
        let free = Free::of(text);
        let unit = Unit::of_numbers(&free.bare_numbers());
        (unit, free.sizes(unit.unwrap_or(Unit::Kib)))
    }

    const KIB: &str = "\
               total        used        free      shared  buff/cache   available
Mem:        16266448    13012344      180508      412604     3073596     2575468
Swap:        8191996     8191996           0
";

    #[test]
    fn all_forms_tell_the_same() {
        let expected = Sizes {
            total: Some(16_266_448.0),
            free: Some(180_508.0),
            shared: Some(412_604.0),
            cache: Some(3_073_596.0),
            available: Some(2_575_468.0),
            swap: Some([8_191_996.0, 0.0]),
        };
        assert_eq!(sizes(KIB), (Some(Unit::Kib), expected));
        let wide = KIB.replace("buff/cache", "buffers cache").replace("3073596 ", "73596 3000000 ");
        assert_eq!(sizes(&wide), (Some(Unit::Kib), expected));
        let bytes: String = KIB
            .split_inclusive(char::is_whitespace)
            .map(|word| match word.trim_end().parse::<u64>() {
                Ok(kib) => format!("{} ", kib * 1024) + word.trim_start_matches(|c: char| c.is_ascii_digit()),
                Err(_) => word.to_owned(),
            })
            .collect();
        assert_eq!(sizes(&bytes), (Some(Unit::Bytes), expected));
        let german = "              gesamt       benutzt     frei      gemns.  Puffer/Cache verfügbar\n\
                      Speicher:    16266448    13012344      180508      412604     3073596     2575468\n\
                      Auslager:     8191996     8191996           0\n";
        assert_eq!(sizes(german), (Some(Unit::Kib), expected));
        let old = "             total       used       free     shared    buffers     cached\n\
                   Mem:      16266448   16085940     180508     412604      73596    3000000\n\
                   -/+ buffers/cache:   13012344    3254104\nSwap:      8191996    8191996          0\n";
        assert_eq!(sizes(old), (Some(Unit::Kib), Sizes { available: None, ..expected }));
    }

    #[test]
    fn lines_that_a_mail_program_has_wrapped_are_read() {
        let wrapped = KIB.replace("   available", "\navailable").replace("     2575468", "\n   2575468");
        assert_eq!(wrapped.lines().count(), 5);
        assert_eq!(sizes(&wrapped), sizes(KIB));
        let only_heading = KIB.replace("   available", "\navailable");
        assert_eq!(sizes(&only_heading), sizes(KIB));
        // Without its last number, the rest of the line is read.
        let cut = KIB.replace("     2575468", "");
        assert_eq!(sizes(&cut).1, Sizes { available: None, ..sizes(KIB).1 });
    }

    #[test]
    fn rounded_numbers_are_told_by_their_size() {
        let mib = "              total        used        free      shared  buff/cache   available\n\
                   Mem:          15885       12707         176         403        3001        2515\nSwap:          7999        7999           0\n\
                   Total:        23885       20706         176\n";
        let (unit, found) = sizes(mib);
        assert_eq!((unit, found.total, found.swap), (Some(Unit::Mib), Some(16_266_240.0), Some([8_190_976.0, 0.0])));
        let gib = "              total        used        free      shared  buff/cache   available\n\
                   Mem:             15          12           0           0           2           2\nSwap:             7           7           0\n";
        assert_eq!(sizes(gib).0, Some(Unit::Gib));
        let human = "               total        used        free      shared  buff/cache   available\n\
                     Mem:            15Gi        12Gi       176Mi       403Mi       2.9Gi       2.5Gi\nSwap:          8.0Gi       8.0Gi          0B\n";
        assert_eq!(
            sizes(human),
            (
                None,
                Sizes {
                    total: Some(15_728_640.0),
                    free: Some(180_224.0),
                    shared: Some(412_672.0),
                    cache: Some(2.9 * 1_048_576.0),
                    available: Some(2_621_440.0),
                    swap: Some([8_388_608.0, 0.0]),
                }
            )
        );
        for (command, unit) in [
            ("free", Some(Unit::Kib)),
            ("$ free -m", Some(Unit::Mib)),
            ("sudo /usr/bin/free -wg", Some(Unit::Gib)),
            ("free --mebi -s 5", Some(Unit::Mib)),
            ("free -tb", Some(Unit::Bytes)),
            ("vmstat 1", None),
        ] {
            assert_eq!(Unit::of_command(command), unit, "{command}");
        }
    }

    #[test]
    fn other_tables_are_not_taken_for_it() {
        for line in
            ["total 48", "Mem: 1 2 3", "r b swpd free buff cache", "total used free", "", "PID USER PR NI VIRT RES"]
        {
            assert!(!begins(line), "{line}");
        }
        assert_eq!(Free::of("Mem: 1 2 3 4 5 6\n"), Free::default());
    }
}

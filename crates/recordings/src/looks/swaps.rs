//! The contents of `/proc/swaps`, and the output of `swapon -s` and `swapon --show`.

use super::{Look, Took, size_kib};

/// A swap device or file.
#[derive(Clone, Debug, PartialEq)]
pub struct Swap {
    /// The path of the swap device or swap file.
    pub name: String,
    /// The swap area's size, KiB.
    pub kib: f64,
    /// The used part of the swap area, KiB.
    pub used_kib: f64,
}

/// The contents of `/proc/swaps`, or the output of `swapon`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Swaps {
    /// The swap devices and files, in order.
    pub all: Vec<Swap>,
    has_heading: bool,
}

/// Returns whether a line is the heading of `/proc/swaps`.
#[must_use]
pub fn begins(line: &str) -> bool {
    let words: Vec<String> = line.split_whitespace().map(str::to_uppercase).collect();
    let [name, kind, size, used, ..] = words.as_slice() else { return false };
    matches!(&**name, "FILENAME" | "NAME") && kind == "TYPE" && size == "SIZE" && used == "USED"
}

/// Reads a line about a swap device or file. A space in a file's name is printed as `\040`.
fn parse(line: &str) -> Option<Swap> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let kind = words.iter().position(|word| matches!(*word, "partition" | "file"))?;
    let [size, used, ..] = words.get(kind + 1..)? else { return None };
    let name = words[..kind].join(" ");
    Some(Swap { name, kib: size_kib(size, 1.0)?, used_kib: size_kib(used, 1.0)? })
}

impl Look for Swaps {
    fn take(&mut self, line: &str) -> Took {
        if begins(line) {
            if self.has_heading {
                return Took::Next;
            }
            self.has_heading = true;
            return Took::Yes;
        }
        let Some(swap) = parse(line) else { return Took::No };
        self.all.push(swap);
        Took::Yes
    }
}

impl Swaps {
    /// Returns total swap and free swap, KiB.
    #[must_use]
    pub fn kib(&self) -> [f64; 2] {
        let all: f64 = self.all.iter().map(|swap| swap.kib).sum();
        let used: f64 = self.all.iter().map(|swap| swap.used_kib).sum();
        [all, (all - used).max(0.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let file = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/zram1 partition 2097148 1000 -2\n/swap\\040file file 4096 0 -3\n";
        assert_eq!(Swaps::of(file).kib(), [2_101_244.0, 2_100_244.0]);
        let shown = "NAME       TYPE      SIZE  USED PRIO\n/dev/sda2  partition   8G  1.5G   -2\n";
        assert_eq!(Swaps::of(shown).kib(), [8_388_608.0, 6_815_744.0]);
        assert_eq!(Swaps::of("Filename Type Size Used Priority\n").kib(), [0.0, 0.0]);
        assert!(begins("NAME TYPE SIZE USED PRIO") && !begins("NAME TYPE"));
    }
}

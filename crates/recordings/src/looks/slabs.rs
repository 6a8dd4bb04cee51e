//! The memory of each slab cache, from `slabtop`, `vmstat -m` and `/proc/slabinfo`.

use super::{Look, Took, size_kib};
use crate::PAGE_KIB;
use std::collections::BTreeMap;

/// The memory of slab caches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slabs {
    /// For each slab cache, its name and the memory that it has (used or not), KiB.
    pub kib: BTreeMap<String, f64>,
    form: Option<Form>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Slabtop,
    Slabinfo,
    /// The output of `vmstat -m`. With an interval, `vmstat` prints all lines again, and it repeats its heading on each
    /// screen.
    Vmstat,
}

/// Returns whether a line is the first line of `slabtop` or `/proc/slabinfo`, or the heading of their table.
#[must_use]
pub fn begins(line: &str) -> bool {
    form(line).is_some()
}

fn form(line: &str) -> Option<Form> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["slabinfo", "-", "version:", ..] => Some(Form::Slabinfo),
        ["#", "name" | "objname", "<active_objs>", ..] => Some(Form::Slabinfo),
        ["Active", "/", "Total", "Objects" | "Slabs", ..] => Some(Form::Slabtop),
        ["OBJS", "ACTIVE", "USE", ..] => Some(Form::Slabtop),
        ["Cache", "Num", "Total", "Size", "Pages"] => Some(Form::Vmstat),
        _ => None,
    }
}

impl Look for Slabs {
    fn take(&mut self, line: &str) -> Took {
        if let Some(form) = form(line) {
            // A heading that comes after lines of caches begins another text, except in `vmstat -m`.
            if !self.kib.is_empty() && form != Form::Vmstat {
                return Took::Next;
            }
            self.form = Some(form);
            return Took::Yes;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let found = match (self.form, words.as_slice()) {
            (None, _) => None,
            (Some(Form::Slabtop), ["Active" | "Minimum", "/", ..]) => return Took::Yes,
            // The columns are OBJS ACTIVE USE OBJ-SIZE SLABS OBJ/SLAB CACHE-SIZE NAME.
            (Some(Form::Slabtop), [_, _, used, _, _, _, size, name @ ..])
                if used.ends_with('%') && !name.is_empty() =>
            {
                size_kib(size, 1.0).map(|kib| (name.join(" "), kib))
            }
            // The columns are name active_objs num_objs objsize objperslab pagesperslab : tunables … : slabdata
            // active_slabs num_slabs sharedavail.
            (Some(Form::Slabinfo), [name, _, _, _, _, pages, ":", "tunables", rest @ ..]) => {
                let data = rest.iter().position(|word| *word == "slabdata");
                let slabs = data.and_then(|at| rest.get(at + 2)?.parse::<f64>().ok());
                slabs
                    .zip(pages.parse::<f64>().ok())
                    .map(|(slabs, pages)| ((*name).to_owned(), slabs * pages * PAGE_KIB))
            }
            // The columns are Cache Num Total Size Pages. Sizes are in bytes.
            (Some(Form::Vmstat), [name, _, total, size, _]) => {
                let number = |word: &str| word.parse::<f64>().ok();
                let Some(kib) = number(total).zip(number(size)).map(|(total, size)| total * size / 1024.0) else {
                    return Took::No;
                };
                self.kib.insert((*name).to_owned(), kib);
                return Took::Yes;
            }
            _ => None,
        };
        let Some((name, kib)) = found else { return Took::No };
        // In old kernels the caches of all cgroups have the same name.
        *self.kib.entry(name).or_default() += kib;
        Took::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tell_what_a_cache_holds() {
        let slabtop = " Active / Total Objects (% used)    : 739390000 / 740008000 (99.9%)\n Active / Total Slabs (% used)      : 9 / 9 (100.0%)\n \
                       Minimum / Average / Maximum Object : 0.01K / 0.32K / 16.00K\n\n  OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME\n\
                       734506000 734506000 100%    0.06K 11476600       64  45906400K ebitmap_node\n382000 323000  84%    0.19K   9100       42     72800K dentry\n";
        let found = Slabs::of(slabtop);
        assert_eq!((found.kib["ebitmap_node"], found.kib.len()), (45_906_400.0, 2));
        let slabinfo = "slabinfo - version: 2.1\n# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>\n\
                        dentry            323000 382200    192   42    2 : tunables    0    0    0 : slabdata   9100   9100      0\n";
        assert_eq!(Slabs::of(slabinfo).kib["dentry"], 72_800.0);
        assert!(!begins("OBJS") && !begins("name") && Slabs::of("a 1 2% 3 4 5 6K b\n").kib.is_empty());
        let twice = format!("{slabtop}{slabtop}");
        let lines: Vec<&str> = twice.lines().collect();
        let looks: Vec<Slabs> = super::super::all(&lines, |line| line, |line| panic!("{line}"));
        assert_eq!(looks, [found.clone(), found]);
        let heading = "Cache                       Num  Total   Size  Pages\n";
        let vmstat = format!(
            "{heading}dentry 300 382200 192 21\n{heading}bad_node 9 1024 2048 4\n{heading}dentry 300 382200 192 21\n"
        );
        let found = Slabs::of(&vmstat);
        assert_eq!((found.kib["dentry"], found.kib["bad_node"]), (382_200.0 * 192.0 / 1024.0, 2048.0));
    }
}

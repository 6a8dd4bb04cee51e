//! The comparison with a kernel image as a page and as CSV.

use super::{Agreement, Compared, Difference, Held, answer, spread_text};
use report::csv::{self, field};
use report::grid::{Cell, Grid, Tone};
use report::html::{Page, Part, Section};

/// Returns the word for whether a counter agrees: `agrees`, `diverges`, or `not judged`.
const fn word(agrees: Option<bool>) -> &'static str {
    match agrees {
        Some(true) => "agrees",
        Some(false) => "diverges",
        None => "not judged",
    }
}

/// Returns the result as a page: the answer and `notes`, then a section for each load with its counters. With
/// `shows_all`, the page has all counters, otherwise only those that do not agree.
#[must_use]
pub fn page(all: &[Held], differences: &[Difference], shows_all: bool, notes: &[String]) -> Page {
    let head = |words: &[&str]| words.iter().map(|word| Cell::new(*word, Tone::Heading)).collect::<Vec<_>>();
    let section = |held: &Held| {
        let Agreement { agree, of, .. } = held.agree();
        let line = |Compared { name, guest, sim, ratio, agrees, .. }: &Compared| {
            let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
            let tone = if *agrees == Some(false) { Tone::Worse } else { Tone::Plain };
            let [name, guest, sim, ratio] =
                [name.clone(), spread_text(*guest), spread_text(*sim), ratio].map(Cell::from);
            vec![name, guest, sim, ratio, Cell::new(word(*agrees), tone)]
        };
        let lines: Vec<_> = shown(held, shows_all).map(line).collect();
        let words = Part::Words(format!("{agree} of {of} counters agree."));
        let grid = Grid { keys: 1, head: head(&["counter", "guest", "sim", "ratio", ""]), lines, texts: vec![0, 4] };
        let table = (!grid.lines.is_empty()).then(|| Part::table("Counters", grid));
        Section::new(format!("{}, {}", held.load, held.guest), [words].into_iter().chain(table).collect())
    };
    let wrong = differences.iter().filter(|it| !it.is_right()).map(Difference::show);
    let about = answer(all, differences).into_iter().chain(wrong).chain(notes.iter().cloned()).collect();
    let title = "Counters of the simulator beside those of real kernels".into();
    Page { title, about, sections: all.iter().map(section).collect() }
}

/// Returns the result as CSV: a line for each counter of each load. With `shows_all`, the text has all counters,
/// otherwise only those that do not agree.
#[must_use]
pub fn csv(all: &[Held], shows_all: bool) -> String {
    let head = [
        "load",
        "guest",
        "counter",
        "guest_median",
        "guest_low",
        "guest_high",
        "sim_median",
        "sim_low",
        "sim_high",
        "ratio",
        "verdict",
    ];
    let line = |held: &Held, it: &Compared| -> Vec<String> {
        let names = [held.load.clone(), held.guest.clone(), it.name.clone()];
        let figures = it.guest.iter().chain(&it.sim).map(ToString::to_string);
        names.into_iter().chain(figures).chain([field(it.ratio), word(it.agrees).to_owned()]).collect()
    };
    let lines = all.iter().flat_map(|held| shown(held, shows_all).map(move |it| line(held, it)));
    csv::text(&head, &lines.collect::<Vec<_>>())
}

/// Returns the counters of a load to show: all, or only those that do not agree.
pub(super) fn shown(held: &Held, shows_all: bool) -> impl Iterator<Item = &Compared> {
    held.counters.iter().filter(move |it| shows_all || it.agrees == Some(false))
}

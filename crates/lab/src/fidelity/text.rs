//! Published figures compared, for people: in a terminal, or for a text in Markdown.

use comfy_table::{CellAlignment, Table as Grid, presets};

use super::{Cell, Effect, Fidelity, Row, Share, Tally, Worst};

/// The look of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Columns with blanks between them.
    Plain,
    /// Markdown.
    Markdown,
}

/// A line for each experiment, and one for all of them.
#[must_use]
pub fn summary(all: &[Fidelity], look: Look) -> String {
    let head = [
        "experiment",
        "effects with the published sign",
        "and its size",
        "levels within x2",
        "apart: signs",
        "levels",
        "worst level",
    ];
    let line = |name: &str, plain: Tally, apart: Tally, worst: Option<&Worst>| {
        let shares = [plain.signs, plain.sizes, plain.levels, apart.signs, apart.levels].map(of);
        std::iter::once(name.to_owned()).chain(shares).chain([worst.map_or_else(String::new, told)]).collect()
    };
    let mut lines: Vec<Vec<String>> = all
        .iter()
        .map(|it| line(&it.experiment, it.summary.plain, it.summary.apart, it.summary.worst.as_ref()))
        .collect();
    if all.len() > 1 {
        let tally = |of: fn(&Fidelity) -> Tally| all.iter().map(of).fold(Tally::default(), Tally::and);
        lines.push(line("all", tally(|it| it.summary.plain), tally(|it| it.summary.apart), None));
    }
    grid(&head, lines, look, |column| (1..6).contains(&column))
}

/// A line for each published figure; of those that miss something alone with `misses`.
#[must_use]
pub fn figures(it: &Fidelity, misses: bool, look: Look) -> String {
    let head =
        ["figure", "kernel", "published", "here", "95% interval", "ratio", "published effect", "effect here", "misses"];
    let cells = it.rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
    let shown = cells.filter(|(_, cell)| !misses || !missed(cell).is_empty());
    let lines = shown.map(|(row, cell)| line(row, cell)).collect();
    grid(&head, lines, look, |column| (2..8).contains(&column))
}

/// What a figure misses: `level`, `sign`, `size`; only what counts.
#[must_use]
pub fn missed(cell: &Cell) -> Vec<&'static str> {
    let level = (cell.counts && !cell.is_met).then_some("level");
    let effect = cell.effect.filter(|effect| effect.counts).and_then(|effect| match effect {
        Effect { has_sign: false, .. } => Some("sign"),
        Effect { has_size: false, .. } => Some("size"),
        _ => None,
    });
    level.into_iter().chain(effect).collect()
}

fn line(row: &Row, cell: &Cell) -> Vec<String> {
    let Cell { kernel, published, simulated, ratio, effect, .. } = cell;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let name = if row.is_apart { format!("{} (apart)", row.name) } else { row.name.clone() };
    let interval = simulated.filter(|it| it.n > 1).map(|it| format!("{} to {}", number(it.low), number(it.high)));
    let mut words = missed(cell).join(", ");
    if simulated.is_none() {
        words.push_str(if words.is_empty() { "not simulated" } else { "; not simulated" });
    }
    vec![
        name,
        kernel.clone(),
        number(*published),
        or_dash(simulated.map(|it| number(it.median))),
        interval.unwrap_or_default(),
        or_dash(ratio.map(|ratio| format!("{ratio:.2}"))),
        effect.map_or_else(String::new, |effect| change(effect.published)),
        effect.map_or_else(String::new, |effect| or_dash(effect.simulated.map(change))),
        words,
    ]
}

/// `57 of 66 (86%)`.
fn of(share: Share) -> String {
    let percent = share.percent().map_or_else(String::new, |percent| format!(" ({percent:.0}%)"));
    format!("{} of {}{percent}", share.met, share.of)
}

fn told(Worst { row, kernel, published, simulated }: &Worst) -> String {
    let here = simulated.map_or_else(|| "not simulated".to_owned(), number);
    format!("{row}, {kernel}: {here} for {}", number(*published))
}

/// A change as a signed percentage; `new` from nothing, `gone` to nothing.
fn change(share: f64) -> String {
    match share {
        share if share.is_infinite() => "new".into(),
        -1.0 => "gone".into(),
        0.0 => "0%".into(),
        share if share.abs() < 0.0995 => format!("{:+.1}%", 100.0 * share),
        share => format!("{:+.0}%", 100.0 * share),
    }
}

/// A whole number as such, a small one with two decimals.
fn number(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn grid(head: &[&str], lines: Vec<Vec<String>>, look: Look, is_number: impl Fn(usize) -> bool) -> String {
    let mut grid = Grid::new();
    grid.load_style(if look == Look::Markdown { presets::ASCII_MARKDOWN } else { presets::NOTHING });
    grid.set_header(head);
    let cell = |cell: String| if look == Look::Markdown { cell.replace('|', "\\|") } else { cell };
    grid.add_rows(lines.into_iter().map(|line| line.into_iter().map(cell).collect::<Vec<_>>()));
    for (index, column) in grid.column_iter_mut().enumerate() {
        if is_number(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = grid.lines().map(|line| line.trim_end().to_owned());
    lines.map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::estimate;

    fn cell(published: f64, here: &[f64], base: f64) -> Cell {
        Cell::of("new", published, estimate(here), Some((base, estimate(&[base]))))
    }

    #[test]
    fn a_figure_says_what_it_misses() {
        assert_eq!(missed(&cell(1000.0, &[900.0], 500.0)), [""; 0]);
        assert_eq!(missed(&cell(1000.0, &[100.0], 500.0)), ["level", "sign"]);
        assert_eq!(missed(&cell(1000.0, &[550.0], 500.0)), ["size"]);
        assert_eq!(missed(&cell(1000.0, &[], 500.0)), ["level", "sign"]);
        assert_eq!(missed(&cell(50.0, &[9.0], 50.0)), [""; 0]);
    }

    #[test]
    fn changes_and_numbers_are_short() {
        let changes = [1.1443, -0.0263, -1.0, f64::INFINITY, 0.0].map(change);
        assert_eq!(changes, ["+114%", "-2.6%", "gone", "new", "0%"]);
        assert_eq!([12.0, 0.5, 123_456.5, 7.25].map(number), ["12", "0.50", "123456", "7.25"]);
        assert_eq!([of(Share { met: 6, of: 8 }), of(Share::default())], ["6 of 8 (75%)", "0 of 0"]);
    }

    #[test]
    fn both_looks_hold_the_same_cells() {
        let row = Row {
            group: "g".into(),
            name: "a|b".into(),
            unit: "pages".into(),
            is_apart: true,
            cells: vec![cell(1000.0, &[900.0, 1100.0], 500.0)],
        };
        let summary = super::super::Summary::of(std::slice::from_ref(&row));
        let fidelity = Fidelity {
            experiment: "e".into(),
            machine: "m".into(),
            seeds: vec![1, 2],
            fingerprint: None,
            summary,
            rows: vec![row],
        };
        let plain = figures(&fidelity, false, Look::Plain);
        assert!(plain.lines().nth(1).unwrap().contains("a|b (apart)"), "{plain}");
        let markdown = figures(&fidelity, false, Look::Markdown);
        assert!(markdown.lines().nth(2).unwrap().starts_with("| a\\|b (apart) | new "), "{markdown}");
        assert_eq!(figures(&fidelity, true, Look::Plain).lines().count(), 1);
        assert!(super::summary(&[fidelity.clone(), fidelity], Look::Plain).contains("\n all"));
    }
}

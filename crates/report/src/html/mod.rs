//! Reports as one HTML file with tables, zoomable charts and flame graphs.
//!
//! A [`Page`] consists of sections of [`Part`]s. [`tables`] makes parts from tables of figures, and `study::page` makes
//! a whole page from a comparison. Other subcommands make parts from what they print. The page is a template, so texts
//! are escaped where they are inserted. The data of charts are JSON in the page ([`data`]), which `page.js` reads.
//!
//! A page opens without a network. Its styles, its script and the charts' library ([uPlot], MIT) are inside the page,
//! and a content security policy in its head forbids it to load anything else.
//!
//! [uPlot]: https://github.com/leeoniya/uPlot
//!
//! Next: [`data`].

pub mod data;
mod plain;
pub mod tables;

use crate::grid::{Cell, Grid, Tone};
use crate::plot::canvas;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::json;

pub use data::{Chart, Counters, Flame};

const PAGE_CSS: &str = include_str!("page.css");
const PAGE_JS: &str = include_str!("page.js");
const CHART_CSS: &str = include_str!("uplot/uPlot.min.css");
const CHART_JS: &str = include_str!("uplot/uPlot.iife.min.js");
const CHART_LICENSE: &str = include_str!("uplot/LICENSE");

/// The content security policy of a page, by which it may load only what is inside it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
                      form-action 'none'";

/// A report as an HTML page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Title of the page.
    pub title: String,
    /// Notes for a reader, one paragraph each.
    pub about: Vec<String>,
    /// Sections of the page.
    pub sections: Vec<Section>,
}

/// A section of a page, with an entry in the list at the head of the page.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The experiment that the section belongs to, if the page has sections for several experiments.
    pub of: Option<String>,
    /// Title of the section.
    pub title: String,
    /// Parts of the section.
    pub parts: Vec<Part>,
}

impl Section {
    /// Makes a section.
    pub fn new(title: impl Into<String>, parts: Vec<Part>) -> Self {
        Self { of: None, title: title.into(), parts }
    }

    /// Returns the heading of the section: its experiment, if any, then its title.
    fn heading(&self) -> String {
        self.of.as_ref().map_or_else(|| self.title.clone(), |of| format!("{of}: {}", self.title))
    }
}

/// A part of a section of an HTML page, such as a paragraph, a table or a chart.
#[derive(Clone, Debug)]
pub enum Part {
    /// A paragraph.
    Words(String),
    /// Lines that are not wrapped.
    Lines(Vec<String>),
    /// A command for a shell.
    Command(String),
    /// A heading within the section. A verdict may follow it.
    Heading(String),
    /// A table. A long table that is seldom needed may be folded.
    Table {
        /// Caption of the table.
        caption: String,
        /// Cells of the table.
        grid: Grid,
        /// True if the table is folded at first.
        is_folded: bool,
    },
    /// Several charts below each other.
    Charts(Vec<Chart>),
    /// Counters that the reader selects one by one.
    Counters(Counters),
    /// Time by call path, with a tree for each column. The reader selects the column.
    Flames(Vec<Flame>),
    /// A picture that this program has drawn, as SVG.
    Picture(String),
}

impl Part {
    /// Makes a table that is unfolded: its cells are shown as soon as the page opens.
    pub fn table(caption: impl Into<String>, grid: Grid) -> Self {
        Self::Table { caption: caption.into(), grid, is_folded: false }
    }

    /// Makes a table that shows only its caption until the user unfolds it.
    pub fn folded(caption: impl Into<String>, grid: Grid) -> Self {
        Self::Table { caption: caption.into(), grid, is_folded: true }
    }
}

/// The data for the page's script: one list for each kind of item. In the page, an item is named by its index in the
/// list.
#[derive(Default)]
struct Drawn {
    charts: Vec<serde_json::Value>,
    counters: Vec<serde_json::Value>,
    flames: Vec<serde_json::Value>,
}

impl Page {
    /// Returns the HTML file, with a line break at its end. Equal pages give equal bytes.
    #[must_use]
    pub fn render(&self) -> String {
        let mut drawn = Drawn::default();
        let sections: Vec<Markup> =
            self.sections.iter().enumerate().map(|(n, it)| section(n, it, &mut drawn)).collect();
        let Drawn { charts, counters, flames } = drawn;
        let parts = || self.sections.iter().flat_map(|it| &it.parts);
        let has_rows = parts().any(|it| matches!(it, Part::Table { .. }));
        let has_scripts = !(charts.is_empty() && counters.is_empty());
        let data = json!({ "charts": charts, "counters": counters, "flames": flames });
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="generator" content=(concat!("highwater ", env!("CARGO_PKG_VERSION")));
                    title { (self.title) }
                    style { (PreEscaped(PAGE_CSS)) (PreEscaped(inks())) @if has_scripts { (PreEscaped(CHART_CSS)) } }
                }
                body {
                    a.skip href="#content" { "Skip to the figures" }
                    header {
                        h1 { (self.title) }
                        button #theme type="button" title="Light, dark, or as the system has it" { "Theme: system" }
                        @for words in &self.about { p { (words) } }
                    }
                    nav aria-label="Sections" {
                        (links(&self.sections))
                        @if has_rows { label { "Rows with " input #filter type="search" placeholder="pgscan" autocomplete="off"; } }
                    }
                    main #content {
                        noscript { p.note { "Charts need scripts, which are off here. The tables do not." } }
                        @for it in &sections { (it) }
                    }
                    footer {
                        p { "Made by " (concat!("highwater ", env!("CARGO_PKG_VERSION"))) ". This file loads nothing." }
                        @if has_scripts {
                            details { summary { "Charts are drawn by uPlot 1.6.32, under the MIT licence" } pre { (CHART_LICENSE) } }
                        }
                    }
                    script #data type="application/json" { (PreEscaped(data::in_script(&data))) }
                    @if has_scripts { script { (PreEscaped(CHART_JS)) } }
                    script { (PreEscaped(PAGE_JS)) }
                }
            }
        };
        page.into_string() + "\n"
    }
}

/// Returns links to the sections. The links to consecutive sections of one experiment form a group, which begins with
/// the experiment's name.
fn links(sections: &[Section]) -> Markup {
    let mut n = 0;
    let mut link = |section: &Section| {
        n += 1;
        html! { a href={ "#s" (n - 1) } { (section.title) } }
    };
    html! {
        @for group in sections.chunk_by(|a, b| a.of == b.of) {
            @if let Some(of) = &group[0].of {
                span.of { b { (broken(of)) } @for it in group { (link(it)) } }
            } @else {
                @for it in group { (link(it)) }
            }
        }
    }
}

fn section(n: usize, section: &Section, drawn: &mut Drawn) -> Markup {
    let parts: Vec<Markup> = section.parts.iter().map(|it| part(it, drawn)).collect();
    html! {
        section id={ "s" (n) } aria-labelledby={ "t" (n) } {
            h2 id={ "t" (n) } { (section.heading()) }
            @for it in &parts { (it) }
        }
    }
}

fn part(part: &Part, drawn: &mut Drawn) -> Markup {
    match part {
        Part::Words(words) => html! { p { (words) } },
        Part::Heading(words) => html! { h3 { (words) } },
        Part::Lines(lines) => html! { pre tabindex="0" { (lines.join("\n")) } },
        Part::Command(command) => html! { pre.command tabindex="0" { code { (command) } } },
        Part::Table { caption, grid, is_folded: false } => table(caption, grid),
        Part::Table { caption, grid, is_folded: true } => html! {
            details { summary { (caption) } (table(caption, grid)) }
        },
        Part::Charts(charts) => html! {
            @for chart in charts {
                @let n = next(&mut drawn.charts, chart.json());
                figure.chart data-chart=(n) { figcaption { (chart.caption) } }
            }
        },
        Part::Counters(counters) => {
            let n = next(&mut drawn.counters, counters.json());
            html! {
                div.counters data-counters=(n) {
                    label { "Another counter: " select { option value="" { "choose one" } } }
                    @if counters.left_out > 0 {
                        p.note { (counters.left_out) " counters are left out of this file for its size; --series writes all." }
                    }
                }
            }
        }
        Part::Flames(flames) => {
            let trees: Vec<_> = flames.iter().map(Flame::json).collect();
            let n = next(&mut drawn.flames, trees.into());
            html! { div.flames data-flames=(n) {} }
        }
        Part::Picture(svg) => html! { div.picture tabindex="0" { (PreEscaped(without_style(svg))) } },
    }
}

/// Adds an item to a list. Returns the index of the item.
fn next(list: &mut Vec<serde_json::Value>, value: serde_json::Value) -> usize {
    list.push(value);
    list.len() - 1
}

/// Returns a grid as an HTML table. In `grid`, an empty line ends a block of lines, and a line with only a heading
/// names the block that follows.
fn table(caption: &str, grid: &Grid) -> Markup {
    let columns = grid.lines.iter().map(Vec::len).chain([grid.head.len()]).max().unwrap_or(0);
    let blocks = grid.lines.split(Vec::is_empty).filter(|block| !block.is_empty());
    let is_text = |column: usize| grid.texts.contains(&column);
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                @if grid.head.iter().any(|cell| !cell.text.is_empty()) {
                    thead { tr {
                        @for (n, cell) in grid.head.iter().enumerate() {
                            th scope="col" class=(if is_text(n) { "t" } else { "n" }) { (broken(&cell.text)) }
                        }
                    } }
                }
                @for block in blocks {
                    tbody { @for line in block { (row(line, columns, &is_text)) } }
                }
            }
        }
    }
}

fn row(line: &[Cell], columns: usize, is_text: &dyn Fn(usize) -> bool) -> Markup {
    let Some((first, rest)) = line.split_first() else { return Markup::default() };
    if rest.is_empty() && first.tone == Tone::Heading {
        return html! { tr.group { th scope="rowgroup" colspan=(columns) { (first.text) } } };
    }
    html! {
        tr.faint[first.tone == Tone::Faint] {
            th scope="row" { (broken(&first.text)) }
            @for (n, cell) in rest.iter().enumerate() { (data_cell(cell, is_text(n + 1))) }
        }
    }
}

fn data_cell(cell: &Cell, is_text: bool) -> Markup {
    let tone = match cell.tone {
        Tone::Better => " better",
        Tone::Worse => " worse",
        Tone::Faint => " faint",
        Tone::Heading => " strong",
        Tone::Plain => "",
    };
    let kind = if is_text { "t" } else { "n" };
    let best = if cell.is_best { " best" } else { "" };
    let text = cell.text.trim_end();
    let (figure, change) = match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        Some((figure, change)) if !is_text => (figure, Some(change.trim())),
        _ => (text, None),
    };
    html! {
        td class={ (kind) (tone) (best) } {
            @if is_text { (broken(figure)) } @else { (figure) }
            @if let Some(change) = change { " " span.change { "(" (change) ")" } }
            @if cell.is_best { span.star title="the best of its row" aria-label="the best of its row" { "★" } }
        }
    }
}

/// Returns a text as HTML in which its line breaks are kept, and in which a browser may break long names.
fn broken(text: &str) -> Markup {
    html! {
        @for (n, line) in text.lines().enumerate() {
            @if n > 0 { br; }
            @for (n, piece) in pieces(line).into_iter().enumerate() {
                @if n > 0 { wbr; }
                (piece)
            }
        }
    }
}

/// Splits a name into the pieces between which a line may be broken. A piece ends after `_` and `=`, and after a dot
/// before a letter, as in `lru.batch=3`.
fn pieces(name: &str) -> Vec<&str> {
    let bytes = name.as_bytes();
    let ends = (1..bytes.len()).filter(|end| match bytes[end - 1] {
        b'_' | b'=' => true,
        b'.' => bytes[*end].is_ascii_alphabetic(),
        _ => false,
    });
    let mut begin = 0;
    let mut pieces: Vec<&str> = ends.map(|end| &name[std::mem::replace(&mut begin, end)..end]).collect();
    pieces.push(&name[begin..]);
    pieces
}

/// Returns an SVG picture without its style sheet. In a page, this style sheet would apply to the whole page and
/// override the reader's choice of colours.
fn without_style(svg: &str) -> String {
    match (svg.find("<style>"), svg.find("</style>")) {
        (Some(begin), Some(end)) if begin < end => format!("{}{}", &svg[..begin], &svg[end + "</style>".len()..]),
        _ => svg.to_owned(),
    }
}

/// Returns a style sheet with the colours of lines, bars and pictures, for light and dark pages.
fn inks() -> String {
    let colors = |is_dark: bool| -> String {
        let series = canvas::SERIES.into_iter().enumerate();
        series.map(|(n, ink)| format!("--s{n}:#{:06x};", if is_dark { ink.dark() } else { ink.light() })).collect()
    };
    let dark_picture = |root: &str| -> String {
        let rule = |ink: canvas::Ink| {
            let (light, dark) = (ink.light(), ink.dark());
            format!(
                "{root} .picture [fill=\"#{light:06X}\"]{{fill:#{dark:06x}}}{root} .picture [stroke=\"#{light:06X}\"]{{stroke:#{dark:06x}}}"
            )
        };
        canvas::all_inks().map(rule).collect()
    };
    let system = ":root:not([data-theme=light])";
    let chosen = ":root[data-theme=dark]";
    format!(
        ":root{{{}}}@media screen and (prefers-color-scheme:dark){{{system}{{{}}}{}}}@media screen{{{chosen}{{{}}}{}}}",
        colors(false),
        colors(true),
        dark_picture(system),
        colors(true),
        dark_picture(chosen)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: &str = "</script><script>document.title='ran'</script><img src=x onerror=alert(1)>\"'&";

    fn page() -> Page {
        let grid = Grid {
            keys: 1,
            head: vec!["".into(), EVIL.into()],
            lines: vec![vec![Cell::new(EVIL, Tone::Heading)], vec![EVIL.into(), "12 ( 3.00%)".into()]],
            texts: vec![0],
        };
        let chart = Chart { caption: EVIL.into(), across: EVIL.into(), ..Chart::default() };
        let flame = Flame::of("a", &[("a;<script>;x".to_owned(), 3)].into());
        let parts = vec![
            Part::Words(EVIL.into()),
            Part::Lines(vec![EVIL.into()]),
            Part::Command(EVIL.into()),
            Part::Heading(EVIL.into()),
            Part::table(EVIL, grid),
            Part::Charts(vec![chart]),
            Part::Flames(vec![flame]),
        ];
        let section = Section { of: Some(EVIL.into()), ..Section::new(EVIL, parts) };
        Page { title: EVIL.into(), about: vec![EVIL.into()], sections: vec![section] }
    }

    #[test]
    fn no_text_becomes_an_element_or_ends_a_script() {
        let text = page().render();
        assert!(!text.contains("<script>document") && !text.contains("<img"), "{EVIL} went through");
        // The three scripts are the data, the library and the page's own script.
        assert_eq!(text.matches("<script").count(), 3);
        assert_eq!(text.matches("</script").count(), 3);
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        let text = page().render();
        let lower = text.to_lowercase();
        for word in ["src=\"", "src='", "url(", "@import", "fetch(", "xmlhttprequest", "<link", "<iframe", "import("] {
            assert!(!lower.contains(word), "{word}");
        }
        let hrefs = text.split("href=\"").skip(1);
        assert!(hrefs.clone().count() > 1 && hrefs.into_iter().all(|href| href.starts_with('#')));
    }

    #[test]
    fn a_change_stands_apart_from_its_figure() {
        let text = page().render();
        assert!(text.contains("12 <span class=\"change\">(3.00%)</span>"), "{text}");
    }

    #[test]
    fn a_long_name_may_be_broken_between_its_words() {
        assert_eq!(pieces("reclaim.kswapd_floor=one"), ["reclaim.", "kswapd_", "floor=", "one"]);
        assert_eq!(pieces("3.10-rc4"), ["3.10-rc4"]);
        assert_eq!(pieces("größe_. "), ["größe_", ". "]);
        assert_eq!(pieces(""), [""]);
    }

    #[test]
    fn a_picture_takes_the_colors_of_the_page() {
        let svg =
            "<svg xmlns=\"http://www.w3.org/2000/svg\"><title>t</title><style>x{}</style><g fill=\"#1F2328\"/></svg>";
        assert!(!without_style(svg).contains("style"));
        let inks = inks();
        assert!(inks.contains(":root[data-theme=dark] .picture [fill=\"#1F2328\"]{fill:#e6edf3}"), "{inks}");
    }
}

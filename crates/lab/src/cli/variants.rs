//! The verb `variants`: shows how the figures of an experiment change if its assumptions do.

use std::path::PathBuf;

use machine::Nanos;

use super::{
    End,
    beside::parse_every,
    compare, form,
    options::{ExperimentOptions, open_svg, parse_word},
    output::{self, Losses},
    with_command,
};
use report::html::{Part, Section};
use report::plot::{memory, of_tables};
use report::{ReportFormat, Show, answer, grid, html, markdown};
use study::plan::Request;
use study::variants::Variants;

/// Arguments of `highwater variants`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A name from `highwater list`, or a file
    experiment: String,
    /// The kernels, in place of the experiment's own; the first is the baseline
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    kernels: Vec<String>,
    #[command(flatten)]
    options: ExperimentOptions,
    /// Run only variants whose names contain this word, and the experiment without a change. Repeatable
    #[arg(long, value_name = "WORD")]
    variant: Vec<String>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
    /// Draw physical memory over time as SVG, with a line for each variant and a strip for each kernel; needs the
    /// ground `sim`
    #[arg(long, value_name = "FILE.svg")]
    memory_map: Option<PathBuf>,
    /// The interval of --memory-map, in seconds of the run
    #[arg(long, value_name = "SECONDS", requires = "memory_map", default_value = "1", value_parser = parse_every)]
    #[arg(allow_negative_numbers = true)]
    every: Nanos,
}

/// Runs an experiment without a change and with each of its variants, and shows some of the figures.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let Arguments { experiment, kernels, options, variant, format, memory_map, every } = arguments;
    form::check_is_file(*format)?;
    let request = options.request(experiment, kernels);
    if let Some(ground) = request.grounds.iter().find(|ground| memory_map.is_some() && ground.is_timed_by_the_wall()) {
        return Err(End::Usage(format!("--memory-map works on the ground `sim` alone, not on `{ground}`")));
    }
    let output = options.output.open(*format == ReportFormat::Html)?;
    let plot = options.picture.open()?;
    let map = open_svg("--memory-map", memory_map.as_deref())?;
    let request = Request { memory_every: map.is_some().then_some(*every), ..request };
    let variants = Variants::new(&request, &options.rows, variant, grounds::find)?;
    if options.output.is_dry(&variants.title(), &variants.plans().collect::<Vec<_>>(), true)? {
        return Ok(());
    }
    let (table, found, failures) = variants.run(options.seeds.threads());
    if table.rows.is_empty() && !failures.is_empty() {
        return Err(compare::failed(&failures));
    }
    let mut losses = Losses::default();
    if let Some(file) = plot {
        let svg = of_tables::variants(&table).draw();
        losses.note(file.write(|out| out.write_all(svg.as_bytes())));
    }
    if let Some(file) = map {
        let svg = memory::of_variants(&table, &found);
        losses.note(file.write(|out| out.write_all(svg.as_bytes())));
    }
    let answer = answer::of_variants(&table);
    losses.note(output::report(output, |out, look| match format {
        ReportFormat::Table => {
            let sentences: String = answer.iter().map(|it| grid::hanging("", it, look)).collect();
            let gap = if answer.is_empty() { "" } else { "\n" };
            out.write_all((sentences + gap).as_bytes())?;
            report::write(&table, *format, Show { look, ..Show::default() }, out)
        }
        ReportFormat::Markdown => {
            let sentences: String = answer.iter().map(|it| format!("{it}\n\n")).collect();
            out.write_all((sentences + &markdown::variants(&table)).as_bytes())
        }
        ReportFormat::Html => {
            let mut page = html::tables::page(&table, Show { look, ..Show::default() });
            page.about.splice(0..0, answer.iter().cloned());
            let picture = Part::Picture(of_tables::variants(&table).draw());
            page.sections.insert(1, Section::new("Picture", vec![picture]));
            out.write_all(with_command(page).render().as_bytes())
        }
        format => report::write(&table, *format, Show { look, ..Show::default() }, out),
    }));
    losses.note(compare::ended(&failures));
    losses.end()
}

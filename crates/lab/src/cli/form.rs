//! Output of tables: the destination and the form.

use super::{
    End,
    output::{self, Output, check_standard_output, why},
};
use clap::ValueEnum as _;
use kit::in_use;
use kit::in_use::Claim;
use kit::shown::warn;
use observe::import::write;
use report::html::Page;
use report::{ReportFormat, Show, Table};
use std::path::{Path, PathBuf};

/// A form of output with its destination, which was opened before the work begins.
pub struct Form {
    format: ReportFormat,
    /// The output file; none for standard output.
    pub file: Option<Output>,
    folder: Option<Folder>,
}

/// A directory that will be made. It is claimed, so that no other option of the command may write there.
struct Folder {
    path: PathBuf,
    _claim: Claim,
}

impl Form {
    /// Opens the file at `path`, or standard output if `path` is none. If the format is a directory of MMTests, opens
    /// nothing, and checks that the directory at `path` does not exist or is empty.
    ///
    /// # Errors
    /// Reports wrong usage when the destination cannot be written to.
    pub fn open(format: ReportFormat, path: Option<&Path>) -> Result<Self, End> {
        if format != ReportFormat::Mmtests {
            if path.is_none() {
                check_standard_output()?;
            }
            let file = output::open_report(format == ReportFormat::Html, path)?;
            return Ok(Self { format, file, folder: None });
        }
        let Some(path) = path else {
            return Err(End::Usage("--format mmtests writes a directory: name it with --output".into()));
        };
        let told = |error| End::Usage(format!("cannot write to {}: {}", path.display(), why(&error)));
        write::check(path).map_err(told)?;
        let claim = in_use::writes("--output", path, None).map_err(End::Usage)?;
        Ok(Self { format, file: None, folder: Some(Folder { path: path.to_owned(), _claim: claim }) })
    }

    /// Writes a table in the requested form. `show` has the options for its display. `page` is called to make an HTML
    /// page.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub fn write(self, table: &Table, show: Show, page: impl Fn(Show) -> Page) -> Result<(), End> {
        self.write_all(&[table], show, page)
    }

    /// Writes several tables. If the destination is a directory of MMTests, there must be only one table.
    ///
    /// # Errors
    /// When the tables cannot be written.
    pub fn write_all(self, tables: &[&Table], show: Show, page: impl Fn(Show) -> Page) -> Result<(), End> {
        let Self { format, file, folder } = self;
        if let (Some(Folder { path: folder, .. }), [table]) = (folder, tables) {
            output::check_apart()?;
            let told = |error| End::Failed(format!("cannot write to {}: {}", folder.display(), why(&error)));
            return write::directory(table, &folder).map_err(told);
        }
        if format == ReportFormat::Csv {
            // CSV has no place for notes, so they become warnings.
            tables.iter().flat_map(|table| &table.notes).for_each(|note| warn(note));
        }
        output::report(file, |out, look| {
            let show = Show { look, ..show };
            match format {
                ReportFormat::Html => out.write_all(page(show).render().as_bytes()),
                format => report::write_all(tables, format, show, out),
            }
        })
    }
}

/// Refuses the form `mmtests`, which is a directory, for a command whose report is always one file.
///
/// # Errors
/// Reports wrong usage when such a directory is requested.
pub fn check_is_file(format: ReportFormat) -> Result<(), End> {
    match format {
        ReportFormat::Mmtests => {
            let others: Vec<_> = ReportFormat::value_variants()
                .iter()
                .filter(|it| **it != ReportFormat::Mmtests)
                .filter_map(|it| Some(it.to_possible_value()?.get_name().to_owned()))
                .collect();
            Err(End::Usage(format!(
                "--format mmtests is one of `run`, `compare`, `stat`, `report` and `import`; the formats here: {}",
                others.join(", ")
            )))
        }
        _ => Ok(()),
    }
}

//! [`Wrong`]: a fault in a file that another program or a user wrote.

use std::{fmt, path::Path};

/// A fault in a file that another program or a user wrote, with the place of the fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The file that has the fault.
    pub file: String,
    /// The number of the line, from 1; `None` if the fault concerns the whole file.
    pub line: Option<usize>,
    /// The fault in words, with what was expected instead.
    pub what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, what } = self;
        match line {
            Some(line) => write!(f, "{file}:{line}: {what}"),
            None => write!(f, "{file}: {what}"),
        }
    }
}

impl std::error::Error for Wrong {}

impl Wrong {
    /// Makes a fault in line `line` of a file. The argument `line` is counted from 0; the field `line` is counted from
    /// 1.
    #[must_use]
    pub fn at(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: Some(line + 1), what: what.into() }
    }

    /// Returns the fault to report for a file that is compressed, but not with gzip.
    #[must_use]
    pub fn packed(path: &Path) -> Self {
        Self::of(
            &path.display().to_string(),
            "it is packed in a way that is not read: expected it plain, or packed by gzip",
        )
    }

    /// Makes a fault that concerns the whole file.
    #[must_use]
    pub fn of(file: &str, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, what: what.into() }
    }
}

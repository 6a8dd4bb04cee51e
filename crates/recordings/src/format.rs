//! The interface between text formats and their readers. [`crate::formats`] lists all formats.

use crate::text::{Block, LeftOut, Line};
use crate::{Figures, Sample, looks};
use kit::wrong::Wrong;
use std::collections::BTreeMap;

/// A text format, with functions that recognise and read texts in this format.
pub struct Format {
    /// The format's name, which is that of a command or a file.
    pub name: &'static str,
    /// The features by which the format is recognised, in words for a message.
    pub how: &'static str,
    /// Returns whether a block (consecutive lines in this format) begins at the first of the given lines. The function
    /// may also look at the lines after the first.
    pub begins: fn(&[Line<'_>]) -> bool,
    /// Returns whether a line can only be a further line of a block in this format. Then no block in another format
    /// begins at the line.
    pub holds: fn(&str) -> bool,
    /// Reads a block (lines in this format). Lines that do not belong to the format are left out, and added to the
    /// [`LeftOut`].
    pub read: fn(&Block<'_>, &mut LeftOut) -> Result<Vec<Told>, Wrong>,
}

/// The contents of a block of lines, as its reader found them.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Figures over time.
    Recording(Recording),
    /// Levels and counters at a moment, such as a file of `/proc` has.
    Look(looks::Told),
}

/// Figures over time, named as in the tool that wrote them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The name of the tool.
    pub tool: &'static str,
    /// The name of the computer; none if unknown.
    pub host: Option<String>,
    /// The version of the computer's kernel, such as `6.1.0-18-amd64`; none if unknown.
    pub kernel: Option<String>,
    /// The samples, in the order of the text.
    pub samples: Vec<Sample>,
    /// Figures of disks, by the disk's name.
    pub disks: BTreeMap<String, Vec<Figures>>,
    /// True if the text states the times of the samples, from which their lengths follow.
    pub has_times: bool,
    /// Facts that the reader assumed because the text does not state them.
    pub assumed: Vec<String>,
}

impl Recording {
    /// Appends a later recording from the same computer. If the times of `later` begin before the last time of this
    /// recording, as many whole days are added to them as are needed.
    pub fn append(&mut self, later: Self) {
        const DAY: f64 = 86_400.0;
        let last = self.samples.iter().rev().find_map(|sample| sample.at_s);
        let first = later.samples.iter().find_map(|sample| sample.at_s);
        let days = last.zip(first).map_or(0.0, |(last, first)| ((last - first) / DAY).ceil().max(0.0));
        self.samples.extend(later.samples.into_iter().map(|mut sample| {
            sample.at_s = sample.at_s.map(|at_s| at_s + days * DAY);
            sample
        }));
        for (name, figures) in later.disks {
            self.disks.entry(name).or_default().extend(figures);
        }
        self.has_times &= later.has_times;
        let new: Vec<String> = later.assumed.into_iter().filter(|it| !self.assumed.contains(it)).collect();
        self.assumed.extend(new);
    }
}

//! The interface between formats of text and their readers. [`crate::formats`] lists all formats.

use crate::text::{Block, LeftOut, Line};
use crate::{Figures, Sample, looks};
use kit::wrong::Wrong;
use std::collections::BTreeMap;

/// A format of text.
pub struct Format {
    /// The format's name: that of the command or the file.
    pub name: &'static str,
    /// The signs by which it is recognised.
    pub how: &'static str,
    /// Returns whether these lines begin a block of the format. The first line begins it; later ones may be examined.
    pub begins: fn(&[Line<'_>]) -> bool,
    /// Returns whether a line certainly belongs to a block that has begun, so that no other format begins there.
    pub holds: fn(&str) -> bool,
    /// Reads a block. Other lines are left out and noted.
    pub read: fn(&Block<'_>, &mut LeftOut) -> Result<Vec<Told>, Wrong>,
}

/// The contents of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Figures over time.
    Recording(Recording),
    /// Levels and counters at a moment, such as a file of `/proc`.
    Look(looks::Told),
}

/// Figures over time, under the names of the tool that wrote them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The tool.
    pub tool: &'static str,
    /// The computer, if its name is known.
    pub host: Option<String>,
    /// The version of its kernel, if known: `6.1.0-18-amd64`.
    pub kernel: Option<String>,
    /// The samples, in the order of the text.
    pub samples: Vec<Sample>,
    /// Figures of disks, by name.
    pub disks: BTreeMap<String, Vec<Figures>>,
    /// Whether the text gives the length of each sample.
    pub has_times: bool,
    /// Facts that the reader assumed because the text does not state them.
    pub assumed: Vec<String>,
}

impl Recording {
    /// Appends a later file of the same computer.
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

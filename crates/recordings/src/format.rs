//! What a format of text is, and what its reader gives. The table of all is [`crate::formats`].

use crate::text::{Block, LeftOut, Line};
use crate::{Figures, Sample, looks};
use kit::wrong::Wrong;
use std::collections::BTreeMap;

/// A format of text.
pub struct Format {
    /// Its name: the command or the file that it is the text of.
    pub name: &'static str,
    /// The signs by which it is recognised.
    pub how: &'static str,
    /// Returns whether these lines begin a block of it. The first does, and those behind it may be looked at.
    pub begins: fn(&[Line<'_>]) -> bool,
    /// Returns whether a line is surely one of a block that has begun. No other format begins there.
    pub holds: fn(&str) -> bool,
    /// Reads a block. Lines that are none of it are left out, and noted.
    pub read: fn(&Block<'_>, &mut LeftOut) -> Result<Vec<Told>, Wrong>,
}

/// The contents of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Figures over time.
    Recording(Recording),
    /// Levels and counters at a moment.
    Look(looks::Told),
}

/// Figures over time, under the names of the tool that wrote them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The tool.
    pub tool: &'static str,
    /// The computer, where its name is told.
    pub host: Option<String>,
    /// The version of its kernel, where that is told: `6.1.0-18-amd64`.
    pub kernel: Option<String>,
    /// The samples, in the order of the text.
    pub samples: Vec<Sample>,
    /// Figures of disks, by name.
    pub disks: BTreeMap<String, Vec<Figures>>,
    /// True where the text tells how long each sample is.
    pub has_times: bool,
    /// Facts that the text does not tell and the reader assumed.
    pub assumed: Vec<String>,
}

impl Recording {
    /// Adds what a later file of the same computer tells.
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

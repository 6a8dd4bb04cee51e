//! Text of `strace -f`, best with `-y -ttt -e trace=%file,%desc,%process`: calls on files, with the descriptors of each
//! process.
//!
//! The flow: [`line`] takes a line apart and joins calls that another task interrupted; [`calls`] gives each call's
//! meaning; [`tables`] has the descriptors, mappings and names that calls refer to.
//!
//! With `-y` strace itself names the file of a descriptor. Without `-y`, descriptors are followed from `open` on. A
//! task whose start was not traced gets the descriptor table of the task that the line before belongs to. Accesses
//! through mappings are not in the text.

mod calls;
mod line;
mod tables;

use super::{Format, Opened, most_lines};
use crate::read::{Options, Parser, Shape, Sink};
use crate::request::Kind;
use line::{Line, Spoken};
use std::collections::HashMap;

/// The format `strace`: system calls, as strace prints them.
pub static FORMAT: Format = Format {
    name: "strace",
    about: "strace -f -y -ttt -e trace=%file,%desc,%process",
    recognise: |start| most_lines(start, line::is_line),
    open: |_, _: &Options| -> Result<Opened, String> { Ok((Shape::Lines, Kind::Ranges, Box::<Strace>::default())) },
};

/// Largest number of bytes of an unfinished call that are kept: enough for two paths in which every byte is escaped.
const START_MAX: usize = 1 << 16;
/// Most system calls that may be pending at a time: strace has printed their start (`<unfinished ...>`), but not yet
/// their end.
const UNFINISHED_MAX: usize = 1 << 14;

#[derive(Default)]
struct Strace {
    clock: line::Clock,
    /// For each process with an unfinished call, the first part of the call's text.
    unfinished: HashMap<u64, Vec<u8>>,
    world: tables::World,
}

impl Parser for Strace {
    fn parse(&mut self, text: &[u8], sink: &mut Sink) -> Result<(), String> {
        let Some(Line { process, time, spoken }) = line::split(text)? else { return Ok(()) };
        let time_us = self.clock.at(time);
        let joined;
        let call = match spoken {
            Spoken::Nothing => return Ok(()),
            Spoken::Exit => {
                self.unfinished.remove(&process);
                return self.world.exit(process, time_us, sink);
            }
            Spoken::Unfinished(start) => {
                if start.len() > START_MAX || self.unfinished.len() >= UNFINISHED_MAX {
                    return Err("a call that is not finished, beyond what is kept of such calls".to_owned());
                }
                calls::begins(process, start, &mut self.world);
                self.unfinished.insert(process, start.to_vec());
                return Ok(());
            }
            Spoken::Resumed(rest) => {
                // The start may lie before the trace.
                let Some(mut start) = self.unfinished.remove(&process) else { return Ok(()) };
                start.extend_from_slice(rest);
                joined = start;
                line::call(&joined)?
            }
            Spoken::Call(text) => line::call(text)?,
        };
        calls::act(&call, &mut self.world.of(process, time_us, sink), sink)
    }
}

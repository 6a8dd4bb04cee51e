//! [`Synth`]: makes the requests of a trace from patterns and a seed.

use crate::hwtrace::{Metadata, Writer};
use crate::names::Names;
use crate::operation::Operation;
use crate::request::{Kind, PAGE_BYTES, Request, page_key};
use kit::input::why;
use kit::wrong::Wrong;
use sim::Rng;
use sim::choose::{Chooser, Distribution};
use std::fmt;
use std::io::Write;
use std::str::FromStr;

/// Order in which a pattern accesses its set of pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sequence {
    /// The pages are chosen at random; the page of rank r with a probability proportional to r^-theta. The most
    /// frequent pages do not lie side by side.
    Zipf {
        /// The exponent of Zipf's law, above 0 and at most 10.
        theta: f64,
    },
    /// The pages are chosen at random, all equally often.
    Uniform,
    /// One page after the other, without end. No page is accessed twice.
    Scan,
    /// One page after the other, again and again.
    Loop,
    /// New pages, one after the other. After each, the page that was new `after` new pages before is accessed a second
    /// time, with the probability `again`. No page is accessed a third time.
    Twice {
        /// Number of new pages between the two accesses to a page, at least 1.
        after: u64,
        /// Share of the pages that are accessed a second time, from 0 to 1.
        again: f64,
    },
    /// A page that was accessed lately, with the probability `again`, otherwise a new page. The distance to the earlier
    /// access has an exponential distribution.
    Recent {
        /// Mean distance to the earlier access, requests of the pattern, at least 1.
        after: u64,
        /// Share of the requests that access a page again, from 0 to 1.
        again: f64,
    },
}

impl Sequence {
    /// All orders, by the names of their patterns, with the usual values.
    const ALL: [(&str, Self); 6] = [
        ("zipf", Self::Zipf { theta: 1.0 }),
        ("uniform", Self::Uniform),
        ("scan", Self::Scan),
        ("loop", Self::Loop),
        ("twice", Self::Twice { after: 0, again: 1.0 }),
        ("recent", Self::Recent { after: 0, again: 0.8 }),
    ];

    fn name(&self) -> &'static str {
        let is_it = |known: &&(&str, Self)| std::mem::discriminant(&known.1) == std::mem::discriminant(self);
        Self::ALL.iter().find(is_it).map_or("", |known| known.0)
    }

    /// Returns whether the pattern chooses from a set of pages. Otherwise it goes on to new pages without end.
    const fn has_set(&self) -> bool {
        matches!(self, Self::Zipf { .. } | Self::Uniform | Self::Loop)
    }
}

/// A pattern of accesses. As text, a pattern looks like `zipf:pages=1M,theta=0.9,reads=0.7`. Each pattern accesses a
/// file of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// The order in which the pattern accesses its pages.
    pub order: Sequence,
    /// Number of pages (or objects) in the set that the pattern accesses; 0 if it has no set ([`Sequence::Scan`],
    /// [`Sequence::Twice`], [`Sequence::Recent`]).
    pub pages: u64,
    /// Relative frequency of the pattern: with weight 3, its requests come three times as often as those of a pattern
    /// with weight 1.
    pub weight: u64,
    /// Share of the requests that read. All other requests write.
    pub reads: f64,
    /// Length of each request, in pages. If it is more than 1, the set of pages is divided into blocks of this length,
    /// and each request accesses one block.
    pub len: u64,
    /// Number of requests of this pattern after which its set of pages moves; 0 if the set never moves.
    pub shift_every: u64,
    /// Number of pages by which the set of accessed pages moves at each shift. The first pages of the set are then no
    /// longer accessed.
    pub shift_by: u64,
}

/// Largest number of pages of a set, and largest number in the text of a pattern, because page keys have 40 bits.
const PAGES_MAX: u64 = 1 << 40;
/// Largest set from which pages are drawn at random, in pages. For a larger set, a random number of 64 bits would be
/// too coarse for Zipf's law.
const DRAWN_MAX: u64 = 1 << 36;
/// Largest mean distance of [`Sequence::Recent`], which remembers 64 times as many requests, with 8 bytes each.
const RECENT_MAX: u64 = 1 << 20;
const WEIGHT_MAX: u64 = 1_000_000;

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let known = Sequence::ALL.into_iter().find(|known| known.0 == name);
        let names = || Sequence::ALL.map(|known| known.0).join(", ");
        let (_, order) = known.ok_or_else(|| format!("`{name}` is no pattern: expected one of {}", names()))?;
        let (pages, shift_every, shift_by) = (0, 0, 0);
        let mut pattern = Self { order, pages, weight: 1, reads: 1.0, len: 1, shift_every, shift_by };
        let mut seen = Vec::new();
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("`{part}`: expected key=value"))?;
            if seen.contains(&key) {
                return Err(format!("`{part}`: `{key}` a second time"));
            }
            seen.push(key);
            pattern.set(key, value).map_err(|what| format!("`{part}`: {what}"))?;
        }
        pattern.check().map_err(|what| format!("`{text}`: {what}"))?;
        Ok(pattern)
    }
}

impl Pattern {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let share = || value.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        match key {
            "pages" | "objects" => self.pages = number(value)?,
            "weight" => self.weight = number(value)?,
            "len" => self.len = number(value)?,
            "shift-every" => self.shift_every = number(value)?,
            "shift-by" => self.shift_by = number(value)?,
            "reads" => self.reads = share().ok_or("expected a share from 0 to 1")?,
            "after" => match &mut self.order {
                Sequence::Twice { after, .. } | Sequence::Recent { after, .. } => *after = number(value)?,
                _ => return Err("only twice and recent have it".to_owned()),
            },
            "again" => match &mut self.order {
                Sequence::Twice { again, .. } | Sequence::Recent { again, .. } => {
                    *again = share().ok_or("expected a share from 0 to 1")?;
                }
                _ => return Err("only twice and recent have it".to_owned()),
            },
            "theta" => match &mut self.order {
                Sequence::Zipf { theta } => {
                    let given = value.parse::<f64>().ok().filter(|theta| *theta > 0.0 && *theta <= 10.0);
                    *theta = given.ok_or("expected a number above 0 and at most 10")?;
                }
                _ => return Err("only zipf has it".to_owned()),
            },
            _ => {
                let known = "pages, theta, after, again, weight, reads, len, shift-every, shift-by";
                return Err(format!("`{key}` is no key of a pattern: expected one of {known}"));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let is_drawn = matches!(self.order, Sequence::Zipf { .. } | Sequence::Uniform);
        let limits = [
            ("weight", self.weight, 1, WEIGHT_MAX),
            // An access has at most 4 GiB.
            ("len", self.len, 1, Request::ACCESS_MAX / PAGE_BYTES),
        ];
        for (name, value, least, most) in limits {
            if !(least..=most).contains(&value) {
                return Err(format!("{name} {value}: expected {least} to {most}"));
            }
        }
        let most = if matches!(self.order, Sequence::Recent { .. }) { RECENT_MAX } else { PAGES_MAX };
        if let Sequence::Twice { after, .. } | Sequence::Recent { after, .. } = self.order
            && !(1..=most).contains(&after)
        {
            let name = self.order.name();
            return Err(format!("after {after}: `{name}` needs `after=` from 1 to {most}, as in {name}:after=400"));
        }
        if !self.order.has_set() {
            let is_plain = self.pages == 0 && self.shift_every == 0 && self.shift_by == 0;
            let name = self.order.name();
            return if is_plain {
                Ok(())
            } else {
                Err(format!("`{name}` has no set: expected no `pages` and no shift"))
            };
        }
        let most = if is_drawn { DRAWN_MAX } else { PAGES_MAX };
        if self.pages < self.len || self.pages > most {
            return Err(format!("pages {}: expected `pages=` from {} to {most}", self.pages, self.len));
        }
        if (self.shift_every == 0) != (self.shift_by == 0) {
            return Err("expected both shift-every and shift-by, or neither".to_owned());
        }
        Ok(())
    }

    /// Returns the number of the page after the last page that `requests` requests of the pattern may touch.
    fn end(&self, requests: u64) -> u128 {
        let (requests, len) = (u128::from(requests), u128::from(self.len));
        if !self.order.has_set() {
            return requests * len;
        }
        u128::from(self.pages)
            + requests.checked_div(u128::from(self.shift_every)).unwrap_or(0) * u128::from(self.shift_by)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut keys = Vec::new();
        let name = self.order.name();
        if self.order.has_set() {
            keys.push(format!("pages={}", self.pages));
        }
        if let Sequence::Zipf { theta } = self.order {
            keys.push(format!("theta={theta}"));
        }
        if let Sequence::Twice { after, again } | Sequence::Recent { after, again } = self.order {
            keys.extend([format!("after={after}"), format!("again={again}")]);
        }
        let others = [
            ("weight", self.weight, 1),
            ("len", self.len, 1),
            ("shift-every", self.shift_every, 0),
            ("shift-by", self.shift_by, 0),
        ];
        keys.extend(
            others.iter().filter(|(_, value, usual)| value != usual).map(|(key, value, _)| format!("{key}={value}")),
        );
        if self.reads < 1.0 {
            keys.push(format!("reads={}", self.reads));
        }
        write!(f, "{name}{}{}", if keys.is_empty() { "" } else { ":" }, keys.join(","))
    }
}

/// Parses a whole number with an optional unit: `k`, `M` or `G` (powers of 1000), or `Ki`, `Mi` or `Gi` (powers of
/// 1024). The number may be at most 2^40.
///
/// # Errors
/// When `text` is no such number.
pub fn number(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => 0,
    };
    let value = digits.parse::<u64>().ok().filter(|_| unit > 0).and_then(|value| value.checked_mul(unit));
    value.filter(|value| *value <= PAGES_MAX).ok_or_else(|| {
        format!("`{text}`: expected a whole number such as 500, 10k or 2M (also G, Ki, Mi, Gi), at most {PAGES_MAX}")
    })
}

/// Settings of a generated trace, apart from its patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of requests.
    pub requests: u64,
    /// The seed of all random choices. The same patterns, settings and seed give the same requests on every computer.
    pub seed: u64,
    /// Number of requests per second of the trace's time, at least 1.
    pub rate: u64,
    /// The kind of the trace: its requests address ranges of files, or objects.
    pub kind: Kind,
    /// Smallest and largest size of objects, bytes. The logarithms of the sizes are spread evenly. An object keeps its
    /// size.
    pub object_bytes: (u64, u64),
}

impl Default for Settings {
    fn default() -> Self {
        Self { requests: 1_000_000, seed: 1, rate: 10_000, kind: Kind::Ranges, object_bytes: (1, 1) }
    }
}

/// Generates the requests of several patterns, mixed at random by the weights of the patterns.
#[derive(Debug)]
pub struct Synth {
    settings: Settings,
    states: Vec<State>,
    weights: u64,
    rng: Rng,
    made: u64,
}

/// A pattern, and the state of the generator of its requests.
#[derive(Debug)]
struct State {
    pattern: Pattern,
    chooser: Option<Chooser>,
    rng: Rng,
    /// Number of requests that this pattern has made so far.
    made: u64,
    reads_of_65536: u32,
    /// Number of blocks that a pattern without a set has accessed so far.
    new: u64,
    /// The blocks of the last requests of [`Sequence::Recent`], as a ring; for [`Sequence::Twice`], the block that comes next if
    /// it is no new one.
    last: Vec<u64>,
}

/// Number of mean distances after which [`Sequence::Recent`] forgets a request. A longer distance has a probability of
/// 10^-28.
const FORGOTTEN: u64 = 64;

impl State {
    fn new(pattern: Pattern, rng: Rng) -> Self {
        let blocks = pattern.pages / pattern.len;
        let chooser = match pattern.order {
            Sequence::Zipf { theta } => Some(Chooser::new(Distribution::Zipf, theta, blocks)),
            Sequence::Uniform => Some(Chooser::new(Distribution::Uniform, 0.0, blocks)),
            Sequence::Scan | Sequence::Loop | Sequence::Twice { .. } | Sequence::Recent { .. } => None,
        };
        let reads_of_65536 = (pattern.reads * 65536.0).round() as u32;
        Self { pattern, chooser, rng, made: 0, reads_of_65536, new: 0, last: Vec::new() }
    }

    /// Returns the first page and the operation of the next request.
    fn next(&mut self) -> (u64, Operation) {
        let Pattern { pages, len, shift_every, shift_by, .. } = self.pattern;
        let block = match (&self.chooser, self.pattern.order) {
            (Some(chooser), _) => chooser.next(&mut self.rng),
            (None, Sequence::Twice { after, again }) => self.twice(after, again),
            (None, Sequence::Recent { after, again }) => self.recent(after, again),
            (None, Sequence::Scan) => self.made,
            (None, _) => self.made % (pages / len),
        };
        let moved = self.made.checked_div(shift_every).unwrap_or(0) * shift_by;
        self.made += 1;
        let is_read = self.reads_of_65536 >= 65536 || self.rng.chance(self.reads_of_65536);
        (moved + block * len, if is_read { Operation::Read } else { Operation::Write })
    }

    /// Returns the number of a block that was not accessed before.
    const fn new_block(&mut self) -> u64 {
        self.new += 1;
        self.new - 1
    }

    fn twice(&mut self, after: u64, again: f64) -> u64 {
        if let Some(block) = self.last.pop() {
            return block;
        }
        let block = self.new_block();
        if let Some(earlier) = block.checked_sub(after)
            && unit(&mut self.rng) < again
        {
            self.last.push(earlier);
        }
        block
    }

    fn recent(&mut self, after: u64, again: f64) -> u64 {
        let known = after.saturating_mul(FORGOTTEN);
        // The distance in requests: 0 is the request before this one.
        let distance = (-libm::log(1.0 - unit(&mut self.rng)) * after as f64) as u64;
        let is_again = unit(&mut self.rng) < again;
        let block = match self.made.checked_sub(distance + 1) {
            Some(earlier) if is_again && distance < known => self.last[(earlier % known) as usize],
            _ => self.new_block(),
        };
        match self.last.get_mut((self.made % known) as usize) {
            Some(last) => *last = block,
            None => self.last.push(block),
        }
        block
    }
}

/// Returns a random number from 0 up to, but not including, 1.
fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

impl Synth {
    /// Makes the generator in its state before the first request.
    ///
    /// # Errors
    /// When there is no pattern, when a pattern would leave the range of page numbers, or when a setting makes no
    /// sense.
    pub fn new(patterns: Vec<Pattern>, settings: Settings) -> Result<Self, String> {
        let Settings { requests, seed, rate, kind, object_bytes: (least, most) } = settings;
        if patterns.is_empty() || patterns.len() > 1000 {
            return Err(format!("{} patterns: expected 1 to 1000", patterns.len()));
        }
        if rate == 0 || u128::from(requests) * 1_000_000 / u128::from(rate) >= u128::from(Request::TIME_LIMIT_US) {
            return Err(format!("{requests} requests at {rate} a second: expected less than nine years"));
        }
        if least > most || most >= Request::LEN_LIMIT {
            return Err(format!(
                "objects of {least} to {most} bytes: expected less than {}, the smallest first",
                Request::LEN_LIMIT
            ));
        }
        for pattern in &patterns {
            if pattern.end(requests) > u128::from(PAGES_MAX) {
                return Err(format!("`{pattern}`: {requests} requests may go beyond page {PAGES_MAX} of a file"));
            }
            if kind == Kind::Objects && pattern.len != 1 {
                return Err(format!("`{pattern}`: a request has one object: expected no `len`"));
            }
        }
        let weights = patterns.iter().map(|pattern| pattern.weight).sum();
        let states = (1..).zip(patterns).map(|(stream, pattern)| State::new(pattern, Rng::new(seed, stream))).collect();
        Ok(Self { settings, states, weights, rng: Rng::new(seed, 0), made: 0 })
    }

    /// Returns the names of the files. Each pattern has a file, whose name is the text of the pattern. A trace of
    /// objects has no files.
    #[must_use]
    pub fn files(&self) -> Names {
        let mut names = Names::new();
        if self.settings.kind == Kind::Ranges {
            self.states.iter().for_each(|state| {
                names.push(state.pattern.to_string().as_bytes());
            });
        }
        names
    }

    /// Returns the metadata of the trace: its format, patterns and settings.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        let patterns: Vec<String> = self.states.iter().map(|state| state.pattern.to_string()).collect();
        let Settings { requests, seed, rate, .. } = self.settings;
        let mut metadata = Metadata::new();
        metadata.insert("format".to_owned(), "synth".into());
        metadata.insert("source".to_owned(), patterns.join(" ").into());
        for (key, value) in [("seed", seed), ("requests", requests), ("rate", rate)] {
            metadata.insert(key.to_owned(), value.into());
        }
        metadata
    }

    /// Writes all requests as a trace in the format `.hwtrace`.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn write(mut self, out: impl Write) -> Result<(), Wrong> {
        let failed = |error: std::io::Error| Wrong::of("output", why(&error));
        let mut writer = Writer::new(out, self.settings.kind).map_err(failed)?;
        for request in &mut self {
            writer.push(&request).map_err(failed)?;
        }
        writer.finish(&self.files(), &Names::new(), &self.metadata()).map_err(failed)?;
        Ok(())
    }
}

impl Iterator for Synth {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let Settings { requests, rate, kind, object_bytes, .. } = self.settings;
        if self.made == requests {
            return None;
        }
        let time_us = (u128::from(self.made) * 1_000_000 / u128::from(rate)) as u64;
        self.made += 1;
        let mut drawn = if self.states.len() == 1 { 0 } else { self.rng.below(self.weights) };
        let file = self.states.iter().position(|state| {
            let is_it = drawn < state.pattern.weight;
            drawn = drawn.wrapping_sub(state.pattern.weight);
            is_it
        })?;
        let state = &mut self.states[file];
        let (page, operation) = state.next();
        let request = Request { time_us, operation, ..Request::default() };
        Some(match kind {
            Kind::Ranges => {
                let len = state.pattern.len * PAGE_BYTES;
                Request { file: file as u32, offset: page * PAGE_BYTES, len, ..request }
            }
            Kind::Objects => {
                let key = page_key(file as u32, page);
                Request { offset: key, len: size_of(key, object_bytes), ..request }
            }
        })
    }
}

/// Returns the size of an object, bytes. An object always has the same size, because the size is computed from its key.
fn size_of(key: u64, (least, most): (u64, u64)) -> u64 {
    if least == most {
        return least;
    }
    let unit = unit(&mut Rng::new(key, 0));
    let (low, high) = (libm::log(least.max(1) as f64), libm::log(most as f64 + 1.0));
    (libm::exp(low + unit * (high - low)) as u64).clamp(least, most)
}

#[cfg(test)]
mod tests;

//! A step of a task: an action, how often it is done, at which pace, and the row that its durations go to.

use super::within::within;
use crate::choose::Distribution;
use machine::Nanos;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A step of a task.
#[derive(Clone, Debug)]
pub struct Step {
    /// The action of the step.
    pub action: Action,
    /// The number of operations of the step, or the time for which the step repeats its action.
    pub repeated: Repeated,
    /// Rate at which operations begin, operations per second for each task; none: each begins when the one before it
    /// has ended.
    pub rate: Option<f64>,
    /// Sleep of the task after each operation.
    pub think: Nanos,
    /// Name under which the report lists the durations of the operations, such as `Read`; none: the durations are not
    /// reported.
    pub row: Option<String>,
    /// Number of writes after which the step syncs its file; 0: the step never syncs it.
    pub sync_every: u64,
    /// Name of the row that shows the durations of the writes, if the step reads and writes. None: the row of the reads
    /// shows them, too.
    pub write_row: Option<String>,
    /// Name of the row that shows the durations of the syncs after every `sync_every` writes. None: no row shows them.
    pub sync_row: Option<String>,
    /// True if all operations of the step together count as one operation, whose duration is that of the whole step.
    pub is_one: bool,
    /// The table from which the step was read. A step is written as this table.
    text: Text,
}

/// The number of times that a step does its action, or the time for which it repeats the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated {
    /// The step does this number of operations.
    Operations(u64),
    /// The step does this percentage of the operations that would use each page of the file or region once.
    Percent(u64),
    /// The step does operations for this time.
    For(Nanos),
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Reads from a file. With a probability of `write_percent` percent, writes to the file instead.
    Read {
        /// Name of the file.
        file: String,
        /// The places in the file that are read.
        places: Places,
        /// Share of operations that write, percent.
        write_percent: u64,
    },
    /// Writes to a file.
    Write {
        /// Name of the file.
        file: String,
        /// The places in the file to which the step writes.
        places: Places,
    },
    /// Reads a page of a region through the mapping. Then, with a probability of `store_percent` percent, writes to the
    /// page.
    Touch {
        /// Name of the region.
        region: String,
        /// The pages that are touched.
        places: Places,
        /// Share of touches that also write to the page, percent.
        store_percent: u64,
    },
    /// Waits until everything written to the file with this name is on the device.
    Sync(String),
    /// Maps the region with this name.
    Map(String),
    /// Unmaps the region with this name.
    Unmap(String),
    /// Sleeps for this time.
    Sleep(Nanos),
    /// Keeps a CPU busy for this time.
    Compute(Nanos),
    /// Adds 1 to the counter of the signal with this name. Other tasks wait for the counter.
    Signal(String),
    /// Waits until the counter of the signal with this name has grown by this number since the task's last wait for the
    /// signal.
    Wait(String, u64),
    /// Waits for this task's turn: until the counter of a signal, divided by the number of tasks of this kind, leaves
    /// the task's number as remainder. So a task that signals when it has done its work passes the turn on.
    Turn(String),
    /// Drops the clean pages of all files from memory.
    DropCaches,
    /// Forks: starts a child process, which has the task's anonymous regions as they are now, and does the steps `child`
    /// of the task's description. Does nothing if the task's last child has not ended.
    Fork,
}

/// The places in a file or region that a step uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Places {
    /// The order in which the step uses the pages of the file or region.
    pub order: AccessOrder,
    /// The distribution by which pages are chosen, if the order is random.
    pub distribution: Distribution,
    /// Exponent of the distribution `zipf`.
    pub theta: f64,
    /// Number of pages that each operation reads, writes or touches.
    pub pages: u64,
    /// True if no two tasks of the kind use the same page: of *n* tasks, each uses every *n*th page.
    pub is_own: bool,
    /// True if the kernel is told that reads are random.
    pub random_advice: bool,
}

/// The order in which the operations of a step use the pages of a file or region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessOrder {
    /// Each operation begins at a random place.
    #[default]
    Random,
    /// Each operation of a task begins where the task's previous operation of this step ended. At the end of the file
    /// or region, the task goes on from the beginning.
    Sequential,
}

impl Action {
    /// Returns the file that the action uses; none if it uses none.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Read { file, .. } | Self::Write { file, .. } | Self::Sync(file) => Some(file),
            _ => None,
        }
    }

    /// Returns the region that the action uses; none if it uses none.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        match self {
            Self::Touch { region, .. } | Self::Map(region) | Self::Unmap(region) => Some(region),
            _ => None,
        }
    }

    /// Returns whether the action is an operation: a read, a write, a touch or a sync. Only the durations of operations
    /// are measured.
    #[must_use]
    pub const fn is_operation(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Write { .. } | Self::Touch { .. } | Self::Sync(_))
    }

    /// Returns the places (pages of a file or region) that the action uses; `None` for an action without places, such
    /// as a sleep.
    #[must_use]
    pub fn places(&self) -> Option<&Places> {
        match self {
            Self::Read { places, .. } | Self::Write { places, .. } | Self::Touch { places, .. } => Some(places),
            _ => None,
        }
    }
}

/// A step as it stands in a file: a table with one key that names the action, such as `read`, and keys for the details
/// of the action.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Text {
    read: Option<String>,
    write: Option<String>,
    touch: Option<String>,
    sync: Option<String>,
    map: Option<String>,
    unmap: Option<String>,
    sleep_us: Option<u64>,
    compute_us: Option<u64>,
    signal: Option<String>,
    wait: Option<String>,
    turn: Option<String>,
    drop_caches: Option<bool>,
    fork: Option<bool>,

    order: Option<AccessOrder>,
    distribution: Option<Distribution>,
    theta: Option<f64>,
    kib: Option<u64>,
    own: Option<bool>,
    random_advice: Option<bool>,
    sync_every: Option<u64>,
    store_percent: Option<u64>,
    write_percent: Option<u64>,
    count: Option<u64>,
    operations: Option<u64>,
    percent: Option<u64>,
    for_ms: Option<u64>,
    rate: Option<f64>,
    think_us: Option<u64>,
    as_one: Option<bool>,
    row: Option<String>,
    write_row: Option<String>,
    sync_row: Option<String>,
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        within(deserializer, "a step, such as { read = \"data\" }", Self::of)
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

/// The keys that name an action.
const ACTIONS: &str =
    "read, write, touch, sync, map, unmap, sleep_us, compute_us, signal, wait, turn, drop_caches, fork";

/// Largest number of KiB of one operation.
const KIB_MAX: u64 = 16 << 10;

impl Step {
    /// Returns the longest single sleep or computation of the step, seconds.
    #[must_use]
    pub fn wait_s(&self) -> u64 {
        let own = match self.action {
            Action::Sleep(time) | Action::Compute(time) => time,
            _ => Nanos(0),
        };
        let between = self.rate.map_or(Nanos(0), |rate| Nanos((1e9 / rate) as u64));
        own.max(between).max(self.think).0 / 1_000_000_000
    }

    fn of(text: Text) -> Result<Self, String> {
        let action = action(&text)?;
        check_keys(&text, &action)?;
        let zero = [("operations", text.operations), ("percent", text.percent), ("for_ms", text.for_ms)];
        let zeroes = [("sleep_us", text.sleep_us), ("compute_us", text.compute_us)];
        if let Some((key, _)) = zero.into_iter().chain(zeroes).find(|(_, value)| *value == Some(0)) {
            return Err(format!("`{key}` is 0: expected at least 1"));
        }
        let repeated = match (text.operations, text.percent, text.for_ms) {
            (None, None, None) => Repeated::Operations(1),
            (Some(operations), None, None) => Repeated::Operations(operations),
            (None, Some(percent), None) if action.places().is_some() => Repeated::Percent(percent),
            (None, Some(_), None) => {
                return Err("`percent` is of a file or region that is read, written or touched".into());
            }
            (None, None, Some(ms)) => Repeated::For(Nanos(ms.saturating_mul(1_000_000))),
            _ => return Err("expected one of `operations`, `percent` and `for_ms`".into()),
        };
        if let Some(rate) = text.rate.filter(|rate| !(*rate > 0.0 && *rate <= 1e9)) {
            return Err(format!("`rate` is {rate}: above 0, and at most a billion operations per second"));
        }
        let think = Nanos(text.think_us.unwrap_or(0).saturating_mul(1000));
        Ok(Self {
            action,
            repeated,
            rate: text.rate,
            think,
            row: text.row.clone(),
            sync_every: text.sync_every.unwrap_or(0),
            write_row: text.write_row.clone(),
            sync_row: text.sync_row.clone(),
            is_one: text.as_one.unwrap_or(false),
            text,
        })
    }
}

/// Reads a step's action from the keys of the step in the load's description.
fn action(text: &Text) -> Result<Action, String> {
    let us = |us: u64| Nanos(us.saturating_mul(1000));
    let mut actions = Vec::new();
    let mut add = |action: Option<Action>| actions.extend(action);
    if let Some(file) = text.read.clone() {
        let write_percent = percent("write_percent", text.write_percent)?;
        add(Some(Action::Read { file, places: places(text)?, write_percent }));
    }
    if let Some(file) = text.write.clone() {
        add(Some(Action::Write { file, places: places(text)? }));
    }
    if let Some(region) = text.touch.clone() {
        let store_percent = percent("store_percent", text.store_percent)?;
        add(Some(Action::Touch { region, places: places(text)?, store_percent }));
    }
    add(text.sync.clone().map(Action::Sync));
    add(text.map.clone().map(Action::Map));
    add(text.unmap.clone().map(Action::Unmap));
    add(text.sleep_us.map(|time| Action::Sleep(us(time))));
    add(text.compute_us.map(|time| Action::Compute(us(time))));
    add(text.signal.clone().map(Action::Signal));
    add(text.wait.clone().map(|signal| Action::Wait(signal, text.count.unwrap_or(1))));
    add(text.turn.clone().map(Action::Turn));
    add(text.drop_caches.filter(|is| *is).map(|_| Action::DropCaches));
    add(text.fork.filter(|is| *is).map(|_| Action::Fork));
    match (actions.pop(), actions.is_empty()) {
        (Some(action), true) => Ok(action),
        (None, _) => Err(format!("the step has no action: expected one of {ACTIONS}")),
        (Some(_), false) => Err(format!("the step has several actions: expected one of {ACTIONS}")),
    }
}

/// Returns the share, percent, that a step has under the key `key`: `value`, or 0 if the step does not have the key.
/// Returns an error if `value` is above 100.
fn percent(key: &str, value: Option<u64>) -> Result<u64, String> {
    match value.unwrap_or(0) {
        percent @ 0..=100 => Ok(percent),
        percent => Err(format!("`{key}` is {percent}: at most 100")),
    }
}

/// Returns which pages of a file or region a step uses and in which order, as the step's keys say (`order`, `kib`,
/// `distribution` and others).
fn places(text: &Text) -> Result<Places, String> {
    let kib = text.kib.unwrap_or(4);
    if kib == 0 || !kib.is_multiple_of(4) || kib > KIB_MAX {
        return Err(format!("`kib` is {kib}: expected whole pages of 4 KiB, at most {KIB_MAX}"));
    }
    if text.own == Some(true) && kib != 4 {
        return Err("`own` is for operations of 4 KiB, since a task's own pages lie apart".into());
    }
    let order = text.order.unwrap_or_default();
    Ok(Places {
        order,
        distribution: text.distribution.unwrap_or_default(),
        theta: text.theta.unwrap_or(1.2),
        pages: kib / 4,
        is_own: text.own.unwrap_or(false),
        random_advice: text.random_advice.unwrap_or(order == AccessOrder::Random),
    })
}

/// Refuses keys of a step that do not belong to its kind of action, such as `kib` for a sleep.
fn check_keys(text: &Text, action: &Action) -> Result<(), String> {
    let has_places = action.places().is_some();
    let is_touch = matches!(action, Action::Touch { .. });
    let is_write = matches!(action, Action::Write { .. });
    let is_read = matches!(action, Action::Read { .. });
    let takes_time = action.is_operation() || matches!(action, Action::Sleep(_) | Action::Compute(_));
    let misplaced = [
        ("order", text.order.is_some() && !has_places),
        ("distribution", text.distribution.is_some() && !has_places),
        ("theta", text.theta.is_some() && text.distribution != Some(Distribution::Zipf)),
        ("kib", text.kib.is_some() && (!has_places || is_touch)),
        ("own", text.own.is_some() && !is_write && !is_read),
        ("random_advice", text.random_advice.is_some() && !is_read),
        ("sync_every", text.sync_every.is_some() && !is_write && text.write_percent.is_none()),
        ("write_percent", text.write_percent.is_some() && !is_read),
        ("write_row", text.write_row.is_some() && text.write_percent.is_none()),
        ("as_one", text.as_one.is_some() && !action.is_operation()),
        ("sync_row", text.sync_row.is_some() && text.sync_every.is_none()),
        ("store_percent", text.store_percent.is_some() && !is_touch),
        // A step that takes no time would be done again and again within the same moment.
        ("for_ms", text.for_ms.is_some() && !takes_time),
        ("count", text.count.is_some() && !matches!(action, Action::Wait(..))),
    ];
    match misplaced.into_iter().find(|(_, is)| *is) {
        Some(("theta", _)) => Err("`theta` is for `distribution = \"zipf\"`".into()),
        Some((key, _)) => Err(format!("`{key}` says nothing about this action")),
        None if matches!(action, Action::Wait(_, 0)) => Err("`count` is 0: expected at least 1".into()),
        None => Ok(()),
    }
}

//! One task of a load: it does its steps in order, again and again.

use super::described::{Params, RegionOf, TaskOf};
use super::objects::{Copied, Mapped, SharedFile, Writer};
use super::step::{AccessOrder, Action, Places, Repeated, Step};
use super::{Files, Member};
use crate::choose::Chooser;
use crate::meter::Tally;
use crate::system::{SharedWords, Started, System, SystemError};
use hdrhistogram::Histogram;
use machine::{Nanos, PAGE_BYTES};
use sim::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Interval at which a task that waits for a signal looks at the signal's counter.
const LOOK_EVERY: Nanos = Nanos::from_millis(1);

/// Longest time for which a task sleeps without a check whether the run is over. A longer sleep is divided into parts.
const SLEEP_AT_MOST: Nanos = Nanos::from_secs(1);

/// Time for which a task sleeps after it found that another task is writing the page that it chose to write. It then
/// chooses another page.
const CLAIM_AGAIN: Nanos = Nanos(10_000);

/// Distance between the random streams of a task's children.
const CHILD_STREAM: u64 = 1 << 32;

/// Reason why a step has the handle of its file. It is the message of the panic if the handle is missing.
const OPENED: &str = "a step that uses a file has opened it";

/// The state that all tasks of a run share.
pub(super) struct Load {
    /// Number of pages that a region has in each task, by the region's name. The number is none if the region maps a
    /// file.
    region_pages: BTreeMap<String, Option<u64>>,
    /// Number of times that tasks have given each signal, in the order of `signal_names`.
    signals: SharedWords,
    signal_names: Vec<String>,
    /// The number of tasks and children so far. A child's number is taken by its parent, so no child needs this word.
    writers: AtomicU32,
    /// Names of the report's rows with durations of operations, in the order of the report.
    pub rows: Vec<String>,
    /// The description of the load, from the experiment's file.
    pub described: Params,
}

impl Load {
    /// Creates the state that all tasks of a run share. The sizes of regions are computed in pages, for the memory of
    /// `system`.
    pub fn of<S: System>(system: &S, params: &Params) -> Result<Self, SystemError> {
        let pages = |(name, region): (&String, &RegionOf)| {
            let all = region.size().pages(system.memory_pages(), system.given().scale);
            let tasks = params.users(|task| task.uses_region(name)).max(1);
            (name.clone(), region.file.is_none().then(|| (all / tasks).max(1)))
        };
        let signal_names: Vec<String> =
            params.signals().map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect();
        Ok(Self {
            region_pages: params.region.iter().map(pages).collect(),
            signals: system.share_words(signal_names.len())?,
            signal_names,
            writers: AtomicU32::new(0),
            rows: params.row_names().into_iter().map(str::to_owned).collect(),
            described: params.clone(),
        })
    }

    /// Returns the number of a new task or child.
    fn next_writer(&self) -> Writer {
        self.writers.fetch_add(1, Relaxed) + 1
    }

    /// Returns the number of times that tasks have given a signal.
    fn signal(&self, name: &str) -> &AtomicU32 {
        let number = self.signal_names.binary_search_by(|known| (**known).cmp(name));
        &self.signals[number.expect("the description was checked: the signal exists")]
    }
}

/// For each row of the load's report, in order, the histogram of the durations of a task's operations that count for
/// this row.
pub(super) type Durations = Vec<Histogram<u64>>;

/// The durations of a child's operations that count for a row: each duration, and how many operations took it. A child
/// is another process, so it cannot hand over a histogram.
type DurationCounts = Vec<(u64, u64)>;

/// A child that was started, and that returns the durations of each row.
type Child<S> = Started<S, Result<Vec<DurationCounts>, SystemError>>;

/// Returns an empty histogram of durations for each row, for a task that has done nothing yet.
pub(super) fn no_durations(rows: &[impl AsRef<str>]) -> Durations {
    rows.iter().map(|_| Histogram::new(3).expect("three digits are a precision")).collect()
}

/// A running task.
pub(super) struct Task<'a, S: System> {
    system: &'a S,
    load: &'a Arc<Load>,
    kind: &'a TaskOf,
    member: &'a Member,
    /// Name of the kind of task.
    name: &'a str,
    /// Number of the task among those of its kind.
    number: u64,
    files: &'a Files,
    /// `true` if the task is a child, which does the steps `child`.
    is_child: bool,
    /// The number of the task as a writer of pages.
    writer: Writer,
    /// The last child, if it was not waited for, and its number as a writer of pages.
    child: Option<(Child<S>, Writer)>,
    /// Number of children that the task has started.
    forks: u64,
    regions: BTreeMap<String, Mapped<S>>,
    rng: Rng,
    /// For each signal, the counter value that this task last waited for. A further wait for the signal adds to this
    /// value.
    waited: BTreeMap<String, u64>,
    bytes: Vec<u8>,
    durations: Durations,
}

/// The state that a step keeps from one operation to the next, and from one round to the next.
struct StepState<S: System> {
    /// The step's own handle of its file. The handle has the state of readahead. None if the step uses no file.
    file: Option<S::File>,
    /// The chooser of random places, made when the step is first done.
    chooser: Option<Chooser>,
    /// The page at which a sequential step goes on.
    next: u64,
    /// Number of writes since the last sync.
    since_sync: u64,
    /// True if the last operation was a write.
    has_written: bool,
}

impl<'a, S: System> Task<'a, S> {
    /// Moves the calling task to the control group that the load gives it, sets its `oom_score_adj`, and returns its
    /// state.
    pub fn start(
        system: &'a S,
        load: &'a Arc<Load>,
        member: &'a Member,
        files: &'a Files,
    ) -> Result<Self, SystemError> {
        let kind = member.task(&load.described);
        if kind.oom_score_adj != 0 {
            system.set_oom_score_adj(kind.oom_score_adj);
        }
        if let Some(group) = &kind.group {
            system.enter_group(Some(group))?;
        }
        Ok(Self::with(system, load, member, files, (member.stream, load.next_writer())))
    }

    /// Returns the state of a task that has done nothing, with random numbers of the stream `stream`.
    fn with(
        system: &'a S,
        load: &'a Arc<Load>,
        member: &'a Member,
        files: &'a Files,
        (stream, writer): (u64, Writer),
    ) -> Self {
        Self {
            system,
            load,
            kind: member.task(&load.described),
            member,
            name: &member.kind,
            number: member.number,
            files,
            is_child: false,
            writer,
            child: None,
            forks: 0,
            regions: BTreeMap::new(),
            rng: system.rng(stream),
            waited: BTreeMap::new(),
            bytes: vec![0; PAGE_BYTES],
            durations: no_durations(&load.rows),
        }
    }

    /// Does the task's steps before the measurement once. Then repeats the task's steps of the measurement in rounds,
    /// until the measurement is over or all rounds are done. Returns the durations of the operations, by row.
    pub fn run(mut self, tally: &mut Tally) -> Result<Durations, SystemError> {
        let (before, steps) = (&self.kind.before, &self.kind.steps);
        for step in before {
            let mut place = self.place(step)?;
            self.step(step, &mut place, None)?;
        }
        let mut step_places = steps.iter().map(|step| self.place(step)).collect::<Result<Vec<_>, _>>()?;
        tally.begin(self.system);
        let mut rounds = 0;
        while self.kind.rounds.is_none_or(|most| rounds < most) && !self.is_over(Some(tally)) {
            for (step, place) in steps.iter().zip(&mut step_places) {
                self.step(step, place, Some(tally))?;
            }
            rounds += 1;
        }
        self.end_child()?;
        self.unmap_all();
        Ok(self.durations)
    }

    fn unmap_all(&mut self) {
        for region in std::mem::take(&mut self.regions).into_values() {
            region.unmap(self.system);
        }
    }

    /// Starts a child, unless the last one still runs. The time that the fork takes goes to the row `row`, if any.
    fn fork(&mut self, row: Option<&str>) -> Result<(), SystemError> {
        if self.child.as_ref().is_some_and(|(child, _)| !child.has_ended()) {
            return Ok(());
        }
        self.end_child()?;
        let anonymous =
            self.regions.iter().filter_map(|(name, mapped)| Some((name, mapped, mapped.anonymous_region()?)));
        let anonymous: Vec<_> = anonymous.collect();
        let copied: Vec<(String, Copied)> =
            anonymous.iter().map(|(name, mapped, _)| ((*name).clone(), mapped.copied())).collect();
        let regions: Vec<&S::Region> = anonymous.iter().map(|(.., region)| *region).collect();
        self.forks += 1;
        let stream = self.member.stream + self.forks * CHILD_STREAM;
        let (load, member, files) = (self.load.clone(), self.member.clone(), self.files.clone());
        let writer = load.next_writer();
        let name = format!("child of {} {}", self.name, self.number);
        let started = self.system.now();
        let child = self.system.fork_and_return(&name, &regions, move |system, regions| {
            let mut child = Task::with(system, &load, &member, &files, (stream, writer));
            let regions = copied.into_iter().zip(regions);
            child.regions = regions.map(|((name, copied), region)| (name, Mapped::of_child(region, copied))).collect();
            match child.run_child() {
                // An operation of a task that is told to end, or whose process was killed, may fail.
                Err(_) if system.is_killed() => Ok(Vec::new()),
                result => result.map(|durations| durations.iter().map(counts).collect()),
            }
        })?;
        self.child = Some((child, writer));
        let time = self.system.now().since(started);
        self.record(row, time);
        Ok(())
    }

    /// Carries out the steps of a child, and returns the durations of the child's operations, by row.
    fn run_child(mut self) -> Result<Durations, SystemError> {
        self.is_child = true;
        let steps = &self.kind.child;
        let mut places = steps.iter().map(|step| self.place(step)).collect::<Result<Vec<_>, _>>()?;
        for _ in 0..self.kind.child_rounds {
            if self.system.is_killed() {
                break;
            }
            for (step, place) in steps.iter().zip(&mut places) {
                self.step(step, place, None)?;
            }
        }
        self.unmap_all();
        Ok(self.durations)
    }

    /// Ends the last child, if there is one, and adds its durations to those of the task.
    fn end_child(&mut self) -> Result<(), SystemError> {
        let Some((child, writer)) = self.child.take() else { return Ok(()) };
        if !child.has_ended() {
            child.kill(self.system);
        }
        // A simulated task that is told to end waits for nobody, and a child that was killed has no durations.
        let Some(durations) = child.join_unless_killed(self.system) else {
            self.files.values().for_each(|file| file.cut_writes_of(writer));
            return Ok(());
        };
        for (all, of_child) in self.durations.iter_mut().zip(durations?) {
            for (time, count) in of_child {
                all.record_n(time, count).expect("it grows as far as need be");
            }
        }
        Ok(())
    }

    /// Opens the file of a step, if it uses one. Returns the state that the step keeps from one operation to the next.
    fn place(&self, step: &Step) -> Result<StepState<S>, SystemError> {
        let mut file = step.action.file().map(|name| self.system.open(&self.file(name).name)).transpose()?;
        if let (Action::Read { places, .. }, Some(file)) = (&step.action, &mut file)
            && places.random_advice
        {
            // Without readahead, each page that is read in is a miss.
            self.system.expect_random_reads(file);
        }
        Ok(StepState { file, chooser: None, next: 0, since_sync: 0, has_written: false })
    }

    /// Returns whether the task is to end. Steps before the measurement, which have no tally, are done to their end.
    fn is_over(&self, tally: Option<&Tally>) -> bool {
        tally.is_some_and(Tally::is_over) || self.system.is_killed()
    }

    /// Performs the step `step` as many times, or for as long, as it says.
    fn step(
        &mut self,
        step: &Step,
        place: &mut StepState<S>,
        mut tally: Option<&mut Tally>,
    ) -> Result<(), SystemError> {
        let started = self.system.now();
        let most = match step.repeated {
            Repeated::Operations(most) => most,
            Repeated::Percent(percent) => {
                self.pages_of(&step.action)?.saturating_mul(percent).div_ceil(100 * pages_at_once(&step.action))
            }
            Repeated::For(_) => u64::MAX,
        };
        for n in 0..most {
            let is_late = matches!(step.repeated, Repeated::For(time) if self.system.now().since(started) >= time);
            if is_late || self.is_over(tally.as_deref()) {
                break;
            }
            let late = step.rate.map_or(Nanos(0), |rate| self.pace((started, n, rate), tally.as_deref()));
            if self.is_over(tally.as_deref()) {
                break;
            }
            if let Some(tally) = tally.as_deref().filter(|_| self.kind.measured) {
                tally.keep_step(self.system);
            }
            let (row, time) = self.act(step, place, tally.as_deref())?;
            match (tally.as_deref_mut(), time.filter(|_| !step.is_one)) {
                (Some(tally), Some(time)) => self.count(row, time + late, tally),
                (None, Some(time)) if self.is_child => self.record(row, time + late),
                _ => {}
            }
            self.sync_after(step, place)?;
            self.sleep(step.think, tally.as_deref());
        }
        if self.is_child && step.is_one && !self.is_over(None) {
            self.record(step.row.as_deref(), self.system.now().since(started));
        }
        // A step that the end of the run has cut short did not do all that its duration stands for.
        if let Some(tally) = tally.filter(|tally| step.is_one && !self.is_over(Some(tally))) {
            self.count(step.row.as_deref(), self.system.now().since(started), tally);
        }
        Ok(())
    }

    /// Waits until the time at which operation `n` of a step is to begin. Returns by how much this time is past.
    fn pace(&self, (started, n, rate): (Nanos, u64, f64), tally: Option<&Tally>) -> Nanos {
        let at = started + Nanos((n as f64 * 1e9 / rate) as u64);
        let now = self.system.now();
        if at > now {
            self.sleep(at.since(now), tally);
            return Nanos(0);
        }
        now.since(at)
    }

    /// Sleeps for `time`. If the run ends before that, returns shortly after the end of the run.
    fn sleep(&self, time: Nanos, tally: Option<&Tally>) {
        let mut left = time;
        while left > Nanos(0) && !self.is_over(tally) {
            let part = left.min(SLEEP_AT_MOST);
            self.system.sleep(part);
            left = Nanos(left.0 - part.0);
        }
    }

    /// Counts an operation that took `time`: in `tally` if the task is measured, and in the histogram of the row `row`,
    /// if any.
    fn count(&mut self, row: Option<&str>, time: Nanos, tally: &mut Tally) {
        if self.kind.measured {
            tally.count(time);
        }
        self.record(row, time);
    }

    /// Adds a duration to the histogram of the row with the name `row`. Does nothing if there is no such row.
    fn record(&mut self, row: Option<&str>, time: Nanos) {
        let number = row.and_then(|row| self.load.rows.iter().position(|name| name == row));
        if let Some(number) = number {
            // The histogram grows as needed, so recording cannot fail.
            let _ = self.durations[number].record(time.0.max(1));
        }
    }

    /// Returns the number of pages of the file or region that an action uses; 0 if it uses none.
    fn pages_of(&self, action: &Action) -> Result<u64, SystemError> {
        Ok(match (action.file(), action.region()) {
            (Some(file), _) => self.file(file).pages,
            (None, Some(region)) => self.region(region)?.pages,
            (None, None) => 0,
        })
    }

    fn file(&self, name: &str) -> &'a Arc<SharedFile> {
        self.files.get(name).expect("the description was checked: the file exists")
    }

    fn region(&self, name: &str) -> Result<&Mapped<S>, SystemError> {
        self.regions.get(name).ok_or_else(|| self.no_region(name))
    }

    fn no_region(&self, name: &str) -> SystemError {
        SystemError(format!("task `{}`: region `{name}` is used while it is not mapped", self.name))
    }

    /// Does the action of a step once. Returns the name of the row that the action's duration goes to, if any, and the
    /// duration. There is no duration if the action is not measured as an operation, such as a sleep or a signal.
    fn act<'s>(
        &mut self,
        step: &'s Step,
        place: &mut StepState<S>,
        tally: Option<&Tally>,
    ) -> Result<(Option<&'s str>, Option<Nanos>), SystemError> {
        let mut row = step.row.as_deref();
        let time = match &step.action {
            Action::Read { file, places, write_percent } => {
                let writes = *write_percent > 0 && self.rng.below(100) < *write_percent;
                row = if writes { step.write_row.as_deref().or(row) } else { row };
                Some(if writes { self.write(file, places, place)? } else { self.read(file, places, place)? })
            }
            Action::Write { file, places } => Some(self.write(file, places, place)?),
            Action::Touch { region, places, store_percent } => {
                Some(self.touch((region, places, *store_percent), place)?)
            }
            Action::Sync(_) => Some(Self::sync(self.system, place)?),
            Action::Fork => {
                // Steps before the measurement record no time.
                self.fork(row.filter(|_| tally.is_some()))?;
                None
            }
            other => {
                self.act_between(other, tally)?;
                None
            }
        };
        Ok((row, time))
    }

    /// Does an action that is not measured as an operation, such as a sleep or a signal.
    fn act_between(&mut self, action: &Action, tally: Option<&Tally>) -> Result<(), SystemError> {
        let system = self.system;
        match action {
            Action::Map(region) => self.map(region)?,
            Action::Unmap(region) => {
                let mapped = self.regions.remove(region).ok_or_else(|| self.no_region(region))?;
                mapped.unmap(system);
            }
            Action::Sleep(time) => self.sleep(*time, tally),
            Action::Compute(time) => system.compute(*time),
            Action::Signal(name) => {
                self.load.signal(name).fetch_add(1, Relaxed);
            }
            Action::Wait(name, count) => {
                let waited = self.waited.entry(name.clone()).or_default();
                *waited += count;
                let waited = *waited;
                self.wait_until(name, tally, |counter| counter >= waited);
            }
            Action::Turn(name) => {
                let (number, count) = (self.number, self.kind.count);
                self.wait_until(name, tally, |counter| counter % count == number);
            }
            Action::DropCaches => system.drop_caches()?,
            Action::Read { .. } | Action::Write { .. } | Action::Touch { .. } | Action::Sync(_) | Action::Fork => {}
        }
        Ok(())
    }

    /// Waits until `is_reached` returns true for the value of a signal's counter, or the run is over.
    fn wait_until(&self, signal: &str, tally: Option<&Tally>, is_reached: impl Fn(u64) -> bool) {
        let counter = self.load.signal(signal);
        while !is_reached(counter.load(Relaxed).into()) && !self.is_over(tally) {
            self.system.sleep(LOOK_EVERY);
        }
    }

    /// Syncs the file of a step. Returns the time that this took.
    fn sync(system: &S, place: &StepState<S>) -> Result<Nanos, SystemError> {
        let started = system.now();
        system.sync(place.file.as_ref().expect(OPENED))?;
        Ok(system.now().since(started))
    }

    fn read(&mut self, name: &str, places: &Places, place: &mut StepState<S>) -> Result<Nanos, SystemError> {
        let shared = self.file(name);
        let page = self.choose(places, shared.pages, place);
        self.bytes.resize(PAGE_BYTES * places.pages.min(shared.pages - page) as usize, 0);
        shared.read(self.system, place.file.as_mut().expect(OPENED), page, &mut self.bytes)
    }

    fn write(&mut self, name: &str, places: &Places, place: &mut StepState<S>) -> Result<Nanos, SystemError> {
        let shared = self.file(name);
        loop {
            let page = self.choose(places, shared.pages, place);
            self.bytes.resize(PAGE_BYTES * places.pages.min(shared.pages - page) as usize, 0);
            let file = place.file.as_ref().expect(OPENED);
            if let Some(time) = shared.write(self.system, file, page, (self.writer, &mut self.bytes))? {
                place.has_written = true;
                return Ok(time);
            }
            // Another task writes this page now, so this task takes another page.
            self.system.sleep(CLAIM_AGAIN);
            if self.system.is_killed() {
                return Err(SystemError(format!("task `{}` was told to end", self.name)));
            }
        }
    }

    /// Syncs the file of a step after every `sync_every` writes.
    fn sync_after(&mut self, step: &Step, place: &mut StepState<S>) -> Result<(), SystemError> {
        if std::mem::take(&mut place.has_written) {
            place.since_sync += 1;
            if place.since_sync == step.sync_every {
                place.since_sync = 0;
                let time = Self::sync(self.system, place)?;
                self.record(step.sync_row.as_deref(), time);
            }
        }
        Ok(())
    }

    fn touch(
        &mut self,
        (name, places, store_percent): (&str, &Places, u64),
        place: &mut StepState<S>,
    ) -> Result<Nanos, SystemError> {
        let pages = self.region(name)?.pages;
        let page = self.choose(places, pages, place);
        self.bytes.resize(PAGE_BYTES, 0);
        let mapped = self.regions.get_mut(name).expect("its pages were just counted");
        let mut time = mapped.load(self.system, page, &mut self.bytes)?;
        if store_percent > 0 && self.rng.below(100) < store_percent {
            time += mapped.store(self.system, page, (self.writer, &mut self.bytes))?;
        }
        Ok(time)
    }

    fn map(&mut self, name: &str) -> Result<(), SystemError> {
        if self.regions.contains_key(name) {
            return Err(SystemError(format!("task `{}`: region `{name}` is mapped already", self.name)));
        }
        let region = self.load.described.region.get(name).expect("the description was checked: the region exists");
        let mut mapped = match (&region.file, self.load.region_pages[name]) {
            (Some(file), _) => Mapped::file(self.system, self.file(file), region.private)?,
            (None, Some(pages)) => {
                let name = format!("{name} of {} {}", self.name, self.number);
                Mapped::anonymous(self.system, name, pages, region.huge_pages)?
            }
            (None, None) => unreachable!("anonymous memory has a size"),
        };
        if region.is_stored() {
            self.bytes.resize(PAGE_BYTES, 0);
            mapped.store_all(self.system, self.writer, &mut self.bytes)?;
        }
        self.regions.insert(name.to_owned(), mapped);
        Ok(())
    }

    /// Returns the first page of the next operation on a file or region of `pages` pages.
    fn choose(&mut self, places: &Places, pages: u64, place: &mut StepState<S>) -> u64 {
        let (first, every) = if places.is_own { (self.number, self.kind.count) } else { (0, 1) };
        // The pages that the task may choose among are `first`, `first + every`, and so on.
        let choices = (pages - first).div_ceil(every);
        let chosen = match places.order {
            AccessOrder::Sequential => {
                let chosen = if place.next < choices { place.next } else { 0 };
                place.next = chosen + places.pages;
                chosen
            }
            AccessOrder::Random => {
                // A request of several pages begins at a multiple of its size, as requests of fio do.
                let blocks = choices.div_ceil(places.pages);
                let chooser =
                    place.chooser.get_or_insert_with(|| Chooser::new(places.distribution, places.theta, blocks));
                chooser.next(&mut self.rng) * places.pages
            }
        };
        first + chosen * every
    }
}

/// Returns each duration in a histogram, and how many operations took it.
fn counts(durations: &Histogram<u64>) -> DurationCounts {
    durations.iter_recorded().map(|found| (found.value_iterated_to(), found.count_at_value())).collect()
}

/// Returns the number of pages that each operation of `action` uses; 1 if the action has no places in a file or region.
fn pages_at_once(action: &Action) -> u64 {
    action.places().map_or(1, |places| places.pages)
}

//! Progress on a terminal: a line for each running job with virtual time, rate and remaining time.
//!
//! No other code of the lab uses wall time. All output goes to standard error.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write as _, stderr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::runner::Watch;
use kit::progress::Progress;
use kit::shown;
use kit::words::counted;

/// Interval at which the lines are redrawn.
const REDRAW: Duration = Duration::from_millis(200);

/// Width of a title, in columns of the terminal. A line of title, bar and message fits a terminal of 80 columns.
const TITLE: usize = 26;

/// Shows the progress of jobs on standard error. A terminal shows a line for each running job. Elsewhere there is one
/// line when the work starts and one when it ends.
pub struct Bars {
    shared: Arc<Shared>,
    name: String,
    /// Number of jobs.
    count: usize,
    since: Instant,
    redraw: Option<JoinHandle<()>>,
}

struct Shared {
    lines: MultiProgress,
    running: Mutex<BTreeMap<usize, (ProgressBar, Progress, Instant)>>,
    ended: AtomicUsize,
    found: AtomicUsize,
    is_over: AtomicBool,
}

impl Bars {
    /// Makes the progress display of `count` jobs. `name` is the name of the whole command.
    #[must_use]
    pub fn new(name: &str, count: usize) -> Self {
        let name = &one_line(name);
        if stderr().is_terminal() {
            let mut bars = Self::drawn_on(ProgressDrawTarget::stderr(), name, count);
            let shared = bars.shared.clone();
            bars.redraw = Some(thread::spawn(move || shared.redraw_until_over()));
            return bars;
        }
        let bars = Self::drawn_on(ProgressDrawTarget::hidden(), name, count);
        told(&format!("started: {name}, {}", runs(count)));
        bars
    }

    fn drawn_on(target: ProgressDrawTarget, name: &str, count: usize) -> Self {
        let shared = Shared {
            lines: MultiProgress::with_draw_target(target),
            running: Mutex::default(),
            ended: AtomicUsize::new(0),
            found: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), name: name.to_owned(), count, since: Instant::now(), redraw: None }
    }
}

/// A line that shows for how long a piece of work has been going on, if its whole length is unknown. A terminal shows
/// the line until this value is dropped. Without a terminal there is no line.
pub struct Waiting(ProgressBar);

impl Waiting {
    /// Starts a line with the text `what`.
    #[must_use]
    pub fn new(what: &str) -> Self {
        let style = ProgressStyle::with_template("{wide_msg} {elapsed}").expect("a fixed template");
        let line = ProgressBar::new_spinner().with_style(style).with_message(one_line(what));
        line.enable_steady_tick(REDRAW);
        Self(line)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let found = self.shared.found.load(Ordering::Relaxed);
        match self.redraw.take() {
            Some(redraw) => {
                redraw.thread().unpark();
                // A panic in the redrawing thread costs lines on a terminal, not the results.
                let _ = redraw.join();
                if found > 0 {
                    told(&format!("{}: {found} of {} found in the store", self.name, runs(self.count)));
                }
            }
            None => {
                let (ended, all) = (self.shared.ended.load(Ordering::Relaxed) + found, self.count);
                let of = if ended == all { runs(all) } else { format!("{ended} of {}", runs(all)) };
                let of = if found == 0 { of } else { format!("{of}, {found} found in the store") };
                told(&format!("ended: {}, {of}, {:.1} s", self.name, self.since.elapsed().as_secs_f64()));
            }
        }
        let _ = self.shared.lines.clear();
    }
}

impl Watch for Bars {
    fn began(&self, number: usize, title: &str, progress: &Progress) {
        let style = ProgressStyle::with_template("{prefix:26} {bar:10} {wide_msg}").expect("a fixed template");
        let bar = self.shared.lines.add(ProgressBar::new(1000).with_style(style));
        bar.set_prefix(cut(&one_line(title)));
        self.shared.running().insert(number, (bar, progress.clone(), Instant::now()));
    }

    fn ended(&self, number: usize) {
        self.shared.ended.fetch_add(1, Ordering::Relaxed);
        if let Some((bar, ..)) = self.shared.running().remove(&number) {
            bar.finish_and_clear();
        }
    }

    fn found(&self) {
        self.shared.found.fetch_add(1, Ordering::Relaxed);
    }
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, BTreeMap<usize, (ProgressBar, Progress, Instant)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn redraw_until_over(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            self.redraw();
            thread::park_timeout(REDRAW);
        }
    }

    fn redraw(&self) {
        for (bar, progress, since) in self.running().values() {
            let (now_ns, total_ns) = (progress.now_ns(), progress.total_ns());
            let (done, of) = (progress.operations(), progress.total_operations());
            // A run that ends after a number of operations has no known end in time.
            let part = if total_ns == 0 { (done, of) } else { (now_ns, total_ns) };
            if let Some(permille) = part.0.saturating_mul(1000).checked_div(part.1) {
                bar.set_position(permille.min(1000));
            }
            bar.set_message(match (total_ns, of) {
                (0, 1..) => message_of_operations(done, of, now_ns, since.elapsed()),
                _ => message(now_ns, total_ns, since.elapsed()),
            });
        }
    }
}

/// Writes a line to standard error. Ignores an error, such as that of a closed stream.
fn told(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

fn runs(count: usize) -> String {
    counted(count, "run")
}

/// Returns `name`, which may come from a file, as harmless text on one line.
fn one_line(name: &str) -> String {
    shown::harmless(name).replace('\n', " ")
}

/// Returns a title cut to the width that is available for it. A long title loses its beginning, because its end
/// distinguishes it from other titles.
fn cut(title: &str) -> String {
    let length = title.chars().count();
    if length <= TITLE {
        return title.to_owned();
    }
    std::iter::once('…').chain(title.chars().skip(length + 1 - TITLE)).collect()
}

/// Returns a message such as "`8000 of 32000 ops, 4.1 s, 24 s left`", which states the operations, the virtual time and
/// the remaining wall time.
fn message_of_operations(done: u64, of: u64, now_ns: u64, wall: Duration) -> String {
    let told = format!("{done} of {of} ops, {:.1} s", now_ns as f64 / 1e9);
    // After the last operation the run may still do other work.
    if done == 0 || done >= of {
        return told;
    }
    format!("{told}, {:.0} s left", wall.as_secs_f64() * (of - done) as f64 / done as f64)
}

/// Returns a message such as "`512 of 1165 s, 34 s/s, 19 s left`", which states the virtual time, its rate and the
/// remaining wall time.
fn message(now_ns: u64, total_ns: u64, wall: Duration) -> String {
    let (now_s, total_s) = (now_ns as f64 / 1e9, total_ns as f64 / 1e9);
    let rate = now_s / wall.as_secs_f64().max(1e-3);
    // The end is an estimate. A run that has passed the estimate shows no remaining time.
    match (total_ns, rate > 0.0) {
        (total_ns, _) if now_ns >= total_ns => format!("{now_s:.0} s, {rate:.1} s/s"),
        (_, false) => format!("{now_s:.0} of {total_s:.0} s"),
        (_, true) => {
            format!("{now_s:.0} of {total_s:.0} s, {rate:.1} s/s, {:.0} s left", (total_s - now_s).max(0.0) / rate)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::InMemoryTerm;

    #[test]
    fn progress_fits_80_columns_whatever_runs() {
        let term = InMemoryTerm::new(10, 80);
        let bars = Bars::drawn_on(ProgressDrawTarget::term_like(Box::new(term.clone())), "parallelio", 2);
        let progress = Progress::default();
        progress.set_total_ns(86_400_000_000_000);
        progress.set_now_ns(43_200_000_000_000);
        bars.began(0, "3.10-rc4-vanilla", &progress);
        bars.began(1, &format!("{}+lru.batch=14 seed 7", "long-".repeat(20)), &progress);
        bars.shared.redraw();
        let text = term.contents();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "no line is broken: {text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80 && line.contains("43200 of 86400 s")), "{text}");
        assert!(lines[0].starts_with("3.10-rc4-vanilla ") && lines[1].contains("lru.batch=14 seed 7 "), "{text}");
        bars.ended(0);
        bars.ended(1);
        assert_eq!(term.contents(), "");
    }

    #[test]
    fn a_run_of_operations_tells_how_many_are_done() {
        let wall = Duration::from_secs(8);
        let told = |done| message_of_operations(done, 32_000, 4_100_000_000, wall);
        assert_eq!(told(8_000), "8000 of 32000 ops, 4.1 s, 24 s left");
        assert_eq!(told(0), "0 of 32000 ops, 4.1 s");
        assert_eq!(told(32_000), "32000 of 32000 ops, 4.1 s");
        let term = InMemoryTerm::new(10, 80);
        let bars = Bars::drawn_on(ProgressDrawTarget::term_like(Box::new(term.clone())), "randwrite", 1);
        let progress = Progress::default();
        progress.set_total_operations(32_000);
        progress.set_operations(16_000);
        bars.began(0, "6.1-mglru", &progress);
        bars.shared.redraw();
        let text = term.contents();
        assert!(text.contains("16000 of 32000 ops, 0.0 s, 0 s left") && text.matches('█').count() == 5, "{text}");
        bars.ended(0);
    }

    #[test]
    fn a_line_tells_virtual_time_rate_and_wall_time_left() {
        let wall = Duration::from_secs(10);
        assert_eq!(message(500_000_000_000, 1_100_000_000_000, wall), "500 of 1100 s, 50.0 s/s, 12 s left");
        assert_eq!(message(500_000_000_000, 0, wall), "500 s, 50.0 s/s");
        assert_eq!(message(0, 1_100_000_000_000, wall), "0 of 1100 s");
    }
}

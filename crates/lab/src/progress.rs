//! Progress on a terminal: virtual time, rate and what is left, a line for each running job.
//!
//! This is the one place of the lab that looks at wall time, and all of it goes to standard error.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, stderr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{job::Progress, runner::Watch};

/// How often lines are drawn again.
const REDRAW: Duration = Duration::from_millis(200);

/// Lines on standard error while jobs run; nothing if that is not a terminal.
pub struct Bars {
    shared: Arc<Shared>,
    titles: Vec<String>,
    redraw: Option<JoinHandle<()>>,
}

struct Shared {
    lines: MultiProgress,
    running: Mutex<BTreeMap<usize, (ProgressBar, Progress, Instant)>>,
    is_over: AtomicBool,
}

impl Bars {
    /// Lines for jobs with these titles.
    #[must_use]
    pub fn new(titles: Vec<String>) -> Self {
        let is_shown = stderr().is_terminal();
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let shared = Arc::new(Shared {
            lines: MultiProgress::with_draw_target(target),
            running: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let redraw = is_shown.then(|| {
            let shared = shared.clone();
            thread::spawn(move || shared.redraw_until_over())
        });
        Self { shared, titles, redraw }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(redraw) = self.redraw.take() {
            redraw.thread().unpark();
            // A panic there costs lines on a terminal, not the results.
            let _ = redraw.join();
        }
        let _ = self.shared.lines.clear();
    }
}

impl Watch for Bars {
    fn began(&self, index: usize, progress: &Progress) {
        if self.redraw.is_none() {
            return;
        }
        let style = ProgressStyle::with_template("{prefix:>40.40} {bar:24} {wide_msg}").expect("a fixed template");
        let bar = self.shared.lines.add(ProgressBar::new(1000).with_style(style));
        bar.set_prefix(self.titles.get(index).cloned().unwrap_or_default());
        self.shared.running().insert(index, (bar, progress.clone(), Instant::now()));
    }

    fn ended(&self, index: usize) {
        if let Some((bar, ..)) = self.shared.running().remove(&index) {
            bar.finish_and_clear();
        }
    }
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, BTreeMap<usize, (ProgressBar, Progress, Instant)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn redraw_until_over(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            for (bar, progress, since) in self.running().values() {
                let (now_ns, total_ns) = (progress.now_ns(), progress.total_ns());
                if let Some(permille) = now_ns.saturating_mul(1000).checked_div(total_ns) {
                    bar.set_position(permille.min(1000));
                }
                bar.set_message(message(now_ns, total_ns, since.elapsed()));
            }
            thread::park_timeout(REDRAW);
        }
    }
}

/// "`512 of 1165 s, 34 s/s, 19 s left`": virtual time, its rate, wall time left.
fn message(now_ns: u64, total_ns: u64, wall: Duration) -> String {
    let (now_s, total_s) = (now_ns as f64 / 1e9, total_ns as f64 / 1e9);
    let rate = now_s / wall.as_secs_f64().max(1e-3);
    // The end is an estimate: who is past it is told nothing about the rest.
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

    #[test]
    fn a_line_tells_virtual_time_rate_and_wall_time_left() {
        let wall = Duration::from_secs(10);
        assert_eq!(message(500_000_000_000, 1_100_000_000_000, wall), "500 of 1100 s, 50.0 s/s, 12 s left");
        assert_eq!(message(500_000_000_000, 0, wall), "500 s, 50.0 s/s");
        assert_eq!(message(0, 1_100_000_000_000, wall), "0 of 1100 s");
    }
}

//! Pressure stall information (PSI): the figures that machines report about tasks that lack memory, in the form of
//! `/proc/pressure/memory` and `memory.pressure` (mechanisms/pressure, 4 and 5).

use crate::Nanos;
use std::fmt;
use std::str::FromStr;

/// The interval at which the averages of [`Stalls`] are updated.
pub const PERIOD: Nanos = Nanos::from_secs(2);

/// The figures on one line of a text of PSI: the line `some` (at least one task stalled) or the line `full` (all tasks
/// stalled that have work to do).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stalls {
    /// Shares of the last 10, 60 and 300 s in which tasks were stalled, in percent.
    pub percent: [f64; 3],
    /// Total time for which tasks were stalled, in us.
    pub total_us: u64,
}

impl fmt::Display for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [short, middle, long] = self.percent;
        write!(f, "avg10={short:.2} avg60={middle:.2} avg300={long:.2} total={}", self.total_us)
    }
}

/// The pressure on memory of a machine or of a memory control group. [`fmt::Display`] gives the text of the kernel's
/// files, with a line break after each of the two lines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Times in which at least one task was stalled.
    pub some: Stalls,
    /// Times in which all tasks that had work were stalled.
    pub full: Stalls,
}

impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "some {}\nfull {}", self.some, self.full)
    }
}

/// Running averages of the share of time in which tasks were stalled, over 10, 60 and 300 s.
///
/// After each [`PERIOD`], the average over T seconds becomes `exp(-2/T)` times its old value plus `1 - exp(-2/T)` times
/// the share of this period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Averages([f64; 3]);

/// Factors by which the three averages decay in one period: `exp(-2/10)`, `exp(-2/60)` and `exp(-2/300)`. The digits
/// are written out because the function `exp` gives different last digits on different computers.
const KEPT: [f64; 3] = [0.818_730_753_077_981_8, 0.967_216_100_482_005_9, 0.993_355_506_255_034_4];

/// Value below which an average becomes 0 while no task is stalled. Averages are shares of time, from 0 to 1.
const NOTHING: f64 = 1e-12;

impl Averages {
    /// Adds a period in which tasks were stalled for `share` of the time, 0 to 1.
    pub fn add_period(&mut self, share: f64) {
        for (average, kept) in self.0.iter_mut().zip(KEPT) {
            *average = *average * kept + share * (1.0 - kept);
        }
    }

    /// Adds `periods` periods without a stall.
    pub fn add_quiet_periods(&mut self, periods: u64) {
        for _ in 0..periods {
            if self.0.iter().all(|share| *share < NOTHING) {
                self.0 = [0.0; 3];
                return;
            }
            self.add_period(0.0);
        }
    }

    /// Returns the share of time in which tasks were stalled, averaged over 10, 60 and 300 s, percent.
    #[must_use]
    pub fn percent(&self) -> [f64; 3] {
        self.0.map(|share| share * 100.0)
    }
}

/// A trigger of PSI, for which a task can wait: it raises an event when tasks were stalled for `threshold` within
/// `window`. As text, a trigger is what a program writes to a file of PSI: `some 150000 1000000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// `true` if all tasks must be stalled (`full`); `false` if one is enough (`some`).
    pub is_full: bool,
    /// Stall time that raises an event when it is reached within one window.
    pub threshold: Nanos,
    /// Length of the window in which the stall time is counted. At most one event is raised in a window.
    pub window: Nanos,
}

/// Shortest and longest window that a PSI trigger may have.
const WINDOWS: [Nanos; 2] = [Nanos::from_millis(500), Nanos::from_secs(10)];

/// Number of times per window that a trigger's stall time is read.
pub const LOOKS_IN_WINDOW: u64 = 10;

impl Trigger {
    /// Returns the interval between two reads of the stall time.
    #[must_use]
    pub const fn look_every(self) -> Nanos {
        Nanos(self.window.0 / LOOKS_IN_WINDOW)
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = if self.is_full { "full" } else { "some" };
        write!(f, "{line} {} {}", self.threshold.0 / 1000, self.window.0 / 1000)
    }
}

/// The error of a text that does not describe a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerError(String);

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TriggerError {}

impl FromStr for Trigger {
    type Err = TriggerError;

    fn from_str(text: &str) -> Result<Self, TriggerError> {
        let refused = |why: &str| TriggerError(format!("`{text}` is no trigger of pressure: {why}"));
        let words: Vec<&str> = text.split_whitespace().collect();
        let [line, threshold, window] = words[..] else {
            return Err(refused("it is `some` or `full`, a threshold and a window in us, as `some 150000 1000000`"));
        };
        let is_full = match line {
            "some" => false,
            "full" => true,
            other => return Err(refused(&format!("it begins with `{other}` instead of `some` or `full`"))),
        };
        let micros = |name: &str, word: &str| {
            let us: Option<u64> = word.parse().ok();
            let ns = us.and_then(|us| us.checked_mul(1000));
            ns.map(Nanos).ok_or_else(|| refused(&format!("the {name} `{word}` is no number of us")))
        };
        let (threshold, window) = (micros("threshold", threshold)?, micros("window", window)?);
        if !(WINDOWS[0]..=WINDOWS[1]).contains(&window) {
            return Err(refused("the window must be from 500000 us to 10000000 us"));
        }
        if threshold == Nanos(0) || threshold > window {
            return Err(refused("the threshold must be above 0 and at most the window"));
        }
        Ok(Self { is_full, threshold, window })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_form_of_the_kernel() {
        let some = Stalls { percent: [1.5, 0.0, 0.019], total_us: 5_606_772 };
        let full = Stalls { percent: [100.0, 0.004, 0.0], total_us: 27 };
        let text =
            "some avg10=1.50 avg60=0.00 avg300=0.02 total=5606772\nfull avg10=100.00 avg60=0.00 avg300=0.00 total=27\n";
        assert_eq!(Pressure { some, full }.to_string(), text);
    }

    /// There are n periods of 2 s, with stalls in the share s of each. Each average must then be `s × (1 -
    /// exp(-2n/T))`, where T is the length of the average (10, 60 or 300 s). Each later period without stalls must
    /// multiply it by `exp(-2/T)`.
    #[test]
    fn averages_follow_the_recurrence() {
        let mut averages = Averages::default();
        (0..5).for_each(|_| averages.add_period(0.5));
        let after = |seconds: f64| [10.0, 60.0, 300.0].map(|window: f64| (-seconds / window).exp());
        let rounded = |percent: [f64; 3]| percent.map(|percent| (percent * 1e4).round());
        let risen = after(10.0).map(|kept| 50.0 * (1.0 - kept));
        assert_eq!(rounded(averages.percent()), rounded(risen));
        assert_eq!(rounded(averages.percent()), [316_060.0, 76_759.0, 16_392.0], "31.6060 %, 7.6759 %, 1.6392 %");
        averages.add_quiet_periods(30);
        let fallen: Vec<f64> = risen.into_iter().zip(after(60.0)).map(|(risen, kept)| risen * kept).collect();
        assert_eq!(rounded(averages.percent()).to_vec(), rounded([fallen[0], fallen[1], fallen[2]]).to_vec());
        averages.add_quiet_periods(u64::MAX);
        assert_eq!(averages.percent(), [0.0; 3]);
    }

    #[test]
    fn triggers_are_read_and_refused() {
        let trigger: Trigger = "full 150000 1000000".parse().unwrap();
        let expected = Trigger { is_full: true, threshold: Nanos::from_millis(150), window: Nanos::from_secs(1) };
        assert_eq!((trigger, trigger.to_string()), (expected, "full 150000 1000000".to_owned()));
        for (text, word) in [
            ("some 150000", "a threshold and a window"),
            ("any 150000 1000000", "`any`"),
            ("some 1.5 1000000", "`1.5` is no number of us"),
            ("some 150000 18446744073709551615", "no number of us"),
            ("some 150000 499999", "from 500000 us"),
            ("some 150000 10000001", "to 10000000 us"),
            ("some 0 1000000", "above 0"),
            ("some 1000001 1000000", "at most the window"),
        ] {
            let error = text.parse::<Trigger>().unwrap_err().to_string();
            assert!(error.contains(word) && error.contains(text), "{error}");
        }
    }
}

//! Pressure on memory (PSI) as the kernel reports it, and triggers on it.

use super::Stop;
use machine::Nanos;
use machine::pressure::Trigger;
use recordings::looks::{Look, Pressure as Text};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use workloads::system::{Pressure, PressureTrigger, SystemError};

/// Interval at which a waiting task checks whether it was told to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

fn told(path: &Path) -> impl Fn(io::Error) -> SystemError + '_ {
    move |error| SystemError(format!("{}: {error}", path.display()))
}

/// Reads a file of PSI. Returns `None` if the kernel was built, or started, without PSI.
pub(super) fn read(path: &Path) -> Result<Option<Pressure>, SystemError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Text::of(&text).both()),
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.kind() == io::ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(told(path)(error)),
    }
}

/// Opens a file of PSI, and writes the trigger `text` to it. Returns a value that can wait until the trigger fires.
pub(super) fn trigger(path: &Path, text: &str, stop: Arc<Stop>) -> Result<PressureTrigger, SystemError> {
    let trigger: Trigger =
        text.parse().map_err(|error: machine::pressure::TriggerError| SystemError(error.to_string()))?;
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(told(path))?;
    file.write_all(format!("{trigger}\0").as_bytes()).map_err(told(path))?;
    let path = path.to_owned();
    Ok(PressureTrigger::new(move |time| wait(&file, time, &stop).map_err(told(&path))))
}

fn wait(file: &File, time: Nanos, stop: &Stop) -> io::Result<bool> {
    let end = Instant::now() + Duration::from_nanos(time.0);
    loop {
        let left = end.saturating_duration_since(Instant::now()).min(LOOK_EVERY);
        let left = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        let mut watched = [PollFd::new(file, PollFlags::PRI)];
        match poll(&mut watched, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let seen = watched[0].revents();
        if seen.contains(PollFlags::ERR) {
            return Err(io::Error::other("the kernel no longer watches the pressure"));
        }
        if seen.contains(PollFlags::PRI) {
            return Ok(true);
        }
        if stop.is_set() || Instant::now() >= end {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_the_kernel_writes_it_and_may_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.pressure");
        assert_eq!(read(&file).unwrap(), None);
        let text =
            "some avg10=1.50 avg60=0.00 avg300=0.02 total=5606772\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=27\n";
        std::fs::write(&file, text).unwrap();
        assert_eq!(read(&file).unwrap().expect("it has both lines").to_string(), text);
    }

    #[test]
    fn a_wrong_trigger_is_refused_before_the_kernel_sees_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.pressure");
        std::fs::write(&file, "untouched").unwrap();
        let refused = |path, text| trigger(path, text, Arc::default()).err().expect("it is refused").0;
        assert!(refused(&file, "some 150000").contains("`some 150000` is no trigger"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "untouched");
        let missing = folder.path().join("none");
        assert!(refused(&missing, "some 150000 1000000").contains("none"), "it names the file");
    }
}

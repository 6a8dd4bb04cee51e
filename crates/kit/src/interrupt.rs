//! Handling of Ctrl-C, SIGTERM and SIGHUP, so that changes are undone and unfinished files are removed.
//!
//! While a [`Guard`] exists, an interrupt is only remembered, and the run ends by itself. Without a guard the interrupt
//! removes every [`Leftover`] and then ends the process as usual.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

static IS_SET: AtomicBool = AtomicBool::new(false);
static IS_PASSED_ON: AtomicBool = AtomicBool::new(false);
static GUARDS: AtomicUsize = AtomicUsize::new(0);
static LEFTOVERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static LISTENER: Once = Once::new();

/// A guard: while it exists, Ctrl-C, SIGTERM and SIGHUP are only remembered. Without a guard they end the process as
/// usual.
#[derive(Debug)]
pub struct Guard(());

/// Returns a guard, with which interrupts are only remembered from now on.
#[must_use]
pub fn guard() -> Guard {
    GUARDS.fetch_add(1, Ordering::SeqCst);
    listen();
    Guard(())
}

impl Drop for Guard {
    fn drop(&mut self) {
        GUARDS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns whether an interrupt has come.
#[must_use]
pub fn is_set() -> bool {
    IS_SET.load(Ordering::SeqCst)
}

/// Returns whether the interrupt was SIGTERM or SIGHUP. Ctrl-C in a terminal also reaches the children of this process;
/// SIGTERM and SIGHUP may not reach them.
#[must_use]
pub fn is_passed_on() -> bool {
    IS_PASSED_ON.load(Ordering::SeqCst)
}

/// Acts as if an interrupt had come.
pub fn set() {
    IS_SET.store(true, Ordering::SeqCst);
}

/// An unfinished file. Dropping this removes the file, and so does an interrupt that ends the process.
#[derive(Debug)]
pub struct Leftover {
    path: PathBuf,
    is_kept: bool,
}

impl Leftover {
    /// Makes the file `path` by calling `make`, and notes that it is unfinished. Returns the result of `make` with the
    /// note.
    ///
    /// # Errors
    /// When `make` fails.
    pub fn make<T>(path: &Path, make: impl FnOnce() -> io::Result<T>) -> io::Result<(T, Self)> {
        listen();
        // The lock ensures that no interrupt ends the process after the file is made and before it is noted.
        let mut all = leftovers();
        let made = make()?;
        all.push(path.to_owned());
        Ok((made, Self { path: path.to_owned(), is_kept: false }))
    }

    /// Keeps the file, because it is finished or has another name.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let mut all = leftovers();
        if !self.is_kept {
            // A file that cannot be removed stays.
            let _ = fs::remove_file(&self.path);
        }
        if let Some(at) = all.iter().position(|path| *path == self.path) {
            all.swap_remove(at);
        }
    }
}

fn leftovers() -> MutexGuard<'static, Vec<PathBuf>> {
    LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves signals to the program in which this library runs, such as Python with its own handlers. Has no effect if
/// this module already listens for signals.
///
/// Afterwards only dropping a [`Leftover`] removes an unfinished file.
pub fn leave_to_others() {
    LISTENER.call_once(|| {});
}

/// Removes unfinished files, and calls `end` to end the process.
fn end_with(end: impl FnOnce()) {
    // The lock is held to the end of the process, so that no further file is made.
    let all = leftovers();
    for path in &*all {
        let _ = fs::remove_file(path);
    }
    end();
}

/// Starts to listen for signals. If this fails, an interrupt ends the process as usual.
#[cfg(unix)]
fn listen() {
    use signal_hook::{
        consts::{SIGHUP, SIGINT, SIGTERM},
        iterator::Signals,
        low_level::emulate_default_handler,
    };

    LISTENER.call_once(|| {
        let ignored = ignored();
        let is_ignored = move |signal: i32| ignored >> (signal - 1) & 1 == 1;
        // Ignored signals stay ignored: `nohup` starts a process with SIGHUP ignored, and a shell starts a background
        // process with SIGINT ignored.
        let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal));
        let Ok(mut signals) = Signals::new(heard) else { return };
        let listen = move || {
            for signal in signals.forever() {
                match GUARDS.load(Ordering::SeqCst) {
                    0 => end_with(|| drop(emulate_default_handler(signal))),
                    _ => {
                        IS_PASSED_ON.fetch_or(signal != SIGINT, Ordering::SeqCst);
                        set();
                    }
                }
            }
        };
        let _ = std::thread::Builder::new().name("interrupts".into()).spawn(listen);
    });
}

/// Returns the set of signals that this process was started to ignore: bit 0 stands for signal 1, and so on. Returns 0
/// if `/proc` does not tell.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Starts to listen for signals. If this fails, an interrupt ends the process as usual.
#[cfg(not(unix))]
fn listen() {
    LISTENER.call_once(|| {
        let _ = ctrlc::set_handler(|| match GUARDS.load(Ordering::SeqCst) {
            0 => end_with(|| std::process::exit(130)),
            _ => set(),
        });
    });
}

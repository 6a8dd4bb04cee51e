//! Handles *interrupts* (Ctrl-C, SIGTERM and SIGHUP), so that changes are undone and unfinished files are removed.
//!
//! While a [`Guard`] exists, an interrupt only sets a flag, which the run checks ([`is_set`]) to end in good order.
//! Without a guard, an interrupt removes every unfinished file ([`Leftover`]) and then ends the process as usual.

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

/// A guard that keeps Ctrl-C, SIGTERM and SIGHUP from ending the process while it exists. These signals then only set
/// the flag that [`is_set`] returns.
#[derive(Debug)]
pub struct Guard(());

/// Makes a guard. As long as it exists, an interrupt does not end the process, but only sets the flag that [`is_set`]
/// returns.
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

/// Returns whether Ctrl-C, SIGTERM or SIGHUP has come so far.
#[must_use]
pub fn is_set() -> bool {
    IS_SET.load(Ordering::SeqCst)
}

/// Returns whether the interrupt was SIGTERM or SIGHUP, and must therefore be passed on to child processes. Ctrl-C in a
/// terminal reaches the children by itself.
#[must_use]
pub fn is_passed_on() -> bool {
    IS_PASSED_ON.load(Ordering::SeqCst)
}

/// Sets the flag that [`is_set`] returns, as Ctrl-C does.
pub fn set() {
    IS_SET.store(true, Ordering::SeqCst);
}

/// An unfinished file, which is removed when the value is dropped or when an interrupt ends the process.
#[derive(Debug)]
pub struct Leftover {
    path: PathBuf,
    is_kept: bool,
}

impl Leftover {
    /// Makes the file `path` by calling `make`, and registers it as unfinished. Returns the result of `make`, and the
    /// value that keeps the file registered.
    ///
    /// # Errors
    /// When `make` fails.
    pub fn make<T>(path: &Path, make: impl FnOnce() -> io::Result<T>) -> io::Result<(T, Self)> {
        listen();
        // The lock ensures that no interrupt ends the process after the file was made and before it is registered.
        let mut all = leftovers();
        let made = make()?;
        all.push(path.to_owned());
        Ok((made, Self { path: path.to_owned(), is_kept: false }))
    }

    /// Keeps the file: it is finished, or was renamed.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let mut all = leftovers();
        if !self.is_kept {
            // If the file cannot be removed, it stays.
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

/// Makes this module handle no signals, because the program in which it runs, such as Python, has its own handlers. If
/// the module already handles signals, this changes nothing.
///
/// An interrupt then does not remove unfinished files; only dropping their [`Leftover`] does.
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
        // A signal that this process was started to ignore stays ignored. `nohup` starts processes in this way with
        // SIGHUP, and shells start background processes in this way with SIGINT.
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

/// Returns the set of signals that this process ignores, as bits: bit 0 stands for signal 1, and so on. Returns 0 if
/// `/proc/self/status` does not show the set.
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

//! Ctrl-C while something is there that has to be undone: tells the run to end, so that it is.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static IS_SET: AtomicBool = AtomicBool::new(false);
static GUARDS: AtomicUsize = AtomicUsize::new(0);
static HANDLER: Once = Once::new();

/// While there is one, Ctrl-C (and SIGTERM, SIGHUP) is only remembered; without, it ends the process as ever.
#[derive(Debug)]
pub struct Guard(());

/// Remembers interrupts from now on.
#[must_use]
pub fn guard() -> Guard {
    GUARDS.fetch_add(1, Ordering::SeqCst);
    HANDLER.call_once(|| {
        // Where another handler is there already, interrupts are its affair.
        let _ = ctrlc::set_handler(|| {
            if GUARDS.load(Ordering::SeqCst) == 0 {
                std::process::exit(130);
            }
            set();
        });
    });
    Guard(())
}

impl Drop for Guard {
    fn drop(&mut self) {
        GUARDS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Was there an interrupt?
#[must_use]
pub fn is_set() -> bool {
    IS_SET.load(Ordering::SeqCst)
}

/// As if there had been one.
pub fn set() {
    IS_SET.store(true, Ordering::SeqCst);
}

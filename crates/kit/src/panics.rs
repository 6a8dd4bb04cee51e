//! Turns panics into messages, so that users see no backtrace unless they ask for one.

use std::{any::Any, backtrace::Backtrace, cell::RefCell, panic};

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Silences panics from now on. [`message`] then returns the text and the place of a panic and, with `RUST_BACKTRACE`
/// set, the backtrace.
pub fn keep_quiet() {
    panic::set_hook(Box::new(|info| {
        let mut text = format!("{}", PanicText(info.payload()));
        if let Some(place) = info.location() {
            text.push_str(&format!(" (at {}:{})", place.file(), place.line()));
        }
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
            text.push_str(&format!("\n{}", Backtrace::force_capture()));
        }
        LAST.with(|last| *last.borrow_mut() = Some(text));
    }));
}

/// Returns the message of the last caught panic of this thread, whose value is `payload`.
#[must_use]
pub fn message(payload: &(dyn Any + Send)) -> String {
    LAST.with(|last| last.borrow_mut().take()).unwrap_or_else(|| PanicText(payload).to_string())
}

struct PanicText<'a>(&'a (dyn Any + Send));

impl std::fmt::Display for PanicText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.0.downcast_ref::<&str>().copied();
        let text = text.or_else(|| self.0.downcast_ref::<String>().map(String::as_str));
        write!(f, "{}", text.unwrap_or("a panic without a message"))
    }
}

//! Turns panics into messages, so that users see no backtrace unless they ask for one.

use std::{any::Any, backtrace::Backtrace, cell::RefCell, panic};

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Makes panics print nothing from now on. [`message`] then returns the text and the source line of a panic, and its
/// backtrace if `RUST_BACKTRACE` is set.
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

/// Returns the message of the last panic of this thread. `payload` is the value that `catch_unwind` returned for it.
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

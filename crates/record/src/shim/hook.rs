//! Replaces a function of libc by a function of the same name, which calls it, and a hook that records the call.

use crate::real::{errno, set_errno};

/// Calls `hook`, and restores `errno` afterwards. Returns the result of `hook`.
#[inline]
pub fn quietly<T>(hook: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = hook();
    set_errno(before);
    result
}

/// Defines replacements for functions of libc. A pair of brackets holds the names of functions that have equal
/// arguments and meaning, and share a hook. Each replacement calls the hook. Its first argument is a closure that calls
/// libc's function, and the others are the arguments that the program passed.
macro_rules! replace {
    ($([$($name:ident),+] $arguments:tt -> $result:ty => $hook:expr;)+) => {
        $($($crate::hook::replace_one!($name $arguments -> $result => $hook);)+)+
    };
}
pub(crate) use replace;

/// Defines the replacement for one function of libc; see `replace`.
macro_rules! replace_one {
    ($name:ident ($($argument:ident: $type:ty),* $(,)?) -> $result:ty => $hook:expr) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            let real = $crate::real::real!($name: unsafe extern "C" fn($($type),*) -> $result);
            // SAFETY: the caller's promise to libc's function of this name, to which all is passed on.
            ($hook)(&|| unsafe { real($($argument),*) }, $($argument),*)
        }
    };
}
pub(crate) use replace_one;

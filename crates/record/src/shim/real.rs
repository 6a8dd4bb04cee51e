//! Access to the functions of libc that this library replaces.

use std::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
    fn abort() -> !;
}

/// Returns the address of the function `name` in the libraries that are searched after this one (`RTLD_NEXT`). If none
/// has the function, aborts the process.
pub fn find(name: &std::ffi::CStr) -> usize {
    // SAFETY: the name is a C string; -1 is RTLD_NEXT.
    let found = unsafe { dlsym(usize::MAX as *mut c_void, name.as_ptr()) };
    if found.is_null() {
        // A program calls what its libc does not have.
        // SAFETY: it takes nothing.
        unsafe { abort() }
    }
    found as usize
}

/// Returns the calling thread's `errno`.
pub fn errno() -> c_int {
    // SAFETY: it is a place of this thread.
    unsafe { *__errno_location() }
}

/// Sets the calling thread's `errno`.
pub fn set_errno(value: c_int) {
    // SAFETY: it is a place of this thread.
    unsafe { *__errno_location() = value };
}

/// Converts the result of a raw system call to the result of libc's function: for a negative error number, returns -1
/// and sets `errno`.
pub fn result(of_kernel: isize) -> isize {
    if (-4095..0).contains(&of_kernel) {
        set_errno(-of_kernel as c_int);
        return -1;
    }
    of_kernel
}

/// Returns libc's function `$name` as a function pointer of the type `$type`. This library defines a function of the
/// same name, which programs call instead of libc's.
macro_rules! real {
    ($name:ident: $type:ty) => {{
        static FOUND: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let mut found = FOUND.load(std::sync::atomic::Ordering::Relaxed);
        if found == 0 {
            const NAME: &std::ffi::CStr =
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!(),
                };
            found = $crate::real::find(NAME);
            FOUND.store(found, std::sync::atomic::Ordering::Relaxed);
        }
        // SAFETY: libc's function of this name has this type.
        unsafe { std::mem::transmute::<usize, $type>(found) }
    }};
}
pub(crate) use real;

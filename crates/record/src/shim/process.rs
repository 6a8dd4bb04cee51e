//! Replaces the functions of libc that start and end processes, so that programs that this process starts are recorded,
//! too.

use crate::files::{catch_up_all, look, note_fork};
use crate::hook::{quietly, replace};
use crate::real::real;
use crate::ring::{self, begin_process, emit, emit_text, is_borrowed, ring};
use crate::wire::{Kind, flag};
use crate::{maps, pages, stdio, sys};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

type Path = *const c_char;
type Texts = *const *const c_char;

/// The settings `LD_PRELOAD=…` and `HIGHWATER_RECORD=…` of this process's environment, as it had them at its start.
static SETTINGS: [AtomicPtr<c_char>; 2] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];
const NAMES: [&[u8]; 2] = [b"LD_PRELOAD=", b"HIGHWATER_RECORD="];

unsafe extern "C" {
    static mut environ: Texts;
    fn strdup(text: *const c_char) -> *mut c_char;
}

/// Starts to record this process. The dynamic loader calls this function before the program's own code runs.
unsafe extern "C" fn load() {
    quietly(|| {
        ring::open();
        if !ring::was_open() {
            return;
        }
        // SAFETY: the environment is a list of C strings.
        let all = unsafe { texts(environ) };
        for (place, name) in SETTINGS.iter().zip(NAMES) {
            if let Some(text) = all.clone().find(|text| starts_with(*text, name)) {
                // SAFETY: it is a C string; the copy is kept as long as the process lives.
                place.store(unsafe { strdup(text) }, Ordering::Relaxed);
            }
        }
        begin_process();
        // The standard streams are known from now on: what stdio does is seen by their positions.
        for fd in 0..3 {
            let _ = look(fd);
        }
        pages::begin();
    });
}

/// Records the end of this process. The loader calls this after the program's own code.
unsafe extern "C" fn unload() {
    end(true);
}

// SAFETY: the loader calls what stands in these sections.
#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: unsafe extern "C" fn() = load;
// SAFETY: as above.
#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOAD: unsafe extern "C" fn() = unload;

/// Records the end of the process. `is_orderly` is true if the process ends by `exit`, so that stdio writes its
/// buffers.
fn end(is_orderly: bool) {
    if !ring::was_open() || is_borrowed() {
        return;
    }
    quietly(|| {
        if is_orderly {
            stdio::end();
        } else {
            catch_up_all();
        }
        emit(Kind::Exit, 0, 0, 0, 0);
    });
}

replace! {
    [fork, _Fork]() -> c_int => |call: &dyn Fn() -> c_int| {
        if ring().is_none() {
            return call();
        }
        let locked = maps::lock();
        let child = call();
        drop(locked);
        quietly(|| match child {
            0 => {
                note_fork();
                begin_process();
            }
            child if child > 0 => {
                note_fork();
                emit(Kind::Fork, 0, child as u64, 0, 0);
            }
            _ => {}
        });
        child
    };
}

/// Defines replacements for functions that end the process without cleanup, such as `_exit`.
macro_rules! ends {
    ($($name:ident),+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(status: c_int) -> ! {
                end(false);
                let real = real!($name: unsafe extern "C" fn(c_int) -> !);
                // SAFETY: it takes any status.
                unsafe { real(status) }
            }
        )+
    };
}

ends!(_exit, _Exit);

/// Returns the C strings of a list that ends with a null pointer.
///
/// # Safety
/// `list` must be null, or point to a list of pointers to C strings whose last pointer is null.
unsafe fn texts(list: Texts) -> impl Iterator<Item = *const c_char> + Clone {
    let mut at = list;
    std::iter::from_fn(move || {
        if at.is_null() {
            return None;
        }
        // SAFETY: the list goes on until null.
        let text = unsafe { *at };
        // SAFETY: as above.
        at = unsafe { at.add(1) };
        (!text.is_null()).then_some(text)
    })
    .fuse()
}

fn starts_with(text: *const c_char, start: &[u8]) -> bool {
    // SAFETY: the texts here are C strings.
    unsafe { CStr::from_ptr(text) }.to_bytes().starts_with(start)
}

/// The environment of a new program. `list` is the caller's list or, if this library had to change the list, a copy in
/// newly mapped memory. `bytes` is the size of the copy, or 0 if there is none.
struct Environment {
    list: Texts,
    bytes: usize,
}

impl Environment {
    /// Returns the environment with which a new program is started: `list`, with the environment variables of this
    /// library added if they are missing. If the recorder does not read the ring any more, these variables are left
    /// out.
    fn of(list: Texts) -> Self {
        let settings = SETTINGS.each_ref().map(|place| place.load(Ordering::Relaxed).cast_const());
        if settings.contains(&std::ptr::null()) {
            return Self { list, bytes: 0 };
        }
        let is_closed = ring().is_none();
        // SAFETY: the caller's environment.
        let all = unsafe { texts(list) };
        let has = |name: &[u8]| all.clone().any(|text| starts_with(text, name));
        let missing = NAMES.map(|name| !has(name));
        if !is_closed && missing == [false; 2] {
            return Self { list, bytes: 0 };
        }
        let bytes = (all.clone().count() + 3) * size_of::<*const c_char>();
        let prot = sys::PROT_READ | sys::PROT_WRITE;
        // Memory that a child by `vfork` may take, too. SAFETY: a new mapping where the kernel likes.
        let at = unsafe { sys::mmap(std::ptr::null_mut(), bytes, prot, 2 | sys::MAP_ANONYMOUS, -1, 0) };
        if at <= 0 {
            return Self { list, bytes: 0 };
        }
        let new = at as *mut *const c_char;
        let own = settings.into_iter().zip(missing).filter(|(_, missing)| *missing && !is_closed);
        let is_old =
            |text: &*const c_char| is_closed && (settings_equal(*text, settings[0]) || starts_with(*text, NAMES[1]));
        let kept = all.filter(|text| !is_old(text)).chain(own.map(|(text, _)| text));
        for (place, text) in kept.enumerate() {
            // SAFETY: there are at most two more than before, and the last stays null.
            unsafe { new.add(place).write(text) };
        }
        Self { list: new.cast_const(), bytes }
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: it was mapped in `of`, and nobody has it after the call.
            unsafe { sys::munmap(self.list.cast_mut().cast::<c_void>(), self.bytes) };
        }
    }
}

fn settings_equal(one: *const c_char, other: *const c_char) -> bool {
    // SAFETY: both are C strings.
    unsafe { CStr::from_ptr(one) == CStr::from_ptr(other) }
}

/// Records that this process is about to become another program (`exec`).
fn tell_exec(path: Path) {
    if ring().is_none() || path.is_null() {
        return;
    }
    quietly(|| {
        if is_borrowed() {
            // A child by `vfork` goes on with the files of its parent, which has them, too.
            note_fork();
        } else {
            catch_up_all();
        }
        // SAFETY: the caller's path.
        let text = unsafe { CStr::from_ptr(path) }.to_bytes();
        emit_text(Kind::Exec, 0, u64::from(sys::process()), 0, 0, &[text]);
    });
}

/// Defines the shim's replacements for the `exec` functions whose caller passes an environment, such as `execve`. Such
/// a function makes this process run another program.
macro_rules! execs {
    ($($name:ident($($argument:ident: $type:ty),*; $path:ident $(, $flags:ident)?);)+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type,)* environment: Texts $(, $flags: c_int)?) -> c_int {
                tell_exec($path);
                let real = real!($name: unsafe extern "C" fn($($type,)* Texts $(, $name::$flags)?) -> c_int);
                let environment = Environment::of(environment);
                // SAFETY: the caller's arguments.
                unsafe { real($($argument,)* environment.list $(, $flags)?) }
            }
        )+
    };
}

/// The types of the arguments of `execveat` for which the macro `execs` needs a name.
mod execveat {
    #![allow(non_camel_case_types, reason = "named like the argument")]
    pub type flags = std::ffi::c_int;
}

execs! {
    execve(path: Path, arguments: Texts; path);
    execvpe(path: Path, arguments: Texts; path);
    fexecve(fd: c_int, arguments: Texts; NO_PATH);
    execveat(fd: c_int, path: Path, arguments: Texts; path, flags);
}

const NO_PATH: Path = c"(by descriptor)".as_ptr();

#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: Path, arguments: Texts) -> c_int {
    // SAFETY: the caller's arguments and environment.
    unsafe { execve(path, arguments, environ) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(path: Path, arguments: Texts) -> c_int {
    // SAFETY: the caller's arguments and environment.
    unsafe { execvpe(path, arguments, environ) }
}

/// Defines the shim's replacements for `posix_spawn` and `posix_spawnp`, which start a program in a new process.
macro_rules! spawns {
    ($($name:ident),+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                child: *mut c_int,
                path: Path,
                actions: *const c_void,
                attributes: *const c_void,
                arguments: Texts,
                environment: Texts,
            ) -> c_int {
                type Spawn =
                    unsafe extern "C" fn(*mut c_int, Path, *const c_void, *const c_void, Texts, Texts) -> c_int;
                let environment = Environment::of(environment);
                let mut started = 0;
                let real = real!($name: Spawn);
                quietly(note_fork);
                // SAFETY: the caller's arguments, and a place for the number.
                let result =
                    unsafe { real(&raw mut started, path, actions, attributes, arguments, environment.list) };
                if result == 0 {
                    quietly(|| {
                        emit(Kind::Fork, 0, started as u64, 0, 0);
                        // SAFETY: the caller's path.
                        let text = unsafe { CStr::from_ptr(path) }.to_bytes();
                        emit_text(Kind::Exec, flag::FOUND, started as u64, 0, 0, &[text]);
                    });
                    if !child.is_null() {
                        // SAFETY: the caller's place.
                        unsafe { *child = started };
                    }
                }
                result
            }
        )+
    };
}

spawns!(posix_spawn, posix_spawnp);

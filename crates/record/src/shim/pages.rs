//! Records accesses to the pages of mapped files.
//!
//! Most pages of a mapping are *closed*: their protection is `PROT_NONE`. An access to a closed page faults. The fault
//! handler records the access and opens the page: it restores the protection that the program chose. Only a limited
//! number of pages may be open. Before an access would exceed the limit, the handler closes all open pages.

use crate::hook::{quietly, replace};
use crate::maps::{Region, Table, lock, lock_in_handler, of_interest};
use crate::real::real;
use crate::ring::ring;
use crate::sys::{self, Part};
use crate::wire::Kind;
use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE: usize = 4096;
const FAULT: c_int = 11;
/// Largest size, bytes, of a writable shared mapping whose page touches are not recorded. A mapping this small may hold
/// locks (futexes), which the kernel itself accesses, so its pages must stay accessible.
const LOCKS_BYTES: usize = 64 << 10;
/// Number of places in the table of open (accessible) pages. [`LIMIT`] is less than this.
const OPEN_MAX: usize = 1 << 16;

/// Largest number of pages that may be open (accessible) at a time; 0: accesses to mappings are not recorded.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// The mapped pages that the program can access without a fault, as ranges. Used under the lock of the table of
/// mappings.
struct Open {
    ranges: [(usize, usize); OPEN_MAX],
    count: usize,
    pages: usize,
}

struct Shared<T>(UnsafeCell<T>);

// SAFETY: what is within is only used under the lock of the table of mappings.
unsafe impl<T> Sync for Shared<T> {}

static OPEN: Shared<Open> = Shared(UnsafeCell::new(Open { ranges: [(0, 0); OPEN_MAX], count: 0, pages: 0 }));

/// libc's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Action {
    handler: usize,
    mask: [u64; 16],
    flags: c_int,
    restorer: usize,
}

/// The action that the program itself has set for the fault signal.
static OF_PROGRAM: Shared<Action> =
    Shared(UnsafeCell::new(Action { handler: 0, mask: [0; 16], flags: 0, restorer: 0 }));
const SA_SIGINFO: c_int = 4;
const SA_ONSTACK: c_int = 0x0800_0000;

/// Returns whether touches of mapped pages are recorded.
fn is_on() -> bool {
    LIMIT.load(Ordering::Relaxed) > 0
}

/// Starts to record accesses to mapped pages, if the recorder requests it.
pub fn begin() {
    let pages = ring().map_or(0, |ring| ring.pages_open.load(Ordering::Relaxed) as usize).min(OPEN_MAX - 1);
    if pages == 0 {
        return;
    }
    let action =
        Action { handler: on_fault as *const () as usize, mask: [!0; 16], flags: SA_SIGINFO | SA_ONSTACK, restorer: 0 };
    let real = real!(sigaction: unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int);
    // SAFETY: both actions are libc's structure.
    if unsafe { real(FAULT, &raw const action, OF_PROGRAM.0.get()) } == 0 {
        LIMIT.store(pages, Ordering::Relaxed);
    }
}

/// Returns whether accesses to a mapping with these properties are recorded.
pub fn is_to_follow(len: usize, prot: c_int, is_shared: bool) -> bool {
    let is_for_locks = is_shared && prot & sys::PROT_WRITE != 0 && len <= LOCKS_BYTES;
    is_on() && prot & sys::PROT_READ != 0 && !is_for_locks
}

/// Makes pages inaccessible (`PROT_NONE`), so that the next access to each faults and is recorded.
pub fn close(range: &Range<usize>) {
    // SAFETY: the range is a mapping of the program, whose faults are handled here.
    unsafe { sys::mprotect(range.start, range.end - range.start, 0) };
}

/// Makes pages accessible again, with the protection `prot` that the program chose for them.
pub fn open_all(range: &Range<usize>, prot: c_int) {
    // SAFETY: the range is a mapping of the program, with its own protection.
    unsafe { sys::mprotect(range.start, range.end - range.start, prot) };
}

/// Makes pages of a region accessible for reading, or with `is_write` also for writing. Records a touch of each page.
fn open(region: &Region, range: Range<usize>, is_write: bool) {
    let is_copied = is_write && !region.is_shared;
    for start in range.clone().step_by(PAGE) {
        let page = start..start + PAGE;
        // The first write to a private page copies it: only that read reaches the file.
        region.emit(if is_write && !is_copied { Kind::Store } else { Kind::Load }, 0, &page);
    }
    // SAFETY: the caller has the lock of the table.
    let open = unsafe { &mut *OPEN.0.get() };
    if is_copied {
        open.forget(&range);
    } else {
        open.add(&range);
    }
    open_all(&range, if is_write { region.prot } else { region.prot & !sys::PROT_WRITE });
}

impl Open {
    /// Adds the pages of `range` to the list of open pages. If the list is full, the pages stay open for good, and
    /// further accesses to them are not recorded.
    fn add(&mut self, range: &Range<usize>) {
        if let Some(place) = self.ranges.get_mut(self.count) {
            let pages = (range.end - range.start) / PAGE;
            *place = (range.start, pages);
            self.count += 1;
            self.pages += pages;
        }
    }

    /// Closes all open pages if one more would exceed the limit. Closing all of them together halves the number of
    /// system calls, compared with closing the oldest page for each new one. Between two such closings, only the first
    /// touch of a page is recorded.
    fn make_room(&mut self, table: &Table) {
        if self.pages < LIMIT.load(Ordering::Relaxed) {
            return;
        }
        for region in table.all().iter().filter(|region| region.is_followed) {
            // Pages of private mappings that the program has written to are its own, and stay open.
            let may_have_copies = !region.is_shared && region.prot & sys::PROT_WRITE != 0;
            let mut span: Option<Range<usize>> = None;
            for (start, pages) in &self.ranges[..self.count] {
                let Some(common) = region.common(&(*start..start + pages * PAGE)) else { continue };
                if may_have_copies {
                    close(&common);
                } else {
                    span = Some(span.map_or(common.clone(), |it| it.start.min(common.start)..it.end.max(common.end)));
                }
            }
            if let Some(span) = span {
                close(&span);
            }
        }
        (self.count, self.pages) = (0, 0);
    }

    /// Removes the pages of `range` from the list of open (accessible) pages, so that they stay open when the others
    /// are closed again.
    fn forget(&mut self, range: &Range<usize>) {
        for place in &mut self.ranges[..self.count] {
            if range.start <= place.0 && place.0 + place.1 * PAGE <= range.end {
                self.pages -= place.1;
                place.1 = 0;
            }
        }
    }
}

/// Restores access to the protected (*closed*) pages of a buffer that a system call is about to access. Otherwise the
/// call would fail with EFAULT: a kernel access to such a page raises no signal that the shim could handle.
pub fn admit(at: usize, len: usize, is_write: bool) {
    if !is_on() {
        return;
    }
    let Some(range) = of_interest(at, len) else { return };
    quietly(|| {
        let table = lock();
        for region in table.all().iter().filter(|region| region.is_followed) {
            if let Some(common) = region.common(&range) {
                open(region, common, is_write && region.prot & sys::PROT_WRITE != 0);
            }
        }
    });
}

/// Restores access to the protected (*closed*) pages of all buffers of a scattered transfer (`readv`), as [`admit`]
/// does for one buffer.
pub fn admit_parts(parts: *const Part, count: c_int, is_write: bool) {
    if !is_on() || parts.is_null() {
        return;
    }
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller's list has so many parts.
        let part = unsafe { &*parts.add(at) };
        admit(part.base as usize, part.len, is_write);
    }
}

/// Restores access to the protected (*closed*) pages that hold a path. Called before a system call that reads the path,
/// which would otherwise fail with EFAULT.
pub fn admit_text(text: *const c_char) {
    if is_on() {
        admit(text as usize, 4096, false);
    }
}

/// Handles the signal of a fault: opens the page if it is closed, and otherwise passes the signal on to the program.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: the kernel's structure has the address there.
    let address = unsafe { info.cast::<usize>().add(2).read() };
    // SAFETY: the kernel's structure.
    let is_write = unsafe { is_write(context) };
    let is_opened = quietly(|| {
        let table = lock_in_handler();
        let Some(region) = table.at(address).filter(|region| region.is_followed) else { return false };
        let needed = if is_write { sys::PROT_WRITE } else { sys::PROT_READ };
        if region.prot & needed == 0 {
            return false;
        }
        let start = address & !(PAGE - 1);
        // SAFETY: this handler has the lock of the table.
        unsafe { &mut *OPEN.0.get() }.make_room(&table);
        open(region, start..start + PAGE, is_write);
        true
    });
    if !is_opened {
        // SAFETY: what the kernel gave.
        unsafe { pass_on(signal, info, context) };
    }
}

/// Handles a fault that the shim did not cause: calls the program's handler, or lets the fault end the process.
unsafe fn pass_on(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: the program sets it under the lock, and not while it faults.
    let action = unsafe { *OF_PROGRAM.0.get() };
    if action.handler <= 1 {
        sys::set_default(signal);
        return;
    }
    // SAFETY: the kernel's structure has the mask there.
    unsafe { sys::set_signals(mask(context)) };
    if action.flags & SA_SIGINFO != 0 {
        // SAFETY: the program said that it is such a function.
        let handler: unsafe extern "C" fn(c_int, *mut c_void, *mut c_void) =
            unsafe { std::mem::transmute(action.handler) };
        // SAFETY: what the kernel gave.
        unsafe { handler(signal, info, context) };
    } else {
        // SAFETY: as above.
        let handler: unsafe extern "C" fn(c_int) = unsafe { std::mem::transmute(action.handler) };
        // SAFETY: as above.
        unsafe { handler(signal) };
    }
}

/// Returns whether a write caused the fault. `context` is the `ucontext_t` that the signal handler received.
#[cfg(target_arch = "x86_64")]
unsafe fn is_write(context: *mut c_void) -> bool {
    // SAFETY: `ucontext_t` has the fault's error code, the 20th register, at byte 192.
    unsafe { context.cast::<u64>().add(24).read() & 2 != 0 }
}

/// Returns the mask of the signals that were blocked when the fault happened.
#[cfg(target_arch = "x86_64")]
unsafe fn mask(context: *mut c_void) -> u64 {
    // SAFETY: `ucontext_t` has the mask at byte 296.
    unsafe { context.cast::<u64>().add(37).read() }
}

/// Returns whether a write caused the fault. `context` is the `ucontext_t` that the signal handler received.
#[cfg(target_arch = "aarch64")]
unsafe fn is_write(context: *mut c_void) -> bool {
    const SYNDROME: u32 = 0x4553_5201;
    // Records of 8 bytes and more, each with its kind and size, from byte 464 of `ucontext_t` on.
    let mut at = context.cast::<u8>().wrapping_add(464).cast::<u32>();
    for _ in 0..16 {
        // SAFETY: the kernel ends the records with a kind and size of 0.
        let (kind, bytes) = unsafe { (at.read(), at.add(1).read()) };
        if kind == SYNDROME {
            // SAFETY: the record has the syndrome behind its head; bit 6 is "write, not read".
            return unsafe { at.add(2).read() } & 1 << 6 != 0;
        }
        if kind == 0 || bytes < 8 {
            break;
        }
        at = at.wrapping_add(bytes as usize / 4);
    }
    false
}

/// Returns the mask of the signals that were blocked when the fault happened.
#[cfg(target_arch = "aarch64")]
unsafe fn mask(context: *mut c_void) -> u64 {
    // SAFETY: `ucontext_t` has the mask at byte 40.
    unsafe { context.cast::<u64>().add(5).read() }
}

/// Returns the signal mask `mask` without the signal that a closed page raises. If this signal were blocked, a fault
/// would kill the process.
fn without_fault(mask: [u64; 16]) -> [u64; 16] {
    let mut mask = mask;
    mask[0] &= !(1 << (FAULT - 1));
    mask
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    let real = real!(sigaction: unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int);
    if !is_on() {
        // SAFETY: the caller's arguments.
        return unsafe { real(signal, new, old) };
    }
    if signal == FAULT {
        let _table = lock();
        // SAFETY: the caller's places or null, and the lock.
        unsafe {
            let before = *OF_PROGRAM.0.get();
            if let Some(new) = new.as_ref() {
                *OF_PROGRAM.0.get() = *new;
            }
            if !old.is_null() {
                *old = before;
            }
        }
        return 0;
    }
    // SAFETY: the caller's place or null.
    let changed = unsafe { new.as_ref() }.map(|new| Action { mask: without_fault(new.mask), ..*new });
    let new = changed.as_ref().map_or(std::ptr::null(), |new| &raw const *new);
    // SAFETY: the caller's arguments.
    unsafe { real(signal, new, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    if is_on() && signal == FAULT {
        let new = Action { handler, mask: [0; 16], flags: 0, restorer: 0 };
        let mut old = new;
        // SAFETY: both are libc's structure.
        unsafe { sigaction(signal, &raw const new, &raw mut old) };
        return old.handler;
    }
    let real = real!(signal: unsafe extern "C" fn(c_int, usize) -> usize);
    // SAFETY: the caller's arguments.
    unsafe { real(signal, handler) }
}

/// Defines replacements for the functions that block signals. A replacement never blocks SIGSEGV while page touches are
/// recorded.
macro_rules! masks {
    ($($name:ident),+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(how: c_int, new: *const [u64; 16], old: *mut [u64; 16]) -> c_int {
                let real = real!($name: unsafe extern "C" fn(c_int, *const [u64; 16], *mut [u64; 16]) -> c_int);
                const UNBLOCK: c_int = 1;
                // SAFETY: the caller's place or null.
                let changed = match unsafe { new.as_ref() } {
                    Some(new) if is_on() && how != UNBLOCK => Some(without_fault(*new)),
                    _ => None,
                };
                let new = changed.as_ref().map_or(new, |new| &raw const *new);
                // SAFETY: the caller's arguments.
                unsafe { real(how, new, old) }
            }
        )+
    };
}

masks!(sigprocmask, pthread_sigmask);

replace! {
    [send](fd: c_int, from: *const c_void, len: usize, flags: c_int) -> isize =>
        |call: &dyn Fn() -> isize, _, from: *const c_void, len, _| {
            admit(from as usize, len, false);
            call()
        };
    [recv](fd: c_int, to: *mut c_void, len: usize, flags: c_int) -> isize =>
        |call: &dyn Fn() -> isize, _, to: *mut c_void, len, _| {
            admit(to as usize, len, true);
            call()
        };
}

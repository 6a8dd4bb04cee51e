//! Follows each page of mapped files: mappings are closed (`PROT_NONE`) but for so many pages, and the fault of a
//! closed page records its touch and opens it, closing all others when too many are open.

use crate::files::quietly;
use crate::io::{Part, replace};
use crate::maps::{Region, Table, lock, lock_in_handler, of_interest};
use crate::real::real;
use crate::ring::ring;
use crate::sys;
use crate::wire::Kind;
use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE: usize = 4096;
const FAULT: c_int = 11;
/// Writable shared mappings up to this size hold locks, on which the kernel waits: they are left open.
const LOCKS_BYTES: usize = 64 << 10;
/// Most pages that may be open.
const OPEN_MAX: usize = 1 << 16;

/// How many pages may be open; 0: mappings are not followed.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// The pages that are open, as ranges. Used under the lock of the table of mappings.
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

/// What the program wants to be done about faults of its own.
static OF_PROGRAM: Shared<Action> =
    Shared(UnsafeCell::new(Action { handler: 0, mask: [0; 16], flags: 0, restorer: 0 }));
const SA_SIGINFO: c_int = 4;
const SA_ONSTACK: c_int = 0x0800_0000;

/// Returns whether pages of mappings are followed.
fn is_on() -> bool {
    LIMIT.load(Ordering::Relaxed) > 0
}

/// Starts to follow, if the recorder wants it.
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

/// Returns whether a mapping is one to follow.
pub fn is_to_follow(len: usize, prot: c_int, is_shared: bool) -> bool {
    let is_for_locks = is_shared && prot & sys::PROT_WRITE != 0 && len <= LOCKS_BYTES;
    is_on() && prot & sys::PROT_READ != 0 && !is_for_locks
}

/// Closes pages.
pub fn close(range: &Range<usize>) {
    // SAFETY: the range is a mapping of the program, whose faults are handled here.
    unsafe { sys::mprotect(range.start, range.end - range.start, 0) };
}

/// Opens pages as the program has them.
pub fn open_all(range: &Range<usize>, prot: c_int) {
    // SAFETY: the range is a mapping of the program, with its own protection.
    unsafe { sys::mprotect(range.start, range.end - range.start, prot) };
}

/// Opens pages of a region for reading, or for reading and writing, and records the touch of each.
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
    /// Adds pages. Beyond the largest number of ranges, pages stay open: their further touches are not seen.
    fn add(&mut self, range: &Range<usize>) {
        if let Some(place) = self.ranges.get_mut(self.count) {
            let pages = (range.end - range.start) / PAGE;
            *place = (range.start, pages);
            self.count += 1;
            self.pages += pages;
        }
    }

    /// Closes all pages if one more would be too many. That all are closed together, and not the oldest for each new
    /// one, halves the system calls; between two of these times a page is recorded once.
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

    /// These pages belong to the program alone from now on: they are not closed again.
    fn forget(&mut self, range: &Range<usize>) {
        for place in &mut self.ranges[..self.count] {
            if range.start <= place.0 && place.0 + place.1 * PAGE <= range.end {
                self.pages -= place.1;
                place.1 = 0;
            }
        }
    }
}

/// Opens what the kernel is about to read, or to write, for the program: it would not fault, but refuse.
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

/// Opens the parts of a scattered transfer.
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

/// Opens the pages of a path.
pub fn admit_text(text: *const c_char) {
    if is_on() {
        admit(text as usize, 4096, false);
    }
}

/// Handles a fault.
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

/// Gives a fault of the program's own to its handler, or lets it end the process.
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

/// Returns whether the fault was a write.
#[cfg(target_arch = "x86_64")]
unsafe fn is_write(context: *mut c_void) -> bool {
    // SAFETY: `ucontext_t` has the fault's error code, the 20th register, at byte 192.
    unsafe { context.cast::<u64>().add(24).read() & 2 != 0 }
}

/// Returns the signals that were blocked.
#[cfg(target_arch = "x86_64")]
unsafe fn mask(context: *mut c_void) -> u64 {
    // SAFETY: `ucontext_t` has the mask at byte 296.
    unsafe { context.cast::<u64>().add(37).read() }
}

/// Returns whether the fault was a write.
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

/// Returns the signals that were blocked.
#[cfg(target_arch = "aarch64")]
unsafe fn mask(context: *mut c_void) -> u64 {
    // SAFETY: `ucontext_t` has the mask at byte 40.
    unsafe { context.cast::<u64>().add(5).read() }
}

/// Returns a mask without the fault, which the kernel would not let through.
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

/// Replaces functions that block signals.
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

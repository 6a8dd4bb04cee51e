//! Replaces the functions of libc that map files. Has the table of mappings: for each range of addresses, the mapped
//! file and the offset in it.

use crate::files::look;
use crate::hook::{quietly, replace};
use crate::pages;
use crate::real::result;
use crate::ring::{count, emit_range, ring};
use crate::sys;
use crate::wire::{Blind, Kind, advice, flag};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Address = *mut c_void;

/// Largest number of mappings that are recorded at a time.
const LIMIT: usize = 4096;
const PAGE: usize = 4096;

/// A mapping of this process: its addresses, and the range of the file behind them.
#[derive(Clone, Copy)]
pub struct Region {
    pub start: usize,
    pub end: usize,
    offset: u64,
    handle: u32,
    pub prot: c_int,
    pub is_shared: bool,
    /// True if the touches of the region's pages are recorded: each page is inaccessible (`PROT_NONE`) until it is
    /// touched.
    pub is_followed: bool,
}

impl Region {
    /// Records an event about the part of the file that is mapped at the addresses `range`.
    pub fn emit(&self, kind: Kind, flags: u16, range: &Range<usize>) {
        let offset = self.offset + (range.start - self.start) as u64;
        emit_range(kind, flags, offset, (range.end - range.start) as u64, self.handle);
    }

    /// Returns the addresses that the region and the range have in common.
    pub fn common(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let (start, end) = (self.start.max(range.start), self.end.min(range.end));
        (start < end).then_some(start..end)
    }

    /// Returns the part of the region at the addresses `range`, which lie within the region.
    fn part(&self, range: Range<usize>) -> Self {
        let offset = self.offset + (range.start - self.start) as u64;
        Self { start: range.start, end: range.end, offset, ..*self }
    }
}

/// The table of the file mappings of this process.
pub struct Table {
    regions: [Region; LIMIT],
    count: usize,
}

struct Shared(UnsafeCell<Table>);

// SAFETY: the table is only reached through `Locked`, of which there is one at a time.
unsafe impl Sync for Shared {}

static TABLE: Shared = Shared(UnsafeCell::new(Table {
    regions: [Region { start: 0, end: 0, offset: 0, handle: 0, prot: 0, is_shared: false, is_followed: false }; LIMIT],
    count: 0,
}));
static IS_LOCKED: AtomicBool = AtomicBool::new(false);
/// The lowest first address and the highest end address that any recorded mapping ever had.
static BOUNDS: [AtomicUsize; 2] = [AtomicUsize::new(usize::MAX), AtomicUsize::new(0)];

/// A guard that gives access to the table of mappings and unlocks it when dropped.
pub struct Locked {
    /// The signal mask to restore when the table is unlocked. `None` if a signal handler has locked the table, which
    /// does not change the mask.
    signals: Option<u64>,
}

/// Locks the table of mappings. Blocks all signals other than faults until the table is unlocked, because a signal
/// handler could need the table.
pub fn lock() -> Locked {
    let signals = Some(sys::block_signals());
    take();
    Locked { signals }
}

/// Locks the table of mappings for the calling signal handler. Blocks no signals, because all signals must already be
/// blocked while the handler runs.
pub fn lock_in_handler() -> Locked {
    take();
    Locked { signals: None }
}

fn take() {
    while IS_LOCKED.swap(true, Ordering::Acquire) {
        std::hint::spin_loop();
        if IS_LOCKED.load(Ordering::Relaxed) {
            sys::sleep_ns(1000);
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        IS_LOCKED.store(false, Ordering::Release);
        if let Some(signals) = self.signals {
            sys::set_signals(signals);
        }
    }
}

impl Deref for Locked {
    type Target = Table;

    fn deref(&self) -> &Table {
        // SAFETY: there is one `Locked` at a time.
        unsafe { &*TABLE.0.get() }
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Table {
        // SAFETY: there is one `Locked` at a time.
        unsafe { &mut *TABLE.0.get() }
    }
}

impl Table {
    /// Returns the mapped region that contains an address; `None` if there is no such region.
    pub fn at(&self, address: usize) -> Option<&Region> {
        self.all().iter().find(|region| (region.start..region.end).contains(&address))
    }

    /// Returns all regions.
    pub fn all(&self) -> &[Region] {
        &self.regions[..self.count]
    }

    fn add(&mut self, region: Region) {
        let Some(place) = self.regions.get_mut(self.count) else {
            count(Blind::ManyMappings);
            return;
        };
        *place = region;
        self.count += 1;
        BOUNDS[0].fetch_min(region.start, Ordering::Relaxed);
        BOUNDS[1].fetch_max(region.end, Ordering::Relaxed);
    }

    /// Removes a range of addresses from the table. Calls `each` with every region of which a part is removed, and with
    /// the addresses of this part.
    fn remove(&mut self, range: &Range<usize>, mut each: impl FnMut(&Region, &Range<usize>)) {
        let mut at = 0;
        while at < self.count {
            let region = self.regions[at];
            let Some(common) = region.common(range) else {
                at += 1;
                continue;
            };
            each(&region, &common);
            self.count -= 1;
            self.regions[at] = self.regions[self.count];
            for rest in [region.start..common.start, common.end..region.end] {
                if !rest.is_empty() {
                    self.add(region.part(rest));
                }
            }
            // What was added overlaps no more; what moved here is looked at.
        }
    }

    /// Removes the addresses `range` from the recorded mappings, and records the removal.
    fn unmap(&mut self, range: &Range<usize>) {
        self.remove(range, |region, common| region.emit(Kind::Unmap, 0, common));
    }
}

/// Returns the range of `len` bytes from address `at` on, widened to whole pages. Returns `None` if no recorded mapping
/// can lie there, or if nothing is recorded.
pub fn of_interest(at: usize, len: usize) -> Option<Range<usize>> {
    let range = at & !(PAGE - 1)..at.checked_add(len)?.checked_next_multiple_of(PAGE)?;
    let [low, high] = BOUNDS.each_ref().map(|bound| bound.load(Ordering::Relaxed));
    (len > 0 && range.start < high && range.end > low && ring().is_some()).then_some(range)
}

/// Defines the functions that replace `mmap` and `mmap64` of the C library.
macro_rules! mmaps {
    ($($name:ident),+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                at: Address,
                len: usize,
                prot: c_int,
                flags: c_int,
                fd: c_int,
                offset: i64,
            ) -> Address {
                // SAFETY: the caller's promise.
                let call = || unsafe { sys::mmap(at, len, prot, flags, fd, offset) };
                map(&call, at as usize, len, [prot, flags, fd], offset)
            }
        )+
    };
}

mmaps!(mmap, mmap64);

fn map(call: &dyn Fn() -> isize, at: usize, len: usize, [prot, flags, fd]: [c_int; 3], offset: i64) -> Address {
    let is_file = flags & sys::MAP_ANONYMOUS == 0;
    let file = if is_file { quietly(|| look(fd)) } else { None };
    let replaced = if flags & sys::MAP_FIXED != 0 { of_interest(at, len) } else { None };
    if file.is_none() && replaced.is_none() {
        return result(call()) as Address;
    }
    let mut table = lock();
    let mapped = call();
    if !(-4095..0).contains(&mapped) {
        if let Some(range) = replaced {
            table.unmap(&range);
        }
        if let Some(file) = file {
            let start = mapped as usize;
            let end = start + len.next_multiple_of(PAGE);
            let is_shared = flags & 3 != 2;
            let is_followed = pages::is_to_follow(len, prot, is_shared);
            let handle = file.handle();
            let region = Region { start, end, offset: offset as u64, handle, prot, is_shared, is_followed };
            add(&mut table, region);
        }
    }
    drop(table);
    result(mapped) as Address
}

/// Adds a region to the table and records the mapping. If touches of the region are recorded, makes its pages
/// inaccessible.
fn add(table: &mut Table, region: Region) {
    let range = region.start..region.end;
    let shared = if region.is_shared { flag::SHARED } else { 0 };
    let followed = if region.is_followed { flag::FOLLOWED } else { 0 };
    region.emit(Kind::Map, shared | followed, &range);
    if region.is_followed {
        pages::close(&range);
    } else {
        count(Blind::Mapping);
    }
    table.add(region);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(at: Address, len: usize) -> c_int {
    // SAFETY: the caller's promise.
    let call = || unsafe { sys::munmap(at, len) };
    let Some(range) = of_interest(at as usize, len) else { return result(call()) as c_int };
    let mut table = lock();
    let unmapped = call();
    if unmapped == 0 {
        table.unmap(&range);
    }
    drop(table);
    result(unmapped) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mremap(at: Address, old: usize, new: usize, flags: c_int, to: Address) -> Address {
    // SAFETY: the caller's promise.
    let call = || unsafe { sys::mremap(at, old, new, flags, to) };
    let Some(range) = of_interest(at as usize, old.max(1)) else { return result(call()) as Address };
    let mut table = lock();
    let Some(region) = table.at(at as usize).copied() else {
        drop(table);
        return result(call()) as Address;
    };
    if region.is_followed {
        // The kernel moves no range whose pages differ in their protection.
        pages::open_all(&range, region.prot);
    }
    let moved = call();
    if !(-4095..0).contains(&moved) {
        table.unmap(&range);
        let start = moved as usize;
        let end = start + new.next_multiple_of(PAGE);
        let offset = region.part(range.start..range.end.min(region.end)).offset;
        add(&mut table, Region { start, end, offset, ..region });
    } else if region.is_followed {
        pages::close(&range);
    }
    drop(table);
    result(moved) as Address
}

/// Returns the code of [`advice`] for a number of `madvise`; `None` for advice that is not recorded.
fn advice_of(code: c_int) -> Option<u16> {
    match code {
        0 => Some(advice::NORMAL),
        1 => Some(advice::RANDOM),
        2 => Some(advice::SEQUENTIAL),
        3 => Some(advice::WILL_NEED),
        4 | 20 | 21 => Some(advice::DONT_NEED),
        _ => None,
    }
}

/// Records advice on mappings (`madvise`). After `MADV_DONTNEED`, makes the pages of a private mapping inaccessible.
/// The next access to such a page reads it from the file again, and this access is then recorded.
fn advise(call: &dyn Fn() -> c_int, at: Address, len: usize, code: c_int) -> c_int {
    const POPULATE: Range<c_int> = 22..24;
    if POPULATE.contains(&code) {
        pages::admit(at as usize, len, code == 23);
    }
    let found = call();
    if let (Some(range), Some(advice), 0) = (of_interest(at as usize, len), advice_of(code), found) {
        quietly(|| {
            let table = lock();
            for region in table.all() {
                let Some(common) = region.common(&range) else { continue };
                region.emit(Kind::Advise, advice, &common);
                if region.is_followed && !region.is_shared && advice == advice::DONT_NEED {
                    pages::close(&common);
                }
            }
        });
    }
    found
}

replace! {
    [madvise, posix_madvise](at: Address, len: usize, code: c_int) -> c_int => advise;
    [msync](at: Address, len: usize, flags: c_int) -> c_int => |call: &dyn Fn() -> c_int, at, len, _| {
        if let Some(range) = of_interest(at as usize, len) {
            quietly(|| {
                let table = lock();
                for region in table.all() {
                    region.common(&range).inspect(|common| region.emit(Kind::Sync, 0, common));
                }
            });
        }
        call()
    };
    [mlock](at: *const c_void, len: usize) -> c_int => |call: &dyn Fn() -> c_int, at, len| {
        pages::admit(at as usize, len, false);
        call()
    };
    [mprotect](at: Address, len: usize, prot: c_int) -> c_int => |call: &dyn Fn() -> c_int, at, len, prot| {
        let Some(range) = of_interest(at as usize, len) else { return call() };
        let mut table = lock();
        let changed = call();
        if changed == 0 {
            let mut parts = [None; 8];
            let mut count = 0;
            table.remove(&range, |region, common| {
                if let Some(place) = parts.get_mut(count) {
                    *place = Some(Region { prot, ..region.part(common.clone()) });
                    count += 1;
                }
                if region.is_followed {
                    pages::close(common);
                }
            });
            parts.into_iter().flatten().for_each(|part| table.add(part));
        }
        changed
    };
}

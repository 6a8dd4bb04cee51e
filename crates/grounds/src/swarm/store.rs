//! A model of the expected contents of files and regions. The tasks of a random world compare what they read with it.
//!
//! The first eight bytes of each page are a stamp: owner, page and version. Only one task writes a given page, so the
//! page's version only grows. A reader knows the last version whose write had succeeded when the read began, and the
//! last version whose write had begun when the read ended. The version in the stamp must lie between these two.

use super::Shared;
use engine::anonymous::{MapMode, Region, Sharing};
use engine::page_cache::File;
use engine::{Engine, Error, ReadState, Task};
use machine::{DeviceId, Machine, PAGE_BYTES};
use sim::Sim;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const PAGE: u64 = PAGE_BYTES as u64;

/// Number of bytes of a stamp. The stamp at the start of a page says which store and page it is, and which version of
/// its contents.
const STAMP: usize = 8;

/// The object that holds the pages of a [`Store`]: a file, a region, or both.
pub(super) enum What {
    File(Arc<File<Sim>>),
    Region(Arc<Region<Sim>>),
    /// A file that is used through its mapping. If the mapping is shared, the file is also read and written directly.
    Mapped(Arc<File<Sim>>, Arc<Region<Sim>>),
}

impl What {
    /// Returns the region in which tasks access the pages; `None` if the pages are those of a file that is not mapped.
    pub fn region(&self) -> Option<&Arc<Region<Sim>>> {
        match self {
            Self::File(_) => None,
            Self::Region(region) | Self::Mapped(_, region) => Some(region),
        }
    }

    /// Returns the file to which writes to the store go; `None` for anonymous memory and private mappings, whose writes
    /// go to no file.
    pub fn file(&self) -> Option<&Arc<File<Sim>>> {
        match self {
            Self::File(file) => Some(file),
            Self::Mapped(file, region) if is_shared(region) => Some(file),
            Self::Region(_) | Self::Mapped(..) => None,
        }
    }
}

fn is_shared(region: &Region<Sim>) -> bool {
    region.file.as_ref().is_some_and(|mapped| mapped.mode.sharing == Sharing::Shared)
}

/// The range of versions that a page may have. Each write of the page's stamp increases the version by one. Version 0
/// stands for a page that was never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Versions {
    /// Lowest version that the page may have: that of the last write that succeeded.
    floor: u32,
    /// Highest version that the page may have: that of the last write that began.
    ceiling: u32,
}

/// A file or region of a world. For each of its pages, the range of versions that a read of the page may find is known.
pub(super) struct Store {
    pub what: What,
    /// A number that no other store of the world has. The stamps of the store's pages contain the number.
    pub number: u64,
    /// Number of tasks that use the store. The last of these tasks drops the store.
    pub users: Cell<u32>,
    /// True if the device may lose writes to the store.
    is_lossy: bool,
    pages: RefCell<Vec<Versions>>,
    /// For a region that was forked, what each page held at the fork.
    inherited: Vec<Inherited>,
}

/// The contents that a page of a forked region has until the region's first write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inherited {
    /// The number of the store whose stamp the page has.
    number: u64,
    versions: Versions,
}

/// The part of a page that a write covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    /// The write covers only the page's stamp, its first eight bytes. The rest of the page must be read before.
    Stamp,
    /// The write covers the whole page except its stamp, which must keep its value.
    Rest,
}

impl Store {
    pub fn new(what: What, number: u64, is_lossy: bool) -> Rc<Self> {
        let pages = what.region().map_or(0, |region| region.pages as usize);
        let is_lossy = is_lossy && what.file().is_some();
        let pages = RefCell::new(vec![Versions::default(); pages]);
        Rc::new(Self { what, number, users: Cell::new(1), is_lossy, pages, inherited: Vec::new() })
    }

    /// Returns what each page holds now, for a region that is forked from this store. Returns `None` if this is not known,
    /// because the first write to a page has failed.
    fn contents(&self) -> Option<Vec<Inherited>> {
        let of_page = |(page, versions): (usize, &Versions)| match (versions.floor, versions.ceiling) {
            (0, 0) => Some(self.inherited.get(page).copied().unwrap_or(Inherited { number: 0, versions: *versions })),
            (0, _) => None,
            _ => Some(Inherited { number: self.number, versions: *versions }),
        };
        self.pages.borrow().iter().enumerate().map(of_page).collect()
    }

    /// Creates a store with the number `number` by a fork of this one, whose pages no other task writes. Returns `None` if
    /// this store is no anonymous region, or a page's contents are not known. `fork` makes the region.
    pub fn forked(
        &self,
        number: u64,
        fork: impl FnOnce(&Arc<Region<Sim>>) -> Option<Arc<Region<Sim>>>,
    ) -> Option<Rc<Self>> {
        let What::Region(region) = &self.what else { return None };
        let inherited = self.contents()?;
        let child = fork(region)?;
        let pages = RefCell::new(vec![Versions::default(); child.pages as usize]);
        let (what, users) = (What::Region(child), Cell::new(1));
        Some(Rc::new(Self { what, number, users, is_lossy: false, pages, inherited }))
    }

    /// Returns the number of pages of the file or region.
    pub fn pages(&self) -> u32 {
        self.pages.borrow().len() as u32
    }

    fn versions(&self, page: u32) -> Versions {
        self.pages.borrow()[page as usize]
    }

    fn stamp(&self, page: u32, version: u32) -> u64 {
        stamp_of(self.number, page, version)
    }

    /// Returns whether writes to the store go only to memory and swap, and to no file.
    pub fn is_memory(&self) -> bool {
        self.what.file().is_none()
    }

    /// Returns words that name the store in messages.
    fn name(&self) -> String {
        match &self.what {
            What::File(file) => format!("store {} (file {})", self.number, file.id),
            What::Region(region) => format!("store {} (region {})", self.number, region.id),
            What::Mapped(file, region) => {
                let shares = if is_shared(region) { "shares" } else { "copies" };
                format!("store {} (region {} {shares} file {})", self.number, region.id, file.id)
            }
        }
    }

    /// Writes the part `part` of one page. A page begins with a stamp, which contains a version: a write that covers
    /// the stamp writes the page's next version.
    pub fn write(&self, shared: &Shared, task: &mut Task, page: u32, part: Part) -> Result<(), Error> {
        let mut buffer = [0; PAGE_BYTES];
        let start = u64::from(page) * PAGE;
        let version = {
            let mut pages = self.pages.borrow_mut();
            if pages.len() <= page as usize {
                pages.resize(page as usize + 1, Versions::default());
            }
            let versions = &mut pages[page as usize];
            versions.ceiling += u32::from(part != Part::Rest);
            versions.ceiling
        };
        buffer[..STAMP].copy_from_slice(&self.stamp(page, version).to_le_bytes());
        let (offset, bytes) = match part {
            Part::Whole => (start, &buffer[..]),
            Part::Stamp => (start, &buffer[..STAMP]),
            Part::Rest => (start + STAMP as u64, &buffer[STAMP..]),
        };
        // A mapping changes pages without a call, so writes are logged only of files that are not mapped.
        if let (What::File(file), Some(log), Part::Whole | Part::Stamp) = (&self.what, &shared.log, part) {
            log.add(shared, file, page, self.stamp(page, version));
        }
        self.write_bytes(&shared.engine, task, offset, bytes, version % 2 == 1)?;
        if part != Part::Rest {
            self.pages.borrow_mut()[page as usize].floor = version;
        }
        Ok(())
    }

    /// Writes `bytes` through the mapping if `through_mapping` is set or there is no file to write to. Otherwise writes
    /// to the file. A store without a mapping is always written to its file.
    fn write_bytes(
        &self,
        engine: &Engine<Sim>,
        task: &mut Task,
        offset: u64,
        bytes: &[u8],
        through_mapping: bool,
    ) -> Result<(), Error> {
        match (self.what.region(), self.what.file()) {
            // Every other page as a program does, which leaves huge pages whole.
            (Some(region), file) if through_mapping || file.is_none() => match offset / PAGE % 2 {
                0 => engine.access().store(task, region, offset, bytes),
                _ => engine.access().write_region(task, region, offset, bytes),
            },
            (_, file) => engine.access().write(task, file.expect("a store has one or the other"), offset, bytes),
        }
    }

    /// Returns whether the store belongs to a process that was killed, so that its contents may be gone.
    pub fn is_of_killed(&self, engine: &Engine<Sim>) -> bool {
        let Some(owner) = self.what.region().and_then(|region| region.owner) else { return false };
        let processes = engine.anonymous().processes();
        processes.iter().any(|process| process.id == owner && process.is_killed())
    }

    /// Reads pages and checks the stamp of each. Panics if the version in a stamp lies outside the range of versions
    /// that the page may have.
    pub fn verify(
        &self,
        engine: &Engine<Sim>,
        task: &mut Task,
        state: &mut ReadState,
        pages: std::ops::Range<u32>,
    ) -> Result<(), Error> {
        let before: Vec<Versions> = pages.clone().map(|page| self.versions(page)).collect();
        let mut bytes = vec![0; before.len() * PAGE_BYTES];
        let offset = u64::from(pages.start) * PAGE;
        if let What::Mapped(file, region) = &self.what
            && !is_shared(region)
        {
            engine.access().read(task, file, state, offset, &mut bytes)?;
            assert!(bytes.iter().all(|byte| *byte == 0), "{} has written to it", self.name());
        }
        let length = match (self.what.region(), self.what.file()) {
            (Some(region), file) if pages.start % 2 == 1 || file.is_none() => {
                match pages.end % 2 {
                    0 => engine.access().load(task, region, offset, &mut bytes)?,
                    _ => engine.access().read_region(task, region, offset, &mut bytes)?,
                }
                bytes.len()
            }
            (_, file) => {
                engine.access().read(task, file.expect("a store has one or the other"), state, offset, &mut bytes)?
            }
        };
        // A process may be killed for the memory that this reading takes, even after its task has ended.
        if self.is_of_killed(engine) {
            return Ok(());
        }
        for ((page, before), bytes) in pages.zip(before).zip(bytes.chunks(PAGE_BYTES)) {
            let held = u64::from_le_bytes(bytes[..STAMP].try_into().expect("a page is longer than its stamp"));
            let has_ended = (u64::from(page) * PAGE).saturating_sub(offset) as usize + STAMP > length;
            assert!(!has_ended || before.floor == 0, "{} ends before page {page}, which was written", self.name());
            self.check(page, before, held);
        }
        Ok(())
    }

    fn check(&self, page: u32, before: Versions, held: u64) {
        // If the first write of a block failed, the block still has older contents, perhaps those of another file.
        if self.is_lossy && held >> 48 != self.stamp(0, 0) >> 48 {
            return;
        }
        let floor = if self.is_lossy { 0 } else { before.floor };
        let ceiling = self.versions(page).ceiling;
        let version = (held & 0xff_ffff) as u32;
        if before.floor == 0
            && let Some(Inherited { number, versions }) = self.inherited.get(page as usize)
        {
            let is_first = held == 0 && versions.floor == 0;
            let may_be = versions.floor..=versions.ceiling;
            if is_first || held == stamp_of(*number, page, version) && may_be.contains(&version) {
                return;
            }
            assert!(held != 0, "page {page} of {} has lost what it had at its fork", self.name());
        }
        let is_ours = if held == 0 { floor == 0 } else { held == self.stamp(page, version) && version >= floor };
        assert!(
            is_ours && version <= ceiling,
            "page {page} of {} holds stamp {held:#018x}, not one of {:#018x} to {:#018x}",
            self.name(),
            self.stamp(page, floor),
            self.stamp(page, ceiling)
        );
    }

    /// Writes a wrong stamp into a page, to test that the check finds it. The stamp contains a version that no write of
    /// the page has had.
    pub fn corrupt(&self, engine: &Engine<Sim>, task: &mut Task, page: u32) -> Result<(), Error> {
        let stamp = self.stamp(page, self.versions(page).ceiling + 1).to_le_bytes();
        let offset = u64::from(page) * PAGE;
        self.write_bytes(engine, task, offset, &stamp, true)
    }

    /// Frees the store, which no task uses any more.
    pub fn drop_all(&self, engine: &Engine<Sim>) {
        match &self.what {
            What::File(file) => engine.access().unlink(file),
            What::Region(region) => engine.access().drop_region(region),
            What::Mapped(file, region) => {
                engine.access().drop_region(region);
                engine.access().unlink(file);
            }
        }
    }
}

/// Returns the stamp of a version of a page of the store with the number `number`.
fn stamp_of(number: u64, page: u32, version: u32) -> u64 {
    1 << 63 | (number & 0x7fff) << 48 | u64::from(page & 0xff_ffff) << 24 | u64::from(version & 0xff_ffff)
}

/// Makes a file of `pages` pages that were never written, and maps it.
pub(super) fn map_new_file(
    engine: &Engine<Sim>,
    task: &mut Task,
    device: DeviceId,
    pages: u32,
    sharing: Sharing,
) -> Result<What, Error> {
    let file = engine.access().create(task, device)?;
    let mode = MapMode { sharing, ..MapMode::default() };
    let mapped = engine
        .access()
        .set_length(task, &file, u64::from(pages) * PAGE)
        .and_then(|()| engine.access().map_file(task, &file, 0, pages, mode));
    match mapped {
        Ok(region) => Ok(What::Mapped(file, region)),
        Err(error) => {
            engine.access().unlink(&file);
            Err(error)
        }
    }
}

/// Waits until no page is locked or under writeback. Returns an error if this takes too long.
pub(super) fn wait_for_devices(engine: &Engine<Sim>) -> Result<(), String> {
    use engine::memory::Flags;
    let is_busy = |n: &u32| {
        let flags = engine.memory().frames[machine::FrameNumber(*n)].flags();
        flags.has(Flags::LOCKED) || flags.has(Flags::WRITEBACK)
    };
    for _ in 0..10_000 {
        if !(0..engine.memory().frames.len()).any(|n| is_busy(&n)) {
            return Ok(());
        }
        engine.machine().pause(machine::Nanos::from_millis(10));
    }
    let frame = machine::FrameNumber((0..engine.memory().frames.len()).find(is_busy).unwrap_or_default());
    Err(format!("{frame} is still busy after 100 s without a task: {:?}", engine.memory().frames[frame]))
}

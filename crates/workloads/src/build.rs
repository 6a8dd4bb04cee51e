//! The memory and file accesses of a kernel build, for workloads with builds (mechanisms/benchmarks, 1.2).
//!
//! A build consists of a tree of sources, many compilers and a link. A compiler is a program with mapped text. It reads
//! a source and the headers that all compilers share, touches memory while it computes, and writes an object.

use crate::extent::{kib_pages, mib_pages};
use crate::system::{MapMode, Sharing, System, SystemError, page_bytes};
use documented::DocumentedFields;
use figures::scale::Scale;
use machine::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};
use sim::Sourced;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of parts of a compiler's work. In each part the compiler reads some headers, touches a piece of its memory,
/// and computes.
const PARTS: u64 = 32;

/// Name of the file that holds the compiler's text. All builds share this file.
pub const COMPILER: &str = "cc1";

/// Parameters of a kernel build at full scale. A run multiplies the sizes of memory and of the tree by its scale.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of files in an unpacked source tree.
    pub tree_files: Sourced<u64>,
    /// Size of each file of the tree, KiB.
    pub tree_file_kib: Sourced<u64>,
    /// Number of source files that are compiled.
    pub units: Sourced<u64>,
    /// Total size of the headers that each compiler reads, KiB.
    pub headers_kib: Sourced<u64>,
    /// Number of header files.
    pub headers: Sourced<u64>,
    /// Size of the compiler's text, MiB.
    pub text_mib: Sourced<u64>,
    /// Two numbers: the least and the most memory that a compiler uses, MiB. Each compiler uses a random amount between
    /// them.
    pub memory_mib: Sourced<[u64; 2]>,
    /// Mean CPU time for compiling one source file, ms.
    pub unit_ms: Sourced<u64>,
    /// Size of an object file, KiB.
    pub object_kib: Sourced<u64>,
    /// Two numbers: the memory that the linker uses, and the size of the image that the linker makes, MiB.
    pub link_mib: Sourced<[u64; 2]>,
    /// CPU time of the linker, ms.
    pub link_ms: Sourced<u64>,
    /// A compiler does its work in 32 parts. In each part it touches again this share of the memory that it has already
    /// touched, percent. The pages touched again are contiguous and lie at a random place. Default 0: each page is
    /// touched only once.
    #[serde(default)]
    pub touched_again_percent: Option<Sourced<u64>>,
    /// `true`: memory of compilers and linkers may have huge pages. Default: `false`, since these programs allocate
    /// memory in small chunks.
    #[serde(default)]
    pub huge_pages: bool,
}

impl Params {
    /// Checks the parameters before anything runs.
    ///
    /// # Errors
    /// When the parameters describe no possible build. The error is a text for the user.
    pub fn check(&self) -> Result<(), String> {
        if self.memory_mib.value[0] > self.memory_mib.value[1] {
            return Err("`memory_mib` is the least, then the most".to_owned());
        }
        if self.touched_again() > 100 {
            return Err("`touched_again_percent` is at most 100".to_owned());
        }
        Ok(())
    }

    /// Returns [`Params::touched_again_percent`] or its default.
    fn touched_again(&self) -> u64 {
        self.touched_again_percent.as_ref().map_or(0, |percent| percent.value)
    }

    /// Returns the number of pages of a source tree at full scale.
    #[must_use]
    pub fn tree_pages(&self) -> u64 {
        self.tree_files.value.saturating_mul(kib_pages(self.tree_file_kib.value))
    }

    /// Returns the number of operations of one compiler. Each page that the compiler reads, touches, touches again or
    /// writes counts as an operation.
    #[must_use]
    pub fn unit_operations(&self) -> u64 {
        let [least, most] = self.memory_mib.value.map(|mib| mib_pages(mib, Scale::FULL));
        let memory = least.midpoint(most);
        // Before part n the compiler has touched n parts of its memory.
        let again = memory.saturating_mul(PARTS - 1).saturating_mul(self.touched_again()) / 200;
        kib_pages(self.headers_kib.value).saturating_add(memory).saturating_add(again).saturating_add(1)
    }

    /// Returns the longest time for which a task of the build does nothing but compute, seconds: the compilation of one
    /// unit, or the linking.
    #[must_use]
    pub fn wait_s(&self) -> u64 {
        (self.unit_ms.value / 1000).max(self.link_ms.value / 1000)
    }
}

/// The parameters of a kernel build at the scale of a run, with sizes in pages.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    tree_files: u64,
    tree_file_pages: u64,
    units: u64,
    header_pages: u64,
    headers: u64,
    text_pages: u32,
    memory_pages: [u64; 2],
    object_pages: u64,
    link_pages: u64,
    image_pages: u64,
    unit: Nanos,
    link: Nanos,
    touched_again_percent: u64,
    has_huge_pages: bool,
}

impl Build {
    /// Converts `params` for a run at the scale `scale`: multiplies sizes of memory and of the tree by `scale`, and
    /// turns sizes into pages.
    #[must_use]
    pub fn of(params: &Params, scale: Scale) -> Self {
        let mib = |mib: u64| scale.of(mib * 256).max(1);
        let headers = params.headers.value.max(1);
        Self {
            tree_files: scale.of(params.tree_files.value),
            tree_file_pages: params.tree_file_kib.value.div_ceil(4),
            units: params.units.value,
            header_pages: scale.of(params.headers_kib.value / 4).div_ceil(headers).max(1),
            headers,
            text_pages: mib(params.text_mib.value) as u32,
            memory_pages: params.memory_mib.value.map(mib),
            object_pages: scale.of(params.object_kib.value / 4).max(1),
            link_pages: mib(params.link_mib.value[0]),
            image_pages: mib(params.link_mib.value[1]),
            unit: Nanos(params.unit_ms.value * 1_000_000),
            link: Nanos(params.link_ms.value * 1_000_000),
            touched_again_percent: params.touched_again(),
            has_huge_pages: params.huge_pages,
        }
    }

    /// Returns the number of files in a tree. The source files have the lowest numbers, and the header files follow
    /// them.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.tree_files.max(self.units + self.headers)
    }

    /// Returns the number of pages in file `n` of a tree.
    #[must_use]
    pub fn file_pages(&self, n: u64) -> u64 {
        let is_header = (self.units..self.units + self.headers).contains(&n);
        if is_header { self.header_pages } else { self.tree_file_pages }
    }

    /// Writes the file with the compiler's program code (its text) to the device.
    ///
    /// # Errors
    /// When the device is full or memory is exhausted.
    pub fn install<S: System>(&self, system: &S) -> Result<(), SystemError> {
        write_file(system, COMPILER, self.text_pages.into())
    }

    /// Writes all files of tree number `tree`.
    ///
    /// # Errors
    /// When the device is full or memory is exhausted.
    pub fn unpack<S: System>(&self, system: &S, tree: u64) -> Result<(), SystemError> {
        (0..self.files()).try_for_each(|n| write_file(system, &tree_file(tree, n), self.file_pages(n)))
    }

    /// Writes the file of the compiler's text (code) and all files of a tree to the device, then drops clean pages from
    /// memory.
    ///
    /// # Errors
    /// When the device is full, memory is exhausted, or the system does not drop caches.
    pub fn unpack_cold<S: System>(&self, system: &S, tree: u64) -> Result<(), SystemError> {
        self.install(system)?;
        self.unpack(system, tree)?;
        let files = (0..self.files()).map(|n| tree_file(tree, n)).chain([COMPILER.to_owned()]);
        files.into_iter().try_for_each(|name| system.sync(&system.open(&name)?))?;
        system.drop_caches()
    }

    /// Reads tree number `from` and writes its copy as tree number `tree`.
    ///
    /// # Errors
    /// When the device is full or fails, or memory is exhausted.
    pub fn copy<S: System>(&self, system: &S, from: u64, tree: u64) -> Result<(), SystemError> {
        let mut buffer = vec![0; 32 * PAGE_BYTES];
        (0..self.files()).take_while(|_| !system.is_killed()).try_for_each(|n| {
            read_all(system, &tree_file(from, n), &mut buffer)?;
            write_file(system, &tree_file(tree, n), self.file_pages(n))
        })
    }

    /// Removes the files that a tree has before its build: sources, headers and all others.
    ///
    /// # Errors
    /// When a source is missing.
    pub fn remove_sources<S: System>(&self, system: &S, tree: u64) -> Result<(), SystemError> {
        (0..self.files()).try_for_each(|n| system.remove(&tree_file(tree, n)))
    }

    /// Removes all files of a tree whose build is complete: the sources, the objects and the image.
    ///
    /// # Errors
    /// When a file is missing.
    pub fn remove<S: System>(&self, system: &S, tree: u64) -> Result<(), SystemError> {
        self.remove_sources(system, tree)?;
        (0..self.units).try_for_each(|unit| system.remove(&object(tree, unit)))?;
        system.remove(&image(tree))
    }

    /// Removes the objects and the image of a tree. Missing files are not an error, since the build may have been
    /// killed.
    pub fn remove_objects<S: System>(&self, system: &S, tree: u64) {
        for name in (0..self.units).map(|unit| object(tree, unit)).chain([image(tree)]) {
            // An error is expected, since most objects do not exist.
            let _ = system.remove(&name);
        }
    }

    /// Builds a tree with `jobs` compilers at a time. Each compiler is a task, and all tasks have the name of the
    /// build. Returns the duration of the build.
    ///
    /// # Errors
    /// When memory is exhausted or the device fails.
    pub fn make<S: System>(self, system: &S, tree: u64, jobs: u64) -> Result<Nanos, SystemError> {
        let started = system.now();
        let next = Arc::new(AtomicU64::new(0));
        let workers: Vec<_> = (0..jobs)
            .map(|_| {
                let next = next.clone();
                system.start(&task_name(tree), move |system| self.compile_all(system, tree, &next))
            })
            .collect();
        let ended: Vec<Result<(), SystemError>> = workers.into_iter().map(|worker| worker.join(system)).collect();
        ended.into_iter().collect::<Result<Vec<()>, _>>()?;
        if !system.is_killed() {
            self.link(system, tree)?;
        }
        Ok(system.now().since(started))
    }

    /// Compiles units (source files) of a tree in order, beginning with the unit `next`. Several tasks may share
    /// `next`: each task takes the first unit that no task has taken yet. Ends when no unit is left, when the task is
    /// told to end, or when a unit fails. After a failure, lowers `next` to the failed unit, so that this unit is
    /// compiled again.
    ///
    /// # Errors
    /// When memory is exhausted or the device fails.
    pub fn compile_all<S: System>(&self, system: &S, tree: u64, next: &AtomicU64) -> Result<(), SystemError> {
        loop {
            let unit = next.fetch_add(1, Relaxed);
            if unit >= self.units || system.is_killed() {
                return Ok(());
            }
            if let Err(error) = self.compile(system, tree, unit) {
                next.fetch_min(unit, Relaxed);
                return Err(error);
            }
        }
    }

    /// Compiles one unit (a source file), as a compiler process does: maps memory, reads the source and the headers,
    /// computes, frees the memory, and writes an object.
    ///
    /// # Errors
    /// When memory is exhausted or the device fails.
    pub fn compile<S: System>(&self, system: &S, tree: u64, unit: u64) -> Result<(), SystemError> {
        // All builds compile the same tree: a unit costs the same in each build.
        let mut rng = system.rng(unit);
        let mut buffer = vec![0; 8 * PAGE_BYTES];
        let text = system.open(COMPILER)?;
        let mode = MapMode { sharing: Sharing::Private, is_executable: true, ..MapMode::default() };
        let text = system.map_file(&text, 0..self.text_pages, mode)?;
        let [least, most] = self.memory_pages;
        let pages = (least + rng.below(most - least + 1)) as u32;
        let memory = self.map(system, pages)?;
        let mut result = read_all(system, &tree_file(tree, unit), &mut buffer);
        // The time is uniform between half the mean and one and a half times the mean.
        let time = Nanos(self.unit.0 / 2 + rng.below(self.unit.0 + 1));
        for part in 0..PARTS {
            let piece = |all: u64| (all * part / PARTS)..(all * (part + 1) / PARTS);
            let touched = |all: u32| {
                let range = piece(all.into());
                range.start as u32..range.end as u32
            };
            result = result.and_then(|()| {
                for header in piece(self.headers) {
                    read_all(system, &tree_file(tree, self.units + header), &mut buffer)?;
                }
                system.touch(&text, touched(self.text_pages), false)?;
                let before = touched(pages).start;
                let again = (u64::from(before) * self.touched_again_percent / 100) as u32;
                if again > 0 {
                    let start = rng.below(u64::from(before - again + 1)) as u32;
                    system.touch(&memory, start..start + again, false)?;
                }
                system.touch(&memory, touched(pages), true)
            });
            if result.is_err() || system.is_killed() {
                break;
            }
            system.compute(Nanos(time.0 / PARTS));
        }
        system.unmap(memory);
        system.unmap(text);
        result?;
        let name = object(tree, unit);
        write_file(system, &name, self.object_pages).inspect_err(|_| {
            // The next attempt creates the object again. It may not exist now, so an error of its removal is ignored.
            let _ = system.remove(&name);
        })
    }

    /// Maps `pages` pages of memory for a compiler or a linker.
    fn map<S: System>(&self, system: &S, pages: u32) -> Result<S::Region, SystemError> {
        if self.has_huge_pages { system.map_huge(pages) } else { system.map(pages) }
    }

    /// Links the object files of the tree `tree` into the tree's image.
    ///
    /// # Errors
    /// When memory is exhausted or the device fails.
    pub fn link<S: System>(&self, system: &S, tree: u64) -> Result<(), SystemError> {
        let mut buffer = vec![0; 32 * PAGE_BYTES];
        let pages = self.link_pages as u32;
        let memory = self.map(system, pages)?;
        let mut result = Ok(());
        for unit in 0..self.units {
            let start = (u64::from(pages) * unit / self.units) as u32;
            let end = (u64::from(pages) * (unit + 1) / self.units) as u32;
            result = read_all(system, &object(tree, unit), &mut buffer)
                .and_then(|()| system.touch(&memory, start..end, true));
            if result.is_err() || system.is_killed() {
                break;
            }
            system.compute(Nanos(self.link.0 / self.units));
        }
        result = result.and_then(|()| {
            let name = image(tree);
            write_file(system, &name, self.image_pages).inspect_err(|_| {
                let _ = system.remove(&name);
            })
        });
        system.unmap(memory);
        result
    }
}

/// Returns the name of the tasks that build tree number `tree`. All of them have the same name.
#[must_use]
pub fn task_name(tree: u64) -> String {
    format!("make-{tree}")
}

/// Returns the name of file `n` of a tree.
#[must_use]
pub fn tree_file(tree: u64, n: u64) -> String {
    format!("{tree}-{n}")
}

fn object(tree: u64, unit: u64) -> String {
    format!("{tree}-{unit}.o")
}

fn image(tree: u64) -> String {
    format!("{tree}-vmlinux")
}

fn write_file<S: System>(system: &S, name: &str, pages: u64) -> Result<(), SystemError> {
    let file = system.create(name)?;
    let bytes = vec![0; PAGE_BYTES];
    (0..pages).try_for_each(|page| system.write(&file, page_bytes(page), &bytes))
}

fn read_all<S: System>(system: &S, name: &str, buffer: &mut [u8]) -> Result<(), SystemError> {
    let mut file = system.open(name)?;
    let length = system.length(&file);
    let mut at = 0;
    while at < length {
        at += system.read(&mut file, at, buffer)?.max(1) as u64;
    }
    Ok(())
}

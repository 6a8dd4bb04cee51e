//! Recording by the shim, the library that `LD_PRELOAD` puts into the program. This module is the part that runs in the
//! recorder's own process.

use crate::elf::Program;
use crate::files::Files;
use crate::follow::Follower;
use crate::options::Target;
use crate::ring::{Ring, now_ns};
use crate::source::{Sink, Source};
use crate::tasks::Tasks;
use crate::wire::Blind;
use kit::words::counted;
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::Command;

/// The bytes of the shim (the library for `LD_PRELOAD`), which the build script compiles; empty if the shim does not
/// support the machine for which this program is built.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shim.so"));
/// Largest number of descriptors of a process that are examined to find rings of io_uring.
const DESCRIPTORS_MAX: usize = 512;
/// Number of checks after which a process from which no event has come counts as a process that has not loaded the
/// shim. The running processes are checked again and again.
const SILENT_LOOKS: u32 = 3;

/// A running recording by the shim, the library that is loaded into the recorded processes.
#[derive(Debug)]
pub struct Shim {
    library: File,
    ring: Ring,
    follower: Follower,
    pages_open: u64,
    /// For each process (PID) from which no event has come yet: the number of times that the recorder has looked at it.
    silent: BTreeMap<u32, u32>,
    /// Numbers (PIDs) of the processes that have a ring of io_uring.
    io_uring: BTreeSet<u32>,
    looks: u32,
}

impl Shim {
    /// Makes the ring, to which recorded processes write events, and the file of the library that these processes load.
    /// At most `pages_open` pages of file mappings are open (accessible) at a time. If it is 0, accesses to mapped
    /// pages are not recorded.
    ///
    /// # Errors
    /// When the library does not exist for this machine, or the system gives no memory.
    pub fn new(pages_open: u64) -> io::Result<Self> {
        if LIBRARY.is_empty() {
            return Err(io::Error::other("the library for recording exists for glibc on x86-64 and ARM64 alone"));
        }
        // Older kernels do not know the flag, and need none.
        let new = |flags| memfd_create("highwater-record.so", MemfdFlags::CLOEXEC | flags);
        let mut library = File::from(new(MemfdFlags::EXEC).or_else(|_| new(MemfdFlags::empty()))?);
        library.write_all(LIBRARY)?;
        let ring = Ring::new(pages_open)?;
        Ok(Self {
            library,
            ring,
            follower: Follower::new(),
            pages_open,
            silent: BTreeMap::new(),
            io_uring: BTreeSet::new(),
            looks: 0,
        })
    }

    fn look_for_silent(&mut self, processes: &BTreeSet<u32>) {
        self.silent.retain(|process, _| processes.contains(process));
        for process in processes.difference(&self.follower.processes) {
            let looks = self.silent.entry(*process).or_default();
            *looks += 1;
            let Ok(program) = fs::read_link(format!("/proc/{process}/exe")) else { continue };
            if *looks == SILENT_LOOKS {
                let why = Program::of(&program).why_not().unwrap_or_else(|| "has not loaded the library".to_owned());
                self.follower.not_followed.insert(program.into_os_string().into_encoded_bytes(), why);
            }
        }
    }
}

impl Source for Shim {
    fn name(&self) -> &'static str {
        "shim"
    }

    fn prepare(&mut self, command: &mut Command) {
        let mut libraries = format!("/proc/{}/fd/{}", std::process::id(), self.library.as_raw_fd());
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|it| !it.is_empty()) {
            libraries = format!("{libraries}:{}", others.to_string_lossy());
        }
        command.env("LD_PRELOAD", libraries).env("HIGHWATER_RECORD", self.ring.path());
    }

    fn attach(&mut self, _: &Target, _: &BTreeSet<u32>) -> Result<(), String> {
        Ok(())
    }

    fn poll(&mut self, is_end: bool, sink: Sink<'_>) -> io::Result<u64> {
        let follower = &mut self.follower;
        self.ring.read(is_end, |event, text| follower.take(event, text).map_or(Ok(()), |request| sink(&request)))
    }

    fn look(&mut self, processes: &BTreeSet<u32>) {
        self.look_for_silent(processes);
        self.looks += 1;
        if self.looks % 10 != 1 {
            return;
        }
        for process in processes {
            let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else { continue };
            let is_ring =
                |path: std::path::PathBuf| fs::read_link(path).is_ok_and(|it| it.ends_with("anon_inode:[io_uring]"));
            if open.flatten().take(DESCRIPTORS_MAX).any(|entry| is_ring(entry.path())) {
                self.io_uring.insert(*process);
            }
        }
    }

    fn own_memory(&self, process: u32) -> u64 {
        self.ring.resident_in(process)
    }

    fn now_us(&self) -> u64 {
        now_ns().saturating_sub(self.ring.start_ns()) / 1000
    }

    fn end(&mut self, sink: Sink<'_>) -> io::Result<()> {
        // Processes that the command left behind may go on writing: what is there now is taken.
        for _ in 0..10 {
            self.poll(true, sink)?;
            if self.ring.is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        self.ring.close();
        self.follower.end();
        Ok(())
    }

    fn files(&mut self) -> &mut Files {
        &mut self.follower.files
    }

    fn tasks(&mut self) -> &mut Tasks {
        &mut self.follower.tasks
    }

    fn not_seen(&self) -> Vec<String> {
        let mut not_seen = Vec::new();
        for (program, why) in &self.follower.not_followed {
            not_seen.push(format!("{}: {why}", String::from_utf8_lossy(program)));
        }
        let blind = |blind| self.ring.blind(blind);
        let mappings = blind(Blind::Mapping);
        if mappings > 0 {
            let hint = if self.pages_open > 0 {
                "too small, or not readable"
            } else {
                "mapped files not followed; --pages follows them"
            };
            not_seen.push(format!("touches of {} of files ({hint})", counted(mappings, "mapping")));
        }
        let rings = blind(Blind::IoUring).max(self.io_uring.len() as u64);
        let counts = [
            (rings, "requests of", "ring", " of io_uring"),
            (blind(Blind::Aio), "requests of", "call", " of io_submit"),
            (blind(Blind::RawCall), "what", "raw system call", " read, wrote or mapped"),
            (blind(Blind::HighDescriptor), "what", "call", " did with descriptors above 65535"),
            (blind(Blind::ManyMappings), "what was done to", "mapping", " beyond 4096 at a time"),
            (self.lost(), "", "event", " that were lost"),
        ];
        for (count, before, one, behind) in counts {
            if count > 0 {
                not_seen.push(format!("{before} {}{behind}", counted(count, one)).trim_start().to_owned());
            }
        }
        not_seen.push("the programs' own text and libraries, which the loader maps".to_owned());
        if self.follower.pseudo > 0 {
            let opened = counted(self.follower.pseudo, "opening");
            not_seen.push(format!("{opened} of files that the kernel makes when they are read (left out)"));
        }
        not_seen
    }

    fn lost(&self) -> u64 {
        self.ring.lost() + self.follower.lost
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        self.ring.close();
    }
}

//! Recording by the kernel's tracing (tracefs), which needs root. It records events of the page cache, also those of
//! processes that run already.
//!
//! - [`instance`]: a tracing instance that only this recording uses; [`buffer`] reads the pages of its buffers,
//!   [`layout`] the events.
//! - [`kernel`] converts events to requests; [`inodes`] finds the files to which the inode numbers in events belong.

mod buffer;
mod inodes;
mod instance;
mod kernel;
mod layout;

use crate::files::Files;
use crate::options::Target;
use crate::ring::now_ns;
use crate::source::{Sink, Source};
use crate::tasks::Tasks;
use buffer::Buffer;
use instance::{Instance, append};
use kernel::{Event, Kernel};
use kit::words::counted;
use layout::{EVENTS, Layout, Layouts, What};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Largest number of pages of events that are read from the buffer of a CPU at a time.
const PAGES_MAX: usize = 4096;

/// A recording in progress, made by the kernel's tracing (tracefs).
#[derive(Debug)]
pub struct Tracefs {
    // Closed before the instance is removed.
    buffers: Vec<Buffer>,
    instance: Instance,
    layouts: Layouts,
    kernel: Kernel,
    start_ns: u64,
    /// Events that are held back, because the buffer of another CPU may still have earlier events.
    waiting: Vec<Event>,
    /// Threads that are traced.
    threads: BTreeSet<u32>,
    /// `true` if the kernel has the trace events of the file systems, by which writes are recorded.
    has_writes: bool,
    lost: u64,
}

impl Tracefs {
    /// Makes a tracing instance in which no task is traced yet.
    ///
    /// # Errors
    /// When this process may not trace, or the kernel lacks the events of the page cache. The error is a message for
    /// the user.
    pub fn new() -> Result<Self, String> {
        let instance = Instance::new()?;
        let mut layouts = Layouts::new();
        for (what, name, fields) in EVENTS {
            let Ok(format) = fs::read_to_string(instance.path(&format!("events/{name}/format"))) else { continue };
            if let Some((number, layout)) = Layout::of_format(what, fields, &format) {
                layouts.insert(number, layout);
                instance.set(&format!("events/{name}/enable"), "1")?;
            }
        }
        let has = |what| layouts.values().any(|layout| layout.what == what);
        if !has(What::Read) {
            return Err("cannot trace: the kernel lacks the event mm_filemap_get_pages".to_owned());
        }
        let has_writes = has(What::Write);
        let page_kib = fs::read_to_string(instance.path("buffer_subbuf_size_kb")).ok();
        let page_kib = page_kib.and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(4).clamp(4, 1024);
        let folders = instance.buffers().map_err(|error| format!("cannot trace: {error}"))?;
        let buffers = folders.iter().map(|folder| Buffer::open(folder, page_kib << 10)).collect::<io::Result<_>>();
        let buffers = buffers.map_err(|error| format!("cannot trace: trace_pipe_raw: {}", kit::input::why(&error)))?;
        let check = instance.common("events/header_page").unwrap_or_default();
        if !check.contains("offset:16") {
            return Err(
                "cannot trace: the kernel's pages of events have an unknown form (events/header_page)".to_owned()
            );
        }
        Ok(Self {
            buffers,
            instance,
            layouts,
            kernel: Kernel::new(),
            start_ns: now_ns(),
            waiting: Vec::new(),
            threads: BTreeSet::new(),
            has_writes,
            lost: 0,
        })
    }

    /// Starts to trace the existing threads of a process.
    fn add(&mut self, process: u32) {
        for entry in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
            let thread = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            // A thread that is gone needs no tracing.
            let Some(thread) = thread.filter(|it| !self.threads.contains(it) && self.instance.add(*it).is_ok()) else {
                continue;
            };
            self.threads.insert(thread);
            let time_us = self.now_us();
            let number = self.kernel.tasks.of_thread(thread, time_us);
            let name = fs::read(entry.path().join("comm")).unwrap_or_default();
            if let Some(task) = self.kernel.tasks.get_mut(number).filter(|task| task.program.is_empty()) {
                task.process = process;
                task.program = name.trim_ascii_end().to_vec();
            }
        }
    }

    /// Reads the events in the trace buffers of all CPUs into `waiting`. Returns the number of events read.
    fn fill(&mut self) -> io::Result<u64> {
        let before = self.waiting.len();
        for buffer in &mut self.buffers {
            for _ in 0..PAGES_MAX {
                let (layouts, waiting, start_ns) = (&self.layouts, &mut self.waiting, self.start_ns);
                let is_any = buffer.read(|time, bytes| {
                    let number = bytes.first_chunk().map_or(0, |it| u16::from_le_bytes(*it));
                    let Some(layout) = layouts.get(&number) else { return };
                    let (values, thread) = layout.values(bytes);
                    let text = if layout.what == What::Exec { layout.text(bytes).to_vec() } else { Vec::new() };
                    let time_ns = time.saturating_sub(start_ns);
                    waiting.push(Event { time_ns, what: layout.what, thread, values, text });
                })?;
                if !is_any {
                    break;
                }
            }
        }
        Ok((self.waiting.len() - before) as u64)
    }

    fn look_for_lost(&mut self) {
        let mut lost = 0;
        for folder in self.instance.buffers().unwrap_or_default() {
            let text = fs::read_to_string(folder.join("stats")).unwrap_or_default();
            let of = |line: &str| line.split_once(": ").and_then(|(_, number)| number.trim().parse::<u64>().ok());
            let names = ["overrun:", "commit overrun:", "dropped events:"];
            lost += text.lines().filter(|line| names.iter().any(|it| line.starts_with(it))).filter_map(of).sum::<u64>();
        }
        self.lost = lost;
    }
}

impl Source for Tracefs {
    fn name(&self) -> &'static str {
        "tracefs"
    }

    fn prepare(&mut self, command: &mut Command) {
        let [threads, is_on] = ["set_event_pid", "tracing_on"].map(|file| self.instance.path(file));
        let begin = move || {
            // The number of this process, without an allocation.
            let (mut digits, mut at, mut rest) = ([0_u8; 10], 10, rustix::process::getpid().as_raw_nonzero().get());
            while rest > 0 {
                at -= 1;
                digits[at] = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            append(&threads, &digits[at..])?;
            append(&is_on, b"1")
        };
        // SAFETY: between fork and exec the child only opens and writes files whose names were allocated before; it
        // takes no lock.
        unsafe { command.pre_exec(begin) };
    }

    fn attach(&mut self, target: &Target, processes: &BTreeSet<u32>) -> Result<(), String> {
        if let Target::Command(_) = target {
            for process in processes {
                self.kernel.prepares(*process);
            }
            return Ok(());
        }
        self.look(processes);
        if self.threads.is_empty() {
            return Err(format!("{}: no process runs there", target.described()));
        }
        self.instance.set("tracing_on", "1")
    }

    fn poll(&mut self, is_end: bool, sink: Sink<'_>) -> io::Result<u64> {
        // What all CPUs were asked for after this time is complete up to it.
        let complete_ns = if is_end { u64::MAX } else { now_ns().saturating_sub(self.start_ns) };
        let count = self.fill()?;
        self.waiting.sort_by_key(|event| event.time_ns);
        let ready = self.waiting.partition_point(|event| event.time_ns < complete_ns);
        for event in self.waiting.drain(..ready) {
            self.kernel.take(&event, sink)?;
        }
        Ok(count)
    }

    fn look(&mut self, processes: &BTreeSet<u32>) {
        for process in processes {
            self.kernel.inodes.look_at(*process);
            // Those that a traced process starts are traced; others come into a cgroup by themselves.
            if !self.kernel.tasks.running().any(|(_, task)| task.process == *process) {
                self.add(*process);
            }
        }
    }

    fn own_memory(&self, _: u32) -> u64 {
        0
    }

    fn now_us(&self) -> u64 {
        now_ns().saturating_sub(self.start_ns) / 1000
    }

    fn end(&mut self, sink: Sink<'_>) -> io::Result<()> {
        // Errors of the setting do not matter any more: what is there is read.
        let _ = self.instance.set("tracing_on", "0");
        while self.poll(false, sink)? > 0 {}
        self.poll(true, sink)?;
        self.kernel.end(sink)?;
        self.look_for_lost();
        Ok(())
    }

    fn files(&mut self) -> &mut Files {
        &mut self.kernel.files
    }

    fn tasks(&mut self) -> &mut Tasks {
        &mut self.kernel.tasks
    }

    fn not_seen(&self) -> Vec<String> {
        let mut not_seen = vec![
            "further touches of mapped pages, and whether a fault was a write".to_owned(),
            "advice, truncations, openings and closings".to_owned(),
        ];
        let nameless = self.kernel.files.iter().filter(|file| file.name.is_empty()).count();
        let files = &self.kernel.files;
        let on_disks = files.iter().filter(|file| file.device != kernel::BLOCK_DEVICES);
        let without_writes = on_disks.filter(|file| !files.kind_of(file).starts_with("ext")).count() > 0;
        if !self.has_writes || without_writes {
            not_seen.push("writes to file systems other than ext4".to_owned());
        }
        if self.kernel.unsure > 0 {
            let faults = counted(self.kernel.unsure, "fault");
            not_seen.push(format!("which page {faults} touched that fault-around served (the first is taken)"));
        }
        if nameless > 0 {
            not_seen.push(format!("names of {}", counted(nameless, "file")));
        }
        if self.lost > 0 {
            not_seen.push(format!("{} that the kernel dropped", counted(self.lost, "event")));
        }
        not_seen
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

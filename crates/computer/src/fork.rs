//! Forks this process, and shares memory with the children.
//!
//! A child process has a copy of the memory of its parent, in which nothing is copied before one of the two writes to
//! it. It has one thread: the one that called [`fork`].

#![allow(unsafe_code)]

use super::sys::{Mapping, map_zeroes_with};
use kit::panics;
use std::io::{self, PipeReader, Read, Write};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The first byte that a child sends: its body returned the bytes that follow.
const RETURNED: u8 = 0;

/// The first byte that a child sends: its body panicked with the message that follows.
const PANICKED: u8 = 1;

/// Held during a fork. Otherwise a child of another thread would inherit the pipe and keep it open, or copy mappings
/// that are not meant for it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// `true` in a child.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Words of memory, zeroes at first, that this process shares with all children that it forks later.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU32>,
    count: usize,
    bytes: usize,
}

// SAFETY: the memory holds atomic integers and does not move. Any thread may unmap it.
unsafe impl Send for SharedWords {}
// SAFETY: the memory is only accessed as atomic integers.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps memory for `count` words.
    ///
    /// # Errors
    /// When the process's address space has no free range of this size.
    pub fn new(count: usize) -> io::Result<Self> {
        let bytes = count.max(1).checked_mul(size_of::<AtomicU32>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let start = map_zeroes_with(bytes, libc::MAP_SHARED | libc::MAP_ANONYMOUS)?.cast();
        Ok(Self { start, count, bytes })
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU32];

    #[inline]
    fn deref(&self) -> &[AtomicU32] {
        // SAFETY: the mapping begins at a page, is at least `count` words long, lives as long as `self`, and is only
        // accessed as atomic integers, for which all bits are values.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping of this value, and no reference to it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A child process that [`fork`] has started. If this value is dropped, the child is killed.
#[derive(Debug)]
#[must_use]
pub struct Forked {
    process: libc::pid_t,
    sent: PipeReader,
    is_awaited: bool,
}

/// The end of a child process.
#[derive(Debug, PartialEq, Eq)]
pub enum ForkedEnd {
    /// The body returned these bytes.
    Returned(Vec<u8>),
    /// The body panicked with this message.
    Panicked(String),
    /// This signal ended the process.
    Signal(i32),
}

/// Starts a child process (`fork`), which calls `body` and then ends. `body` gets the child's copies of the mappings
/// `mappings`, in this order; the child has no other [`Mapping`]. The kernel kills the child when the thread that
/// called this function ends.
///
/// `body` and what it captures are dropped in both processes.
///
/// # Errors
/// When the system starts no further process, or this process is a child itself.
///
/// # Safety
/// In the child, only the calling thread exists, and a lock that another thread held is held for ever. So `body` must
/// take no lock that other threads of this process use, start no thread and print nothing. It may allocate memory and
/// make system calls: glibc and musl make their allocators usable in a child of a process with threads.
pub unsafe fn fork(mappings: &[&Mapping], body: impl FnOnce(Vec<Mapping>) -> Vec<u8>) -> io::Result<Forked> {
    if IS_CHILD.load(Ordering::Relaxed) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "a child forks no further process"));
    }
    let one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (sent, mut send) = io::pipe()?;
    let starter = Starter::this_thread();
    mappings.iter().for_each(|mapping| mapping.set_forked(true));
    // SAFETY: the child goes on in this thread with a copy of memory, and ends before this function returns. The caller
    // promises that it does nothing that needs another thread.
    let process = unsafe { libc::fork() };
    if process != 0 {
        let error = io::Error::last_os_error();
        mappings.iter().for_each(|mapping| mapping.set_forked(false));
        drop((send, one));
        return if process < 0 { Err(error) } else { Ok(Forked { process, sent, is_awaited: false }) };
    }
    IS_CHILD.store(true, Ordering::Relaxed);
    live_as_child(starter);
    let copies = mappings.iter().map(|mapping| mapping.take()).collect();
    let ended = catch_unwind(AssertUnwindSafe(|| body(copies)));
    let (first, rest) = match ended {
        Ok(bytes) => (RETURNED, bytes),
        Err(payload) => (PANICKED, panics::message(&*payload).into_bytes()),
    };
    // If the parent no longer reads, nobody needs the result.
    let _ = send.write_all(&[first]).and_then(|()| send.write_all(&rest));
    // SAFETY: the call ends the process, and runs no code of the program.
    unsafe { libc::_exit(0) }
}

/// The thread that forks a child.
#[derive(Clone, Copy)]
struct Starter {
    process: libc::pid_t,
    thread: libc::pid_t,
}

impl Starter {
    fn this_thread() -> Self {
        // SAFETY: the calls take no arguments and return numbers.
        unsafe { Self { process: libc::getpid(), thread: libc::gettid() } }
    }

    fn is_alive(self) -> bool {
        // SAFETY: the call takes numbers; signal 0 only asks whether the thread exists.
        unsafe { libc::syscall(libc::SYS_tgkill, self.process, self.thread, 0) == 0 }
    }
}

/// Makes the kernel kill this child process when the thread that forked it ends. Interrupts are left to the parent,
/// which tells its children to end.
fn live_as_child(starter: Starter) {
    // SAFETY: the calls take and return numbers only, and no handler is set.
    unsafe {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // The thread may have ended before the kernel was told.
        if !starter.is_alive() {
            libc::_exit(0);
        }
    }
}

impl Forked {
    /// Waits for the end of the child. Calls `look` at least every `look_every`, rounded up to milliseconds, until the
    /// child ends or sends its result.
    ///
    /// # Panics
    /// When another part of the program has waited for the process, or this process ignores SIGCHLD, so that the kernel
    /// keeps no status of children.
    pub fn wait(mut self, look_every: Duration, mut look: impl FnMut()) -> ForkedEnd {
        let milliseconds = look_every.as_millis().max(1).try_into().unwrap_or(i32::MAX);
        let mut polled = libc::pollfd { fd: self.sent.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the pointer points to one structure of the right type.
        while retried(|| unsafe { libc::poll(&raw mut polled, 1, milliseconds) }) == 0 {
            look();
        }
        let mut bytes = Vec::new();
        // If the child dies in the middle, its status tells so.
        let _ = self.sent.read_to_end(&mut bytes);
        let status = self.reap();
        if libc::WIFSIGNALED(status) {
            return ForkedEnd::Signal(libc::WTERMSIG(status));
        }
        match bytes.split_first() {
            Some((&RETURNED, bytes)) => ForkedEnd::Returned(bytes.to_vec()),
            Some((_, bytes)) => ForkedEnd::Panicked(String::from_utf8_lossy(bytes).into_owned()),
            None => ForkedEnd::Panicked("the process ended without a result".into()),
        }
    }

    /// Waits until the process is gone, and returns its status.
    fn reap(&mut self) -> libc::c_int {
        self.is_awaited = true;
        let mut status = 0;
        // SAFETY: the pointer points to a number of the right type.
        retried(|| unsafe { libc::waitpid(self.process, &raw mut status, 0) });
        status
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        if !self.is_awaited {
            // SAFETY: the call takes numbers. The process was not awaited, so that no other process has its number.
            unsafe { libc::kill(self.process, libc::SIGKILL) };
            self.reap();
        }
    }
}

/// Makes a system call again as long as a signal interrupts it. Returns its result.
///
/// # Panics
/// When the call fails.
fn retried(mut call: impl FnMut() -> libc::c_int) -> libc::c_int {
    loop {
        let result = call();
        if result >= 0 {
            return result;
        }
        let error = io::Error::last_os_error();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted, "waiting for a child: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;
    use std::time::Instant;

    const LOOK_EVERY: Duration = Duration::from_millis(5);

    /// Forks a child whose body needs no other thread.
    fn forked(mappings: &[&Mapping], body: impl FnOnce(Vec<Mapping>) -> Vec<u8>) -> Forked {
        // SAFETY: the bodies below take no lock, start no thread and print nothing.
        unsafe { fork(mappings, body) }.unwrap()
    }

    #[test]
    fn a_child_has_a_copy_and_shares_words() {
        let (memory, words) = (Mapping::new(2).unwrap(), SharedWords::new(3000).unwrap());
        memory.store(5000, b"parent");
        let child = forked(&[&memory], |copies| {
            let mut found = vec![0; 6];
            copies[0].load(5000, &mut found);
            copies[0].store(5000, b"child!");
            words[2999].store(7, SeqCst);
            drop(copies);
            found
        });
        assert_eq!(child.wait(LOOK_EVERY, || {}), ForkedEnd::Returned(b"parent".to_vec()));
        let mut found = [0; 6];
        memory.load(5000, &mut found);
        assert_eq!((&found, words[2999].load(SeqCst), words.len()), (b"parent", 7, 3000));
    }

    #[test]
    fn a_result_may_be_larger_than_a_pipe() {
        let child = forked(&[], |_| vec![9; 1 << 20]);
        assert_eq!(child.wait(LOOK_EVERY, || {}), ForkedEnd::Returned(vec![9; 1 << 20]));
    }

    #[test]
    fn a_child_that_panics_or_is_killed_says_so() {
        let panicking = forked(&[], |_| std::panic::resume_unwind(Box::new("no way".to_owned())));
        assert_eq!(panicking.wait(LOOK_EVERY, || {}), ForkedEnd::Panicked("no way".into()));
        let killed = forked(&[], |_| {
            // SAFETY: the call takes and returns numbers only.
            unsafe { libc::raise(libc::SIGKILL) };
            Vec::new()
        });
        assert_eq!(killed.wait(LOOK_EVERY, || {}), ForkedEnd::Signal(libc::SIGKILL));
    }

    #[test]
    fn a_child_ends_with_the_thread_that_forked_it() {
        let words = SharedWords::new(1).unwrap();
        let child = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let child = forked(&[], |_| {
                    words[0].store(1, SeqCst);
                    std::thread::sleep(Duration::from_secs(600));
                    Vec::new()
                });
                while words[0].load(SeqCst) == 0 {
                    std::thread::yield_now();
                }
                child
            });
            thread.join().unwrap()
        });
        assert_eq!(child.wait(LOOK_EVERY, || {}), ForkedEnd::Signal(libc::SIGKILL));
    }

    #[test]
    fn the_parent_looks_while_it_waits() {
        let words = SharedWords::new(1).unwrap();
        let child = forked(&[], |_| {
            while words[0].load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            b"told".to_vec()
        });
        let ended = child.wait(LOOK_EVERY, || words[0].store(1, SeqCst));
        assert_eq!(ended, ForkedEnd::Returned(b"told".to_vec()));
    }

    #[test]
    fn a_child_has_no_mapping_that_was_not_given_to_it() {
        let (given, other) = (Mapping::new(1).unwrap(), Mapping::new(1).unwrap());
        other.store(0, b"other");
        let touched = forked(&[&given], |copies| {
            copies[0].touch(0, true);
            // The kernel has not copied this mapping: the access ends the process.
            other.touch(0, false);
            Vec::new()
        });
        assert_eq!(touched.wait(LOOK_EVERY, || {}), ForkedEnd::Signal(libc::SIGSEGV));
    }

    #[test]
    fn a_child_forks_no_further_process() {
        let child = forked(&[], |_| {
            // SAFETY: the call fails.
            let refused = unsafe { fork(&[], |_| Vec::new()) };
            refused.err().map_or_else(Vec::new, |error| error.to_string().into_bytes())
        });
        assert_eq!(child.wait(LOOK_EVERY, || {}), ForkedEnd::Returned(b"a child forks no further process".to_vec()));
    }

    #[test]
    fn threads_that_fork_at_once_wait_for_their_own_children_only() {
        std::thread::scope(|scope| {
            let long = scope.spawn(|| {
                let child = forked(&[], |_| {
                    std::thread::sleep(Duration::from_secs(600));
                    Vec::new()
                });
                std::thread::sleep(Duration::from_millis(300));
                drop(child);
            });
            for n in 0..20 {
                let began = Instant::now();
                assert_eq!(forked(&[], |_| vec![n]).wait(LOOK_EVERY, || {}), ForkedEnd::Returned(vec![n]));
                assert!(began.elapsed() < Duration::from_secs(100), "it waits for the other child");
            }
            long.join().unwrap();
        });
    }
}

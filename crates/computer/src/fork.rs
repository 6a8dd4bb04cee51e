//! Forks this process, and shares memory with the children.
//!
//! A child process has a copy of the memory of its parent, in which nothing is copied before one of the two writes to
//! it. It has one thread: the one that called [`fork`].

#![allow(unsafe_code)]

use super::sys::{Mapping, map_zeroes_with};
use std::io::{self, PipeReader, Read, Write};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The first byte that a child sends: its body returned the bytes that follow.
const RETURNED: u8 = 0;

/// The first byte that a child sends: its body panicked with the message that follows.
const PANICKED: u8 = 1;

/// Held while a pipe is open for writing in the parent. Otherwise a child of another thread would inherit the pipe, and
/// keep it open.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

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

/// A child process that [`fork`] has started.
#[derive(Debug)]
pub struct Forked {
    process: libc::pid_t,
    sent: PipeReader,
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
/// `mappings`, in this order. The kernel kills the child if the thread that called this function ends before the child.
///
/// Locks that other threads hold at this moment are held in the child for ever. So `body` must take no lock that another
/// thread of this process uses, and print nothing. It may allocate memory: the C library makes its allocator usable in
/// a child.
///
/// # Errors
/// When the system starts no further process.
pub fn fork(mappings: &[&Mapping], body: impl FnOnce(Vec<Mapping>) -> Vec<u8>) -> io::Result<Forked> {
    let one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (sent, mut send) = io::pipe()?;
    let parent = std::process::id();
    // SAFETY: the child goes on in this thread with a copy of all memory, and ends before this function returns. The C
    // library makes its own locks usable in the child.
    let process = unsafe { libc::fork() };
    match process {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let copies = mappings.iter().map(|mapping| mapping.take()).collect();
            live_as_child(parent);
            let ended = catch_unwind(AssertUnwindSafe(|| body(copies)));
            // If the parent no longer reads, nobody needs the result.
            let _ = match ended {
                Ok(bytes) => send.write_all(&[RETURNED]).and_then(|()| send.write_all(&bytes)),
                Err(payload) => {
                    send.write_all(&[PANICKED]).and_then(|()| send.write_all(message(&*payload).as_bytes()))
                }
            };
            // SAFETY: the call ends the process, and runs no code of the program.
            unsafe { libc::_exit(0) }
        }
        process => {
            drop((send, one));
            Ok(Forked { process, sent })
        }
    }
}

/// Makes the kernel kill this child process when the thread that forked it ends. Interrupts are left to the parent,
/// which tells its children to end.
fn live_as_child(parent: u32) {
    // SAFETY: the calls take and return numbers only, and no handler is set.
    unsafe {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid().cast_unsigned() != parent {
            libc::_exit(0);
        }
    }
}

fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

impl Forked {
    /// Waits for the end of the child. Calls `look` at least every `look_every` until then.
    ///
    /// # Panics
    /// When another part of the program has waited for the process.
    pub fn wait(mut self, look_every: Duration, mut look: impl FnMut()) -> ForkedEnd {
        let milliseconds = look_every.as_millis().try_into().unwrap_or(i32::MAX);
        let mut polled = libc::pollfd { fd: self.sent.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the pointer points to one structure of the right type.
        while unsafe { libc::poll(&raw mut polled, 1, milliseconds) } <= 0 {
            look();
        }
        let mut bytes = Vec::new();
        // If the child dies in the middle, its status tells so.
        let _ = self.sent.read_to_end(&mut bytes);
        let mut status = 0;
        // SAFETY: the pointer points to a number of the right type.
        while unsafe { libc::waitpid(self.process, &raw mut status, 0) } != self.process {
            let error = io::Error::last_os_error();
            assert_eq!(error.kind(), io::ErrorKind::Interrupted, "waiting for a child: {error}");
        }
        if libc::WIFSIGNALED(status) {
            return ForkedEnd::Signal(libc::WTERMSIG(status));
        }
        match bytes.split_first() {
            Some((&RETURNED, bytes)) => ForkedEnd::Returned(bytes.to_vec()),
            Some((_, bytes)) => ForkedEnd::Panicked(String::from_utf8_lossy(bytes).into_owned()),
            None => ForkedEnd::Panicked("the process ended without a result".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;

    const LOOK_EVERY: Duration = Duration::from_millis(5);

    #[test]
    fn a_child_has_a_copy_and_shares_words() {
        let (memory, words) = (Mapping::new(2).unwrap(), SharedWords::new(3000).unwrap());
        memory.store(5000, b"parent");
        let child = fork(&[&memory], |copies| {
            let mut found = vec![0; 6];
            copies[0].load(5000, &mut found);
            copies[0].store(5000, b"child!");
            words[2999].store(7, SeqCst);
            drop(copies);
            found
        });
        assert_eq!(child.unwrap().wait(LOOK_EVERY, || {}), ForkedEnd::Returned(b"parent".to_vec()));
        let mut found = [0; 6];
        memory.load(5000, &mut found);
        assert_eq!((&found, words[2999].load(SeqCst), words.len()), (b"parent", 7, 3000));
    }

    #[test]
    fn a_result_may_be_larger_than_a_pipe() {
        let child = fork(&[], |_| vec![9; 1 << 20]).unwrap();
        assert_eq!(child.wait(LOOK_EVERY, || {}), ForkedEnd::Returned(vec![9; 1 << 20]));
    }

    #[test]
    fn a_child_that_panics_or_is_killed_says_so() {
        let panicking = fork(&[], |_| panic!("no {}", "way")).unwrap();
        assert_eq!(panicking.wait(LOOK_EVERY, || {}), ForkedEnd::Panicked("no way".into()));
        let killed = fork(&[], |_| {
            // SAFETY: the call takes and returns numbers only.
            unsafe { libc::raise(libc::SIGKILL) };
            Vec::new()
        });
        assert_eq!(killed.unwrap().wait(LOOK_EVERY, || {}), ForkedEnd::Signal(libc::SIGKILL));
    }

    #[test]
    fn a_child_ends_with_the_thread_that_forked_it() {
        let words = SharedWords::new(1).unwrap();
        let child = std::thread::scope(|scope| {
            let forked = scope.spawn(|| {
                let child = fork(&[], |_| {
                    words[0].store(1, SeqCst);
                    std::thread::sleep(Duration::from_secs(600));
                    Vec::new()
                });
                while words[0].load(SeqCst) == 0 {
                    std::thread::yield_now();
                }
                child.unwrap()
            });
            forked.join().unwrap()
        });
        assert_eq!(child.wait(LOOK_EVERY, || {}), ForkedEnd::Signal(libc::SIGKILL));
    }

    #[test]
    fn the_parent_looks_while_it_waits() {
        let words = SharedWords::new(1).unwrap();
        let child = fork(&[], |_| {
            while words[0].load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            b"told".to_vec()
        });
        let ended = child.unwrap().wait(LOOK_EVERY, || words[0].store(1, SeqCst));
        assert_eq!(ended, ForkedEnd::Returned(b"told".to_vec()));
    }
}

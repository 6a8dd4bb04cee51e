//! Opens files that users name, for reading, without waiting for ever.

use crate::in_use;
use std::{
    fs::File,
    io::{self, IsTerminal as _, Read},
    path::Path,
};

/// Returns the text of an I/O error, without the error number that Rust appends.
#[must_use]
pub fn why(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::WouldBlock {
        return "it has no text now, and is not waited for".to_owned();
    }
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// The byte order mark of UTF-8, which some programs put before a text.
const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Returns a reader that reads `inner` without the byte order mark (BOM) that may be at the start.
///
/// # Errors
/// When the start cannot be read.
pub fn without_mark(mut inner: impl Read) -> io::Result<impl Read> {
    let mut start = Vec::new();
    inner.by_ref().take(MARK.len() as u64).read_to_end(&mut start)?;
    if start == MARK {
        start.clear();
    }
    Ok(io::Cursor::new(start).chain(inner))
}

/// Opens standard input. On Unix, if it is redirected from a file, registers that the file is read. `role` names the use
/// of the file in messages, such as "a trace".
///
/// # Errors
/// When an option of the command line names the file as an output.
pub fn standard(role: &str) -> io::Result<io::StdinLock<'static>> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let path = std::fs::canonicalize("/dev/stdin").unwrap_or_else(|_| "/dev/stdin".into());
        in_use::reads(role, &path, &file)?;
    }
    #[cfg(not(unix))]
    let _ = role;
    Ok(io::stdin().lock())
}

/// The longest wait for the first byte if standard input is a pipe. The writer of the pipe may never write, for example
/// if the command runs under `ssh`.
#[cfg(unix)]
const WAIT_FOR_PIPE: std::time::Duration = std::time::Duration::from_secs(2);

/// Opens standard input if it is a pipe or a redirected file. Returns `None` for a terminal, `/dev/null`, an empty
/// pipe, and a pipe whose writer writes nothing in time. Also for a file that an option names as an output, which
/// [`in_use::refused`] then tells.
#[cfg(unix)]
#[must_use]
pub fn piped() -> Option<Box<dyn Read>> {
    use rustix::fs::{FileType, fstat};
    use std::sync::mpsc;

    let kind = FileType::from_raw_mode(fstat(io::stdin()).ok()?.st_mode);
    if kind == FileType::RegularFile {
        return Some(Box::new(standard("the input").ok()?));
    }
    if kind != FileType::Fifo {
        return None;
    }
    let (send, receive) = mpsc::channel();
    // If the writer of the pipe never writes, this thread waits until the process ends.
    std::thread::spawn(move || {
        let mut first = Vec::new();
        let read = io::stdin().take(1).read_to_end(&mut first);
        send.send(read.map(|_| first))
    });
    let first = receive.recv_timeout(WAIT_FOR_PIPE).ok()?.ok().filter(|first| !first.is_empty())?;
    Some(Box::new(io::Cursor::new(first).chain(io::stdin())))
}

/// Returns `None`: on this system the function cannot detect whether standard input is a pipe.
#[cfg(not(unix))]
#[must_use]
pub fn piped() -> Option<Box<dyn Read>> {
    None
}

/// Opens a file, or a pipe that has a writer (`/dev/stdin`, or the `<(…)` of a shell), for reading. `role` names the
/// use of the file in messages, such as "a kernel". Skips a byte order mark at the start.
///
/// # Errors
/// When the file cannot be opened, or is also an output: some option says that it is to be written. When a pipe has no
/// writer, so that a read would block for ever.
#[cfg(unix)]
pub fn open(path: &Path, role: &str) -> io::Result<Box<dyn Read>> {
    use rustix::fs::{OFlags, fcntl_setfl};
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};

    let mut file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    in_use::reads(role, path, &file)?;
    let mut first = Vec::new();
    let is_pipe = file.metadata()?.file_type().is_fifo();
    if is_pipe {
        let mut byte = [0];
        match file.read(&mut byte) {
            Ok(0) => return Err(io::Error::other("it is not a regular file, but a pipe that nobody writes to")),
            Ok(_) => first.extend(byte),
            // The pipe has a writer, which has not written anything yet.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    // Reads of pipes and terminals wait for input. Reads of other files do not: a file of the kernel that has nothing
    // to read now, such as /proc/kmsg, returns an error instead of waiting without end.
    if is_pipe || file.is_terminal() {
        fcntl_setfl(&file, OFlags::empty())?;
    }
    Ok(Box::new(without_mark(io::Cursor::new(first).chain(file))?))
}

/// Opens a file for reading. `role` names the use of the file in messages, such as "a kernel". Skips a byte order mark
/// at the start.
///
/// # Errors
/// When the file cannot be opened, or when an option of the command line names the file as an output.
#[cfg(not(unix))]
pub fn open(path: &Path, role: &str) -> io::Result<Box<dyn Read>> {
    let file = File::open(path)?;
    in_use::reads(role, path, &file)?;
    Ok(Box::new(without_mark(file)?))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::{io::Write as _, process::Command, thread, time::Duration};

    fn text(path: &Path) -> io::Result<String> {
        let mut text = String::new();
        open(path, "a test")?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn a_pipe_is_read_where_somebody_writes_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(text(&path).unwrap_err().to_string().contains("it is not a regular file"));
        let writer = thread::spawn({
            let path = path.clone();
            // `open` waits until a reader has opened the pipe. The writer then pauses, so that the reader finds no
            // bytes at first.
            move || {
                let mut file = File::options().write(true).open(path).unwrap();
                thread::sleep(Duration::from_millis(50));
                file.write_all(b"some words").unwrap();
            }
        });
        let read = loop {
            match text(&path) {
                // The writer has not opened the pipe yet.
                Err(error) if error.to_string().contains("nobody writes") => thread::yield_now(),
                read => break read,
            }
        };
        assert_eq!(read.unwrap(), "some words");
        writer.join().unwrap();
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "more words").unwrap();
        assert_eq!(text(&plain).unwrap(), "more words");
    }

    #[test]
    fn a_file_of_the_kernel_that_has_nothing_to_tell_is_not_waited_for() {
        // Reading /proc/kmsg would never end; only root may read it, so the read may fail in two ways.
        if let Err(error) = text(Path::new("/proc/kmsg")) {
            assert_ne!(why(&error), "");
        }
        assert_eq!(why(&io::ErrorKind::WouldBlock.into()), "it has no text now, and is not waited for");
    }

    #[test]
    fn a_byte_order_mark_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (bytes, expected) in [
            ("\u{feff}{}", "{}"),
            ("\u{feff}", ""),
            ("", ""),
            ("a", "a"),
            ("abcde", "abcde"),
            ("x\u{feff}", "x\u{feff}"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(text(&path).unwrap(), expected);
        }
    }
}

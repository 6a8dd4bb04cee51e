//! Output of a command: files, which are opened before the work begins, and standard output.
//!
//! If one output fails, no results are lost: the other outputs are still written ([`Losses`]), and a report whose file
//! fails goes to standard output ([`report()`]).

#[cfg(unix)]
use std::time::Duration;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, IsTerminal as _, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use same_file::Handle;

use super::End;
use kit::draft::{Draft, write_over};
use kit::in_use;
use kit::in_use::Claim;
pub use kit::input::why;
use kit::interrupt::Leftover;
use report::Look;

/// A file that was opened for writing. Old contents stay until [`Output::write`]. If opening created the file and
/// nothing is written to it, the file is removed again, also when an interrupt ends the process.
pub struct Output {
    path: PathBuf,
    file: File,
    /// A guard that removes the file when dropped; none if the file existed before it was opened.
    leftover: Option<Leftover>,
    claim: Option<Claim>,
}

impl Output {
    /// Opens `path`, the value of the option `option`, for writing.
    ///
    /// # Errors
    /// Reports wrong usage when the file cannot be written to, is a pipe without a reader, is also an input of this
    /// command, or is also the value of another option.
    pub fn open(option: &str, path: &Path) -> Result<Self, End> {
        let opened = if path.exists() { open_to_write(path).map(|file| (file, None)) } else { make(path) };
        let told = |error| End::Usage(format!("cannot write to {}: {}", path.display(), why(&error)));
        let (file, leftover) = opened.map_err(told)?;
        let mut output = Self { path: path.to_owned(), file, leftover, claim: None };
        output.claim = Some(in_use::writes(option, path, Some(&output.file)).map_err(End::Usage)?);
        Ok(output)
    }

    /// Replaces the contents of the file. If this fails, the old contents stay.
    ///
    /// # Errors
    /// When writing fails, or when this command was given any file both as input and as output.
    pub fn write(self, text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), End> {
        self.prepare(text)?.finish()
    }

    /// Calls `text` to write the output. The output goes to a draft (a temporary file), and [`Prepared::finish`] gives
    /// the draft the name of the file. A file that must not be replaced, such as a device, is written directly.
    ///
    /// # Errors
    /// When writing fails, or when this command was given any file both as input and as output.
    pub fn prepare(self, text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<Prepared, End> {
        check_apart()?;
        let draft = self.draft();
        let written = match &draft {
            Some(draft) => fill(draft.file(), text).and_then(|()| draft.file().sync_all()),
            // Only a regular file has a length to set: devices and pipes do not.
            None if self.file.metadata().is_ok_and(|data| data.is_file()) => {
                let mut bytes = Vec::new();
                text(&mut bytes).and_then(|()| write_over(&self.file, &self.path, &bytes))
            }
            None => fill(&self.file, text),
        };
        written.map_err(|error| failed(&self.path, &error))?;
        Ok(Prepared { output: self, draft })
    }

    /// Returns a draft that will replace this file. Returns none if the file must be written in place: a device, a
    /// pipe, a file that was open when this process started, a file with several names (hard links), or a file in a
    /// folder in which no other file can be made.
    fn draft(&self) -> Option<Draft> {
        // Names in these folders stand for files that some process has open.
        if ["/dev/fd", "/proc"].iter().any(|folder| self.path.starts_with(folder)) {
            return None;
        }
        let about = self.file.metadata().ok().filter(|about| about.is_file() && has_one_name(about))?;
        let own = Handle::from_file(self.file.try_clone().ok()?).ok()?;
        if [Handle::stdout(), Handle::stderr()].into_iter().flatten().any(|given| given == own) {
            return None;
        }
        // A symbolic link is kept: the draft replaces its target.
        let draft = Draft::beside(&fs::canonicalize(&self.path).ok()?).ok()?;
        draft.file().set_permissions(about.permissions()).ok()?;
        keep_owner(&about, draft.file()).ok()?;
        Some(draft)
    }
}

/// A complete output in a draft that does not have its final name yet. If this value is dropped before
/// [`Prepared::finish`], the old file stays. An output without a draft, such as a device or a file in a read-only
/// folder, has already been written in place.
pub struct Prepared {
    output: Output,
    draft: Option<Draft>,
}

impl Prepared {
    /// Gives the draft its final name, so that it replaces the old file.
    ///
    /// # Errors
    /// When renaming fails.
    pub fn finish(self) -> Result<(), End> {
        let Self { mut output, draft } = self;
        if let Some(draft) = draft {
            draft.finish_over(&output.file).map_err(|error| failed(&output.path, &error))?;
        }
        if let Some(leftover) = output.leftover.take() {
            leftover.keep();
        }
        Ok(())
    }
}

fn failed(path: &Path, error: &io::Error) -> End {
    End::Failed(format!("cannot write to {}: {}", path.display(), why(error)))
}

fn fill(file: &File, text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    text(&mut out).and_then(|()| out.flush())
}

/// Largest number of symbolic links that are followed from a path to a file that does not exist yet; Linux has the same
/// limit. The limit is needed because links may form a circle.
const LINKS_MAX: usize = 40;

/// Creates the file at `path`. If `path` is a symbolic link to a file that does not exist, creates that file. Returns
/// the file, and a [`Leftover`] for it unless another process has created it first.
fn make(path: &Path) -> io::Result<(File, Option<Leftover>)> {
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(next) = fs::read_link(&place) else { break };
        place = place.parent().unwrap_or(Path::new("")).join(next);
    }
    match Leftover::make(&place, || File::create_new(&place)) {
        Ok((file, leftover)) => Ok((file, Some(leftover))),
        // Another process has created the file just now.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_to_write(path).map(|file| (file, None)),
        Err(error) => Err(error),
    }
}

/// Longest wait for a pipe's reader, which may start a little later than this command.
#[cfg(unix)]
const READER_MAX: Duration = Duration::from_secs(1);

/// Opens a file or a pipe for writing. A file that does not exist is created. A pipe is opened once it has a reader. If
/// it gets none within [`READER_MAX`], the function returns an error, and does not wait forever.
#[cfg(unix)]
fn open_to_write(path: &Path) -> io::Result<File> {
    use rustix::{
        fs::{OFlags, fcntl_setfl},
        io::Errno,
    };
    use std::{
        os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
        thread,
        time::Instant,
    };

    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let is_pipe = || fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo());
    let begun = Instant::now();
    loop {
        match options.open(path) {
            Ok(file) => {
                fcntl_setfl(&file, OFlags::empty())?;
                return Ok(file);
            }
            Err(error) if Errno::from_io_error(&error) != Some(Errno::NXIO) || !is_pipe() => return Err(error),
            Err(_) if begun.elapsed() > READER_MAX => return Err(io::Error::other("it is a pipe that nobody reads")),
            Err(_) => thread::sleep(READER_MAX / 100),
        }
    }
}

/// Opens a file, and creates it if it does not exist.
#[cfg(not(unix))]
fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).open(path)
}

/// Opens `path`, the value of the option `option`; returns none if `path` is none.
///
/// # Errors
/// Reports wrong usage when the file cannot be written to, is also an input of this command, or is also the value of
/// another option.
pub fn open(option: &str, path: Option<&Path>) -> Result<Option<Output>, End> {
    path.map(|path| Output::open(option, path)).transpose()
}

/// Opens `path`, the file of a report; returns none if `path` is none. A page of HTML may go to a file or a pipe, but
/// not to a terminal.
///
/// # Errors
/// Reports wrong usage when the file cannot be written to, is also an input of this command, or is also the value of
/// another option, and when a page would go to a terminal.
pub fn open_report(is_page: bool, path: Option<&Path>) -> Result<Option<Output>, End> {
    if is_page && path.is_none() && io::stdout().is_terminal() {
        let why = "a page of HTML is not for a terminal: name its file with -o FILE, or choose another --format";
        return Err(End::Usage(why.into()));
    }
    open("--output", path)
}

/// Returns whether a file has only one name (hard link). A file with several names must not be replaced by a new file,
/// since the other names would keep the old contents.
#[cfg(unix)]
fn has_one_name(about: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(about) == 1
}

/// Returns `true` on systems other than Unix, where the number of hard links to a file is not read.
#[cfg(not(unix))]
fn has_one_name(_: &fs::Metadata) -> bool {
    true
}

/// Gives `file` the owner and group of the file that `about` describes.
#[cfg(unix)]
fn keep_owner(about: &fs::Metadata, file: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    let now = file.metadata()?;
    if (now.uid(), now.gid()) == (about.uid(), about.gid()) {
        return Ok(());
    }
    fchown(file, Some(about.uid()), Some(about.gid()))
}

/// Returns at once: files have such owners and groups only on Unix.
#[cfg(not(unix))]
fn keep_owner(_: &fs::Metadata, _: &File) -> io::Result<()> {
    Ok(())
}

/// Checks that this command was given no file both as input and as output. The check is made before anything is
/// written, since an output would overwrite the input.
///
/// # Errors
/// Reports wrong usage when a file is both read and written.
pub fn check_apart() -> Result<(), End> {
    in_use::refused().map_or(Ok(()), |why| Err(End::Usage(why)))
}

/// Writes a report to `file`, or to standard output if there is no file or if the file cannot be written to. `text`
/// gets the style (colours, width) of the destination.
///
/// # Errors
/// When the file or standard output cannot be written to.
pub fn report(file: Option<Output>, text: impl Fn(&mut dyn Write, Look) -> io::Result<()>) -> Result<(), End> {
    check_apart()?;
    let to_standard_output = || -> Result<(), End> {
        check_standard_output()?;
        let mut out = BufWriter::new(io::stdout().lock());
        text(&mut out, Look::of_stdout())?;
        Ok(out.flush()?)
    };
    let Some(file) = file else { return to_standard_output() };
    let mut losses = Losses::default();
    if losses.note(file.write(|out| text(out, Look::default()))) {
        losses.note(to_standard_output());
    }
    losses.end()
}

/// True if the process was started without a standard output. On Unix, this must be found out before Rust's runtime
/// starts, because the runtime opens `/dev/null` as a missing standard output.
static HAD_NO_OUTPUT: AtomicBool = AtomicBool::new(false);

// SAFETY: the function asks the system about a file descriptor and stores a flag; neither needs Rust's runtime to have
// started.
#[cfg(unix)]
#[ctor::ctor(unsafe)]
fn look_for_output() {
    HAD_NO_OUTPUT.store(rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err(), Ordering::Relaxed);
}

/// Checks that the process has a standard output.
///
/// # Errors
/// When the process was started without one.
pub fn check_standard_output() -> Result<(), End> {
    match HAD_NO_OUTPUT.load(Ordering::Relaxed) {
        true => Err(End::Failed("cannot write the report: standard output is closed".into())),
        false => Ok(()),
    }
}

/// Writes a picture, if there is one, and then the report, even if the picture could not be written.
///
/// # Errors
/// When the picture or the report cannot be written.
pub fn with_picture(picture: Option<(Output, String)>, report: impl FnOnce() -> Result<(), End>) -> Result<(), End> {
    let mut losses = Losses::default();
    if let Some((file, svg)) = picture {
        losses.note(file.write(|out| out.write_all(svg.as_bytes())));
    }
    losses.note(report());
    losses.end()
}

/// Collects the failures of a command that goes on after a failure, for example to write its remaining files.
#[derive(Default)]
pub struct Losses {
    messages: Vec<String>,
    is_pipe_closed: bool,
}

impl Losses {
    /// Records `result` if it is a failure. Returns whether it is one.
    pub fn note(&mut self, result: Result<(), End>) -> bool {
        match result {
            Ok(()) => return false,
            Err(End::ClosedPipe) => self.is_pipe_closed = true,
            Err(End::Usage(message) | End::Failed(message)) => self.messages.push(message),
            Err(End::Arguments(error)) => self.messages.push(error.to_string()),
        }
        true
    }

    /// Returns the result of the command: a failure if any was recorded.
    ///
    /// # Errors
    /// When any failure was recorded.
    pub fn end(self) -> Result<(), End> {
        match (self.messages.is_empty(), self.is_pipe_closed) {
            (false, _) => Err(End::Failed(self.messages.join("\nerror: "))),
            (true, true) => Err(End::ClosedPipe),
            (true, false) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the text "new" to a file, as a command writes its output. The closure that writes the text returns `end`.
    fn write(path: &Path, end: io::Result<()>) -> Result<(), End> {
        Output::open("--output", path)?.write(|out| out.write_all(b"new").and(end))
    }

    #[test]
    fn a_file_that_cannot_be_written_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        let full = || Err(io::ErrorKind::StorageFull.into());
        assert!(write(&path, full()).is_err() && !path.exists(), "there was none");
        fs::write(&path, "a longer old text").unwrap();
        assert!(matches!(write(&path, full()), Err(End::Failed(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "a longer old text");
        assert!(write(&path, Ok(())).is_ok());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing temporary stays");
    }

    #[cfg(unix)]
    #[test]
    fn links_names_and_rights_of_a_file_stay() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let [file, link, name] = ["file", "link", "name"].map(|it| folder.path().join(it));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        assert!(write(&link, Ok(())).is_ok());
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        fs::hard_link(&file, &name).unwrap();
        fs::write(&file, "older").unwrap();
        assert!(write(&file, Ok(())).is_ok());
        assert_eq!(fs::read_to_string(&name).unwrap(), "new");
        // Writing to a dangling link creates its target, if all goes well.
        fs::remove_file(&file).unwrap();
        assert!(write(&link, Err(io::ErrorKind::StorageFull.into())).is_err() && link.is_symlink() && !file.exists());
        assert!(write(&link, Ok(())).is_ok() && link.is_symlink() && file.exists());
        std::os::unix::fs::symlink("round", folder.path().join("round")).unwrap();
        assert!(Output::open("--output", &folder.path().join("round")).is_err());
    }
}

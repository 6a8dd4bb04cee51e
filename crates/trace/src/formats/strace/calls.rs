//! The meaning of the system calls in strace's output: the requests that each call makes, and its effect on the tables
//! of the process.

use super::line::{Call, before_path, string, unescaped};
use super::tables::{Mapping, Shares, View, World};
use crate::formats::text::{c_number, hex, lossy, number};
use crate::operation::Operation;
use crate::read::Sink;
use crate::request::{Flags, Request};

/// Updates the tables of descriptors and mappings after the finished system call `call`. If the call read or wrote a
/// file, passes the corresponding requests to `sink`. Ignores calls that failed, and calls that do not concern files.
pub fn act(call: &Call<'_>, view: &mut View<'_>, sink: &mut Sink) -> Result<(), String> {
    if call.result.is_none() {
        return Ok(());
    }
    match call.name {
        b"open" => open(call, None, 0, view, sink),
        b"creat" => opened(call, None, call.argument(0), b"O_CREAT|O_TRUNC", view, sink),
        b"openat" | b"openat2" => open(call, Some(call.argument(0)), 1, view, sink),
        b"close" => descriptor(call, 0).map_or(Ok(()), |fd| view.close(fd, sink)),
        b"close_range" => close_range(call, view, sink),
        b"read" | b"readv" => transfer(call, Operation::Read, None, view, sink),
        b"write" | b"writev" => transfer(call, Operation::Write, None, view, sink),
        b"pread64" | b"pread" | b"preadv" | b"preadv2" => transfer(call, Operation::Read, Some(3), view, sink),
        b"pwrite64" | b"pwrite" | b"pwritev" | b"pwritev2" => transfer(call, Operation::Write, Some(3), view, sink),
        b"sendfile" | b"sendfile64" => copy(call, (1, 2), (0, usize::MAX), view, sink),
        b"copy_file_range" => copy(call, (0, 1), (2, 3), view, sink),
        b"lseek" | b"_llseek" => seek(call, view, sink),
        b"dup" | b"dup2" | b"dup3" | b"fcntl" | b"fcntl64" => duplicate(call, view, sink),
        b"truncate" | b"truncate64" => {
            let path = path(call, 0, None, view)?;
            let file = view.file(&path, sink);
            truncate(file, 0, call.number(1), view, sink)
        }
        b"ftruncate" | b"ftruncate64" => {
            let Some((file, handle)) = file_of(call, 0, view, sink) else { return Ok(()) };
            truncate(file, handle, call.number(1), view, sink)
        }
        b"fallocate" => allocate(call, view, sink),
        b"unlink" => unlink(call, 0, None, view, sink),
        b"unlinkat" => unlink(call, 1, Some(call.argument(0)), view, sink),
        b"rename" => rename(call, (None, 0), (None, 1), view, sink),
        b"renameat" | b"renameat2" => {
            rename(call, (Some(call.argument(0)), 1), (Some(call.argument(2)), 3), view, sink)
        }
        b"fsync" | b"fdatasync" | b"sync_file_range" => sync(call, view, sink),
        b"fadvise64" | b"posix_fadvise" | b"readahead" => advise(call, view, sink),
        b"mmap" | b"mmap2" => map(call, view, sink),
        b"munmap" | b"madvise" | b"msync" => mapped(call, view, sink),
        b"clone" | b"clone3" | b"fork" | b"vfork" => fork(call, view, sink),
        b"execve" | b"execveat" => view.exec(sink),
        b"chdir" => {
            let path = path(call, 0, None, view)?;
            *view.process.folder.borrow_mut() = path;
            Ok(())
        }
        b"fchdir" => {
            let (fd, path) = before_path(call.argument(0));
            if let Some(open) = number(fd).and_then(|fd| view.open_file(fd, path, sink)) {
                view.process.folder.borrow_mut().clone_from(&open.borrow().path);
            }
            Ok(())
        }
        b"stat" | b"lstat" | b"fstat" | b"newfstatat" | b"stat64" | b"fstat64" | b"statx" => size(call, view, sink),
        _ => Ok(()),
    }
}

/// Returns the descriptor that argument `at` of a call names; `None` if the argument is no descriptor.
fn descriptor(call: &Call<'_>, at: usize) -> Option<u64> {
    number(before_path(call.argument(at)).0)
}

/// Returns the numbers of the file and of the open file description to which the descriptor in argument `at` refers.
/// Returns none if the descriptor is unknown, or if its file has no pages. Unknown descriptors are counted.
fn file_of(call: &Call<'_>, at: usize, view: &mut View<'_>, sink: &mut Sink) -> Option<(u32, u32)> {
    let (fd, path) = before_path(call.argument(at));
    let path = path.map(unescaped);
    let open = view.open_file(number(fd)?, path.as_deref(), sink);
    if open.is_none() {
        sink.count("unknown_descriptors");
    }
    let open = open?;
    let open = open.borrow();
    Some((open.file?, open.handle))
}

/// Returns the path in argument `at` of a call as an absolute path. `folder` is the text of the argument that names the
/// descriptor of a folder, as in `openat`. A relative path starts at this folder if it is known, and otherwise at the
/// working directory.
fn path(call: &Call<'_>, at: usize, folder: Option<&[u8]>, view: &View<'_>) -> Result<Vec<u8>, String> {
    let text = call.argument(at);
    let path = string(text).ok_or_else(|| format!("`{}`: expected a path", lossy(text)))?;
    let named = folder.and_then(|folder| {
        let (fd, path) = before_path(folder);
        path.map(unescaped).or_else(|| {
            let fd = number(fd)?;
            view.process.descriptors.borrow().get(&fd).map(|found| found.open.borrow().path.clone())
        })
    });
    Ok(view.absolute(named.as_deref(), &path))
}

fn open(call: &Call<'_>, folder: Option<&[u8]>, at: usize, view: &mut View<'_>, sink: &mut Sink) -> Result<(), String> {
    opened(call, folder, call.argument(at), call.argument(at + 1), view, sink)
}

fn opened(
    call: &Call<'_>,
    folder: Option<&[u8]>,
    name: &[u8],
    how: &[u8],
    view: &mut View<'_>,
    sink: &mut Sink,
) -> Result<(), String> {
    let result = call.result.unwrap_or_default();
    let (fd, named) = before_path(result);
    let fd = number(fd).ok_or_else(|| format!("`{}`: expected a descriptor", lossy(result)))?;
    let has = |flag: &[u8]| how.windows(flag.len()).any(|part| part == flag);
    let path = match named {
        Some(named) => unescaped(named),
        None => {
            let at = call.arguments.iter().position(|argument| *argument == name).unwrap_or(0);
            path(call, at, folder, view)?
        }
    };
    let mut flags = Flags::NONE;
    for (name, flag) in [(&b"O_DIRECT|"[..], Flags::DIRECT), (b"SYNC", Flags::SYNC), (b"O_APPEND", Flags::APPEND)] {
        if has(name) {
            flags |= flag;
        }
    }
    if how.ends_with(b"O_DIRECT") || has(b"O_DIRECT,") {
        flags |= Flags::DIRECT;
    }
    let file = view.describe(&path, flags, sink);
    if has(b"O_DIRECTORY") || has(b"O_PATH") {
        file.borrow_mut().file = None;
    }
    view.install(fd, std::rc::Rc::clone(&file), has(b"O_CLOEXEC"), sink)?;
    let (Some(number), handle) = (file.borrow().file, file.borrow().handle) else { return Ok(()) };
    let len = view.size(number).min(Request::LEN_LIMIT - 1);
    view.push(sink, Request { operation: Operation::Open, flags, file: number, handle, len, ..Request::default() })?;
    if has(b"O_TRUNC") { truncate(number, handle, Some(0), view, sink) } else { Ok(()) }
}

fn close_range(call: &Call<'_>, view: &mut View<'_>, sink: &mut Sink) -> Result<(), String> {
    let (first, last) = (call.number(0).unwrap_or(u64::MAX), call.number(1).unwrap_or(u64::MAX));
    let mut closed: Vec<u64> =
        view.process.descriptors.borrow().keys().copied().filter(|fd| (first..=last).contains(fd)).collect();
    closed.sort_unstable();
    if call.argument(2).windows(7).any(|part| part == b"CLOEXEC") {
        for fd in closed {
            if let Some(found) = view.process.descriptors.borrow_mut().get_mut(&fd) {
                found.closes_on_exec = true;
            }
        }
        return Ok(());
    }
    closed.into_iter().try_for_each(|fd| view.close(fd, sink))
}

/// Records a read or a write by the descriptor in the first argument. Argument `at` has the offset; if `at` is none,
/// the transfer begins at the position of the open file description.
fn transfer(
    call: &Call<'_>,
    operation: Operation,
    at: Option<usize>,
    view: &mut View<'_>,
    sink: &mut Sink,
) -> Result<(), String> {
    let len = call.returned().ok_or("expected the number of bytes as the result")?;
    let place = at.map(|at| call.number(at).ok_or("expected an offset as the last argument")).transpose()?;
    one_transfer(call, operation, 0, place, len, view, sink)
}

fn one_transfer(
    call: &Call<'_>,
    operation: Operation,
    argument: usize,
    place: Option<u64>,
    len: u64,
    view: &mut View<'_>,
    sink: &mut Sink,
) -> Result<(), String> {
    let Some((file, handle)) = file_of(call, argument, view, sink) else { return Ok(()) };
    let (fd, path) = before_path(call.argument(argument));
    let path = path.map(unescaped);
    let Some(open) = number(fd).and_then(|fd| view.open_file(fd, path.as_deref(), sink)) else { return Ok(()) };
    let mut open = open.borrow_mut();
    let appends = operation == Operation::Write && open.flags.has(Flags::APPEND);
    let offset = match place {
        _ if appends => view.size(file),
        Some(place) => place,
        None => open.position,
    };
    let end = offset.saturating_add(len);
    if place.is_none() {
        open.position = end;
    }
    if operation == Operation::Write {
        view.grow(file, end);
    }
    if len == 0 {
        return Ok(());
    }
    let flags = open.flags;
    view.push(sink, Request { operation, flags, file, handle, offset, len, ..Request::default() })
}

/// Records a copy from file to file within the kernel, as a read and a write. `from` and `to` each say which arguments
/// hold the descriptor and the offset.
fn copy(
    call: &Call<'_>,
    from: (usize, usize),
    to: (usize, usize),
    view: &mut View<'_>,
    sink: &mut Sink,
) -> Result<(), String> {
    let len = call.returned().ok_or("expected the number of bytes as the result")?;
    // An offset is `NULL`, or `[0] => [4096]`.
    let place = |at: usize| {
        let inner = call.argument(at).strip_prefix(b"[")?;
        c_number(inner[..inner.iter().position(|byte| *byte == b']')?].trim_ascii())
    };
    one_transfer(call, Operation::Read, from.0, place(from.1), len, view, sink)?;
    one_transfer(call, Operation::Write, to.0, place(to.1), len, view, sink)
}

fn seek(call: &Call<'_>, view: &mut View<'_>, sink: &mut Sink) -> Result<(), String> {
    let (fd, path) = before_path(call.argument(0));
    let path = path.map(unescaped);
    let Some(fd) = number(fd) else { return Ok(()) };
    // The long form writes the new place into an argument.
    let place = match call.name {
        b"_llseek" => call.argument(2).strip_prefix(b"[").and_then(|text| number(text.strip_suffix(b"]")?)),
        _ => call.returned(),
    };
    if let (Some(open), Some(place)) = (view.open_file(fd, path.as_deref(), sink), place) {
        open.borrow_mut().position = place;
    }
    Ok(())
}

fn duplicate(call: &Call<'_>, view: &mut View<'_>, sink: &mut Sink) -> Result<(), String> {
    let is_fcntl = call.name.starts_with(b"fcntl");
    let (fd, path) = before_path(call.argument(0));
    let path = path.map(unescaped);
    let Some(fd) = number(fd) else { return Ok(()) };
    if is_fcntl && call.argument(1) == b"F_SETFD" {
        if let Some(found) = view.process.descriptors.borrow_mut().get_mut(&fd) {
            found.closes_on_exec = call.argument(2) == b"FD_CLOEXEC";
        }
        return Ok(());
    }
    if is_fcntl && !call.argument(1).starts_with(b"F_DUPFD") {
        return Ok(());
    }
    let Some(new) = call.returned().filter(|new| *new != fd) else { return Ok(()) };
    let closes_on_exec = call.arguments.iter().any(|argument| argument.ends_with(b"CLOEXEC"));
    match view.open_file(fd, path.as_deref(), sink) {
        Some(open) => view.install(new, open, closes_on_exec, sink),
        None => view.close(new, sink),
    }
}

fn truncate(file: u32, handle: u32, bytes: Option<u64>, view: &mut View<'_>, sink: &mut Sink) -> Result<(), String> {
    let offset = bytes.ok_or("expected a size")?;
    view.set_size(file, offset);
    view.push(sink, Request { operation: Operation::Truncate, file, handle, offset, ..Request::default() })
}

fn allocate(call: &Call<'_>, view: &mut View<'_>, sink: &mut Sink) -> Result<(), String> {
    let Some((file, handle)) = file_of(call, 0, view, sink) else { return Ok(()) };
    let (offset, len) = call.number(2).zip(call.number(3)).ok_or("expected offset and length")?;
    let has = |flag: &[u8]| call.argument(1).windows(flag.len()).any(|part| part == flag);
    if has(b"PUNCH_HOLE") {
        return view
            .push(sink, Request { operation: Operation::Punch, file, handle, offset, len, ..Request::default() });
    }
    let end = offset.saturating_add(len);
    if has(b"KEEP_SIZE") || end <= view.size(file) { Ok(()) } else { truncate(file, handle, Some(end), view, sink) }
}

fn unlink(
    call: &Call<'_>,
    at: usize,
    folder: Option<&[u8]>,
    view: &mut View<'_>,
    sink: &mut Sink,
) -> Result<(), String> {
    if call.arguments.last().is_some_and(|flags| *flags == b"AT_REMOVEDIR") {
        return Ok(());
    }
    let path = path(call, at, folder, view)?;
    // A file that was not used has no pages to lose.
    let Some(file) = view.forget(&path) else { return Ok(()) };
    view.push(sink, Request { operation: Operation::Delete, file, ..Request::default() })
}

fn rename(
    call: &Call<'_>,
    from: (Option<&[u8]>, usize),
    to: (Option<&[u8]>, usize),
    view: &mut View<'_>,
    sink: &mut Sink,
) -> Result<(), String> {
    let (old, new) = (path(call, from.1, from.0, view)?, path(call, to.1, to.0, view)?);
    let replaced = match view.forget(&old) {
        Some(file) => view.rename(&new, file),
        None => view.forget(&new),
    };
    let Some(file) = replaced else { return Ok(()) };
    view.push(sink, Request { operation: Operation::Delete, file, ..Request::default() })
}

fn sync(call: &Call<'_>, view: &mut View<'_>, sink: &mut Sink) -> Result<(), String> {
    let Some((file, handle)) = file_of(call, 0, view, sink) else { return Ok(()) };
    let is_range = call.name == b"sync_file_range";
    let (offset, len) = if is_range { call.number(1).zip(call.number(2)).ok_or("expected a range")? } else { (0, 0) };
    view.push(sink, Request { operation: Operation::Sync, file, handle, offset, len, ..Request::default() })
}

fn advise(call: &Call<'_>, view: &mut View<'_>, sink: &mut Sink) -> Result<(), String> {
    let Some((file, handle)) = file_of(call, 0, view, sink) else { return Ok(()) };
    let (offset, len) = call.number(1).zip(call.number(2)).ok_or("expected offset and length")?;
    let advice = if call.name == b"readahead" { &b"WILLNEED"[..] } else { call.argument(3) };
    let Some(operation) = advice_of(advice) else { return Ok(()) };
    view.push(sink, Request { operation, file, handle, offset, len, ..Request::default() })
}

fn advice_of(text: &[u8]) -> Option<Operation> {
    let all: [(&[u8], Operation); 6] = [
        (b"NORMAL", Operation::AdviseNormal),
        (b"RANDOM", Operation::AdviseRandom),
        (b"SEQUENTIAL", Operation::AdviseSequential),
        (b"WILLNEED", Operation::AdviseWillNeed),
        (b"DONTNEED", Operation::AdviseDontNeed),
        (b"NOREUSE", Operation::AdviseNoReuse),
    ];
    all.into_iter().find(|(name, _)| text.ends_with(name)).map(|(_, operation)| operation)
}

fn map(call: &Call<'_>, view: &mut View<'_>, sink: &mut Sink) -> Result<(), String> {
    let start = call.result.and_then(hex).ok_or("expected an address as the result")?;
    let len = call.number(1).ok_or("expected a length")?;
    let end = start.saturating_add(len.checked_next_multiple_of(4096).unwrap_or(len));
    cut(view, start, end, |_, _, _| Ok(()), true)?;
    if call.argument(4).starts_with(b"-1") || call.argument(3).windows(9).any(|part| part == b"ANONYMOUS") {
        return Ok(());
    }
    let Some((file, handle)) = file_of(call, 4, view, sink) else { return Ok(()) };
    let unit = if call.name == b"mmap2" { 4096 } else { 1 };
    let offset = call.number(5).and_then(|offset| offset.checked_mul(unit)).ok_or("expected an offset")?;
    view.process.mappings.borrow_mut().insert(start, Mapping { end, file, handle, offset });
    sink.not_seen("accesses through mappings");
    let is_shared = call.argument(3).windows(10).any(|part| part == b"MAP_SHARED");
    let flags = if is_shared { Flags::SHARED } else { Flags::NONE };
    view.push(sink, Request { operation: Operation::Map, flags, file, handle, offset, len, ..Request::default() })
}

/// Handles a call on a range of addresses: `munmap`, `msync` or `madvise`. Makes a request for each part of a mapped
/// file in the range.
fn mapped(call: &Call<'_>, view: &mut View<'_>, sink: &mut Sink) -> Result<(), String> {
    let operation = match call.name {
        b"munmap" => Some(Operation::Unmap),
        b"msync" => Some(Operation::Sync),
        _ => advice_of(call.argument(2)),
    };
    let Some(operation) = operation else { return Ok(()) };
    let (start, len) = hex(call.argument(0)).zip(call.number(1)).ok_or("expected address and length")?;
    let end = start.saturating_add(len.checked_next_multiple_of(4096).unwrap_or(len));
    let act = |view: &View<'_>, mapping: Mapping, first: u64| {
        let (file, handle) = (mapping.file, mapping.handle);
        let len = mapping.end - first;
        view.push(sink, Request { operation, file, handle, offset: mapping.offset, len, ..Request::default() })
    };
    cut(view, start, end, act, operation == Operation::Unmap)
}

/// Calls `act` for each mapping of which a part lies between the addresses `start` and `end`, with this part and its
/// first address. If `removes` is set, also unmaps these parts.
fn cut(
    view: &View<'_>,
    start: u64,
    end: u64,
    mut act: impl FnMut(&View<'_>, Mapping, u64) -> Result<(), String>,
    removes: bool,
) -> Result<(), String> {
    let mut mappings = view.process.mappings.borrow_mut();
    let from = mappings.range(..=start).next_back().map_or(start, |(first, _)| *first);
    let found: Vec<_> = mappings
        .range(from..end.max(from))
        .filter(|(_, mapping)| mapping.end > start)
        .map(|(first, mapping)| (*first, *mapping))
        .collect();
    for (first, mapping) in found {
        let (inner, inner_end) = (first.max(start), mapping.end.min(end));
        let offset = mapping.offset.saturating_add(inner - first);
        if removes {
            mappings.remove(&first);
            if first < inner {
                mappings.insert(first, Mapping { end: inner, ..mapping });
            }
            if inner_end < mapping.end {
                let offset = mapping.offset.saturating_add(inner_end - first);
                mappings.insert(inner_end, Mapping { offset, ..mapping });
            }
        }
        act(view, Mapping { end: inner_end, offset, ..mapping }, inner)?;
    }
    Ok(())
}

fn fork(call: &Call<'_>, view: &mut View<'_>, sink: &mut Sink) -> Result<(), String> {
    // In the child, the result is 0.
    let Some(child) = call.returned().filter(|child| *child != 0) else { return Ok(()) };
    let shares = call.arguments.iter().fold(Shares::default(), |shares, argument| shares.or(Shares::of(argument)));
    view.fork(child, shares, sink)
}

/// Notes that `process` is starting another process, if the text `start` begins a call of `clone`, `clone3`, `fork` or
/// `vfork`. The new process may appear in the input before the call is finished.
pub fn begins(process: u64, start: &[u8], world: &mut World) {
    if [&b"clone("[..], b"clone3(", b"fork(", b"vfork("].iter().any(|name| start.starts_with(name)) {
        world.forks(process, Shares::of(start));
    }
}

/// Records the size of a file, if the call (such as `stat`) has returned it in a structure.
fn size(call: &Call<'_>, view: &mut View<'_>, sink: &mut Sink) -> Result<(), String> {
    let is_file = |text: &[u8]| text.windows(7).any(|part| part == b"S_IFREG");
    let Some(filled) = call.arguments.iter().find(|argument| argument.starts_with(b"{") && is_file(argument)) else {
        return Ok(());
    };
    let mark = [&b"st_size="[..], b"stx_size="]
        .into_iter()
        .find_map(|mark| filled.windows(mark.len()).position(|part| part == mark).map(|at| at + mark.len()));
    let Some(at) = mark else { return Ok(()) };
    let digits = filled[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let Some(bytes) = number(&filled[at..at + digits]) else { return Ok(()) };
    let is_at = matches!(call.name, b"newfstatat" | b"statx");
    let name = call.arguments.iter().find_map(|argument| string(argument)).filter(|name| !name.is_empty());
    let file = match name {
        Some(name) => {
            let folder = is_at.then(|| before_path(call.argument(0)).1.map(unescaped)).flatten();
            view.known_file(&view.absolute(folder.as_deref(), &name))
        }
        None => {
            let (fd, path) = before_path(call.argument(0));
            let path = path.map(unescaped);
            number(fd).and_then(|fd| view.open_file(fd, path.as_deref(), sink)).and_then(|open| open.borrow().file)
        }
    };
    if let Some(file) = file {
        view.set_size(file, bytes);
        sink.file_bytes(file, bytes);
    }
    Ok(())
}

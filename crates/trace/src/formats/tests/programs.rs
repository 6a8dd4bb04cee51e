//! Sample outputs of tools that trace programs: system calls from strace, and page-cache events from ftrace.

use super::{files, read, read_as, short};
use crate::operation::Operation::{
    AdviseRandom, Close, Delete, Exit, Fork, Load, Map, Open, Punch, Read, Sync, Truncate, Unmap, Write,
};
use crate::read::{Options, stream_all};
use crate::request::Flags;

/// Output of strace with the paths of descriptors (`-y`) and with times since 1970 (`-ttt`).
pub(super) const STRACE: &str = r#"100 1700000000.000000 execve("/bin/cat", ["cat"], 0x7ffd /* 20 vars */) = 0
100 1700000000.000100 openat(AT_FDCWD</home/u>, "a b", O_RDONLY|O_CLOEXEC) = 3</home/u/a b>
100 1700000000.000200 newfstatat(3</home/u/a b>, "", {st_mode=S_IFREG|0644, st_size=10000, ...}, AT_EMPTY_PATH) = 0
100 1700000000.000300 read(3</home/u/a b>, "x\"y), 3"..., 4096) = 4096
100 1700000000.000400 read(3</home/u/a b>, ""..., 131072) = 5904
100 1700000000.000450 read(3</home/u/a b>, "", 131072) = 0
100 1700000000.000500 write(1<pipe:[77]>, "12345678", 8) = 8
100 1700000000.000600 pread64(3</home/u/a b>, ""..., 512, 8192) = 512
100 1700000000.000650 read(9, 0x7ffd, 10) = -1 EBADF (Bad file descriptor)
100 1700000000.000700 lseek(3</home/u/a b>, 4096, SEEK_SET) = 4096
100 1700000000.000800 read(3</home/u/a b>, ""..., 100) = 100
100 1700000000.000900 --- SIGCHLD {si_signo=SIGCHLD} ---
100 1700000000.001000 close(3</home/u/a b>) = 0
100 1700000000.001100 +++ exited with 0 +++
"#;

#[test]
fn calls_with_paths() {
    let (requests, stream) = read(STRACE.as_bytes());
    let expected = [
        (0, Open, 0, 0, 0),
        (200, Read, 0, 0, 4096),
        (300, Read, 0, 4096, 5904),
        (500, Read, 0, 8192, 512),
        (700, Read, 0, 4096, 100),
        (900, Close, 0, 0, 0),
        (1000, Exit, 0, 0, 0),
    ];
    assert_eq!((short(&requests), files(&stream)), (expected.to_vec(), vec!["/home/u/a b".to_owned()]));
    assert!(requests[..6].iter().all(|request| request.handle == 1));
    assert_eq!(stream.metadata()["file_bytes"]["0"], 10_000);
}

/// Without paths in the text, descriptors are followed through `fork` and `dup`.
#[test]
fn calls_without_paths() {
    let text = r#"7 chdir("/w") = 0
7 open("log", O_WRONLY|O_CREAT|O_APPEND, 0644) = 3
7 write(3, "..."..., 100) = 100
7 dup(3) = 4
7 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD <unfinished ...>
8 write(4, "..."..., 50) = 50
7 <... clone resumed>, child_tidptr=0x7f) = 8
8 close(3) = 0
8 close(4) = 0
8 +++ exited with 0 +++
7 ftruncate(3, 4096) = 0
7 fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 4096) = 0
7 fdatasync(3) = 0
7 fadvise64(3, 0, 0, POSIX_FADV_RANDOM) = 0
7 mmap(NULL, 8192, PROT_READ, MAP_SHARED, 3, 0x1000) = 0x7f0000000000
7 munmap(0x7f0000001000, 4096) = 0
7 rename("log", "./old") = 0
7 unlink("/w/old") = 0
7 unlink("/w/never-used") = 0
7 close(3) = 0
7 close(4) = 0
"#;
    let (requests, stream) = read(text.as_bytes());
    assert_eq!(stream.counts().unparsed, 0, "{:?}", stream.counts());
    let expected = [
        (0, Open, 0, 0, 0),
        (0, Write, 0, 0, 100),
        (0, Write, 0, 100, 50),
        // The number of the task of process 8.
        (0, Fork, 0, 1, 0),
        (0, Exit, 0, 0, 0),
        (0, Truncate, 0, 4096, 0),
        (0, Punch, 0, 0, 4096),
        (0, Sync, 0, 0, 0),
        (0, AdviseRandom, 0, 0, 0),
        (0, Map, 0, 4096, 8192),
        (0, Unmap, 0, 8192, 4096),
        (0, Delete, 0, 0, 0),
        (0, Close, 0, 0, 0),
    ];
    assert_eq!((short(&requests), files(&stream)), (expected.to_vec(), vec!["/w/log".to_owned()]));
    assert_eq!((requests[2].task, requests[2].handle), (1, 1));
    assert!(requests[1].flags.has(Flags::APPEND) && requests[9].flags.has(Flags::SHARED));
    assert_eq!(stream.metadata()["not_seen"][0], "accesses through mappings");
}

#[test]
fn copies_in_the_kernel_and_other_forms_of_lines() {
    let text = r#"[pid    20] 10:00:00.000000 openat(AT_FDCWD, "/a", O_RDONLY) = 3
[pid    20] 23:59:59.999999 openat(AT_FDCWD, "/b", O_RDWR|O_TRUNC|O_DIRECT) = 4
[pid    20] 00:00:00.000001 sendfile(4, 3, [4096] => [8192], 4096) = 4096
[pid    20] 00:00:00.000002 copy_file_range(3, NULL, 4, [0], 100, 0) = 100
strace: Process 21 attached
[pid    20] 00:00:00.000003 vfork() = 21
[pid    21] 00:00:00.000004 read(3, ""..., 10) = 10
"#;
    let (requests, stream) = read_as(text.as_bytes(), "strace");
    assert_eq!(stream.counts().unparsed, 0, "{:?}", stream.counts());
    const B: u64 = 14 * 3_600_000_000 - 1;
    let expected = [
        (0, Open, 0, 0, 0),
        (B, Open, 1, 0, 0),
        (B, Truncate, 1, 0, 0),
        (B + 2, Read, 0, 4096, 4096),
        (B + 2, Write, 1, 0, 4096),
        (B + 3, Read, 0, 0, 100),
        (B + 3, Write, 1, 0, 100),
        (B + 4, Fork, 0, 1, 0),
        (B + 5, Read, 0, 100, 10),
    ];
    assert_eq!(short(&requests), expected);
    assert!(requests[4].flags.has(Flags::DIRECT) && !requests[3].flags.has(Flags::DIRECT));
}

pub(super) const FTRACE: &str = "cpus=2
            less-901   [005] .....    72.531600: mm_filemap_get_pages: dev=253:3 ino=13f730 ofs=0-65535
            less-901   [005] .....    72.531607: mm_filemap_add_to_page_cache: dev 253:3 ino 13f730 pfn=0x1 ofs=0 order=2
            less-901   [005] .....    72.531700: mm_filemap_get_pages: dev=253:3 ino=13f730 ofs=16384-65535
     my program-902   [001] .....    72.531800: mm_filemap_map_pages: dev=253:3 ino=9 ofs=0-65535
     my program-902   [001] .....    72.531900: mm_filemap_fault: dev=253:3 ino=9 ofs=20480
     my program-902   [001] .....    72.532000: mm_filemap_fault: dev=253:3 ino=9 ofs=8192
          <idle>-0     [000] d.h1.    72.532100: sched_switch: prev_comm=swapper
            dd-903   (903) [000] .....    72.800000: ext4_da_write_begin: dev 253,3 ino 77 pos 100 len 4000
            dd-903   (903) [000] .....    72.900000: block_touch_buffer: 253,3 sector=10 size=4096
";

#[test]
fn events_of_the_page_cache() {
    let (requests, stream) = read(FTRACE.as_bytes());
    assert_eq!(stream.counts().unparsed, 0, "{:?}", stream.counts());
    let expected = [
        // The file has four pages when the read's second step begins behind them: its end is not known.
        (0, Read, 0, 0, 65_536),
        (200, Load, 1, 20_480, 4096),
        (400, Load, 1, 8192, 4096),
        (268_400, Write, 2, 100, 4000),
        (368_400, Read, 3, 40_960, 4096),
    ];
    let names = ["253:3 13f730", "253:3 9", "253:3 4d", "253:3 blocks"].map(str::to_owned);
    assert_eq!((short(&requests), files(&stream)), (expected.to_vec(), names.to_vec()));
    assert_eq!(stream.metadata()["ranges_of_unsure_end"], 1);
    let tasks: Vec<_> = stream.tasks().iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    assert_eq!(tasks, ["less-901", "my program-902", "dd-903"]);
}

#[test]
fn reads_are_cut_to_their_files() {
    let options = Options { file_bytes: [("253:3 13f730".to_owned(), 10_000)].into(), ..Options::default() };
    let (requests, stream) = stream_all(FTRACE.as_bytes(), &options).unwrap();
    assert_eq!((requests[0].offset, requests[0].len), (0, 12_288));
    assert_eq!(stream.metadata()["ranges_cut_to_file"], 1);
}

/// A task's read may be continued by the task's next event, which never comes. So the reader of the trace holds this
/// read back, and the later requests of other tasks with it. It gives them out before there are 131,072 of them.
#[test]
fn a_silent_task_holds_back_a_bounded_number_of_requests() {
    let mut text = "a-1 [000] ..... 1.0: mm_filemap_get_pages: dev=1:1 ino=1 ofs=0-4095\n".to_owned();
    for page in 0..200_000_u64 {
        text += &format!("b-2 [000] ..... 1.0: mm_filemap_fault: dev=1:1 ino=2 ofs={}\n", page * 4096);
    }
    let input = Box::new(std::io::Cursor::new(text.into_bytes()));
    let mut stream = crate::Stream::of(input, "test", &Options::default()).unwrap();
    let mut batches = Vec::new();
    while let Some(batch) = stream.batch().unwrap() {
        batches.push(batch.len());
    }
    assert_eq!(stream.counts().requests, 200_001);
    assert!(batches.iter().all(|len| *len < 1 << 17), "{batches:?}");
}

//! What the system may refuse, now or later, and what it may show to others. What changes a process for good is tried in a
//! child: this program once more, for the one test.

mod common;

use common::{builder, memory};
use highwater::Memory;
use std::fs;
use std::process::Command;

const PAGE: u64 = 4096;

/// Runs `test`, the body of the test `name`, in a process of its own, which must end well.
fn in_child(name: &str, test: impl FnOnce()) {
    const CHILD: &str = "HIGHWATER_TEST_CHILD";
    if std::env::var_os(CHILD).is_some_and(|child| child == name) {
        return test();
    }
    let mut child = Command::new(std::env::current_exe().expect("this program is there"));
    child.args(["--exact", name, "--test-threads=1", "--nocapture"]).env(CHILD, name);
    let output = child.output().expect("a process is granted");
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {printed}", output.status);
    assert!(printed.contains("1 passed"), "the test has another name: {printed}");
}

/// What the system says of the mapping that `address` lies in: the flags of `/proc/self/smaps`.
fn mapping_flags(address: usize) -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/smaps").expect("it is there");
    let mut is_here = false;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        if let Some((start, end)) = range
            && let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16))
        {
            is_here = (start..end).contains(&address);
        }
        if is_here && let Some(flags) = line.strip_prefix("VmFlags:") {
            return flags.split_whitespace().map(str::to_owned).collect();
        }
    }
    panic!("no mapping at {address:#x}");
}

fn address(memory: &Memory) -> usize {
    let region = memory.anonymous(PAGE).unwrap();
    region.write_at(&[1], 0).unwrap();
    region.page(0).unwrap().as_ptr() as usize
}

#[test]
fn a_core_dump_has_nothing_of_the_memory() {
    let memory = memory();
    let flags = mapping_flags(address(&memory));
    assert!(flags.iter().any(|flag| flag == "dd"), "{flags:?}");
    assert!(flags.iter().all(|flag| flag != "lo"), "{flags:?}");
}

/// Memory that goes and comes is locked, too.
#[test]
fn locked_memory_stays_locked_when_it_is_resized() {
    let locked = builder().size(4 << 20).size_max(16 << 20).lock_memory(true).start();
    let memory = match locked {
        Ok(memory) => memory,
        Err(error) => {
            assert!(error.to_string().contains("locking 4194304 bytes in memory"), "{error}");
            return println!("skipped: {error}");
        }
    };
    let all_locked = || {
        let region = memory.anonymous(memory.size() / 2).unwrap();
        for page in (0..memory.size() / 2 / PAGE).step_by(97) {
            region.write_at(&[1], page * PAGE).unwrap();
            let flags = mapping_flags(region.page(page).unwrap().as_ptr() as usize);
            assert!(flags.iter().any(|flag| flag == "lo"), "{flags:?}");
        }
    };
    for mib in [4, 8, 5, 16] {
        memory.resize(mib << 20).unwrap();
        all_locked();
    }
}

/// The system does not let the process lock memory: an error says so.
#[test]
fn memory_that_cannot_be_locked_is_an_error() {
    in_child("memory_that_cannot_be_locked_is_an_error", || {
        refuse(&[libc::SYS_mlock2]);
        let error = builder().lock_memory(true).start().unwrap_err().to_string();
        assert!(error.contains("locking 8388608 bytes in memory (see `ulimit -l`): "), "{error}");
    });
}

/// From now on these system calls end in EPERM, in all threads of the process.
fn refuse(calls: &[i64]) {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter_all_threads};
    let arch: TargetArch = std::env::consts::ARCH.try_into().expect("a processor with filters");
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("it is short");
    apply_filter_all_threads(&program).expect("filters are granted");
}

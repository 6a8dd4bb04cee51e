//! Tests of [`Info`] on small traces, and on the sample trace if it is there.

use super::*;
use crate::read::{Options, load};

fn request(time_us: u64, operation: Operation, file: u32, page: u64, pages: u64) -> Request {
    Request { time_us, operation, file, offset: page * PAGE_BYTES, len: pages * PAGE_BYTES, ..Request::default() }
}

fn info(kind: Kind, requests: Vec<Request>) -> Info {
    Info::of(&Trace::from_requests(kind, requests).unwrap(), Limits { intervals: 4, ..Limits::default() })
}

#[test]
fn pages_of_ranges_are_counted() {
    let requests = vec![
        request(0, Operation::Open, 1, 0, 0),
        request(0, Operation::Read, 1, 0, 3),
        request(40, Operation::Write, 2, 0, 1),
        request(75, Operation::Read, 1, 0, 2),
        request(100, Operation::Store, 1, 2, 1),
        request(100, Operation::Delete, 2, 0, 0),
    ];
    let info = info(Kind::Ranges, requests);
    assert_eq!((info.access_requests, info.accesses, info.writes, info.objects), (4, 7, 2, 4));
    assert_eq!((info.bytes_read, info.bytes_written, info.object_bytes), (5 * 4096, 2 * 4096, 4 * 4096));
    assert_eq!((info.files, info.tasks, info.duration_us), (2, 1, 100));
    let by_file = [FileUse { file: 1, reads: 5, writes: 1 }, FileUse { file: 2, reads: 0, writes: 1 }];
    assert_eq!(info.by_file, by_file);
    assert!(info.operations.contains(&(Operation::Delete, 1)) && info.operations.len() == 5);
    // Three pages and the other file's lie between the accesses to each page.
    assert_eq!(
        (info.first_accesses, info.distances.total(), info.distances.below(3), info.distances.below(4)),
        (4, 3, 0, 3)
    );
    let working_set: Vec<_> = info.intervals.iter().map(|one| (one.accesses, one.objects, one.new_objects)).collect();
    assert_eq!(working_set, [(3, 3, 3), (1, 1, 1), (2, 2, 0), (1, 1, 0)]);
    assert!((info.lru_miss_ratio(3) - 1.0).abs() < 1e-9 && (info.lru_miss_ratio(4) - 4.0 / 7.0).abs() < 1e-9);
    assert!((info.read_share() - 5.0 / 7.0).abs() < 1e-9);
}

#[test]
fn objects_without_times() {
    let object = |key, len, operation| Request { operation, offset: key, len, ..Request::default() };
    let read = Operation::Read;
    let requests =
        vec![object(1, 10, read), object(2, 7, read), object(1, 20, Operation::Write), object(1, 0, Operation::Delete)];
    let info = info(Kind::Objects, requests);
    assert_eq!((info.accesses, info.objects, info.object_bytes, info.files), (3, 2, 27, 0));
    assert_eq!((info.bytes_read, info.bytes_written, info.duration_us), (17, 20, 0));
    assert_eq!(info.intervals.iter().map(|one| one.accesses).collect::<Vec<_>>(), [1, 1, 1, 0]);
    assert_eq!((info.distances.below(1), info.distances.below(2)), (0, 1));
}

#[test]
fn an_empty_trace_has_an_info() {
    let info = info(Kind::Ranges, vec![]);
    assert_eq!((info.accesses, info.objects, info.popularity.theta), (0, 0, None));
    assert!(info.lru_miss_ratio(1).abs() < 1e-9 && info.read_share().abs() < 1e-9);
}

/// Checks that the miss ratios of LRU are those that libCacheSim prints, according to its README.
#[test]
fn lru_misses_of_the_sample_trace_are_those_that_are_printed() {
    let Some(folder) = std::env::var_os("HIGHWATER_TRACES").map(std::path::PathBuf::from) else {
        eprintln!("skipped: HIGHWATER_TRACES does not name the folder of the sample trace");
        return;
    };
    let ratios = |file: &str, sizes: [u64; 2]| {
        let trace = load(&folder.join(file), &Options::default()).unwrap().trace;
        let info = Info::of(&trace, Limits::default());
        (info.objects, sizes.map(|size| format!("{:.4}", info.lru_miss_ratio(size))))
    };
    assert_eq!(ratios("cloudPhysicsIO.txt", [1000, 10_000]), (48_974, ["0.8327", "0.6976"].map(str::to_owned)));
    assert_eq!(ratios("cloudPhysicsIO.csv", [4096, 32_768]), (269_210, ["0.8955", "0.8687"].map(str::to_owned)));
}

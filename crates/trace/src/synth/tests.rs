//! Tests of patterns.

use super::*;
use crate::hwtrace::Trace;
use crate::info::{Info, Limits};
use std::collections::HashSet;

fn synth(patterns: &[&str], settings: Settings) -> Vec<Request> {
    let patterns = patterns.iter().map(|text| text.parse().unwrap()).collect();
    Synth::new(patterns, settings).unwrap().collect()
}

fn some(requests: u64) -> Settings {
    Settings { requests, ..Settings::default() }
}

fn pages(requests: &[Request]) -> Vec<u64> {
    requests.iter().map(|request| request.offset / PAGE_BYTES).collect()
}

#[test]
fn orders_without_chance() {
    assert_eq!(pages(&synth(&["scan:len=2"], some(4))), [0, 2, 4, 6]);
    assert_eq!(pages(&synth(&["loop:pages=3"], some(5))), [0, 1, 2, 0, 1]);
    assert_eq!(pages(&synth(&["loop:pages=2,shift-every=2,shift-by=10"], some(5))), [0, 1, 10, 11, 20]);
    let loops = synth(&["loop:pages=8,len=4,reads=0"], Settings { rate: 1000, ..some(3) });
    assert_eq!(
        loops.iter().map(|one| (one.time_us, one.len)).collect::<Vec<_>>(),
        [(0, 16_384), (1000, 16_384), (2000, 16_384)]
    );
    assert!(loops.iter().all(|one| one.operation == Operation::Write));
}

#[test]
fn pages_come_a_second_time_after_as_many_new_ones_as_given() {
    assert_eq!(pages(&synth(&["twice:after=2"], some(9))), [0, 1, 2, 0, 3, 1, 4, 2, 5]);
    assert_eq!(pages(&synth(&["twice:after=2,again=0,len=3"], some(4))), [0, 3, 6, 9]);
    let some_twice = pages(&synth(&["twice:after=50,again=0.25"], some(10_000)));
    let different: HashSet<u64> = some_twice.iter().copied().collect();
    assert!((7900..8100).contains(&different.len()), "a fifth of the requests come again: {}", different.len());
}

#[test]
fn recent_pages_come_again_at_the_mean_distance_as_often_as_given() {
    let made = pages(&synth(&["recent:after=100,again=0.75"], some(100_000)));
    let different: HashSet<u64> = made.iter().copied().collect();
    assert!((24_500..25_700).contains(&different.len()), "{}", different.len());
    assert_eq!(different.len() as u64, different.iter().max().unwrap() + 1, "no page is left out");
    // The distance of a request to the nearest earlier one for its page is at most the distance that was drawn.
    let mut at = std::collections::HashMap::new();
    let distances: Vec<usize> = (0..).zip(&made).filter_map(|(n, page)| Some(n - at.insert(page, n)?)).collect();
    let mean = distances.iter().sum::<usize>() as f64 / distances.len() as f64;
    assert!((40.0..100.0).contains(&mean), "{mean}");
}

#[test]
fn a_seed_decides_all_chance() {
    let patterns = ["zipf:pages=1k,reads=0.5", "uniform:pages=50", "scan:weight=3"];
    let made = synth(&patterns, some(1000));
    assert_eq!(made, synth(&patterns, some(1000)));
    assert_ne!(made, synth(&patterns, Settings { seed: 2, ..some(1000) }));
    // Three of five requests, about, are those of the scan.
    let of_scan = made.iter().filter(|one| one.file == 2).count();
    assert!((500..700).contains(&of_scan), "{of_scan}");
    // The requests stay the same in later versions: published figures depend on them.
    let sum = made.iter().fold(0_u64, |sum, one| {
        sum.wrapping_mul(31).wrapping_add(one.offset ^ u64::from(one.file) ^ one.operation as u64)
    });
    assert_eq!(sum, 12_273_652_402_707_655_792);
}

#[test]
fn shares_of_reads_and_the_law_are_as_given() {
    let settings = some(200_000);
    let patterns = vec!["zipf:pages=5k,theta=0.8,reads=0.7".parse().unwrap()];
    let mut bytes = Vec::new();
    Synth::new(patterns, settings).unwrap().write(&mut bytes).unwrap();
    let trace = Trace::from_bytes(bytes, "made").unwrap();
    assert_eq!(trace.file_name(0), Some(&b"zipf:pages=5000,theta=0.8,reads=0.7"[..]));
    let info = Info::of(&trace, Limits::default());
    assert!((info.read_share() - 0.7).abs() < 0.01);
    assert!((info.popularity.theta.unwrap() - 0.8).abs() < 0.03, "{:?}", info.popularity.theta);
    assert_eq!((info.accesses, info.objects, info.duration_us), (200_000, 5000, 19_999_900));
}

#[test]
fn objects_keep_their_sizes() {
    let settings = Settings { kind: Kind::Objects, object_bytes: (100, 10_000), ..some(10_000) };
    let made = synth(&["uniform:pages=100", "uniform:pages=100"], settings);
    let objects: HashSet<(u64, u64)> = made.iter().map(|one| (one.key(), one.len)).collect();
    assert_eq!(objects.len(), 200);
    let (least, most) =
        (objects.iter().map(|one| one.1).min().unwrap(), objects.iter().map(|one| one.1).max().unwrap());
    assert!((100..200).contains(&least) && most <= 10_000 && most > 5000, "{least} {most}");
    assert!(made.iter().all(|one| one.fault(Kind::Objects).is_none()));
}

#[test]
fn texts_of_patterns() {
    for text in [
        "zipf:pages=1000,theta=0.9,weight=3,len=2,shift-every=10,shift-by=1,reads=0.25",
        "scan",
        "loop:pages=7",
        "twice:after=5,again=0.5",
        "recent:after=9,again=1",
    ] {
        assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
    }
    for (text, part) in [
        ("zip:pages=1", "expected one of zipf"),
        ("zipf", "`pages=` from 1"),
        ("zipf:pages=0", "`pages=` from 1"),
        ("zipf:pages", "key=value"),
        ("zipf:pages=1x", "whole number"),
        ("zipf:pages=99999999999999999999", "whole number"),
        ("zipf:pages=1000G", "to 68719476736"),
        ("zipf:pages=5,theta=0", "above 0"),
        ("zipf:pages=5,theta=nan", "above 0"),
        ("uniform:pages=5,theta=1", "only zipf"),
        ("uniform:pages=5,pages=6", "second time"),
        ("uniform:pages=5,reads=1.1", "from 0 to 1"),
        ("uniform:pages=5,len=6", "from 6"),
        ("uniform:pages=5,weight=0", "1 to 1000000"),
        ("uniform:pages=5,shift-by=6", "both"),
        ("scan:pages=5", "no set"),
        ("twice:after=5,pages=5", "no set"),
        ("recent", "`recent` needs `after=` from 1"),
        ("twice:pages=5", "needs `after=`"),
        ("recent:after=5,again=2", "from 0 to 1"),
        ("scan:after=5", "only twice and recent"),
        ("loop:pages=5,how=6", "no key of a pattern"),
    ] {
        let error = text.parse::<Pattern>().unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let refused = |text: &str, settings| Synth::new(vec![text.parse().unwrap()], settings).unwrap_err();
    assert!(refused("scan:len=1k", some(1 << 31)).contains("beyond page"));
    assert!(refused("loop:pages=1,shift-every=1,shift-by=1G", some(10_000)).contains("beyond page"));
    assert!(refused("scan", Settings { rate: 0, ..some(1) }).contains("nine years"));
    assert!(refused("scan", Settings { rate: 1, ..some(1 << 30) }).contains("nine years"));
    assert!(refused("scan", Settings { object_bytes: (2, 1), ..some(1) }).contains("smallest first"));
    assert!(refused("scan:len=2", Settings { kind: Kind::Objects, ..some(1) }).contains("one object"));
    assert!(Synth::new(vec![], some(1)).unwrap_err().contains("0 patterns"));
    assert_eq!(synth(&["scan"], some(0)), []);
}

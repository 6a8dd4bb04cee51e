//! Random and damaged inputs: reading ends, without a panic, and gives nothing that a trace cannot hold.
//!
//! `HIGHWATER_FUZZ` sets the number of inputs of each test; a million take some minutes in a release build.

use super::{programs, samples};
use crate::formats::ALL;
use crate::hwtrace::{Trace, Writer};
use crate::names::Names;
use crate::read::{Options, Start, stream_all};
use crate::request::{Kind, Request};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestRunner};

/// Runs a test on `few` random inputs, or on as many as `HIGHWATER_FUZZ` says. The random numbers have a fixed seed, so
/// every run has the same inputs.
fn on_inputs<S: Strategy>(few: u32, inputs: &S, test: impl Fn(S::Value)) {
    let cases = std::env::var("HIGHWATER_FUZZ").ok().and_then(|cases| cases.parse().ok()).unwrap_or(few);
    let config = Config {
        cases,
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::XorShift,
        rng_seed: RngSeed::Fixed(48),
        ..Config::default()
    };
    TestRunner::new(config)
        .run(inputs, |input| {
            test(input);
            Ok(())
        })
        .unwrap();
}

/// Returns sample inputs, each with the name of its format.
fn all() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = samples::all();
    // The head of `lcs` is damaged by a test of its own; here most damage shall hit records.
    for (name, bytes) in &mut all {
        if *name == "lcs" {
            bytes.truncate(8192 + 36);
        }
    }
    all.push(("strace", programs::STRACE.as_bytes().to_vec()));
    all.push(("ftrace", programs::FTRACE.as_bytes().to_vec()));
    all
}

/// Reads an input. If it can be read, checks that each request is valid, that a trace with these requests reads back
/// the same, and that the reader's counts agree with the number of requests.
fn check(bytes: &[u8], from: Option<&str>) {
    let options = Options { from: from.map(str::to_owned), ..Options::default() };
    let Ok((requests, stream)) = stream_all(bytes, &options) else { return };
    let mut writer = Writer::new(Vec::new(), stream.kind()).unwrap();
    for request in &requests {
        assert_eq!(request.fault(stream.kind()), None);
        writer.push(request).unwrap();
    }
    let written = writer.finish(stream.files(), stream.tasks(), &stream.metadata()).unwrap();
    let trace = Trace::from_bytes(written, "test").unwrap();
    assert!(trace.requests().eq(requests.iter().copied()));
    let counts = stream.counts();
    assert!(counts.unparsed <= counts.pieces && counts.requests == requests.len() as u64);
    // No line or record has more than two requests, but for exits and regions beyond 4 GiB.
    assert!(requests.len() <= bytes.len() * 256);
}

/// Returns a strategy that draws up to five changes of an input. Each change is a place in units of 1/65536 of the
/// input's length, the number of bytes to remove there, and the bytes to insert.
fn changes() -> impl Strategy<Value = Vec<(u16, u8, Vec<u8>)>> {
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..4),
        Just(b"18446744073709551615".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"-1".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"<".to_vec()),
        Just(vec![0xff; 8]),
    ];
    prop::collection::vec((any::<u16>(), 0_u8..6, bytes), 1..6)
}

#[test]
fn damaged_samples_end() {
    let all = all();
    on_inputs(4000, &(0..all.len(), changes(), any::<bool>()), |(which, changes, is_named)| {
        let (name, mut bytes) = all[which].clone();
        // Past the head of `lcs`.
        let first = if name == "lcs" { 8192 } else { 0 };
        for (place, removed, new) in changes {
            let at = first + usize::from(place) * (bytes.len() - first) / (1 << 16);
            let end = (at + usize::from(removed)).min(bytes.len());
            bytes.splice(at..end, new);
        }
        check(&bytes, is_named.then_some(name));
    });
}

#[test]
fn random_inputs_end_in_every_format() {
    on_inputs(2000, &(0..ALL.len(), prop::collection::vec(any::<u8>(), 0..300)), |(format, bytes)| {
        check(&bytes, Some(ALL[format].name));
        check(&bytes, None);
        let _ = ALL.map(|format| (format.recognise)(Start { bytes: &bytes, is_all: true }));
    });
    on_inputs(2000, &(0..ALL.len(), "([0-9a-z,.:\" <>()\\[\\]{}=|+-]{0,30}\n){0,5}"), |(format, text)| {
        check(text.as_bytes(), Some(ALL[format].name));
    });
}

#[test]
fn damaged_packings_end() {
    let gzip = {
        use std::io::Write as _;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(programs::STRACE.as_bytes()).unwrap();
        gzip.finish().unwrap()
    };
    let packed = [gzip, samples::ZSTD.to_vec(), samples::XZ.to_vec()];
    on_inputs(1500, &(0..packed.len(), changes()), |(which, changes)| {
        let mut bytes = packed[which].clone();
        for (place, removed, new) in changes {
            let at = usize::from(place) * bytes.len() / (1 << 16);
            let end = (at + usize::from(removed)).min(bytes.len());
            bytes.splice(at..end, new);
        }
        check(&bytes, None);
    });
}

#[test]
fn damaged_traces_of_this_project_are_refused_or_read() {
    let mut writer = Writer::new(Vec::new(), Kind::Ranges).unwrap();
    for n in 0..20 {
        writer.push(&Request { time_us: n, offset: n * 4096, len: 4096, ..Request::default() }).unwrap();
    }
    let mut names = Names::new();
    names.push(b"/a");
    let whole = writer.finish(&names, &names, &crate::Metadata::new()).unwrap();
    on_inputs(3000, &(changes(), any::<u16>()), |(changes, cut)| {
        let mut bytes = whole.clone();
        for (place, removed, new) in changes {
            let at = usize::from(place) * bytes.len() / (1 << 16);
            let end = (at + usize::from(removed)).min(bytes.len());
            bytes.splice(at..end, new);
        }
        if cut % 2 == 0 {
            bytes.truncate(usize::from(cut) * bytes.len() / (1 << 16));
        }
        if let Ok(trace) = Trace::from_bytes(bytes, "test") {
            assert!(trace.requests().all(|request| request.fault(trace.kind()).is_none()));
            for number in 0..trace.file_names() as u32 {
                let _ = trace.file_name(number);
            }
        }
    });
}

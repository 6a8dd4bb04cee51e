//! Tests of the formats: a sample of each, cut, damaged, empty and foreign inputs, and random ones.

mod fuzz;
mod programs;
mod sample_trace;
mod samples;

use crate::operation::Operation;
use crate::read::{Options, stream_all};
use crate::request::Request;

/// Reads an input whose format is detected. Returns its requests, and the [`crate::Stream`] at its end.
fn read(bytes: &[u8]) -> (Vec<Request>, crate::Stream) {
    read_as(bytes, "")
}

/// Reads an input in the format `from`; an empty `from` means that the format is detected. Returns the requests, and
/// the [`crate::Stream`] at the input's end.
fn read_as(bytes: &[u8], from: &str) -> (Vec<Request>, crate::Stream) {
    let options = Options { from: (!from.is_empty()).then(|| from.to_owned()), ..Options::default() };
    stream_all(bytes, &options).unwrap()
}

/// A request in short: time, operation, file, first byte, length.
fn short(requests: &[Request]) -> Vec<(u64, Operation, u32, u64, u64)> {
    requests.iter().map(|one| (one.time_us, one.operation, one.file, one.offset, one.len)).collect()
}

/// Returns the names of the files.
fn files(stream: &crate::Stream) -> Vec<String> {
    stream.files().iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

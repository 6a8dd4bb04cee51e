//! Traces of Twitter's caches: `timestamp,key,key size,value size,client,operation,TTL`, without a heading. The key may
//! contain commas.

use super::text::{SECOND, key, lossy, micros, number};
use super::{Format, Opened, most_lines};
use crate::operation::Operation;
use crate::read::{Options, Parser, Shape, Sink};
use crate::request::{Kind, Request};

/// The format `twitter`: Twitter's cache traces of 2020.
pub static FORMAT: Format = Format {
    name: "twitter",
    about: "Twitter's cache traces (2020)",
    recognise: |start| most_lines(start, |line| parts(line).is_some_and(|parts| operation_of(parts[5]).is_some())),
    open: |_, _: &Options| -> Result<Opened, String> { Ok((Shape::Lines, Kind::Objects, Box::new(Twitter))) },
};

/// Splits a line into its seven columns, which are separated by commas. Only the second column, the key, may contain
/// commas.
fn parts(line: &[u8]) -> Option<[&[u8]; 7]> {
    let mut parts = [&b""[..]; 7];
    let mut from_right = line.rsplitn(6, |byte| *byte == b',');
    for n in (2..7).rev() {
        parts[n] = from_right.next()?.trim_ascii();
    }
    let rest = from_right.next()?;
    let at = rest.iter().position(|byte| *byte == b',')?;
    (parts[0], parts[1]) = (&rest[..at], &rest[at + 1..]);
    Some(parts)
}

struct Twitter;

impl Parser for Twitter {
    fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), String> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let [time, name, key_size, value_size, client, operation, _] = parts(line).ok_or("expected seven columns")?;
        let time_us = micros(time, SECOND).ok_or_else(|| format!("`{}`: expected a time in s", lossy(time)))?;
        let size = number(key_size).zip(number(value_size)).and_then(|(one, other)| one.checked_add(other));
        let len = size.ok_or("columns 3 and 4: expected the sizes of key and value")?;
        let operation = operation_of(operation)
            .ok_or_else(|| format!("`{}`: expected an operation, such as get, set or delete", lossy(operation)))?;
        let task = sink.tasks.intern(client);
        sink.push(Request { time_us, task, operation, offset: key(name), len, ..Request::default() })
    }
}

/// Returns the kind of request (read, write or delete) that the memcached command `name` makes; `None` for an unknown
/// command.
pub(super) fn operation_of(name: &[u8]) -> Option<Operation> {
    match name {
        b"get" | b"gets" => Some(Operation::Read),
        b"set" | b"add" | b"replace" | b"cas" | b"append" | b"prepend" | b"incr" | b"decr" => Some(Operation::Write),
        b"delete" => Some(Operation::Delete),
        _ => None,
    }
}

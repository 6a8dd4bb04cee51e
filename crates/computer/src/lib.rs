//! The computer that this process runs on: Linux calls that the standard library lacks ([`sys`]), and its [`counters`].

pub mod counters;
pub mod sys;

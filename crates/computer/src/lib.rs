//! The computer that this process runs on: the calls of Linux that the standard library lacks ([`sys`]), and its [`counters`].

pub mod counters;
pub mod sys;

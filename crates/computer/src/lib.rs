//! Access to the computer on which this process runs: system calls that the standard library lacks ([`sys`]),
//! [`fork`], and the kernel's [`counters`].

pub mod counters;
pub mod fork;
pub mod sys;

//! The workloads by name; [`crate::grounds`] makes each of them runnable.

pub mod anon;
pub mod big_file;
pub mod build;
pub mod cpu_rows;
pub mod exhaust;
pub mod highalloc;
pub mod livelock;
pub mod meter;
pub mod multibuild;
pub mod parallelio;
pub mod ping;
pub mod postmark;
pub mod random;
pub mod randread;
pub mod randread_async;
pub mod randwrite;
pub mod scan;
pub mod simon;
pub mod streaming;
pub mod thp;

use crate::job::Runnable;

/// Every workload, in the order in which they are listed.
#[must_use]
pub fn all() -> &'static [&'static dyn Runnable] {
    &[
        &parallelio::Parallelio,
        &multibuild::Multibuild,
        &highalloc::Highalloc,
        &postmark::Postmark,
        &streaming::Streaming,
        &ping::Ping,
        &randread::Randread,
        &randread_async::RandreadAsync,
        &randwrite::Randwrite,
        &anon::Anon,
        &scan::Scan,
        &simon::Simon,
        &thp::Thp,
        &exhaust::Exhaust,
        &livelock::Livelock,
    ]
}

/// The workload called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Runnable> {
    all().iter().copied().find(|workload| workload.name() == name)
}

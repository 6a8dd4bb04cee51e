//! Stories of reclaim on a small simulated machine, with the counters that they must end with.
//!
//! Each scenario runs as the main task of a machine with the engine's own tasks beside it. When it ends, those tasks
//! are stopped, the devices finish their requests, and the whole machine is checked. Most scenarios run on 16 MiB with
//! 1 MiB as `min_free_kbytes`: the marks are 256, 320 and 384 pages.

// `grounds` has compiled the engine for the simulator. Because the tests link it, they are not compiled with an engine of
// their own, which takes minutes.
use grounds as _;

mod admission;
mod allocation;
mod anonymous_folios;
mod choices;
mod compaction;
mod dirty_limit;
mod exhausted;
mod file;
mod file_folios;
mod folio_compaction;
mod folios;
mod fork;
mod ground;
mod group_dirty_limit;
mod group_kernel_memory;
mod group_walk;
mod groups;
mod high_order;
mod huge;
mod index_lock;
mod kernels_of_2_6_23;
mod khugepaged;
mod killer;
mod kswapd;
mod lent;
mod log_order;
mod lruvec;
mod map;
mod memsw;
mod modern;
mod multigen;
mod nodes;
mod policy;
mod pressure;
mod readahead;
mod rotation;
mod send;
mod soft_limit;
mod stable_pages;
mod swap;
mod wait;

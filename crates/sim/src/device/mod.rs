//! Devices: what each is, and what waits in it. How requests and packets come and go is above, in `requests` and `packets`.

mod block;
pub(crate) mod network;

pub(crate) use block::Device;
pub(crate) use network::{CARD, Network};

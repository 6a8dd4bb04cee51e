//! Disks and the network card, with their waiting requests or packets. The modules `requests` and `packets` move
//! requests and packets.

mod block;
pub(crate) mod network;

pub(crate) use block::Device;
pub(crate) use network::{CARD, Network};

//! The state of disks, with their waiting requests, and of the network card, with its waiting packets. The code that
//! moves requests and packets is in the modules `requests` and `packets`.

mod block;
pub(crate) mod network;

pub(crate) use block::Device;
pub(crate) use network::{CARD, Network};

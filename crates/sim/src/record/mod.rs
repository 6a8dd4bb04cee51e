//! Records: what was counted, charged and noted. A run is the same whether it is read or not.

pub(crate) mod fingerprint;
pub(crate) mod locks;
pub(crate) mod masks;
pub(crate) mod pressure;
pub(crate) mod profile;
pub mod trace;

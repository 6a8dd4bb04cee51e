//! An optional layer in front of a device's backend (the part that carries out disk requests), for tests.

use crate::machine::disk::backend::Backend;
use crate::machine::{Checks, Host};
use machine::DeviceId;
use std::fmt;
use std::sync::Arc;

/// A function that puts a layer in front of a device's backend. (A backend carries out disk requests.) The default adds
/// no layer.
#[derive(Clone)]
pub(crate) struct Wrap(Arc<WrapBackend>);

type WrapBackend = dyn Fn(Arc<dyn Backend>) -> Arc<dyn Backend> + Send + Sync;

impl Wrap {
    /// Makes a layer from `wrap`, a function that takes a device's backend and returns a backend around it.
    pub fn new(wrap: impl Fn(Arc<dyn Backend>) -> Arc<dyn Backend> + Send + Sync + 'static) -> Self {
        Self(Arc::new(wrap))
    }

    /// Adds a file to the machine as a device. Puts this layer in front of the device's backend, which carries out the
    /// disk requests.
    ///
    /// # Errors
    /// As [`Host::add_device_behind`].
    pub fn add_device(&self, host: &Host, file: std::fs::File, name: String) -> std::io::Result<DeviceId> {
        host.add_device_behind(file, name, Checks::AsConfigured, |backend| (self.0)(backend))
    }

    /// Adds a swap file of `bytes` bytes to the machine as a device. Puts this layer in front of the device's backend.
    /// `checks` says how the contents are checked. A swap file needs checks: without them, if another process truncated
    /// the file and a later write left a hole, a swapped page would be read as zeroes without an error.
    ///
    /// # Errors
    /// As [`Host::add_device_behind`].
    pub fn add_swap(
        &self,
        host: &Host,
        file: std::fs::File,
        name: String,
        bytes: u64,
        checks: Checks,
    ) -> std::io::Result<DeviceId> {
        let id = host.add_device_behind(file, name, checks, |backend| (self.0)(backend))?;
        host.device(id).expect("added just now").expect_len(bytes);
        Ok(id)
    }
}

impl Default for Wrap {
    fn default() -> Self {
        Self::new(|backend| backend)
    }
}

impl fmt::Debug for Wrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wrap")
    }
}

//! The receivers of finished disk requests. A receiver is a handle of the engine. There is one receiver for each CPU,
//! so that CPUs do not contend for one reference count.

use crate::machine::Host;
use crossbeam_utils::CachePadded;
use engine::Engine;
use machine::{Completions, IoError, Request};
use std::sync::Arc;

/// A handle of the engine, in cache lines of its own, because each finished request changes the handle's reference
/// count.
struct Handle(CachePadded<Arc<Engine<Host>>>);

impl Completions for Handle {
    fn complete(&self, request: Request, result: Result<(), IoError>) {
        self.0.complete(request, result);
    }
}

/// Returns `count` handles of an engine, as receivers of finished requests. The handles keep the engine alive.
pub fn receivers(engine: &Arc<Engine<Host>>, count: usize) -> Vec<Arc<dyn Completions + Send + Sync>> {
    (0..count).map(|_| Arc::new(Handle(CachePadded::new(Arc::clone(engine)))) as _).collect()
}

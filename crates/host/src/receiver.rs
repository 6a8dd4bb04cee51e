//! The receivers of finished requests: handles of the engine, one for each CPU.

use crate::machine::Host;
use crossbeam_utils::CachePadded;
use engine::Engine;
use machine::{Completions, IoError, Request};
use std::sync::Arc;

/// A handle in cache lines of its own, because each submitted request increments and decrements its use count.
struct Handle(CachePadded<Arc<Engine<Host>>>);

impl Completions for Handle {
    fn complete(&self, request: Request, result: Result<(), IoError>) {
        self.0.complete(request, result);
    }
}

/// Returns `count` handles of an engine; they keep the engine alive.
pub fn receivers(engine: &Arc<Engine<Host>>, count: usize) -> Vec<Arc<dyn Completions + Send + Sync>> {
    (0..count).map(|_| Arc::new(Handle(CachePadded::new(Arc::clone(engine)))) as _).collect()
}

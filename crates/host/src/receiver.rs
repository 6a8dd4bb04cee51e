//! The receiver of finished requests for an engine: the engine, through one handle for each CPU.

use crate::machine::Host;
use crossbeam_utils::CachePadded;
use engine::Engine;
use machine::{Completions, IoError, Request};
use std::sync::Arc;

/// A handle, on lines of memory of its own: whoever hands a request over counts a use of it, up and down.
struct Handle(CachePadded<Arc<Engine<Host>>>);

impl Completions for Handle {
    fn complete(&self, request: Request, result: Result<(), IoError>) {
        self.0.complete(request, result);
    }
}

/// So many handles of an engine. They keep it alive.
pub fn receivers(engine: &Arc<Engine<Host>>, count: usize) -> Vec<Arc<dyn Completions + Send + Sync>> {
    (0..count).map(|_| Arc::new(Handle(CachePadded::new(Arc::clone(engine)))) as _).collect()
}

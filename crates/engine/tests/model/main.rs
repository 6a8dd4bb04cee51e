//! Parts of the engine against slow, obvious versions of themselves.

mod blocks;
mod buddy;
mod lru;
mod swap_slots;

use engine::memory::{Choices, Layout, Memory};
use sim::{Config, Sim};

/// Memory on a machine that does nothing by itself.
fn memory(layout: &Layout) -> Memory<Sim> {
    Memory::new(Sim::new(Config::uniform(1, 0)), Choices::default(), layout).expect("the layout is sound")
}

//! Model tests: parts of the engine are compared with slow, obvious versions of themselves.

mod blocks;
mod buddy;
mod lru;
mod swap_slots;

use engine::kernel::{Choices, Kernel};
use engine::memory::{Layout, Memory};
use sim::{Config, Sim};

/// Returns the choices of the kernel that the models follow; a test may change some.
fn choices() -> Choices {
    Kernel::built_in("mm1-mmotm-20130606").expect("it comes with the engine").choices
}

/// Creates the engine's `Memory` with this layout, on a simulated machine that runs no tasks.
fn memory(layout: &Layout) -> Memory<Sim> {
    Memory::new(Sim::new(Config::uniform(1, 0)), choices().memory, layout).expect("the layout is sound")
}

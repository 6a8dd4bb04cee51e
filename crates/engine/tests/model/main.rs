//! Parts of the engine against slow, obvious versions of themselves.

mod blocks;
mod buddy;
mod lru;
mod swap_slots;

use engine::kernel::{Choices, Kernel};
use engine::memory::{Layout, Memory};
use sim::{Config, Sim};

/// The choices of the kernel that the models are of, as far as a test changes none.
fn choices() -> Choices {
    Kernel::built_in("mm1-mmotm-20130606").expect("it comes with the engine").choices
}

/// Memory on a machine without any activity of its own.
fn memory(layout: &Layout) -> Memory<Sim> {
    Memory::new(Sim::new(Config::uniform(1, 0)), choices().memory, layout).expect("the layout is sound")
}

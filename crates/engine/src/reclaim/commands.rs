//! Reclaim by commands of a user: those of `lru_gen` in debugfs (mechanisms/multigen, 11).

use super::{Reclaim, ScanControl};
use crate::lru::{CommandError, Commands};
use crate::memory::Gfp;
use crate::task::Task;
use machine::{Machine, Order};

impl<M: Machine> Reclaim<M> {
    /// Carries out the commands of a text in the format of debugfs' `lru_gen`, one after the other. Returns how many
    /// pages the commands for eviction freed. If each zone has an lruvec of its own, a command applies to the highest
    /// zone of its node. This function may sleep.
    ///
    /// # Errors
    /// Returns an error if a part of the text is not a command; in this case no command was carried out. Also returns
    /// an error if a command is refused; in this case the commands before it were carried out.
    pub fn lru_gen_command(&self, task: &mut Task, text: &str) -> Result<u64, CommandError> {
        let mut commands = Commands::parse(text)?;
        let mut control = ScanControl::direct(Gfp::KERNEL, Order::ZERO);
        let (mut freed, mut freed_last) = (0, 0);
        while let Some((reach, batch)) = self.lru().next_commanded(&mut commands, freed_last)? {
            freed_last = self.shrink_batch(task, reach, &batch, &mut control);
            freed += freed_last;
        }
        Ok(freed)
    }
}

//! Causes by number: the lock class, per-CPU slot or interrupt handler for which a CPU spins or has interrupts off.

use machine::LockClass;

/// The number of a cause for which a CPU spins or has interrupts off: a per-CPU slot that is in use. Each smaller
/// number is the index of a lock class in [`LockClass::ALL`].
pub(crate) const SLOT: u8 = LockClass::ALL.len() as u8;
pub(crate) const HANDLER: u8 = SLOT + 1;
pub(crate) const CAUSES: usize = HANDLER as usize + 1;

pub(crate) fn cause_name(cause: u8) -> &'static str {
    match cause {
        SLOT => "per_cpu",
        HANDLER => "interrupt",
        class => LockClass::ALL[usize::from(class)].name(),
    }
}

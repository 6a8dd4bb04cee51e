//! Numbers of causes, for waits and for times without interrupts.

use machine::LockClass;

/// The number of a per-CPU slot as a cause. Lower numbers are lock classes.
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

//! Numbers for the causes of waits and of disabled interrupts.

use machine::LockClass;

/// Numbers of objects that are waited for and of reasons for interrupts to be off: the lock classes, and these.
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

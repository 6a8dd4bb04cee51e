//! The suite that every [`crate::Machine`] passes.

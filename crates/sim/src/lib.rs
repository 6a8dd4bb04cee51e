//! A machine in virtual time.

//! Types for the numbers that engine and machine exchange, each with its unit: frames, orders, nanoseconds, devices.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Number of bytes of a page, of a frame, and of a swap slot.
pub const PAGE_BYTES: usize = 4096;

/// Number of bytes of a block of a [`crate::Request`]: as many as a page has, so that each frame holds one block.
pub const BLOCK_BYTES: usize = PAGE_BYTES;

/// Number of nanoseconds in a second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A number of nanoseconds: a duration, or the time since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Creates a time of `millis` milliseconds.
    #[must_use]
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Creates a time of `secs` seconds. If the time does not fit (more than 584 years), creates the longest time that
    /// fits.
    #[must_use]
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SECOND))
    }

    /// Returns the time in whole milliseconds, rounded down.
    #[must_use]
    #[inline]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns the time in seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// Returns the time from `earlier` to `self`; 0 when `earlier` is later.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{:.3} us", self.0 as f64 / 1e3),
            1_000_000..NANOS_PER_SECOND => write!(f, "{:.3} ms", self.0 as f64 / 1e6),
            _ => write!(f, "{:.3} s", self.0 as f64 / 1e9),
        }
    }
}

/// The number of a frame: a slot of memory of [`PAGE_BYTES`] bytes (kernel: pfn).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameNumber(pub u32);

impl FrameNumber {
    /// Returns the number as an index into a table with one entry for each frame.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for FrameNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {:#x}", self.0)
    }
}

/// The order of a block of contiguous pages: the base-2 logarithm of the number of its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order(pub u8);

impl Order {
    /// The order of a single page.
    pub const ZERO: Self = Self(0);

    /// Returns the number of pages of a block of this order.
    #[must_use]
    #[inline]
    pub const fn pages(self) -> u64 {
        1 << self.0
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order {}", self.0)
    }
}

/// The number of a block device. A machine numbers its devices from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

impl DeviceId {
    /// Returns the number as an index into a table with one entry for each device.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

//! Large arrays of zeroes, whose memory comes with the first use of each of their parts.

/// What is zero at first, in any number.
pub trait Element: Sized + Send + Sync {
    /// `n` of them; `None` when the system does not grant the memory.
    fn zeroes(n: usize) -> Option<Box<[Self]>>;
}

#[cfg(not(loom))]
impl<T: bytemuck::Zeroable + Send + Sync> Element for T {
    fn zeroes(n: usize) -> Option<Box<[Self]>> {
        bytemuck::try_zeroed_slice_box(n).ok()
    }
}

#[cfg(loom)]
impl<T: Default + Send + Sync> Element for T {
    fn zeroes(n: usize) -> Option<Box<[Self]>> {
        Some((0..n).map(|_| T::default()).collect())
    }
}

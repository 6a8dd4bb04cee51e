//! Large arrays of zeroes. The system provides the memory of each part of an array when that part is first used.

/// The type of an element of a large array that is all zero at first.
///
/// Every type that implements [`Zeroable`](bytemuck::Zeroable) of `bytemuck` implements this trait. No other module can
/// implement the trait, because [`Segments`](crate::page_cache::Segments) relies on the length of the array that the
/// implementation returns.
///
/// ```compile_fail,E0119
/// struct Own(u64);
/// impl engine::memory::zeroes::Element for Own {}
/// ```
///
/// ```compile_fail,E0277
/// struct Own(String);
/// engine::page_cache::Segments::<Own>::default().get(0);
/// ```
pub trait Element: sealed::Zeroes {}

impl<T: sealed::Zeroes> Element for T {}

/// Returns a slice of `n` elements that are all zero; `None` if the system does not grant the memory.
pub(crate) fn zeroes<T: Element>(n: usize) -> Option<Box<[T]>> {
    let made = T::zeroes(n)?;
    assert_eq!(made.len(), n, "as many as were asked for");
    Some(made)
}

mod sealed {
    /// The hidden part of [`super::Element`], which other modules cannot implement.
    pub trait Zeroes: Sized + Send + Sync {
        /// Returns `n` elements of zero; returns `None` if the system does not grant the memory.
        fn zeroes(n: usize) -> Option<Box<[Self]>>;
    }

    #[cfg(not(loom))]
    impl<T: bytemuck::Zeroable + Send + Sync> Zeroes for T {
        fn zeroes(n: usize) -> Option<Box<[Self]>> {
            bytemuck::try_zeroed_slice_box(n).ok()
        }
    }

    #[cfg(loom)]
    impl<T: Default + Send + Sync> Zeroes for T {
        fn zeroes(n: usize) -> Option<Box<[Self]>> {
            Some((0..n).map(|_| T::default()).collect())
        }
    }
}

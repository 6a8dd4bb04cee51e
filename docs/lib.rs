//! Compiles and runs the Rust examples of README.md and of pages in docs/: the pages are included here as
//! documentation, so that `cargo test` tests them.

#[cfg(doctest)]
macro_rules! compiles {
    ($($page:ident $file:literal)*) => { $(
        #[doc = include_str!($file)]
        mod $page {}
    )* };
}

#[cfg(doctest)]
compiles! {
    host "../crates/host/README.md"
    library "library.md"
    library_async "library-async.md"
    library_engines "library-engines.md"
    readme "../README.md"
}

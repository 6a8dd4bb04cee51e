//! The Rust of README.md and docs/ compiles: it stands here as documentation, and is tested as such.

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
    library_engines "library-engines.md"
    readme "../README.md"
}

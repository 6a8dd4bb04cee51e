//! Pictures as SVG, readable on light and dark pages.
//!
//! [`lines`], [`bars`], [`scatter`] and [`timeline`] draw the input that they are given and do not depend on
//! experiments; [`canvas`] has their common parts. [`over_time`], [`packets`], [`memory`] and [`of_tables`] make
//! pictures from the results of a command. [`flames`] passes a profile to another crate. The same input always gives
//! the same bytes of SVG.

pub mod bars;
pub mod canvas;
pub mod flames;
pub mod lines;
pub mod memory;
pub mod of_tables;
pub mod over_time;
pub mod packets;
pub mod scale;
pub mod scatter;
pub mod timeline;

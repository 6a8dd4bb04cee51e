//! Pictures as SVG, readable on light and dark pages.
//!
//! [`lines`], [`bars`], [`scatter`] and [`timeline`] draw their input and know nothing of experiments; [`canvas`] has
//! their common parts. [`over_time`], [`packets`], [`memory`] and [`of_tables`] make that input from the results of a
//! command. [`flames`] passes a profile to another crate. Equal figures give equal bytes.

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

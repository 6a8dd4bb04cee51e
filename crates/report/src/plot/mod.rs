//! Pictures for people: SVG, readable on light and dark pages.
//!
//! [`lines`], [`bars`], [`scatter`] and [`timeline`] draw what they are given and know nothing of experiments;
//! [`canvas`] has what they share. [`over_time`], [`packets`], [`memory`] and [`of_tables`] make their contents from what a command
//! found, and [`flames`] leaves a profile to another crate. A picture depends on nothing but that: the same figures give
//! the same bytes.

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

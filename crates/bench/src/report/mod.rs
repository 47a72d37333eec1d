//! Results of experiments: tables, JSON and pictures.

mod canvas;
mod chart;
mod grid;
mod json;
mod lines;
mod machine;
mod picture;

pub use chart::{Bars, Series};
pub use grid::Grid;
pub use json::Report;
pub use lines::{Line, Lines, Panel};
pub use machine::{Machine, MachineNode};
pub use picture::{Chart, Picture};

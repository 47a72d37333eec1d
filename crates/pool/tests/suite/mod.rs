//! Tests that run over both placements.

mod churn;
mod common;
mod conformance;
mod fairness;
mod faults;
mod model;
mod nodes;
mod ownership;
mod races;
mod resize;

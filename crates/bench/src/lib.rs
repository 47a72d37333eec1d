//! Repeatable experiments, each of which produces a table, a JSON report and a picture.
//!
//! An experiment is a type that implements the trait `Experiment`, in a module of its own with its
//! options; [`registry`] lists all of them. An experiment compares several ways to do the same
//! work, alternates between them, and reports medians and ratios.
//!
//! | modules, from top to bottom | contents |
//! |---|---|
//! | [`registry`] | the list of experiments |
//! | `experiments` | the experiments |
//! | [`peer`] | engines in separate processes, which are compared |
//! | [`tpch`], [`tpcds`], [`flag`] | the benchmarks, and values of options that name their parts |
//! | [`experiment`], [`setting`] | the interface, the parameters and the result of an experiment |
//! | `simulate` | a simulator of the memory market over generated requests |
//! | [`suite`], [`duckdb`] | generating, loading, running and comparing; DuckDB to compare with |
//! | [`report`], [`measure`] | tables, JSON and pictures; statistics, memory, directories |

#![forbid(unsafe_code)]

pub mod duckdb;
pub mod error;
pub mod experiment;
mod experiments;
pub mod flag;
pub mod measure;
pub mod peer;
pub mod registry;
pub mod report;
pub mod setting;
mod simulate;
pub mod suite;
pub mod tpcds;
pub mod tpch;

pub use error::{BenchError, Result};

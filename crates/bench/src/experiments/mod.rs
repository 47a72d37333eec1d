//! The experiments: each in a module of its own.

pub mod adaptive;
pub mod allocations;
pub mod clients;
pub mod dram_curve;
pub mod encodings;
pub mod hash_index;
pub mod market;
pub mod migration;
pub mod objects;
pub mod operators;
pub mod out_of_core;
pub mod paged_scan;
pub mod pages;
pub mod planning;
pub mod region;
pub mod remote_files;
pub mod segments;
pub mod server;
pub mod suspend;
pub mod tenants;
pub mod tiers;

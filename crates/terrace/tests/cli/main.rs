//! Tests of the program, run as a user runs it.

mod bench;
mod bench_server;
mod config;
mod durability;
mod everyday;
mod harness;
mod help;
mod histories;
mod memory;
mod model;
mod prompt;
mod reference;
mod refusals;
mod serve;
mod sql;
mod tpcds;
mod tpch;

//! SQL checks against other databases: the public sqllogictest suite, a fuzzer for differential
//! testing, which runs the same random statements in Terrace and in DuckDB, calls of all functions,
//! and generated scripts over all of SQL, both compared with PostgreSQL and DuckDB.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod cache;
pub mod database;
pub mod error;
pub mod functions;
pub mod fuzz;
mod known;
pub mod outcome;
mod postgres;
pub mod slt;
pub mod statements;
mod value;

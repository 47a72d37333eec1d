//! SQL checks against other databases: the public sqllogictest suite, and a fuzzer for differential
//! testing, which runs the same random statements in Terrace and in another database.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod cache;
pub mod database;
pub mod error;
pub mod functions;
pub mod fuzz;
pub mod outcome;
pub mod slt;

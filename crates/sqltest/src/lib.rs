//! SQL checked against others: the public sqllogictest suite, and a fuzzer that asks Terrace and
//! another database the same random questions.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod cache;
pub mod database;
pub mod error;
pub mod fuzz;
pub mod outcome;
pub mod slt;

//! TPC-DS: the tables, the texts of the queries, and the check of their answers.
//!
//! The texts are not part of this program: they come from a directory or from a package
//! ([`texts`]).

pub mod check;
pub mod judge;
pub mod shape;
pub mod table;
pub mod texts;

/// Number of queries.
pub const QUERY_COUNT: u32 = 99;

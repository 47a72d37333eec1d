//! TPC-DS: the tables, the texts of the queries, and what their answers are held to.
//!
//! The texts are not part of this program: they come from a directory or from a package
//! ([`texts`]).

pub mod check;
pub mod judge;
pub mod shape;
pub mod table;
pub mod texts;

/// How many queries there are.
pub const QUERY_COUNT: u32 = 99;

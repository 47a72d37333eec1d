//! TPC-H: the tables, the queries and their answers.

pub mod check;
pub mod judge;
pub mod official;
pub mod query;
pub mod table;

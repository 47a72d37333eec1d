//! TPC-H: the tables, the queries and their answers.

pub(crate) mod ab_run;
pub mod check;
pub(crate) mod database;
pub mod judge;
pub mod official;
pub mod query;
pub mod table;

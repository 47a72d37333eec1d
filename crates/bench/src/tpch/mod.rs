//! TPC-H: the tables, the queries and their answers.

pub mod answer;
pub mod check;
pub mod feed;
pub mod generate;
pub mod load;
pub mod query;
pub mod reference;
pub mod run;
pub mod table;

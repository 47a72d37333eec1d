//! Shared parts of TPC-H and TPC-DS: generating, loading, running, and answers to compare with.

pub mod answer;
pub mod child;
pub(crate) mod database;
pub mod export;
pub mod feed;
pub mod generate;
pub mod load;
pub mod oracle;
pub mod reference;
pub mod run;
pub mod table;

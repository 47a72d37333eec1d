//! Shared parts of TPC-H and TPC-DS: generating, loading, running, and answers to compare with.

pub mod answer;
pub mod child;
pub mod export;
pub mod feed;
pub(crate) mod file_server;
pub mod generate;
pub mod load;
pub mod reference;
pub mod run;
pub mod table;
pub mod timing;

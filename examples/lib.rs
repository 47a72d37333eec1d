//! Programs that use the parts of Terrace as a library: `cargo run --release -p terrace-examples
//! --example NAME`.
//!
//! | name | program |
//! |---|---|
//! | `sql` | a join and a sort of more data than the budget holds |
//! | `pool` | a log of records in pages, four times as large as DRAM |
//! | `tree` | a table of words in a B-tree over pages |
//! | `objects` | profiles that survive the end of the process |
//! | `region` | counters in a file, behind ordinary addresses |
//! | `heap` | a vector larger than its DRAM |
//! | `ledger` | a cache and a query that share one budget |

#![forbid(unsafe_code)]

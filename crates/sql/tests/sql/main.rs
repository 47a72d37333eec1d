//! Statements through a session of an engine: their answers, their errors and their memory.

mod change_flows;
mod common;
mod concurrent_changes;
mod encodings;
mod float_answers;
mod homes;
mod market;
mod merges;
mod prepared;
mod query_aggregates;
mod query_control;
mod query_faults;
mod query_flows;
mod query_long_values;
mod query_panics;
mod query_recursion;
mod query_scan;
mod query_sets;
mod query_spill;
mod right_answers;
mod store_identity;
mod tiers;
mod transaction_histories;
mod transactions;
mod using_joins;
mod versions;

//! `terrace.merges`: statistics of chunk merges, for each table with small chunks or past merges.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::Field;
use terrace_sys::size::to_u64;
use terrace_table::table::Table;
use terrace_table::write::MergeCounters;

use super::columns::{number, numbers, text, texts};
use crate::engine::EngineState;

pub(super) fn columns() -> Vec<Field> {
    vec![
        text("schema_name"),
        text("table_name"),
        number("chunks"),
        number("small_chunks"),
        number("merges"),
        number("merged_chunks"),
        number("written_chunks"),
        number("rows"),
        number("freed_bytes"),
        number("written_bytes"),
        number("conflicts"),
        number("failures"),
    ]
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let catalog = engine.catalog();
    let tables = catalog.schemas().into_iter().flat_map(|schema| catalog.tables(&schema));
    let rows: Vec<Arc<Table>> = tables
        .filter(|table| {
            table.small_chunks() > 1 || table.merged().merges.load(Ordering::Relaxed) > 0
        })
        .collect();
    let counter = |of: fn(&MergeCounters) -> &AtomicU64| {
        numbers(&rows, |table| Some(of(table.merged()).load(Ordering::Relaxed)))
    };
    vec![
        texts(&rows, |table| Some(table.schema_name().to_owned())),
        texts(&rows, |table| Some(table.name().to_owned())),
        numbers(&rows, |table| Some(to_u64(table.snapshot().chunks.len()))),
        numbers(&rows, |table| Some(to_u64(table.small_chunks()))),
        counter(|merged| &merged.merges),
        counter(|merged| &merged.merged_chunks),
        counter(|merged| &merged.written_chunks),
        counter(|merged| &merged.rows),
        counter(|merged| &merged.freed_bytes),
        counter(|merged| &merged.written_bytes),
        counter(|merged| &merged.conflicts),
        counter(|merged| &merged.failures),
    ]
}

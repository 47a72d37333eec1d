//! `terrace.segments`: every segment of every table, with its statistics and its location.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::Field;
use terrace_sys::size::to_u64;
use terrace_table::chunk::Chunk;
use terrace_table::statistics::Bound;
use terrace_table::table::Table;

use super::columns::{number, numbers, text, texts};
use crate::engine::EngineState;

pub(super) fn columns() -> Vec<Field> {
    vec![
        text("schema_name"),
        text("table_name"),
        number("chunk"),
        text("column_name"),
        text("encoding"),
        number("rows"),
        number("nulls"),
        text("min"),
        text("max"),
        number("distinct"),
        number("bytes"),
        number("store_offset"),
        number("store_bytes"),
        text("tier"),
    ]
}

/// Encoding of a column with the same value in all rows of a chunk, which the catalog has.
const CONSTANT: &str = "constant";

/// A column of a chunk.
struct Row {
    table: Arc<Table>,
    chunk: Arc<Chunk>,
    column: usize,
    tier: String,
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let rows = rows(engine);
    let statistics = |row: &Row| row.chunk.columns[row.column].statistics.clone();
    let stored = |row: &Row| row.chunk.columns[row.column].stored().copied();
    vec![
        texts(&rows, |row| Some(row.table.schema_name().to_owned())),
        texts(&rows, |row| Some(row.table.name().to_owned())),
        numbers(&rows, |row| Some(row.chunk.id)),
        texts(&rows, |row| Some(row.table.schema().field(row.column).name().clone())),
        texts(&rows, |row| Some(stored(row).map_or(CONSTANT.into(), |it| it.encoding.to_string()))),
        numbers(&rows, |row| Some(to_u64(row.chunk.rows))),
        numbers(&rows, |row| Some(to_u64(statistics(row).nulls))),
        texts(&rows, |row| bound(statistics(row).min)),
        texts(&rows, |row| bound(statistics(row).max)),
        numbers(&rows, |row| statistics(row).distinct),
        numbers(&rows, |row| Some(row.chunk.columns[row.column].len_bytes())),
        numbers(&rows, |row| stored(row).map(|it| it.stored.extent.offset_bytes)),
        numbers(&rows, |row| Some(row.chunk.columns[row.column].extent_bytes())),
        texts(&rows, |row| Some(row.tier.clone())),
    ]
}

fn bound(bound: Option<Bound>) -> Option<String> {
    bound.map(|bound| bound.value.to_string())
}

fn rows(engine: &EngineState) -> Vec<Row> {
    let tiers = engine.memory_tier_names();
    let mut rows = Vec::new();
    let catalog = engine.catalog();
    let tables = catalog.schemas().into_iter().flat_map(|schema| catalog.tables(&schema));
    for table in tables {
        for chunk in &table.snapshot().chunks {
            for (column, segment) in chunk.columns.iter().enumerate() {
                let tier = segment.placement.heap_name().unwrap_or_else(|| {
                    let Some(stored) = segment.stored() else { return "catalog".to_owned() };
                    let tier = chunk.space().tier_of(stored.page);
                    let name = tier.and_then(|tier| tiers.get(tier));
                    name.cloned().unwrap_or_else(|| "store".to_owned())
                });
                let (table, chunk) = (Arc::clone(&table), Arc::clone(chunk));
                rows.push(Row { table, chunk, column, tier });
            }
        }
    }
    rows
}

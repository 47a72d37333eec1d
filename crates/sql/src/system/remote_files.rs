//! `terrace.remote_files`: statistics of the cache of remote files (S3, HTTP).

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::Field;

use super::columns::{number, numbers};
use crate::engine::EngineState;

pub(super) fn columns() -> Vec<Field> {
    vec![
        number("blocks"),
        number("resident_bytes"),
        number("hits"),
        number("misses"),
        number("requests"),
        number("fetched_bytes"),
    ]
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let stats = engine.cloud().stats();
    let counts = [
        stats.blocks,
        stats.resident_bytes,
        stats.hits,
        stats.misses,
        stats.requests,
        stats.fetched_bytes,
    ];
    counts.into_iter().map(|count| numbers(&[count], |count| Some(*count))).collect()
}

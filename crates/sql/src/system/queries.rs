//! `terrace.queries`: the running queries, including the one that reads this table.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field};

use super::columns::{moment, moments, number, numbers, text, texts};
use crate::engine::EngineState;

pub(super) fn columns() -> Vec<Field> {
    vec![
        number("id"),
        number("session"),
        text("statement"),
        text("state"),
        text("wait_reason"),
        text("tenant"),
        text("sla"),
        moment("began_at"),
        Field::new("seconds", DataType::Float64, true),
        number("rows_scanned"),
        number("rows_total"),
        number("rows_returned"),
        number("held_bytes"),
        number("grant_bytes"),
        number("reserved_bytes"),
        number("peak_bytes"),
        number("pinned_bytes"),
        number("resident_bytes"),
        number("spilled_bytes"),
        number("spill_files"),
        number("dram_bytes"),
        number("remote_bytes"),
        number("store_bytes"),
    ]
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let queries = engine.queries().running();
    let rows: Vec<_> = queries.iter().map(|query| (query, query.progress())).collect();
    vec![
        numbers(&rows, |(query, _)| Some(query.id())),
        numbers(&rows, |(query, _)| query.session()),
        texts(&rows, |(query, _)| Some(query.text().to_owned())),
        texts(&rows, |(query, _)| Some(query.state().to_string())),
        texts(&rows, |(query, _)| query.wait_reason().map(|reason| reason.to_string())),
        texts(&rows, |(query, _)| query.claim().tenant.as_ref().map(ToString::to_string)),
        texts(&rows, |(query, _)| query.claim().sla.as_ref().map(ToString::to_string)),
        moments(&rows, |(query, _)| Some(query.began_at())),
        Arc::new(
            rows.iter()
                .map(|(query, _)| Some(query.began().elapsed().as_secs_f64()))
                .collect::<Float64Array>(),
        ),
        numbers(&rows, |(_, progress)| Some(progress.rows)),
        numbers(&rows, |(_, progress)| progress.rows_total),
        numbers(&rows, |(query, _)| Some(query.rows_returned())),
        numbers(&rows, |(query, _)| Some(query.memory().held_bytes())),
        numbers(&rows, |(query, _)| query.memory().limit()),
        numbers(&rows, |(query, _)| Some(query.memory().reserved_bytes())),
        numbers(&rows, |(query, _)| Some(query.memory().peak_bytes())),
        numbers(&rows, |(query, _)| Some(query.memory().pinned_bytes())),
        numbers(&rows, |(query, _)| Some(query.resident_bytes())),
        numbers(&rows, |(query, _)| Some(query.spilled().bytes())),
        numbers(&rows, |(query, _)| Some(query.spilled().files())),
        numbers(&rows, |(_, progress)| Some(progress.dram_bytes)),
        numbers(&rows, |(_, progress)| Some(progress.remote_bytes)),
        numbers(&rows, |(_, progress)| Some(progress.store_bytes)),
    ]
}

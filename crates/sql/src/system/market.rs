//! `terrace.market`: the consumers of memory, the marginal value of memory to each, and their last
//! trades.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array};
use datafusion::arrow::datatypes::{DataType, Field};
use terrace_governor::market::Row;

use super::columns::{moment, moments, number, numbers, text, texts};
use crate::engine::EngineState;

pub(super) fn columns() -> Vec<Field> {
    let rate = |name: &str| Field::new(name, DataType::Float64, true);
    vec![
        text("consumer"),
        text("class"),
        text("tenant"),
        text("sla"),
        number("priority"),
        number("held_bytes"),
        number("target_bytes"),
        rate("gain_per_mib"),
        rate("loss_per_mib"),
        Field::new("last_trade_bytes", DataType::Int64, true),
        text("last_trade_with"),
        moment("last_trade_at"),
        number("spilled_bytes"),
    ]
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let rows = engine.resources().market.rows();
    let rates = |rate: fn(&Row) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(rate).collect::<Float64Array>())
    };
    let trade = |row: &Row| row.last_trade.clone();
    vec![
        texts(&rows, |row| Some(row.consumer.clone())),
        texts(&rows, |row| Some(row.class.to_owned())),
        texts(&rows, |row| row.claim.tenant.as_ref().map(ToString::to_string)),
        texts(&rows, |row| row.claim.sla.as_ref().map(ToString::to_string)),
        numbers(&rows, |row| Some(row.claim.priority().into())),
        numbers(&rows, |row| Some(row.held_bytes)),
        numbers(&rows, |row| row.target_bytes),
        rates(|row| row.gain_per_mib),
        rates(|row| row.loss_per_mib),
        Arc::new(rows.iter().map(|row| Some(trade(row)?.bytes)).collect::<Int64Array>()),
        texts(&rows, |row| trade(row)?.with),
        moments(&rows, |row| Some(trade(row)?.at)),
        numbers(&rows, |row| row.spilled_bytes),
    ]
}

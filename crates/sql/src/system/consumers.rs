//! `terrace.consumers`: memory held by each consumer of the budget, and by each operator of each
//! query.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::Field;

use super::columns::{number, numbers, text, texts};
use crate::engine::EngineState;

pub(super) fn columns() -> Vec<Field> {
    vec![
        text("consumer"),
        text("class"),
        text("operator"),
        number("held_bytes"),
        number("debt_bytes"),
        number("peak_bytes"),
        number("fair_share_bytes"),
    ]
}

/// A consumer of the ledger, or an operator inside a query.
struct Row {
    consumer: String,
    class: String,
    operator: Option<String>,
    held: u64,
    debt: Option<u64>,
    peak: u64,
    fair_share: Option<u64>,
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let rows = rows(engine);
    vec![
        texts(&rows, |row| Some(row.consumer.clone())),
        texts(&rows, |row| Some(row.class.clone())),
        texts(&rows, |row| row.operator.clone()),
        numbers(&rows, |row| Some(row.held)),
        numbers(&rows, |row| row.debt),
        numbers(&rows, |row| Some(row.peak)),
        numbers(&rows, |row| row.fair_share),
    ]
}

fn rows(engine: &EngineState) -> Vec<Row> {
    engine.resources().watch.look();
    let consumers = engine.ledger().consumers().into_iter().map(|consumer| Row {
        consumer: consumer.name.to_string(),
        class: consumer.class.to_string(),
        operator: None,
        held: consumer.held_bytes,
        debt: Some(consumer.debt_bytes),
        peak: consumer.peak_bytes,
        fair_share: Some(consumer.fair_share_bytes),
    });
    let operators = engine.queries().running().into_iter().flat_map(|query| {
        let name = query.memory().query().to_owned();
        query.memory().operators().into_iter().map(move |operator| Row {
            consumer: name.clone(),
            class: "operator".to_owned(),
            operator: Some(operator.name),
            held: operator.reserved_bytes,
            debt: None,
            peak: operator.peak_bytes,
            fair_share: None,
        })
    });
    consumers.chain(operators).collect()
}

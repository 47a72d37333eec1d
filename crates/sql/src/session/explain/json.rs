//! EXPLAIN (FORMAT JSON): the tree of operators as JSON, with PostgreSQL's keys where it has them.

use serde_json::{Map, Value, json};

use super::operator::{Measured, Operator, Summary};
use super::options::Options;

/// Formats a tree and its summary.
pub(super) fn written(root: &Operator, options: Options, summary: Summary) -> String {
    let mut plan = Map::new();
    plan.insert("Plan".to_owned(), object(root, options));
    if options.summary {
        plan.insert("Planning Time".to_owned(), millis(summary.planning_nanos));
        if let Some(execution) = summary.execution_nanos {
            plan.insert("Execution Time".to_owned(), millis(execution));
            if options.buffers {
                let mut total = Map::new();
                insert_bytes(&mut total, &root.total());
                plan.insert("Totals".to_owned(), Value::Object(total));
            }
        }
    }
    // A tree of strings and numbers can always be written.
    serde_json::to_string_pretty(&json!([plan])).unwrap_or_default()
}

fn object(operator: &Operator, options: Options) -> Value {
    let mut object = Map::new();
    object.insert("Node Type".to_owned(), json!(operator.words.name));
    if !operator.words.subject.is_empty() {
        object.insert("Subject".to_owned(), json!(operator.words.subject));
    }
    for (label, text) in &operator.words.details {
        object.insert(label.clone(), json!(text));
    }
    if let Some(rows) = operator.estimated_rows.filter(|_| options.costs) {
        object.insert("Plan Rows".to_owned(), json!(rows));
    }
    if let Some(measured) = operator.measured.filter(|_| options.analyze) {
        if let Some(rows) = measured.rows {
            object.insert("Actual Rows".to_owned(), json!(rows));
        }
        if let Some(nanos) = measured.nanos.filter(|_| options.timing) {
            object.insert("Actual Total Time".to_owned(), millis(nanos));
        }
        if options.buffers {
            insert_bytes(&mut object, &measured);
        }
    }
    if !operator.inputs.is_empty() {
        let inputs = operator.inputs.iter().map(|input| self::object(input, options));
        object.insert("Plans".to_owned(), inputs.collect());
    }
    Value::Object(object)
}

fn insert_bytes(object: &mut Map<String, Value>, measured: &Measured) {
    let keys = [
        ("Peak Memory Bytes", measured.peak_bytes),
        ("Spilled Bytes", measured.spilled_bytes),
        ("Bytes from DRAM", measured.dram_bytes),
        ("Bytes from Slower Memory", measured.remote_bytes),
        ("Bytes from Store", measured.store_bytes),
        ("Bytes from Files", measured.file_bytes),
    ];
    object.extend(keys.map(|(key, bytes)| (key.to_owned(), json!(bytes))));
}

/// Nanoseconds in milliseconds, truncated to microseconds.
fn millis(nanos: u64) -> Value {
    json!(std::time::Duration::from_micros(nanos / 1000).as_secs_f64() * 1000.0)
}

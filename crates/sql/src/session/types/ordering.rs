//! The order of intervals and JSONB in aggregate and window functions, and in sorts; frames of
//! windows over keys without sums.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ExprSchema;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, Sort as SortExpr, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::{
    AggregateUDF, Expr, WindowFrame, WindowFrameUnits, WindowFunctionDefinition,
};
use terrace_functions::aggregates::INTERVAL_AVERAGE;
use terrace_functions::columns::interval_key;

use super::super::window_distances;
use super::kinds::{is_interval, key_of, type_of};

/// Makes an aggregate function order and distinguish values by their keys; true if it has changed.
pub(super) fn of_aggregate(call: &mut AggregateFunction, schema: &dyn ExprSchema) -> bool {
    let mut is_changed = of_order(&mut call.params.order_by, schema);
    let [value] = call.params.args.as_mut_slice() else { return is_changed };
    match call.func.name() {
        "min" | "max" if of_type(value, schema) => {
            let is_min = call.func.name() == "min";
            let key = interval_key(value.clone());
            call.func = first_value_udaf();
            call.params.distinct = false;
            call.params.order_by = vec![SortExpr::new(key, is_min, false)];
            is_changed = true;
        }
        "avg" if of_type(value, schema) => {
            if let Some(average) = function(INTERVAL_AVERAGE) {
                call.func = average;
                is_changed = true;
            }
        }
        "count" if call.params.distinct => {
            is_changed |= to_key(value, schema);
        }
        _ => {}
    }
    is_changed
}

/// Makes a window function partition and order by the keys of values; true if it has changed.
pub(super) fn of_window(call: &mut WindowFunction, schema: &dyn ExprSchema) -> bool {
    let WindowFunctionParams { args, partition_by, order_by, window_frame, .. } = &mut call.params;
    let has_distances = window_distances::is_marked(partition_by);
    let mut is_changed = false;
    for key in partition_by {
        is_changed |= to_key(key, schema);
    }
    is_changed |= by_duration(&mut call.fun, args, schema);
    // The bounds of a frame with distances are sums of a key and a value of another type.
    if !has_distances {
        is_changed |= of_order(order_by, schema);
        is_changed |= by_peers(window_frame, order_by, schema);
    }
    is_changed
}

/// Replaces RANGE by GROUPS in a frame without distances, which has the same rows, if DataFusion
/// cannot add a distance to its key; true if it has changed.
fn by_peers(frame: &mut WindowFrame, order_by: &[SortExpr], schema: &dyn ExprSchema) -> bool {
    let key = order_by.first().and_then(|first| type_of(&first.expr, schema));
    if frame.units != WindowFrameUnits::Range || !key.is_some_and(|key| is_without_sums(&key)) {
        return false;
    }
    let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
    *frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
    true
}

fn is_without_sums(key: &DataType) -> bool {
    matches!(
        key,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
            | DataType::Struct(_)
            | DataType::Map(..)
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Duration(_)
    )
}

/// Replaces `max(x)` over intervals in a window by `arg_max(x, key)`, likewise `min(x)`, and
/// `avg(x)` by the average of intervals; true if it has changed.
fn by_duration(
    call: &mut WindowFunctionDefinition,
    args: &mut Vec<Expr>,
    schema: &dyn ExprSchema,
) -> bool {
    let ([value], WindowFunctionDefinition::AggregateUDF(aggregate)) = (args.as_slice(), &call)
    else {
        return false;
    };
    let (name, has_key) = match aggregate.name() {
        "min" => ("arg_min", true),
        "max" => ("arg_max", true),
        "avg" => (INTERVAL_AVERAGE, false),
        _ => return false,
    };
    let Some(other) = function(name).filter(|_| of_type(value, schema)) else { return false };
    let key = has_key.then(|| interval_key(value.clone()));
    args.extend(key);
    *call = WindowFunctionDefinition::AggregateUDF(other);
    true
}

/// An aggregate function of this project.
fn function(name: &str) -> Option<Arc<AggregateUDF>> {
    terrace_functions::aggregates().into_iter().find(|function| function.name() == name)
}

/// Replaces the values among sort keys that are compared by keys; true if there are any.
pub(super) fn of_order(order: &mut [SortExpr], schema: &dyn ExprSchema) -> bool {
    let mut is_changed = false;
    for key in order {
        is_changed |= to_key(&mut key.expr, schema);
    }
    is_changed
}

/// Replaces a value by its key; true if it has one.
pub(super) fn to_key(expr: &mut Expr, schema: &dyn ExprSchema) -> bool {
    let Some(key) = key_of(expr, schema) else { return false };
    *expr = key(std::mem::take(expr));
    true
}

fn of_type(expr: &Expr, schema: &dyn ExprSchema) -> bool {
    type_of(expr, schema).is_some_and(|of| is_interval(&of))
}

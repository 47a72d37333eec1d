//! The order of intervals in aggregate and window functions, and in sorts.

use datafusion::common::ExprSchema;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, Sort as SortExpr, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::{Expr, WindowFrame, WindowFrameBound, WindowFrameUnits};
use terrace_functions::columns::interval_key;

use super::kinds::{is_interval, type_of};

/// Makes an aggregate function order and distinguish intervals by their durations; true if it has
/// changed.
pub(super) fn of_aggregate(call: &mut AggregateFunction, schema: &dyn ExprSchema) -> bool {
    let mut is_changed = of_order(&mut call.params.order_by, schema);
    let [value] = call.params.args.as_mut_slice() else { return is_changed };
    if !of_type(value, schema) {
        return is_changed;
    }
    match call.func.name() {
        "min" | "max" => {
            let is_min = call.func.name() == "min";
            let key = interval_key(value.clone());
            call.func = first_value_udaf();
            call.params.distinct = false;
            call.params.order_by = vec![SortExpr::new(key, is_min, false)];
            is_changed = true;
        }
        "count" if call.params.distinct => {
            *value = interval_key(std::mem::take(value));
            is_changed = true;
        }
        _ => {}
    }
    is_changed
}

/// Makes a window function partition and order by the durations of intervals; true if it has
/// changed.
pub(super) fn of_window(call: &mut WindowFunction, schema: &dyn ExprSchema) -> bool {
    let WindowFunctionParams { partition_by, order_by, window_frame, .. } = &mut call.params;
    let mut is_changed = false;
    for key in partition_by {
        is_changed |= to_key(key, schema);
    }
    // The bounds of a frame are sums of a key and an interval.
    if !has_distances(window_frame) {
        is_changed |= of_order(order_by, schema);
    }
    is_changed
}

fn has_distances(frame: &WindowFrame) -> bool {
    let is_distance = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
            !distance.is_null()
        }
        WindowFrameBound::CurrentRow => false,
    };
    frame.units == WindowFrameUnits::Range
        && (is_distance(&frame.start_bound) || is_distance(&frame.end_bound))
}

/// Replaces the intervals among sort keys by their durations; true if there are any.
pub(super) fn of_order(order: &mut [SortExpr], schema: &dyn ExprSchema) -> bool {
    let mut is_changed = false;
    for key in order {
        is_changed |= to_key(&mut key.expr, schema);
    }
    is_changed
}

/// Replaces an interval by its duration; true if the expression is one.
pub(super) fn to_key(expr: &mut Expr, schema: &dyn ExprSchema) -> bool {
    let is_key = of_type(expr, schema);
    if is_key {
        *expr = interval_key(std::mem::take(expr));
    }
    is_key
}

fn of_type(expr: &Expr, schema: &dyn ExprSchema) -> bool {
    type_of(expr, schema).is_some_and(|of| is_interval(&of))
}

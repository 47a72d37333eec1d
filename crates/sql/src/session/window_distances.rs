//! Window frames whose distances, the offsets of their bounds, are expressions.
//!
//! ```text
//! sum(x) OVER (ORDER BY k RANGE BETWEEN $1 PRECEDING AND 1 + 1 FOLLOWING)
//! sum(x) OVER (PARTITION BY "window frame distances"('range preceding following', $1, 1 + 1)
//!     ORDER BY k ROWS UNBOUNDED PRECEDING)
//! ```
//!
//! DataFusion's planner takes only literals as distances, and reads those of RANGE as texts,
//! without a type. After parsing, a frame with other distances becomes a mark among the keys of its
//! window (`window_frames`). After types are coerced, an analyzer rule removes the mark, computes
//! the distances, and compares their types with that of the key as PostgreSQL does
//! (`window_distances/addition.rs`).
//!
//! A distance that is null or negative fails when the query runs, as in PostgreSQL: the columns of
//! a prepared statement are those of a plan with nulls in place of its parameters.

mod addition;

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{
    DFSchema, ExprSchema, Result, ScalarValue, exec_err, internal_err, plan_err,
};
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction, Sort};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable as _, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, WindowFrame, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use terrace_functions::postgres_type;

use super::window_exclusion::of_windows;
use addition::{Distance, added};

/// The function that stands for a frame with distances.
pub(super) const MARK: &str = "window frame distances";

/// A number of rows that no partition exceeds.
pub(super) const FAR_ROWS: u64 = 1_000_000_000_000_000;

/// A call that stands among the keys of a window until the rule takes it out.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Mark {
    signature: Signature,
}

/// The function that stands for a frame with distances.
pub(super) fn mark() -> Arc<ScalarUDF> {
    let signature = Signature::variadic_any(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Mark { signature }))
}

impl ScalarUDFImpl for Mark {
    fn name(&self) -> &str {
        MARK
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a window frame with distances was not planned")
    }
}

/// A key of a window whose frame has an invalid distance. It fails.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Failure {
    text: String,
    signature: Signature,
}

fn failure(text: String) -> Expr {
    let signature = Signature::nullary(Volatility::Volatile);
    ScalarUDF::new_from_impl(Failure { text, signature }).call(Vec::new())
}

impl ScalarUDFImpl for Failure {
    fn name(&self) -> &'static str {
        "window frame failure"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{}", self.text)
    }
}

/// The analyzer rule.
#[derive(Debug)]
pub(super) struct WindowDistances;

impl AnalyzerRule for WindowDistances {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        of_windows(plan, with_distances)
    }

    fn name(&self) -> &str {
        "window_distances"
    }
}

/// True for a window among whose keys is a mark.
pub(super) fn is_marked(keys: &[Expr]) -> bool {
    keys.iter().any(is_mark)
}

fn is_mark(key: &Expr) -> bool {
    matches!(key, Expr::ScalarFunction(call) if call.name() == MARK)
}

/// Gives parameters that are distances the types that they have in PostgreSQL: the type of a key
/// that is a number, BIGINT for rows and groups. Clients send intervals as texts.
pub(super) fn typed(expr: Expr, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut window) = expr else { return Ok(Transformed::no(expr)) };
    let params = &mut window.params;
    let key = params.order_by.first().and_then(|key| key.expr.get_type(schema).ok());
    let mut is_typed = false;
    for mark in params.partition_by.iter_mut().filter(|key| is_mark(key)) {
        let Expr::ScalarFunction(ScalarFunction { args, .. }) = mark else { continue };
        let of = match args.first().map(units) {
            Some(WindowFrameUnits::Range) => key.clone().filter(DataType::is_numeric),
            _ => Some(DataType::Int64),
        };
        let Some(of) = of else { continue };
        for distance in args {
            if let Expr::Placeholder(Placeholder { field: field @ None, .. }) = distance {
                *field = Some(Arc::new(Field::new("", of.clone(), true)));
                is_typed = true;
            }
        }
    }
    let expr = Expr::WindowFunction(window);
    Ok(if is_typed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// The words of a mark, such as `range preceding following`: the units of its frame, and the kinds
/// of its bounds.
fn words(expr: &Expr) -> Vec<&str> {
    match expr {
        Expr::Literal(words, _) => {
            words.try_as_str().flatten().unwrap_or_default().split(' ').collect()
        }
        _ => Vec::new(),
    }
}

fn units(words_of_mark: &Expr) -> WindowFrameUnits {
    match words(words_of_mark).first() {
        Some(&"rows") => WindowFrameUnits::Rows,
        Some(&"groups") => WindowFrameUnits::Groups,
        _ => WindowFrameUnits::Range,
    }
}

/// Gives a window the frame of its mark.
fn with_distances(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut window) = expr else { return Ok(Transformed::no(expr)) };
    let params = &mut window.params;
    let Some(place) = params.partition_by.iter().position(is_mark) else {
        return Ok(Transformed::no(Expr::WindowFunction(window)));
    };
    let Expr::ScalarFunction(mark) = params.partition_by.remove(place) else {
        return internal_err!("a window frame has lost its distances");
    };
    match frame_of(mark.args, &mut params.order_by, schema)? {
        Ok(frame) => params.window_frame = frame,
        Err(text) => params.partition_by.insert(0, failure(text)),
    }
    Ok(Transformed::yes(Expr::WindowFunction(window)))
}

/// The frame of a mark, whose `order` keys get types that its distances can be added to; an inner
/// `Err` is the text of the error with which the query fails when it runs.
fn frame_of(
    mut args: Vec<Expr>,
    order: &mut Vec<Sort>,
    schema: &DFSchema,
) -> Result<std::result::Result<WindowFrame, String>> {
    if args.is_empty() {
        return internal_err!("a mark of a window frame has no words");
    }
    let mark = args.remove(0);
    let units = units(&mark);
    let distances = args.into_iter().map(|distance| constant(distance, units));
    let distances: Vec<ScalarValue> = distances.collect::<Result<_>>()?;
    order.dedup();
    let measured = match (units, order.as_mut_slice()) {
        (WindowFrameUnits::Range, [key]) => added(key, &distances, schema)?,
        (WindowFrameUnits::Range, _) => {
            return plan_err!(
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column"
            );
        }
        (WindowFrameUnits::Groups, []) => {
            return plan_err!("GROUPS mode requires an ORDER BY clause");
        }
        _ => distances.iter().map(|it| count(it, units)).collect::<Result<_>>()?,
    };
    let words = words(&mark);
    let (start, end) = (words.get(1).copied(), words.get(2).copied());
    let mut measured = measured.into_iter();
    let start = bound(start, true, units, &mut measured);
    let end = bound(end, false, units, &mut measured);
    Ok(match (start, end) {
        (Ok(start), Ok(end)) if is_empty(&start, &end) => {
            let first = WindowFrameBound::Preceding(ScalarValue::UInt64(None));
            let far = WindowFrameBound::Preceding(ScalarValue::UInt64(Some(FAR_ROWS)));
            Ok(WindowFrame::new_bounds(WindowFrameUnits::Rows, first, far))
        }
        (Ok(start), Ok(end)) => Ok(WindowFrame::new_bounds(units, start, end)),
        (Err(text), _) | (_, Err(text)) => Err(text),
    })
}

/// The bound that a word of a mark stands for, with the next distance if it needs one; `Err` is the
/// text of the error with which the query fails when it runs.
fn bound(
    word: Option<&str>,
    is_start: bool,
    units: WindowFrameUnits,
    distances: &mut impl Iterator<Item = Distance>,
) -> std::result::Result<WindowFrameBound, String> {
    let edge = if is_start { "starting" } else { "ending" };
    let mut distance = || match distances.next() {
        Some(Distance::Of(value)) => Ok(value),
        Some(Distance::Negative) if units == WindowFrameUnits::Range => {
            Err("invalid preceding or following size in window function".to_owned())
        }
        Some(Distance::Negative) => Err(format!("frame {edge} offset must not be negative")),
        Some(Distance::Null) | None => Err(format!("frame {edge} offset must not be null")),
    };
    match word {
        Some("preceding") => distance().map(WindowFrameBound::Preceding),
        Some("following") => distance().map(WindowFrameBound::Following),
        Some("unbounded") if is_start => Ok(WindowFrameBound::Preceding(ScalarValue::UInt64(None))),
        Some("unbounded") => Ok(WindowFrameBound::Following(ScalarValue::UInt64(None))),
        _ => Ok(WindowFrameBound::CurrentRow),
    }
}

/// The value of a distance.
///
/// # Errors
/// For one that depends on rows or on volatile functions.
fn constant(distance: Expr, units: WindowFrameUnits) -> Result<ScalarValue> {
    if distance.any_column_refs() || distance.contains_outer() {
        return plan_err!("argument of {units} must not contain variables");
    }
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
    match simplifier.simplify(distance)? {
        Expr::Literal(value, _) => Ok(value),
        other => plan_err!("argument of {units} must be a constant or a parameter, not {other}"),
    }
}

/// A number of rows or groups.
///
/// # Errors
/// For a value that is no number.
fn count(distance: &ScalarValue, units: WindowFrameUnits) -> Result<Distance> {
    let of = distance.data_type();
    let number = if of.is_decimal() || of.is_floating() {
        distance.cast_to(&DataType::Decimal128(38, 0))?.cast_to(&DataType::Int64)?
    } else if of.is_integer() || of.is_string() || of.is_null() {
        distance.cast_to(&DataType::Int64)?
    } else {
        let of = postgres_type(&Field::new("", of, true));
        return plan_err!("argument of {units} must be type bigint, not type {of}");
    };
    Ok(match number {
        ScalarValue::Int64(Some(rows)) => match u64::try_from(rows) {
            Ok(rows) => Distance::Of(ScalarValue::UInt64(Some(rows))),
            Err(_) => Distance::Negative,
        },
        _ => Distance::Null,
    })
}

/// True if the end of a frame is before its start at every row.
fn is_empty(start: &WindowFrameBound, end: &WindowFrameBound) -> bool {
    use WindowFrameBound::{Following, Preceding};
    match (start, end) {
        (Following(start), Following(end)) => exceeds(start, end),
        (Preceding(start), Preceding(end)) => exceeds(end, start),
        _ => false,
    }
}

/// True if a distance is greater than another one wherever they are added.
fn exceeds(a: &ScalarValue, b: &ScalarValue) -> bool {
    match (a, b) {
        (
            ScalarValue::IntervalMonthDayNano(Some(a)),
            ScalarValue::IntervalMonthDayNano(Some(b)),
        ) => a != b && a.months >= b.months && a.days >= b.days && a.nanoseconds >= b.nanoseconds,
        _ if a.is_null() || b.is_null() => false,
        _ => a.partial_cmp(b) == Some(Ordering::Greater),
    }
}

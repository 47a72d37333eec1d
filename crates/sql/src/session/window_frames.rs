//! Window frames without rows, and frames that PostgreSQL refuses.
//!
//! A frame whose end is before its start has no rows. DataFusion refuses it. It becomes one that
//! ends before the first row of any partition, and that no aggregate has to remove rows from:
//! ```text
//! ROWS BETWEEN 1 PRECEDING AND 3 PRECEDING
//!   ->  ROWS BETWEEN UNBOUNDED PRECEDING AND 1000000000000000 PRECEDING
//! ```

use std::cmp::Ordering;

use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Interval, NamedWindowDefinition, NamedWindowExpr, Select, Value, ValueWithSpan,
    WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};
use terrace_table::error::SqlError;

use super::refusal::refused;

/// More rows than a partition has.
const FAR_ROWS: &str = "1000000000000000";
const NANOSECONDS_PER_DAY: i128 = 86_400_000_000_000;

/// Rewrites the frame of a call of a window function.
///
/// # Errors
/// [`SqlError::Refused`] for bounds in an order that is not possible.
pub(super) fn write_out(expr: &mut Expr) -> Result<(), SqlError> {
    match expr {
        Expr::Function(Function { over: Some(WindowType::WindowSpec(window)), .. }) => {
            in_window(window)
        }
        _ => Ok(()),
    }
}

/// Rewrites the frames of the named windows of a SELECT.
///
/// # Errors
/// As [`write_out`].
pub(super) fn write_out_named(select: &mut Select) -> Result<(), SqlError> {
    select.named_window.iter_mut().try_for_each(|NamedWindowDefinition(_, window)| match window {
        NamedWindowExpr::WindowSpec(window) => in_window(window),
        NamedWindowExpr::NamedWindow(_) => Ok(()),
    })
}

fn in_window(window: &mut WindowSpec) -> Result<(), SqlError> {
    let Some(frame) = &mut window.window_frame else { return Ok(()) };
    check(frame)?;
    if is_empty(frame) {
        let rows = Expr::Value(Value::Number(FAR_ROWS.to_owned(), false).into());
        *frame = WindowFrame {
            units: WindowFrameUnits::Rows,
            start_bound: WindowFrameBound::Preceding(None),
            end_bound: Some(WindowFrameBound::Preceding(Some(Box::new(rows)))),
        };
    }
    Ok(())
}

/// Refuses the orders of bounds that PostgreSQL refuses, in its words.
fn check(frame: &WindowFrame) -> Result<(), SqlError> {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    let cause = match (&frame.start_bound, &frame.end_bound) {
        (Following(None), _) => "frame start cannot be UNBOUNDED FOLLOWING",
        (_, Some(Preceding(None))) => "frame end cannot be UNBOUNDED PRECEDING",
        (CurrentRow, Some(Preceding(_))) => {
            "frame starting from current row cannot have preceding rows"
        }
        (Following(_), Some(Preceding(_) | CurrentRow)) => {
            "frame starting from following row cannot have preceding rows"
        }
        (Following(_), None) => "frame starting from following row cannot end with current row",
        (start, end) if is_negative(start) || end.as_ref().is_some_and(is_negative) => {
            "invalid preceding or following size in window function"
        }
        _ => return Ok(()),
    };
    let what = match &frame.end_bound {
        Some(end) => format!("{} BETWEEN {} AND {end}", frame.units, frame.start_bound),
        None => format!("{} {}", frame.units, frame.start_bound),
    };
    Err(refused(&format!("the window frame {what}"), cause))
}

/// True for the distance of an interval that is less than zero.
fn is_negative(bound: &WindowFrameBound) -> bool {
    use WindowFrameBound::{Following, Preceding};
    let (Preceding(Some(distance)) | Following(Some(distance))) = bound else { return false };
    let parts = match distance.as_ref() {
        Expr::Interval(interval) => parts(interval),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            parts_of(text.clone())
        }
        _ => None,
    };
    parts.is_some_and(|[months, days, nanoseconds]| {
        let days = i128::from(months) * 30 + i128::from(days);
        days * NANOSECONDS_PER_DAY + i128::from(nanoseconds) < 0
    })
}

/// True for a frame whose end is before its start at every row.
fn is_empty(frame: &WindowFrame) -> bool {
    use WindowFrameBound::{Following, Preceding};
    let order = match (&frame.start_bound, &frame.end_bound) {
        (Following(Some(start)), Some(Following(Some(end)))) => compared(start, end),
        (Preceding(Some(start)), Some(Preceding(Some(end)))) => compared(end, start),
        _ => None,
    };
    order == Some(Ordering::Greater)
}

/// The order of two offsets; `None` if it depends on the row, and for what is no constant.
fn compared(a: &Expr, b: &Expr) -> Option<Ordering> {
    match (a, b) {
        (Expr::Value(a), Expr::Value(b)) => number(a)?.partial_cmp(&number(b)?),
        (Expr::Interval(a), Expr::Interval(b)) => {
            let pairs = parts(a)?.into_iter().zip(parts(b)?);
            let orders: Vec<_> = pairs.map(|(a, b)| a.cmp(&b)).filter(|it| it.is_ne()).collect();
            match orders.split_first() {
                None => Some(Ordering::Equal),
                Some((first, rest)) => rest.iter().all(|it| it == first).then_some(*first),
            }
        }
        _ => None,
    }
}

fn number(value: &ValueWithSpan) -> Option<f64> {
    match &value.value {
        Value::Number(digits, _) => digits.parse().ok(),
        _ => None,
    }
}

/// The months, days and nanoseconds of an interval.
fn parts(interval: &Interval) -> Option<[i64; 3]> {
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) =
        interval.value.as_ref()
    else {
        return None;
    };
    let text = match &interval.leading_field {
        Some(field) => format!("{text} {field}"),
        None => text.clone(),
    };
    parts_of(text)
}

/// The parts of an interval that a text denotes.
fn parts_of(text: String) -> Option<[i64; 3]> {
    let kind = DataType::Interval(IntervalUnit::MonthDayNano);
    match ScalarValue::try_from_string(text, &kind).ok()? {
        ScalarValue::IntervalMonthDayNano(Some(value)) => {
            Some([i64::from(value.months), i64::from(value.days), value.nanoseconds])
        }
        _ => None,
    }
}

//! Rewrites of window frames before planning: empty frames, frames that PostgreSQL refuses, and
//! frames whose distances are expressions.
//!
//! A frame whose end is before its start has no rows. DataFusion refuses it. It becomes one that
//! ends before the first row of any partition, and that no aggregate has to remove rows from:
//! ```text
//! ROWS BETWEEN 1 PRECEDING AND 3 PRECEDING
//!   ->  ROWS BETWEEN UNBOUNDED PRECEDING AND 1000000000000000 PRECEDING
//! ```
//!
//! Distances other than numbers of rows or groups are moved to where the planner takes expressions
//! (`window_distances`).

use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, NamedWindowDefinition, NamedWindowExpr, ObjectName, Select, Value,
    ValueWithSpan, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};
use terrace_table::error::SqlError;

use super::dialect::call;
use super::refusal::refused;
use super::window_distances::{FAR_ROWS, MARK};

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
    let Some(frame) = window.window_frame.take() else { return Ok(()) };
    check(&frame)?;
    window.window_frame = Some(match is_plain(&frame) {
        true if is_empty(&frame) => {
            let far = Expr::Value(Value::Number(FAR_ROWS.to_string(), false).into());
            rows(Some(WindowFrameBound::Preceding(Some(Box::new(far)))))
        }
        true => frame,
        false => {
            window.partition_by.insert(0, mark(frame));
            rows(None)
        }
    });
    Ok(())
}

/// A frame of the rows from the first one of the partition on.
fn rows(end_bound: Option<WindowFrameBound>) -> WindowFrame {
    let start_bound = WindowFrameBound::Preceding(None);
    WindowFrame { units: WindowFrameUnits::Rows, start_bound, end_bound }
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
        _ => return Ok(()),
    };
    let what = match &frame.end_bound {
        Some(end) => format!("{} BETWEEN {} AND {end}", frame.units, frame.start_bound),
        None => format!("{} {}", frame.units, frame.start_bound),
    };
    Err(refused(&format!("the window frame {what}"), cause))
}

/// The distance of a bound.
fn distance(bound: &WindowFrameBound) -> Option<&Expr> {
    use WindowFrameBound::{Following, Preceding};
    match bound {
        Preceding(Some(distance)) | Following(Some(distance)) => Some(distance),
        _ => None,
    }
}

/// True for a frame that the planner understands: all its distances are numbers of rows or groups.
fn is_plain(frame: &WindowFrame) -> bool {
    let bounds = std::iter::once(&frame.start_bound).chain(&frame.end_bound);
    let mut distances = bounds.filter_map(distance);
    match frame.units {
        WindowFrameUnits::Range => distances.next().is_none(),
        _ => distances.all(|distance| count(distance).is_some()),
    }
}

/// The number of rows or groups that a literal denotes.
fn count(distance: &Expr) -> Option<u64> {
    match distance {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => digits.parse().ok(),
        _ => None,
    }
}

/// True for a plain frame whose end is before its start at every row.
fn is_empty(frame: &WindowFrame) -> bool {
    use WindowFrameBound::{Following, Preceding};
    let (less, more) = match (&frame.start_bound, &frame.end_bound) {
        (Following(Some(start)), Some(Following(Some(end)))) => (count(end), count(start)),
        (Preceding(Some(start)), Some(Preceding(Some(end)))) => (count(start), count(end)),
        _ => return false,
    };
    less.zip(more).is_some_and(|(less, more)| less < more)
}

/// The call of [`MARK`] that states a frame among the keys of its window.
fn mark(frame: WindowFrame) -> Expr {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    let mut words = frame.units.to_string().to_lowercase();
    let mut distances = Vec::new();
    let end = frame.end_bound.unwrap_or(CurrentRow);
    for bound in [frame.start_bound, end] {
        let (word, distance) = match bound {
            CurrentRow => ("current", None),
            Preceding(None) | Following(None) => ("unbounded", None),
            Preceding(distance) => ("preceding", distance),
            Following(distance) => ("following", distance),
        };
        words.push(' ');
        words.push_str(word);
        distances.extend(distance.map(|distance| *distance));
    }
    let words = Expr::Value(Value::SingleQuotedString(words).into());
    let mut mark = call(MARK, std::iter::once(words).chain(distances));
    // The text of a view has the name.
    if let Expr::Function(function) = &mut mark {
        function.name = ObjectName::from(vec![Ident::with_quote('"', MARK)]);
    }
    mark
}

//! Literals of intervals with a time of day, `INTERVAL '1 day 02:03:04'`, of ISO 8601, `INTERVAL
//! 'P1DT2H'`, and with other signs than one before a number, `'1 day ago'`, `'1-2'`, `'-1 day +2
//! hours'`, which DataFusion does not read: they become casts.
//!
//! A sign before a literal applies to all its parts. DataFusion would write it before the text,
//! `-1 month 2 days`, where it applies only to the first part; so the literal gets parentheses.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Interval, UnaryOperator, Value, ValueWithSpan,
};

/// Rewrites a literal or the sign before one; leaves any other expression unchanged.
pub(super) fn write_out(expr: &mut Expr) {
    if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: operand } = expr
        && matches!(operand.as_ref(), Expr::Interval(_))
    {
        let literal = mem::replace(operand.as_mut(), Expr::Value(Value::Null.into()));
        **operand = Expr::Nested(Box::new(literal));
        return;
    }
    let Expr::Interval(Interval {
        value,
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    }) = expr
    else {
        return;
    };
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = value.as_ref()
    else {
        return;
    };
    if is_other_form(text) {
        let operand = mem::replace(value.as_mut(), Expr::Value(Value::Null.into()));
        *expr = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(operand),
            data_type: DataType::Interval { fields: None, precision: None },
            array: false,
            format: None,
        };
    }
}

/// True for a text that is not just numbers with units.
fn is_other_form(text: &str) -> bool {
    let text = text.trim();
    let is_range = |word: &str| word.bytes().skip(1).any(|byte| byte == b'-');
    text.contains([':', '+', '@'])
        || text.starts_with(['P', 'p'])
        || text.to_ascii_lowercase().ends_with("ago")
        || text.split_whitespace().any(is_range)
}

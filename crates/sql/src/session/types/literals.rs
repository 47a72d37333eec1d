//! Literals of intervals with a time of day, `INTERVAL '1 day 02:03:04'`, and of ISO 8601,
//! `INTERVAL 'P1DT2H'`, which DataFusion does not read: they become casts.
//!
//! A sign before a literal is that of all its parts. DataFusion would write it before the text,
//! `-1 month 2 days`, where it is that of the first part; the literal gets parentheses.

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
    if text.contains(':') || text.trim_start().starts_with(['P', 'p']) {
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

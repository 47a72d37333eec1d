//! Literals of intervals with a time of day, `INTERVAL '1 day 02:03:04'`, and of ISO 8601,
//! `INTERVAL 'P1DT2H'`, which DataFusion does not read: they become casts.

use std::mem;

use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, Interval, Value, ValueWithSpan};

/// Rewrites a literal; leaves any other expression unchanged.
pub(in super::super) fn write_out(expr: &mut Expr) {
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

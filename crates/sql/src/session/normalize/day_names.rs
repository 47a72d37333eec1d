//! Dates and times that are written as words: `'today'::date`, `TIMESTAMP 'now'`.
//!
//! ```text
//! DATE 'today'             current_date
//! DATE 'tomorrow'          current_date + 1
//! TIMESTAMP 'yesterday'    (current_date - 1)::timestamp
//! 'now'::timestamp         now()::timestamp
//! ```

use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr, TypedString, Value};

use super::super::dialect::{call, cast};

/// Rewrites a cast of such a word; leaves any other expression unchanged.
pub(super) fn write_out(expr: &mut Expr) {
    let (word, of) = match &*expr {
        Expr::Cast { expr, data_type, .. } => match expr.as_ref() {
            Expr::Value(literal) => (&literal.value, data_type),
            _ => return,
        },
        Expr::TypedString(TypedString { value, data_type, .. }) => (&value.value, data_type),
        _ => return,
    };
    let Value::SingleQuotedString(word) = word else { return };
    if let Some(moment) = moment(word, of) {
        *expr = cast(moment, of.clone());
    }
}

/// The moment that a word means as a value of type `of`; `None` for other texts and types.
fn moment(word: &str, of: &DataType) -> Option<Expr> {
    let has_date = match of {
        DataType::Date | DataType::Date32 | DataType::Timestamp(..) => true,
        DataType::Time(..) => false,
        _ => return None,
    };
    let word = word.trim();
    let days = match [("yesterday", -1), ("today", 0), ("tomorrow", 1)]
        .iter()
        .find(|(name, _)| word.eq_ignore_ascii_case(name))
    {
        Some((_, days)) if has_date => days,
        _ if word.eq_ignore_ascii_case("now") => return Some(call("now", [])),
        _ => return None,
    };
    let op = if *days < 0 { BinaryOperator::Minus } else { BinaryOperator::Plus };
    let days = Box::new(Expr::Value(Value::Number(i32::abs(*days).to_string(), false).into()));
    let today = Box::new(call("current_date", []));
    Some(Expr::Nested(Box::new(Expr::BinaryOp { left: today, op, right: days })))
}

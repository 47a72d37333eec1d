//! Functions of texts with words between their arguments, which become calls: the functions of the
//! session take bytes too.
//!
//! ```text
//! substring(x FROM 2 FOR 3)           substr(x, 2, 3)
//! position(y IN x)                    strpos(x, y)
//! overlay(x PLACING y FROM 2 FOR 3)   overlay(x, y, 2, 3)
//! ```

use std::mem;

use datafusion::sql::sqlparser::ast::{Expr, Value};

use super::super::dialect::call;

/// Rewrites a function; leaves any other expression unchanged.
pub(super) fn write_out(expr: &mut Expr) {
    let take = |operand: &mut Expr| mem::replace(operand, Expr::Value(Value::Null.into()));
    let written = match expr {
        Expr::Substring { expr, substring_from, substring_for, .. }
            if substring_from.is_some() || substring_for.is_some() =>
        {
            let first = || Expr::Value(Value::Number("1".to_owned(), false).into());
            let from = substring_from.as_mut().map_or_else(first, |from| take(from));
            let count = substring_for.as_mut().map(|count| take(count));
            call("substr", [take(expr), from].into_iter().chain(count))
        }
        Expr::Position { expr, r#in } => call("strpos", [take(r#in), take(expr)]),
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let count = overlay_for.as_mut().map(|count| take(count));
            let others = [take(expr), take(overlay_what), take(overlay_from)];
            call("overlay", others.into_iter().chain(count))
        }
        _ => return,
    };
    *expr = written;
}

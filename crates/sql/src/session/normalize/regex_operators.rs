//! Patterns of the operators `~`, `~*`, `!~` and `!~*`: regular expressions of PostgreSQL.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value};
use terrace_functions::operator_pattern;

/// Rewrites a constant pattern; leaves any other expression unchanged.
pub(super) fn write_out(expr: &mut Expr) {
    use BinaryOperator::{PGRegexIMatch, PGRegexMatch, PGRegexNotIMatch, PGRegexNotMatch};
    let Expr::BinaryOp { op, right, .. } = expr else { return };
    if let PGRegexMatch | PGRegexIMatch | PGRegexNotMatch | PGRegexNotIMatch = op
        && let Expr::Value(literal) = right.as_mut()
        && let Value::SingleQuotedString(pattern) | Value::EscapedStringLiteral(pattern) =
            &mut literal.value
    {
        *pattern = operator_pattern(pattern);
    }
}

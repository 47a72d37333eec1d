//! The operators of JSON: `->`, `->>`, `#>`, `#>>`, `#-`, `@>`, `<@`, `?`, `?|`, `?&`, `@?` and
//! `@@`.
//!
//! They bind as in PostgreSQL: between comparisons and sums. The tokenizer reads `?` as a parameter
//! marker; behind an operand, where no marker can stand, it is the operator.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

/// True if one of these operators comes next.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    operator(parser).is_some()
}

/// Consumes and returns the next operator if it is one of these.
pub(super) fn take(parser: &mut Parser<'_>) -> Option<BinaryOperator> {
    let (operator, tokens) = operator(parser)?;
    (0..tokens).for_each(|_| parser.advance_token());
    Some(operator)
}

/// Builds the expression `left op right`.
pub(super) fn operation(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// The next operator, and the number of its tokens.
fn operator(parser: &Parser<'_>) -> Option<(BinaryOperator, usize)> {
    let [first, second] = [0, 1].map(|place| parser.peek_nth_token_ref(place));
    let operator = match &first.token {
        Token::Arrow => BinaryOperator::Arrow,
        Token::LongArrow => BinaryOperator::LongArrow,
        Token::HashArrow => BinaryOperator::HashArrow,
        Token::HashLongArrow => BinaryOperator::HashLongArrow,
        Token::HashMinus => BinaryOperator::HashMinus,
        Token::AtArrow => BinaryOperator::AtArrow,
        Token::ArrowAt => BinaryOperator::ArrowAt,
        Token::AtQuestion => BinaryOperator::AtQuestion,
        Token::AtAt => BinaryOperator::AtAt,
        Token::Placeholder(mark) if mark == "?" => {
            let is_joined = first.span.end == second.span.start;
            return Some(match second.token {
                Token::Pipe if is_joined => (BinaryOperator::QuestionPipe, 2),
                Token::Ampersand if is_joined => (BinaryOperator::QuestionAnd, 2),
                _ => (BinaryOperator::Question, 1),
            });
        }
        _ => return None,
    };
    Some((operator, 1))
}

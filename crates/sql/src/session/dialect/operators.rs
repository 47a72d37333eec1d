//! Operators of PostgreSQL and DuckDB that the generic dialect lacks.
//!
//! ```text
//! a ^ b, a ** b                   power(a, b), in double precision
//! a // b                          a / b, which truncates for integers, HUGEINT among them
//! a ^@ b                          starts_with(a, b)
//! a # b, ~ a                      the exclusive or of bits; a # CAST(-1 AS SMALLINT)
//! + NULL, + '1'                   NULL; CAST('1' AS DOUBLE)
//! a GLOB 'x*'                     a match with a regular expression
//! a BETWEEN SYMMETRIC b AND c     a BETWEEN b AND c OR a BETWEEN c AND b
//! a ISNULL                        a IS NULL
//! ```

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    UnaryOperator, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::{Dialect as _, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::super::words::is_word;
use super::calls::{call, cast, double};
use super::precedence::{CONCATENATION, POWER};

const GENERIC: GenericDialect = GenericDialect {};
const IS_NULL: &str = "isnull";

/// The precedence of the next operator if it is `**`, GLOB or ISNULL; `None` for any other.
pub(super) fn precedence(parser: &Parser<'_>) -> Option<u8> {
    if is_double_star(parser) {
        return Some(POWER);
    }
    if is_word(&parser.peek_token_ref().token, IS_NULL) {
        return Some(GENERIC.prec_value(Precedence::Is));
    }
    let glob = usize::from(is_word(&parser.peek_token_ref().token, "not"));
    is_glob(parser, glob).then(|| GENERIC.prec_value(Precedence::Like))
}

/// Parses an operator and its right operand; `None` for any other operator.
pub(super) fn parse(parser: &mut Parser<'_>, left: &Expr) -> Option<Result<Expr, ParserError>> {
    // A long chain of other operators must not copy its left side at each of them.
    match parser.peek_token_ref().token {
        Token::Caret => {
            parser.advance_token();
            Some(parser.parse_subexpr(POWER).map(|right| power(left.clone(), right)))
        }
        Token::Mul if is_double_star(parser) => {
            parser.advance_token();
            parser.advance_token();
            Some(parser.parse_subexpr(POWER).map(|right| power(left.clone(), right)))
        }
        Token::DuckIntDiv => {
            parser.advance_token();
            let right = parser.parse_subexpr(GENERIC.prec_value(Precedence::MulDivModOp));
            Some(right.map(|right| binary(left.clone(), BinaryOperator::DuckIntegerDivide, right)))
        }
        Token::Sharp => {
            parser.advance_token();
            let right = parser.parse_subexpr(CONCATENATION);
            Some(right.map(|right| binary(left.clone(), BinaryOperator::PGBitwiseXor, right)))
        }
        Token::CaretAt => {
            parser.advance_token();
            let right = parser.parse_subexpr(CONCATENATION);
            Some(right.map(|right| call("starts_with", [left.clone(), right])))
        }
        _ => word(parser, left),
    }
}

/// Parses an operator that is a word.
fn word(parser: &mut Parser<'_>, left: &Expr) -> Option<Result<Expr, ParserError>> {
    if is_word(&parser.peek_token_ref().token, IS_NULL) {
        parser.advance_token();
        return Some(Ok(Expr::IsNull(Box::new(left.clone()))));
    }
    let negated = is_word(&parser.peek_token_ref().token, "not");
    let place = usize::from(negated);
    let is_next = |place: usize, word| is_word(&parser.peek_nth_token_ref(place).token, word);
    let is_symmetric = is_next(place, "between") && is_next(place + 1, "symmetric");
    let words = match (is_glob(parser, place), is_symmetric) {
        (true, _) => place + 1,
        (_, true) => place + 2,
        _ => return None,
    };
    (0..words).for_each(|_| parser.advance_token());
    let parsed = match is_symmetric {
        true => between(parser, left.clone()),
        false => glob(parser, left.clone()),
    };
    Some(parsed.map(|expr| if negated { not(expr) } else { expr }))
}

/// True if two stars without a space between them come next.
fn is_double_star(parser: &Parser<'_>) -> bool {
    let [first, second] = [0, 1].map(|place| parser.peek_nth_token_ref(place));
    first.token == Token::Mul && second.token == Token::Mul && first.span.end == second.span.start
}

/// True if the token at `place` is GLOB before a string literal; elsewhere the word is a name.
fn is_glob(parser: &Parser<'_>, place: usize) -> bool {
    let [word, next] = [place, place + 1].map(|place| &parser.peek_nth_token_ref(place).token);
    is_word(word, "glob") && matches!(next, Token::SingleQuotedString(_))
}

/// `left ^ right`, computed in double precision as in PostgreSQL.
fn power(left: Expr, right: Expr) -> Expr {
    call("power", [double(left), double(right)])
}

/// `~ operand`: all bits inverted.
pub(super) fn complement(operand: Expr) -> Expr {
    let one = Value::Number("1".to_owned(), false);
    let ones = Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(Expr::Value(one.into())) };
    // Of the smallest type, so that the result has that of the operand.
    let ones = cast(ones, DataType::SmallInt(None));
    let operand = Expr::Nested(Box::new(operand));
    Expr::Nested(Box::new(binary(operand, BinaryOperator::PGBitwiseXor, ones)))
}

/// An operand with a sign. The planner knows unary `+` only for numbers, timestamps and intervals,
/// so `+` of a NULL becomes NULL here, and `+` of a quoted literal a cast to a number.
pub(super) fn signed(op: UnaryOperator, operand: Expr) -> Expr {
    if op == UnaryOperator::Plus {
        if is_null(&operand) {
            return Expr::Nested(Box::new(operand));
        }
        if matches!(plain(&operand), Expr::Value(value) if is_text(&value.value)) {
            return double(operand);
        }
    }
    Expr::UnaryOp { op, expr: Box::new(operand) }
}

fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => plain(inner),
        other => other,
    }
}

fn is_text(value: &Value) -> bool {
    matches!(value, Value::SingleQuotedString(_))
}

/// True for an expression that is always NULL and has no type of its own.
fn is_null(expr: &Expr) -> bool {
    match plain(expr) {
        Expr::Value(value) => value.value == Value::Null,
        Expr::UnaryOp { op: UnaryOperator::Plus | UnaryOperator::Minus, expr } => is_null(expr),
        Expr::Case { conditions, else_result, .. } => {
            conditions.iter().all(|it| is_null(&it.result))
                && else_result.as_ref().is_none_or(|it| is_null(it))
        }
        Expr::Function(function) => is_null_call(function),
        _ => false,
    }
}

/// True for COALESCE and NULLIF of NULLs.
fn is_null_call(function: &Function) -> bool {
    let name = function.name.to_string().to_ascii_lowercase();
    let FunctionArguments::List(list) = &function.args else { return false };
    let is_null_argument = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => is_null(arg),
        _ => false,
    };
    match name.as_str() {
        "coalesce" => list.args.iter().all(is_null_argument),
        "nullif" => list.args.first().is_some_and(is_null_argument),
        _ => false,
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(expr))) }
}

/// Parses the bounds of a BETWEEN SYMMETRIC, which may stand in any order.
fn between(parser: &mut Parser<'_>, value: Expr) -> Result<Expr, ParserError> {
    let precedence = GENERIC.prec_value(Precedence::Between);
    let low = parser.parse_subexpr(precedence)?;
    parser.expect_keyword_is(Keyword::AND)?;
    let high = parser.parse_subexpr(precedence)?;
    let within = |low: &Expr, high: &Expr| Expr::Between {
        expr: Box::new(value.clone()),
        negated: false,
        low: Box::new(low.clone()),
        high: Box::new(high.clone()),
    };
    let either = binary(within(&low, &high), BinaryOperator::Or, within(&high, &low));
    Ok(Expr::Nested(Box::new(either)))
}

/// Parses the pattern of a GLOB.
fn glob(parser: &mut Parser<'_>, value: Expr) -> Result<Expr, ParserError> {
    let token = parser.next_token();
    let Token::SingleQuotedString(pattern) = &token.token else {
        return parser.expected("a pattern between quotes", token);
    };
    let pattern = Value::SingleQuotedString(regular_expression(pattern));
    let pattern = Expr::Value(ValueWithSpan { value: pattern, span: token.span });
    Ok(binary(value, BinaryOperator::PGRegexMatch, pattern))
}

/// The regular expression that matches the same texts as a GLOB pattern of `*`, `?`, `[a-z]` and
/// `[!a-z]`.
pub(in super::super) fn regular_expression(pattern: &str) -> String {
    let mut written = "(?s)^".to_owned();
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        match character {
            '*' => written.push_str(".*"),
            '?' => written.push('.'),
            '[' => match class(rest.as_str()) {
                Some((class, length)) => {
                    written.push_str(&class);
                    rest.by_ref().take(length).for_each(drop);
                }
                // A class that is not closed matches nothing.
                None => written.push_str("[^\\s\\S]"),
            },
            '\\' => literal(&mut written, rest.next().unwrap_or('\\')),
            other => literal(&mut written, other),
        }
    }
    written.push('$');
    written
}

/// The character class that `rest`, the pattern after a `[`, begins with, as a regular expression,
/// and the number of characters of the pattern up to and including the `]`; `None` without a `]`.
fn class(rest: &str) -> Option<(String, usize)> {
    let negated = rest.starts_with('!');
    let mut class = if negated { "[^".to_owned() } else { "[".to_owned() };
    let skipped = usize::from(negated);
    for (place, character) in rest.chars().enumerate().skip(skipped) {
        match character {
            ']' if place > skipped => {
                class.push(']');
                return Some((class, place + 1));
            }
            '-' if place > skipped && rest.chars().nth(place + 1).is_none_or(|it| it != ']') => {
                class.push('-');
            }
            other => literal(&mut class, other),
        }
    }
    None
}

/// Appends a character, escaped if it may have a meaning in a regular expression.
fn literal(written: &mut String, character: char) {
    if !character.is_alphanumeric() && !character.is_whitespace() && character.is_ascii() {
        written.push('\\');
    }
    written.push(character);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_regular_expressions() {
        let cases = [
            ("a*", "(?s)^a.*$"),
            ("?.b", "(?s)^.\\.b$"),
            ("[a-c]x", "(?s)^[a-c]x$"),
            ("[!a-]", "(?s)^[^a\\-]$"),
            ("[]]", "(?s)^[\\]]$"),
            ("[a", "(?s)^[^\\s\\S]a$"),
            ("\\*", "(?s)^\\*$"),
        ];
        for (pattern, expected) in cases {
            assert_eq!(regular_expression(pattern), expected, "{pattern}");
        }
    }
}

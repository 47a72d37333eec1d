//! Syntax of lambdas and list comprehensions.
//!
//! `x -> x + 1`, `(x, i) -> x + i` and `lambda x, i: x + i` are lambdas if they are an argument,
//! but not the first, of a function that takes one, or the argument of COLUMNS. Anywhere else `->`
//! is the JSON operator.
//! `[x + 1 FOR x IN l IF x > 1]` becomes `list_transform(list_filter(l, x -> x > 1), x -> x + 1)`;
//! a second variable is the position in the list.

use datafusion::sql::sqlparser::ast::{
    Array, Expr, Ident, LambdaFunction, LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens,
    Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::calls::call;

/// The functions that take a lambda.
const FUNCTIONS: [&str; 15] = [
    "list_transform",
    "array_transform",
    "list_apply",
    "array_apply",
    "apply",
    "list_filter",
    "array_filter",
    "filter",
    "list_reduce",
    "array_reduce",
    "reduce",
    "array_any_match",
    "any_match",
    "list_any_match",
    "array_first",
];

/// Parses a lambda, if one comes next.
pub(super) fn parse(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let syntax = syntax(parser)?;
    is_argument(parser).then(|| lambda(parser, syntax))
}

fn syntax(parser: &Parser<'_>) -> Option<LambdaSyntax> {
    let next = |n| &parser.peek_nth_token_ref(n).token;
    match next(0) {
        Token::Word(_) if *next(1) == Token::Arrow => Some(LambdaSyntax::Arrow),
        Token::Word(word) if word.value.eq_ignore_ascii_case("lambda") => {
            let is_name = matches!(next(1), Token::Word(_));
            let is_list = matches!(next(2), Token::Comma | Token::Colon);
            (is_name && is_list).then_some(LambdaSyntax::LambdaKeyword)
        }
        Token::LParen => {
            let mut n = 1;
            while matches!(next(n), Token::Word(_)) && *next(n + 1) == Token::Comma {
                n += 2;
            }
            let ends = matches!(next(n), Token::Word(_)) && *next(n + 1) == Token::RParen;
            (ends && *next(n + 2) == Token::Arrow).then_some(LambdaSyntax::Arrow)
        }
        _ => None,
    }
}

/// True if the parser is behind a comma in the arguments of a function that takes a lambda, or
/// behind the parenthesis of COLUMNS.
fn is_argument(parser: &Parser<'_>) -> bool {
    let before = (0..parser.index()).rev().map(|at| &parser.token_at(at).token);
    let mut before = before.filter(|token| !matches!(token, Token::Whitespace(_)));
    match before.next() {
        Some(Token::Comma) => {}
        Some(Token::LParen) => {
            // COLUMNS takes a lambda that is a condition on the names of columns.
            let name = before.next();
            return matches!(name, Some(Token::Word(word)) if word.quote_style.is_none()
                && word.value.eq_ignore_ascii_case("columns"));
        }
        _ => return false,
    }
    let mut depth = 0_usize;
    while let Some(token) = before.next() {
        match token {
            Token::RParen | Token::RBracket | Token::RBrace => depth += 1,
            Token::LParen if depth == 0 => {
                let name = before.next();
                return matches!(name, Some(Token::Word(word)) if takes_lambda(&word.value));
            }
            Token::LBracket | Token::LBrace if depth == 0 => return false,
            Token::LParen | Token::LBracket | Token::LBrace => depth -= 1,
            Token::SemiColon => return false,
            Token::Word(word) if depth == 0 && word.keyword == Keyword::SELECT => return false,
            _ => {}
        }
    }
    false
}

fn takes_lambda(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.eq_ignore_ascii_case(name))
}

fn lambda(parser: &mut Parser<'_>, syntax: LambdaSyntax) -> Result<Expr, ParserError> {
    let (is_keyword, ends) = match syntax {
        LambdaSyntax::LambdaKeyword => (true, Token::Colon),
        LambdaSyntax::Arrow => (false, Token::Arrow),
    };
    let is_list = if is_keyword {
        parser.advance_token();
        false
    } else {
        parser.consume_token(&Token::LParen)
    };
    let names = parser.parse_comma_separated(Parser::parse_identifier)?;
    if is_list {
        parser.expect_token(&Token::RParen)?;
    }
    parser.expect_token(&ends)?;
    Ok(of(names, parser.parse_expr()?))
}

fn of(names: Vec<Ident>, body: Expr) -> Expr {
    let names = names.into_iter().map(|name| LambdaFunctionParameter { name, data_type: None });
    Expr::Lambda(LambdaFunction {
        params: OneOrManyWithParens::Many(names.collect()),
        body: Box::new(body),
        syntax: LambdaSyntax::Arrow,
    })
}

/// Parses `[...]`: a list, or a list comprehension.
pub(super) fn parse_list(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LBracket)?;
    if parser.consume_token(&Token::RBracket) {
        return Ok(Expr::Array(Array { elem: Vec::new(), named: false }));
    }
    let mut elem = parser.parse_comma_separated(Parser::parse_expr)?;
    if elem.len() == 1 && parser.parse_keyword(Keyword::FOR) {
        return comprehension(parser, elem.remove(0));
    }
    parser.expect_token(&Token::RBracket)?;
    Ok(Expr::Array(Array { elem, named: false }))
}

/// A list comprehension with a condition, and the position in the list as second variable. The
/// condition and the element are computed together, before elements are filtered out, because
/// filtering changes positions.
fn with_positions(list: Expr, names: Vec<Ident>, element: Expr, condition: Expr) -> Expr {
    let key = |name: &str| Expr::Value(Value::SingleQuotedString(name.to_owned()).into());
    let pair = call("named_struct", [key("condition"), condition, key("element"), element]);
    let pairs = call("list_transform", [list, of(names, pair)]);
    let variable = Ident::with_quote('"', "comprehension pair");
    let field = |name: &str| call("get_field", [Expr::Identifier(variable.clone()), key(name)]);
    let kept = call("list_filter", [pairs, of(vec![variable.clone()], field("condition"))]);
    call("list_transform", [kept, of(vec![variable.clone()], field("element"))])
}

/// Parses `x IN l IF c]`, the part of a list comprehension after the element and FOR.
fn comprehension(parser: &mut Parser<'_>, element: Expr) -> Result<Expr, ParserError> {
    let names = parser.parse_comma_separated(Parser::parse_identifier)?;
    parser.expect_keyword_is(Keyword::IN)?;
    let mut list = parser.parse_expr()?;
    if parser.parse_keyword(Keyword::IF) {
        let condition = parser.parse_expr()?;
        if names.len() > 1 {
            parser.expect_token(&Token::RBracket)?;
            return Ok(with_positions(list, names, element, condition));
        }
        list = call("list_filter", [list, of(names.clone(), condition)]);
    }
    parser.expect_token(&Token::RBracket)?;
    Ok(call("list_transform", [list, of(names, element)]))
}

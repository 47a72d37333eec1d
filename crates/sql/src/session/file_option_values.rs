//! Parsing of the names and values of the options of a COPY between a table and files.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::words::take_all;

/// The value of an option in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// The option has no value.
    Nothing,
    /// A string, a number or a word.
    Text(String),
    /// Names of columns; `*` stands for all.
    List(Vec<String>),
}

/// Parses options, in parentheses or in the syntax before PostgreSQL 9. Returns the name of each,
/// in lower case, and its value.
pub(super) fn pairs(parser: &mut Parser<'_>) -> Result<Vec<(String, Given)>, ParserError> {
    let _with = take_all(parser, &["with"]);
    let mut pairs = vec![];
    if parser.consume_token(&Token::LParen) {
        loop {
            let name = canonical(&parser.parse_identifier()?.value);
            pairs.push((name, given(parser)?));
            if !parser.consume_token(&Token::Comma) {
                parser.expect_token(&Token::RParen)?;
                return Ok(pairs);
            }
        }
    }
    while let Token::Word(word) = parser.peek_token().token {
        parser.advance_token();
        let name = canonical(&word.value);
        match name.as_str() {
            "csv" | "text" | "binary" => pairs.push(("format".to_owned(), Given::Text(name))),
            "header" => pairs.push((name, Given::Nothing)),
            _ => {
                let _as = take_all(parser, &["as"]);
                pairs.push((name, Given::Text(parser.parse_literal_string()?)));
            }
        }
    }
    Ok(pairs)
}

/// The name of an option in lower case; of those that DuckDB spells in several ways, PostgreSQL's.
fn canonical(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "delim" | "sep" => "delimiter".to_owned(),
        "nullstr" => "null".to_owned(),
        "codec" => "compression".to_owned(),
        _ => name,
    }
}

/// Parses the value of an option.
fn given(parser: &mut Parser<'_>) -> Result<Given, ParserError> {
    let _equals = parser.consume_token(&Token::Eq);
    match parser.peek_token().token {
        Token::Comma | Token::RParen => Ok(Given::Nothing),
        Token::LParen => {
            parser.advance_token();
            let names = parser.parse_comma_separated(|parser| {
                if parser.consume_token(&Token::Mul) {
                    return Ok("*".to_owned());
                }
                parser.parse_identifier().map(|name| normalized(&name))
            })?;
            parser.expect_token(&Token::RParen)?;
            Ok(Given::List(names))
        }
        Token::Mul => {
            parser.advance_token();
            Ok(Given::List(vec!["*".to_owned()]))
        }
        Token::Word(_) => Ok(Given::Text(normalized(&parser.parse_identifier()?))),
        _ => {
            let is_negative = parser.consume_token(&Token::Minus);
            let token = parser.next_token();
            match &token.token {
                Token::Number(digits, _) if is_negative => Ok(Given::Text(format!("-{digits}"))),
                Token::Number(digits, _) => Ok(Given::Text(digits.clone())),
                Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
                    Ok(Given::Text(text.clone()))
                }
                _ => parser.expected("the value of an option", token),
            }
        }
    }
}

fn normalized(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}

/// The text value of the option `name`, which is required.
pub(super) fn text(name: &str, given: &Given) -> Result<String, ParserError> {
    match given {
        Given::Text(text) => Ok(text.clone()),
        _ => Err(refused(&format!("{} without a value", name.to_uppercase()), "name one")),
    }
}

/// The value of the option `name`, which is a single ASCII character.
pub(super) fn byte(name: &str, given: &Given) -> Result<u8, ParserError> {
    let text = text(name, given)?;
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(*byte),
        _ => {
            let what = format!("{} '{text}'", name.to_uppercase());
            Err(refused(&what, "it is one character of ASCII"))
        }
    }
}

/// The Boolean value of an option; an option without a value is true.
pub(super) fn boolean(name: &str, given: &Given) -> Result<bool, ParserError> {
    match given {
        Given::Nothing => Ok(true),
        Given::Text(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => Err(refused(&format!("{} {text}", name.to_uppercase()), "say true or false")),
        },
        Given::List(_) => Err(refused(&format!("a list for {name}"), "say true or false")),
    }
}

/// The columns that an option names.
pub(super) fn names(name: &str, given: &Given) -> Result<Vec<String>, ParserError> {
    match given {
        Given::List(names) => Ok(names.clone()),
        Given::Text(column) => Ok(vec![column.clone()]),
        Given::Nothing => {
            Err(refused(&format!("{} without columns", name.to_uppercase()), "name some"))
        }
    }
}

/// The error for an option that is not possible.
pub(super) fn refused(what: &str, instead: &str) -> ParserError {
    ParserError::ParserError(format!("{what} is not possible; {instead}"))
}

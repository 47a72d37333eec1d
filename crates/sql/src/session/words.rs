//! Parsing helpers for Terrace's own statements.

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

pub(super) fn is_word(token: &Token, word: &str) -> bool {
    match token {
        Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
        _ => false,
    }
}

/// Returns true if one of the verbs and then the noun follow.
pub(super) fn is_next(parser: &Parser<'_>, verbs: &[&str], noun: &str) -> bool {
    let [first, second] = [0, 1].map(|n| &parser.peek_nth_token_ref(n).token);
    is_word(second, noun) && verbs.iter().any(|verb| is_word(first, verb))
}

/// Parses a name, in lower case unless it is quoted.
pub(super) fn name(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let name = parser.parse_identifier()?;
    Ok(if name.quote_style.is_some() { name.value } else { name.value.to_ascii_lowercase() })
}

/// Parses names that are separated by commas.
pub(super) fn names(parser: &mut Parser<'_>) -> Result<Vec<String>, ParserError> {
    let mut names = vec![name(parser)?];
    while parser.consume_token(&Token::Comma) {
        names.push(name(parser)?);
    }
    Ok(names)
}

/// Consumes the words if all of them follow.
pub(super) fn take_all(parser: &mut Parser<'_>, words: &[&str]) -> bool {
    let there =
        (0..).zip(words).all(|(n, word)| is_word(&parser.peek_nth_token_ref(n).token, word));
    if there {
        words.iter().for_each(|_| parser.advance_token());
    }
    there
}

/// Parses options with their values in parentheses: `(key = 'value', ...)`.
pub(super) fn options(parser: &mut Parser<'_>) -> Result<Vec<(String, String)>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let mut options = Vec::new();
    loop {
        let key = parser.parse_identifier()?.value.to_ascii_lowercase();
        parser.expect_token(&Token::Eq)?;
        options.push((key, parser.parse_literal_string()?));
        if !parser.consume_token(&Token::Comma) {
            parser.expect_token(&Token::RParen)?;
            return Ok(options);
        }
    }
}

/// The part of a CREATE after the noun.
pub(super) struct Created {
    /// True for IF NOT EXISTS.
    pub(super) keep: bool,
    pub(super) name: String,
    pub(super) options: Vec<(String, String)>,
}

/// Parses the part of a CREATE after the noun: `[IF NOT EXISTS] name [WITH (...)]`.
pub(super) fn created(parser: &mut Parser<'_>) -> Result<Created, ParserError> {
    let keep = take_all(parser, &["if", "not", "exists"]);
    let name = name(parser)?;
    let has_options = take_all(parser, &["with"]);
    let options = if has_options { options(parser)? } else { Vec::new() };
    Ok(Created { keep, name, options })
}

/// Parses the part of a DROP after the noun: true for IF EXISTS, and the name.
pub(super) fn dropped(parser: &mut Parser<'_>) -> Result<(bool, String), ParserError> {
    let if_exists = take_all(parser, &["if", "exists"]);
    Ok((if_exists, name(parser)?))
}

/// Parses SET and the options after it; a parse error asks for `example`.
pub(super) fn set_options(
    parser: &mut Parser<'_>,
    example: &str,
) -> Result<Vec<(String, String)>, ParserError> {
    if !take_all(parser, &["set"]) {
        let next = parser.peek_token();
        return parser.expected(example, next);
    }
    options(parser)
}

/// Formats options as [`options`] parses them, without the parentheses.
pub(super) fn listed(options: &[(String, String)]) -> String {
    let quoted =
        |(key, value): &(String, String)| format!("{key} = '{}'", value.replace('\'', "''"));
    options.iter().map(quoted).collect::<Vec<_>>().join(", ")
}

pub(super) fn refused(error: ParserError) -> DataFusionError {
    DataFusionError::SQL(Box::new(error), None)
}

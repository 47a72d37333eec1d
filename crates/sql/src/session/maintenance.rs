//! Statements that maintain the store and the tables.
//!
//! ```text
//! CHECKPOINT;  VACUUM;  VACUUM orders, lines;  ANALYZE;  ANALYZE orders (o_orderkey);
//! ```
//!
//! VACUUM merges the small chunks of a table, which frees their space; the engine does the same in
//! the background for chunks that are worth it. CHECKPOINT waits until all written data is durable
//! on the device. Statistics are written with the chunks, so ANALYZE only checks its names.

use std::fmt;

use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::words::{is_word, take_all};

/// A statement that maintains the store or tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaintenanceStatement {
    /// CHECKPOINT.
    Checkpoint,
    /// VACUUM of these tables, or of all.
    Vacuum(Vec<ObjectName>),
    /// ANALYZE of these tables and columns, or of all.
    Analyze(Vec<(ObjectName, Vec<String>)>),
}

impl fmt::Display for MaintenanceStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: Vec<String>| match names.is_empty() {
            true => String::new(),
            false => format!(" {}", names.join(", ")),
        };
        match self {
            Self::Checkpoint => f.write_str("CHECKPOINT"),
            Self::Vacuum(names) => {
                write!(f, "VACUUM{}", list(names.iter().map(ToString::to_string).collect()))
            }
            Self::Analyze(names) => {
                let name = |(name, columns): &(ObjectName, Vec<String>)| {
                    let columns = columns.iter().map(|it| Ident::with_quote('"', it).to_string());
                    let columns = columns.collect::<Vec<_>>().join(", ");
                    match columns.is_empty() {
                        true => name.to_string(),
                        false => format!("{name} ({columns})"),
                    }
                };
                write!(f, "ANALYZE{}", list(names.iter().map(name).collect()))
            }
        }
    }
}

/// Returns true if a statement of this kind follows.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    let first = &parser.peek_token_ref().token;
    ["checkpoint", "vacuum", "analyze", "analyse"].iter().any(|word| is_word(first, word))
}

/// Parses the statement that [`is_next`] has found.
///
/// # Errors
/// Parser errors; for options that change what PostgreSQL's VACUUM does.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<MaintenanceStatement, ParserError> {
    let first = parser.next_token().token;
    if is_word(&first, "checkpoint") {
        return Ok(MaintenanceStatement::Checkpoint);
    }
    if is_word(&first, "vacuum") {
        take_options(parser, &["analyze", "verbose"])?;
        let tables = listed(parser)?.into_iter().map(|(name, _)| name).collect();
        return Ok(MaintenanceStatement::Vacuum(tables));
    }
    take_options(parser, &["verbose"])?;
    let _optional = take_all(parser, &["table"]);
    Ok(MaintenanceStatement::Analyze(listed(parser)?))
}

/// Consumes options that change nothing here, with or without parentheses.
fn take_options(parser: &mut Parser<'_>, known: &[&str]) -> Result<(), ParserError> {
    let take = |parser: &mut Parser<'_>| known.iter().any(|word| take_all(parser, &[word]));
    if parser.consume_token(&Token::LParen) {
        loop {
            if !take(parser) {
                let next = parser.peek_token();
                return parser.expected(&format!("one of the options {}", known.join(", ")), next);
            }
            if !parser.consume_token(&Token::Comma) {
                return parser.expect_token(&Token::RParen).map(drop);
            }
        }
    }
    while take(parser) {}
    for refused in ["full", "freeze"] {
        if take_all(parser, &[refused]) {
            return Err(ParserError::ParserError(format!(
                "VACUUM {} is not possible; say VACUUM, which already gives the space back",
                refused.to_uppercase()
            )));
        }
    }
    Ok(())
}

/// Parses the tables with their columns.
fn listed(parser: &mut Parser<'_>) -> Result<Vec<(ObjectName, Vec<String>)>, ParserError> {
    let mut tables = Vec::new();
    if matches!(parser.peek_token().token, Token::EOF | Token::SemiColon) {
        return Ok(tables);
    }
    loop {
        let name = parser.parse_object_name(false)?;
        let mut columns = Vec::new();
        if parser.consume_token(&Token::LParen) {
            columns = parser.parse_comma_separated(Parser::parse_identifier)?;
            parser.expect_token(&Token::RParen)?;
        }
        let normalizer = IdentNormalizer::default();
        let columns = columns.into_iter().map(|name| normalizer.normalize(name)).collect();
        tables.push((name, columns));
        if !parser.consume_token(&Token::Comma) {
            return Ok(tables);
        }
    }
}

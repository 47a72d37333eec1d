//! The EXPLAIN statement and its parser.
//!
//! ```text
//! EXPLAIN SELECT ...;  EXPLAIN ANALYZE SELECT ...;  EXPLAIN (ANALYZE, FORMAT SVG) SELECT ...;
//! ```
//!
//! EXPLAIN VERBOSE, and the formats INDENT, GRAPHVIZ and PGJSON, are written by DataFusion.

use std::collections::BTreeSet;
use std::fmt;

use datafusion::common::Result;
use datafusion::sql::parser::{DFParser, ExplainStatement as RawStatement, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Ident, UtilityOption};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::super::refusal::refused;
use super::super::words::{is_word, refused as not_parsed, take_all};
use super::super::{returning_clause, row_locks};
use super::options::{self, Options, Writer};

/// An EXPLAIN whose output Terrace formats, not DataFusion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainStatement {
    options: Options,
    statement: Statement,
}

impl ExplainStatement {
    /// The options, and the statement that is explained.
    pub(in super::super) fn into_parts(self) -> (Options, Statement) {
        (self.options, self.statement)
    }

    /// The options of the statement.
    pub(in super::super) fn options(&self) -> Options {
        self.options
    }

    /// The statement that is explained.
    pub(in super::super) fn statement(&self) -> &Statement {
        &self.statement
    }

    /// The statement that is explained, for rewrites.
    pub(in super::super) fn statement_mut(&mut self) -> &mut Statement {
        &mut self.statement
    }
}

impl fmt::Display for ExplainStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EXPLAIN {} {}", self.options, self.statement)
    }
}

/// A parsed EXPLAIN.
#[derive(Debug)]
pub(in super::super) enum Explained {
    /// An EXPLAIN whose output Terrace formats.
    Terrace(Box<ExplainStatement>),
    /// An EXPLAIN that DataFusion plans and formats.
    DataFusion(Box<Statement>),
}

/// True if an EXPLAIN follows.
pub(in super::super) fn is_next(parser: &Parser<'_>) -> bool {
    is_word(&parser.peek_token_ref().token, "explain")
}

/// Parses the statement that [`is_next`] has found.
///
/// # Errors
/// Parser errors; refused options, and the EXPLAIN of an EXPLAIN.
pub(in super::super) fn parse(parser: &mut DFParser<'_>) -> Result<Explained> {
    parser.parser.advance_token();
    let options = match has_list(&parser.parser) {
        true => parser.parser.parse_utility_options().map_err(not_parsed)?,
        false => words(&mut parser.parser)?,
    };
    let writer = options::read(&options)?;
    if is_next(&parser.parser) {
        return Err(refused("EXPLAIN of an EXPLAIN", "say EXPLAIN once").into());
    }
    let mut statement = parser.parse_statement()?;
    // The plan of a change is the same without its RETURNING.
    drop(returning_clause::take(&mut statement));
    Ok(match writer {
        Writer::Terrace(options) => {
            match options.runs() {
                true => row_locks::refuse(&mut statement)?,
                // The plan of a query is the same without its locks.
                false => row_locks::clear(&mut statement, &BTreeSet::new()),
            }
            Explained::Terrace(Box::new(ExplainStatement { options, statement }))
        }
        Writer::DataFusion(options) => {
            let statement = Box::new(statement);
            let raw = RawStatement { options, statement };
            Explained::DataFusion(Box::new(Statement::Explain(raw)))
        }
    })
}

/// True if a list of options follows, not a query in parentheses.
fn has_list(parser: &Parser<'_>) -> bool {
    let [open, first] = [0, 1].map(|place| &parser.peek_nth_token_ref(place).token);
    let begins_query = match first {
        Token::LParen => true,
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::TABLE | Keyword::FROM
        ),
        _ => false,
    };
    *open == Token::LParen && !begins_query
}

/// Parses the options that stand without parentheses: `ANALYZE VERBOSE FORMAT JSON`.
fn words(parser: &mut Parser<'_>) -> Result<Vec<UtilityOption>> {
    let mut options = Vec::new();
    for name in ["analyze", "verbose"] {
        if take_all(parser, &[name]) {
            options.push(UtilityOption { name: Ident::new(name), arg: None });
        }
    }
    if take_all(parser, &["format"]) {
        let token = parser.next_token();
        let format = match token.token {
            Token::Word(word) => word.value,
            Token::SingleQuotedString(text) => text,
            _ => return parser.expected("a format such as TEXT", token).map_err(not_parsed),
        };
        let arg = Some(Expr::Identifier(Ident::new(format)));
        options.push(UtilityOption { name: Ident::new("format"), arg });
    }
    Ok(options)
}

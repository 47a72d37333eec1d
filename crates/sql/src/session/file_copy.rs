//! Syntax of COPY between a table and files, as in PostgreSQL and DuckDB.
//!
//! ```text
//! COPY table [(columns)] | (query) TO 'file' [WITH] (FORMAT csv, HEADER, DELIMITER '|', ...)
//! COPY table [(columns)] FROM 'file' [WITH] (FORMAT csv, ...)
//! ```
//!
//! COPY TO becomes DataFusion's statement, whose options have the prefix `format.`.

use std::fmt;

use datafusion::sql::parser::{CopyToSource, CopyToStatement, Statement};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, Value};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::copy::{CopySource, list, source};
use super::file_option_values::refused;
use super::file_options::{FileFormat, FileOptions, read};
use super::words::{is_word, take_all};

/// A COPY FROM files into a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFrom {
    pub(super) table: ObjectName,
    /// The listed columns; empty if none are listed.
    pub(super) columns: Vec<Ident>,
    pub(super) path: String,
    pub(super) format: FileFormat,
    pub(super) options: FileOptions,
}

/// A COPY between a table and files.
pub(super) enum FileCopy {
    /// COPY FROM.
    In(Box<CopyFrom>),
    /// COPY TO, as DataFusion's statement.
    Out(Box<Statement>),
}

/// Returns true if a COPY from or to files follows that this module parses. `COPY ... TO 'file'
/// STORED AS` is DataFusion's.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    if !is_word(&parser.peek_nth_token_ref(0).token, "copy") {
        return false;
    }
    let mut depth = 0_usize;
    for place in 1.. {
        match parser.peek_nth_token(place).token {
            Token::EOF | Token::SemiColon => return false,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            token if depth == 0 && (is_word(&token, "from") || is_word(&token, "to")) => {
                let [path, next] = [1, 2].map(|n| parser.peek_nth_token(place + n).token);
                let is_of_datafusion = ["stored", "partitioned", "options"];
                let is_path = matches!(path, Token::SingleQuotedString(_));
                let is_program = is_word(&path, "program");
                return is_program
                    || is_path && !is_of_datafusion.iter().any(|it| is_word(&next, it));
            }
            _ => {}
        }
    }
    false
}

/// Parses a COPY from or to files.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<FileCopy, ParserError> {
    let source = source(parser)?;
    let is_in = take_all(parser, &["from"]);
    if !is_in && !take_all(parser, &["to"]) {
        return parser.expected("FROM or TO", parser.peek_token());
    }
    if take_all(parser, &["program"]) {
        return Err(refused("COPY FROM or TO PROGRAM", "name a file"));
    }
    let path = parser.parse_literal_string()?;
    let (format, options) = read(parser, is_in, &path)?;
    match (source, is_in) {
        (CopySource::Table(table, columns), true) => {
            let copy = CopyFrom { table, columns, path, format, options };
            Ok(FileCopy::In(Box::new(copy)))
        }
        (CopySource::Query(_), true) => Err(refused("COPY of a query FROM a file", "name a table")),
        (source, false) => copy_to(source, path, format, options),
    }
}

/// The statement of DataFusion for a COPY TO.
///
/// # Errors
/// Errors of the parser.
pub(super) fn copy_to(
    source: CopySource,
    target: String,
    format: FileFormat,
    options: FileOptions,
) -> Result<FileCopy, ParserError> {
    let source = match source {
        CopySource::Query(query) => CopyToSource::Query(query),
        CopySource::Table(name, columns) if columns.is_empty() => CopyToSource::Relation(name),
        CopySource::Table(name, columns) => CopyToSource::Query(of_columns(&name, &columns)?),
    };
    let text = |(key, value): (String, String)| (key, Value::SingleQuotedString(value));
    let statement = CopyToStatement {
        source,
        target,
        partitioned_by: options.partition_by.clone(),
        stored_as: Some(format.stored_as().to_owned()),
        options: options.into_pairs(format).into_iter().map(text).collect(),
    };
    Ok(FileCopy::Out(Box::new(Statement::CopyTo(statement))))
}

/// The query that selects columns of a table.
fn of_columns(name: &ObjectName, columns: &[Ident]) -> Result<Box<Query>, ParserError> {
    let text = format!("SELECT {} FROM {name}", list(columns));
    Parser::new(&super::dialect::TerraceDialect).try_with_sql(&text)?.parse_query()
}

impl fmt::Display for CopyFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "COPY {}", self.table)?;
        if !self.columns.is_empty() {
            write!(f, " ({})", list(&self.columns))?;
        }
        write!(f, " FROM '{}'", self.path.replace('\'', "''"))
    }
}

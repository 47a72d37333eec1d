//! Parsing of statements.

use datafusion::sql::parser::DFParserBuilder;
use terrace_table::error::SqlError;

use super::dialect::TerraceDialect;
use super::normalize::{self, Place};
use super::statement::SessionStatement;
use super::{depth, hint, spelling, statement, words};

/// Parses a text into normalized statements.
pub(crate) fn parse(text: &str) -> Result<Vec<SessionStatement>, SqlError> {
    depth::parse_on_stack(text, || {
        let tokens = spelling::tokens(text).map_err(words::refused);
        let parser = tokens.and_then(|tokens| {
            DFParserBuilder::new(tokens)
                .with_dialect(&TerraceDialect)
                .with_recursion_limit(depth::PARSER_DEPTH_MAX)
                .build()
        });
        let statements = parser.and_then(statement::parse);
        let statements = statements.map_err(|error| hint::of_parse_error(text, error))?;
        let mut normalized = Vec::with_capacity(statements.len());
        for mut statement in statements {
            let place = match &statement {
                SessionStatement::Cursor(_) => Some(Place::Cursor),
                SessionStatement::Summarize(_) => Some(Place::Inside),
                _ => None,
            };
            if let Some(statement) = statement.planned_mut() {
                let place = place.unwrap_or_else(|| Place::of(statement));
                depth::check(normalize::normalize(statement, place)?)?;
            }
            normalized.push(statement);
        }
        Ok(normalized)
    })
}

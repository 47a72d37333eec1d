//! Cursors: queries by a name, whose rows a client of a server takes as it goes.
//!
//! ```text
//! DECLARE name [BINARY] [ASENSITIVE | INSENSITIVE] [NO SCROLL] CURSOR
//!     [WITH HOLD | WITHOUT HOLD] FOR query
//! FETCH [steps] [FROM | IN] name
//! MOVE [steps] [FROM | IN] name
//! CLOSE name
//! ```
//!
//! Steps are `NEXT`, a number, `ALL`, `FORWARD`, `FORWARD` with a number or `ALL`, and those that
//! begin again: `FIRST`, `ABSOLUTE` with a number, and `BACKWARD ALL`. Others go back, and are not
//! possible.

use std::fmt;

use datafusion::common::Result;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::statement::{SessionStatement, refused};
use super::words::{is_word, take_all};
use crate::error::SqlError;

/// A statement about a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorStatement {
    /// The name of the cursor.
    pub name: String,
    /// The action.
    pub action: CursorAction,
}

/// An action of a statement about a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CursorAction {
    /// Begins its query.
    Declare {
        /// Its rows are sent in binary formats.
        is_binary: bool,
        /// It outlives the transaction that it is declared in.
        is_held: bool,
        /// The query.
        query: Box<Statement>,
    },
    /// Returns rows.
    Fetch(Steps),
    /// Passes rows over.
    Move(Steps),
    /// Ends it.
    Close,
}

/// Rows that a statement returns or passes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The cursor begins again before, and passes so many rows over.
    pub begins_after: Option<u64>,
    /// Number of rows; none stands for all that are left.
    pub rows: Option<u64>,
}

impl Steps {
    /// So many rows from where the cursor is.
    fn forward(rows: u64) -> Self {
        Self { begins_after: None, rows: Some(rows) }
    }

    /// The row of a number, the first of which is 1.
    fn absolute(number: u64) -> Self {
        let rows = Some(number.min(1));
        Self { begins_after: Some(number.saturating_sub(1)), rows }
    }

    /// True of more rows than a limit, where there is one: 0 and less stand for none.
    #[must_use]
    pub fn is_beyond(&self, limit: i32) -> bool {
        let limit = u64::try_from(limit).unwrap_or(0);
        limit > 0 && self.rows.is_none_or(|rows| rows > limit)
    }

    /// All rows that are left.
    const ALL: Self = Self { begins_after: None, rows: None };
}

impl CursorStatement {
    /// The query of a DECLARE, as a statement.
    #[must_use]
    pub fn query(&self) -> Option<SessionStatement> {
        let CursorAction::Declare { query, .. } = &self.action else { return None };
        Some(SessionStatement::Sql(query.clone()))
    }
}

impl CursorStatement {
    /// The error of a statement outside of a server's connection.
    pub(super) fn refused(&self) -> SqlError {
        SqlError::Refused {
            what: format!("{self} without a connection that keeps the cursor"),
            instead: "run the query itself, or use a client of `terrace serve`".to_owned(),
        }
    }

    /// The query of a DECLARE.
    pub(super) fn query_mut(&mut self) -> Option<&mut Statement> {
        match &mut self.action {
            CursorAction::Declare { query, .. } => Some(query),
            _ => None,
        }
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.begins_after, self.rows) {
            (None, None) => f.write_str("ALL"),
            (None, Some(rows)) => write!(f, "FORWARD {rows}"),
            (Some(passed), Some(rows)) => write!(f, "ABSOLUTE {}", passed.saturating_add(rows)),
            (Some(_), None) => f.write_str("BACKWARD ALL"),
        }
    }
}

impl fmt::Display for CursorStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("\"{}\"", self.name.replace('"', "\"\""));
        match &self.action {
            CursorAction::Declare { is_binary, is_held, query } => {
                let binary = if *is_binary { " BINARY" } else { "" };
                let hold = if *is_held { " WITH HOLD" } else { "" };
                write!(f, "DECLARE {name}{binary} CURSOR{hold} FOR {query}")
            }
            CursorAction::Fetch(steps) => write!(f, "FETCH {steps} FROM {name}"),
            CursorAction::Move(steps) => write!(f, "MOVE {steps} FROM {name}"),
            CursorAction::Close => write!(f, "CLOSE {name}"),
        }
    }
}

/// True if a statement about one cursor follows. `CLOSE ALL` is about all of them.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    let [first, second] = [0, 1].map(|n| parser.peek_nth_token(n).token);
    ["declare", "fetch", "move"].iter().any(|verb| is_word(&first, verb))
        || (is_word(&first, "close") && !is_word(&second, "all"))
}

/// Reads a statement about a cursor.
pub(super) fn parse(parser: &mut DFParser<'_>) -> Result<CursorStatement> {
    if take_all(&mut parser.parser, &["declare"]) {
        let (name, is_binary, is_held) = declared(&mut parser.parser).map_err(refused)?;
        let next = parser.parser.peek_token();
        let query = Box::new(parser.parse_statement()?);
        if !is_query(&query) {
            return parser.parser.expected("a query", next).map_err(refused);
        }
        let action = CursorAction::Declare { is_binary, is_held, query };
        return Ok(CursorStatement { name, action });
    }
    used(&mut parser.parser).map_err(refused)
}

fn is_query(statement: &Statement) -> bool {
    let Statement::Statement(statement) = statement else { return false };
    matches!(statement.as_ref(), SqlStatement::Query(_))
}

/// Reads a DECLARE up to its query.
fn declared(parser: &mut Parser<'_>) -> Result<(String, bool, bool), ParserError> {
    let name = name(parser)?;
    let is_binary = take_all(parser, &["binary"]);
    let _as_ever = take_all(parser, &["insensitive"]) || take_all(parser, &["asensitive"]);
    let next = parser.peek_token();
    if take_all(parser, &["scroll"]) {
        return parser.expected("CURSOR: cursors go forward, and SCROLL is not possible", next);
    }
    let _as_ever = take_all(parser, &["no", "scroll"]);
    expect(parser, "cursor")?;
    let is_held = take_all(parser, &["with", "hold"]);
    let _as_ever = take_all(parser, &["without", "hold"]);
    expect(parser, "for")?;
    Ok((name, is_binary, is_held))
}

/// FETCH, MOVE and CLOSE.
fn used(parser: &mut Parser<'_>) -> Result<CursorStatement, ParserError> {
    if take_all(parser, &["close"]) {
        return Ok(CursorStatement { name: name(parser)?, action: CursorAction::Close });
    }
    let moves = take_all(parser, &["move"]);
    if !moves {
        expect(parser, "fetch")?;
    }
    let steps = steps(parser)?;
    let _optional = take_all(parser, &["from"]) || take_all(parser, &["in"]);
    let name = name(parser)?;
    let action = if moves { CursorAction::Move(steps) } else { CursorAction::Fetch(steps) };
    Ok(CursorStatement { name, action })
}

fn steps(parser: &mut Parser<'_>) -> Result<Steps, ParserError> {
    let next = parser.peek_token();
    if matches!(next.token, Token::Number(..)) {
        return some(parser).map(Steps::forward);
    }
    // A cursor may have the name of a step.
    if is_end(&parser.peek_nth_token(1).token) && !is_end(&next.token) {
        return Ok(Steps::forward(1));
    }
    if take_all(parser, &["next"]) {
        return Ok(Steps::forward(1));
    }
    if take_all(parser, &["first"]) {
        return Ok(Steps::absolute(1));
    }
    if take_all(parser, &["absolute"]) {
        return Ok(Steps::absolute(parser.parse_literal_uint()?));
    }
    if take_all(parser, &["all"]) || take_all(parser, &["forward", "all"]) {
        return Ok(Steps::ALL);
    }
    if take_all(parser, &["backward", "all"]) {
        return Ok(Steps::absolute(0));
    }
    if take_all(parser, &["forward"]) || take_all(parser, &["relative"]) {
        return match parser.peek_token_ref().token {
            Token::Number(..) => some(parser).map(Steps::forward),
            _ => Ok(Steps::forward(1)),
        };
    }
    if is_word(&next.token, "from") || is_word(&next.token, "in") {
        return Ok(Steps::forward(1));
    }
    parser.expected(
        "NEXT, a number of rows, ALL, FIRST, ABSOLUTE with a number or BACKWARD ALL: cursors go \
         forward",
        next,
    )
}

/// A number of rows; 0 would be the row where the cursor is.
fn some(parser: &mut Parser<'_>) -> Result<u64, ParserError> {
    let next = parser.peek_token();
    match parser.parse_literal_uint()? {
        0 => parser.expected("a number of rows from 1", next),
        rows => Ok(rows),
    }
}

/// True of what follows a statement.
fn is_end(token: &Token) -> bool {
    matches!(token, Token::EOF | Token::SemiColon)
}

fn expect(parser: &mut Parser<'_>, word: &str) -> Result<(), ParserError> {
    let next = parser.peek_token();
    match take_all(parser, &[word]) {
        true => Ok(()),
        false => parser.expected(&word.to_ascii_uppercase(), next),
    }
}

/// A name, in the case that it would have in a query.
fn name(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    Ok(IdentNormalizer::default().normalize(parser.parse_identifier()?))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParserBuilder;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

    use super::*;

    fn parsed(text: &str) -> Result<CursorStatement> {
        let dialect = PostgreSqlDialect {};
        let mut parser = DFParserBuilder::new(text).with_dialect(&dialect).build()?;
        assert!(is_next(&parser.parser), "{text}");
        parse(&mut parser)
    }

    #[test]
    fn statements_are_those_of_postgresql() -> Result<()> {
        let cases = [
            ("DECLARE C CURSOR FOR SELECT 1", "DECLARE \"c\" CURSOR FOR SELECT 1"),
            (
                "declare \"C d\" binary insensitive no scroll cursor with hold for VALUES (1)",
                "DECLARE \"C d\" BINARY CURSOR WITH HOLD FOR VALUES (1)",
            ),
            ("FETCH c", "FETCH FORWARD 1 FROM \"c\""),
            ("FETCH next", "FETCH FORWARD 1 FROM \"next\""),
            ("FETCH FROM c", "FETCH FORWARD 1 FROM \"c\""),
            ("FETCH FORWARD FROM c", "FETCH FORWARD 1 FROM \"c\""),
            ("FETCH FORWARD 7 IN c", "FETCH FORWARD 7 FROM \"c\""),
            ("FETCH 100 FROM c1", "FETCH FORWARD 100 FROM \"c1\""),
            ("FETCH ALL c", "FETCH ALL FROM \"c\""),
            ("FETCH FIRST FROM c", "FETCH ABSOLUTE 1 FROM \"c\""),
            ("MOVE FORWARD ALL IN c", "MOVE ALL FROM \"c\""),
            ("MOVE BACKWARD ALL IN c", "MOVE ABSOLUTE 0 FROM \"c\""),
            ("MOVE ABSOLUTE 9 c", "MOVE ABSOLUTE 9 FROM \"c\""),
            ("CLOSE c", "CLOSE \"c\""),
        ];
        for (text, expected) in cases {
            assert_eq!(parsed(text)?.to_string(), expected, "{text}");
        }
        Ok(())
    }

    #[test]
    fn steps_back_are_refused() {
        let cases = [
            ("FETCH PRIOR FROM c", "cursors go forward"),
            ("FETCH BACKWARD 2 FROM c", "cursors go forward"),
            ("FETCH -1 FROM c", "cursors go forward"),
            ("FETCH LAST FROM c", "cursors go forward"),
            ("FETCH 0 FROM c", "from 1"),
            ("DECLARE c SCROLL CURSOR FOR SELECT 1", "SCROLL is not possible"),
            ("DECLARE c CURSOR FOR DELETE FROM t", "a query"),
        ];
        for (text, said) in cases {
            let error = parsed(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}

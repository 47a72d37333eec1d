//! Cursors: named queries whose rows a client of a server fetches step by step.
//!
//! ```text
//! DECLARE name [BINARY] [ASENSITIVE | INSENSITIVE] [NO SCROLL] CURSOR
//!     [WITH HOLD | WITHOUT HOLD] FOR query
//! FETCH [steps] [FROM | IN] name
//! MOVE [steps] [FROM | IN] name
//! CLOSE name
//! ```
//!
//! Steps are `NEXT`, a number, `ALL`, `FORWARD`, `FORWARD` with a number or `ALL`, `RELATIVE` with
//! a number, and those that restart the query: `FIRST`, `ABSOLUTE` with a number, and `MOVE
//! BACKWARD ALL`. Other steps go backward, and are not supported.

use std::fmt;

use datafusion::common::Result;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use terrace_table::error::SqlError;

use super::words::{is_word, refused, take_all};

/// A statement about a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorStatement {
    /// Name of the cursor.
    pub name: String,
    /// Action of the statement.
    pub action: CursorAction,
}

/// An action of a statement about a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CursorAction {
    /// Declares the cursor and starts its query.
    Declare {
        /// True if its rows are sent in binary format.
        is_binary: bool,
        /// True for WITH HOLD: it outlives its transaction.
        is_held: bool,
        /// The query.
        query: Box<Statement>,
    },
    /// Returns rows.
    Fetch(Steps),
    /// Skips rows.
    Move(Steps),
    /// Closes the cursor.
    Close,
}

/// Rows that a statement returns or skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// True if the query is restarted first.
    pub restarts: bool,
    /// Number of rows to skip first.
    pub skipped: u64,
    /// Number of rows; `None` for all remaining rows.
    pub rows: Option<u64>,
}

impl Steps {
    /// The next `rows` rows.
    fn forward(rows: u64) -> Self {
        Self { restarts: false, skipped: 0, rows: Some(rows) }
    }

    /// The row `rows` rows further on.
    fn relative(rows: u64) -> Self {
        Self { restarts: false, skipped: rows.saturating_sub(1), rows: Some(1) }
    }

    /// The row with this number, counted from 1.
    fn absolute(number: u64) -> Self {
        Self { restarts: true, skipped: number.saturating_sub(1), rows: Some(number.min(1)) }
    }

    /// Returns true for more rows than `limit`; a limit of 0 or less is no limit.
    #[must_use]
    pub fn is_beyond(&self, limit: i32) -> bool {
        let limit = u64::try_from(limit).unwrap_or(0);
        limit > 0 && self.rows.is_none_or(|rows| rows > limit)
    }

    /// All remaining rows.
    const ALL: Self = Self { restarts: false, skipped: 0, rows: None };
}

impl CursorStatement {
    /// The error for a cursor statement outside of a server's connection.
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
        match (self.restarts, self.skipped, self.rows) {
            (_, _, None) => f.write_str("ALL"),
            (false, 0, Some(rows)) => write!(f, "FORWARD {rows}"),
            (false, skipped, Some(rows)) => write!(f, "RELATIVE {}", skipped.saturating_add(rows)),
            (true, skipped, Some(rows)) => write!(f, "ABSOLUTE {}", skipped.saturating_add(rows)),
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

/// Parses a statement about a cursor.
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

/// Parses a DECLARE up to its query.
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

/// Parses FETCH, MOVE and CLOSE.
fn used(parser: &mut Parser<'_>) -> Result<CursorStatement, ParserError> {
    if take_all(parser, &["close"]) {
        return Ok(CursorStatement { name: name(parser)?, action: CursorAction::Close });
    }
    let moves = take_all(parser, &["move"]);
    if !moves {
        expect(parser, "fetch")?;
    }
    let steps = steps(parser, moves)?;
    let _optional = take_all(parser, &["from"]) || take_all(parser, &["in"]);
    let name = name(parser)?;
    let action = if moves { CursorAction::Move(steps) } else { CursorAction::Fetch(steps) };
    Ok(CursorStatement { name, action })
}

fn steps(parser: &mut Parser<'_>, moves: bool) -> Result<Steps, ParserError> {
    let next = parser.peek_token();
    if matches!(next.token, Token::Number(..)) {
        return some(parser).map(Steps::forward);
    }
    // A cursor may be named like a step.
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
    if moves && take_all(parser, &["backward", "all"]) {
        return Ok(Steps::absolute(0));
    }
    if take_all(parser, &["relative"]) {
        return some(parser).map(Steps::relative);
    }
    if take_all(parser, &["forward"]) {
        return match parser.peek_token_ref().token {
            Token::Number(..) => some(parser).map(Steps::forward),
            _ => Ok(Steps::forward(1)),
        };
    }
    if is_word(&next.token, "from") || is_word(&next.token, "in") {
        return Ok(Steps::forward(1));
    }
    parser.expected(
        "NEXT, a number of rows, ALL, FIRST, ABSOLUTE or RELATIVE with a number, or MOVE BACKWARD \
         ALL: cursors go forward",
        next,
    )
}

/// Parses a number of rows; 0 would be the row at the cursor's position.
fn some(parser: &mut Parser<'_>) -> Result<u64, ParserError> {
    let next = parser.peek_token();
    let rows = if next.token == Token::Minus { 0 } else { parser.parse_literal_uint()? };
    match rows {
        0 => parser.expected("a number of rows from 1: cursors go forward", next),
        rows => Ok(rows),
    }
}

/// True for a token that ends a statement.
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

/// Parses a name, normalized as in a query.
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
            ("FETCH RELATIVE 1 FROM c", "FETCH FORWARD 1 FROM \"c\""),
            ("FETCH RELATIVE 5 FROM c", "FETCH RELATIVE 5 FROM \"c\""),
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
            ("FETCH BACKWARD ALL FROM c", "cursors go forward"),
            ("FETCH RELATIVE 0 FROM c", "from 1"),
            ("FETCH RELATIVE -1 FROM c", "cursors go forward"),
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

//! Cursor statements. A cursor is a named query whose rows a client of the server fetches in parts.
//!
//! ```text
//! DECLARE name [BINARY] [ASENSITIVE | INSENSITIVE] [[NO] SCROLL] CURSOR
//!     [WITH HOLD | WITHOUT HOLD] FOR query
//! FETCH [steps] [FROM | IN] name
//! MOVE [steps] [FROM | IN] name
//! CLOSE name
//! ```
//!
//! Steps are `NEXT`, `PRIOR`, `FIRST`, `LAST`, `ABSOLUTE n`, `RELATIVE n`, `n`, `ALL`, and
//! `FORWARD` or `BACKWARD`, alone or with `n` or `ALL`; `n` may have a sign.

use std::fmt;

use datafusion::common::{Result, not_impl_err};
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use terrace_table::error::SqlError;

use super::row_locks;
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
        /// The options before FOR.
        options: CursorOptions,
        /// The query.
        query: Box<Statement>,
    },
    /// Moves the cursor and returns the rows.
    Fetch(Steps),
    /// Moves the cursor without returning rows.
    Move(Steps),
    /// Closes the cursor.
    Close,
}

/// Options of a cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorOptions {
    /// True if its rows are sent in binary format.
    pub is_binary: bool,
    /// True for WITH HOLD: it outlives its transaction.
    pub is_held: bool,
    /// True for SCROLL: the cursor moves backward as well; false for NO SCROLL; `None` if the
    /// statement has neither.
    pub scrolls: Option<bool>,
    /// Two options of the statement that exclude each other: the declaration fails with an error
    /// that names them.
    pub contradiction: Option<(&'static str, &'static str)>,
}

/// Rows that a FETCH returns or a MOVE skips, relative to the cursor's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// The next rows: a number of them, or all if `None`. 0 is the row at the cursor's position
    /// again.
    Forward(Option<u64>),
    /// The previous rows, the nearest first: a number of them, or all if `None`. 0 is the row at
    /// the cursor's position again.
    Backward(Option<u64>),
    /// The row of this number, counted from 1; from the end, if it is negative. 0 is the position
    /// before the first row.
    Absolute(i64),
    /// The row at this distance after the cursor's position; before it, if negative.
    Relative(i64),
}

impl Steps {
    /// Returns true if at least `limit` rows may be returned. A `limit` of 0 or less is no limit,
    /// which is never reached.
    #[must_use]
    pub fn reaches(&self, limit: i32) -> bool {
        let rows = match self {
            Self::Forward(rows) | Self::Backward(rows) => rows.map(|rows| rows.max(1)),
            Self::Absolute(_) | Self::Relative(_) => Some(1),
        };
        let limit = u64::try_from(limit).unwrap_or(0);
        limit > 0 && rows.is_none_or(|rows| rows >= limit)
    }

    /// Moves `rows` rows forward, or backward if the number is negative.
    fn forward(rows: i64) -> Self {
        let count = Some(rows.unsigned_abs());
        if rows < 0 { Self::Backward(count) } else { Self::Forward(count) }
    }

    /// Moves `rows` rows backward, or forward if the number is negative.
    fn backward(rows: i64) -> Self {
        let count = Some(rows.unsigned_abs());
        if rows < 0 { Self::Forward(count) } else { Self::Backward(count) }
    }
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
        match self {
            Self::Forward(None) => f.write_str("ALL"),
            Self::Forward(Some(rows)) => write!(f, "FORWARD {rows}"),
            Self::Backward(None) => f.write_str("BACKWARD ALL"),
            Self::Backward(Some(rows)) => write!(f, "BACKWARD {rows}"),
            Self::Absolute(number) => write!(f, "ABSOLUTE {number}"),
            Self::Relative(rows) => write!(f, "RELATIVE {rows}"),
        }
    }
}

impl fmt::Display for CursorStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("\"{}\"", self.name.replace('"', "\"\""));
        match &self.action {
            CursorAction::Declare { options, query } => {
                let binary = if options.is_binary { " BINARY" } else { "" };
                let scroll = match options.scrolls {
                    None => "",
                    Some(true) => " SCROLL",
                    Some(false) => " NO SCROLL",
                };
                let hold = if options.is_held { " WITH HOLD" } else { "" };
                write!(f, "DECLARE {name}{binary}{scroll} CURSOR{hold} FOR {query}")
            }
            CursorAction::Fetch(steps) => write!(f, "FETCH {steps} FROM {name}"),
            CursorAction::Move(steps) => write!(f, "MOVE {steps} FROM {name}"),
            CursorAction::Close => write!(f, "CLOSE {name}"),
        }
    }
}

/// True if a statement about one cursor follows. `CLOSE ALL` is about all of them.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    let [first, second] = [0, 1].map(|n| &parser.peek_nth_token_ref(n).token);
    ["declare", "fetch", "move"].iter().any(|verb| is_word(first, verb))
        || (is_word(first, "close") && !is_word(second, "all"))
}

/// Parses a statement about a cursor.
pub(super) fn parse(parser: &mut DFParser<'_>) -> Result<CursorStatement> {
    if take_all(&mut parser.parser, &["declare"]) {
        let (name, options) = declared(&mut parser.parser).map_err(refused)?;
        let next = parser.parser.peek_token();
        let query = Box::new(parser.parse_statement()?);
        if !is_query(&query) {
            return parser.parser.expected("a query", next).map_err(refused);
        }
        if (options.is_held || options.scrolls == Some(true)) && row_locks::are_in(&query) {
            let option = if options.is_held { "WITH HOLD" } else { "SCROLL" };
            return not_impl_err!(
                "DECLARE CURSOR {option} ... FOR UPDATE is not possible; leave one of them out: \
                 rows are locked to the end of their transaction"
            );
        }
        let action = CursorAction::Declare { options, query };
        return Ok(CursorStatement { name, action });
    }
    used(&mut parser.parser).map_err(refused)
}

fn is_query(statement: &Statement) -> bool {
    let Statement::Statement(statement) = statement else { return false };
    matches!(statement.as_ref(), SqlStatement::Query(_))
}

/// Parses a DECLARE up to its query. The options before CURSOR come in any order.
fn declared(parser: &mut Parser<'_>) -> Result<(String, CursorOptions), ParserError> {
    let name = name(parser)?;
    let mut options = CursorOptions::default();
    let (mut is_insensitive, mut is_asensitive) = (false, false);
    while !take_all(parser, &["cursor"]) {
        let next = parser.peek_token();
        let scrolls = if take_all(parser, &["no", "scroll"]) {
            Some(false)
        } else if take_all(parser, &["scroll"]) {
            Some(true)
        } else {
            None
        };
        if scrolls.is_some() {
            if options.scrolls.is_some_and(|known| Some(known) != scrolls) {
                options.contradiction = Some(("SCROLL", "NO SCROLL"));
            }
            options.scrolls = scrolls;
        } else if take_all(parser, &["binary"]) {
            options.is_binary = true;
        } else if take_all(parser, &["insensitive"]) {
            is_insensitive = true;
        } else if take_all(parser, &["asensitive"]) {
            is_asensitive = true;
        } else {
            return parser.expected("CURSOR", next);
        }
    }
    // No cursor sees changes after its declaration, whichever of the two is said.
    if is_insensitive && is_asensitive {
        options.contradiction.get_or_insert(("ASENSITIVE", "INSENSITIVE"));
    }
    options.is_held = take_all(parser, &["with", "hold"]);
    let _default = !options.is_held && take_all(parser, &["without", "hold"]);
    expect(parser, "for")?;
    Ok((name, options))
}

/// Parses FETCH, MOVE or CLOSE.
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
    if has_number(parser) {
        return number(parser).map(Steps::forward);
    }
    // A cursor may be named like a step.
    let [next, second] = [0, 1].map(|n| parser.peek_nth_token(n).token);
    if is_end(&second) && !is_end(&next) {
        return Ok(Steps::forward(1));
    }
    let known = [
        ("next", Steps::forward(1)),
        ("prior", Steps::backward(1)),
        ("first", Steps::Absolute(1)),
        ("last", Steps::Absolute(-1)),
        ("all", Steps::Forward(None)),
    ];
    if let Some((_, steps)) = known.iter().find(|(word, _)| take_all(parser, &[*word])) {
        return Ok(*steps);
    }
    if take_all(parser, &["absolute"]) {
        return number(parser).map(Steps::Absolute);
    }
    if take_all(parser, &["relative"]) {
        return number(parser).map(Steps::Relative);
    }
    if take_all(parser, &["forward"]) {
        return several(parser, Steps::forward, Steps::Forward(None));
    }
    if take_all(parser, &["backward"]) {
        return several(parser, Steps::backward, Steps::Backward(None));
    }
    // The name of the cursor, or FROM.
    Ok(Steps::forward(1))
}

/// Parses a number of rows, ALL, or nothing, which is one row.
fn several(
    parser: &mut Parser<'_>,
    some: impl Fn(i64) -> Steps,
    all: Steps,
) -> Result<Steps, ParserError> {
    if has_number(parser) {
        return number(parser).map(some);
    }
    Ok(if take_all(parser, &["all"]) { all } else { some(1) })
}

/// True if a number follows, with or without a sign.
fn has_number(parser: &Parser<'_>) -> bool {
    matches!(parser.peek_token().token, Token::Number(..) | Token::Minus | Token::Plus)
}

/// Parses a number of rows, which may have a sign.
fn number(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let is_negative = parser.consume_token(&Token::Minus);
    let _sign = !is_negative && parser.consume_token(&Token::Plus);
    let next = parser.peek_token();
    let Ok(rows) = i64::try_from(parser.parse_literal_uint()?) else {
        return parser.expected("a number of rows below 2^63", next);
    };
    Ok(if is_negative { -rows } else { rows })
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
                "DECLARE \"C d\" BINARY NO SCROLL CURSOR WITH HOLD FOR VALUES (1)",
            ),
            (
                "DECLARE c SCROLL ASENSITIVE BINARY CURSOR WITHOUT HOLD FOR SELECT 1",
                "DECLARE \"c\" BINARY SCROLL CURSOR FOR SELECT 1",
            ),
            ("FETCH c", "FETCH FORWARD 1 FROM \"c\""),
            ("FETCH next", "FETCH FORWARD 1 FROM \"next\""),
            ("FETCH prior", "FETCH FORWARD 1 FROM \"prior\""),
            ("FETCH FROM c", "FETCH FORWARD 1 FROM \"c\""),
            ("FETCH FORWARD FROM c", "FETCH FORWARD 1 FROM \"c\""),
            ("FETCH FORWARD 7 IN c", "FETCH FORWARD 7 FROM \"c\""),
            ("FETCH FORWARD -7 IN c", "FETCH BACKWARD 7 FROM \"c\""),
            ("FETCH 100 FROM c1", "FETCH FORWARD 100 FROM \"c1\""),
            ("FETCH -1 c1", "FETCH BACKWARD 1 FROM \"c1\""),
            ("FETCH + 2 FROM c", "FETCH FORWARD 2 FROM \"c\""),
            ("FETCH 0 FROM c", "FETCH FORWARD 0 FROM \"c\""),
            ("FETCH ALL c", "FETCH ALL FROM \"c\""),
            ("FETCH PRIOR FROM c", "FETCH BACKWARD 1 FROM \"c\""),
            ("FETCH BACKWARD c", "FETCH BACKWARD 1 FROM \"c\""),
            ("FETCH BACKWARD 2 FROM c", "FETCH BACKWARD 2 FROM \"c\""),
            ("FETCH BACKWARD -2 FROM c", "FETCH FORWARD 2 FROM \"c\""),
            ("FETCH BACKWARD ALL FROM c", "FETCH BACKWARD ALL FROM \"c\""),
            ("FETCH FIRST FROM c", "FETCH ABSOLUTE 1 FROM \"c\""),
            ("FETCH LAST c", "FETCH ABSOLUTE -1 FROM \"c\""),
            ("MOVE FORWARD ALL IN c", "MOVE ALL FROM \"c\""),
            ("MOVE BACKWARD ALL IN c", "MOVE BACKWARD ALL FROM \"c\""),
            ("MOVE ABSOLUTE 9 c", "MOVE ABSOLUTE 9 FROM \"c\""),
            ("MOVE ABSOLUTE -9 c", "MOVE ABSOLUTE -9 FROM \"c\""),
            ("FETCH RELATIVE 5 FROM c", "FETCH RELATIVE 5 FROM \"c\""),
            ("FETCH RELATIVE -5 FROM c", "FETCH RELATIVE -5 FROM \"c\""),
            ("CLOSE c", "CLOSE \"c\""),
        ];
        for (text, expected) in cases {
            assert_eq!(parsed(text)?.to_string(), expected, "{text}");
        }
        Ok(())
    }

    #[test]
    fn other_statements_are_refused() {
        let cases = [
            ("FETCH RELATIVE 1.5 FROM c", "1.5"),
            ("FETCH ABSOLUTE FROM c", "FROM"),
            ("FETCH 9223372036854775808 FROM c", "below 2^63"),
            ("FETCH - FROM c", "FROM"),
            ("DECLARE c QUICK CURSOR FOR SELECT 1", "CURSOR"),
            ("DECLARE c CURSOR FOR DELETE FROM t", "a query"),
        ];
        for (text, said) in cases {
            let error = parsed(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn contradictions_are_kept_for_the_declaration() -> Result<()> {
        for (options, expected) in [
            ("SCROLL NO SCROLL", Some(("SCROLL", "NO SCROLL"))),
            ("NO SCROLL BINARY SCROLL", Some(("SCROLL", "NO SCROLL"))),
            ("INSENSITIVE ASENSITIVE", Some(("ASENSITIVE", "INSENSITIVE"))),
            ("SCROLL SCROLL INSENSITIVE", None),
        ] {
            let CursorAction::Declare { options: found, .. } =
                parsed(&format!("DECLARE c {options} CURSOR FOR SELECT 1"))?.action
            else {
                panic!("{options}");
            };
            assert_eq!(found.contradiction, expected, "{options}");
        }
        Ok(())
    }

    #[test]
    fn limits_are_reached_by_as_many_rows() {
        for (steps, limit, reaches) in [
            (Steps::Forward(Some(3)), 3, true),
            (Steps::Forward(Some(3)), 4, false),
            (Steps::Backward(None), i32::MAX, true),
            (Steps::Forward(Some(0)), 1, true),
            (Steps::Absolute(9), 1, true),
            (Steps::Relative(-9), 2, false),
            (Steps::Forward(None), 0, false),
        ] {
            assert_eq!(steps.reaches(limit), reaches, "{steps} {limit}");
        }
    }
}

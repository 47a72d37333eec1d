//! Statements about heaps and the placement of tables.
//!
//! ```text
//! CREATE HEAP [IF NOT EXISTS] far WITH (memory = 'file', size = '4GiB', dram = '64MiB');
//! DROP HEAP [IF EXISTS] far;
//! ALTER TABLE orders [COLUMN o_comment] [CHUNK 3] SET TIER far;
//! ```
//!
//! `pool` is the initial tier of all segments; `auto` lets the engine choose. Heaps and the
//! placement of tables are lost when the engine closes.

use std::fmt;

use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::words::{self, Created, is_word, listed, name, take_all};

/// A statement about a heap, or the placement of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeapStatement {
    /// CREATE HEAP.
    Create {
        /// Name of the heap.
        name: String,
        /// True for IF NOT EXISTS.
        keep: bool,
        /// Options with their values.
        options: Vec<(String, String)>,
    },
    /// DROP HEAP; the heap's contents go back to the pool.
    Drop {
        /// Name of the heap.
        name: String,
        /// True for IF EXISTS.
        if_exists: bool,
    },
    /// ALTER TABLE ... SET TIER: places segments of a table.
    SetTier {
        /// The schema, if it is given.
        schema: Option<String>,
        /// The table.
        table: String,
        /// The only column to place; `None` for all.
        column: Option<String>,
        /// The only chunk to place, as numbered in `terrace.segments`; `None` for all.
        chunk: Option<u64>,
        /// A heap, `pool` or `auto`.
        tier: String,
    },
}

impl fmt::Display for HeapStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { name, keep, options } => {
                let keep = if *keep { "IF NOT EXISTS " } else { "" };
                write!(f, "CREATE HEAP {keep}{name} WITH ({})", listed(options))
            }
            Self::Drop { name, if_exists } => {
                write!(f, "DROP HEAP {}{name}", if *if_exists { "IF EXISTS " } else { "" })
            }
            Self::SetTier { schema, table, column, chunk, tier } => {
                f.write_str("ALTER TABLE ")?;
                schema.iter().try_for_each(|schema| write!(f, "{schema}."))?;
                f.write_str(table)?;
                column.iter().try_for_each(|column| write!(f, " COLUMN {column}"))?;
                chunk.iter().try_for_each(|chunk| write!(f, " CHUNK {chunk}"))?;
                write!(f, " SET TIER {tier}")
            }
        }
    }
}

/// Returns true if a statement about a heap or a placement follows.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    words::is_next(parser, &["create", "drop"], "heap") || is_set_tier(parser)
}

/// Maximum number of tokens of an ALTER TABLE up to SET TIER, with slack for malformed statements.
const SET_TIER_MAX: usize = 32;

/// Returns true if an ALTER TABLE with SET TIER in it follows.
fn is_set_tier(parser: &Parser<'_>) -> bool {
    let token = |n| parser.peek_nth_token(n).token;
    let ends = |token: &Token| matches!(token, Token::SemiColon | Token::EOF);
    words::is_next(parser, &["alter"], "table")
        && (2..SET_TIER_MAX)
            .take_while(|n| !ends(&token(*n)))
            .any(|n| is_word(&token(n), "set") && is_word(&token(n + 1), "tier"))
}

/// Parses the statement that [`is_next`] has found.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<HeapStatement, ParserError> {
    let verb = parser.next_token().token;
    parser.advance_token();
    if is_word(&verb, "create") {
        let Created { keep, name, options } = words::created(parser)?;
        Ok(HeapStatement::Create { name, keep, options })
    } else if is_word(&verb, "drop") {
        let (if_exists, name) = words::dropped(parser)?;
        Ok(HeapStatement::Drop { name, if_exists })
    } else {
        set_tier(parser)
    }
}

fn set_tier(parser: &mut Parser<'_>) -> Result<HeapStatement, ParserError> {
    let first = name(parser)?;
    let (schema, table) = match parser.consume_token(&Token::Period) {
        true => (Some(first), name(parser)?),
        false => (None, first),
    };
    let column = if take_all(parser, &["column"]) { Some(name(parser)?) } else { None };
    let has_chunk = take_all(parser, &["chunk"]);
    let chunk = if has_chunk { Some(parser.parse_literal_uint()?) } else { None };
    if !take_all(parser, &["set", "tier"]) {
        let next = parser.peek_token();
        return parser.expected("[COLUMN name] [CHUNK number] SET TIER name", next);
    }
    Ok(HeapStatement::SetTier { schema, table, column, chunk, tier: name(parser)? })
}

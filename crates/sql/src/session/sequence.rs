//! Statements about sequences.
//!
//! ```text
//! CREATE [TEMP] SEQUENCE IF NOT EXISTS s START WITH 10 INCREMENT BY 5 MINVALUE 10 CYCLE;
//! ALTER SEQUENCE s RESTART WITH 20;  ALTER SEQUENCE s RENAME TO r;  ALTER SEQUENCE s OWNER TO ada;
//! DROP SEQUENCE IF EXISTS s, r;
//! ```
//!
//! Options may be in any order, as in PostgreSQL.

use std::fmt;

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::sequence_changes::{SequenceChanges, take_changes};
use super::words::{is_word, name, take_all};

/// A statement about sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequenceStatement {
    /// CREATE SEQUENCE.
    Create {
        /// True for TEMP.
        is_temporary: bool,
        /// True for IF NOT EXISTS.
        keep: bool,
        /// The sequence.
        sequence: ObjectName,
        /// Its options.
        changes: SequenceChanges,
    },
    /// ALTER SEQUENCE of options.
    Alter {
        /// True for IF EXISTS.
        if_exists: bool,
        /// The sequence.
        sequence: ObjectName,
        /// The options that change.
        changes: SequenceChanges,
    },
    /// ALTER SEQUENCE ... RENAME TO.
    Rename {
        /// True for IF EXISTS.
        if_exists: bool,
        /// The sequence.
        sequence: ObjectName,
        /// Its new name.
        to: String,
    },
    /// ALTER SEQUENCE ... OWNER TO.
    Owner {
        /// The sequence.
        sequence: ObjectName,
        /// The role.
        role: String,
    },
    /// DROP SEQUENCE.
    Drop {
        /// True for IF EXISTS.
        if_exists: bool,
        /// The sequences.
        sequences: Vec<ObjectName>,
        /// True for CASCADE.
        cascades: bool,
    },
}

impl fmt::Display for SequenceStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { sequence, .. } => write!(f, "CREATE SEQUENCE {sequence}"),
            Self::Alter { sequence, .. } => write!(f, "ALTER SEQUENCE {sequence}"),
            Self::Rename { sequence, to, .. } => {
                write!(f, "ALTER SEQUENCE {sequence} RENAME TO {to}")
            }
            Self::Owner { sequence, role } => {
                write!(f, "ALTER SEQUENCE {sequence} OWNER TO {role}")
            }
            Self::Drop { sequences, .. } => {
                let names: Vec<_> = sequences.iter().map(ToString::to_string).collect();
                write!(f, "DROP SEQUENCE {}", names.join(", "))
            }
        }
    }
}

/// Returns true if a statement about sequences follows.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    let [first, second, third] = [0, 1, 2].map(|n| &parser.peek_nth_token_ref(n).token);
    let is_of_sequence = is_word(second, "sequence");
    let is_temporary = is_word(second, "temp") || is_word(second, "temporary");
    match first {
        first if is_word(first, "create") => {
            is_of_sequence || (is_temporary && is_word(third, "sequence"))
        }
        first => is_of_sequence && (is_word(first, "alter") || is_word(first, "drop")),
    }
}

/// Parses a statement about sequences.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<SequenceStatement, ParserError> {
    if take_all(parser, &["create"]) {
        let is_temporary = take_all(parser, &["temp"]) || take_all(parser, &["temporary"]);
        parser.advance_token();
        let keep = take_all(parser, &["if", "not", "exists"]);
        let sequence = parser.parse_object_name(false)?;
        let changes = take_changes(parser, false)?;
        return Ok(SequenceStatement::Create { is_temporary, keep, sequence, changes });
    }
    let is_drop = take_all(parser, &["drop", "sequence"]);
    if !is_drop {
        let _altered = take_all(parser, &["alter", "sequence"]);
    }
    let if_exists = take_all(parser, &["if", "exists"]);
    if is_drop {
        let sequences = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
        let cascades = take_all(parser, &["cascade"]);
        let _default = !cascades && take_all(parser, &["restrict"]);
        return Ok(SequenceStatement::Drop { if_exists, sequences, cascades });
    }
    let sequence = parser.parse_object_name(false)?;
    if take_all(parser, &["rename", "to"]) {
        return Ok(SequenceStatement::Rename { if_exists, sequence, to: name(parser)? });
    }
    if take_all(parser, &["owner", "to"]) {
        return Ok(SequenceStatement::Owner { sequence, role: name(parser)? });
    }
    let changes = take_changes(parser, true)?;
    if changes == SequenceChanges::default() {
        let next = parser.peek_token();
        return parser.expected("an option of the sequence, RENAME TO or OWNER TO", next);
    }
    match parser.peek_token().token {
        Token::SemiColon | Token::EOF => {}
        _ => {
            let next = parser.peek_token();
            return parser.expected("an option of the sequence", next);
        }
    }
    Ok(SequenceStatement::Alter { if_exists, sequence, changes })
}

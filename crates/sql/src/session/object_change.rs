//! Changes of an object that keep its definition: its name, its schema or its owner.
//!
//! ```text
//! ALTER FUNCTION inc(INT) RENAME TO next;  ALTER TYPE mood SET SCHEMA s;
//! ALTER VIEW IF EXISTS v RENAME TO w;      ALTER VIEW v OWNER TO ada;
//! ```

use std::fmt;

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::sql_type::identifier;
use super::words::{is_next as begins, name, take_all};

/// A change of an object that keeps its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectChange {
    /// RENAME TO: the new name.
    Rename(String),
    /// OWNER TO: the role.
    Owner(String),
    /// SET SCHEMA: the new schema.
    Schema(String),
}

/// An ALTER VIEW statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterView {
    /// The view.
    pub(super) view: ObjectName,
    /// True for IF EXISTS.
    pub(super) if_exists: bool,
    /// The change.
    pub(super) change: ObjectChange,
}

impl ObjectChange {
    /// Parses the change.
    ///
    /// # Errors
    /// Another change.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        if take_all(parser, &["rename", "to"]) {
            return Ok(Self::Rename(name(parser)?));
        }
        if take_all(parser, &["owner", "to"]) {
            return Ok(Self::Owner(name(parser)?));
        }
        if take_all(parser, &["set", "schema"]) {
            return Ok(Self::Schema(name(parser)?));
        }
        let next = parser.peek_token();
        parser.expected("RENAME TO, OWNER TO or SET SCHEMA", next)
    }
}

/// Returns true if an ALTER VIEW follows.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    begins(parser, &["alter"], "view")
}

/// Parses an ALTER VIEW.
///
/// # Errors
/// Errors of the syntax.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<AlterView, ParserError> {
    let _begun = take_all(parser, &["alter", "view"]);
    let if_exists = take_all(parser, &["if", "exists"]);
    let view = parser.parse_object_name(false)?;
    Ok(AlterView { view, if_exists, change: ObjectChange::parse(parser)? })
}

impl fmt::Display for ObjectChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rename(to) => write!(f, "RENAME TO {}", identifier(to)),
            Self::Owner(role) => write!(f, "OWNER TO {}", identifier(role)),
            Self::Schema(schema) => write!(f, "SET SCHEMA {}", identifier(schema)),
        }
    }
}

impl fmt::Display for AlterView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER VIEW {} {}", self.view, self.change)
    }
}

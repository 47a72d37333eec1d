//! Comments on objects: `COMMENT ON TABLE t IS 'text'`.
//!
//! ```text
//! COMMENT ON TABLE orders IS 'one row per order';  COMMENT ON COLUMN orders.id IS NULL;
//! COMMENT ON FUNCTION inc(INT) IS '...';  COMMENT ON TYPE mood IS '...';
//! COMMENT ON VIEW v IS '...';  COMMENT ON SEQUENCE s IS '...';  COMMENT ON SCHEMA sales IS '...';
//! ```

use std::fmt;

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::routines::routine::DroppedKind;
use super::routines::syntax::parameter_count as parameters;
use super::words::{is_next as begins, is_word, take_all};

/// A statement that sets or removes a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentStatement {
    /// The kind of the object.
    pub(super) on: CommentOn,
    /// Name of the object; for a column, that of its table and its own: `t.a`.
    pub(super) name: ObjectName,
    /// The number of parameters of a function, if the statement lists their types.
    pub(super) parameters: Option<usize>,
    /// The comment; `None` removes it.
    pub(super) text: Option<String>,
}

/// Kinds of objects that have comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommentOn {
    Table,
    Column,
    View,
    Sequence,
    Schema,
    Type,
    Function,
    Macro,
    TableMacro,
}

impl CommentOn {
    const ALL: [Self; 8] = [
        Self::Table,
        Self::Column,
        Self::View,
        Self::Sequence,
        Self::Schema,
        Self::Type,
        Self::Function,
        Self::Macro,
    ];

    /// The kind of a function or macro; `None` for another object.
    pub(super) fn routine(self) -> Option<DroppedKind> {
        match self {
            Self::Function => Some(DroppedKind::Function),
            Self::Macro => Some(DroppedKind::Macro),
            Self::TableMacro => Some(DroppedKind::TableMacro),
            _ => None,
        }
    }

    /// The keyword of the kind.
    pub(super) fn keyword(self) -> &'static str {
        match self {
            Self::Table => "TABLE",
            Self::Column => "COLUMN",
            Self::View => "VIEW",
            Self::Sequence => "SEQUENCE",
            Self::Schema => "SCHEMA",
            Self::Type => "TYPE",
            Self::Function => "FUNCTION",
            Self::Macro => "MACRO",
            Self::TableMacro => "MACRO TABLE",
        }
    }
}

impl fmt::Display for CommentStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "COMMENT ON {} {} IS ", self.on.keyword(), self.name)?;
        match &self.text {
            None => f.write_str("NULL"),
            Some(text) => write!(f, "'{}'", text.replace('\'', "''")),
        }
    }
}

/// Returns true if a COMMENT follows.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    begins(parser, &["comment"], "on")
}

/// Parses a COMMENT.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<CommentStatement, ParserError> {
    let _begun = take_all(parser, &["comment", "on"]);
    let token = parser.next_token();
    let on = CommentOn::ALL.into_iter().find(|on| is_word(&token.token, on.keyword()));
    let Some(on) = on else {
        let kinds = "TABLE, COLUMN, VIEW, SEQUENCE, SCHEMA, TYPE, FUNCTION or MACRO";
        return parser.expected(kinds, token);
    };
    let is_of_rows = on == CommentOn::Macro && take_all(parser, &["table"]);
    let on = if is_of_rows { CommentOn::TableMacro } else { on };
    let name = parser.parse_object_name(false)?;
    let parameters = match on.routine() {
        Some(_) => parameters(parser)?,
        None => None,
    };
    if !take_all(parser, &["is"]) {
        let next = parser.peek_token();
        return parser.expected("IS and the comment", next);
    }
    let text = if take_all(parser, &["null"]) { None } else { Some(text(parser)?) };
    // An empty comment is none, as in PostgreSQL.
    let text = text.filter(|text| !text.is_empty());
    Ok(CommentStatement { on, name, parameters, text })
}

fn text(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let token = parser.next_token();
    match token.token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Ok(text),
        Token::DollarQuotedString(text) => Ok(text.value),
        _ => parser.expected("a text in quotes, or NULL", token),
    }
}

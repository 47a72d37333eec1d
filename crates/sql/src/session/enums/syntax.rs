//! Parsing of the statements about types.
//!
//! ```text
//! CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
//! ALTER TYPE mood ADD VALUE [IF NOT EXISTS] 'glad' [BEFORE | AFTER 'happy'];
//! ALTER TYPE mood RENAME VALUE 'ok' TO 'fine';  ALTER TYPE mood RENAME TO feeling;
//! DROP TYPE [IF EXISTS] mood [CASCADE | RESTRICT];
//! ```

use std::fmt;

use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::enum_type::{Place, quoted};
use crate::names::CATALOG;
use crate::session::object_change::ObjectChange;
use crate::session::sql_type::identifier;
use crate::session::words::{is_next as begins, is_word, name, take_all};

/// A statement about types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeStatement {
    /// Creates an enum.
    Create {
        /// Name of the type.
        name: TypeName,
        /// The labels, in order.
        labels: Vec<String>,
        /// True for OR REPLACE.
        replace: bool,
        /// True for IF NOT EXISTS.
        keep: bool,
    },
    /// Adds a label.
    Add {
        /// Name of the type.
        name: TypeName,
        /// The new label.
        label: String,
        /// The position of the label.
        place: LabelPlace,
        /// True for IF NOT EXISTS.
        keep: bool,
    },
    /// Gives a label another text.
    RenameLabel {
        /// Name of the type.
        name: TypeName,
        /// The label.
        from: String,
        /// Its new text.
        to: String,
    },
    /// Changes name, schema or owner.
    Change {
        /// Name of the type.
        name: TypeName,
        /// The new name, schema or owner.
        change: ObjectChange,
    },
    /// Drops types.
    Drop {
        /// Names of the types.
        names: Vec<TypeName>,
        /// True for IF EXISTS.
        if_exists: bool,
        /// True for CASCADE.
        cascades: bool,
    },
}

/// The position of a new label: last, or before or after another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelPlace(pub(in crate::session) Place);

/// The name of a type in a statement, with its schema if the statement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    pub(in crate::session) schema: Option<String>,
    pub(in crate::session) name: String,
}

/// Returns true if a statement about types follows.
pub(in crate::session) fn is_next(parser: &Parser<'_>) -> bool {
    let word = |n: usize, text: &str| is_word(&parser.peek_nth_token(n).token, text);
    let is_replacing = word(0, "create") && word(1, "or") && word(2, "replace") && word(3, "type");
    is_replacing || begins(parser, &["create", "alter", "drop"], "type")
}

/// Parses the statement.
///
/// # Errors
/// Errors of the syntax; a type that is no enum.
pub(in crate::session) fn parse(parser: &mut Parser<'_>) -> Result<TypeStatement, ParserError> {
    if take_all(parser, &["drop", "type"]) {
        let if_exists = take_all(parser, &["if", "exists"]);
        let names = parser.parse_comma_separated(type_name)?;
        let cascades = take_all(parser, &["cascade"]);
        let _default = !cascades && take_all(parser, &["restrict"]);
        return Ok(TypeStatement::Drop { names, if_exists, cascades });
    }
    if take_all(parser, &["alter", "type"]) {
        return altered(parser);
    }
    take_all(parser, &["create"]);
    let replace = take_all(parser, &["or", "replace"]);
    take_all(parser, &["type"]);
    let keep = take_all(parser, &["if", "not", "exists"]);
    let name = type_name(parser)?;
    if !take_all(parser, &["as", "enum"]) {
        return Err(failed("a type that is no enum is not possible; say AS ENUM ('a', 'b')"));
    }
    parser.expect_token(&Token::LParen)?;
    let is_empty = parser.peek_token_ref().token == Token::RParen;
    let labels = match is_empty {
        true => vec![],
        false => parser.parse_comma_separated(|parser| parser.parse_literal_string())?,
    };
    parser.expect_token(&Token::RParen)?;
    Ok(TypeStatement::Create { name, labels, replace, keep })
}

fn altered(parser: &mut Parser<'_>) -> Result<TypeStatement, ParserError> {
    let name = type_name(parser)?;
    if take_all(parser, &["rename", "value"]) {
        let from = parser.parse_literal_string()?;
        if !take_all(parser, &["to"]) {
            let next = parser.peek_token();
            return parser.expected("TO and the new label", next);
        }
        return Ok(TypeStatement::RenameLabel { name, from, to: parser.parse_literal_string()? });
    }
    if !take_all(parser, &["add", "value"]) {
        return match ObjectChange::parse(parser) {
            Ok(change) => Ok(TypeStatement::Change { name, change }),
            Err(_) => Err(failed(
                "this change of a type is not possible; say ADD VALUE 'label' [BEFORE 'other'], \
                 RENAME VALUE, RENAME TO, OWNER TO or SET SCHEMA",
            )),
        };
    }
    let keep = take_all(parser, &["if", "not", "exists"]);
    let label = parser.parse_literal_string()?;
    let place = if take_all(parser, &["before"]) {
        Place::Before(parser.parse_literal_string()?)
    } else if take_all(parser, &["after"]) {
        Place::After(parser.parse_literal_string()?)
    } else {
        Place::Last
    };
    Ok(TypeStatement::Add { name, label, place: LabelPlace(place), keep })
}

fn type_name(parser: &mut Parser<'_>) -> Result<TypeName, ParserError> {
    let mut parts = vec![name(parser)?];
    while parser.consume_token(&Token::Period) {
        parts.push(name(parser)?);
    }
    if parts.len() == 3 && parts[0] == CATALOG {
        parts.remove(0);
    }
    match <[String; 2]>::try_from(parts) {
        Ok([schema, name]) => Ok(TypeName { schema: Some(schema), name }),
        Err(parts) if parts.len() == 1 => {
            Ok(TypeName { schema: None, name: parts.into_iter().collect() })
        }
        Err(parts) => Err(failed(&format!("{} is no name of a type", parts.join(".")))),
    }
}

fn failed(text: &str) -> ParserError {
    ParserError::ParserError(text.to_owned())
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{}.", identifier(schema))?;
        }
        f.write_str(&identifier(&self.name))
    }
}

impl fmt::Display for TypeStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { name, labels, .. } => {
                write!(f, "CREATE TYPE {name} AS ENUM ({})", quoted(labels))
            }
            Self::Add { name, label, .. } => {
                write!(f, "ALTER TYPE {name} ADD VALUE '{}'", label.replace('\'', "''"))
            }
            Self::RenameLabel { name, from, to } => {
                let (from, to) = (from.replace('\'', "''"), to.replace('\'', "''"));
                write!(f, "ALTER TYPE {name} RENAME VALUE '{from}' TO '{to}'")
            }
            Self::Change { name, change } => write!(f, "ALTER TYPE {name} {change}"),
            Self::Drop { names, .. } => {
                let names: Vec<_> = names.iter().map(ToString::to_string).collect();
                write!(f, "DROP TYPE {}", names.join(", "))
            }
        }
    }
}

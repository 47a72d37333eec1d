//! Statements that make roles members of roles.
//!
//! ```text
//! GRANT readers, writers TO ada, bob [WITH ADMIN OPTION] [GRANTED BY eve];
//! REVOKE [ADMIN OPTION FOR] readers FROM bob [GRANTED BY eve];
//! ```

use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::role::{Grantor, RoleStatement};
use super::words::{is_word, names, take_all};

/// Returns true if a GRANT or REVOKE of roles follows: unlike one of privileges, it has no ON
/// before its TO or FROM.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    let first = &parser.peek_token_ref().token;
    let end = if is_word(first, "grant") {
        "to"
    } else if is_word(first, "revoke") {
        "from"
    } else {
        return false;
    };
    let tokens = (parser.index()..).map(|index| &parser.token_at(index).token);
    for token in tokens {
        match token {
            Token::EOF | Token::SemiColon => return false,
            token if is_word(token, "on") => return false,
            token if is_word(token, end) => return true,
            _ => {}
        }
    }
    false
}

/// Parses the statement that [`is_next`] has found.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<RoleStatement, ParserError> {
    let is_grant = is_word(&parser.next_token().token, "grant");
    let is_admin_option = !is_grant && take_all(parser, &["admin", "option", "for"]);
    let roles = names(parser)?;
    let to = if is_grant { "to" } else { "from" };
    if !take_all(parser, &[to]) {
        let next = parser.peek_token();
        return parser.expected(&format!("{} and the members", to.to_uppercase()), next);
    }
    let members = names(parser)?;
    let is_admin = is_grant && take_all(parser, &["with", "admin", "option"]);
    let grantor = match take_all(parser, &["granted", "by"]) {
        true => Some(Grantor::of(parser.parse_identifier()?)),
        false => None,
    };
    let next = parser.peek_token();
    match next.token {
        Token::EOF | Token::SemiColon if is_grant => {
            Ok(RoleStatement::Grant { roles, members, is_admin, grantor })
        }
        Token::EOF | Token::SemiColon => {
            Ok(RoleStatement::Revoke { roles, members, is_admin_option, grantor })
        }
        _ if is_grant => {
            parser.expected("WITH ADMIN OPTION, GRANTED BY, or the end of the statement", next)
        }
        _ => parser.expected("GRANTED BY, or the end of the statement", next),
    }
}

//! SET ROLE: the role that the statements of a session act as.
//!
//! ```text
//! SET ROLE reports;  SET ROLE NONE;  RESET ROLE;  SET role = 'reports';
//! SET SESSION AUTHORIZATION DEFAULT;  RESET SESSION AUTHORIZATION;
//! ```
//!
//! A session may act as every role that its login role is a member of, with the privileges of that
//! role alone; as a superuser, as every role. The acting role owns the objects that the session
//! creates. The tenant stays that of the login role. The login role is always the session user, so
//! SET SESSION AUTHORIZATION DEFAULT only ends SET ROLE.

use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, Ident, ObjectName, Set, Statement as SqlStatement, Value,
};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::own_settings::text;
use super::words::take_all;

/// Name of the setting that SET ROLE and RESET ROLE change.
const ROLE: &str = "role";
/// Value of the setting that stands for the login role.
const NONE: &str = "none";

/// Parses the forms that `sqlparser` misreads: `SET ROLE TO x`, in which it takes `to` for the
/// role, and SESSION AUTHORIZATION DEFAULT, which it does not know. `None` if no such form follows.
pub(super) fn parse(parser: &mut Parser<'_>) -> Option<Result<Statement, ParserError>> {
    if take_all(parser, &["reset", "session", "authorization"]) {
        let role = ObjectName::from(vec![Ident::new(ROLE)]);
        return Some(Ok(Statement::Reset(ResetStatement::Variable(role))));
    }
    let (local, session) = (Some(ContextModifier::Local), Some(ContextModifier::Session));
    let authorizations: [(_, &[&str]); 2] = [
        (None, &["set", "session", "authorization", "default"]),
        (local, &["set", "local", "session", "authorization", "default"]),
    ];
    for (modifier, words) in authorizations {
        if take_all(parser, words) {
            return Some(Ok(set_role(modifier, None)));
        }
    }
    let roles: [(_, &[&str]); 3] = [
        (None, &["set", "role", "to"]),
        (session, &["set", "session", "role", "to"]),
        (local, &["set", "local", "role", "to"]),
    ];
    let (modifier, _) = roles.into_iter().find(|(_, words)| take_all(parser, words))?;
    let is_none = take_all(parser, &[NONE]) || take_all(parser, &["default"]);
    Some(match is_none {
        true => Ok(set_role(modifier, None)),
        false => parser.parse_identifier().map(|role| set_role(modifier, Some(role))),
    })
}

fn set_role(context_modifier: Option<ContextModifier>, role_name: Option<Ident>) -> Statement {
    let set = Set::SetRole { context_modifier, role_name };
    Statement::Statement(Box::new(SqlStatement::Set(set)))
}

/// A statement that changes the acting role.
pub(super) struct SetRole {
    /// The role to act as; `None` for the login role.
    pub(super) name: Option<String>,
    /// True for SET LOCAL.
    pub(super) is_local: bool,
}

impl SetRole {
    /// Returns the change that a statement makes; `None` for any other statement.
    pub(super) fn of(statement: &Statement) -> Option<Self> {
        let statement = match statement {
            Statement::Reset(ResetStatement::Variable(name)) => {
                let is_role = text(name).eq_ignore_ascii_case(ROLE);
                return is_role.then_some(Self { name: None, is_local: false });
            }
            Statement::Statement(statement) => statement.as_ref(),
            _ => return None,
        };
        let (name, modifier) = match statement {
            SqlStatement::Set(Set::SetRole { context_modifier, role_name }) => {
                let name = role_name.clone().map(|name| IdentNormalizer::default().normalize(name));
                (name, context_modifier)
            }
            SqlStatement::Set(Set::SingleAssignment { scope, variable, values, .. })
                if text(variable).eq_ignore_ascii_case(ROLE) =>
            {
                let [value] = values.as_slice() else { return None };
                (Some(name_of(value)), scope)
            }
            _ => return None,
        };
        let name = name.filter(|name| name != NONE);
        Some(Self { name, is_local: *modifier == Some(ContextModifier::Local) })
    }
}

/// The name of the role in a value of the setting.
fn name_of(value: &Expr) -> String {
    match value {
        Expr::Identifier(name) => IdentNormalizer::default().normalize(name.clone()),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            value => value.to_string(),
        },
        value => value.to_string(),
    }
}

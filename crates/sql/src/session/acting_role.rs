//! SET ROLE: the role that the statements of a session act as.
//!
//! ```text
//! SET ROLE reports;  SET ROLE NONE;  RESET ROLE;  SET role = 'reports';
//! ```
//!
//! A session may act as every role that its login role is a member of, with the privileges of that
//! role alone; as a superuser, as every role. What it creates belongs to the role. Its tenant stays
//! that of the login role.

use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, Set, Statement as SqlStatement, Value,
};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::own_settings::text;
use super::words::take_all;

/// The name of the setting.
const ROLE: &str = "role";
/// The value for the login role.
const NONE: &str = "none";

/// Takes the words of `SET [SESSION | LOCAL] ROLE TO` if they follow, which the parser would read
/// as a role of the name `to`. Returns the modifier.
pub(super) fn begin(parser: &mut Parser<'_>) -> Option<Option<ContextModifier>> {
    let forms = [
        (None, &["set", "role", "to"] as &[&str]),
        (Some(ContextModifier::Session), &["set", "session", "role", "to"]),
        (Some(ContextModifier::Local), &["set", "local", "role", "to"]),
    ];
    forms.into_iter().find(|(_, words)| take_all(parser, words)).map(|(modifier, _)| modifier)
}

/// Parses the role of a statement that [`begin`] has begun.
///
/// # Errors
/// Anything but a name.
pub(super) fn parse(
    parser: &mut Parser<'_>,
    context_modifier: Option<ContextModifier>,
) -> Result<SqlStatement, ParserError> {
    let is_none = take_all(parser, &[NONE]) || take_all(parser, &["default"]);
    let role_name = if is_none { None } else { Some(parser.parse_identifier()?) };
    Ok(SqlStatement::Set(Set::SetRole { context_modifier, role_name }))
}

/// A statement that changes the role.
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

/// The role that a value of the setting names.
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

//! Statements about a connection's own state: its settings, its cursors, and DISCARD.

use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    CloseCursor, ContextModifier, DiscardObject, Expr, Set, Statement as SqlStatement, Value,
};
use terrace_sql::session::{CursorStatement, SessionStatement};

use crate::settings::{NO_ROLE, ROLE, SettingName, Settings, TRANSACTION_ISOLATION};

/// A statement about the connection's own state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// `SET name = value`.
    Set(SettingName, String),
    /// `RESET name`.
    Reset(SettingName),
    /// `SHOW name`.
    Show(SettingName),
    /// `SET LOCAL name = value`.
    SetLocal(SettingName, String),
    /// `SET LOCAL` of a setting of the session, which is refused.
    SetLocalOfSession(String),
    /// `DISCARD`, `DEALLOCATE`, `RESET ALL`, `CLOSE ALL`.
    Discard(Discard),
    /// `DECLARE`, `FETCH`, `MOVE`, `CLOSE`.
    Cursor(CursorStatement),
}

impl Access {
    /// Returns the access of a statement to the connection's own state; `None` for any other
    /// statement.
    pub(crate) fn of(statement: &SessionStatement) -> Option<Self> {
        if let Some(what) = Discard::of(statement) {
            return Some(Self::Discard(what));
        }
        if let SessionStatement::Cursor(statement) = statement {
            return Some(Self::Cursor(statement.clone()));
        }
        let SessionStatement::Sql(statement) = statement else { return None };
        let statement = match statement.as_ref() {
            Statement::Statement(statement) => statement,
            Statement::Reset(ResetStatement::Variable(name)) => {
                return Some(Self::Reset(Settings::name_of(&name.to_string())?));
            }
            _ => return None,
        };
        match statement.as_ref() {
            SqlStatement::Set(Set::SingleAssignment { scope, variable, values, .. }) => {
                let is_local = *scope == Some(ContextModifier::Local);
                let name = variable.to_string();
                let is_path = name.eq_ignore_ascii_case("search_path");
                let text = if is_path { schema_of } else { text_of };
                let value = values.iter().map(text).collect::<Vec<_>>().join(", ");
                match Settings::name_of(&name) {
                    Some(known) if is_local => Some(Self::SetLocal(known, value)),
                    Some(known) => Some(Self::Set(known, value)),
                    None => is_local.then_some(Self::SetLocalOfSession(name)),
                }
            }
            SqlStatement::Set(Set::SetRole { context_modifier, role_name }) => {
                let role = role_name.clone().map(|it| IdentNormalizer::default().normalize(it));
                let is_local = *context_modifier == Some(ContextModifier::Local);
                let set = if is_local { Self::SetLocal } else { Self::Set };
                Some(set(ROLE.into(), role.unwrap_or_else(|| NO_ROLE.to_owned())))
            }
            SqlStatement::ShowVariable { variable } => {
                let words: Vec<_> = variable.iter().map(|word| word.value.as_str()).collect();
                // `SHOW TIME ZONE` is two words, as is `SHOW app.user`.
                let name = match words.concat() {
                    words if words.eq_ignore_ascii_case("transactionisolationlevel") => {
                        TRANSACTION_ISOLATION.to_owned()
                    }
                    name => name,
                };
                let name = Settings::name_of(&name).or_else(|| Settings::name_of(&words.join(".")));
                Some(Self::Show(name?))
            }
            _ => None,
        }
    }
}

/// Returns the text of a schema in a search path, in lower case unless it is quoted.
fn schema_of(value: &Expr) -> String {
    match value {
        Expr::Identifier(name) if name.quote_style.is_none() => name.value.to_lowercase(),
        value => text_of(value),
    }
}

fn text_of(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            value => value.to_string(),
        },
        value => value.to_string(),
    }
}

/// The state that a statement discards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Discard {
    /// `DISCARD ALL`: all of the below, and the session's external tables.
    All,
    /// State that a connection never has: `UNLISTEN`, `DISCARD PLANS` and `SEQUENCES`.
    Nothing(&'static str),
    /// `RESET ALL`.
    Settings,
    /// `DEALLOCATE ALL`.
    Statements,
    /// `DEALLOCATE name`.
    Statement(String),
    /// `CLOSE ALL`.
    Portals,
}

impl Discard {
    /// Returns the state that a statement discards; `None` for any other statement.
    fn of(statement: &SessionStatement) -> Option<Self> {
        let SessionStatement::Sql(statement) = statement else { return None };
        let statement = match statement.as_ref() {
            Statement::Reset(ResetStatement::Variable(name)) => {
                let is_all = name.to_string().eq_ignore_ascii_case("all");
                return is_all.then_some(Self::Settings);
            }
            Statement::Statement(statement) => statement,
            _ => return None,
        };
        match statement.as_ref() {
            SqlStatement::Discard { object_type } => match object_type {
                DiscardObject::ALL => Some(Self::All),
                DiscardObject::PLANS => Some(Self::Nothing("DISCARD PLANS")),
                DiscardObject::SEQUENCES => Some(Self::Nothing("DISCARD SEQUENCES")),
                DiscardObject::TEMP => None,
            },
            SqlStatement::UNLISTEN { .. } => Some(Self::Nothing("UNLISTEN")),
            SqlStatement::Deallocate { name, .. } => Some(match name.quote_style {
                None if name.value.eq_ignore_ascii_case("all") => Self::Statements,
                _ => Self::Statement(IdentNormalizer::default().normalize(name.clone())),
            }),
            SqlStatement::Close { cursor: CloseCursor::All } => Some(Self::Portals),
            _ => None,
        }
    }

    /// Returns the command tag.
    pub(super) fn tag(&self) -> &'static str {
        match self {
            Self::All => "DISCARD ALL",
            Self::Nothing(tag) => tag,
            Self::Settings => "RESET",
            Self::Statements => "DEALLOCATE ALL",
            Self::Statement(_) => "DEALLOCATE",
            Self::Portals => "CLOSE CURSOR ALL",
        }
    }
}

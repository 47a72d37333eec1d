//! Statements that discard state of a connection: DISCARD, DEALLOCATE, RESET ALL, CLOSE ALL. Pools
//! send them before they pass a connection on to the next user.

use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{CloseCursor, DiscardObject, Statement as SqlStatement};
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::response::{CommandComplete, TransactionStatus as Status};
use pgwire::messages::startup::ParameterStatus;
use terrace_sql::session::SessionStatement;

use super::connection::{Connection, apply, furnished};
use super::failure::Failure;

/// State that a connection discards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Forget {
    /// `DISCARD ALL`: all of the below, and the session's external tables.
    All,
    /// State that a connection never has: `UNLISTEN`, `DISCARD PLANS`, `TEMP` and `SEQUENCES`.
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

impl Forget {
    /// Returns the state that a statement discards; `None` for any other statement.
    pub(super) fn of(statement: &SessionStatement) -> Option<Self> {
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
                DiscardObject::TEMP => Some(Self::Nothing("DISCARD TEMP")),
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

    fn tag(&self) -> &'static str {
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

impl Connection {
    /// Discards state of the connection and completes the statement.
    pub(super) async fn forget(&mut self, what: &Forget) -> Result<(), Failure> {
        match what {
            Forget::All => {
                if self.status() != Status::Idle {
                    let what = what.tag().to_owned();
                    return Err(terrace_sql::SqlError::InTransaction { what }.into());
                }
                self.portals.clear();
                self.statements.clear();
                self.prepared.clear();
                self.session = furnished(self.session.renewed()?, &self.place);
                self.reset_settings().await?;
            }
            Forget::Nothing(_) => {}
            Forget::Settings => self.reset_settings().await?,
            Forget::Statements => {
                self.statements.clear();
                for name in std::mem::take(&mut self.prepared) {
                    self.deallocate(&name).await?;
                }
            }
            Forget::Statement(name) => {
                // Statements made by PREPARE share a namespace with those of the protocol.
                if self.statements.remove(name).is_none() {
                    self.deallocate(name).await?;
                }
                self.prepared.remove(name);
            }
            Forget::Portals => self.portals.clear(),
        }
        self.wire.put(Out::CommandComplete(CommandComplete::new(what.tag().to_owned())))
    }

    /// Resets all settings to their values at the login.
    async fn reset_settings(&mut self) -> Result<(), Failure> {
        self.session.reset_settings();
        let before = self.settings.replace(self.login.clone());
        for (name, value) in self.login.reported() {
            if before.get(name) != value {
                let status = ParameterStatus::new(name.to_owned(), value.to_owned());
                self.wire.put(Out::ParameterStatus(status))?;
            }
        }
        apply(&self.session, &self.login).await
    }

    async fn deallocate(&mut self, name: &str) -> Result<(), Failure> {
        self.session.sql(&format!("DEALLOCATE \"{}\"", name.replace('"', "\"\""))).await?;
        Ok(())
    }
}

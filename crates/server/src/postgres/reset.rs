//! Statements that discard state of a connection: DISCARD, DEALLOCATE, RESET ALL, CLOSE ALL. Pools
//! send them before they pass a connection on to the next user.

use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::response::{CommandComplete, TransactionStatus as Status};
use pgwire::messages::startup::ParameterStatus;

use super::access::Discard;
use super::connection::Connection;
use super::failure::Failure;
use super::session::{apply, furnished};
use crate::settings::Settings;

impl Connection {
    /// Discards state of the connection and completes the statement.
    pub(super) async fn forget(&mut self, what: &Discard) -> Result<(), Failure> {
        match what {
            Discard::All => {
                if self.status() != Status::Idle {
                    let what = what.tag().to_owned();
                    return Err(terrace_sql::SqlError::InTransaction { what }.into());
                }
                self.portals.clear();
                self.statements.clear();
                self.prepared.clear();
                self.place.registry.advisory_locks().give_all(self.place.number);
                self.session = furnished(self.session.renewed()?, &self.place);
                self.reset_settings(self.login.clone()).await?;
            }
            Discard::Nothing(_) => {}
            Discard::Settings => {
                let login = self.settings.with_role(self.login.clone())?;
                self.reset_settings(login).await?;
            }
            Discard::Statements => {
                self.statements.clear();
                for name in std::mem::take(&mut self.prepared) {
                    self.deallocate(&name).await?;
                }
            }
            Discard::Statement(name) => {
                // Statements made by PREPARE share a namespace with those of the protocol.
                if self.statements.remove(name).is_none() {
                    self.deallocate(name).await?;
                }
                self.prepared.remove(name);
            }
            Discard::Portals => self.portals.clear(),
        }
        self.wire.put(Out::CommandComplete(CommandComplete::new(what.tag().to_owned())))
    }

    /// Resets all settings to `begun`, those with which the client has logged in.
    async fn reset_settings(&mut self, begun: Settings) -> Result<(), Failure> {
        self.session.reset_settings();
        let before = self.settings.replace(begun.clone());
        for (name, value) in begun.reported() {
            if before.get(name) != value {
                let status = ParameterStatus::new(name.to_owned(), value.to_owned());
                self.wire.put(Out::ParameterStatus(status))?;
            }
        }
        apply(&self.session, &begun).await
    }

    async fn deallocate(&mut self, name: &str) -> Result<(), Failure> {
        self.session.sql(&format!("DEALLOCATE \"{}\"", name.replace('"', "\"\""))).await?;
        Ok(())
    }
}

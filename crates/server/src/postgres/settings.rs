//! Statements that read and change settings of the connection.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::data::NoData;
use pgwire::messages::response::{CommandComplete, TransactionStatus as Status};
use pgwire::messages::startup::ParameterStatus;
use terrace_sql::session::{CursorAction, CursorStatement, Severity};

use super::access::Access;
use super::cell::{ColumnWriter, Format};
use super::connection::Connection;
use super::description::description;
use super::failure::{Failure, SqlState};
use super::session::{follow_changes, set, shown};
use crate::settings::DEFAULT;

/// The zone of values that have no zone.
const UTC: &str = "+00:00";

impl Connection {
    /// Runs a statement about the connection's state: SET, SHOW, a cursor statement or a reset.
    /// SHOW sends the setting as the only row.
    pub(super) async fn access(&mut self, access: &Access) -> Result<(), Failure> {
        let tag = match access {
            Access::Discard(what) => return self.forget(what).await,
            Access::Cursor(cursor) => return self.cursor_simply(cursor).await,
            Access::SetLocalOfSession(name) => {
                let text = format!("SET LOCAL {name} is not possible; SET lasts for the session");
                return Err(Failure::new(SqlState::UNSUPPORTED, text));
            }
            Access::SetLocal(..) if self.status() == Status::Idle => {
                let text = "SET LOCAL can only be used in transaction blocks";
                self.warn(&Failure::new(SqlState::NO_TRANSACTION, text))?;
                "SET"
            }
            Access::Set(name, value) => self.set(name, value, false).await?,
            Access::SetLocal(name, value) => self.set(name, value, true).await?,
            Access::Reset(name) => {
                self.set(name, DEFAULT, false).await?;
                "RESET"
            }
            Access::Show(name) => {
                let shown = shown(&self.session, &self.settings, name)?;
                let shown: ArrayRef = Arc::new(StringArray::from(vec![shown]));
                let column = ColumnWriter::new(&shown, Format::Text, UTC.parse()?)?;
                self.wire.put_row(&[column], 0)?;
                "SHOW"
            }
        };
        self.wire.put(Out::CommandComplete(CommandComplete::new(tag.to_owned())))
    }

    /// Changes a setting, until the end of the transaction if `is_local`. Returns the tag of SET.
    pub(super) async fn set(
        &mut self,
        name: &str,
        value: &str,
        is_local: bool,
    ) -> Result<&'static str, Failure> {
        if let Some((name, value)) =
            set(&self.session, &self.settings, name, value, is_local).await?
        {
            let status = ParameterStatus::new(name.to_owned(), value);
            self.wire.put(Out::ParameterStatus(status))?;
        }
        Ok("SET")
    }

    /// Applies the settings that a statement has changed to the session, and reports them to the
    /// client.
    pub(super) async fn follow_settings(&mut self) -> Result<(), Failure> {
        for (name, value) in follow_changes(&self.session, &self.settings).await? {
            let status = ParameterStatus::new(name.to_owned(), value);
            self.wire.put(Out::ParameterStatus(status))?;
        }
        Ok(())
    }

    /// Sends the notices that the session's statements have given.
    pub(super) fn tell_notices(&mut self) -> Result<(), Failure> {
        for notice in self.session.take_notices() {
            if self.settings.shows(notice.severity) {
                self.wire.put(Failure::notice(&notice))?;
            }
        }
        Ok(())
    }

    /// Sends a failure as a warning, to a client whose statement continues.
    pub(super) fn warn(&mut self, failure: &Failure) -> Result<(), Failure> {
        match self.settings.shows(Severity::Warning) {
            true => self.wire.put(failure.warning()),
            false => Ok(()),
        }
    }

    /// Sends a notice to a client whose statement has succeeded.
    pub(super) fn note(&mut self, text: &str) -> Result<(), Failure> {
        match self.settings.shows(Severity::Notice) {
            true => self.wire.put(Failure::note(text)),
            false => Ok(()),
        }
    }

    /// Sends the columns of a statement about the connection's state.
    pub(super) fn describe_access(
        &mut self,
        access: &Access,
        formats: &[Format],
    ) -> Result<(), Failure> {
        match access {
            Access::Show(name) => self.describe_setting(name),
            Access::Cursor(CursorStatement { name, action: CursorAction::Fetch(_) }) => {
                let columns = self.cursor_columns(name, Some(formats))?;
                self.wire.put(Out::RowDescription(columns))
            }
            _ => self.wire.put(Out::NoData(NoData::new())),
        }
    }

    pub(super) fn describe_setting(&mut self, name: &str) -> Result<(), Failure> {
        let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8, false)]));
        self.wire.put(Out::RowDescription(description(&schema, &[Format::Text])?))
    }
}

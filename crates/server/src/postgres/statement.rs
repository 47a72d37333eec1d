//! Prepared statements of a connection.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use pgwire::api::Type;
use terrace_sql::session::SessionStatement;
use terrace_sql::{Prepared, Session};

use super::cell::Format;
use super::command::Command;
use super::failure::{Failure, SqlState};
use super::names::Names;
use super::parameter;
use super::settings::Access;
use crate::registry::Shown;

/// A statement that the client has prepared.
pub(super) struct Statement {
    /// None of an empty text.
    pub(super) prepared: Option<Prepared>,
    pub(super) command: Command,
    /// Of a setting that is kept by the connection.
    pub(super) access: Option<Access>,
    /// The types of parameters that the client has named, by their numbers.
    pub(super) oids: Vec<u32>,
    /// Its text, as others see it.
    pub(super) shown: Shown,
}

impl Statement {
    /// True of one that may be a part of a transaction and does more than to return rows.
    pub(super) fn is_change(&self) -> bool {
        let Some(prepared) = &self.prepared else { return false };
        self.command.is_change() && !prepared.statement().is_of_the_engine()
    }

    /// The types of its parameters.
    pub(super) fn parameters(&self) -> &[DataType] {
        self.prepared.as_ref().map_or(&[], Prepared::parameters)
    }

    /// The statement planned for parameters that are `numeric`: only their values say how many
    /// digits they have, and with fewer they would be rounded.
    pub(super) async fn with_numerics(
        self: Arc<Self>,
        session: &Session,
        values: &[Option<Bytes>],
        formats: &[Format],
    ) -> Result<Arc<Statement>, Failure> {
        let Some(prepared) = &self.prepared else { return Ok(self) };
        let mut types: Vec<_> = prepared.parameters().iter().cloned().map(Some).collect();
        let mut has_numerics = false;
        let numeric = Type::NUMERIC.oid();
        let oids = self.oids.iter().enumerate();
        for (index, _) in oids.filter(|(_, oid)| **oid == numeric) {
            if let Some(bytes) = values.get(index).and_then(Option::as_ref) {
                let what = format_args!("parameter ${}", index + 1);
                types[index] = Some(parameter::numeric_type(bytes, formats[index], what)?);
                has_numerics = true;
            }
        }
        if !has_numerics {
            return Ok(self);
        }
        let again = session.prepare(prepared.statement().clone(), &types);
        let prepared = Some(Box::pin(again).await?);
        let Self { command, access, oids, shown, .. } = self.as_ref();
        let (command, access, oids) = (command.clone(), access.clone(), oids.clone());
        Ok(Arc::new(Self { prepared, command, access, oids, shown: shown.clone() }))
    }

    /// The columns that it returns, with the names that clients are told.
    pub(super) fn schema(&self) -> Option<SchemaRef> {
        let prepared = self.prepared.as_ref()?;
        Some(Names::of(prepared.statement()).give(prepared.schema()?))
    }

    /// Number of columns that it returns.
    pub(super) fn columns(&self) -> usize {
        let schema = self.prepared.as_ref().and_then(Prepared::schema);
        schema.map_or(0, |schema| schema.fields().len())
    }
}

/// The name that a PREPARE gives.
pub(super) fn prepared_name(statement: &SessionStatement) -> Option<String> {
    let Some(SqlStatement::Prepare { name, .. }) = parsed(statement) else { return None };
    Some(IdentNormalizer::default().normalize(name.clone()))
}

/// Refuses to prepare an EXECUTE: its columns are those of another statement.
pub(super) fn refuse_execute(statement: &SessionStatement) -> Result<(), Failure> {
    let is_refused = matches!(parsed(statement), Some(SqlStatement::Execute { .. }));
    let text = "EXECUTE as a prepared statement is not possible; send it by itself, or prepare the \
                statement that it executes";
    if is_refused { Err(Failure::new(SqlState::UNSUPPORTED, text)) } else { Ok(()) }
}

/// The statement as the parser of SQL has it; none of one that another parser reads.
pub(super) fn parsed(statement: &SessionStatement) -> Option<&SqlStatement> {
    let SessionStatement::Sql(statement) = statement else { return None };
    match statement.as_ref() {
        Parsed::Statement(statement) => Some(statement),
        _ => None,
    }
}

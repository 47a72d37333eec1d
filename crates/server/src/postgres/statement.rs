//! Prepared statements of a connection.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use pgwire::api::Type;
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::data::NoData;
use terrace_functions::columns::TextType;
use terrace_sql::session::SessionStatement;
use terrace_sql::{Prepared, Session};

use super::access::Access;
use super::cell::Format;
use super::command::Command;
use super::description::description;
use super::encoded::{Encoded, encode};
use super::failure::{Failure, SqlState};
use super::parameter;
use crate::column_types::{pg_type, text_type};
use crate::pg_catalog::ColumnNames;
use crate::registry::Shown;
use crate::syntax::parsed;

/// A statement prepared by the client.
pub(super) struct Statement {
    /// The planned statement; `None` for an empty text, or a statement that needs no plan.
    pub(super) prepared: Option<Prepared>,
    pub(super) command: Command,
    /// The access to the connection's own state; `None` for a statement of the engine.
    pub(super) access: Option<Access>,
    /// OIDs of the parameter types that the client has named.
    pub(super) oids: Vec<u32>,
    /// The parameter types that clients are told, computed at the first request.
    pub(super) types: OnceLock<Vec<Type>>,
    /// The statement's text, as shown to others.
    pub(super) shown: Shown,
    /// Encoded messages that are the same at each run of the statement.
    pub(super) encoded: Encoded,
}

impl Statement {
    /// True if the statement can be part of a transaction and may do more than return rows.
    pub(super) fn is_change(&self) -> bool {
        let Some(prepared) = &self.prepared else { return false };
        let is_change = self.command.is_change() || prepared.locks_rows();
        is_change && !prepared.statement().is_of_the_engine()
    }

    /// True if the statement locks rows, for as long as its transaction lasts.
    pub(super) fn locks_rows(&self) -> bool {
        self.prepared.as_ref().is_some_and(Prepared::locks_rows)
    }

    /// True if the statement is a query, whose rows can be fetched step by step.
    pub(super) fn is_query(&self) -> bool {
        self.access.is_none() && self.command.returns_rows() && self.prepared.is_some()
    }

    /// Returns the types of the parameters.
    pub(super) fn parameters(&self) -> &[DataType] {
        self.prepared.as_ref().map_or(&[], Prepared::parameters)
    }

    /// Returns the parameter types that clients are told: those that the client has named, or else
    /// those inferred from the use of each parameter.
    pub(super) fn parameter_types(&self) -> &[Type] {
        self.types.get_or_init(|| self.named_types())
    }

    fn named_types(&self) -> Vec<Type> {
        let texts = self.prepared.as_ref().map(Prepared::text_types).unwrap_or_default();
        let texts = texts.into_iter().chain(std::iter::repeat(None));
        let of = |(index, (data_type, text)): (usize, (&DataType, Option<TextType>))| {
            let named = self.oids.get(index).copied().filter(|oid| *oid != 0);
            let named = named.and_then(Type::from_oid);
            named.or_else(|| text.map(text_type)).unwrap_or_else(|| pg_type(data_type))
        };
        self.parameters().iter().zip(texts).enumerate().map(of).collect()
    }

    /// True if the client has named a parameter `numeric`.
    pub(super) fn has_numerics(&self) -> bool {
        self.oids.contains(&Type::NUMERIC.oid())
    }

    /// Returns the statement planned anew for the values of its `numeric` parameters: their
    /// precision and scale follow from the values, which a type with fewer digits would round.
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
        let again = session.prepare_as(prepared.statement().clone(), &types, self.shown.text());
        let prepared = Some(Box::pin(again).await?);
        let Self { command, access, oids, shown, .. } = self.as_ref();
        let (command, access, oids) = (command.clone(), access.clone(), oids.clone());
        let (types, shown, encoded) = (OnceLock::new(), shown.clone(), Encoded::default());
        Ok(Arc::new(Self { prepared, command, access, oids, types, shown, encoded }))
    }

    /// Returns the result's columns, under the names that clients receive.
    pub(super) fn schema(&self) -> Option<SchemaRef> {
        let prepared = self.prepared.as_ref()?;
        Some(ColumnNames::of(prepared.statement()).give(prepared.schema()?))
    }

    /// Returns the encoded description of the result's columns in these formats, or of their
    /// absence.
    ///
    /// # Errors
    /// More columns than the protocol can count.
    pub(super) fn described(&self, formats: &[Format]) -> Result<Cow<'_, [u8]>, Failure> {
        self.encoded.description.messages(formats, |buffer| {
            let message = match self.schema() {
                Some(schema) => Out::RowDescription(description(&schema, formats)?),
                None => Out::NoData(NoData::new()),
            };
            encode(&message, buffer)
        })
    }

    /// Returns the number of columns of the result.
    pub(super) fn columns(&self) -> usize {
        let schema = self.prepared.as_ref().and_then(Prepared::schema);
        schema.map_or(0, |schema| schema.fields().len())
    }
}

/// Returns the name that a PREPARE defines.
pub(super) fn prepared_name(statement: &SessionStatement) -> Option<String> {
    let Some(SqlStatement::Prepare { name, .. }) = parsed(statement) else { return None };
    Some(IdentNormalizer::default().normalize(name.clone()))
}

/// Fails for an EXECUTE, which cannot be prepared: its columns are those of another statement.
pub(super) fn refuse_execute(statement: &SessionStatement) -> Result<(), Failure> {
    let is_refused = matches!(parsed(statement), Some(SqlStatement::Execute { .. }));
    let text = "EXECUTE as a prepared statement is not possible; send it by itself, or prepare the \
                statement that it executes";
    if is_refused { Err(Failure::new(SqlState::UNSUPPORTED, text)) } else { Ok(()) }
}

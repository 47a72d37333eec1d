//! `SHOW CREATE TABLE`, `DESCRIBE` and `PRAGMA table_info`: the definition of a table or view.

use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::{DataFusionError, ResolvedTableReference, TableReference};
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{ObjectName, ShowCreateObject};
use terrace_table::Encoding;
use terrace_table::catalog::Properties;
use terrace_table::error::SqlError;
use terrace_table::table::Table;

use super::nearest;
use super::own_settings::text;
use super::refusal::refused;
use super::rows::Rows;
use super::sql_type::{self, identifier};
use super::state::Session;
use crate::access::Privilege;
use crate::names::{CATALOG, SYSTEM_SCHEMA, SearchPath, resolve};
use crate::view;

impl Session {
    /// The row of `SHOW CREATE`: a statement that creates the same table or view, without sequences
    /// that defaults use.
    pub(super) fn creation(
        &self,
        state: &SessionState,
        kind: ShowCreateObject,
        name: &ObjectName,
    ) -> Result<Rows, SqlError> {
        if !matches!(kind, ShowCreateObject::Table | ShowCreateObject::View) {
            let instead = "say SHOW CREATE TABLE, or SHOW CREATE VIEW";
            return Err(refused(&format!("SHOW CREATE {kind} {name}"), instead));
        }
        let reference = reference(name);
        let snapshot = self.names.current();
        let full = resolve(state.config_options(), &snapshot, reference);
        self.refuse_hidden(&full)?;
        let (schema, table) = (full.schema.as_ref(), full.table.as_ref());
        let definition = if let Some((found, _)) = snapshot.table(schema, table) {
            table_definition(&found)
        } else if let Some(text) = snapshot.view(schema, table) {
            view::definition(&text)?
        } else if let Some(text) = self.names.external_definition(schema, table) {
            text
        } else if schema == SYSTEM_SCHEMA {
            let instead = "its tables show the state of the engine, and nothing creates them";
            return Err(refused(&format!("SHOW CREATE TABLE of {schema}.{table}"), instead));
        } else {
            return Err(self.missing(state, &text(name)));
        };
        Ok(Rows::default()
            .texts("table_catalog", [Some(CATALOG)])
            .texts("table_schema", [Some(schema)])
            .texts("table_name", [Some(table)])
            .texts("definition", [Some(definition)]))
    }

    /// Refuses to show the columns of a table or view to a role that may not read it.
    ///
    /// # Errors
    /// [`SqlError::Denied`].
    pub(super) fn refuse_hidden(&self, full: &ResolvedTableReference) -> Result<(), SqlError> {
        let snapshot = self.names.current();
        let rights = self.rights(&snapshot);
        let (schema, table) = (full.schema.as_ref(), full.table.as_ref());
        if full.catalog.as_ref() != CATALOG {
            return Ok(());
        }
        if schema == SYSTEM_SCHEMA {
            return rights.require_superuser(&format!("reading {SYSTEM_SCHEMA}.{table}"));
        }
        if !snapshot.has_object(schema, table) {
            return Ok(());
        }
        rights.require(Privilege::Usage, schema, None)?;
        rights.require(Privilege::Select, schema, Some(table))
    }

    /// The rows of `DESCRIBE t`; `None` if no table or view has the name.
    ///
    /// # Errors
    /// [`SqlError::Denied`].
    pub(super) async fn described(
        &self,
        state: &SessionState,
        name: &ObjectName,
    ) -> Result<Option<Rows>, SqlError> {
        let columns = match self.columns_of(state, &name.to_string()).await {
            Ok(columns) => columns,
            Err(error @ SqlError::Denied { .. }) => return Err(error),
            Err(_) => return Ok(None),
        };
        let fields = columns.fields();
        let is_nullable = |field: &FieldRef| Some(if field.is_nullable() { "YES" } else { "NO" });
        let rows = Rows::default()
            .texts("column_name", fields.iter().map(|field| Some(field.name())))
            .texts("data_type", fields.iter().map(|field| Some(sql_type::of(field))))
            .texts("is_nullable", fields.iter().map(is_nullable));
        Ok(Some(rows))
    }

    /// The rows of `PRAGMA table_info`.
    pub(super) async fn table_info(
        &self,
        state: &SessionState,
        name: &str,
    ) -> Result<Rows, SqlError> {
        let columns = self.columns_of(state, name).await?;
        let fields = columns.fields();
        let snapshot = self.names.current();
        let full = resolve(state.config_options(), &snapshot, TableReference::parse_str(name));
        let table = snapshot.table(&full.schema, &full.table).map(|(table, _)| table);
        let default = |field: &FieldRef| {
            let properties = table.as_ref()?.properties();
            properties.default_of(field.name()).map(str::to_owned)
        };
        Ok(Rows::default()
            .numbers("cid", 0..fields.len())
            .texts("name", fields.iter().map(|field| Some(field.name())))
            .texts("type", fields.iter().map(|field| Some(sql_type::of(field))))
            .flags("notnull", fields.iter().map(|field| !field.is_nullable()))
            .texts("dflt_value", fields.iter().map(default))
            .flags("pk", fields.iter().map(|_| false)))
    }

    /// The table or view whose name is most similar to that of a missing one, for the hint of an
    /// error; `None` if none is similar enough.
    #[must_use]
    pub fn nearest_relation(&self, missing: &str) -> Option<String> {
        let path = SearchPath::of(self.context.state_ref().read().config_options());
        nearest::relation(&self.names.names(), &path, missing)
    }

    async fn columns_of(&self, state: &SessionState, name: &str) -> Result<SchemaRef, SqlError> {
        let reference = TableReference::parse_str(name);
        let full = resolve(state.config_options(), &self.names.current(), reference);
        self.refuse_hidden(&full)?;
        let columns = self.names.names();
        let columns = columns.columns(&full.schema, &full.table).await?;
        columns.ok_or_else(|| self.missing(state, name))
    }

    /// The error for a table that does not exist, with the name that may have been meant.
    pub(super) fn missing(&self, state: &SessionState, name: &str) -> SqlError {
        let path = SearchPath::of(state.config_options());
        let near = nearest::relation(&self.names.names(), &path, name);
        DataFusionError::Plan(nearest::not_found("table", name, near)).into()
    }
}

fn reference(name: &ObjectName) -> TableReference {
    TableReference::parse_str(&name.to_string())
}

/// The CREATE TABLE of a table, with its full name.
pub(super) fn table_definition(table: &Table) -> String {
    let properties = table.properties();
    let columns = table.schema().fields().iter().map(|field| column(field, properties));
    let checks = properties
        .checks
        .iter()
        .map(|(name, condition)| format!("CONSTRAINT {} CHECK ({condition})", identifier(name)));
    let parts = columns.chain(checks).collect::<Vec<_>>().join(",\n  ");
    let name = format!("{}.{}", identifier(table.schema_name()), identifier(table.name()));
    let options = match table.encoding() {
        encoding if encoding == Encoding::default() => String::new(),
        encoding => format!(" WITH (encoding = '{encoding}')"),
    };
    format!("CREATE TABLE {name} (\n  {parts}\n){options}")
}

/// The definition of a column in CREATE TABLE.
fn column(field: &FieldRef, properties: &Properties) -> String {
    let mut text = format!("{} {}", identifier(field.name()), sql_type::of(field));
    let own = properties.of(field.name());
    match own.and_then(|own| own.identity) {
        Some(identity) => {
            text.push_str(&format!(" GENERATED {} AS IDENTITY", identity.keywords()));
        }
        None => {
            if let Some(default) = own.and_then(|own| own.default.as_ref()) {
                text.push_str(&format!(" DEFAULT {default}"));
            }
        }
    }
    if let Some(generated) = own.and_then(|own| own.generated.as_ref()) {
        text.push_str(&format!(" GENERATED ALWAYS AS ({generated}) STORED"));
    }
    if !field.is_nullable() {
        text.push_str(" NOT NULL");
    }
    text
}

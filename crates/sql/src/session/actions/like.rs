//! Running of `CREATE TABLE ... (LIKE ...)`.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    CreateTable, CreateTableLikeDefaults, CreateTableLikeKind, Statement as SqlStatement,
};
use terrace_table::Encoding;
use terrace_table::catalog::{IfExists, Properties, Snapshot, TableDefinition};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use crate::access::Privilege;
use crate::session::refusal::refused;
use crate::session::state::{Planned, Session};

/// Returns a CREATE TABLE with the columns of another table; `None` for any other statement.
pub(in crate::session) fn of(statement: &Statement) -> Option<&CreateTable> {
    let Statement::Statement(statement) = statement else { return None };
    match statement.as_ref() {
        SqlStatement::CreateTable(create) if create.like.is_some() => Some(create),
        _ => None,
    }
}

impl Session {
    /// Creates a table with the columns of another one, their NOT NULL, and their defaults if the
    /// statement includes them.
    ///
    /// # Errors
    /// [`SqlError::Missing`], [`SqlError::Exists`], [`SqlError::Denied`]; errors of the catalog.
    pub(in crate::session) async fn create_like(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        create: &CreateTable,
        encoding: Encoding,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        let (CreateTableLikeKind::Parenthesized(like) | CreateTableLikeKind::Plain(like)) =
            create.like.as_ref().ok_or_else(|| refused("LIKE without a table", "name one"))?;
        if create.temporary {
            return Err(refused("a temporary table", "leave TEMPORARY out and drop it when done"));
        }
        self.refuse_change(scope, "a definition")?;
        let if_exists = match (create.if_not_exists, create.or_replace) {
            (true, _) => IfExists::Keep,
            (false, true) => IfExists::Replace,
            (false, false) => IfExists::Fail,
        };
        let source =
            self.own_name(state, object_name_to_table_reference(like.name.clone(), true)?)?;
        let missing = || SqlError::Missing { name: format!("{}.{}", source.schema, source.name) };
        let (source, _) = snapshot.table(&source.schema, &source.name).ok_or_else(missing)?;
        let (schema, name) = (source.schema_name(), Some(source.name()));
        self.rights(snapshot).require(Privilege::Select, schema, name)?;
        let own =
            self.new_name(state, object_name_to_table_reference(create.name.clone(), true)?)?;
        let replaces = if_exists == IfExists::Replace;
        self.refuse_making(snapshot, &own.schema, &own.name, replaces)?;
        let mut properties = Properties::default();
        if let Some(CreateTableLikeDefaults::Including) = like.defaults {
            for (column, of_source) in &source.properties().columns {
                properties.change(column, |column| column.default.clone_from(&of_source.default));
            }
        }
        let definition = TableDefinition {
            schema_name: own.schema,
            name: own.name,
            columns: Arc::clone(source.schema()),
            encoding,
            properties,
            owner: self.role().as_deref().map(str::to_owned),
        };
        self.engine.catalog().create_table_in(scope, definition, if_exists).await?;
        Ok(Planned::nothing())
    }
}

//! Statements that define tables, views and schemas.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, Fields, Schema};
use datafusion::common::{
    Constraints, DFSchema, ResolvedTableReference, Result, SchemaReference, TableReference,
    plan_err,
};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    CreateCatalogSchema, CreateMemoryTable, CreateView, DdlStatement, DropCatalogSchema, DropTable,
    DropView, LogicalPlan,
};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::FutureExt;
use terrace_table::catalog::{Draft, IfExists, Snapshot, TableDefinition};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;
use terrace_table::write::{CountExec, Terms, write_rows};

use super::exclusive::{Begun, Exclusive};
use super::options::TableOptions;
use super::properties;
use super::state::{Planned, Session};
use crate::access::Privilege;
use crate::names::{CATALOG, SearchPath, resolve};
use crate::provider::StoredTable;
use crate::system::SYSTEM_SCHEMA;
use crate::view;

/// Schema and name of an object in the database.
pub(super) struct Name {
    pub(super) schema: String,
    pub(super) name: String,
}

/// Context of a definition: names are resolved in the state's snapshot.
#[derive(Clone, Copy)]
struct At<'a> {
    state: &'a SessionState,
    snapshot: &'a Snapshot,
    scope: &'a Scope,
}

impl Session {
    /// Runs a definition, or plans it if it inserts rows. A new table gets `options`.
    pub(super) async fn define(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        definition: DdlStatement,
        options: TableOptions,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        let at = At { state, snapshot, scope };
        match definition {
            DdlStatement::CreateMemoryTable(create) => self.create_table(at, create, options).await,
            DdlStatement::CreateView(create) => self.create_view(at, create).await,
            DdlStatement::CreateCatalogSchema(create) => self.create_schema(at, create).await,
            DdlStatement::DropTable(drop) => self.drop_table(at, drop).await,
            DdlStatement::DropView(drop) => self.drop_view(at, drop).await,
            DdlStatement::DropCatalogSchema(drop) => self.drop_schema(at, drop).await,
            other => {
                self.context.execute_logical_plan(LogicalPlan::Ddl(other)).await?;
                Ok(Planned::nothing())
            }
        }
    }

    async fn create_table(
        &self,
        at: At<'_>,
        create: CreateMemoryTable,
        options: TableOptions,
    ) -> Result<Planned, SqlError> {
        let At { state, snapshot, scope } = at;
        refuse_unkept(&create)?;
        let if_exists = match (create.if_not_exists, create.or_replace) {
            (true, true) => {
                return Ok(plan_err!("IF NOT EXISTS and OR REPLACE exclude each other")?);
            }
            (true, false) => IfExists::Keep,
            (false, true) => IfExists::Replace,
            (false, false) => IfExists::Fail,
        };
        let Name { schema: schema_name, name } = self.new_name(state, create.name)?;
        let replaces = if_exists == IfExists::Replace;
        self.refuse_making(snapshot, &schema_name, &name, replaces)?;
        let input = Arc::unwrap_or_clone(create.input);
        refuse_duplicates(input.schema())?;
        let has_rows =
            !matches!(input, LogicalPlan::EmptyRelation(ref empty) if !empty.produce_one_row);
        let columns = Arc::clone(input.schema().inner());
        let columns = if has_rows { Arc::new(nullable(&columns)) } else { columns };
        let owner = self.role().as_deref().map(str::to_owned);
        let TableOptions { encoding, written } = options;
        let properties = properties::validated(state, &name, &columns, &written)?;
        let definition =
            TableDefinition { schema_name, name, columns, encoding, properties, owner };
        if !has_rows {
            self.engine.catalog().create_table_in(scope, definition, if_exists).await?;
            return Ok(Planned::nothing());
        }
        let replaced =
            StoredTable::find(&self.engine, snapshot, &definition.schema_name, &definition.name);
        if let (IfExists::Replace, Some(replaced)) = (if_exists, replaced) {
            return self.replace_table(state, definition, input, &replaced).await;
        }
        let input = state.create_physical_plan(&input).await?;
        Ok(self.create_table_as(definition, if_exists, input))
    }

    /// A plan that replaces `replaced` by a table with the rows of `input`, which reads `replaced`,
    /// and returns their number.
    async fn replace_table(
        &self,
        state: &SessionState,
        definition: TableDefinition,
        input: LogicalPlan,
        replaced: &StoredTable,
    ) -> Result<Planned, SqlError> {
        let catalog = Arc::clone(self.engine.catalog());
        let exclusive = Exclusive::new(Arc::clone(&catalog), state.clone(), input, replaced);
        let exclusive = Arc::new(exclusive.await?);
        let watched = Some(Arc::clone(exclusive.physical()));
        let name = replaced.table().full_name();
        let plan = CountExec::plan(format!("ReplaceTableExec: table={name}"), move |context| {
            let (catalog, exclusive) = (Arc::clone(&catalog), Arc::clone(&exclusive));
            let definition = definition.clone();
            async move {
                let memory = Arc::clone(context.memory_pool());
                let Begun { rewrite, rows, checks: _ } = exclusive.begin(context).await?;
                let table = catalog.unnamed(definition)?;
                let changes = write_rows(&table, rows, Terms::default(), &memory).await?;
                let count = changes.rows();
                rewrite.replace(&catalog, &table, changes).await?;
                Ok(count)
            }
            .boxed()
        });
        Ok(Planned { plan, watched })
    }

    /// A plan that creates a table with the rows of `input` and returns their number.
    fn create_table_as(
        &self,
        definition: TableDefinition,
        if_exists: IfExists,
        input: Arc<dyn ExecutionPlan>,
    ) -> Planned {
        let catalog = Arc::clone(self.engine.catalog());
        let what = format!("CreateTableExec: table={}.{}", definition.schema_name, definition.name);
        let watched = Arc::clone(&input);
        let plan = CountExec::plan(what, move |context| {
            let (catalog, definition) = (Arc::clone(&catalog), definition.clone());
            let input = Arc::clone(&input);
            async move {
                let (scope, memory) = (Scope::of(&context), Arc::clone(context.memory_pool()));
                let rows = execute_stream(input, context)?;
                let made = catalog
                    .create_table_as_in(&scope, definition, if_exists, rows, &memory)
                    .await?;
                Ok(made.unwrap_or(0))
            }
            .boxed()
        });
        Planned { plan, watched: Some(watched) }
    }

    async fn create_view(&self, at: At<'_>, create: CreateView) -> Result<Planned, SqlError> {
        let At { state, snapshot, scope } = at;
        if create.temporary {
            return Err(refused("a temporary view", "leave TEMPORARY out, or use WITH"));
        }
        refuse_duplicates(create.input.schema())?;
        let Name { schema, name } = self.new_name(state, create.name)?;
        self.refuse_making(snapshot, &schema, &name, create.or_replace)?;
        let Some(definition) = create.definition else {
            return Err(refused("a view without its text", "define it by CREATE VIEW"));
        };
        let default_schema = &state.config_options().catalog.default_schema;
        let text = view::text(default_schema, &definition);
        view::refuse_cycle(snapshot, state, (&schema, &name), &text)?;
        let put = |draft: &mut Draft| {
            draft.put_view(&schema, &name, &text, create.or_replace)?;
            draft.own(&schema, Some(&name), self.role().as_deref())
        };
        scope.define(self.engine.catalog(), put).await?;
        Ok(Planned::nothing())
    }

    async fn create_schema(
        &self,
        at: At<'_>,
        create: CreateCatalogSchema,
    ) -> Result<Planned, SqlError> {
        let At { snapshot, scope, .. } = at;
        self.rights(snapshot).require_superuser("making a schema")?;
        let name = match create.schema_name.split_once('.') {
            None => create.schema_name.as_str(),
            Some((CATALOG, name)) => name,
            Some((catalog, _)) => return Err(other_catalog(catalog)),
        };
        refuse_reserved(name)?;
        let make = |draft: &mut Draft| match draft.create_schema(name, create.if_not_exists)? {
            true => draft.own(name, None, self.role().as_deref()),
            false => Ok(()),
        };
        scope.define(self.engine.catalog(), make).await?;
        Ok(Planned::nothing())
    }

    async fn drop_table(&self, at: At<'_>, drop: DropTable) -> Result<Planned, SqlError> {
        let At { state, snapshot, scope } = at;
        let Name { schema, name } = self.own_name(state, drop.name)?;
        if snapshot.has_object(&schema, &name) {
            self.rights(snapshot).require_owner("dropping it", &schema, Some(&name))?;
        }
        let take = |draft: &mut Draft| draft.drop_table(&schema, &name);
        let dropped = self.names.drop_external(&schema, &name)
            || scope.define(self.engine.catalog(), take).await?;
        if !dropped && snapshot.view(&schema, &name).is_some() {
            let name = format!("{schema}.{name}");
            return Err(refused(&format!("DROP TABLE of the view {name}"), "say DROP VIEW"));
        }
        missing_unless(dropped || drop.if_exists, &schema, &name)
    }

    async fn drop_view(&self, at: At<'_>, drop: DropView) -> Result<Planned, SqlError> {
        let At { state, snapshot, scope } = at;
        let Name { schema, name } = self.own_name(state, drop.name)?;
        if snapshot.has_object(&schema, &name) {
            self.rights(snapshot).require_owner("dropping it", &schema, Some(&name))?;
        }
        let take = |draft: &mut Draft| draft.drop_view(&schema, &name);
        let dropped = scope.define(self.engine.catalog(), take).await?;
        if !dropped && snapshot.table(&schema, &name).is_some() {
            let name = format!("{schema}.{name}");
            return Err(refused(&format!("DROP VIEW of the table {name}"), "say DROP TABLE"));
        }
        missing_unless(dropped || drop.if_exists, &schema, &name)
    }

    async fn drop_schema(&self, at: At<'_>, drop: DropCatalogSchema) -> Result<Planned, SqlError> {
        let At { snapshot, scope, .. } = at;
        let name = match &drop.name {
            SchemaReference::Full { catalog, .. } if catalog.as_ref() != CATALOG => {
                return Err(other_catalog(catalog));
            }
            SchemaReference::Full { schema, .. } | SchemaReference::Bare { schema } => schema,
        };
        refuse_reserved(name)?;
        if snapshot.has_schema(name) {
            self.rights(snapshot).require_owner("dropping it", name, None)?;
        }
        let take = |draft: &mut Draft| draft.drop_schema(name, drop.cascade);
        let dropped = scope.define(self.engine.catalog(), take).await?;
        if dropped || drop.if_exists {
            return Ok(Planned::nothing());
        }
        Err(SqlError::MissingSchema { name: name.to_string() })
    }

    /// Resolves a reference to the schema and name of an existing object, which must be in the
    /// database. Without such an object the schema is the one in which it would be created.
    pub(super) fn own_name(
        &self,
        state: &SessionState,
        reference: TableReference,
    ) -> Result<Name, SqlError> {
        let snapshot = self.names.current();
        in_database(resolve(state.config_options(), &snapshot, reference))
    }

    /// Resolves a reference to the schema and name of a new object, which must be in the database.
    pub(super) fn new_name(
        &self,
        state: &SessionState,
        reference: TableReference,
    ) -> Result<Name, SqlError> {
        let options = state.config_options();
        let (path, snapshot) = (SearchPath::of(options), self.names.current());
        let schema = match (&reference, path.first(&snapshot)) {
            (TableReference::Bare { .. }, None) => {
                return Err(refused(
                    &format!("creating {reference}: no schema of the search path exists"),
                    "name the schema, or say SET search_path = public",
                ));
            }
            (_, schema) => schema.unwrap_or_default(),
        };
        in_database(reference.resolve(&options.catalog.default_catalog, schema))
    }

    /// Refuses a table or view that the role may not create, a replacement that it may not make,
    /// and a name that would hide an external table.
    pub(super) fn refuse_making(
        &self,
        snapshot: &Snapshot,
        schema: &str,
        name: &str,
        replaces: bool,
    ) -> Result<(), SqlError> {
        if snapshot.has_schema(schema) {
            self.rights(snapshot).require(Privilege::Create, schema, None)?;
        }
        if replaces && snapshot.has_object(schema, name) {
            self.rights(snapshot).require_owner("replacing it", schema, Some(name))?;
        }
        self.refuse_external(schema, name)
    }

    fn refuse_external(&self, schema: &str, name: &str) -> Result<(), SqlError> {
        match self.names.has_external(schema, name) {
            true => Err(SqlError::Exists { name: format!("external table {schema}.{name}") }),
            false => Ok(()),
        }
    }
}

/// The schema and name of an object, which must be in the database.
fn in_database(full: ResolvedTableReference) -> Result<Name, SqlError> {
    if full.catalog.as_ref() != CATALOG {
        return Err(other_catalog(&full.catalog));
    }
    refuse_reserved(&full.schema)?;
    Ok(Name { schema: full.schema.to_string(), name: full.table.to_string() })
}

/// Refuses properties that a table would not enforce.
fn refuse_unkept(create: &CreateMemoryTable) -> Result<(), SqlError> {
    if create.temporary {
        return Err(refused("a temporary table", "leave TEMPORARY out and drop it when done"));
    }
    if create.constraints != Constraints::default() {
        let instead = "leave the constraint out: no index enforces it";
        return Err(refused("a table with PRIMARY KEY or UNIQUE", instead));
    }
    Ok(())
}

/// Returns the columns of a table with the rows of a query: NOT NULL belongs to the tables that the
/// query reads.
fn nullable(columns: &Schema) -> Schema {
    let field = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
    let fields: Fields = columns.fields().iter().map(field).collect();
    Schema::new_with_metadata(fields, columns.metadata().clone())
}

/// Refuses columns of the same name, which a query may have and a table may not.
fn refuse_duplicates(schema: &DFSchema) -> Result<(), SqlError> {
    let mut names = HashSet::new();
    match schema.fields().iter().find(|field| !names.insert(field.name())) {
        None => Ok(()),
        Some(field) => Err(refused(
            &format!("two columns of the name {}", field.name()),
            "give one of them another name with AS",
        )),
    }
}

fn refuse_reserved(schema: &str) -> Result<(), SqlError> {
    match schema {
        SYSTEM_SCHEMA | "information_schema" | "pg_catalog" => Err(refused(
            &format!("defining anything in schema {schema}"),
            "its tables show the state of the engine; name another schema",
        )),
        _ => Ok(()),
    }
}

fn other_catalog(catalog: &str) -> SqlError {
    refused(
        &format!("defining anything in catalog {catalog}"),
        &format!("the database is the catalog {CATALOG}"),
    )
}

fn missing_unless(done: bool, schema: &str, name: &str) -> Result<Planned, SqlError> {
    match done {
        true => Ok(Planned::nothing()),
        false => Err(SqlError::Missing { name: format!("{schema}.{name}") }),
    }
}

fn refused(what: &str, instead: &str) -> SqlError {
    SqlError::Refused { what: what.to_owned(), instead: instead.to_owned() }
}

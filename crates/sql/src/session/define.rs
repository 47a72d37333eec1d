//! Execution of statements that define tables, views and schemas.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, FieldRef, Fields, Schema};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    Constraints, DFSchema, DFSchemaRef, Result, SchemaReference, TableReference, plan_err,
};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    CreateCatalogSchema, CreateMemoryTable, CreateView, DdlStatement, DropCatalogSchema,
    LogicalPlan,
};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::FutureExt;
use terrace_functions::columns::is_checked;
use terrace_table::catalog::{
    Draft, IfExists, Snapshot, TableDefinition, TextKind, with_named_type,
};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;
use terrace_table::write::{CountExec, Terms, write_rows};

use super::dependencies::{Object, drop_all};
use super::enums::field::may_be_of_enum;
use super::enums::plan::columns_of;
use super::exclusive::{Begun, Exclusive};
use super::notice::Notice;
pub(super) use super::object_name::Name;
use super::object_name::{other_catalog, refuse_reserved, refuse_schema_name};
use super::options::{TableOptions, WrittenView};
use super::parse::parse;
use super::state::{Planned, Session};
use super::statement::SessionStatement;
use super::types::of_output;
use super::{owned_sequences, properties, sequence_calls};
use crate::names::{CATALOG, SearchPath, is_temporary, resolve};
use crate::provider::StoredTable;
use crate::view;

/// Planning state, catalog snapshot and transaction scope of a definition.
#[derive(Clone, Copy)]
struct At<'a> {
    state: &'a SessionState,
    snapshot: &'a Snapshot,
    scope: &'a Scope,
}

impl Session {
    /// Runs a definition, or plans it if it inserts rows. `options` are those of a new table or
    /// view that the logical plan lacks.
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
            DdlStatement::CreateView(create) => self.create_view(at, create, options.view).await,
            DdlStatement::CreateCatalogSchema(create) => self.create_schema(at, create).await,
            DdlStatement::DropCatalogSchema(drop) => self.drop_schema(at, drop).await,
            DdlStatement::CreateExternalTable(mut create) => {
                create.schema = plain_columns(&create.schema)?;
                let create = DdlStatement::CreateExternalTable(create);
                self.context.execute_logical_plan(LogicalPlan::Ddl(create)).await?;
                Ok(Planned::nothing())
            }
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
        let replaces = if_exists == IfExists::Replace;
        let name = create.name;
        let Name { schema: schema_name, name } = match options.is_temporary {
            true => self.make_temporary(scope, &name).await?,
            false => self.name_to_make(state, snapshot, name, replaces)?,
        };
        let input = Arc::unwrap_or_clone(create.input);
        refuse_duplicates(input.schema())?;
        let has_rows =
            !matches!(input, LogicalPlan::EmptyRelation(ref empty) if !empty.produce_one_row);
        if has_rows && if_exists == IfExists::Keep && snapshot.has_object(&schema_name, &name) {
            self.notice(Notice::relation_exists(&name));
            return Ok(Planned::nothing());
        }
        let input = self.with_limits(state, snapshot, input).await?;
        let columns = match has_rows {
            true => columns_of_rows(state, &input)?,
            false => Arc::clone(input.schema().inner()),
        };
        let owner = self.role().as_deref().map(str::to_owned);
        let TableOptions { encoding, mut written, on_commit, .. } = options;
        let is_plain = written.generated.is_empty() && written.sequences.is_empty();
        if has_rows && !(is_plain && written.checks.is_empty()) {
            let what = format!("table {name} with generated columns or CHECK and rows of a query");
            return Err(refused(&what, "create the table first, and say INSERT"));
        }
        for (_, text) in &mut written.defaults {
            *text = sequence_calls::qualified(state, snapshot, &schema_name, text)?;
        }
        let mut properties = properties::validated(state, &name, &columns, &written)?;
        let catalog = self.engine.catalog();
        properties.on_commit = on_commit;
        self.note_on_commit(on_commit);
        let named = (schema_name.as_str(), name.as_str());
        let sequences =
            owned_sequences::make(catalog, snapshot, named, &columns, &written, &mut properties)?;
        let definition =
            TableDefinition { schema_name, name, columns, encoding, properties, owner };
        if !has_rows {
            let name = definition.name.clone();
            let made = catalog.create_table_with(scope, definition, sequences, if_exists).await?;
            if made.is_none() {
                self.notice(Notice::relation_exists(&name));
            }
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

    /// A plan that replaces `replaced` by a table with the rows of `input`, which may read
    /// `replaced`, and returns their number.
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
        let (watched, notices) = (Arc::clone(&input), self.notices.clone());
        let plan = CountExec::plan(what, move |context| {
            let (catalog, definition) = (Arc::clone(&catalog), definition.clone());
            let (input, notices) = (Arc::clone(&input), notices.clone());
            async move {
                let (scope, memory) = (Scope::of(&context), Arc::clone(context.memory_pool()));
                let rows = execute_stream(input, context)?;
                let name = definition.name.clone();
                let made = catalog
                    .create_table_as_in(&scope, definition, if_exists, rows, &memory)
                    .await?;
                if made.is_none() {
                    notices.give(Notice::relation_exists(&name));
                }
                Ok(made.unwrap_or(0))
            }
            .boxed()
        });
        Planned { plan, watched: Some(watched) }
    }

    async fn create_view(
        &self,
        at: At<'_>,
        create: CreateView,
        written: Option<WrittenView>,
    ) -> Result<Planned, SqlError> {
        let At { state, snapshot, scope } = at;
        refuse_duplicates(create.input.schema())?;
        let Name { schema, name } = match create.temporary {
            true => self.make_temporary(scope, &create.name).await?,
            false => {
                refuse_temporary(state, snapshot, &create.input)?;
                self.name_to_make(state, snapshot, create.name, create.or_replace)?
            }
        };
        let Some(definition) = create.definition else {
            return Err(refused("a view without its text", "define it by CREATE VIEW"));
        };
        if let (false, Some(sequence)) =
            (create.temporary, temporary_sequence(state, snapshot, &definition)?)
        {
            let what = format!("a view over the temporary sequence {sequence}");
            return Err(refused(&what, "say CREATE TEMP VIEW"));
        }
        let path = SearchPath::of(state.config_options());
        let path = match (create.temporary, path.temporary()) {
            (true, Some(temporary)) => format!("{temporary}, {}", path.text()),
            _ => path.text(),
        };
        let text = view::text(&path, &definition, written.as_ref().map(|it| it.text.as_str()));
        view::refuse_cycle(snapshot, state, (&schema, &name), &text)?;
        let tables = view::tables_of(snapshot, state, &text)?;
        let calls = written.map(|it| it.calls).unwrap_or_default();
        let calls = calls.iter().filter_map(|(schema, key)| {
            let object = snapshot.text(TextKind::Function, schema, key)?;
            Some((schema.as_str(), key.as_str(), object))
        });
        let calls: Vec<_> = calls.collect();
        let put = |draft: &mut Draft| {
            tables.iter().try_for_each(|table| draft.depend_on_table(table))?;
            for (schema, key, object) in &calls {
                draft.depend_on_text(TextKind::Function, (schema, key), object)?;
            }
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
        refuse_schema_name(name)?;
        let make = |draft: &mut Draft| {
            let is_made = draft.create_schema(name, create.if_not_exists)?;
            if is_made {
                draft.own(name, None, self.role().as_deref())?;
            }
            Ok(is_made)
        };
        if !scope.define(self.engine.catalog(), make).await? {
            self.notice(Notice::exists("42P06", format_args!("schema \"{name}\"")));
        }
        Ok(Planned::nothing())
    }

    async fn drop_schema(&self, at: At<'_>, drop: DropCatalogSchema) -> Result<Planned, SqlError> {
        let At { state, snapshot, scope } = at;
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
        let take = |draft: &mut Draft| {
            let others = match drop.cascade {
                true => {
                    let all = Object::all_of(draft.snapshot(), name);
                    drop_all(state, draft, &all, true)?
                }
                false => Vec::new(),
            };
            Ok((draft.drop_schema(name, drop.cascade)?, others))
        };
        let (dropped, others) = scope.define(self.engine.catalog(), take).await?;
        self.note_cascade(state, snapshot, &others);
        if !dropped && !drop.if_exists {
            return Err(SqlError::MissingSchema { name: name.to_string() });
        }
        if !dropped {
            self.notice(Notice::missing(format_args!("schema \"{name}\"")));
        }
        Ok(Planned::nothing())
    }
}

/// Refuses a view that is not temporary over a temporary table or view, which it would outlive.
fn refuse_temporary(
    state: &SessionState,
    snapshot: &Snapshot,
    query: &LogicalPlan,
) -> Result<(), SqlError> {
    let mut found = None;
    query.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let full = resolve(state.config_options(), snapshot, scan.table_name.clone());
            found = found.take().or_else(|| is_temporary(&full.schema).then_some(full.table));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    match found {
        None => Ok(()),
        Some(name) => {
            Err(refused(&format!("a view over the temporary {name}"), "say CREATE TEMP VIEW"))
        }
    }
}

/// The name of a temporary sequence that the definition of a view uses; `None` if it uses none.
fn temporary_sequence(
    state: &SessionState,
    snapshot: &Snapshot,
    definition: &str,
) -> Result<Option<String>, SqlError> {
    if !sequence_calls::may_call(definition) {
        return Ok(None);
    }
    let statement = parse(definition)?.pop().and_then(SessionStatement::into_sql);
    let names = statement.map(|mut it| sequence_calls::named(&mut it)).unwrap_or_default();
    let mut temporary = names.into_iter().filter_map(|name| {
        let full = resolve(state.config_options(), snapshot, TableReference::parse_str(&name));
        is_temporary(&full.schema).then(|| full.table.to_string())
    });
    Ok(temporary.next())
}

/// Refuses PRIMARY KEY and UNIQUE, which no index would enforce.
fn refuse_unkept(create: &CreateMemoryTable) -> Result<(), SqlError> {
    if create.constraints != Constraints::default() {
        let instead = "leave the constraint out: no index enforces it";
        return Err(refused("a table with PRIMARY KEY or UNIQUE", instead));
    }
    Ok(())
}

/// The columns of a table that is created with the rows of a query.
fn columns_of_rows(state: &SessionState, input: &LogicalPlan) -> Result<Arc<Schema>, SqlError> {
    let columns = with_marks(state, input.schema().inner(), input)?;
    Ok(Arc::new(nullable(&with_enums(&columns, &columns_of(state, input)?))))
}

/// Returns `columns` with the types UUID, JSON and JSONB that only the analyzer finds: those of
/// CASE expressions, unions and lists.
fn with_marks(state: &SessionState, columns: &Schema, input: &LogicalPlan) -> Result<Schema> {
    let plan = of_output(input.clone())?;
    let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
    let fields = columns.fields().iter().zip(plan.schema().fields());
    let fields = fields.map(|(field, found)| match is_checked(found) && !is_checked(field) {
        true => Arc::new(found.as_ref().clone().with_name(field.name())),
        false => Arc::clone(field),
    });
    let fields: Fields = fields.collect();
    Ok(Schema::new_with_metadata(fields, columns.metadata().clone()))
}

/// Returns `columns` with their enum types. `enums` has the schema and name of each column's type.
fn with_enums(columns: &Schema, enums: &[Option<(String, String)>]) -> Schema {
    let fields = columns.fields().iter().zip(enums).map(|(field, of)| {
        let of = of.as_ref().filter(|_| may_be_of_enum(field.data_type()));
        let of = of.map(|(schema, name)| (schema.as_str(), name.as_str()));
        Arc::new(with_named_type(field, of))
    });
    let fields: Fields = fields.collect();
    Schema::new_with_metadata(fields, columns.metadata().clone())
}

/// Returns `columns` without NOT NULL, which a table created from a query does not inherit from
/// the tables that the query reads.
fn nullable(columns: &Schema) -> Schema {
    let field = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
    let fields: Fields = columns.fields().iter().map(field).collect();
    Schema::new_with_metadata(fields, columns.metadata().clone())
}

/// Returns the columns of an external table without the types that are marked in metadata, such as
/// UUID and VARCHAR(n): nothing checks the values of a file.
fn plain_columns(columns: &DFSchema) -> Result<DFSchemaRef> {
    let fields = columns.fields().iter();
    let plain = fields.map(|field| Field::clone(field).with_metadata(HashMap::new()));
    Ok(Arc::new(DFSchema::try_from(Schema::new(plain.collect::<Vec<_>>()))?))
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

fn refused(what: &str, instead: &str) -> SqlError {
    SqlError::Refused { what: what.to_owned(), instead: instead.to_owned() }
}

//! Views: statements that the catalog stores and that are planned at each use.
//!
//! A view is stored as the text of its CREATE VIEW statement, after a comment with the default
//! schema of its names. Planning at each use resolves the current tables.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session as CatalogSession, TableProvider};
use datafusion::common::{
    DataFusionError, Result, exec_datafusion_err, exec_err, plan_datafusion_err,
};
use datafusion::datasource::ViewTable;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Ident, Select, SelectItem, Statement as SqlStatement, VisitorMut,
};
use terrace_table::catalog::Snapshot;
use terrace_table::table::Table;

use crate::access::{Reading, Rights, check_names};
use crate::names::{Added, CATALOG, SearchPath, resolve};
use crate::session::{self, SessionStatement, Walk as _, using};

const SCHEMA_NOTE: &str = "-- names without a schema are in ";

/// Maximum nesting of views below a view.
const DEPTH_MAX: usize = 64;

/// The stored text of a view whose statement is `definition`.
pub(crate) fn text(default_schema: &str, definition: &str) -> String {
    format!("{SCHEMA_NOTE}{default_schema}\n{definition}")
}

/// Splits a stored text into the default schema and the statement.
fn parts(text: &str) -> Result<(&str, Statement)> {
    let (note, definition) = text.split_once('\n').unwrap_or_default();
    let schema = note.strip_prefix(SCHEMA_NOTE);
    let statement = session::parse(definition)?.into_iter().next();
    let statement = statement.and_then(SessionStatement::into_sql);
    schema.zip(statement).ok_or_else(|| exec_datafusion_err!("the text of a view is damaged"))
}

/// The statement that created a stored view.
///
/// # Errors
/// If the stored text is damaged.
pub(crate) fn definition(text: &str) -> Result<String> {
    let (_, definition) = text
        .split_once('\n')
        .ok_or_else(|| exec_datafusion_err!("the text of a view is damaged"))?;
    Ok(definition.to_owned())
}

/// The text of the query of a stored view.
///
/// # Errors
/// If the stored text is damaged.
pub(crate) fn query_text(text: &str) -> Result<String> {
    let (_, statement) = parts(text)?;
    Ok(query(statement)?.to_string())
}

/// Plans a stored view with a state that resolves names in `snapshot`. Its tables are read with the
/// rights of its owner.
pub(crate) async fn provider(
    state: &SessionState,
    snapshot: &Snapshot,
    name: (&str, &str),
    text: &str,
) -> Result<Arc<dyn TableProvider>> {
    let (schema, mut statement) = parts(text)?;
    let (home, name) = name;
    let mut state = state.clone();
    let options = state.config_mut().options_mut();
    options.catalog.default_catalog = CATALOG.to_owned();
    options.catalog.default_schema = schema.to_owned();
    Added::rewrite(&state, &mut statement);
    let rights = Rights::of_view(snapshot, snapshot.access(home, Some(name)));
    check_names(&state, &query(statement.clone())?, &rights, Reading::View)?;
    // The recursion goes through the catalog, which resolves the views that this one refers to.
    Box::pin(using::write_out(&state, &mut statement)).await?;
    let plan = match Box::pin(state.statement_to_plan(statement)).await {
        Ok(plan) => plan,
        Err(error) => {
            let (_, statement) = parts(text)?;
            return Err(Box::pin(cause(&state, snapshot, &query(statement)?, error)).await);
        }
    };
    let LogicalPlan::Ddl(DdlStatement::CreateView(view)) = plan else {
        return exec_err!("the text of a view is damaged");
    };
    Ok(Arc::new(ViewTable::new(Arc::unwrap_or_clone(view.input), view.definition)))
}

/// The error of a statement that could not be planned: if a view that it refers to cannot be
/// planned either, the error of that view. Such a view has no columns, so the planner's own error
/// would be about a missing column.
pub(crate) async fn cause(
    state: &SessionState,
    snapshot: &Snapshot,
    statement: &Statement,
    error: DataFusionError,
) -> DataFusionError {
    for reference in state.resolve_table_references(statement).unwrap_or_default() {
        let name = resolve(state.config_options(), snapshot, reference);
        let Some(text) = snapshot.view(&name.schema, &name.table) else { continue };
        let (schema, table) = (name.schema.as_ref(), name.table.as_ref());
        if let Err(error) = Box::pin(provider(state, snapshot, (schema, table), &text)).await {
            return unusable(&format!("{schema}.{table}"), &error);
        }
    }
    error
}

fn unusable(name: &str, error: &impl fmt::Display) -> DataFusionError {
    plan_datafusion_err!("view {name} cannot be used any more: {error}")
}

/// A view that cannot be planned: it has no columns, and reading it fails.
pub(crate) fn broken(name: String, error: &DataFusionError) -> Arc<dyn TableProvider> {
    Arc::new(BrokenView { name, error: error.to_string() })
}

#[derive(Debug)]
struct BrokenView {
    name: String,
    error: String,
}

#[async_trait]
impl TableProvider for BrokenView {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::empty())
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _state: &dyn CatalogSession,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(unusable(&self.name, &self.error))
    }
}

/// Refuses a view that refers to itself, directly or through other views.
pub(crate) fn refuse_cycle(
    snapshot: &Snapshot,
    state: &SessionState,
    target: (&str, &str),
    text: &str,
) -> Result<()> {
    let mut open = vec![(Arc::<str>::from(text), 0)];
    while let Some((text, depth)) = open.pop() {
        let (schema, statement) = parts(&text)?;
        for reference in state.resolve_table_references(&query(statement)?)? {
            let used = SearchPath::parse(schema).resolve(CATALOG, snapshot, reference);
            let view = format!("view {}.{}", target.0, target.1);
            if (used.schema.as_ref(), used.table.as_ref()) == target {
                return exec_err!("{view} would be made of itself");
            }
            if let Some(inner) = snapshot.view(&used.schema, &used.table) {
                if depth == DEPTH_MAX {
                    return exec_err!(
                        "{view} would stand on more than {DEPTH_MAX} views that stand on each \
                         other: write some of their queries into it"
                    );
                }
                open.push((inner, depth + 1));
            }
        }
    }
    Ok(())
}

/// Returns the tables of the database that the query of a view names.
///
/// # Errors
/// If the stored text is damaged.
pub(crate) fn tables_of(
    snapshot: &Snapshot,
    state: &SessionState,
    text: &str,
) -> Result<Vec<Arc<Table>>> {
    let (schema, statement) = parts(text)?;
    let references = state.resolve_table_references(&query(statement)?)?.into_iter();
    let tables = references.filter_map(|reference| {
        let used = SearchPath::parse(schema).resolve(CATALOG, snapshot, reference);
        let of_database = used.catalog.as_ref() == CATALOG;
        of_database.then(|| snapshot.table(&used.schema, &used.table))?
    });
    Ok(tables.map(|(table, _)| table).collect())
}

/// Returns a view that uses a table, or of the table the column with this name. If the column is
/// dropped, views that select all columns use it too. A column of another table with the same name
/// counts as a use, if the view reads both.
///
/// # Errors
/// If a stored text is damaged.
pub(crate) fn user_of(
    state: &SessionState,
    snapshot: &Snapshot,
    table: (&str, &str),
    column: Option<(&str, bool)>,
) -> Result<Option<String>> {
    for home in snapshot.schemas() {
        for name in snapshot.view_names(&home) {
            let Some(text) = snapshot.view(&home, &name) else { continue };
            let (schema, statement) = parts(&text)?;
            let mut statement = query(statement)?;
            let references = state.resolve_table_references(&statement)?;
            let is_read = references.into_iter().any(|reference| {
                let used = SearchPath::parse(schema).resolve(CATALOG, snapshot, reference);
                (used.schema.as_ref(), used.table.as_ref()) == table
            });
            let names = |(column, is_dropped)| names_column(&mut statement, column, is_dropped);
            if is_read && column.is_none_or(names) {
                return Ok(Some(format!("{home}.{name}")));
            }
        }
    }
    Ok(None)
}

/// True if a statement names a column, or selects all columns and `is_wild`.
fn names_column(statement: &mut Statement, column: &str, is_wild: bool) -> bool {
    struct Uses<'a>(&'a str, bool, bool);
    impl VisitorMut for Uses<'_> {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            self.2 |= self.1
                && select.projection.iter().any(|item| {
                    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
                });
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
            let name = match expr {
                SqlExpr::Identifier(name) => Some(&*name),
                SqlExpr::CompoundIdentifier(names) => names.last(),
                _ => None,
            };
            let is_it = |name: &Ident| IdentNormalizer::default().normalize(name.clone()) == self.0;
            self.2 |= name.is_some_and(is_it);
            ControlFlow::Continue(())
        }
    }
    let mut uses = Uses(column, is_wild, false);
    let _ = statement.walk(&mut uses);
    uses.2
}

/// The query of a CREATE VIEW statement, without the view's own name.
fn query(statement: Statement) -> Result<Statement> {
    if let Statement::Statement(statement) = statement
        && let SqlStatement::CreateView(view) = *statement
    {
        return Ok(Statement::Statement(Box::new(SqlStatement::Query(view.query))));
    }
    exec_err!("the text of a view is damaged")
}

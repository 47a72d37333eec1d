//! Views: statements that the catalog stores and that are planned at each use.
//!
//! A view is stored as the text of its CREATE VIEW statement, after a comment with the default
//! schema of its names. Planning at each use resolves the current tables. The bodies of functions
//! that the query calls are in that text; a second comment has the statement as written, from which
//! the text is made again when one of the functions is replaced.

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
    Expr as SqlExpr, Ident, ObjectName, ObjectNamePart, Select, SelectItem,
    Statement as SqlStatement, VisitorMut,
};
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;
use terrace_table::table::Table;

use crate::access::{Reading, Rights, check_names};
use crate::names::{Added, CATALOG, SearchPath, resolve};
use crate::session::{self, SessionStatement, Walk as _, list_literals, using, with_queries};

const SCHEMA_NOTE: &str = "-- names without a schema are in ";
const CALLS_NOTE: &str = "-- as written: ";

/// Maximum nesting of views below a view.
const DEPTH_MAX: usize = 64;

/// The stored text of a view whose statement is `definition`, with the calls of functions replaced
/// by their bodies. `written` is the original statement, for a view whose query calls functions.
pub(crate) fn text(default_schema: &str, definition: &str, written: Option<&str>) -> String {
    let written = written.map(|it| format!("{CALLS_NOTE}{}\n", escaped(it)));
    format!("{SCHEMA_NOTE}{default_schema}\n{}{definition}", written.unwrap_or_default())
}

/// Escapes the line ends of a text, so that it fits on one line.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

/// The original text of a line that [`escaped`] has made.
fn unescaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        text.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => letter,
            },
            _ => letter,
        });
    }
    text
}

/// The parts of a stored text.
struct Parts<'a> {
    /// The schemas in which names are looked up.
    path: &'a str,
    /// The statement as written, on one line, if it calls functions.
    written: Option<&'a str>,
    definition: &'a str,
}

impl<'a> Parts<'a> {
    /// Splits a stored text.
    fn of(text: &'a str) -> Result<Self> {
        let (note, definition) = text.split_once('\n').unwrap_or_default();
        let path = note.strip_prefix(SCHEMA_NOTE).ok_or_else(damaged)?;
        let line = definition.split_once('\n');
        let noted = line.and_then(|(line, rest)| Some((line.strip_prefix(CALLS_NOTE)?, rest)));
        Ok(match noted {
            Some((written, definition)) => Self { path, written: Some(written), definition },
            None => Self { path, written: None, definition },
        })
    }
}

fn damaged() -> DataFusionError {
    exec_datafusion_err!("the text of a view is damaged")
}

/// Splits a stored text into the default schema and the statement.
fn parts(text: &str) -> Result<(&str, Statement)> {
    let Parts { path, definition, .. } = Parts::of(text)?;
    Ok((path, statement_of(definition)?))
}

fn statement_of(text: &str) -> Result<Statement> {
    let statement = session::parse(text)?.into_iter().next();
    statement.and_then(SessionStatement::into_sql).ok_or_else(damaged)
}

/// The statement that created a stored view.
///
/// # Errors
/// If the stored text is damaged.
pub(crate) fn definition(text: &str) -> Result<String> {
    Ok(Parts::of(text)?.definition.to_owned())
}

/// The search path of a stored view, and its original query, in which calls of functions are not
/// replaced by their bodies.
///
/// # Errors
/// If the stored text is damaged.
pub(crate) fn written_query(text: &str) -> Result<(&str, Statement)> {
    let Parts { path, written, definition } = Parts::of(text)?;
    let written = written.map_or_else(|| definition.to_owned(), unescaped);
    Ok((path, query(statement_of(&written)?)?))
}

/// The path of a stored view, and the statement that creates it under a schema and a name.
///
/// # Errors
/// If the stored text is damaged.
pub(crate) fn creation<'a>(
    text: &'a str,
    (schema, name): (&str, &str),
) -> Result<(&'a str, String)> {
    let Parts { path, written, definition } = Parts::of(text)?;
    let written = written.map_or_else(|| definition.to_owned(), unescaped);
    let mut statement = statement_of(&written)?;
    if let Statement::Statement(statement) = &mut statement
        && let SqlStatement::CreateView(create) = statement.as_mut()
    {
        let names = [schema, name].map(|name| Ident::with_quote('"', name));
        create.name = ObjectName::from(names.to_vec());
        (create.or_replace, create.if_not_exists) = (false, false);
    }
    Ok((path, statement.to_string()))
}

/// The search path and the original statement of a stored view whose query calls functions; `None`
/// for a view without such calls.
///
/// # Errors
/// If the stored text is damaged.
pub(crate) fn calling(text: &str) -> Result<Option<(&str, String)>> {
    let Parts { path, written, .. } = Parts::of(text)?;
    Ok(written.map(|written| (path, unescaped(written))))
}

/// The stored text of a view under another name, and in another schema if one is given.
///
/// # Errors
/// If the stored text is damaged.
pub(crate) fn renamed(text_of: &str, schema: Option<&String>, name: &str) -> Result<String> {
    let Parts { path, written, definition } = Parts::of(text_of)?;
    let renamed = |definition: &str| -> Result<String> {
        let Statement::Statement(mut statement) = statement_of(definition)? else {
            return Err(damaged());
        };
        let SqlStatement::CreateView(view) = statement.as_mut() else { return Err(damaged()) };
        let name = ObjectNamePart::Identifier(Ident::with_quote('"', name));
        match schema {
            Some(schema) => {
                let schema = ObjectNamePart::Identifier(Ident::with_quote('"', schema));
                view.name = ObjectName(vec![schema, name]);
            }
            None => {
                view.name.0.pop();
                view.name.0.push(name);
            }
        }
        Ok(statement.to_string())
    };
    let written = written.map(|written| renamed(&unescaped(written))).transpose()?;
    Ok(text(path, &renamed(definition)?, written.as_deref()))
}

/// The stored text of a view after changes of its path and of its statements: the one that is
/// planned, and the one as written.
///
/// # Errors
/// If the stored text is damaged; errors of the change.
pub(crate) fn changed(
    text_of: &str,
    path: impl Fn(&str) -> String,
    change: impl Fn(&str) -> Result<String, SqlError>,
) -> Result<String, SqlError> {
    let Parts { path: before, written, definition } = Parts::of(text_of)?;
    let written = written.map(|written| change(&unescaped(written))).transpose()?;
    Ok(text(&path(before), &change(definition)?, written.as_deref()))
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
    with_queries::mark(&state, &mut statement)?;
    let plan = match Box::pin(list_literals::plan(&state, statement)).await {
        Ok(plan) => plan,
        Err(error) => {
            let (_, statement) = parts(text)?;
            return Err(Box::pin(cause(&state, snapshot, &query(statement)?, error)).await);
        }
    };
    let LogicalPlan::Ddl(DdlStatement::CreateView(view)) = plan else {
        return exec_err!("the text of a view is damaged");
    };
    let plan = session::template(Arc::unwrap_or_clone(view.input))?;
    Ok(Arc::new(ViewTable::new(plan, view.definition)))
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

/// Returns a table for a view that cannot be planned: it has no columns, and a scan of it fails
/// with `error`.
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

/// Returns the schema and name of each view that uses `table`, or only those that use its `column`:
/// a name, and true if views that select all columns use the column too, as when it is dropped. A
/// column of another table with the same name counts as a use if the view reads both.
///
/// # Errors
/// If a stored text is damaged.
pub(crate) fn users_of(
    state: &SessionState,
    snapshot: &Snapshot,
    table: (&str, &str),
    column: Option<(&str, bool)>,
) -> Result<Vec<(String, String)>> {
    let mut users = Vec::new();
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
                users.push((home.clone(), name));
            }
        }
    }
    Ok(users)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_as_they_were_made() {
        let statement = "CREATE VIEW v AS SELECT f('a\\n\n')\r\nFROM t";
        let stored = text("s1, public", "CREATE VIEW v AS\nSELECT 1", Some(statement));
        let parts = Parts::of(&stored).expect("a text");
        assert_eq!((parts.path, parts.definition), ("s1, public", "CREATE VIEW v AS\nSELECT 1"));
        assert_eq!(parts.written.map(unescaped).as_deref(), Some(statement));
        let stored = text("public", "CREATE VIEW v AS SELECT 1", None);
        let parts = Parts::of(&stored).expect("a text");
        assert_eq!((parts.written, parts.definition), (None, "CREATE VIEW v AS SELECT 1"));
        assert!(Parts::of("CREATE VIEW v AS SELECT 1").is_err());
    }
}

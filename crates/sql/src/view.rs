//! Views: statements that the catalog keeps and that are planned whenever they are used.
//!
//! A view is kept as the text of its CREATE VIEW statement, after a comment that says in which
//! schema it looks for names without one. Planning it anew finds the tables as they are now.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::datasource::ViewTable;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

use crate::catalog::Catalog;
use crate::names::CATALOG;

const SCHEMA_NOTE: &str = "-- names without a schema are in ";

/// Views that may stand on views that stand on views before something is wrong.
const DEPTH_MAX: usize = 64;

/// The text that the catalog keeps of a view whose statement is `definition`.
pub(crate) fn text(default_schema: &str, definition: &str) -> String {
    format!("{SCHEMA_NOTE}{default_schema}\n{definition}")
}

/// The schema that a kept text names, and the statement.
fn parts(text: &str) -> Result<(&str, Statement)> {
    let (note, definition) = text.split_once('\n').unwrap_or_default();
    let schema = note.strip_prefix(SCHEMA_NOTE);
    let statement = DFParser::parse_sql(definition)?.pop_front();
    schema.zip(statement).ok_or_else(|| exec_datafusion_err!("the text of a view is damaged"))
}

/// Plans a kept view.
pub(crate) async fn provider(state: &SessionState, text: &str) -> Result<Arc<dyn TableProvider>> {
    let (schema, statement) = parts(text)?;
    let mut state = state.clone();
    let options = state.config_mut().options_mut();
    options.catalog.default_catalog = CATALOG.to_owned();
    options.catalog.default_schema = schema.to_owned();
    // The recursion is through the catalog, which resolves the views that this one names.
    let plan = Box::pin(state.statement_to_plan(statement)).await?;
    let LogicalPlan::Ddl(DdlStatement::CreateView(view)) = plan else {
        return exec_err!("the text of a view is damaged");
    };
    Ok(Arc::new(ViewTable::new(Arc::unwrap_or_clone(view.input), view.definition)))
}

/// Refuses a view whose statement names the view itself, directly or through others.
pub(crate) fn refuse_cycle(
    catalog: &Catalog,
    state: &SessionState,
    target: (&str, &str),
    text: &str,
) -> Result<()> {
    let mut open = vec![(Arc::<str>::from(text), 0)];
    while let Some((text, depth)) = open.pop() {
        let (schema, statement) = parts(&text)?;
        for reference in state.resolve_table_references(&query(statement)?)? {
            let used = reference.resolve(CATALOG, schema);
            if (used.schema.as_ref(), used.table.as_ref()) == target || depth > DEPTH_MAX {
                return exec_err!("view {}.{} would be made of itself", target.0, target.1);
            }
            if let Some(inner) = catalog.view(&used.schema, &used.table) {
                open.push((inner, depth + 1));
            }
        }
    }
    Ok(())
}

/// The query of a CREATE VIEW statement. The statement names the view as well.
fn query(statement: Statement) -> Result<Statement> {
    if let Statement::Statement(statement) = statement
        && let SqlStatement::CreateView(view) = *statement
    {
        return Ok(Statement::Statement(Box::new(SqlStatement::Query(view.query))));
    }
    exec_err!("the text of a view is damaged")
}

//! Lists of columns and subqueries, `[x, y]` and `ARRAY[x, (SELECT ...)]`, which become calls of
//! `make_array` before planning.
//!
//! DataFusion plans the elements of a list by themselves: without the WITH queries of the
//! statement, the columns of outer queries, the parameters of a lambda and the types of prepared
//! parameters. It plans the arguments of a call with all of them. Lists of constants stay as they
//! are. The arguments of series become subqueries (`column_series`).

use std::mem;
use std::ops::ControlFlow;

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Array, Expr, Statement as SqlStatement, TableFactor, Value, ValueWithSpan, VisitorMut,
};

use super::column_series;
use super::dialect::call;
use super::walk::Walk;

/// Plans a statement with its list literals rewritten as calls, and the arguments of series as
/// subqueries. The stored text of a view keeps them.
///
/// # Errors
/// Errors of planning.
pub(crate) async fn plan(state: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    let text = view_text(&statement);
    let mut writer = Writer::default();
    let _ = statement.walk(&mut writer);
    let mut plan = state.statement_to_plan(statement).await?;
    if writer.has_written
        && let LogicalPlan::Ddl(DdlStatement::CreateView(view)) = &mut plan
    {
        view.definition = text;
    }
    Ok(plan)
}

/// The text of a CREATE VIEW; `None` for any other statement.
fn view_text(statement: &Statement) -> Option<String> {
    let Statement::Statement(statement) = statement else { return None };
    matches!(statement.as_ref(), SqlStatement::CreateView(_)).then(|| statement.to_string())
}

/// Visitor that rewrites list literals and the arguments of series.
#[derive(Default)]
struct Writer {
    /// True once one has been rewritten.
    has_written: bool,
}

impl VisitorMut for Writer {
    type Break = ();

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        self.has_written |= column_series::defer(table);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Array(Array { elem, .. }) = expr
            && !elem.iter().all(is_constant)
        {
            *expr = call("make_array", mem::take(elem));
            self.has_written = true;
        }
        ControlFlow::Continue(())
    }
}

/// True for literals, and casts and lists of them.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(ValueWithSpan { value, .. }) => !matches!(value, Value::Placeholder(_)),
        Expr::TypedString(_) | Expr::Interval(_) => true,
        Expr::UnaryOp { expr, .. } | Expr::Cast { expr, .. } | Expr::Nested(expr) => {
            is_constant(expr)
        }
        Expr::Array(Array { elem, .. }) => elem.iter().all(is_constant),
        _ => false,
    }
}

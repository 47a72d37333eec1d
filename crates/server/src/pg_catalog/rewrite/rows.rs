//! Rewrites calls of `row_to_json(t)` for a subquery `t`, since DataFusion has no rows as values.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Select, SelectItem, SetExpr,
    TableFactor, Value, VisitorMut,
};
use terrace_sql::session::{Walk, call};

use super::names::{folded, last};
use super::tree::factors;

/// Expands the columns of rows: `row_to_json(t)` becomes `json_object('a', t.a, 'b', t.b)`.
pub(super) fn written(select: &mut Select) {
    let factors = factors(&select.from);
    let mut rows = Rows(factors.filter_map(columns).collect());
    if rows.0.is_empty() {
        return;
    }
    for item in &mut select.projection {
        let _ = item.walk(&mut rows);
    }
}

/// Returns the name and the column names of a subquery in a FROM clause; `None` for any other
/// table, or if a column has no name.
fn columns(table: &TableFactor) -> Option<(String, Vec<Ident>)> {
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = table else { return None };
    let SetExpr::Select(select) = subquery.body.as_ref() else { return None };
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last().cloned(),
        _ => None,
    };
    let names: Option<Vec<_>> = select.projection.iter().map(name).collect();
    Some((folded(&alias.name), names?))
}

/// Subqueries of a FROM clause: column names by subquery name.
struct Rows(HashMap<String, Vec<Ident>>);

impl VisitorMut for Rows {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(row) = only_argument(expr)
            && let Some(columns) = self.0.get(&folded(row))
        {
            let pairs = columns.iter().flat_map(|column| {
                let name = Value::SingleQuotedString(folded(column));
                let value = Expr::CompoundIdentifier(vec![row.clone(), column.clone()]);
                [Expr::Value(name.into()), value]
            });
            *expr = call("json_object", pairs.collect::<Vec<_>>());
        }
        ControlFlow::Continue(())
    }
}

/// Returns the name that is the only argument of `row_to_json`.
fn only_argument(expr: &Expr) -> Option<&Ident> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(name)))] =
        list.args.as_slice()
    else {
        return None;
    };
    (last(&function.name) == "row_to_json").then_some(name)
}

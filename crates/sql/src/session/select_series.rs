//! `generate_series` and `unnest` in a select list, which return rows.
//!
//! ```text
//! SELECT generate_series(1, 3) AS i   ->   SELECT unnest(generate_series(1, 3)) AS i
//! ```
//! Several functions that return rows side by side end with the longest; the others are padded with
//! nulls. Within the arguments of another function a series is a list, as in DuckDB.
//!
//! DataFusion identifies the lists in a select list by their names. A subquery has the name of its
//! column, so all lists of subqueries but the first get unique names:
//! ```text
//! unnest((SELECT l FROM t)), unnest((SELECT l FROM u))
//!   ->  unnest((SELECT l FROM t)), unnest(CASE 2 WHEN 2 THEN (SELECT l FROM u) END)
//! ```

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, Select,
    SelectItem, Value, VisitorMut,
};

use super::dialect::{call, with_name};
use super::walk::Walk as _;

/// The function that returns a series.
const SERIES: &str = "generate_series";

/// The function that returns the elements of a list as rows.
const UNNEST: &str = "unnest";

/// Rewrites the series in a select list as calls of `unnest`.
pub(super) fn write_out(select: &mut Select) {
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) if is_series(without_casts(expr)) => {
                let (mut expr, alias) = (expr.clone(), Ident::with_quote('"', SERIES));
                as_rows(&mut expr);
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => as_rows(expr),
            _ => {}
        }
    }
    name_lists(select);
}

/// Gives the lists of subqueries unique names.
fn name_lists(select: &mut Select) {
    let mut lists = Lists::default();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = expr.walk(&mut lists);
        }
    }
}

/// Names lists, outside of subqueries.
#[derive(Default)]
struct Lists {
    /// The number of lists of subqueries so far.
    count: usize,
    queries: usize,
}

impl VisitorMut for Lists {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.queries > 0 || !is_call(expr, UNNEST) {
            return ControlFlow::Continue(());
        }
        if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = expr
            && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] = list.args.as_mut_slice()
            && list.walk(&mut HasSubquery).is_break()
        {
            self.count += 1;
            if self.count > 1 {
                let value = mem::replace(list, Expr::Value(Value::Null.into()));
                *list = with_name(value, self.count);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Breaks at a subquery.
struct HasSubquery;

impl VisitorMut for HasSubquery {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// Makes rows of the series that are operands of an expression.
fn as_rows(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner)
        | Expr::Cast { expr: inner, .. }
        | Expr::UnaryOp { expr: inner, .. } => as_rows(inner),
        Expr::BinaryOp { left, right, .. } => {
            as_rows(left);
            as_rows(right);
        }
        expr if is_series(expr) => *expr = call(UNNEST, [expr.clone()]),
        _ => {}
    }
}

/// The expression below casts, which do not change the name of a column.
fn without_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => without_casts(inner),
        expr => expr,
    }
}

fn is_series(expr: &Expr) -> bool {
    is_call(expr, SERIES)
}

fn is_call(expr: &Expr, function: &str) -> bool {
    let Expr::Function(Function { name, args: FunctionArguments::List(_), over: None, .. }) = expr
    else {
        return false;
    };
    let name = name.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|name| name.value.eq_ignore_ascii_case(function))
}

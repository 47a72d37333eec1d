//! `generate_series` and `range` in FROM: the name of their column, and lateral column references
//! among their arguments.
//!
//! The only column of such a function has the name of the alias, or else that of the function; the
//! column of `unnest` has the name of the alias, too. DataFusion names it `value`; [`rename`]
//! restores this for statements that use that name.
//!
//! A table function is called during planning, with constants. The scalar function of the same name
//! returns the series as a list, which `unnest` makes rows of:
//! ```text
//! FROM r, LATERAL generate_series(1, r.a) g  ->  FROM r, unnest(generate_series(1, r.a)) g(g)
//! ```
//! DataFusion evaluates the constants without the rules of the session, such as its time zone. It
//! leaves subqueries, which the table function evaluates (`crate::series`); a statement is planned
//! with them, and the text of a view keeps the arguments:
//! ```text
//! FROM generate_series(date '2024-01-01', now(), '1 day')
//!   ->  FROM generate_series((SELECT date '2024-01-01'), (SELECT now()), '1 day')
//! ```

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, SelectItem, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, VisitorMut,
};

use super::dialect::{call, parsed_query};
use super::walk::Walk;

/// The table functions that are scalar functions too.
const FUNCTIONS: [&str; 2] = ["generate_series", "range"];

/// Name that DataFusion gives the only column of these functions.
const COLUMN: &str = "value";

/// Names the column of a series or an `unnest`, and rewrites a series whose arguments are columns;
/// leaves any other relation unchanged.
pub(super) fn write_out(table: &mut TableFactor) {
    if let TableFactor::UNNEST { alias: Some(alias), array_exprs, with_ordinality: false, .. } =
        table
        && array_exprs.len() == 1
        && alias.columns.is_empty()
    {
        let name = alias.name.clone();
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
        return;
    }
    let (name, args, alias) = match table {
        TableFactor::Table { name, args: Some(args), alias, .. } => (name, &mut args.args, alias),
        TableFactor::Function { name, args, alias, with_ordinality: false, .. } => {
            (name, args, alias)
        }
        _ => return,
    };
    let Some(function) = function(name) else { return };
    name_column(alias, function);
    let exprs = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let Some(mut exprs) = exprs.collect::<Option<Vec<_>>>() else { return };
    let mut columns = Columns::default();
    let _ = exprs.iter_mut().try_for_each(|expr| expr.walk(&mut columns));
    if !columns.found {
        return;
    }
    let alias = mem::take(alias);
    *table = TableFactor::UNNEST {
        alias,
        array_exprs: vec![call(function, exprs)],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
}

/// Makes subqueries of the arguments of a series that are not values; true if there are any.
pub(super) fn defer(table: &mut TableFactor) -> bool {
    let (name, args) = match table {
        TableFactor::Table { name, args: Some(args), .. } => (name, &mut args.args),
        TableFactor::Function { name, args, .. } => (name, args),
        _ => return false,
    };
    let mut is_changed = false;
    if function(name).is_some() {
        args.iter_mut().for_each(|arg| is_changed |= as_subquery(arg));
    }
    is_changed
}

/// Makes a subquery of an argument that is not a value; true if it has.
fn as_subquery(arg: &mut FunctionArg) -> bool {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else { return false };
    if matches!(expr, Expr::Value(_) | Expr::Subquery(_)) {
        return false;
    }
    // The text is a query.
    let Ok(mut query) = parsed_query("SELECT 1") else { return false };
    let SetExpr::Select(select) = query.body.as_mut() else { return false };
    let [SelectItem::UnnamedExpr(item)] = select.projection.as_mut_slice() else { return false };
    mem::swap(item, expr);
    *expr = Expr::Subquery(Box::new(query));
    true
}

/// Gives the column of a function the name of its alias; adds an alias with the function's name if
/// it has none.
fn name_column(alias: &mut Option<TableAlias>, function: &str) {
    let alias = alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::with_quote('"', function),
        columns: vec![],
        at: None,
    });
    if alias.columns.is_empty() {
        let name = alias.name.clone();
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
}

/// Renames the columns that [`write_out`] has named to `value`; true if there are any.
pub(super) fn rename(statement: &mut Statement) -> bool {
    struct Renaming(bool);
    impl VisitorMut for Renaming {
        type Break = ();

        fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
            let alias = match table {
                TableFactor::Table { name, args: Some(_), alias, .. }
                | TableFactor::Function { name, alias, .. }
                    if function(name).is_some() =>
                {
                    alias
                }
                TableFactor::UNNEST { alias, .. } => alias,
                _ => return ControlFlow::Continue(()),
            };
            if let Some(TableAlias { name, columns, .. }) = alias
                && let [column] = columns.as_mut_slice()
                && column.name == *name
            {
                column.name = Ident::with_quote('"', COLUMN);
                self.0 = true;
            }
            ControlFlow::Continue(())
        }
    }
    let mut renaming = Renaming(false);
    let _ = statement.walk(&mut renaming);
    renaming.0
}

fn function(name: &ObjectName) -> Option<&'static str> {
    let name = &name.0.last()?.as_ident()?.value;
    FUNCTIONS.into_iter().find(|function| name.eq_ignore_ascii_case(function))
}

/// Visitor that finds out if expressions reference columns or tables.
#[derive(Default)]
struct Columns {
    found: bool,
}

impl VisitorMut for Columns {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.found |= matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        if self.found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_table_factor(&mut self, _: &mut TableFactor) -> ControlFlow<()> {
        self.found = true;
        ControlFlow::Break(())
    }
}

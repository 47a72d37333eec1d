//! `generate_series` and `range` in FROM: the name of their column, and lateral column references
//! among their arguments.
//!
//! The only column of such a function has the name of the alias, or else that of the function; the
//! column of `unnest` has the name of the alias, too. DataFusion names it `value`; [`rename`]
//! restores this for statements that use that name.
//!
//! A table function is called during planning, with constants. The scalar function of the same name
//! returns the series as a list, which `unnest` makes rows of, also for a series of instants:
//! ```text
//! FROM r, LATERAL generate_series(1, r.a) g  ->  FROM r, unnest(generate_series(1, r.a)) g(g)
//! ```

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableAlias,
    TableAliasColumnDef, TableFactor, TimezoneInfo, TypedString, VisitorMut,
};

use super::dialect::call;
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
    let has_instant = exprs.iter_mut().any(|expr| expr.walk(&mut Instants).is_break());
    if !columns.found && !has_instant {
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

/// Visitor that finds out if expressions reference columns.
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
}

/// Visitor that breaks at a cast to an instant. The arguments of a table function are evaluated as
/// constants of UTC, not of the session's time zone.
struct Instants;

impl VisitorMut for Instants {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let (Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })) =
            expr
        else {
            return ControlFlow::Continue(());
        };
        let is_instant = matches!(
            data_type,
            DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz)
        );
        if is_instant { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

//! `generate_series` and `range` with columns of outer rows among their arguments.
//!
//! A table function is called during planning, with constants. The scalar function of the same name
//! returns the series as a list, which `unnest` makes rows of:
//! ```text
//! FROM r, LATERAL generate_series(1, r.a) g  ->  FROM r, unnest(generate_series(1, r.a)) g(value)
//! ```

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableAlias, TableAliasColumnDef,
    TableFactor, VisitorMut,
};

use super::dialect::call;
use super::walk::Walk;

/// The table functions that are scalar functions too.
const FUNCTIONS: [&str; 2] = ["generate_series", "range"];

/// The column of their rows.
const COLUMN: &str = "value";

/// Rewrites a table function of columns; leaves any other relation unchanged.
pub(super) fn write_out(table: &mut TableFactor) {
    let (name, args, alias) = match table {
        TableFactor::Table { name, args: Some(args), alias, .. } => (name, &mut args.args, alias),
        TableFactor::Function { name, args, alias, with_ordinality: false, .. } => {
            (name, args, alias)
        }
        _ => return,
    };
    let Some(function) = function(name) else { return };
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
    let given = || TableAlias {
        explicit: true,
        name: Ident::with_quote('"', function),
        columns: vec![],
        at: None,
    };
    let mut alias = mem::take(alias).unwrap_or_else(given);
    if alias.columns.is_empty() {
        let name = Ident::with_quote('"', COLUMN);
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
    *table = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: vec![call(function, exprs)],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
}

fn function(name: &ObjectName) -> Option<&'static str> {
    let name = &name.0.last()?.as_ident()?.value;
    FUNCTIONS.into_iter().find(|function| name.eq_ignore_ascii_case(function))
}

/// Looks for names of columns.
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

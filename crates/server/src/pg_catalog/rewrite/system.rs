//! Replaces system columns of the catalog's relations: `xmin` and `tableoid`.
//!
//! DataFusion has no columns outside of a schema, so they are replaced by their values. The
//! transaction that has written a row of the catalog is not recorded: `xmin` is the number that
//! PostgreSQL gives to rows that all transactions see.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, TableFactor, Value, VisitorMut,
};
use terrace_sql::session::{Walk, call};

use super::names::{folded, is_of_catalog, last};
use super::tree::{factors, take};
use crate::pg_catalog::definition::{self, Definition};
use crate::pg_catalog::schemas::SCHEMA;

const XMIN: &str = "xmin";
const TABLE: &str = "tableoid";

/// Replaces the system columns of the catalog's relations that a SELECT reads.
pub(super) fn columns(select: &mut Select) {
    let factors = factors(&select.from);
    let mut columns = Columns { tables: HashMap::new(), is_alone: false, depth: 0 };
    let mut count = 0;
    for factor in factors {
        count += 1;
        columns.tables.extend(known(factor).map(|(name, of)| (name, of.oid)));
    }
    columns.is_alone = count == 1;
    if columns.tables.is_empty() {
        return;
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(alias) = columns.name(expr)
        {
            *item = SelectItem::ExprWithAlias { expr: take(expr), alias };
        }
        let _ = item.walk(&mut columns);
    }
    let _ = select.from.walk(&mut columns);
    let _ = select.selection.walk(&mut columns);
}

/// Returns the name or alias by which the statement refers to a catalog relation, and its
/// definition; `None` for any other table.
pub(super) fn known(table: &TableFactor) -> Option<(String, &'static Definition)> {
    let TableFactor::Table { name, alias, args: None, .. } = table else { return None };
    let is_own = name.0.len() == 1 || is_of_catalog(name);
    let of = definition::find(&last(name)).filter(|of| is_own && of.schema == SCHEMA)?;
    Some((alias.as_ref().map_or_else(|| last(name), |alias| folded(&alias.name)), of))
}

struct Columns {
    /// OIDs of the catalog's relations, by their names in the statement.
    tables: HashMap<String, i64>,
    /// True if there is only one table, whose columns may be unqualified.
    is_alone: bool,
    /// Number of subqueries around the current expression.
    depth: usize,
}

impl Columns {
    /// Returns the OID of the catalog relation whose column an expression may be, and the column;
    /// `None` for any other expression.
    fn find<'a>(&self, expr: &'a Expr) -> Option<(i64, &'a Ident)> {
        match expr {
            Expr::CompoundIdentifier(parts) => {
                let [.., table, column] = parts.as_slice() else { return None };
                Some((*self.tables.get(&folded(table))?, column))
            }
            Expr::Identifier(column) if self.is_alone && self.depth == 0 => {
                Some((*self.tables.values().next()?, column))
            }
            _ => None,
        }
    }

    /// Returns the name of a system column; `None` for another expression.
    fn name(&self, expr: &Expr) -> Option<Ident> {
        let (_, column) = self.find(expr)?;
        [XMIN, TABLE].contains(&folded(column).as_str()).then(|| column.clone())
    }
}

impl VisitorMut for Columns {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let value = self.find(expr).and_then(|(oid, column)| match folded(column).as_str() {
            XMIN => Some(call("frozen_xid", [])),
            TABLE => Some(Expr::Value(Value::Number(oid.to_string(), false).into())),
            _ => None,
        });
        if let Some(value) = value {
            *expr = value;
        }
        ControlFlow::Continue(())
    }
}

//! Rewrites recursive queries over relations that never have rows, such as `pg_inherits`: the
//! recursion ends at its first step.

use datafusion::sql::sqlparser::ast::{
    Expr, Query, Select, SelectItem, SetExpr, SetOperator, TableFactor,
};

use super::empty;
use super::names::{folded, last};

/// Removes the recursion from a query whose recursive part never has rows: `WITH RECURSIVE c AS
/// (SELECT a FROM t UNION ALL SELECT ...) SELECT a FROM c` becomes `SELECT a FROM t`.
pub(super) fn ended(query: &mut Query) {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return };
    let [table] = with.cte_tables.as_mut_slice() else { return };
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } =
        table.query.body.as_mut()
    else {
        return;
    };
    let (SetExpr::Select(first), SetExpr::Select(next)) = (left.as_ref(), right.as_ref()) else {
        return;
    };
    if !empty::has_no_rows(next) {
        return;
    }
    let first = first.clone();
    let inlined = match query.body.as_ref() {
        SetExpr::Select(select) => inlined(select, &folded(&table.alias.name), &first),
        _ => None,
    };
    match inlined {
        Some(select) => {
            query.with = None;
            *query.body = SetExpr::Select(Box::new(select));
        }
        None => {
            with.recursive = false;
            *table.query.body = SetExpr::Select(first);
        }
    }
}

/// Inlines `select`, if it reads just one column of the CTE `table`: returns `first`, the query of
/// the CTE, with only that column.
fn inlined(select: &Select, table: &str, first: &Select) -> Option<Select> {
    let [from] = select.from.as_slice() else { return None };
    let TableFactor::Table { name, args: None, .. } = &from.relation else { return None };
    let [SelectItem::UnnamedExpr(Expr::Identifier(column))] = select.projection.as_slice() else {
        return None;
    };
    if last(name) != table || !from.joins.is_empty() || select.selection.is_some() {
        return None;
    }
    let is_it = |item: &&SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => name == column,
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last() == Some(column),
        _ => false,
    };
    let item = first.projection.iter().find(is_it)?.clone();
    Some(Select { projection: vec![item], ..first.clone() })
}

//! Rewrites of joins by common columns, USING and NATURAL, as joins with ON before planning.
//!
//! Such a join outputs each common column once, before all others, with the value of the side that
//! has a row: the left side for an inner or left join, the right side for a right join, the first
//! value that is not null for a full join. DataFusion resolves the name to the first column of that
//! name, or, for `*`, to the one whose table comes first in the alphabet, which is null in rows of
//! the other side. So this rewrite turns the condition into an ON, `*` into a list of columns, and
//! a column's unqualified name into the expression of its value. A name that the rewrite missed
//! would be ambiguous to the planner, never resolved to another value.
//!
//! This requires the columns of all sources of such a FROM: those of tables, subqueries and WITH
//! queries are known. With any other source, an inner join stays as it is, and an outer join is
//! refused.

mod columns;

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableWithJoins, VisitorMut, WildcardAdditionalOptions,
};
use terrace_table::error::SqlError;

use super::refusal::refused;
use super::walk::Walk;
use columns::{Joined, Names, Visible};

/// Rewrites the joins by USING and the NATURAL joins of a statement.
///
/// # Errors
/// [`SqlError::Refused`] for an outer join with a source whose columns are unknown, and for a
/// column that one side does not have, or has twice.
pub(crate) async fn write_out(
    state: &SessionState,
    statement: &mut Statement,
) -> Result<(), SqlError> {
    if !has_any(statement) {
        return Ok(());
    }
    let options = &state.config().options().sql_parser;
    let mut tables = HashMap::new();
    for reference in state.resolve_table_references(statement).unwrap_or_default() {
        let Ok(schema) = state.schema_for_ref(reference.clone()) else { continue };
        // The planner reports tables that cannot be read here.
        let Ok(Some(table)) = schema.table(reference.table()).await else { continue };
        let fields = table.schema();
        let columns = fields.fields().iter().map(|field| field.name().clone()).collect();
        tables.insert(reference.to_string(), columns);
    }
    let names = Names::new(tables, options.enable_ident_normalization);
    let mut writer = Writer { names, error: None };
    let _ = statement.walk(&mut writer);
    writer.error.map_or(Ok(()), Err)
}

fn has_any(statement: &mut Statement) -> bool {
    struct Found;
    impl VisitorMut for Found {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            match select.from.iter().any(columns::merges) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    statement.walk(&mut Found).is_break()
}

/// Rewrites joins, those of inner queries first.
struct Writer {
    names: Names,
    /// The error to refuse the statement with.
    error: Option<SqlError>,
}

impl VisitorMut for Writer {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.names.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let written = self.of_query(query);
        self.names.leave();
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl Writer {
    fn of_query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        let merged = self.of_body(&mut query.body)?;
        let (Some(mut merged), Some(order)) = (merged, &mut query.order_by) else { return Ok(()) };
        // ORDER BY prefers a column of the result to one of FROM.
        if let SetExpr::Select(select) = query.body.as_ref() {
            let items = select.projection.iter();
            let results: Vec<_> = items.filter_map(|item| self.names.of_item(item)).collect();
            let times = |name: &String| results.iter().filter(|result| *result == name).count();
            merged.retain(|name, _| times(name) != 1);
        }
        if let OrderByKind::Expressions(keys) = &mut order.kind {
            for key in keys {
                self.replace(&mut key.expr, &merged);
            }
        }
        Ok(())
    }

    /// Rewrites the joins of all SELECTs; returns the merged columns if there is only one SELECT.
    fn of_body(&mut self, body: &mut SetExpr) -> Result<Option<HashMap<String, Expr>>, SqlError> {
        match body {
            SetExpr::Select(select) => self.of_select(select),
            SetExpr::SetOperation { left, right, .. } => {
                self.of_body(left)?;
                self.of_body(right)?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn of_select(
        &mut self,
        select: &mut Select,
    ) -> Result<Option<HashMap<String, Expr>>, SqlError> {
        if !select.from.iter().any(columns::merges) {
            return Ok(None);
        }
        let mut joined = Joined::default();
        for table in &mut select.from {
            let Some(of_table) = self.of_table(table)? else { return Ok(None) };
            joined.columns.extend(of_table.columns);
            joined.merged.extend(of_table.merged);
        }
        for item in std::mem::take(&mut select.projection) {
            self.push_item(&mut select.projection, item, &joined)?;
        }
        let merged = joined.merged;
        let exprs = [&mut select.selection, &mut select.having, &mut select.qualify];
        exprs.into_iter().flatten().for_each(|expr| self.replace(expr, &merged));
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            keys.iter_mut().for_each(|key| self.replace(key, &merged));
        }
        if let Some(Distinct::On(keys)) = &mut select.distinct {
            keys.iter_mut().for_each(|key| self.replace(key, &merged));
        }
        for window in &mut select.named_window {
            let _ = window.walk(&mut Replacer {
                names: &mut self.names,
                merged: &merged,
                hidden: Vec::new(),
            });
        }
        Ok(Some(merged))
    }

    /// Rewrites the joins of a FROM item; `None` if one of its sources is unknown.
    fn of_table(&mut self, table: &mut TableWithJoins) -> Result<Option<Joined>, SqlError> {
        let mut copy = table.clone();
        if let Some(joined) = self.names.join(&mut copy, &mut |names, expr, merged| {
            replace(names, expr, merged);
        })? {
            *table = copy;
            return Ok(Some(joined));
        }
        match columns::merges_rows_of_one_side(table) {
            false => Ok(None),
            true => Err(refused(
                "an outer join by USING, or a NATURAL one, with a function or another source \
                 whose columns are not known",
                "give the condition by ON, and say which table's column is meant",
            )),
        }
    }

    /// Adds an item of a SELECT list, expanding `*` to a list of columns.
    fn push_item(
        &mut self,
        items: &mut Vec<SelectItem>,
        item: SelectItem,
        joined: &Joined,
    ) -> Result<(), SqlError> {
        match item {
            SelectItem::Wildcard(options) => self.push_all(items, &options, joined),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                let of_name = joined.merged.get(&self.names.normal(&name)).cloned();
                items.push(match of_name {
                    Some(expr) => SelectItem::ExprWithAlias { expr, alias: name },
                    None => SelectItem::UnnamedExpr(Expr::Identifier(name)),
                });
                Ok(())
            }
            SelectItem::UnnamedExpr(mut expr) => {
                self.replace(&mut expr, &joined.merged);
                items.push(SelectItem::UnnamedExpr(expr));
                Ok(())
            }
            SelectItem::ExprWithAlias { mut expr, alias } => {
                self.replace(&mut expr, &joined.merged);
                items.push(SelectItem::ExprWithAlias { expr, alias });
                Ok(())
            }
            other => {
                items.push(other);
                Ok(())
            }
        }
    }

    fn push_all(
        &mut self,
        items: &mut Vec<SelectItem>,
        options: &WildcardAdditionalOptions,
        joined: &Joined,
    ) -> Result<(), SqlError> {
        let is_plain = options.opt_ilike.is_none()
            && options.opt_rename.is_none()
            && options.opt_alias.is_none();
        if !is_plain {
            return Err(refused(
                "* with ILIKE, RENAME or AS over a join by USING",
                "name the columns, or give the condition of the join by ON",
            ));
        }
        let excluded = self.names.excluded(options);
        let mut replaced = HashMap::new();
        for element in options.opt_replace.iter().flat_map(|replace| &replace.items) {
            let mut expr = element.expr.clone();
            self.replace(&mut expr, &joined.merged);
            replaced.insert(self.names.normal(&element.column_name), expr);
        }
        for Visible { name, expr } in &joined.columns {
            if excluded.contains(name) {
                continue;
            }
            let alias = Ident::with_quote('"', name.clone());
            items.push(match (replaced.get(name), expr) {
                (Some(expr), _) => SelectItem::ExprWithAlias { expr: expr.clone(), alias },
                (None, Expr::CompoundIdentifier(_)) => SelectItem::UnnamedExpr(expr.clone()),
                (None, expr) => SelectItem::ExprWithAlias { expr: expr.clone(), alias },
            });
        }
        Ok(())
    }

    fn replace(&mut self, expr: &mut Expr, merged: &HashMap<String, Expr>) {
        replace(&mut self.names, expr, merged);
    }
}

/// Replaces the names of merged columns in an expression.
fn replace(names: &mut Names, expr: &mut Expr, merged: &HashMap<String, Expr>) {
    if !merged.is_empty() {
        let _ = expr.walk(&mut Replacer { names, merged, hidden: Vec::new() });
    }
}

/// Replaces the names of merged columns, also in subqueries that have no column of that name.
struct Replacer<'a> {
    names: &'a mut Names,
    merged: &'a HashMap<String, Expr>,
    /// For each subquery being visited, the columns that it hides.
    hidden: Vec<Vec<String>>,
}

impl VisitorMut for Replacer<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let names = self.merged.keys().filter(|name| self.names.may_have(query, name)).cloned();
        let names = names.collect();
        self.hidden.push(names);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.hidden.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Identifier(name) = expr else { return ControlFlow::Continue(()) };
        let name = self.names.normal(name);
        let is_hidden = self.hidden.iter().any(|names| names.contains(&name));
        if let Some(value) = self.merged.get(&name).filter(|_| !is_hidden) {
            *expr = value.clone();
        }
        ControlFlow::Continue(())
    }
}

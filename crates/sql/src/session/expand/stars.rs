//! Expansion of `COLUMNS(...)` and `* RENAME (...)` to lists of columns.
//!
//! ```text
//! SELECT min(COLUMNS('s.*')) FROM t  ->  SELECT min(sal) AS sal FROM t
//! SELECT * RENAME (id AS k) FROM t   ->  SELECT id AS k, name, sal FROM t
//! WHERE COLUMNS(*) > 0               ->  WHERE id > 0 AND sal > 0
//! ```
//! All calls of COLUMNS in one expression must choose the same columns. The results have the names
//! of the columns, or else the alias, in which `\1` stands for the first group of a regular
//! expression.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::TableReference;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, ObjectName, Query, RenameSelectItem, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, VisitorMut, WildcardAdditionalOptions,
};
use terrace_table::error::SqlError;

use super::super::dialect::parsed_query;
use super::super::refusal::refused;
use super::super::relations::Chosen;
use super::super::walk::Walk;

/// A column of a FROM, with the relation that it belongs to.
pub(super) struct Column {
    pub(super) table: Option<TableReference>,
    pub(super) name: String,
    pub(super) data_type: DataType,
}

/// True if a SELECT has calls of COLUMNS, or a `*` with RENAME or ILIKE.
pub(super) fn are_in(select: &mut Select) -> bool {
    let is_star = |item: &SelectItem| match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
            options.opt_rename.is_some() || options.opt_ilike.is_some()
        }
        _ => false,
    };
    let mut calls = Calls::default();
    select.projection.iter().any(is_star)
        || select.projection.iter_mut().any(|item| item.walk(&mut calls).is_break())
        || select.selection.walk(&mut calls).is_break()
        || select.having.walk(&mut calls).is_break()
        || select.qualify.walk(&mut calls).is_break()
}

/// True if a SELECT has a `*`.
pub(super) fn has_plain(select: &Select) -> bool {
    let is_plain = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    select.projection.iter().any(is_plain)
}

/// The query whose columns are those of a SELECT's FROM.
pub(super) fn question(select: &Select) -> Result<Query, SqlError> {
    let mut query = parsed_query("SELECT *")?;
    if let SetExpr::Select(all) = query.body.as_mut() {
        if select.from.is_empty() {
            return parsed_query("SELECT 1 AS \"\"");
        }
        all.from.clone_from(&select.from);
    }
    Ok(query)
}

/// Expands the calls of COLUMNS in a SELECT and its `*` with options, or with `all` every `*`.
/// `columns` are those of its FROM.
pub(super) fn write_out(
    select: &mut Select,
    columns: &[Column],
    all: bool,
) -> Result<(), SqlError> {
    let mut items = Vec::new();
    for item in std::mem::take(&mut select.projection) {
        push(&mut items, item, columns, all)?;
    }
    select.projection = items;
    let conditions = [&mut select.selection, &mut select.having, &mut select.qualify];
    for expr in conditions.into_iter().flatten() {
        let Some(each) = each(expr, columns, "")? else { continue };
        let each = each.into_iter().map(|(expr, _)| Expr::Nested(Box::new(expr)));
        let all = each.reduce(|all, next| Expr::BinaryOp {
            left: Box::new(all),
            op: BinaryOperator::And,
            right: Box::new(next),
        });
        if let Some(all) = all {
            *expr = all;
        }
    }
    Ok(())
}

/// Adds the items that an item of the SELECT list is expanded to.
fn push(
    items: &mut Vec<SelectItem>,
    item: SelectItem,
    columns: &[Column],
    all: bool,
) -> Result<(), SqlError> {
    match item {
        SelectItem::Wildcard(options) if all || is_special(&options) => {
            expand(items, columns, |_| true, &options)
        }
        SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(table),
            options,
        ) if all || is_special(&options) => {
            let table = last(&table).unwrap_or_default();
            let is_of =
                |column: &Column| column.table.as_ref().is_some_and(|it| it.table() == table);
            expand(items, columns, is_of, &options)
        }
        SelectItem::UnnamedExpr(expr) => {
            match each(&expr, columns, "\\0")? {
                None => items.push(SelectItem::UnnamedExpr(expr)),
                Some(each) => items.extend(each.into_iter().map(|(expr, name)| {
                    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
                })),
            }
            Ok(())
        }
        SelectItem::ExprWithAlias { expr, alias } => {
            match each(&expr, columns, &alias.value)? {
                None => items.push(SelectItem::ExprWithAlias { expr, alias }),
                Some(each) => items.extend(each.into_iter().map(|(expr, name)| {
                    let alias = match alias.quote_style {
                        None => Ident::new(name),
                        Some(_) => Ident::with_quote('"', name),
                    };
                    SelectItem::ExprWithAlias { expr, alias }
                })),
            }
            Ok(())
        }
        other => {
            items.push(other);
            Ok(())
        }
    }
}

fn is_special(options: &WildcardAdditionalOptions) -> bool {
    options.opt_rename.is_some() || options.opt_ilike.is_some()
}

/// Adds the columns of a `*` with options. `is_of` returns true for the columns of its table.
fn expand(
    items: &mut Vec<SelectItem>,
    columns: &[Column],
    is_of: impl Fn(&Column) -> bool,
    options: &WildcardAdditionalOptions,
) -> Result<(), SqlError> {
    let normal = |name: &Ident| IdentNormalizer::default().normalize(name.clone());
    let mut excluded: Vec<String> = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => last(name).into_iter().collect(),
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().filter_map(last).collect(),
        None => Vec::new(),
    };
    if let Some(except) = &options.opt_except {
        excluded.push(normal(&except.first_element));
        excluded.extend(except.additional_elements.iter().map(normal));
    }
    let renamed: HashMap<String, Ident> = match &options.opt_rename {
        Some(RenameSelectItem::Single(one)) => {
            [(normal(&one.ident), one.alias.clone())].into_iter().collect()
        }
        Some(RenameSelectItem::Multiple(all)) => {
            all.iter().map(|one| (normal(&one.ident), one.alias.clone())).collect()
        }
        None => HashMap::new(),
    };
    let replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
    let replaced: HashMap<String, &Expr> =
        replaced.map(|one| (normal(&one.column_name), &one.expr)).collect();
    if let Some(missing) = excluded
        .iter()
        .chain(renamed.keys())
        .chain(replaced.keys())
        .find(|name| !columns.iter().any(|column| column.name == **name && is_of(column)))
    {
        return Err(refused(
            &format!("column {missing} of * EXCLUDE, REPLACE or RENAME"),
            "there is no such column",
        ));
    }
    let before = items.len();
    for column in columns.iter().filter(|column| is_of(column) && !excluded.contains(&column.name))
    {
        let expr = match replaced.get(&column.name) {
            Some(expr) => (*expr).clone(),
            None => reference(column, columns),
        };
        let own = Ident::with_quote('"', column.name.clone());
        items.push(match renamed.get(&column.name) {
            None if expr == Expr::Identifier(own.clone()) => SelectItem::UnnamedExpr(expr),
            alias => SelectItem::ExprWithAlias { expr, alias: alias.cloned().unwrap_or(own) },
        });
    }
    match items.len() > before {
        true => Ok(()),
        false => Err(refused("a * without columns", "name a table of FROM that has columns")),
    }
}

fn last(name: &ObjectName) -> Option<String> {
    let name = name.0.last()?.as_ident()?.clone();
    Some(IdentNormalizer::default().normalize(name))
}

/// A reference to a column, with its table if another has one of the same name.
pub(super) fn reference(column: &Column, columns: &[Column]) -> Expr {
    let name = Ident::with_quote('"', column.name.clone());
    let is_unique = columns.iter().filter(|it| it.name == column.name).count() == 1;
    match &column.table {
        Some(table) if !is_unique => {
            let mut parts: Vec<_> =
                table.to_vec().into_iter().map(|part| Ident::with_quote('"', part)).collect();
            parts.push(name);
            Expr::CompoundIdentifier(parts)
        }
        _ => Expr::Identifier(name),
    }
}

/// The expressions that `expr` is expanded to, one per column that its calls of COLUMNS choose, and
/// their names by the pattern `alias`; `None` if it has no such calls.
fn each(
    expr: &Expr,
    columns: &[Column],
    alias: &str,
) -> Result<Option<Vec<(Expr, String)>>, SqlError> {
    let mut calls = Calls { all: true, ..Calls::default() };
    let _ = expr.clone().walk(&mut calls);
    if let Some(error) = calls.error {
        return Err(error);
    }
    let mut choices = calls.found.iter().map(|chosen| -> Vec<usize> {
        (0..columns.len()).filter(|place| chosen.has(&columns[*place].name)).collect()
    });
    let Some(places) = choices.next() else { return Ok(None) };
    if choices.any(|other| other != places) {
        return Err(refused(
            &format!("{expr}, whose COLUMNS choose different columns"),
            "choose the same in one expression",
        ));
    }
    if places.is_empty() {
        return Err(refused(&format!("{expr}"), "no column matches it"));
    }
    let each = places.into_iter().map(|place| {
        let mut own = expr.clone();
        let mut replacement = Replacement(reference(&columns[place], columns));
        let _ = own.walk(&mut replacement);
        let name = calls.found.first().map(|chosen| chosen.name(&columns[place].name, alias));
        (own, name.unwrap_or_default())
    });
    Ok(Some(each.collect()))
}

/// Visitor that finds calls of COLUMNS outside of subqueries.
#[derive(Default)]
struct Calls {
    /// True to find all, false to stop at the first.
    all: bool,
    queries: usize,
    found: Vec<Chosen>,
    error: Option<SqlError>,
}

impl VisitorMut for Calls {
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
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        match Chosen::of(expr) {
            Ok(None) => return ControlFlow::Continue(()),
            Ok(Some(chosen)) => self.found.push(chosen),
            Err(error) => {
                self.error = Some(error.into());
                return ControlFlow::Break(());
            }
        }
        if self.all { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// Visitor that replaces all calls of COLUMNS by a reference to one column.
struct Replacement(Expr);

impl VisitorMut for Replacement {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(Chosen::of(expr), Ok(Some(_))) {
            *expr = self.0.clone();
        }
        ControlFlow::Continue(())
    }
}

//! `s.*` of a struct column: one column for each of its fields.
//!
//! ```text
//! SELECT s.* FROM t  ->  SELECT get_field(s, 'a') AS a, get_field(s, 'b') AS b FROM t
//! ```
//! A table of FROM takes precedence over a column of the same name. `(s).*` always names a column.

use datafusion::arrow::datatypes::{DataType, Fields};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, ObjectName, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableAlias, TableFactor, TableWithJoins, Value,
    WildcardAdditionalOptions,
};
use terrace_table::error::SqlError;

use super::super::dialect::call;
use super::super::refusal::refused;
use super::stars::{Column, reference};

/// True if a SELECT has a qualified star that names no table of its FROM, or is in parentheses.
pub(super) fn are_in(select: &Select) -> bool {
    let tables = || {
        let of_joins = |it: &TableWithJoins| {
            std::iter::once(&it.relation)
                .chain(it.joins.iter().map(|join| &join.relation))
                .flat_map(names)
                .collect::<Vec<_>>()
        };
        select.from.iter().flat_map(of_joins).collect::<Vec<_>>()
    };
    select.projection.iter().filter_map(parts).any(|(parts, is_column)| {
        is_column || parts.last().is_some_and(|last| !tables().contains(last))
    })
}

/// Replaces the stars of structs in a SELECT by their fields. `columns` are those of its FROM.
///
/// # Errors
/// [`SqlError::Refused`] for an option other than EXCLUDE.
pub(super) fn write_out(select: &mut Select, columns: &[Column]) -> Result<(), SqlError> {
    let mut items = Vec::new();
    for item in std::mem::take(&mut select.projection) {
        match parts(&item).and_then(|(parts, _)| found(&parts, columns)) {
            Some((column, fields)) => {
                let excluded = excluded(&item)?;
                let value = reference(column, columns);
                let kept = fields.iter().filter(|field| !excluded.contains(field.name()));
                items.extend(kept.map(|field| field_of(&value, field.name())));
            }
            None => items.push(item),
        }
    }
    select.projection = items;
    Ok(())
}

/// The name before a qualified star, and true if it can only name a column; `None` for any other
/// item.
fn parts(item: &SelectItem) -> Option<(Vec<String>, bool)> {
    let SelectItem::QualifiedWildcard(kind, _) = item else { return None };
    match kind {
        SelectItemQualifiedWildcardKind::ObjectName(name) => Some((of_name(name)?, false)),
        SelectItemQualifiedWildcardKind::Expr(expr) => Some((of_expr(expr)?, true)),
    }
}

fn of_name(name: &ObjectName) -> Option<Vec<String>> {
    name.0.iter().map(|part| Some(normal(part.as_ident()?))).collect()
}

fn of_expr(expr: &Expr) -> Option<Vec<String>> {
    match expr {
        Expr::Nested(inner) => of_expr(inner),
        Expr::Identifier(name) => Some(vec![normal(name)]),
        Expr::CompoundIdentifier(names) => Some(names.iter().map(normal).collect()),
        _ => None,
    }
}

pub(super) fn normal(name: &Ident) -> String {
    IdentNormalizer::default().normalize(name.clone())
}

/// The struct column of a name, and its fields; `None` if a table has the name, or the column is no
/// struct.
fn found<'a>(parts: &[String], columns: &'a [Column]) -> Option<(&'a Column, &'a Fields)> {
    let of_table = |column: &Column, table: &String| {
        column.table.as_ref().is_some_and(|it| it.table() == table)
    };
    let (last, before) = parts.split_last()?;
    let is_table = columns.iter().any(|column| of_table(column, last));
    let mut named = columns.iter().filter(|column| {
        column.name == *last && before.last().is_none_or(|table| of_table(column, table))
    });
    match (&named.next()?, is_table) {
        (column @ Column { data_type: DataType::Struct(fields), .. }, false) => {
            Some((column, fields))
        }
        _ => None,
    }
}

/// The fields that EXCLUDE leaves out.
fn excluded(item: &SelectItem) -> Result<Vec<String>, SqlError> {
    let SelectItem::QualifiedWildcard(_, options) = item else { return Ok(Vec::new()) };
    let WildcardAdditionalOptions { opt_rename, opt_replace, opt_ilike, opt_except, .. } = options;
    if opt_rename.is_some() || opt_replace.is_some() || opt_ilike.is_some() || opt_except.is_some()
    {
        return Err(refused(&item.to_string(), "name the fields, or say EXCLUDE"));
    }
    let last = |name: &ObjectName| name.0.last().and_then(|it| it.as_ident()).map(normal);
    Ok(match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => last(name).into_iter().collect(),
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().filter_map(last).collect(),
        None => Vec::new(),
    })
}

/// The item of the SELECT list for a field of a struct.
fn field_of(value: &Expr, name: &str) -> SelectItem {
    let text = Expr::Value(Value::SingleQuotedString(name.to_owned()).into());
    let expr = call("get_field", [value.clone(), text]);
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
}

/// The names that can qualify columns of a relation of FROM: its alias, or else its name, and for
/// a join in parentheses those of its relations.
pub(super) fn names(table: &TableFactor) -> Vec<String> {
    let alias = |alias: &Option<TableAlias>| alias.as_ref().map(|alias| normal(&alias.name));
    match table {
        TableFactor::Table { name, alias: own, .. } => {
            let name = of_name(name).and_then(|mut parts| parts.pop());
            alias(own).or(name).into_iter().collect()
        }
        TableFactor::Derived { alias: own, .. }
        | TableFactor::TableFunction { alias: own, .. }
        | TableFactor::Function { alias: own, .. }
        | TableFactor::UNNEST { alias: own, .. } => alias(own).into_iter().collect(),
        TableFactor::NestedJoin { table_with_joins, alias: own } => {
            let inner = std::iter::once(&table_with_joins.relation)
                .chain(table_with_joins.joins.iter().map(|join| &join.relation));
            alias(own).into_iter().chain(inner.flat_map(names)).collect()
        }
        TableFactor::Pivot { table, alias: own, .. }
        | TableFactor::Unpivot { table, alias: own, .. } => {
            alias(own).map_or_else(|| names(table), |name| vec![name])
        }
        _ => Vec::new(),
    }
}

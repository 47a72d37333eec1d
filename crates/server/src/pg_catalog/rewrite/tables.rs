//! Rewrites tables in FROM clauses: views of the information schema, and functions that return
//! rows.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableAlias,
    TableAliasColumnDef, TableFactor,
};

use super::names::{folded, is_of_catalog, last, strip};
use super::tree::{query, take};
use crate::pg_catalog::definition::find;
use crate::pg_catalog::schemas::{INFORMATION_PREFIX, INFORMATION_SCHEMA, SCHEMA};

/// Functions that DataFusion accepts as tables.
const TABLES: &[&str] = &["generate_series", "range", "unnest", "pg_get_keywords"];

/// Functions that return the rows of a relation, with the name of the relation.
const OF_RELATIONS: &[(&str, &str)] = &[
    ("pg_available_extension_versions", "pg_available_extension_versions"),
    ("pg_available_extensions", "pg_available_extensions"),
    ("pg_cursor", "pg_cursors"),
    ("pg_lock_status", "pg_locks"),
    ("pg_prepared_statement", "pg_prepared_statements"),
    ("pg_show_all_settings", "pg_settings"),
    ("pg_timezone_abbrevs", "pg_timezone_abbrevs"),
    ("pg_timezone_names", "pg_timezone_names"),
];

/// `aclexplode` as a table: its columns and no rows, since the privileges of relations are null.
const GRANTS: &str = "SELECT CAST(NULL AS BIGINT) AS grantor, CAST(NULL AS BIGINT) AS grantee, \
                      CAST(NULL AS TEXT) AS privilege_type, CAST(NULL AS BOOLEAN) AS is_grantable \
                      WHERE false";

/// Renames a view of the information schema to its hidden name in `pg_catalog`, with its own name
/// as an alias.
pub(super) fn of_information_schema(table: &mut TableFactor) {
    let TableFactor::Table { name, alias, args: None, .. } = table else { return };
    let view = last(name);
    let mut schemas = name.0.iter().rev().skip(1).filter_map(|part| part.as_ident());
    let is_there = schemas.next().is_some_and(|schema| folded(schema) == INFORMATION_SCHEMA);
    let hidden = format!("{INFORMATION_PREFIX}{view}");
    if !is_there || find(&hidden).is_none() {
        return;
    }
    *name = ObjectName::from(vec![Ident::new(SCHEMA), Ident::with_quote('"', hidden)]);
    alias.get_or_insert_with(|| alias_named(view));
}

fn alias_named(name: String) -> TableAlias {
    TableAlias { explicit: true, name: Ident::with_quote('"', name), columns: vec![], at: None }
}

/// Removes the schema from a function that is used as a table.
pub(super) fn without_schema(table: &mut TableFactor) {
    if let TableFactor::Table { name, args: Some(args), alias, .. } = table
        && is_of_catalog(name)
        && last(name) == "unnest"
    {
        let arguments = args.args.iter().filter_map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        });
        *table = TableFactor::UNNEST {
            alias: alias.take(),
            array_exprs: arguments.collect(),
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: false,
        };
        return;
    }
    match table {
        TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. }
            if is_of_catalog(name) =>
        {
            strip(name);
        }
        _ => {}
    }
}

/// Rewrites a function as a table: its column gets the alias of the table. A function that returns
/// a single value becomes a subquery.
pub(super) fn of_function(table: &mut TableFactor) {
    if let TableFactor::UNNEST { alias: Some(alias), .. } = table {
        return name_column(alias);
    }
    let TableFactor::Table { name, alias, args: all_args, .. } = table else { return };
    let Some(args) = all_args else { return };
    let function = last(name);
    if let Some((_, relation)) = OF_RELATIONS.iter().find(|(of, _)| *of == function) {
        *name = ObjectName::from(vec![Ident::new(SCHEMA), Ident::new(*relation)]);
        *all_args = None;
        alias.get_or_insert_with(|| alias_named(function));
        return;
    }
    if function == "aclexplode" {
        let alias = Some(alias.take().unwrap_or_else(|| alias_named(function)));
        if let Some(derived) = derived(GRANTS, alias) {
            *table = derived;
        }
        return;
    }
    if TABLES.contains(&function.as_str()) {
        if function == "generate_series" {
            alias.iter_mut().for_each(name_column);
            args.args.iter_mut().for_each(as_bigint);
        }
        return;
    }
    let mut alias = alias.take().unwrap_or_else(|| alias_named(function));
    name_column(&mut alias);
    let arguments = args.args.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if let Some(derived) = derived(&format!("SELECT {name}({arguments})"), Some(alias)) {
        *table = derived;
    }
}

/// Returns a query as a table.
pub(super) fn derived(text: &str, alias: Option<TableAlias>) -> Option<TableFactor> {
    let subquery = query(text)?;
    Some(TableFactor::Derived { lateral: false, subquery, alias, sample: None })
}

/// Casts a bound of a series to BIGINT, unless it is a literal.
fn as_bigint(argument: &mut FunctionArg) {
    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument
        && !matches!(expr, Expr::Value(_))
    {
        *expr = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(take(expr)),
            data_type: DataType::BigInt(None),
            array: false,
            format: None,
        };
    }
}

fn name_column(alias: &mut TableAlias) {
    if alias.columns.is_empty() {
        let name = alias.name.clone();
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
}

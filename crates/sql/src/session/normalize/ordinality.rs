//! `WITH ORDINALITY`: the number of each row that a function of FROM returns.
//!
//! ```text
//! unnest(a) WITH ORDINALITY AS u(x, n)  ->
//!     LATERAL (SELECT *, CAST(row_number() OVER () AS BIGINT) AS ordinality
//!         FROM unnest(a)) AS u(x, n)
//! ```

use std::mem;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, SetExpr, TableAlias, TableAliasColumnDef, TableFactor,
};
use terrace_table::error::SqlError;

use super::super::dialect::parsed_query;

/// Name of the column of row numbers.
const COLUMN: &str = "ordinality";

const NUMBERED: &str = "SELECT * FROM LATERAL (SELECT *, CAST(row_number() OVER () AS BIGINT) \
    AS ordinality FROM f) AS f";

/// Table functions with one column.
const SERIES: [&str; 2] = ["generate_series", "range"];

/// Rewrites a function with ORDINALITY; leaves any other relation unchanged.
///
/// # Errors
/// If the text of this module cannot be parsed.
pub(super) fn write_out(table: &mut TableFactor) -> Result<(), SqlError> {
    let (alias, function, columns) = match &mut *table {
        TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } if *with_ordinality => {
            *with_ordinality = false;
            (alias.take(), "unnest".to_owned(), Some(array_exprs.len()))
        }
        TableFactor::Table { name, alias, with_ordinality, args: Some(_), .. }
        | TableFactor::Function { name, alias, with_ordinality, .. }
            if *with_ordinality =>
        {
            *with_ordinality = false;
            let function = function(name);
            let columns = SERIES.contains(&function.as_str()).then_some(1);
            (alias.take(), function, columns)
        }
        _ => return Ok(()),
    };
    let SetExpr::Select(mut select) = *parsed_query(NUMBERED)?.body else { return Ok(()) };
    let Some(mut numbered) = select.from.pop().map(|from| from.relation) else { return Ok(()) };
    if let TableFactor::Derived { alias: own, subquery, .. } = &mut numbered {
        *own = Some(named(alias, &function, columns));
        if let SetExpr::Select(select) = subquery.body.as_mut()
            && let Some(from) = select.from.first_mut()
        {
            mem::swap(&mut from.relation, table);
        }
    }
    *table = numbered;
    Ok(())
}

fn function(name: &ObjectName) -> String {
    let name = name.0.last().and_then(|part| part.as_ident());
    name.map(|name| name.value.to_ascii_lowercase()).unwrap_or_default()
}

/// The alias with names of all columns of a function that has this number of them.
fn named(alias: Option<TableAlias>, function: &str, columns: Option<usize>) -> TableAlias {
    let column = |name: Ident| TableAliasColumnDef { name, data_type: None };
    let is_named = alias.is_some();
    let mut alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::with_quote('"', function),
        columns: vec![],
        at: None,
    });
    let Some(columns) = columns else { return alias };
    while alias.columns.len() < columns {
        let name = match is_named && columns == 1 {
            true => alias.name.clone(),
            false => Ident::with_quote('"', function),
        };
        alias.columns.push(column(name));
    }
    if alias.columns.len() == columns {
        alias.columns.push(column(Ident::with_quote('"', COLUMN)));
    }
    alias
}

//! `json_to_record`, `json_to_recordset` and their JSONB forms in FROM: JSON objects as rows, with
//! the columns that the alias names.
//!
//! ```text
//! FROM jsonb_to_recordset(j) AS r(a INT, b JSONB)
//!   ->  FROM LATERAL (SELECT CAST(v ->> 'a' AS INT) AS a, CAST(v -> 'b' AS JSONB) AS b
//!                     FROM unnest(json_elements(j)) AS e(v)) AS r
//! ```
//! `jsonb_to_record` has one row, of the object itself.

use std::ops::ControlFlow;

use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, VisitorMut,
};
use terrace_table::error::SqlError;

use super::dialect::parsed_query;
use super::refusal::refused;
use super::walk::Walk;

/// The functions; true for those of an array of objects, which return a row for each.
const FUNCTIONS: [(&str, bool); 4] = [
    ("json_to_record", false),
    ("jsonb_to_record", false),
    ("json_to_recordset", true),
    ("jsonb_to_recordset", true),
];

/// The functions whose columns are those of a row type, which are not supported.
const POPULATING: [&str; 4] = [
    "json_populate_record",
    "jsonb_populate_record",
    "json_populate_recordset",
    "jsonb_populate_recordset",
];

/// Name of the column that stands for the argument of the function in the query that replaces it.
const ARGUMENT: &str = "argument of records";

/// Refuses a function whose columns are those of a row type.
///
/// # Errors
/// [`SqlError::Refused`] for such a function.
pub(super) fn refuse_row_types(name: &ObjectName) -> Result<(), SqlError> {
    let [given] = name.0.as_slice() else { return Ok(()) };
    let given = given.as_ident().map_or("", |name| &name.value);
    let Some(function) = POPULATING.iter().find(|own| own.eq_ignore_ascii_case(given)) else {
        return Ok(());
    };
    let instead = function.replace("_populate_", "_to_");
    Err(refused(
        &format!("{function} of a row type"),
        &format!("name the columns with their types, as in FROM {instead}(x) AS r(a INT, b TEXT)"),
    ))
}

/// Rewrites a function that returns records; leaves any other relation unchanged.
///
/// # Errors
/// [`SqlError::Refused`] for a call whose alias has no columns with types.
pub(super) fn write_out(table: &mut TableFactor) -> Result<(), SqlError> {
    let (name, args, alias) = match table {
        TableFactor::Table { name, args: Some(args), alias, .. } => (&*name, &args.args, &*alias),
        TableFactor::Function { name, args, alias, with_ordinality: false, .. } => {
            (&*name, &*args, &*alias)
        }
        _ => return Ok(()),
    };
    refuse_row_types(name)?;
    let Some((function, is_set)) = found(name) else { return Ok(()) };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = args.as_slice() else {
        return Ok(());
    };
    let named = alias.as_ref().and_then(|alias| Some((alias, selected(&alias.columns)?)));
    let Some((alias, columns)) = named else {
        return Err(refused(
            &format!("{function} without columns"),
            &format!("name them with their types, as in {function}(x) AS r(a INT, b TEXT)"),
        ));
    };
    let rows = match is_set {
        true => format!("unnest(json_elements(\"{ARGUMENT}\")) AS e(v)"),
        false => format!("(SELECT CAST(\"{ARGUMENT}\" AS JSON) AS v) AS e"),
    };
    let text = format!("SELECT * FROM LATERAL (SELECT {columns} FROM {rows}) AS r");
    let SetExpr::Select(mut select) = *parsed_query(&text)?.body else { return Ok(()) };
    let Some(mut records) = select.from.pop().map(|from| from.relation) else { return Ok(()) };
    if let TableFactor::Derived { alias: own, subquery, .. } = &mut records {
        let name = alias.name.clone();
        *own = Some(TableAlias { explicit: true, name, columns: vec![], at: None });
        let _ = subquery.as_mut().walk(&mut Given(argument));
    }
    *table = records;
    Ok(())
}

fn found(name: &ObjectName) -> Option<(&'static str, bool)> {
    let [name] = name.0.as_slice() else { return None };
    let name = &name.as_ident()?.value;
    FUNCTIONS.into_iter().find(|(function, _)| function.eq_ignore_ascii_case(name))
}

/// The SELECT list that reads `columns` from the JSON object `v`; `None` if there are none, or one
/// has no type.
fn selected(columns: &[TableAliasColumnDef]) -> Option<String> {
    let column = |column: &TableAliasColumnDef| {
        let of = column.data_type.as_ref()?;
        let key = IdentNormalizer::default().normalize(column.name.clone()).replace('\'', "''");
        let operator = match of {
            DataType::JSON | DataType::JSONB => "->",
            _ => "->>",
        };
        Some(format!("CAST(v {operator} '{key}' AS {of}) AS {}", column.name))
    };
    let columns: Vec<String> = columns.iter().map(column).collect::<Option<_>>()?;
    (!columns.is_empty()).then(|| columns.join(", "))
}

/// Visitor that replaces the column [`ARGUMENT`] by the argument of the function.
struct Given<'a>(&'a Expr);

impl VisitorMut for Given<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(Ident { value, .. }) if *value == ARGUMENT => {
                *expr = self.0.clone();
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

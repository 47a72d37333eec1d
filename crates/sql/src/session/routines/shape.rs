//! Results of SQL functions: casts to their declared types and columns, and nulls of STRICT
//! functions.

use datafusion::execution::SessionState;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Ident, Query, SelectItem, SetExpr, TableAlias,
};
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;

use super::arguments::Argument;
use super::body::put_derived;
use super::routine::{Form, Function, Returns, Routine};
use crate::names::resolve;
use crate::session::dialect::{parsed_expr, parsed_query};
use crate::session::refusal::refused;
use crate::session::sql_type::identifier;

/// The alias of a call in FROM that has none.
pub(super) fn alias(name: &str) -> TableAlias {
    let name = Ident::with_quote('"', name);
    TableAlias { explicit: true, name, columns: vec![], at: None }
}

/// The query `SELECT value AS name`.
///
/// # Errors
/// Errors of the parser.
pub(super) fn query_of(value: Expr, name: &Ident) -> Result<Box<Query>, SqlError> {
    let mut query = parsed_query("SELECT 1")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        let alias = name.clone();
        select.projection = vec![SelectItem::ExprWithAlias { expr: value, alias }];
    }
    Ok(Box::new(query))
}

/// The value of a function, in the type that the function returns.
///
/// # Errors
/// Errors of `cast`.
pub(super) fn typed(
    function: &Function,
    value: Expr,
    cast: fn(Expr, &str) -> Result<Expr, SqlError>,
) -> Result<Expr, SqlError> {
    match &function.returns {
        Returns::Value(of) if !of.to_lowercase().starts_with("any") => cast(value, of),
        _ => Ok(value),
    }
}

/// The value of a STRICT function: null if an argument is.
///
/// # Errors
/// Errors of the parser.
pub(super) fn strict(value: Expr, arguments: &[Argument]) -> Result<Expr, SqlError> {
    let is_null = |argument: &Argument| Expr::IsNull(Box::new(argument.expr.clone()));
    let Some(any_null) = joined(arguments.iter().map(is_null), BinaryOperator::Or) else {
        return Ok(value);
    };
    let mut case = parsed_expr("CASE WHEN TRUE THEN NULL ELSE NULL END")?;
    if let Expr::Case { conditions, else_result, .. } = &mut case {
        if let Some(first) = conditions.first_mut() {
            first.condition = any_null;
        }
        *else_result = Some(Box::new(value));
    }
    Ok(case)
}

fn joined(exprs: impl Iterator<Item = Expr>, op: BinaryOperator) -> Option<Expr> {
    exprs.reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    })
}

/// The rows of a function: in the columns and types that it returns; none for a null argument of a
/// STRICT one.
///
/// # Errors
/// Errors of the parser; [`SqlError::Refused`] for a type that is neither.
pub(super) fn shaped(
    state: &SessionState,
    snapshot: &Snapshot,
    (routine, function): (&Routine, &Function),
    query: Box<Query>,
    arguments: &[Argument],
) -> Result<Box<Query>, SqlError> {
    let text = match &function.returns {
        Returns::Value(_) => return Ok(query),
        Returns::Table(columns) => of_columns(columns),
        Returns::Rows(of) => match columns_of(state, snapshot, of) {
            Some(columns) => {
                format!("SELECT * FROM (SELECT 1) AS body({})", listed(columns.iter()))
            }
            None => of_columns(&[(routine.name.clone(), of.clone())]),
        },
    };
    let mut outer = parsed_query(&text)?;
    put_derived(&mut outer, query);
    if let (SetExpr::Select(select), true) = (outer.body.as_mut(), function.is_strict) {
        let is_not_null = |argument: &Argument| Expr::IsNotNull(Box::new(argument.expr.clone()));
        select.selection = joined(arguments.iter().map(is_not_null), BinaryOperator::And);
    }
    Ok(Box::new(outer))
}

/// True for a function that returns rows of one column.
pub(super) fn is_of_one_column(
    state: &SessionState,
    snapshot: &Snapshot,
    routine: &Routine,
) -> bool {
    let Form::Function(function) = &routine.form else { return false };
    match &function.returns {
        Returns::Value(_) => false,
        Returns::Rows(of) => columns_of(state, snapshot, of).is_none(),
        Returns::Table(columns) => columns.len() == 1,
    }
}

fn of_columns(columns: &[(String, String)]) -> String {
    let cast = |(name, of): &(String, String)| {
        let name = identifier(name);
        format!("CAST(body.{name} AS {of}) AS {name}")
    };
    let casts: Vec<_> = columns.iter().map(cast).collect();
    let names = listed(columns.iter().map(|(name, _)| name));
    format!("SELECT {} FROM (SELECT 1) AS body({names})", casts.join(", "))
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(|name| identifier(name)).collect::<Vec<_>>().join(", ")
}

/// The columns of the table whose name a type has.
fn columns_of(state: &SessionState, snapshot: &Snapshot, of: &str) -> Option<Vec<String>> {
    let Expr::Cast { data_type: DataType::Custom(name, modifiers), .. } =
        parsed_expr(&format!("CAST(NULL AS {of})")).ok()?
    else {
        return None;
    };
    let reference = object_name_to_table_reference(name, true).ok()?;
    let found = resolve(state.config_options(), snapshot, reference);
    let (table, _) = snapshot.table(&found.schema, &found.table)?;
    let fields = table.schema().fields().iter();
    modifiers.is_empty().then(|| fields.map(|field| field.name().clone()).collect())
}

/// Refuses a result that a function cannot have.
///
/// # Errors
/// [`SqlError::Refused`].
pub(super) fn check(routine: &Routine, function: &Function) -> Result<(), SqlError> {
    let (Returns::Value(of) | Returns::Rows(of)) = &function.returns else { return Ok(()) };
    let instead = match of.to_lowercase().as_str() {
        "void" | "trigger" | "event_trigger" => "a function in SQL returns a value or rows",
        "record" => "say RETURNS TABLE(name type, ...)",
        _ => return Ok(()),
    };
    Err(refused(&format!("{} that returns {of}", routine.signature()), instead))
}

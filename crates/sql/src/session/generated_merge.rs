//! Generated columns of the rows that a MERGE inserts or updates.

use datafusion::common::{Column, Result, ScalarValue, TableReference, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::{MergeIntoAction, MergeIntoOp};
use datafusion::logical_expr::{Expr, cast, lit};
use terrace_table::table::Table;

use super::generated_values::{generation, over, refuse_volatile};

/// Adds the generated columns of `table` to the actions of a MERGE, whose statement knows the table
/// as `name`.
///
/// # Errors
/// A value for a generated column; errors of planning the expressions.
pub(super) fn compute(
    state: &SessionState,
    table: &Table,
    name: &TableReference,
    op: &mut MergeIntoOp,
) -> Result<()> {
    for clause in &mut op.clauses {
        match &mut clause.action {
            MergeIntoAction::Update(assignments) if !assignments.is_empty() => {
                let given = table.schema().fields().iter().map(|field| {
                    let assigned = assignments.iter().find(|(column, _)| column == field.name());
                    match assigned {
                        Some((_, value)) => cast(value.clone(), field.data_type().clone()),
                        None => Expr::Column(Column::new(Some(name.clone()), field.name())),
                    }
                });
                let given: Vec<Expr> = given.collect();
                for (column, value) in computed(state, table, &given)? {
                    refuse_given(assignments.iter().find(|(known, _)| *known == column))?;
                    assignments.retain(|(known, _)| *known != column);
                    assignments.push((column, value));
                }
            }
            MergeIntoAction::Insert { columns, values } => insert(state, table, columns, values)?,
            _ => {}
        }
    }
    Ok(())
}

fn insert(
    state: &SessionState,
    table: &Table,
    columns: &mut Vec<String>,
    values: &mut Vec<Expr>,
) -> Result<()> {
    let fields = table.schema().fields();
    if columns.is_empty() {
        *columns = fields.iter().map(|field| field.name().clone()).collect();
    }
    let mut given = Vec::with_capacity(fields.len());
    for field in fields {
        let place = columns.iter().position(|column| column == field.name());
        given.push(match place.and_then(|place| values.get(place)) {
            Some(value) => cast(value.clone(), field.data_type().clone()),
            None => lit(ScalarValue::try_from(field.data_type())?),
        });
    }
    for (column, value) in computed(state, table, &given)? {
        let place = columns.iter().position(|known| *known == column);
        match place.and_then(|place| values.get_mut(place)) {
            Some(known) => {
                refuse_given(Some(&(column, known.clone())))?;
                *known = value;
            }
            None => {
                columns.push(column);
                values.push(value);
            }
        }
    }
    Ok(())
}

/// The names and values of the generated columns of a row with the values `given`, one per column
/// of the table.
fn computed(state: &SessionState, table: &Table, given: &[Expr]) -> Result<Vec<(String, Expr)>> {
    let mut all = Vec::new();
    for field in table.schema().fields() {
        if let Some(value) = generation(state, table, field)? {
            refuse_volatile(table, field.name(), &value, given)?;
            all.push((field.name().clone(), over(value, table, given)?));
        }
    }
    Ok(all)
}

/// Refuses a value of a generated column other than DEFAULT, which is a literal null by now.
fn refuse_given(given: Option<&(String, Expr)>) -> Result<()> {
    match given {
        Some((column, value)) if !matches!(value, Expr::Literal(value, _) if value.is_null()) => {
            plan_err!("column \"{column}\" can only be updated to DEFAULT: it is generated")
        }
        _ => Ok(()),
    }
}

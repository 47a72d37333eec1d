//! Columns of UNION and VALUES with values of UUID, JSON or JSONB, and columns of UNION with
//! timestamps.
//!
//! DataFusion's planner derives these columns before casts get the marks of the types
//! (`types/nested.rs`). A literal in such a column takes the type of the other values, as in
//! PostgreSQL:
//!
//! ```text
//! SELECT id FROM t UNION SELECT 'A0EE...'
//! ```

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result, TableReference};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::logical_plan::{Projection, Union};
use datafusion::logical_expr::{Expr, LogicalPlan, Values, cast};
use terrace_functions::columns::{TextType, unmarked};

use super::choices::{is_untyped, of_untyped};
use super::kinds::mark_of;
use super::values::{is_date, moment_of};

/// Gives the columns of a UNION their types.
///
/// # Errors
/// If the inputs do not fit each other.
pub(super) fn of_union(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Union(union) = plan else { return Ok(Transformed::no(plan)) };
    let mut inputs = union.inputs.clone();
    let mut fields: Vec<(Option<TableReference>, FieldRef)> = Vec::new();
    let mut is_changed = false;
    for (column, (qualifier, field)) in union.schema.iter().enumerate() {
        let of = match with_type(&inputs, column)? {
            Some((of, typed)) => {
                let mut pairs = inputs.iter().zip(&typed);
                is_changed |= pairs.any(|(before, typed)| !Arc::ptr_eq(before, typed));
                is_changed |= TextType::of(field) != Some(of);
                inputs = typed;
                Some(of)
            }
            None => None,
        };
        let moments = with_moments(&inputs, column)?;
        let field = match (of, moments) {
            (Some(of), _) => Arc::new(of.field(field.name()).with_nullable(field.is_nullable())),
            (None, Some((moment, cast))) => {
                (inputs, is_changed) = (cast, true);
                Arc::new(field.as_ref().clone().with_data_type(moment))
            }
            (None, None) => Arc::clone(field),
        };
        fields.push((qualifier.cloned(), field));
    }
    if !is_changed {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let metadata = union.schema.metadata().clone();
    let schema = Arc::new(DFSchema::new_with_metadata(fields, metadata)?);
    Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema })))
}

/// The type of a column of the inputs of a union, and the inputs with literals of this type; `None`
/// for a column without such a type, and for one with other values too.
fn with_type(
    inputs: &[Arc<LogicalPlan>],
    column: usize,
) -> Result<Option<(TextType, Vec<Arc<LogicalPlan>>)>> {
    let mut marks = inputs.iter().filter_map(|input| mark_at(input, column));
    let Some(of) = marks.find(|of| of.is_distinct()) else { return Ok(None) };
    let typed = inputs.iter().map(|input| match mark_at(input, column) == Some(of) {
        true => Ok(Some(Arc::clone(input))),
        false => with_literal(input, column, of),
    });
    let typed = typed.collect::<Result<Option<Vec<_>>>>()?;
    Ok(typed.map(|typed| (of, typed)))
}

/// The type of a column with timestamps in microseconds of the inputs of a union, and the inputs with
/// its dates and literals as timestamps too; `None` if no input changes. DataFusion takes
/// nanoseconds, which end in 2262.
fn with_moments(
    inputs: &[Arc<LogicalPlan>],
    column: usize,
) -> Result<Option<(DataType, Vec<Arc<LogicalPlan>>)>> {
    let types = inputs.iter().map(|input| input.schema().fields().get(column));
    let Some(types) = types.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let types: Vec<_> = types.into_iter().map(|field| Some(field.data_type().clone())).collect();
    let Some(moment) = moment_of(&types) else { return Ok(None) };
    let mut is_changed = false;
    let cast = inputs.iter().zip(types.iter().flatten()).map(|(input, of)| {
        let is_literal = || match input.as_ref() {
            LogicalPlan::Projection(projection) => {
                let literal = projection.expr.get(column).cloned().map(Expr::unalias);
                literal.is_some_and(|literal| is_untyped(&literal))
            }
            _ => false,
        };
        if !is_date(of) && !(of.is_string() && is_literal()) {
            return Ok(Arc::clone(input));
        }
        is_changed = true;
        let columns = input.schema().iter().enumerate().map(|(place, (qualifier, field))| {
            let value = Expr::Column(Column::from((qualifier, field)));
            match place == column {
                true => {
                    cast(value, moment.clone()).alias_qualified(qualifier.cloned(), field.name())
                }
                false => value,
            }
        });
        let projection = Projection::try_new(columns.collect(), Arc::clone(input))?;
        Ok(Arc::new(LogicalPlan::Projection(projection)))
    });
    let cast = cast.collect::<Result<Vec<_>>>()?;
    Ok(is_changed.then_some((moment, cast)))
}

fn mark_at(plan: &LogicalPlan, column: usize) -> Option<TextType> {
    TextType::of(plan.schema().fields().get(column)?)
}

/// The input of a union with the literal of a column as a value of a type; `None` if the column is
/// no literal.
fn with_literal(
    input: &LogicalPlan,
    column: usize,
    of: TextType,
) -> Result<Option<Arc<LogicalPlan>>> {
    let LogicalPlan::Projection(projection) = input else { return Ok(None) };
    let mut columns = projection.expr.clone();
    let Some(literal) = columns.get_mut(column) else { return Ok(None) };
    if !is_untyped(&literal.clone().unalias()) {
        return Ok(None);
    }
    *literal = match std::mem::take(literal) {
        Expr::Alias(Alias { expr, relation, name, metadata }) => {
            let expr = Box::new(of_untyped(*expr, of)?);
            Expr::Alias(Alias { expr, relation, name, metadata })
        }
        literal => {
            let name = literal.schema_name().to_string();
            of_untyped(literal, of)?.alias(name)
        }
    };
    let projection = Projection::try_new(columns, Arc::clone(&projection.input))?;
    Ok(Some(Arc::new(LogicalPlan::Projection(projection))))
}

/// Gives the columns of VALUES their types, but takes the marks within nested types off: constants
/// do not keep them.
///
/// # Errors
/// If the columns contradict each other.
pub(super) fn of_values(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Values(mut values) = plan else { return Ok(Transformed::no(plan)) };
    let mut is_changed = false;
    let fields = values.schema.iter().enumerate();
    let fields = fields.map(|(column, (qualifier, field))| {
        let typed = typed(&values, column, field);
        is_changed |= typed != *field;
        (qualifier.cloned(), typed)
    });
    let fields: Vec<(Option<TableReference>, FieldRef)> = fields.collect();
    for value in values.values.iter_mut().flatten() {
        let Expr::Literal(constant, _) = value else { continue };
        let (of, bare) = (constant.data_type(), unmarked(&constant.data_type()));
        if of != bare {
            *constant = constant.cast_to(&bare)?;
            is_changed = true;
        }
    }
    if is_changed {
        let metadata = values.schema.metadata().clone();
        values.schema = Arc::new(DFSchema::new_with_metadata(fields, metadata)?);
    }
    let plan = LogicalPlan::Values(values);
    Ok(if is_changed { Transformed::yes(plan) } else { Transformed::no(plan) })
}

/// The field of a column of VALUES, with the mark that its values have.
fn typed(values: &Values, column: usize, field: &FieldRef) -> FieldRef {
    let bare = field.as_ref().clone().with_data_type(unmarked(field.data_type()));
    let given = values.values.iter().filter_map(|row| row.get(column));
    let marks = given.map(|value| (is_null(value), mark_of(value, &DFSchema::empty())));
    let marks: Vec<_> = marks.filter(|(is_null, _)| !is_null).map(|(_, mark)| mark).collect();
    let of = marks.first().copied().flatten().filter(|of| of.is_distinct());
    let of = of.filter(|of| marks.iter().all(|mark| mark.as_ref() == Some(of)));
    Arc::new(match of {
        Some(of) if bare.data_type().is_string() => {
            bare.with_metadata(of.field("").metadata().clone())
        }
        _ => bare,
    })
}

fn is_null(value: &Expr) -> bool {
    matches!(value, Expr::Literal(value, _) if value.is_null())
}

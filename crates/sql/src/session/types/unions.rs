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
use super::values::{is_date, is_moment, moment_of};

/// Gives the columns of a UNION their types.
///
/// # Errors
/// If the inputs do not fit each other.
pub(super) fn of_union(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Union(union) = plan else { return Ok(Transformed::no(plan)) };
    let mut inputs = union.inputs.clone();
    let mut is_changed = false;
    let mut types = Vec::new();
    for (column, field) in union.schema.fields().iter().enumerate() {
        let found = with_type(&inputs, column)?;
        types.push(found.as_ref().map(|(of, _)| *of));
        if let Some((of, typed)) = found {
            let mut pairs = inputs.iter().zip(&typed);
            is_changed |= pairs.any(|(before, typed)| !Arc::ptr_eq(before, typed));
            is_changed |= TextType::of(field) != Some(of);
            inputs = typed;
        }
    }
    let moments: Vec<_> = (0..types.len()).map(|column| moments(&inputs, column)).collect();
    let cast = inputs.iter().map(|input| with_moments(input, &moments));
    let cast = cast.collect::<Result<Vec<_>>>()?;
    is_changed |= inputs.iter().zip(&cast).any(|(before, cast)| !Arc::ptr_eq(before, cast));
    let fields = union.schema.iter().zip(types).zip(&moments);
    let fields = fields.map(|(((qualifier, field), of), moment)| {
        let typed = match (of, moment) {
            (Some(of), _) => Arc::new(of.field(field.name()).with_nullable(field.is_nullable())),
            (None, Some(moment)) if moment != field.data_type() => {
                is_changed = true;
                Arc::new(field.as_ref().clone().with_data_type(moment.clone()))
            }
            (None, _) => Arc::clone(field),
        };
        (qualifier.cloned(), typed)
    });
    let fields: Vec<(Option<TableReference>, FieldRef)> = fields.collect();
    if !is_changed {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let metadata = union.schema.metadata().clone();
    let schema = Arc::new(DFSchema::new_with_metadata(fields, metadata)?);
    Ok(Transformed::yes(LogicalPlan::Union(Union { inputs: cast, schema })))
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

/// The type of the timestamps in microseconds of a column of a union whose other values are nulls,
/// dates and literals; `None` for other columns. DataFusion takes nanoseconds for them, which end
/// in 2262.
fn moments(inputs: &[Arc<LogicalPlan>], column: usize) -> Option<DataType> {
    let types = inputs.iter().map(|input| Some(input.schema().fields().get(column)?.data_type()));
    let types: Vec<Option<DataType>> = types.map(|of| of.cloned()).collect();
    let moment = moment_of(&types)?;
    let is_literal = |input: &LogicalPlan| match input {
        LogicalPlan::Projection(projection) => {
            let literal = projection.expr.get(column).cloned().map(Expr::unalias);
            literal.is_some_and(|literal| is_untyped(&literal))
        }
        _ => false,
    };
    let fits = inputs.iter().zip(&types).all(|(input, of)| {
        of.as_ref().is_some_and(|of| {
            is_moment(of) || is_date(of) || of.is_null() || (of.is_string() && is_literal(input))
        })
    });
    fits.then_some(moment)
}

/// The input of a union with the columns that are `moments` as timestamps.
fn with_moments(
    input: &Arc<LogicalPlan>,
    moments: &[Option<DataType>],
) -> Result<Arc<LogicalPlan>> {
    let mut is_changed = false;
    let columns = input.schema().iter().zip(moments).map(|((qualifier, field), moment)| {
        let value = Expr::Column(Column::from((qualifier, field)));
        let of = field.data_type();
        match moment.as_ref().filter(|_| is_date(of) || of.is_string()) {
            Some(moment) => {
                is_changed = true;
                cast(value, moment.clone()).alias_qualified(qualifier.cloned(), field.name())
            }
            None => value,
        }
    });
    let columns: Vec<_> = columns.collect();
    if !is_changed {
        return Ok(Arc::clone(input));
    }
    let projection = Projection::try_new(columns, Arc::clone(input))?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
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

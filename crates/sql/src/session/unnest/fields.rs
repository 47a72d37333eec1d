//! Helpers that build projections, joins and unions with the fields of the plans that they replace.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, JoinConstraint, NullEquality, Result};
use datafusion::logical_expr::logical_plan::{Aggregate, Join, Projection, Union};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, Operator, binary_expr, lit};

/// The column of a name that is unique in the statement, without a qualifier.
pub(super) fn named(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// Projects `values` under the names of the fields of `schema`, and `extras` under their own.
pub(super) fn project(
    plan: LogicalPlan,
    values: impl IntoIterator<Item = Expr>,
    schema: &DFSchema,
    extras: impl IntoIterator<Item = Expr>,
) -> Result<LogicalPlan> {
    let values = values.into_iter().zip(schema.iter()).map(|(value, (qualifier, field))| {
        let (own_qualifier, own_name) = value.qualified_name();
        match own_qualifier.as_ref() == qualifier && own_name == *field.name() {
            true => value,
            false => value.alias_qualified(qualifier.cloned(), field.name()),
        }
    });
    let values = values.chain(extras).collect();
    Projection::try_new(values, Arc::new(plan)).map(LogicalPlan::Projection)
}

/// Projects the columns of `schema`, which the plan has under the same names, and `extras`.
pub(super) fn restore(
    plan: LogicalPlan,
    schema: &DFSchema,
    extras: impl IntoIterator<Item = Expr>,
) -> Result<LogicalPlan> {
    let columns = schema.columns().into_iter().map(Expr::Column);
    project(plan, columns, schema, extras)
}

/// The columns of a plan, without the internal one.
pub(super) fn columns_of(schema: &DFSchema) -> Vec<Column> {
    without_internal(schema.columns().into_iter())
}

/// Columns without the one that DataFusion adds to grouping sets: later rules may remove it.
pub(super) fn without_internal(columns: impl Iterator<Item = Column>) -> Vec<Column> {
    columns.filter(|column| column.name != Aggregate::INTERNAL_GROUPING_ID).collect()
}

/// A join on conditions alone, from which later rules take its keys.
pub(super) fn join(
    left: LogicalPlan,
    right: LogicalPlan,
    join_type: JoinType,
    conditions: Vec<Expr>,
) -> Result<LogicalPlan> {
    let filter = match conjunction(conditions) {
        None if join_type != JoinType::Inner => Some(lit(true)),
        filter => filter,
    };
    let join = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        Vec::new(),
        filter,
        join_type,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )?;
    Ok(LogicalPlan::Join(join))
}

/// The conditions of a join, with its keys among them.
pub(super) fn conditions_of(join: &Join) -> Vec<Expr> {
    let operator = match join.null_equality {
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
        NullEquality::NullEqualsNothing => Operator::Eq,
    };
    let keys = join.on.iter().cloned();
    let keys = keys.map(|(left, right)| binary_expr(left, operator, right));
    keys.chain(join.filter.iter().cloned()).collect()
}

/// The rows of several plans with the same fields.
pub(super) fn union(mut plans: Vec<LogicalPlan>) -> Result<LogicalPlan> {
    match (plans.pop(), plans.is_empty()) {
        (Some(only), true) => Ok(only),
        (last, _) => {
            let all = plans.into_iter().chain(last).map(Arc::new).collect();
            Union::try_new_with_loose_types(all).map(LogicalPlan::Union)
        }
    }
}

/// Conditions that values are equal, or both null.
pub(super) fn same(
    left: impl IntoIterator<Item = Expr>,
    right: impl IntoIterator<Item = Expr>,
) -> Vec<Expr> {
    let pairs = left.into_iter().zip(right);
    pairs.map(|(left, right)| binary_expr(left, Operator::IsNotDistinctFrom, right)).collect()
}

/// Generator of column names that are unique in a statement.
#[derive(Debug, Default)]
pub(super) struct Names {
    given: usize,
}

impl Names {
    pub(super) fn next(&mut self, what: &str) -> String {
        self.given += 1;
        format!("__{what}_{}", self.given)
    }
}

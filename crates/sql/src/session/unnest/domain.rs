//! The distinct values of outer columns for which a subquery is evaluated.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, Projection};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan};

use super::fields::{Names, named};
use super::once::once;
use super::repeatable;

/// The distinct values of columns of outer rows, null among them.
pub(super) struct Domain {
    /// Returns one row for each combination of values, of one column for each outer column.
    rows: LogicalPlan,
    /// The outer columns.
    outer: Vec<Column>,
    /// The names of the columns of `rows`, unique in the statement.
    names: Vec<String>,
}

impl Domain {
    /// Returns the domain of the columns `outer` of a plan that is [`stable`] in them.
    ///
    /// # Errors
    /// If a plan cannot be built.
    pub(super) fn new(plan: &LogicalPlan, outer: Vec<Column>, names: &mut Names) -> Result<Self> {
        let own: Vec<_> = outer.iter().map(|_| names.next("outer")).collect();
        let rows = match outer.is_empty() {
            true => LogicalPlan::default(),
            false => {
                let rows = without_limits(plan.clone())?;
                let columns = outer.iter().zip(&own);
                let columns = columns.map(|(column, name)| Expr::from(column.clone()).alias(name));
                let rows = Projection::try_new(columns.collect(), Arc::new(rows))?;
                let keys = own.iter().map(|name| named(name)).collect();
                let input = Arc::new(LogicalPlan::Projection(rows));
                LogicalPlan::Aggregate(Aggregate::try_new(input, keys, Vec::new())?)
            }
        };
        Ok(Self { rows, outer, names: own })
    }

    /// The plan of the domain's rows.
    pub(super) fn rows(&self) -> LogicalPlan {
        self.rows.clone()
    }

    /// The columns of the domain's rows.
    pub(super) fn columns(&self) -> Vec<Column> {
        self.names.iter().map(Column::new_unqualified).collect()
    }

    /// True if the domain has no columns: the subquery names no column of the outer rows.
    pub(super) fn is_empty(&self) -> bool {
        self.outer.is_empty()
    }

    /// The index of an outer column among those of the domain; `None` for any other column.
    pub(super) fn place_of(&self, column: &Column) -> Option<usize> {
        self.outer.iter().position(|outer| outer == column)
    }

    /// The number of the domain's columns.
    pub(super) fn width(&self) -> usize {
        self.outer.len()
    }

    /// The outer columns.
    pub(super) fn outer(&self) -> &[Column] {
        &self.outer
    }
}

/// Returns outer rows that have the same values in their `columns` each time they are evaluated:
/// the plan itself, or one that is evaluated once.
///
/// # Errors
/// If the columns could differ and the rows depend on an outer query, so that they cannot be
/// evaluated once; the error names the construct that makes them differ.
pub(super) fn stable(plan: LogicalPlan, columns: &[Column]) -> Result<LogicalPlan> {
    match repeatable::check(&without_limits(plan.clone())?, columns) {
        Ok(()) => Ok(plan),
        Err(_) if plan.all_out_ref_exprs().is_empty() => Ok(once(plan)),
        Err(error) => Err(error),
    }
}

/// A plan without its LIMITs and samples, whose rows another evaluation could choose differently. A
/// domain may have values that no outer row has: these join with no row.
fn without_limits(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Limit(limit) => without_limits(Arc::unwrap_or_clone(limit.input)),
        LogicalPlan::Sort(sort) => without_limits(Arc::unwrap_or_clone(sort.input)),
        LogicalPlan::Filter(filter) if filter.predicate.is_volatile() => {
            without_limits(Arc::unwrap_or_clone(filter.input))
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => {
            Ok(plan.map_children(|input| without_limits(input).map(Transformed::yes))?.data)
        }
        LogicalPlan::Join(mut join) => {
            let rows = |side| without_limits(Arc::unwrap_or_clone(side)).map(Arc::new);
            if let JoinType::Inner | JoinType::Left | JoinType::LeftSemi = join.join_type {
                join.left = rows(join.left)?;
            }
            if join.join_type == JoinType::Inner {
                join.right = rows(join.right)?;
            }
            Ok(LogicalPlan::Join(join))
        }
        plan => Ok(plan),
    }
}

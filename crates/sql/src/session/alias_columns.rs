//! Column names of relations in FROM.
//!
//! An alias may name only the first columns: `t AS a (x, y)`. DataFusion takes a name for each
//! column or none. A column of an outer query that a subquery in FROM selects keeps its name: `x`
//! in `(SELECT o.x) q`. DataFusion names it `outer_ref(o.x)`.

use std::sync::Arc;

use datafusion::common::{Result, TableReference, plan_err};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::sqlparser::ast::{TableAlias, TableFactor};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, SubqueryAlias};

/// The names that an alias gives to a relation and its first columns.
pub(super) struct AliasColumns {
    table: String,
    columns: Vec<String>,
}

impl AliasColumns {
    /// Removes the column names from the alias of a table, a subquery or a join, and returns them;
    /// `None` if it has none.
    pub(super) fn take(
        relation: &mut TableFactor,
        context: &dyn RelationPlannerContext,
    ) -> Option<Self> {
        let (TableFactor::Table { alias, args: None, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::NestedJoin { alias, .. }) = relation
        else {
            return None;
        };
        let TableAlias { name, columns, .. } = alias.as_mut()?;
        let normal = |ident| RelationPlannerContext::normalize_ident(context, ident);
        let columns = std::mem::take(columns).into_iter().map(|column| normal(column.name));
        let columns: Vec<_> = columns.collect();
        (!columns.is_empty()).then(|| Self { table: normal(name.clone()), columns })
    }

    /// Names the first columns of the relation.
    ///
    /// # Errors
    /// If it has fewer columns.
    pub(super) fn apply(self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = match plan {
            LogicalPlan::SubqueryAlias(alias) => Arc::unwrap_or_clone(alias.input),
            plan => plan,
        };
        let found = plan.schema().columns();
        if found.len() < self.columns.len() {
            return plan_err!(
                "table \"{}\" has {} columns available but {} columns specified",
                self.table,
                found.len(),
                self.columns.len()
            );
        }
        let rest = found.iter().skip(self.columns.len()).map(|column| column.name.clone());
        let names: Vec<_> = self.columns.into_iter().chain(rest).collect();
        let columns = found.iter().cloned().zip(names);
        let columns = columns.map(|(column, name)| Expr::Column(column).alias(name));
        LogicalPlanBuilder::from(plan)
            .project(columns)?
            .alias(TableReference::bare(self.table))?
            .build()
    }
}

/// Restores the names of the outer queries' columns that a subquery in FROM selects, except where
/// another of its columns has the name.
///
/// # Errors
/// If the plan cannot be rebuilt.
pub(super) fn with_outer_names(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::SubqueryAlias(relation) = &plan else { return Ok(plan) };
    let LogicalPlan::Projection(projection) = relation.input.as_ref() else { return Ok(plan) };
    let fields = projection.schema.fields();
    let name = |expr: &Expr| match expr {
        Expr::OuterReferenceColumn(_, column) => {
            let is_free = fields.iter().all(|field| *field.name() != column.name);
            is_free.then(|| column.name.clone())
        }
        _ => None,
    };
    let mut names: Vec<_> = projection.expr.iter().map(name).collect();
    for place in 0..names.len() {
        let (before, rest) = names.split_at_mut(place);
        if let Some(name) = rest.first_mut().filter(|name| name.is_some() && before.contains(*name))
        {
            *name = None;
        }
    }
    if names.iter().all(Option::is_none) {
        return Ok(plan);
    }
    let columns = projection.expr.iter().cloned().zip(names);
    let columns = columns.map(|(expr, name)| match name {
        Some(name) => expr.alias(name),
        None => expr,
    });
    let named = Projection::try_new(columns.collect(), Arc::clone(&projection.input))?;
    let input = Arc::new(LogicalPlan::Projection(named));
    SubqueryAlias::try_new(input, relation.alias.clone()).map(LogicalPlan::SubqueryAlias)
}

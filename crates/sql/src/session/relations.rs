//! Relations of a FROM that DataFusion's planner lacks: POSITIONAL and ASOF joins, PIVOT, UNPIVOT,
//! and VALUES with types of their own.

mod asof;
mod columns;
mod pivot;
mod positional;
mod unpivot;
mod values;

use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::sqlparser::ast::{
    Ident, Join, JoinOperator, TableAlias, TableFactor,
};

pub(super) use columns::Chosen;
pub(super) use pivot::{COLUMNS_MAX as PIVOT_COLUMNS_MAX, text_of};

/// The planner of these relations.
#[derive(Debug)]
pub(super) struct Special;

impl RelationPlanner for Special {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let (plan, alias) = match relation {
            TableFactor::NestedJoin { table_with_joins, alias }
                if is_special(&table_with_joins.joins) =>
            {
                let mut table = *table_with_joins;
                let Some(join) = table.joins.pop() else {
                    return plan_err!("a join without a right side");
                };
                (plan_join(table.relation, join, context)?, alias)
            }
            TableFactor::Pivot { table, value_source, alias, .. } => {
                (pivot::plan(*table, value_source, context)?, alias.or_else(|| named("pivot")))
            }
            TableFactor::Unpivot { table, value, null_inclusion, name, columns, alias } => {
                let unpivot = unpivot::Unpivot { value, null_inclusion, name, columns };
                (unpivot.plan(*table, context)?, alias.or_else(|| named("unpivot")))
            }
            TableFactor::Derived { subquery, alias, sample: None, .. }
                if values::is_plain(&subquery) =>
            {
                (values::plan(*subquery, context)?, alias)
            }
            other => return Ok(RelationPlanning::Original(Box::new(other))),
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

/// An alias, which tells the columns of a relation from those of others.
fn named(name: &str) -> Option<TableAlias> {
    let name = Ident::with_quote('"', name);
    Some(TableAlias { explicit: true, name, columns: vec![], at: None })
}

fn plan_join(
    left: TableFactor,
    join: Join,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    match join.join_operator {
        JoinOperator::CrossJoin(_) => positional::plan(left, join.relation, context),
        operator => {
            let left = context.plan(left)?;
            let right = context.plan(join.relation)?;
            asof::plan(left, right, operator, context)
        }
    }
}

/// True for the join of a special kind, which the parser marks as GLOBAL.
fn is_special(joins: &[Join]) -> bool {
    matches!(joins, [join] if join.global)
}

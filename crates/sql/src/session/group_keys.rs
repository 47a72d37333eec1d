//! Functional dependencies of groups, restricted to those that hold.
//!
//! A column that is a key of one side of a join determines the columns of that side and no others.
//! DataFusion treats it as a key of the groups over the join too, drops keys of GROUP BY and ORDER
//! BY that it seems to determine, and groups by columns that the statement does not name.
//! [`Relations`] hides the dependencies of a relation from the planner, [`GroupKeys`] hides wrong
//! ones from the rules that use them.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{
    DFSchema, Dependency, FunctionalDependence, FunctionalDependencies, Result,
};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::sqlparser::ast::TableFactor;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, SubqueryAlias};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::alias_columns::{AliasColumns, with_outer_names};
use super::unnest::instance;
use super::with_queries::Mark;
use crate::interrupt;

/// The rules of DataFusion that use functional dependencies; [`GroupKeys`] runs before each.
pub(super) const BEFORE: [&str; 4] = [
    "replace_distinct_aggregate",
    "eliminate_join",
    "eliminate_duplicated_expr",
    "optimize_projections",
];

thread_local! {
    /// True if the next relation planned on this thread is one that [`Relations`] plans itself.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Plans a relation of FROM without its functional dependencies. Grouping by a key of a relation
/// then groups by that key only, and other columns are refused, as in PostgreSQL, which knows only
/// primary keys of tables. Also applies the column names of its alias, and has the rows of a marked
/// WITH query evaluated once.
#[derive(Debug)]
pub(super) struct Relations;

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if IS_OWN.take() {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        interrupt::check()?;
        let mark = Mark::of(&relation);
        let names = AliasColumns::take(&mut relation, context);
        IS_OWN.set(true);
        let plan = context.plan(relation);
        IS_OWN.set(false);
        let plan = match names {
            Some(names) => names.apply(plan?)?,
            None => plan?,
        };
        let plan = without_keys(instance(with_outer_names(plan)?)?)?;
        let plan = match mark {
            Some(mark) => mark.apply(plan)?,
            None => plan,
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

fn without_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    if plan.schema().functional_dependencies().is_empty() {
        return Ok(plan);
    }
    match plan {
        LogicalPlan::SubqueryAlias(alias) => {
            let input = without_keys(Arc::unwrap_or_clone(alias.input))?;
            SubqueryAlias::try_new(Arc::new(input), alias.alias).map(LogicalPlan::SubqueryAlias)
        }
        plan => {
            let schema = with_keys(plan.schema(), FunctionalDependencies::empty())?;
            Ok(LogicalPlan::Projection(Projection::new_from_schema(Arc::new(plan), schema)))
        }
    }
}

fn with_keys(schema: &DFSchema, keys: FunctionalDependencies) -> Result<Arc<DFSchema>> {
    schema.clone().with_functional_dependencies(keys).map(Arc::new)
}

/// Optimizer rule that restricts the keys of groups over a join to those that hold.
#[derive(Debug)]
pub(super) struct GroupKeys;

impl OptimizerRule for GroupKeys {
    fn name(&self) -> &str {
        "group_keys"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !has_wrong_keys(&plan)? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up_with_subqueries(|node| {
            let mut node = node.recompute_schema()?;
            if let LogicalPlan::Aggregate(aggregate) = &mut node
                && has_lasting_keys(aggregate)
            {
                aggregate.schema = with_keys(&aggregate.schema, keys_of(aggregate))?;
            }
            Ok(Transformed::yes(node))
        })
    }
}

/// True if an aggregate node has other keys than [`keys_of`] returns, which may be wrong.
fn has_wrong_keys(plan: &LogicalPlan) -> Result<bool> {
    let mut is_wrong = false;
    plan.apply_with_subqueries(|node| {
        is_wrong = matches!(node, LogicalPlan::Aggregate(aggregate)
            if has_lasting_keys(aggregate)
                && *aggregate.schema.functional_dependencies() != keys_of(aggregate));
        Ok(if is_wrong { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(is_wrong)
}

/// False for grouping sets, whose rows have no keys, and for an aggregation without groups.
fn has_lasting_keys(aggregate: &Aggregate) -> bool {
    let is_set = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
    !aggregate.group_expr.is_empty() && !aggregate.group_expr.iter().any(is_set)
}

/// The keys of the rows of an aggregation: the keys of its input that are among the columns of
/// GROUP BY, or if there are none, all columns of GROUP BY.
fn keys_of(aggregate: &Aggregate) -> FunctionalDependencies {
    let (input, schema) = (aggregate.input.schema(), &aggregate.schema);
    let names = input.field_names();
    // A repeated key is one column.
    let mut groups: Vec<String> = Vec::new();
    for key in &aggregate.group_expr {
        let name = key.schema_name().to_string();
        if !groups.contains(&name) {
            groups.push(name);
        }
    }
    let all: Vec<_> = (0..schema.fields().len()).collect();
    let whole = |keys: Vec<usize>, nullable| {
        FunctionalDependence::new(keys, all.clone(), nullable).with_mode(Dependency::Single)
    };
    let inputs = input.functional_dependencies().iter();
    let mut keys: Vec<_> = inputs
        .filter(|key| key.mode == Dependency::Single)
        .filter_map(|key| {
            let places = key
                .source_indices
                .iter()
                .map(|&column| groups.iter().position(|group| *group == names[column]));
            Some(whole(places.collect::<Option<_>>()?, key.nullable))
        })
        .collect();
    if keys.is_empty() {
        let nullable = (0..groups.len()).any(|key| schema.field(key).is_nullable());
        keys.push(whole((0..groups.len()).collect(), nullable));
    }
    FunctionalDependencies::new(keys)
}

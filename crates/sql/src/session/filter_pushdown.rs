//! Filter pushdown by column index.
//!
//! DataFusion's rule of this name passes a filter to the child of a node with each column
//! renumbered to the first column of the child that has the same *name*. If a join's sides share
//! column names, this may be another column: the filter that a hash join derives from its build
//! side then drops rows by the wrong values. The rule here asks the nodes which filters may pass,
//! and renumbers the columns itself, by their lineage through the node. The test
//! `datafusion_still_renumbers_by_name` fails once the work-around is no longer needed.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
    PushedDown, PushedDownPredicate,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;

type Plan = Arc<dyn ExecutionPlan>;
type Predicate = Arc<dyn PhysicalExpr>;

/// Physical optimizer rule that replaces DataFusion's rule of the same name.
#[derive(Debug)]
pub(super) struct FilterPushdown {
    phase: FilterPushdownPhase,
}

impl FilterPushdown {
    /// The replacement of DataFusion's rule `name`; `None` for any other rule.
    pub(super) fn replacing(name: &str) -> Option<Self> {
        let phase = match name {
            "FilterPushdown" => FilterPushdownPhase::Pre,
            "FilterPushdown(Post)" => FilterPushdownPhase::Post,
            _ => return None,
        };
        Some(Self { phase })
    }
}

impl PhysicalOptimizerRule for FilterPushdown {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let pushed = push_down(&plan, &[], self.phase, config)?;
        Ok(pushed.updated_node.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        match self.phase {
            FilterPushdownPhase::Pre => "FilterPushdown",
            FilterPushdownPhase::Post => "FilterPushdown(Post)",
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The source of a filter offered to a child, with its index among the filters of that source.
#[derive(Clone, Copy)]
enum Origin {
    /// The node itself.
    Node(usize),
    /// A node above it.
    Parent(usize),
}

/// Offers `parents`, filters over the rows of `node`, to the subtree below `node`, together with
/// the filters of the subtree's own nodes. Returns the changed node, if it has changed, and for
/// each of `parents` whether the subtree applies it to every row.
fn push_down(
    node: &Plan,
    parents: &[Predicate],
    phase: FilterPushdownPhase,
    config: &ConfigOptions,
) -> Result<FilterPushdownPropagation<Plan>> {
    if parents.is_empty() && node.children().is_empty() {
        // A leaf would return a copy of itself, and all nodes above it would be built again.
        return Ok(FilterPushdownPropagation::with_parent_pushdown_result(vec![]));
    }
    let offered: Vec<usize> =
        (0..parents.len()).filter(|&place| may_pass(node, &parents[place])).collect();
    let predicates = offered.iter().map(|&place| Arc::clone(&parents[place])).collect();
    let description = node.gather_filters_for_pushdown(phase, predicates, config)?;
    let (passed, own) = (description.parent_filters(), description.self_filters());
    let children = node.children();
    if passed.len() != children.len() || own.len() != children.len() {
        return internal_err!("{} describes filters of other children than it has", node.name());
    }
    let mut answers = Answers { parents: vec![vec![]; parents.len()], own: vec![] };
    let mut new_children = Vec::with_capacity(children.len());
    for (index, (child, (passed, own))) in children.iter().zip(passed.iter().zip(own)).enumerate() {
        let lineage = Lineage::of(node, index)?;
        let sent = filters_for_child(&lineage, parents, &offered, passed, &own)?;
        let predicates: Vec<Predicate> = sent.iter().map(|(_, sent)| Arc::clone(sent)).collect();
        let below = push_down(child, &predicates, phase, config)?;
        if below.filters.len() != sent.len() {
            return internal_err!("{} answered for other filters than it got", child.name());
        }
        answers.add_child(own, sent.iter().map(|(origin, _)| *origin).zip(below.filters));
        new_children.push(below.updated_node.unwrap_or_else(|| Arc::clone(child)));
    }
    let updated = replace_children_if_necessary(Arc::clone(node), new_children)?;
    let result = answers.result(parents, &offered);
    let mut handled = updated.handle_child_pushdown_result(phase, result, config)?;
    if handled.updated_node.is_none() && !Arc::ptr_eq(&updated, node) {
        handled.updated_node = Some(updated);
    }
    // The node was not asked about filters that may not pass.
    let mut filters = vec![PushedDown::No; parents.len()];
    for (place, answer) in offered.iter().zip(&handled.filters) {
        filters[*place] = *answer;
    }
    handled.filters = filters;
    Ok(handled)
}

/// The filters offered to a child, over its columns: the node's `own`, and those of `parents` that
/// the node lets pass. `offered` are the indexes in `parents` that `passed` answers for.
fn filters_for_child(
    lineage: &Lineage,
    parents: &[Predicate],
    offered: &[usize],
    passed: &[PushedDownPredicate],
    own: &[Predicate],
) -> Result<Vec<(Origin, Predicate)>> {
    if passed.len() != offered.len() {
        return internal_err!("a node answered for {} of {} filters", passed.len(), offered.len());
    }
    let mut sent = Vec::with_capacity(own.len() + passed.len());
    for (place, predicate) in own.iter().enumerate() {
        if is_deterministic(predicate) {
            sent.push((Origin::Node(place), Arc::clone(predicate)));
        }
    }
    for (&place, passed) in offered.iter().zip(passed) {
        if matches!(passed.discriminant, PushedDown::Yes)
            && let Some(predicate) = lineage.renumbered(&parents[place], passed)?
        {
            sent.push((Origin::Parent(place), predicate));
        }
    }
    Ok(sent)
}

/// The answers of a node's children.
struct Answers {
    /// For each filter from above, the answer of each child.
    parents: Vec<Vec<PushedDown>>,
    /// For each child, the answer to each of the node's own filters.
    own: Vec<Vec<PushedDownPredicate>>,
}

impl Answers {
    fn add_child(
        &mut self,
        own: Vec<Predicate>,
        answers: impl Iterator<Item = (Origin, PushedDown)>,
    ) {
        self.parents.iter_mut().for_each(|answers| answers.push(PushedDown::No));
        let mut own_answers = vec![PushedDown::No; own.len()];
        for (origin, answer) in answers {
            match origin {
                Origin::Node(place) => own_answers[place] = answer,
                Origin::Parent(place) => {
                    self.parents[place].last_mut().into_iter().for_each(|last| *last = answer);
                }
            }
        }
        let own = own_answers.into_iter().zip(own);
        self.own.push(own.map(|(answer, own)| answer.wrap_expression(own)).collect());
    }

    fn result(self, parents: &[Predicate], offered: &[usize]) -> ChildPushdownResult {
        let of_parents = offered.iter().map(|&place| ChildFilterPushdownResult {
            filter: Arc::clone(&parents[place]),
            child_results: self.parents[place].clone(),
        });
        ChildPushdownResult { parent_filters: of_parents.collect(), self_filters: self.own }
    }
}

/// True if a node may be asked about a filter over its rows.
///
/// A `FilterExec` with a projection takes over filters that its child does not apply, and resolves
/// their columns in its input by name.
fn may_pass(node: &Plan, predicate: &Predicate) -> bool {
    let found_by_name = match node.downcast_ref::<FilterExec>() {
        Some(filter) if filter.projection().is_some() => {
            are_unambiguous(predicate, &filter.input().schema())
        }
        _ => true,
    };
    found_by_name && is_deterministic(predicate)
}

/// True if every evaluation gives the same result, so that it may happen anywhere.
fn is_deterministic(predicate: &Predicate) -> bool {
    let mut deterministic = true;
    let applied = predicate.apply(|part| {
        deterministic &= !part.is_volatile_node();
        Ok(if deterministic { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    applied.is_ok() && deterministic
}

/// True if each column name of the predicate occurs at most once in `schema`.
fn are_unambiguous(predicate: &Predicate, schema: &Schema) -> bool {
    let count = |name: &str| schema.fields().iter().filter(|field| field.name() == name).count();
    collect_columns(predicate).iter().all(|column| count(column.name()) <= 1)
}

/// The columns of a node in terms of one of its children.
enum Lineage<'a> {
    /// For each column, its expression over the child's rows; `None` for a column from another
    /// source.
    Known(Vec<Option<Predicate>>),
    /// The node is of an unknown kind: columns can only be matched by name.
    Unknown { node: &'a Plan, child: usize },
}

impl<'a> Lineage<'a> {
    fn of(node: &'a Plan, child: usize) -> Result<Self> {
        let known = if is_row_preserving(node) {
            let schema = node.children()[child].schema();
            (0..schema.fields().len()).map(|index| Some(column(&schema, index))).collect()
        } else if let Some(filter) = node.downcast_ref::<FilterExec>() {
            let schema = filter.input().schema();
            let projection = filter.projection().as_deref();
            let all = || (0..schema.fields().len()).collect();
            let columns = projection.map_or_else(all, <[usize]>::to_vec);
            columns.into_iter().map(|index| Some(column(&schema, index))).collect()
        } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let expressions = projection.expr().iter();
            expressions.map(|projected| Some(Arc::clone(&projected.expr))).collect()
        } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            let groups = aggregate.group_expr().expr().iter();
            groups.map(|(group, _)| group.is::<Column>().then(|| Arc::clone(group))).collect()
        } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            of_join(join, child)
        } else {
            return Ok(Self::Unknown { node, child });
        };
        Ok(Self::Known(known))
    }

    /// Converts a filter over the rows of the node to one over the rows of the child. `passed` is
    /// the same filter as renumbered by the node, by name.
    fn renumbered(
        &self,
        filter: &Predicate,
        passed: &PushedDownPredicate,
    ) -> Result<Option<Predicate>> {
        let known = match self {
            Self::Known(known) => known,
            Self::Unknown { node, child } => {
                let unambiguous = are_unambiguous(filter, &node.schema())
                    && are_unambiguous(filter, &node.children()[*child].schema());
                return Ok(unambiguous.then(|| Arc::clone(&passed.predicate)));
            }
        };
        let mut complete = true;
        let renumbered = Arc::clone(filter).transform_down(|part| {
            let Some(column) = part.downcast_ref::<Column>() else {
                return Ok(Transformed::no(part));
            };
            match known.get(column.index()).and_then(Option::as_ref) {
                // The replacement already has the child's columns.
                Some(source) => {
                    Ok(Transformed::new(Arc::clone(source), true, TreeNodeRecursion::Jump))
                }
                None => {
                    complete = false;
                    Ok(Transformed::new(part, false, TreeNodeRecursion::Stop))
                }
            }
        })?;
        Ok(complete.then_some(renumbered.data))
    }
}

/// True if the rows of a node are rows of its children, column by column.
fn is_row_preserving(node: &Plan) -> bool {
    node.is::<RepartitionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<SortExec>()
        || node.is::<CooperativeExec>()
        || node.is::<BufferExec>()
        || node.is::<UnionExec>()
}

fn column(schema: &Schema, index: usize) -> Predicate {
    Arc::new(Column::new(schema.field(index).name(), index))
}

/// For each output column of a hash join, the column of its left child (0) or right child (1) with
/// the same value; `None` if that child has none.
fn of_join(join: &HashJoinExec, child: usize) -> Vec<Option<Predicate>> {
    let (left, right) = (join.left().schema(), join.right().schema());
    let (_, columns) = build_join_schema(&left, &right, join.join_type());
    let (side, schema) = match child {
        0 => (JoinSide::Left, left),
        _ => (JoinSide::Right, right),
    };
    let source = |output: usize| {
        let origin = columns.get(output)?;
        if origin.side == side {
            return Some(column(&schema, origin.index));
        }
        // Each row that passes a semi join has an equal key on the other side.
        match (join.join_type(), side) {
            (JoinType::LeftSemi, JoinSide::Right) | (JoinType::RightSemi, JoinSide::Left) => {
                other_key(join, origin.side, origin.index)
            }
            _ => None,
        }
    };
    match join.projection.as_deref() {
        Some(projection) => projection.iter().map(|&output| source(output)).collect(),
        None => (0..columns.len()).map(source).collect(),
    }
}

/// The column that a join compares with column `index` of `side`.
fn other_key(join: &HashJoinExec, side: JoinSide, index: usize) -> Option<Predicate> {
    join.on().iter().find_map(|(left, right)| {
        let (key, other) = if side == JoinSide::Left { (left, right) } else { (right, left) };
        let is_key = key.downcast_ref::<Column>().is_some_and(|key| key.index() == index);
        (is_key && other.is::<Column>()).then(|| Arc::clone(other))
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
    use datafusion::physical_plan::Partitioning;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    /// A repartitioning of rows with two columns `d`, and a filter by the second one.
    fn exchange() -> (Plan, Predicate) {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let schema = Arc::new(Schema::new(vec![field("d"), field("k"), field("d")]));
        let input = Arc::new(EmptyExec::new(schema));
        let exchange = RepartitionExec::try_new(input, Partitioning::RoundRobinBatch(2));
        (Arc::new(exchange.expect("an exchange")), Arc::new(Column::new("d", 2)))
    }

    fn index(predicate: &Predicate) -> usize {
        predicate.downcast_ref::<Column>().expect("a column").index()
    }

    #[test]
    fn datafusion_still_renumbers_by_name() {
        let (exchange, filter) = exchange();
        let (phase, options) = (FilterPushdownPhase::Post, ConfigOptions::default());
        let described = exchange.gather_filters_for_pushdown(phase, vec![filter], &options);
        let passed = described.expect("described").parent_filters();
        assert_eq!(
            index(&passed[0][0].predicate),
            0,
            "DataFusion keeps the index of a column of an ambiguous name now: look whether \
             `FilterPushdown` is still needed"
        );
    }

    #[test]
    fn columns_keep_their_index() {
        let (exchange, filter) = exchange();
        let lineage = Lineage::of(&exchange, 0).expect("lineage");
        let passed = PushedDownPredicate::supported(Arc::clone(&filter));
        let renumbered = lineage.renumbered(&filter, &passed).expect("renumbers").expect("passes");
        assert_eq!(index(&renumbered), 2);
    }

    #[test]
    fn both_phases_of_the_rule_are_replaced() {
        let rules = PhysicalOptimizer::default().rules;
        let replaced = rules.iter().filter_map(|rule| FilterPushdown::replacing(rule.name()));
        assert_eq!(replaced.count(), 2);
    }
}

//! The physical optimizer rule that puts paged operators into a plan.
//!
//! It is appended after DataFusion's own rules, so it sees the plan that would run. It replaces
//! operators one for one: schema, partitioning, distribution and ordering stay what they were, and
//! a replaced node's properties are reused. Only a join over a sort becomes a sort over a join.
//! Each kind of operator has one function here, which returns its replacement or the node
//! unchanged. Decimal arithmetic is narrowed to 64 bits where they suffice.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::aggregate::PagedAggregateExec;
use crate::decimal::narrow_node;
use crate::hash_join::PagedHashJoinExec;
use crate::loop_join::PagedLoopJoinExec;
use crate::merge::PagedMergeExec;
use crate::options::PagedOptions;
use crate::recursion::PagedRecursionExec;
use crate::repartition::PagedRepartitionExec;
use crate::sort::PagedSortExec;
use crate::window::PagedWindowExec;

/// Replaces DataFusion's operators by paged ones, as enabled in the session's [`PagedOptions`]; all
/// of them in a session without such settings.
#[derive(Debug, Default)]
pub struct PagedOperators;

/// Requirements on a node from its position in the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requirements {
    /// True if the order of the node's output is relied on: by an operator above that requires it,
    /// or by the reader of the result.
    pub(crate) order_matters: bool,
}

type Node = Arc<dyn ExecutionPlan>;
type Replace = fn(Node, Requirements) -> Result<Node>;

/// Returns one function per kind of operator that `options` enable; they are tried in turn.
fn replacements(options: &PagedOptions) -> Vec<Replace> {
    let kinds: [(bool, &[Replace]); 7] = [
        (options.paged_sort, &[sort, sort_preserving_merge]),
        (options.paged_aggregate, &[aggregate]),
        (options.paged_hash_join, &[hash_join]),
        (options.paged_loop_join, &[loop_join]),
        (options.paged_window, &[window]),
        (options.paged_repartition, &[repartition]),
        (options.paged_recursion, &[recursion]),
    ];
    kinds.into_iter().filter(|(on, _)| *on).flat_map(|(_, kinds)| kinds).copied().collect()
}

impl PhysicalOptimizerRule for PagedOperators {
    fn optimize(&self, plan: Node, config: &ConfigOptions) -> Result<Node> {
        let options = config.extensions.get::<PagedOptions>().cloned();
        let replacements = replacements(&options.unwrap_or_else(PagedOptions::default));
        rewrite(plan, Requirements { order_matters: true }, &replacements)
    }

    fn name(&self) -> &str {
        "PagedOperators"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn rewrite(node: Node, place: Requirements, replacements: &[Replace]) -> Result<Node> {
    let required = node.required_input_ordering();
    let maintained = node.maintains_input_order();
    // A sort ends early, or sorts less, where its input is in order by a part of its keys.
    let sorts = node.is::<SortExec>() || node.is::<PartialSortExec>();
    let mut children = Vec::new();
    for (index, child) in node.children().into_iter().enumerate() {
        let required = sorts || required.get(index).is_some_and(Option::is_some);
        let maintained = maintained.get(index).is_none_or(|maintained| *maintained);
        let order_matters = required || (place.order_matters && maintained);
        children.push(rewrite(Arc::clone(child), Requirements { order_matters }, replacements)?);
    }
    let node = narrow_node(replace_children_if_necessary(node, children)?)?;
    replacements.iter().try_fold(node, |node, replace| replace(node, place))
}

/// Replaces a sort, unless its input is in order already.
fn sort(node: Node, _place: Requirements) -> Result<Node> {
    let any: Arc<dyn Any + Send + Sync> = Arc::clone(&node) as _;
    let Ok(sort) = any.downcast::<SortExec>() else { return Ok(node) };
    let input = sort.input();
    let in_order = input.equivalence_properties().ordering_satisfy(sort.expr().clone())?;
    if in_order || input.boundedness().is_unbounded() || !PagedSortExec::can_do(&sort)? {
        return Ok(node);
    }
    Ok(Arc::new(PagedSortExec::new(sort)))
}

fn sort_preserving_merge(node: Node, _place: Requirements) -> Result<Node> {
    let any: Arc<dyn Any + Send + Sync> = Arc::clone(&node) as _;
    let merge = any.downcast::<SortPreservingMergeExec>();
    Ok(merge.map_or(node, |merge| Arc::new(PagedMergeExec::new(merge))))
}

fn aggregate(node: Node, place: Requirements) -> Result<Node> {
    let Some(stock) = node.downcast_ref::<AggregateExec>() else { return Ok(node) };
    let stock = Arc::new(stock.clone());
    let paged = match place.order_matters {
        true => PagedAggregateExec::replace(&stock),
        false => PagedAggregateExec::in_any_order(&stock),
    };
    Ok(match paged {
        Some(paged) => Arc::new(paged),
        None => node,
    })
}

/// Replaces a hash join. The paged join does not keep the order of its probe side when it spills.
/// If that order is relied on and a sort of the probe side produces it, the rows are sorted after
/// the join instead: a join of DataFusion holds its build side on the heap, and its dynamic filter
/// treats the two zeros as two values. If the order has another source, or the join ends after its
/// first rows, it is not replaced.
fn hash_join(node: Node, place: Requirements) -> Result<Node> {
    let order = node.output_ordering().filter(|_| place.order_matters).cloned();
    let any: Arc<dyn Any + Send + Sync> = Arc::clone(&node) as _;
    let Ok(join) = any.downcast::<HashJoinExec>() else { return Ok(node) };
    let Some(order) = order else {
        return Ok(PagedHashJoinExec::new(join).map_or(node, |paged| Arc::new(paged)));
    };
    let children = vec![Arc::clone(join.left()), unsorted(join.right())];
    let unordered = replace_children_if_necessary(Arc::clone(&node), children)?;
    if unordered.output_ordering().is_some() || unordered.fetch().is_some() {
        return Ok(node);
    }
    let any: Arc<dyn Any + Send + Sync> = unordered;
    let paged = Arc::downcast::<HashJoinExec>(any).ok().and_then(PagedHashJoinExec::new);
    let Some(paged) = paged else { return Ok(node) };
    let sort = SortExec::new(order, Arc::new(paged)).with_preserve_partitioning(true);
    // The operators above may rely on another of several orders.
    let orders = node.equivalence_properties().oeq_class().iter();
    let after = sort.properties().equivalence_properties();
    let is_same =
        orders.map(|order| after.ordering_satisfy(order.clone())).collect::<Result<Vec<_>>>()?;
    match is_same.contains(&false) || !PagedSortExec::can_do(&sort)? {
        true => Ok(node),
        false => Ok(Arc::new(PagedSortExec::new(Arc::new(sort)))),
    }
}

/// Returns the input of a sort without a limit; any other node unchanged.
fn unsorted(node: &Node) -> Node {
    let sorts = node.is::<SortExec>() || node.is::<PagedSortExec>();
    match node.children().as_slice() {
        [input] if sorts && node.fetch().is_none() => Arc::clone(input),
        _ => Arc::clone(node),
    }
}

fn loop_join(node: Node, _place: Requirements) -> Result<Node> {
    let endless = |child: &&Node| child.boundedness().is_unbounded();
    if node.children().iter().any(endless) {
        return Ok(node);
    }
    let paged = PagedLoopJoinExec::new(Arc::clone(&node));
    Ok(paged.map_or(node, |paged| Arc::new(paged)))
}

fn window(node: Node, _place: Requirements) -> Result<Node> {
    let any: Arc<dyn Any + Send + Sync> = Arc::clone(&node) as _;
    let Ok(window) = any.downcast::<WindowAggExec>() else { return Ok(node) };
    let unbounded = window.input().boundedness().is_unbounded();
    Ok(if unbounded { node } else { Arc::new(PagedWindowExec::new(window)) })
}

fn repartition(node: Node, _place: Requirements) -> Result<Node> {
    let any: Arc<dyn Any + Send + Sync> = Arc::clone(&node) as _;
    let paged = any.downcast::<RepartitionExec>().ok().and_then(PagedRepartitionExec::new);
    Ok(paged.map_or(node, |paged| Arc::new(paged)))
}

fn recursion(node: Node, _place: Requirements) -> Result<Node> {
    let Some(stock) = node.downcast_ref::<RecursiveQueryExec>() else { return Ok(node) };
    let paged = PagedRecursionExec::new(stock)?;
    Ok(paged.map_or(node, |paged| Arc::new(paged)))
}

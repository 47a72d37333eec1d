//! Plans that occur several times in a statement and are evaluated once: outer rows, which are also
//! read for the domains of their subqueries, and WITH queries with several references.
//!
//! Two evaluations of a LIMIT, of `last_value` or of a volatile function may return other rows. A
//! [`OnceNode`] stands above each copy of such rows. The planner makes it a node whose rows
//! the copies share. No rule may change one copy alone: filters, limits and unused columns stay
//! above it.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use terrace_exec::once::{OnceExec, OnceRows};
use terrace_sys::sync::lock;

use super::super::side_effects::Evaluation;
use super::super::{inexact_casts, short_circuit};

/// The name of the node.
const NAME: &str = "Once";

/// Number of the last plan that is evaluated once; it is unique in the process.
static PLANS: AtomicU64 = AtomicU64::new(0);

/// A plan whose copies, with the same number, share the rows of one evaluation.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OnceNode {
    number: u64,
    /// True in the plan of a view, each use of which has its own rows.
    is_template: bool,
    input: LogicalPlan,
}

/// Returns a plan whose copies return the same rows.
pub(in super::super) fn once(input: LogicalPlan) -> LogicalPlan {
    let node = OnceNode { number: next(), is_template: false, input };
    LogicalPlan::Extension(Extension { node: Arc::new(node) })
}

fn next() -> u64 {
    PLANS.fetch_add(1, Atomic::Relaxed)
}

/// Returns the plan of a view, of which each use is to be an [`instance`].
///
/// # Errors
/// If the plan cannot be rebuilt.
pub(crate) fn template(plan: LogicalPlan) -> Result<LogicalPlan> {
    renumbered(plan, |node| (!node.is_template).then_some((node.number, true)))
}

/// Returns a plan in which the parts of a [`template`] share rows with no other use of it.
///
/// # Errors
/// If the plan cannot be rebuilt.
pub(in super::super) fn instance(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut numbers = HashMap::new();
    renumbered(plan, |node| {
        let is_template = node.is_template;
        is_template.then(|| (*numbers.entry(node.number).or_insert_with(next), false))
    })
}

/// Gives the nodes of a plan the numbers, and the marks of a template, that `change` returns.
fn renumbered(
    plan: LogicalPlan,
    mut change: impl FnMut(&OnceNode) -> Option<(u64, bool)>,
) -> Result<LogicalPlan> {
    let mut is_found = false;
    plan.apply_with_subqueries(|node| {
        is_found |= is_once(node);
        Ok(if is_found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !is_found {
        return Ok(plan);
    }
    let changed = plan.transform_up_with_subqueries(|plan| {
        let LogicalPlan::Extension(Extension { node }) = &plan else {
            return Ok(Transformed::no(plan));
        };
        let Some(node) = node.as_any().downcast_ref::<OnceNode>() else {
            return Ok(Transformed::no(plan));
        };
        let Some((number, is_template)) = change(node) else { return Ok(Transformed::no(plan)) };
        let node = Arc::new(OnceNode { number, is_template, input: node.input.clone() });
        Ok(Transformed::yes(LogicalPlan::Extension(Extension { node })))
    });
    Ok(changed?.data)
}

/// True if copies of a plan return the same rows because they are evaluated once.
pub(in super::super) fn is_once(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Extension(Extension { node }) if node.name() == NAME)
}

impl PartialOrd for OnceNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for OnceNode {
    fn name(&self) -> &str {
        NAME
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => {
                let (number, is_template) = (self.number, self.is_template);
                Ok(Self { number, is_template, input })
            }
            _ => internal_err!("{NAME} has one input"),
        }
    }

    /// All columns, so that all copies have them.
    fn necessary_children_exprs(&self, _: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.input.schema().fields().len()).collect()])
    }
}

/// The planner of queries: DataFusion's, which also knows plans that are evaluated once, and those
/// with side effects. Conditions guard others from here on, and casts of which DataFusion would
/// derive wrong intervals are hidden.
#[derive(Debug)]
pub(in super::super) struct OncePlanner;

#[async_trait]
impl QueryPlanner for OncePlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![
            Arc::new(Copies::new()),
            Arc::new(Evaluation),
        ]);
        let guarded = short_circuit::with_guards(plan)?;
        let plan = guarded.as_ref().unwrap_or(plan);
        let hidden = inexact_casts::hidden(plan)?;
        planner.create_physical_plan(hidden.as_ref().unwrap_or(plan), session).await
    }
}

/// The rows that the copies of each plan of one query share, by the plan's number.
struct Copies(Mutex<HashMap<u64, Arc<OnceRows>>>);

impl Copies {
    fn new() -> Self {
        Self(Mutex::default())
    }
}

#[async_trait]
impl ExtensionPlanner for Copies {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<OnceNode>() else { return Ok(None) };
        let [input] = inputs else { return internal_err!("{NAME} has one input") };
        let rows = Arc::clone(lock(&self.0).entry(node.number).or_default());
        Ok(Some(Arc::new(OnceExec::new(Arc::clone(input), rows))))
    }
}

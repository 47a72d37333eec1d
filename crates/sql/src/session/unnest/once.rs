//! Outer rows that are evaluated once, for themselves and for the domains of their subqueries.
//!
//! Two evaluations of a LIMIT, of `last_value` or of a volatile function may return other rows. A
//! [`OnceNode`] stands above each copy of such outer rows. The planner makes it a node whose rows
//! the copies share. No rule may change one copy alone: filters, limits and unused columns stay
//! above it.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::catalog::Session;
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

/// The name of the node.
const NAME: &str = "Once";

/// Number of plans so far that are evaluated once.
static PLANS: AtomicU64 = AtomicU64::new(0);

/// A plan whose copies, with the same number, share the rows of one evaluation.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OnceNode {
    number: u64,
    input: LogicalPlan,
}

/// Returns a plan whose copies return the same rows.
pub(super) fn once(input: LogicalPlan) -> LogicalPlan {
    let number = PLANS.fetch_add(1, Atomic::Relaxed);
    LogicalPlan::Extension(Extension { node: Arc::new(OnceNode { number, input }) })
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
            (Some(input), true) => Ok(Self { number: self.number, input }),
            _ => internal_err!("{NAME} has one input"),
        }
    }

    /// All columns, so that all copies have them.
    fn necessary_children_exprs(&self, _: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.input.schema().fields().len()).collect()])
    }
}

/// The planner of queries: DataFusion's, which also knows plans that are evaluated once.
#[derive(Debug)]
pub(in super::super) struct OncePlanner;

#[async_trait]
impl QueryPlanner for OncePlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner =
            DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Copies::new())]);
        planner.create_physical_plan(plan, session).await
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

//! Calls of functions with side effects in the select lists of subqueries.
//!
//! A subquery computes its whole select list, also the columns that nothing reads: `nextval('s')`
//! takes a number for each row. DataFusion drops such a column, and moves one that is read to the
//! expression that reads it. An analyzer rule puts an [`EvaluatedNode`] above the projection, which
//! reads all of its columns. The list of EXISTS is not computed, as in PostgreSQL; that of the
//! statement itself is read anyway. Conditions on other columns, and limits, are pushed below, so
//! that no row takes a number that the subquery does not return. Rows that OFFSET skips take
//! theirs.
//!
//! Rows take their numbers in the order of ORDER BY, and after its LIMIT: the rule moves the calls
//! above the sort, unless that is by their results.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Statistics;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, Projection, Sort, Subquery, UserDefinedLogicalNode,
    UserDefinedLogicalNodeCore,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

/// The functions with side effects.
const FUNCTIONS: [&str; 2] = ["nextval", "setval"];

/// The name of the node.
const NAME: &str = "Evaluated";

/// The analyzer rule.
#[derive(Debug)]
pub(super) struct SideEffects;

impl AnalyzerRule for SideEffects {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found |= matches!(node, LogicalPlan::Projection(projection) if has_effects(projection));
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if found { result(plan) } else { Ok(plan) }
    }

    fn name(&self) -> &str {
        "side_effects"
    }
}

fn has_effects(projection: &Projection) -> bool {
    projection.expr.iter().any(calls)
}

/// True if an expression calls one of the functions itself, and not in a subquery.
fn calls(expr: &Expr) -> bool {
    // The visit does not fail.
    let call = |part: &Expr| Ok(matches!(part, Expr::ScalarFunction(call) if is_one(call.name())));
    expr.exists(call).unwrap_or(true)
}

/// True for the name of one of the functions.
pub(super) fn is_one(name: &str) -> bool {
    FUNCTIONS.contains(&name)
}

/// Rewrites a plan all of whose columns are read.
fn result(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mapped = match above_sort(plan)? {
        LogicalPlan::Limit(limit) if limit.skip.is_some() => {
            LogicalPlan::Limit(limit).map_children(part_of)?
        }
        LogicalPlan::Projection(projection) if has_effects(&projection) => {
            LogicalPlan::Projection(projection).map_children(part_of)?
        }
        plan @ (LogicalPlan::Dml(_)
        | LogicalPlan::Copy(_)
        | LogicalPlan::Ddl(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)) => {
            plan.map_children(|input| result(input).map(Transformed::yes))?
        }
        plan => return part(plan),
    };
    Ok(mapped.data.map_expressions(in_subqueries)?.data)
}

fn part_of(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    part(plan).map(Transformed::yes)
}

/// Rewrites a plan of which some columns may not be read.
fn part(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = above_sort(plan)?.map_children(part_of)?.data;
    let plan = plan.map_expressions(in_subqueries)?.data;
    match &plan {
        LogicalPlan::Projection(projection)
            if has_effects(projection) && plan.all_out_ref_exprs().is_empty() =>
        {
            let node = Arc::new(EvaluatedNode { input: plan, is_whole: false });
            Ok(LogicalPlan::Extension(Extension { node }))
        }
        _ => Ok(plan),
    }
}

/// Moves the columns of a sorted projection that call the functions above the sort, if neither its
/// keys nor subqueries in these columns stand in the way; leaves any other plan unchanged.
fn above_sort(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Sort(sort) = &plan else { return Ok(plan) };
    let LogicalPlan::Projection(projection) = sort.input.as_ref() else { return Ok(plan) };
    if !has_effects(projection) {
        return Ok(plan);
    }
    let late = |place: usize| calls(&projection.expr[place]);
    let places = |key: &Expr| {
        let columns = key.column_refs().into_iter();
        let places = columns.map(|column| projection.schema.index_of_column(column));
        places.collect::<Result<Vec<_>>>()
    };
    for key in &sort.expr {
        if calls(&key.expr) || places(&key.expr)?.into_iter().any(late) {
            return Ok(plan);
        }
    }
    let (moved, mut early): (Vec<Expr>, Vec<Expr>) =
        projection.expr.iter().cloned().partition(calls);
    for expr in &moved {
        if expr.exists(|part| Ok(matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_))))? {
            return Ok(plan);
        }
        for column in expr.column_refs() {
            let column = Expr::Column(column.clone());
            if !early.contains(&column) {
                early.push(column);
            }
        }
    }
    // Fails if a column that the calls read has the name of another one of the projection.
    let Ok(below) = Projection::try_new(early, Arc::clone(&projection.input)) else {
        return Ok(plan);
    };
    let columns = projection.expr.iter().enumerate().map(|(place, expr)| match late(place) {
        true => expr.clone(),
        false => Expr::Column(Column::from(projection.schema.qualified_field(place))),
    });
    let columns = columns.collect();
    let input = Arc::new(LogicalPlan::Projection(below));
    let sorted = LogicalPlan::Sort(Sort { expr: sort.expr.clone(), input, fetch: sort.fetch });
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(sorted))?))
}

/// An expression whose subqueries compute their select lists.
fn in_subqueries(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_down(|expr| match expr {
        Expr::ScalarSubquery(subquery) => {
            Ok(Transformed::yes(Expr::ScalarSubquery(computed(subquery)?)))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let subquery = computed(subquery)?;
            Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
        }
        Expr::Exists(Exists { subquery, negated }) => {
            let subquery = computed(subquery)?;
            Ok(Transformed::yes(Expr::Exists(Exists { subquery, negated })))
        }
        expr => Ok(Transformed::no(expr)),
    })
}

fn computed(subquery: Subquery) -> Result<Subquery> {
    let plan = result(Arc::unwrap_or_clone(subquery.subquery))?;
    Ok(Subquery { subquery: Arc::new(plan), ..subquery })
}

/// Puts an [`EvaluatedNode`] above a plan: conditions on its columns stay above the node, and
/// limits are pushed below it.
pub(super) fn evaluated(input: LogicalPlan) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(EvaluatedNode { input, is_whole: true }) })
}

/// Logical node that reads all columns of its input, so that none is dropped.
#[derive(Debug, PartialEq, Eq, Hash)]
struct EvaluatedNode {
    input: LogicalPlan,
    /// True if conditions on all columns stay above it.
    is_whole: bool,
}

impl PartialOrd for EvaluatedNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for EvaluatedNode {
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

    /// The columns that call the functions, or all of them. Later rules may have moved the
    /// projection.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let names = self.input.schema().fields().iter().map(|field| field.name());
        match &self.input {
            LogicalPlan::Projection(projection) if !self.is_whole => {
                let columns = names.zip(&projection.expr);
                columns.filter(|(_, expr)| calls(expr)).map(|(name, _)| name.clone()).collect()
            }
            _ => names.cloned().collect(),
        }
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Ok(Self { input, is_whole: self.is_whole }),
            _ => internal_err!("{NAME} has one input"),
        }
    }

    fn necessary_children_exprs(&self, _: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.input.schema().fields().len()).collect()])
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }
}

/// The planner of the node.
pub(super) struct Evaluation;

#[async_trait]
impl ExtensionPlanner for Evaluation {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if node.as_any().downcast_ref::<EvaluatedNode>().is_none() {
            return Ok(None);
        }
        let [input] = inputs else { return internal_err!("{NAME} has one input") };
        Ok(Some(Arc::new(EvaluatedExec { input: Arc::clone(input) })))
    }
}

/// Passes batches through, and keeps projections from being merged.
#[derive(Debug)]
pub(super) struct EvaluatedExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for EvaluatedExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str("EvaluatedExec"),
        }
    }
}

impl ExecutionPlan for EvaluatedExec {
    fn name(&self) -> &'static str {
        "EvaluatedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self { input })),
            _ => internal_err!("EvaluatedExec has one input"),
        }
    }

    /// Limits have been pushed below where the plan is logical, without the rows that they skip.
    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("EvaluatedExec has one input"),
        }
    }
}

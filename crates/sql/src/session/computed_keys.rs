//! An optimizer rule that computes the keys of sorts, windows and ordered aggregates below them.
//!
//! DataFusion derives the order of an expression from the value ranges of its operands. A function
//! whose range it does not know, as in `abs(floor(x))`, has no order for it, even above a sort by
//! that very key: the plan is refused. A column always has the order by which it is sorted, so the
//! key becomes a column:
//! ```text
//! Window: sum(v) PARTITION BY abs(floor(k))
//!   ->  Window: sum(v) PARTITION BY "sort key 0"
//!         Projection: k, v, abs(floor(k)) AS "sort key 0"
//! ```

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Aggregate, Projection, Sort, Window};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use terrace_exec::arithmetic::CheckedArithmetic;

/// Functions whose order DataFusion derives only for arguments that are known to be in the domain.
const OF_DOMAIN: [&str; 4] = ["acos", "acosh", "asin", "atanh"];

/// Optimizer rule that replaces the keys of sorts, windows and ordered aggregates by columns.
#[derive(Debug, Default)]
pub(super) struct ComputedKeys;

impl OptimizerRule for ComputedKeys {
    fn name(&self) -> &str {
        "computed_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Window(window) => of_window(window),
            LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate),
            LogicalPlan::Sort(sort) => of_sort(sort),
            plan => Ok(Transformed::no(plan)),
        }
    }
}

/// Computes the keys of a window below it; a projection above drops them again.
fn of_window(window: Window) -> Result<Transformed<LogicalPlan>> {
    if !have_computed(&window.window_expr)? {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let mut keys = Keys::over(window.input.schema());
    let names = NamePreserver::new_for_projection();
    let mut exprs = Vec::with_capacity(window.window_expr.len());
    for expr in &window.window_expr {
        let name = names.save(expr);
        let found = expr.clone().transform_up(|expr| {
            let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
            let partition_by = call.params.partition_by.iter_mut();
            let order_by = call.params.order_by.iter_mut().map(|key| &mut key.expr);
            partition_by.chain(order_by).for_each(|key| keys.replace(key));
            Ok(Transformed::yes(Expr::WindowFunction(call)))
        })?;
        exprs.push(name.restore(found.data));
    }
    let columns = window.schema.columns().into_iter().map(Expr::Column).collect();
    let input = keys.below(&window.input)?;
    let computed = LogicalPlan::Window(Window::try_new(exprs, Arc::new(input))?);
    let plan = Projection::try_new_with_schema(columns, Arc::new(computed), window.schema)?;
    Ok(Transformed::yes(LogicalPlan::Projection(plan)))
}

/// Computes the ORDER BY keys of aggregate functions below their node.
fn of_aggregate(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    if !have_computed(&aggregate.aggr_expr)? {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let mut keys = Keys::over(aggregate.input.schema());
    let names = NamePreserver::new_for_projection();
    let mut exprs = Vec::with_capacity(aggregate.aggr_expr.len());
    for expr in &aggregate.aggr_expr {
        let name = names.save(expr);
        let found = expr.clone().transform_up(|expr| {
            let Expr::AggregateFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
            // The keys of distinct values, and those of WITHIN GROUP, are values themselves.
            if !call.params.distinct && !call.func.supports_within_group_clause() {
                call.params.order_by.iter_mut().for_each(|key| keys.replace(&mut key.expr));
            }
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        })?;
        exprs.push(name.restore(found.data));
    }
    if keys.computed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let input = Arc::new(keys.below(&aggregate.input)?);
    let (groups, schema) = (aggregate.group_expr, aggregate.schema);
    let plan = Aggregate::try_new_with_schema(input, groups, exprs, schema)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(plan)))
}

/// Computes the keys of a sort below it; a projection above drops them again.
fn of_sort(mut sort: Sort) -> Result<Transformed<LogicalPlan>> {
    let input = Arc::clone(&sort.input);
    let mut keys = Keys::over(input.schema());
    sort.expr.iter_mut().for_each(|key| keys.replace(&mut key.expr));
    if keys.computed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    sort.input = Arc::new(keys.below(&input)?);
    let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
    let schema = Arc::clone(input.schema());
    let sorted = Arc::new(LogicalPlan::Sort(sort));
    let plan = Projection::try_new_with_schema(columns, sorted, schema)?;
    Ok(Transformed::yes(LogicalPlan::Projection(plan)))
}

/// The keys that are computed below a node.
struct Keys<'a> {
    /// Schema of the node's input.
    schema: &'a DFSchema,
    /// Each key and the name of its column.
    computed: Vec<(Expr, String)>,
}

impl<'a> Keys<'a> {
    fn over(schema: &'a DFSchema) -> Self {
        Self { schema, computed: Vec::new() }
    }

    /// Replaces a key by a column that is computed below, unless DataFusion finds its order.
    fn replace(&mut self, key: &mut Expr) {
        if !is_computed(key) {
            return;
        }
        let known = self.computed.iter().find(|(expr, _)| expr == key).map(|(_, name)| name);
        let name = known.cloned().unwrap_or_else(|| {
            let numbers = self.computed.len()..;
            let mut names = numbers.map(|number| format!("sort key {number}"));
            let is_free = |name: &String| {
                !self.schema.has_column_with_unqualified_name(name)
                    && self.computed.iter().all(|(_, other)| other != name)
            };
            let name = names.find(is_free).unwrap_or_default();
            self.computed.push((key.clone(), name.clone()));
            name
        });
        *key = Expr::Column(Column::new_unqualified(name));
    }

    /// A projection of all columns of `input` and of the keys.
    fn below(self, input: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let keys = self.computed.into_iter().map(|(key, name)| key.alias(name));
        let exprs = columns.chain(keys).collect();
        Projection::try_new(exprs, Arc::clone(input)).map(LogicalPlan::Projection)
    }
}

/// True for a key that is to be computed below.
fn is_computed(key: &Expr) -> bool {
    !is_simple(key) && !has_subquery(key)
}

/// True if an expression has a window or aggregate function with a key that is to be computed
/// below.
fn has_computed(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| {
        Ok(match expr {
            Expr::WindowFunction(call) => {
                let order_by = call.params.order_by.iter().map(|key| &key.expr);
                call.params.partition_by.iter().chain(order_by).any(is_computed)
            }
            Expr::AggregateFunction(call) => {
                call.params.order_by.iter().any(|key| is_computed(&key.expr))
            }
            _ => false,
        })
    })
}

/// True if [`has_computed`] holds for one of the expressions. Most nodes have none, and are then
/// not copied.
fn have_computed(exprs: &[Expr]) -> Result<bool> {
    for expr in exprs {
        if has_computed(expr)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True for a key whose order DataFusion finds.
fn is_simple(key: &Expr) -> bool {
    match key {
        Expr::Alias(alias) => is_simple(&alias.expr),
        Expr::Cast(cast) => is_simple(&cast.expr),
        Expr::BinaryExpr(binary) => has_range(&binary.left) && has_range(&binary.right),
        Expr::ScalarFunction(call) => {
            !OF_DOMAIN.contains(&call.name()) && call.args.iter().all(has_range)
        }
        key => has_range(key),
    }
}

/// True for expressions whose value range DataFusion finds: columns, casts of columns, literals,
/// and checked arithmetic over them.
fn has_range(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Cast(cast) => matches!(cast.expr.as_ref(), Expr::Column(_)),
        Expr::ScalarFunction(call) => {
            call.func.inner().downcast_ref::<CheckedArithmetic>().is_some()
                && call.args.iter().all(has_range)
        }
        _ => false,
    }
}

fn has_subquery(key: &Expr) -> bool {
    let mut found = false;
    let _ = key.apply(|expr| {
        found |= matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        );
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

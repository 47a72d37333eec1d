//! The table functions `generate_series` and `range`, with integers of every type, timestamps,
//! decimals, and parameters of prepared statements.
//!
//! DataFusion asks a table function for its table during planning, before the values of parameters
//! are known. Such a call returns a placeholder without rows, which [`with_values`] replaces.

mod generated;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl};
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::{TableProvider, TableType, provider_as_source, source_as_provider};
use datafusion::execution::SessionState;
use datafusion::functions_table::all_default_table_functions;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_plan::ExecutionPlan;
use terrace_functions::session_zone;

/// The function whose second argument is a value of the series.
const INCLUSIVE: &str = "generate_series";

/// Returns the table functions that replace DataFusion's, by name.
pub(crate) fn functions() -> impl Iterator<Item = (String, Arc<dyn TableFunctionImpl>)> {
    all_default_table_functions().into_iter().map(|function| {
        let (name, integers) = (function.name().to_owned(), Arc::clone(function.function()));
        (name.clone(), Arc::new(Series { name, integers }) as _)
    })
}

/// A table function that generates a series from its arguments.
#[derive(Clone, Debug)]
struct Series {
    name: String,
    /// DataFusion's function, which generates integers.
    integers: Arc<dyn TableFunctionImpl>,
}

impl Series {
    fn table(&self, exprs: &[Expr], session: &dyn Session) -> Result<Arc<dyn TableProvider>> {
        let options = session.config_options();
        let zone = options.execution.time_zone.as_deref().unwrap_or("UTC");
        if let Some(values) = generated::arguments(&self.name, exprs, zone)? {
            let (includes_stop, zone) = (self.name == INCLUSIVE, session_zone(options)?);
            return Ok(Arc::new(generated::table(&self.name, &values, includes_stop, zone)?));
        }
        let exprs: Vec<_> = exprs.iter().cloned().map(with_own_type).collect();
        self.integers.call_with_args(TableFunctionArgs::new(&exprs, session))
    }
}

impl TableFunctionImpl for Series {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let exprs = args.exprs();
        if !exprs.iter().any(has_parameter) {
            return self.table(exprs, args.session());
        }
        let defaults =
            exprs.iter().map(|expr| simplified(expr.clone(), |id| sample(&type_in(expr, id))));
        let defaults = defaults.collect::<Result<Vec<_>>>()?;
        let schema = self.table(&defaults, args.session())?.schema();
        Ok(Arc::new(OfParameters { series: self.clone(), exprs: exprs.to_vec(), schema }))
    }
}

/// Placeholder table of a series with parameters among its arguments.
#[derive(Debug)]
struct OfParameters {
    series: Series,
    exprs: Vec<Expr>,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for OfParameters {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan_err!(
            "a series of a parameter needs its value: prepare the statement, and run it with values"
        )
    }
}

/// Returns the types of the parameters of series in a plan, by parameter name: `$1`.
pub(crate) fn parameters(plan: &LogicalPlan) -> Result<BTreeMap<String, DataType>> {
    let mut types = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        if let Some(table) = of_parameters(node) {
            for expr in &table.exprs {
                expr.apply(|inner| {
                    if let Expr::Placeholder(Placeholder { id, .. }) = inner {
                        types.insert(id.clone(), type_in(expr, id));
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(types)
}

/// Replaces placeholder series in the plan by series of values; `value` maps a parameter's name to
/// its value.
pub(crate) fn with_values(
    plan: LogicalPlan,
    session: &SessionState,
    value: impl Fn(&str) -> Option<ScalarValue>,
) -> Result<LogicalPlan> {
    let value = |id: &str| match value(id) {
        Some(value) => Ok(value),
        None => plan_err!("the parameter {id} has no value"),
    };
    let replaced = plan.transform_down_with_subqueries(|mut node| {
        let Some(table) = of_parameters(&node) else { return Ok(Transformed::no(node)) };
        let exprs = table.exprs.iter().map(|expr| simplified(expr.clone(), value));
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        let is_null = |expr: &Expr| matches!(expr, Expr::Literal(value, _) if value.is_null());
        let source = provider_as_source(match exprs.iter().any(is_null) {
            true => Arc::new(EmptyTable::new(Arc::clone(&table.schema))),
            false => table.series.table(&exprs, session)?,
        });
        if let LogicalPlan::TableScan(scan) = &mut node {
            scan.source = source;
        }
        Ok(Transformed::yes(node))
    });
    Ok(replaced?.data)
}

/// Returns the table that a node scans, if it is a placeholder.
fn of_parameters(node: &LogicalPlan) -> Option<Arc<OfParameters>> {
    let LogicalPlan::TableScan(scan) = node else { return None };
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<OfParameters>()?;
    let OfParameters { series, exprs, schema } = table;
    let (series, exprs, schema) = (series.clone(), exprs.clone(), Arc::clone(schema));
    Some(Arc::new(OfParameters { series, exprs, schema }))
}

/// Returns a sample value of a type, to determine the columns of a series; not zero, since a step
/// of 0 is invalid.
fn sample(data_type: &DataType) -> Result<ScalarValue> {
    match data_type {
        DataType::Interval(_) => Ok(ScalarValue::new_interval_mdn(0, 1, 0)),
        data_type if data_type.is_numeric() => ScalarValue::new_one(data_type),
        data_type => ScalarValue::new_default(data_type),
    }
}

fn has_parameter(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::Placeholder(_)))).unwrap_or_default()
}

/// Returns the type of a parameter in an argument: the type that it is cast to, or BIGINT.
fn type_in(expr: &Expr, id: &str) -> DataType {
    let mut found = DataType::Int64;
    let walked = expr.apply(|expr| {
        if let Expr::Cast(Cast { expr, field }) = expr
            && matches!(expr.as_ref(), Expr::Placeholder(placeholder) if placeholder.id == id)
        {
            found = field.data_type().clone();
        }
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(walked.is_ok());
    found
}

/// Evaluates an argument to a literal, with values in place of parameters.
fn simplified(expr: Expr, value: impl Fn(&str) -> Result<ScalarValue>) -> Result<Expr> {
    let expr = expr.transform_up(|expr| match expr {
        Expr::Placeholder(Placeholder { id, .. }) => Ok(Transformed::yes(lit(value(&id)?))),
        expr => Ok(Transformed::no(expr)),
    });
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
    simplifier.simplify(simplifier.coerce(expr?.data, &DFSchema::empty())?)
}

/// Casts an integer of any type to BIGINT, the only type that DataFusion's functions accept.
fn with_own_type(expr: Expr) -> Expr {
    let Expr::Literal(value, _) = &expr else { return expr };
    if !value.data_type().is_integer() {
        return expr;
    }
    value.cast_to(&DataType::Int64).map_or(expr, lit)
}

//! The table functions `generate_series` and `range`, with integers of every type, timestamps,
//! decimals, and parameters of prepared statements.
//!
//! DataFusion asks a table function for its table during planning, before the values of parameters
//! are known. Such a call returns a placeholder without rows, which [`with_values`] replaces.

mod generated;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl};
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err, plan_err};
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::{TableProvider, TableType, provider_as_source, source_as_provider};
use datafusion::execution::SessionState;
use datafusion::functions_table::all_default_table_functions;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{
    Cast, Expr, ExprSchemable as _, LogicalPlan, LogicalPlanBuilder, cast, lit,
};
use datafusion::physical_plan::ExecutionPlan;
use terrace_functions::lists::series_types;
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
    fn table(
        &self,
        values: Vec<ScalarValue>,
        session: &SessionState,
    ) -> Result<Arc<dyn TableProvider>> {
        let given: Vec<_> = values.iter().map(ScalarValue::data_type).collect();
        let Some(types) = series_types(&self.name, &given)? else {
            let exprs: Vec<_> = values.into_iter().map(|value| lit(as_bigint(value))).collect();
            return self.integers.call_with_args(TableFunctionArgs::new(&exprs, session));
        };
        let casts = values.into_iter().zip(types).map(|(value, to)| cast(lit(value), to));
        let values = evaluated(casts, session)?;
        let zone = session_zone(session.config_options())?;
        let table = generated::table(&self.name, &values, self.name == INCLUSIVE, zone)?;
        Ok(Arc::new(table))
    }
}

impl TableFunctionImpl for Series {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let Some(session) = args.session().as_any().downcast_ref::<SessionState>() else {
            return internal_err!("the session of {} has no state", self.name);
        };
        let exprs: Vec<_> = args.exprs().iter().cloned().map(selected).collect();
        if !exprs.iter().any(has_parameter) {
            return self.table(evaluated(exprs, session)?, session);
        }
        let table = OfParameters { series: self.clone(), exprs, schema: Arc::new(Schema::empty()) };
        let types = table.parameters();
        let samples = table.exprs.iter().cloned().map(|expr| {
            with_parameters(expr, |id| sample(types.get(id).unwrap_or(&DataType::Int64)))
        });
        let samples = evaluated(samples.collect::<Result<Vec<_>>>()?, session)?;
        let schema = self.table(samples, session)?.schema();
        Ok(Arc::new(OfParameters { schema, ..table }))
    }
}

/// Returns the expression that `column_series` has made a subquery of, so that the planner does not
/// evaluate it.
fn selected(expr: Expr) -> Expr {
    if let Expr::ScalarSubquery(subquery) = &expr
        && let LogicalPlan::Projection(projection) = subquery.subquery.as_ref()
        && let LogicalPlan::EmptyRelation(_) = projection.input.as_ref()
        && let [value] = projection.expr.as_slice()
    {
        return value.clone().unalias();
    }
    expr
}

/// Evaluates arguments by the rules of the session, as in any other statement: DataFusion's planner
/// evaluates those of table functions by its own, in UTC.
///
/// # Errors
/// If an argument is not constant, or its evaluation fails.
fn evaluated(
    exprs: impl IntoIterator<Item = Expr>,
    session: &SessionState,
) -> Result<Vec<ScalarValue>> {
    let exprs: Vec<_> = exprs.into_iter().collect();
    let is_value = |expr: &Expr| matches!(expr, Expr::Literal(..));
    let exprs = if exprs.iter().all(is_value) {
        exprs
    } else {
        let named = exprs.into_iter().enumerate();
        let named = named.map(|(place, expr)| expr.alias(format!("argument {place}")));
        let plan = LogicalPlanBuilder::empty(true).project(named)?.build()?;
        match session.optimize(&plan)? {
            LogicalPlan::Projection(projection) => projection.expr,
            _ => return plan_err!("the arguments of a series in FROM are constants"),
        }
    };
    let values = exprs.into_iter().map(|expr| match expr.unalias() {
        Expr::Literal(value, _) => Ok(value),
        expr => {
            let schema = DFSchema::empty();
            let options = RecordBatchOptions::new().with_row_count(Some(1));
            let row =
                RecordBatch::try_new_with_options(Arc::clone(schema.inner()), vec![], &options)?;
            let value = session.create_physical_expr(expr, &schema)?.evaluate(&row)?;
            ScalarValue::try_from_array(&value.into_array(1)?, 0)
        }
    });
    values.collect()
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

impl OfParameters {
    /// Returns the types of the parameters, by name: the type that a parameter is cast to, or else
    /// the one that the other arguments determine, or BIGINT.
    fn parameters(&self) -> BTreeMap<String, DataType> {
        let schema = DFSchema::empty();
        let is_bare = |expr: &Expr| matches!(expr, Expr::Placeholder(_));
        let given = self.exprs.iter().map(|expr| match is_bare(expr) {
            true => DataType::Null,
            false => expr.get_type(&schema).unwrap_or(DataType::Null),
        });
        let determined = series_types(&self.series.name, &given.collect::<Vec<_>>());
        let determined = determined.ok().flatten().unwrap_or_default();
        let mut types = BTreeMap::new();
        for (place, expr) in self.exprs.iter().enumerate() {
            if let Expr::Placeholder(placeholder) = expr {
                let of = determined.get(place).unwrap_or(&DataType::Int64);
                types.insert(placeholder.id.clone(), of.clone());
                continue;
            }
            let searched = expr.apply(|inner| {
                if let Expr::Placeholder(Placeholder { id, .. }) = inner {
                    types.insert(id.clone(), cast_type(expr, id));
                }
                Ok(TreeNodeRecursion::Continue)
            });
            debug_assert!(searched.is_ok());
        }
        types
    }
}

/// Returns the types of the parameters of series in a plan, by parameter name: `$1`.
pub(crate) fn parameters(plan: &LogicalPlan) -> Result<BTreeMap<String, DataType>> {
    let mut types = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        if let Some(table) = of_parameters(node) {
            types.extend(table.parameters());
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
        let exprs = table.exprs.iter().map(|expr| with_parameters(expr.clone(), value));
        let values = evaluated(exprs.collect::<Result<Vec<_>>>()?, session)?;
        let source = provider_as_source(match values.iter().any(ScalarValue::is_null) {
            true => Arc::new(EmptyTable::new(Arc::clone(&table.schema))),
            false => table.series.table(values, session)?,
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
        DataType::Decimal128(precision, scale) => {
            Ok(ScalarValue::Decimal128(Some(1), *precision, *scale))
        }
        data_type if data_type.is_numeric() => ScalarValue::new_one(data_type),
        data_type => ScalarValue::new_default(data_type),
    }
}

fn has_parameter(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::Placeholder(_)))).unwrap_or_default()
}

/// Returns the type that a parameter in an argument is cast to, or BIGINT.
fn cast_type(expr: &Expr, id: &str) -> DataType {
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

/// Returns an argument with values in place of parameters.
fn with_parameters(expr: Expr, value: impl Fn(&str) -> Result<ScalarValue>) -> Result<Expr> {
    let expr = expr.transform_up(|expr| match expr {
        Expr::Placeholder(Placeholder { id, .. }) => Ok(Transformed::yes(lit(value(&id)?))),
        expr => Ok(Transformed::no(expr)),
    });
    Ok(expr?.data)
}

/// Casts an integer of any type to BIGINT, the only type that DataFusion's functions accept.
fn as_bigint(value: ScalarValue) -> ScalarValue {
    if !value.data_type().is_integer() {
        return value;
    }
    value.cast_to(&DataType::Int64).unwrap_or(value)
}

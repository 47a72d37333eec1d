//! An analyzer rule that computes with floats where floats and decimals meet.
//!
//! DataFusion coerces a float and a decimal that are compared, or are alternatives of one value, to
//! a decimal of 30 digits: NaN, infinities and large numbers are then errors, and small ones zero.
//! PostgreSQL takes double precision for both. Here the decimals of such a group are cast before
//! DataFusion coerces types.

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, ExprSchema, Result};
use datafusion::logical_expr::expr::{InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Join, Union, Values};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, Expr, ExprSchemable as _, LogicalPlan, LogicalPlanBuilder,
    cast,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// The analyzer rule. It runs before DataFusion coerces types.
#[derive(Debug)]
pub(super) struct FloatsOverDecimals;

impl AnalyzerRule for FloatsOverDecimals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_changed = false;
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let plan = of_node(plan)?;
            let plan = plan.transform_data(of_expressions)?;
            is_changed |= plan.transformed;
            // Types of columns may have changed below.
            if is_changed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &str {
        "floats_over_decimals"
    }
}

/// The node with floats where its inputs or its rows are alternatives.
fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Union(union) => of_union(union),
        LogicalPlan::Values(values) => of_values(values),
        LogicalPlan::Join(join) => of_keys(join),
        plan => Ok(Transformed::no(plan)),
    }
}

fn of_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let columns = union.inputs.first().map_or(0, |input| input.schema().fields().len());
    let same = |input: &Arc<LogicalPlan>| input.schema().fields().len() == columns;
    let column_types = |column: usize| {
        union.inputs.iter().map(move |input| input.schema().field(column).data_type().clone())
    };
    let mixed: Vec<usize> = match union.inputs.iter().all(same) {
        true => (0..columns).filter(|column| is_mixed(column_types(*column))).collect(),
        false => vec![],
    };
    if mixed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.iter().map(|input| {
        let fields = input.schema().iter().enumerate();
        let columns = fields.map(|(index, (qualifier, field))| {
            let column = Expr::from((qualifier, field));
            match mixed.contains(&index) && field.data_type().is_decimal() {
                true => as_float(column).alias_qualified(qualifier.cloned(), field.name()),
                false => column,
            }
        });
        let columns: Vec<Expr> = columns.collect();
        let input = LogicalPlanBuilder::from(input.as_ref().clone()).project(columns)?;
        Ok(Arc::new(input.build()?))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let union = Union::try_new_with_loose_types(inputs)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// The rows of VALUES, which have been cast to one type for each column.
fn of_values(values: Values) -> Result<Transformed<LogicalPlan>> {
    let Values { schema, values: mut rows } = values;
    let none = DFSchema::empty();
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
    let mut is_changed = false;
    for (column, field) in fields.iter_mut().enumerate() {
        let was_float = |row: &Vec<Expr>| match &row[column] {
            Expr::Cast(Cast { expr, .. }) => {
                expr.get_type(&none).is_ok_and(|inner| inner.is_floating())
            }
            _ => false,
        };
        if !field.data_type().is_decimal() || !rows.iter().any(was_float) {
            continue;
        }
        for row in &mut rows {
            let value = std::mem::take(&mut row[column]);
            let value = match value {
                Expr::Cast(Cast { expr, .. }) => *expr,
                other => other,
            };
            row[column] = as_float(value);
        }
        *field = Arc::new(field.as_ref().clone().with_data_type(DataType::Float64));
        is_changed = true;
    }
    if !is_changed {
        return Ok(Transformed::no(LogicalPlan::Values(Values { schema, values: rows })));
    }
    let schema = Arc::new(DFSchema::try_from(Schema::new(fields))?);
    Ok(Transformed::yes(LogicalPlan::Values(Values { schema, values: rows })))
}

/// The keys of a join with USING.
fn of_keys(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut is_changed = false;
    for (left, right) in &mut join.on {
        let types = [left.get_type(join.left.schema())?, right.get_type(join.right.schema())?];
        if is_mixed(types.iter().cloned()) {
            is_changed = true;
            let decimal = if types[0].is_decimal() { left } else { right };
            *decimal = as_float(std::mem::take(decimal));
        }
    }
    let join = LogicalPlan::Join(join);
    Ok(if is_changed { Transformed::yes(join) } else { Transformed::no(join) })
}

fn of_expressions(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema =
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
    }
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(over_decimals(expr, &schema)?.update_data(|expr| name.restore(expr)))
    })
}

/// An expression over rows of `schema` that computes with floats where they meet decimals.
pub(crate) fn over_decimals(expr: Expr, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    if !mentions_both(&expr, schema)? {
        return Ok(Transformed::no(expr));
    }
    expr.transform_up(|expr| {
        let mut expr = expr;
        let is_changed = match &mut expr {
            Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
                unify([left.as_mut(), right.as_mut()], schema)?
            }
            Expr::Between(Between { expr, low, high, .. }) => {
                unify([expr.as_mut(), low.as_mut(), high.as_mut()], schema)?
            }
            Expr::InSubquery(comparison) => of_subquery(comparison, schema)?,
            Expr::InList(InList { expr, list, .. }) => {
                unify(std::iter::once(expr.as_mut()).chain(list), schema)?
            }
            Expr::ScalarFunction(ScalarFunction { args, .. }) => unify(args, schema)?,
            Expr::Case(case) => of_case(case, schema)?,
            _ => false,
        };
        Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
    })
}

fn of_case(case: &mut Case, schema: &dyn ExprSchema) -> Result<bool> {
    let (mut compared, mut results) = (Vec::new(), Vec::new());
    for (when, then) in &mut case.when_then_expr {
        compared.push(when.as_mut());
        results.push(then.as_mut());
    }
    results.extend(case.else_expr.as_mut().map(AsMut::as_mut));
    let is_compared = match &mut case.expr {
        Some(expr) => unify(std::iter::once(expr.as_mut()).chain(compared), schema)?,
        None => false,
    };
    Ok(unify(results, schema)? || is_compared)
}

fn of_subquery(comparison: &mut InSubquery, schema: &dyn ExprSchema) -> Result<bool> {
    let InSubquery { expr, subquery, .. } = comparison;
    let plan = &subquery.subquery;
    let Some(inside) = plan.schema().fields().first() else { return Ok(false) };
    let inside = inside.data_type().clone();
    let outside = expr.get_type(schema)?;
    if !is_mixed([&inside, &outside].into_iter().cloned()) {
        return Ok(false);
    }
    if outside.is_decimal() {
        **expr = as_float(std::mem::take(expr));
        return Ok(true);
    }
    let column = Expr::from(plan.schema().qualified_field(0));
    let name = plan.schema().field(0).name().clone();
    let cast = LogicalPlanBuilder::from(plan.as_ref().clone());
    let cast = cast.project([as_float(column).alias(name)])?.build()?;
    *subquery = subquery.with_plan(Arc::new(cast));
    Ok(true)
}

/// Casts the decimals of a group to floats if there are floats in it, and tells whether it did.
fn unify<'a>(
    group: impl IntoIterator<Item = &'a mut Expr>,
    schema: &dyn ExprSchema,
) -> Result<bool> {
    let mut group: Vec<&mut Expr> = group.into_iter().collect();
    let types = group.iter().map(|expr| expr.get_type(schema));
    let types = types.collect::<Result<Vec<_>>>()?;
    if !is_mixed(types.iter().cloned()) {
        return Ok(false);
    }
    for (expr, data_type) in group.iter_mut().zip(&types) {
        if data_type.is_decimal() {
            **expr = as_float(std::mem::take(*expr));
        }
    }
    Ok(true)
}

fn is_mixed(types: impl Iterator<Item = DataType>) -> bool {
    let (mut floats, mut decimals) = (false, false);
    for data_type in types {
        floats |= data_type.is_floating();
        decimals |= data_type.is_decimal();
    }
    floats && decimals
}

fn as_float(expr: Expr) -> Expr {
    cast(expr, DataType::Float64)
}

/// True if an expression may have floats and decimals, by its leaves. A function may return either.
fn mentions_both(expr: &Expr, schema: &dyn ExprSchema) -> Result<bool> {
    let (mut floats, mut decimals) = (false, false);
    expr.exists(|part| {
        let data_type = match part {
            Expr::Column(column) => schema.data_type(column).ok().cloned(),
            Expr::Literal(value, _) => Some(value.data_type()),
            Expr::Cast(Cast { field, .. }) => Some(field.data_type().clone()),
            Expr::BinaryExpr(_) | Expr::Between(_) | Expr::InList(_) | Expr::Case(_) => {
                return Ok(false);
            }
            Expr::Not(_) | Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::Alias(_) => {
                return Ok(false);
            }
            _ => {
                (floats, decimals) = (true, true);
                None
            }
        };
        if let Some(data_type) = data_type {
            floats |= data_type.is_floating();
            decimals |= data_type.is_decimal();
        }
        Ok(floats && decimals)
    })
}

//! An analyzer rule that uses double precision where floats meet decimals or integers.
//!
//! DataFusion coerces a float and a decimal that are compared, or are alternatives of one value, to
//! a decimal of 30 digits: NaN, infinities and large numbers are then errors, and small ones zero.
//! It coerces an integer and a REAL to REAL, which has 24 bits. PostgreSQL converts both operands
//! to double precision; as alternatives of one value, an integer and a REAL become a REAL. This
//! rule casts the decimals or the REALs of such a group before DataFusion coerces types.

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema, Result};
use datafusion::logical_expr::expr::{InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Join, Union, Values};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, Expr, ExprSchemable as _, LogicalPlan, LogicalPlanBuilder,
    Operator, cast,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Analyzer rule that casts to double precision where floats meet decimals or integers, as the
/// [module](self) describes. It runs before DataFusion coerces types.
#[derive(Debug)]
pub(super) struct DoublePrecision;

impl AnalyzerRule for DoublePrecision {
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
        "double_precision"
    }
}

/// Rewrites the inputs of a union, the rows of VALUES, and the keys of a join.
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
    let is_mixed = |column: &usize| {
        let inputs = union.inputs.iter();
        let types = inputs.map(|input| input.schema().field(*column).data_type().clone());
        Mixed::alternatives(&types.collect::<Vec<_>>()).any()
    };
    let mixed: Vec<usize> = match union.inputs.iter().all(same) {
        true => (0..columns).filter(is_mixed).collect(),
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

/// Rewrites VALUES, whose columns have already been cast to one type each.
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

/// Casts the keys of a join, which only USING has before the optimizer runs.
fn of_keys(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut is_changed = false;
    for (left, right) in &mut join.on {
        let types = [left.get_type(join.left.schema())?, right.get_type(join.right.schema())?];
        let mixed = Mixed::operands(&types);
        for (key, data_type) in [left, right].into_iter().zip(&types) {
            if mixed.casts(data_type) {
                is_changed = true;
                *key = as_float(std::mem::take(key));
            }
        }
    }
    let join = LogicalPlan::Join(join);
    Ok(if is_changed { Transformed::yes(join) } else { Transformed::no(join) })
}

fn of_expressions(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !has_groups(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema =
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
    }
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        if !may_mix(&expr, &schema)? {
            return Ok(Transformed::no(expr));
        }
        let name = names.save(&expr);
        Ok(in_double_precision(expr, &schema)?.update_data(|expr| name.restore(expr)))
    })
}

/// True if an expression of a node has operands or alternatives, whose types may differ. This check
/// costs less than building the schema and the names that a rewrite needs.
fn has_groups(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found = expr.exists(|part| {
            Ok(!matches!(part, Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_)))
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Casts operands in an expression over rows of `schema` to double precision where floats meet
/// decimals or integers.
pub(crate) fn in_double_precision(
    expr: Expr,
    schema: &dyn ExprSchema,
) -> Result<Transformed<Expr>> {
    if !may_mix(&expr, schema)? {
        return Ok(Transformed::no(expr));
    }
    expr.transform_up(|expr| {
        let mut expr = expr;
        let is_changed = match &mut expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let is_of_numbers = op.is_numerical_operators() || is_comparison(*op);
                let mixed: fn(&[DataType]) -> Mixed =
                    if is_of_numbers { Mixed::operands } else { Mixed::alternatives };
                unify([left.as_mut(), right.as_mut()], schema, mixed)?
            }
            Expr::Between(Between { expr, low, high, .. }) => {
                unify([expr.as_mut(), low.as_mut(), high.as_mut()], schema, Mixed::operands)?
            }
            Expr::InSubquery(comparison) => of_subquery(comparison, schema)?,
            Expr::InList(InList { expr, list, .. }) => {
                unify(std::iter::once(expr.as_mut()).chain(list), schema, Mixed::operands)?
            }
            Expr::ScalarFunction(ScalarFunction { args, .. }) => {
                unify(args, schema, Mixed::alternatives)?
            }
            Expr::Case(case) => of_case(case, schema)?,
            _ => false,
        };
        Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
    })
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn of_case(case: &mut Case, schema: &dyn ExprSchema) -> Result<bool> {
    let (mut compared, mut results) = (Vec::new(), Vec::new());
    for (when, then) in &mut case.when_then_expr {
        compared.push(when.as_mut());
        results.push(then.as_mut());
    }
    results.extend(case.else_expr.as_mut().map(AsMut::as_mut));
    let is_compared = match &mut case.expr {
        Some(expr) => {
            let compared = std::iter::once(expr.as_mut()).chain(compared);
            unify(compared, schema, Mixed::operands)?
        }
        None => false,
    };
    Ok(unify(results, schema, Mixed::alternatives)? || is_compared)
}

fn of_subquery(comparison: &mut InSubquery, schema: &dyn ExprSchema) -> Result<bool> {
    let InSubquery { expr, subquery, .. } = comparison;
    let plan = &subquery.subquery;
    let Some(inside) = plan.schema().fields().first() else { return Ok(false) };
    let inside = inside.data_type().clone();
    let outside = expr.get_type(schema)?;
    let mixed = Mixed::operands(&[inside, outside.clone()]);
    if !mixed.any() {
        return Ok(false);
    }
    if mixed.casts(&outside) {
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

/// Casts the members of a group of operands whose types `mixed` finds to need it; returns true if
/// there are any.
fn unify<'a>(
    group: impl IntoIterator<Item = &'a mut Expr>,
    schema: &dyn ExprSchema,
    mixed: fn(&[DataType]) -> Mixed,
) -> Result<bool> {
    let mut group: Vec<&mut Expr> = group.into_iter().collect();
    let types = group.iter().map(|expr| expr.get_type(schema));
    let types = types.collect::<Result<Vec<_>>>()?;
    let mixed = mixed(&types);
    for (expr, data_type) in group.iter_mut().zip(&types) {
        if mixed.casts(data_type) {
            **expr = as_float(std::mem::take(*expr));
        }
    }
    Ok(mixed.any())
}

/// The types of a group that have to be cast to double precision.
#[derive(Clone, Copy, Default)]
struct Mixed {
    /// True if decimals meet floats.
    decimals: bool,
    /// True if REALs meet integers.
    reals: bool,
}

impl Mixed {
    /// The casts for operands of one operator.
    fn operands(types: &[DataType]) -> Self {
        let (mut floats, mut decimals, mut reals, mut integers) = (false, false, false, false);
        for data_type in types {
            floats |= data_type.is_floating();
            decimals |= data_type.is_decimal();
            reals |= *data_type == DataType::Float32;
            integers |= data_type.is_integer();
        }
        Self { decimals: floats && decimals, reals: reals && integers }
    }

    /// The casts for alternatives, of which one is the result, such as the branches of a CASE.
    fn alternatives(types: &[DataType]) -> Self {
        Self { reals: false, ..Self::operands(types) }
    }

    fn any(self) -> bool {
        self.decimals || self.reals
    }

    fn casts(self, data_type: &DataType) -> bool {
        (self.decimals && data_type.is_decimal()) || (self.reals && *data_type == DataType::Float32)
    }
}

fn as_float(expr: Expr) -> Expr {
    cast(expr, DataType::Float64)
}

/// True if an expression may mix types, judged by its leaves. A function may return any type.
fn may_mix(expr: &Expr, schema: &dyn ExprSchema) -> Result<bool> {
    let mut types = Vec::new();
    let is_unknown = expr.exists(|part| {
        let data_type = match part {
            Expr::Column(column) => schema.data_type(column).ok().cloned(),
            Expr::Literal(value, _) => Some(value.data_type()),
            Expr::Cast(Cast { field, .. }) => Some(field.data_type().clone()),
            Expr::BinaryExpr(_) | Expr::Between(_) | Expr::InList(_) | Expr::Case(_) => None,
            Expr::Not(_) | Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::Alias(_) => None,
            _ => return Ok(true),
        };
        types.extend(data_type.filter(DataType::is_numeric));
        Ok(false)
    })?;
    Ok(is_unknown || Mixed::operands(&types).any())
}

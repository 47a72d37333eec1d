//! An analyzer rule that gives comparisons with subqueries SQL's three-valued logic, in every
//! position.
//!
//! DataFusion turns `x IN (S)` into a semi join and `x NOT IN (S)` into a null-aware anti join if
//! they are conditions of a filter, and both are right. In any other position it takes an unknown
//! result for false, confuses columns of the same name inside and outside of `S`, or cannot plan
//! the comparison. There the rule expands it:
//!
//! ```text
//! x IN (S)     CASE WHEN a row of S equals x       THEN true
//!                   WHEN S has a null              THEN null
//!                   WHEN x IS NULL and S has a row THEN null
//!                   ELSE false END
//! x > ANY (S)  the same with x > min(S) in the first line
//! x > ALL (S)  CASE WHEN NOT x > max(S)            THEN false
//!                   WHEN S has a null              THEN null
//!                   WHEN x IS NULL and S has a row THEN null
//!                   ELSE true END
//! ```
//!
//! An EXISTS over an aggregation without groups, which returns a row even for no input, becomes
//! true, or the condition of its HAVING; one over an OFFSET becomes a comparison of a count.
//! DataFusion would test for rows of the aggregation's input.
//!
//! Conditions of `S` on the outer row alone are moved out of it (`outer_conditions`).
//!
//! The column of `S` gets a name that is unique in the statement. If a second evaluation of `S`
//! could return other rows, as with a volatile function or a LIMIT, it is evaluated once
//! (`unnest/once.rs`).

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema as _, Result, ScalarValue, Spans, plan_err};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Case, Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable as _, FetchType, LogicalPlan, LogicalPlanBuilder, Operator,
    SkipType, Subquery, binary_expr, lit, not, when,
};
use datafusion::optimizer::AnalyzerRule;

use super::outer_conditions;
use super::outer_values::{bound, outer_reference};
use super::unnest::{is_repeatable, once};

/// The analyzer rule. It runs before DataFusion coerces types.
#[derive(Debug)]
pub(super) struct SubqueryComparisons;

impl AnalyzerRule for SubqueryComparisons {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut rewriter = Rewriter { subqueries: 0 };
        let rewritten = plan.transform_up_with_subqueries(|plan| rewriter.plan(plan))?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &str {
        "subquery_comparisons"
    }
}

/// Position of an expression in a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// In the condition of a filter, whose EXISTS become joins.
    Filter,
    /// In any other expression, where only scalar subqueries can be planned.
    Value,
}

struct Rewriter {
    /// Number of subqueries that have been given a name.
    subqueries: usize,
}

impl Rewriter {
    fn plan(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let mut found = false;
        plan.apply_expressions(|expr| {
            found |= has_comparison(expr)?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !found {
            return Ok(Transformed::no(plan));
        }
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        let is_filter = matches!(plan, LogicalPlan::Filter(_));
        let rewritten = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| existence(expr, &schema))?.data;
            let rewritten = match is_filter {
                true => self.conjunct(expr, &schema)?,
                false => self.value(expr, &schema, Position::Value)?,
            };
            Ok(Transformed::yes(name.restore(rewritten)))
        })?;
        rewritten.map_data(LogicalPlan::recompute_schema)
    }

    /// Rewrites a condition whose AND operands must all be true.
    fn conjunct(&mut self, expr: Expr, schema: &DFSchema) -> Result<Expr> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                let (left, right) = (self.conjunct(*left, schema)?, self.conjunct(*right, schema)?);
                Ok(binary_expr(left, Operator::And, right))
            }
            Expr::Not(inner) => match as_in(*inner) {
                Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                    let inverted = InSubquery { expr, subquery, negated: !negated };
                    self.conjunct(Expr::InSubquery(inverted), schema)
                }
                inner => self.truth(not(inner), schema),
            },
            other => match as_in(other) {
                Expr::InSubquery(comparison) if comparison.negated && is_anti_join(&comparison) => {
                    match outer_conditions::split(&comparison.subquery, schema)? {
                        Some((condition, rows)) => {
                            let subquery = as_subquery(rows);
                            let rest = Expr::InSubquery(InSubquery { subquery, ..comparison });
                            Ok(condition.is_not_true().or(self.truth(rest, schema)?))
                        }
                        None => anti_join(comparison, schema),
                    }
                }
                other => self.truth(other, schema),
            },
        }
    }

    /// Rewrites a condition for which unknown is equivalent to false.
    fn truth(&mut self, expr: Expr, schema: &DFSchema) -> Result<Expr> {
        match as_in(expr) {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: op @ (Operator::And | Operator::Or),
                right,
            }) => {
                let (left, right) = (self.truth(*left, schema)?, self.truth(*right, schema)?);
                Ok(binary_expr(left, op, right))
            }
            Expr::InSubquery(comparison) if !comparison.negated => Ok(Expr::InSubquery(comparison)),
            other => self.value(other, schema, Position::Filter),
        }
    }

    /// Rewrites an expression in which null differs from false.
    fn value(&mut self, expr: Expr, schema: &DFSchema, position: Position) -> Result<Expr> {
        let rewritten = expr.transform_up(|expr| match as_in(expr) {
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let is_in = self.is_in(*expr, &subquery, schema, position)?;
                Ok(Transformed::yes(if negated { not(is_in) } else { is_in }))
            }
            Expr::SetComparison(comparison) => {
                Ok(Transformed::yes(self.quantified(comparison, schema, position)?))
            }
            Expr::Exists(Exists { subquery, negated }) if position == Position::Value => {
                let exists = has_rows(subquery.subquery.as_ref().clone())?;
                Ok(Transformed::yes(if negated { not(exists) } else { exists }))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(rewritten.data)
    }

    fn is_in(
        &mut self,
        value: Expr,
        subquery: &Subquery,
        schema: &DFSchema,
        position: Position,
    ) -> Result<Expr> {
        if let Some((condition, rows)) = outer_conditions::split(subquery, schema)? {
            let is_in = self.is_in(value, &as_subquery(rows), schema, position)?;
            return when(condition, is_in).otherwise(lit(false));
        }
        let values = self.named(subquery)?;
        let outer = outer_reference(value.clone(), schema)?;
        let equal = values.with(binary_expr(outer, Operator::Eq, values.column()))?;
        let matched = exists(equal, position)?;
        let unknown = values.unknown(&value, schema, position)?;
        if unknown.is_empty() {
            return Ok(matched);
        }
        Ok(case(matched, true, unknown, false))
    }

    fn quantified(
        &mut self,
        comparison: SetComparison,
        schema: &DFSchema,
        position: Position,
    ) -> Result<Expr> {
        if let Some((condition, rows)) = outer_conditions::split(&comparison.subquery, schema)? {
            let without_rows = comparison.quantifier == SetQuantifier::All;
            let comparison = SetComparison { subquery: as_subquery(rows), ..comparison };
            let compared = self.quantified(comparison, schema, position)?;
            return when(condition, compared).otherwise(lit(without_rows));
        }
        let SetComparison { expr: value, subquery, op, quantifier } = comparison;
        let values = self.named(&subquery)?;
        let least = || values.aggregate(bound("min", values.column())?);
        let most = || values.aggregate(bound("max", values.column())?);
        let compared = |op, bound| binary_expr(value.as_ref().clone(), op, bound);
        let is_any = quantifier == SetQuantifier::Any;
        let decided = match (op, is_any) {
            (Operator::Gt | Operator::GtEq, true) | (Operator::Lt | Operator::LtEq, false) => {
                compared(op, least()?)
            }
            (Operator::Gt | Operator::GtEq, false) | (Operator::Lt | Operator::LtEq, true) => {
                compared(op, most()?)
            }
            (Operator::NotEq, true) => compared(op, least()?).or(compared(op, most()?)),
            (Operator::Eq, false) => compared(op, least()?).and(compared(op, most()?)),
            _ => return plan_err!("{op} {quantifier} is no comparison with a subquery"),
        };
        let unknown = values.unknown(&value, schema, position)?;
        Ok(match is_any {
            true => case(decided, true, unknown, false),
            false => case(not(decided), false, unknown, true),
        })
    }

    /// The rows of a subquery of one column, which gets a unique name. The subquery gets no alias:
    /// conditions on outer rows are moved out of it, and refer to its tables.
    fn named(&mut self, subquery: &Subquery) -> Result<Values> {
        let plan = subquery.subquery.as_ref().clone();
        if plan.schema().fields().len() != 1 {
            let columns = plan.schema().fields().len();
            return plan_err!("a subquery that is compared with returns 1 column, not {columns}");
        }
        self.subqueries += 1;
        let name = format!("subquery {}", self.subqueries);
        let column = Expr::Column(Column::from(plan.schema().qualified_field(0)));
        let is_nullable = plan.schema().field(0).is_nullable();
        let plan = LogicalPlanBuilder::from(plan).project([column.alias(&name)])?.build()?;
        // Each part of the comparison reads a copy of the rows.
        let is_shared = plan.all_out_ref_exprs().is_empty() && !is_repeatable(&plan);
        let plan = if is_shared { once(plan) } else { plan };
        Ok(Values { plan, name, is_nullable })
    }
}

/// The rows of a subquery.
struct Values {
    plan: LogicalPlan,
    name: String,
    is_nullable: bool,
}

impl Values {
    fn column(&self) -> Expr {
        Expr::Column(Column::new_unqualified(&self.name))
    }

    /// The rows for which a condition is true.
    fn with(&self, condition: Expr) -> Result<LogicalPlan> {
        LogicalPlanBuilder::from(self.plan.clone()).filter(condition)?.build()
    }

    fn aggregate(&self, aggregate: Expr) -> Result<Expr> {
        scalar(LogicalPlanBuilder::from(self.plan.clone()), aggregate)
    }

    /// The conditions under which a comparison of `value` with these rows is unknown, unless a row
    /// has decided it.
    fn unknown(&self, value: &Expr, schema: &DFSchema, position: Position) -> Result<Vec<Expr>> {
        let mut unknown = Vec::new();
        if self.is_nullable {
            unknown.push(exists(self.with(self.column().is_null())?, position)?);
        }
        if value.nullable(schema).unwrap_or(true) {
            unknown.push(value.clone().is_null().and(exists(self.plan.clone(), position)?));
        }
        Ok(unknown)
    }
}

/// True if an expression has a comparison with a subquery or an EXISTS.
fn has_comparison(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| {
        Ok(matches!(expr, Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::Exists(_)))
    })
}

/// Rewrites `= ANY` and `<> ALL` as IN and NOT IN, and those as `=` and `<>` if the subquery
/// returns one row for each outer row; leaves any other expression unchanged.
fn as_in(expr: Expr) -> Expr {
    match as_set(expr) {
        Expr::InSubquery(InSubquery { expr, subquery, negated })
            if !subquery.outer_ref_columns.is_empty() && is_one_row(&subquery.subquery) =>
        {
            // A join would take an aggregate of no rows for no row.
            let op = if negated { Operator::NotEq } else { Operator::Eq };
            binary_expr(*expr, op, Expr::ScalarSubquery(subquery))
        }
        other => other,
    }
}

/// Rewrites a correlated EXISTS whose result does not depend on rows of the input as an equivalent
/// condition. Leaves any other expression unchanged.
fn existence(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::Exists(Exists { subquery, negated }) = &expr else {
        return Ok(Transformed::no(expr));
    };
    if subquery.outer_ref_columns.is_empty() {
        return Ok(Transformed::no(expr));
    }
    if let Some((condition, rows)) = outer_conditions::split(subquery, schema)? {
        let exists = condition.is_true().and(has_rows(rows)?);
        return Ok(Transformed::yes(if *negated { not(exists) } else { exists }));
    }
    let exists = match below(&subquery.subquery) {
        plan if is_one_row(plan) => lit(true),
        LogicalPlan::Filter(filter) if is_one_row(&filter.input) => {
            let rows = LogicalPlanBuilder::from(filter.input.as_ref().clone());
            let having = filter.predicate.clone().alias("having");
            Expr::ScalarSubquery(as_subquery(rows.project([having])?.build()?)).is_true()
        }
        LogicalPlan::Limit(limit) => match (limit.get_skip_type()?, limit.get_fetch_type()?) {
            (_, FetchType::Literal(Some(0))) => lit(false),
            (SkipType::Literal(0), FetchType::Literal(_)) => {
                // If two columns below had the same name, a join would take either.
                let rows = LogicalPlanBuilder::from(below(&limit.input).clone());
                let subquery = as_subquery(rows.project([lit(1_i64)])?.build()?);
                let exists = Expr::Exists(Exists { subquery, negated: *negated });
                let exists = existence(exists, schema)?;
                return Ok(Transformed::yes(exists.data));
            }
            (SkipType::Literal(skip), _) => {
                let skipped = i64::try_from(skip).unwrap_or(i64::MAX);
                let rows = LogicalPlanBuilder::from(limit.input.as_ref().clone());
                scalar(rows, count(lit(1_i64)))?.gt(lit(skipped))
            }
            // It is unnested as it is.
            _ => return Ok(Transformed::no(expr)),
        },
        _ => return Ok(Transformed::no(expr)),
    };
    Ok(Transformed::yes(if *negated { not(exists) } else { exists }))
}

/// The plan below projections, aliases, DISTINCT and sorts, which returns rows if and only if they
/// do.
fn below(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Projection(projection) => below(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => below(&alias.input),
        LogicalPlan::Distinct(distinct) => below(distinct.input()),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => below(&sort.input),
        plan => plan,
    }
}

/// True if a plan is an aggregation without groups.
fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

fn as_set(expr: Expr) -> Expr {
    match expr {
        Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
            let negated = match (op, quantifier) {
                (Operator::Eq, SetQuantifier::Any) => false,
                (Operator::NotEq, SetQuantifier::All) => true,
                (op, quantifier) => {
                    let same = SetComparison { expr, subquery, op, quantifier };
                    return Expr::SetComparison(same);
                }
            };
            Expr::InSubquery(InSubquery { expr, subquery, negated })
        }
        other => other,
    }
}

/// True if a NOT IN can be an anti join: it depends on the outer row. The join is null-aware, or
/// its condition is made explicit (`not_in`).
fn is_anti_join(comparison: &InSubquery) -> bool {
    comparison.expr.any_column_refs() || !comparison.subquery.outer_ref_columns.is_empty()
}

/// Rewrites a NOT IN for an anti join. DataFusion makes the join null-aware if a column of the
/// comparison is nullable. If the compared value is nullable but its columns are not, as in
/// `nullif(x, y)`, an extra condition says that null is NOT IN the empty list only.
fn anti_join(comparison: InSubquery, schema: &DFSchema) -> Result<Expr> {
    let value = comparison.expr.as_ref().clone();
    if !hides_null(&value, schema)? {
        return Ok(Expr::InSubquery(comparison));
    }
    let rows = comparison.subquery.subquery.as_ref().clone();
    let is_empty = not(exists(rows, Position::Filter)?);
    Ok(Expr::InSubquery(comparison).and(value.is_not_null().or(is_empty)))
}

/// True if an expression is nullable and none of its columns is.
fn hides_null(value: &Expr, schema: &DFSchema) -> Result<bool> {
    let mut from_column = false;
    value.apply(|expr| {
        if let Expr::Column(column) = expr {
            from_column |= schema.field_from_column(column)?.is_nullable();
        }
        Ok(if from_column { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(!from_column && value.nullable(schema).unwrap_or(true))
}

fn as_subquery(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }
}

/// The value of an aggregate over all rows of a plan.
fn scalar(rows: LogicalPlanBuilder, aggregate: Expr) -> Result<Expr> {
    let plan = rows.aggregate(Vec::<Expr>::new(), [aggregate])?.build()?;
    Ok(Expr::ScalarSubquery(as_subquery(plan)))
}

/// A condition that is true if a plan returns a row, in a form that can be planned in `position`.
fn exists(plan: LogicalPlan, position: Position) -> Result<Expr> {
    match position {
        // Without references to outer rows there is nothing to join on, and one row is enough.
        Position::Filter if !plan.all_out_ref_exprs().is_empty() => {
            Ok(Expr::Exists(Exists { subquery: as_subquery(plan), negated: false }))
        }
        _ => has_rows(plan),
    }
}

/// A condition that is true if a plan returns a row: a scalar subquery that counts.
fn has_rows(plan: LogicalPlan) -> Result<Expr> {
    let is_correlated = !plan.all_out_ref_exprs().is_empty();
    let rows = LogicalPlanBuilder::from(plan);
    // One row is enough; a limit per outer row cannot be planned.
    let rows = if is_correlated { rows } else { rows.limit(0, Some(1))? };
    Ok(scalar(rows, count(lit(1_i64)))?.gt(lit(0_i64)))
}

/// `CASE WHEN decided THEN result WHEN unknown THEN null ... ELSE otherwise END`.
fn case(decided: Expr, result: bool, unknown: Vec<Expr>, otherwise: bool) -> Expr {
    let null = || Box::new(Expr::Literal(ScalarValue::Boolean(None), None));
    let mut branches = vec![(Box::new(decided), Box::new(lit(result)))];
    branches.extend(unknown.into_iter().map(|unknown| (Box::new(unknown), null())));
    Expr::Case(Case {
        expr: None,
        when_then_expr: branches,
        else_expr: Some(Box::new(lit(otherwise))),
    })
}

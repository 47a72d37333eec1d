//! Unnesting of subqueries in projections and filters, by joins of their results to the outer rows.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::expr_fn::{count, first_value};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::logical_plan::{Aggregate, Filter, Projection};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, ExprSchemable as _, JoinType, LogicalPlan, Subquery, lit, not,
};

use super::domain::{Domain, stable};
use super::fields::{self, Names, named, same};
use super::push_down::{Pushed, push_down};
use super::references::{outer_columns, subquery_of};
use super::simple::{contains_general, is_at_most_one_row, is_general};
use crate::scalar::SingleRow;
use crate::session::outer_values::{bound, outer_reference};

/// Unnests the subqueries of a projection that DataFusion cannot unnest.
pub(super) fn unnest_projection(
    projection: Projection,
    names: &mut Names,
) -> Result<Transformed<LogicalPlan>> {
    let outer = Arc::clone(projection.input.schema());
    if !projection.expr.iter().any(|expr| contains_general(expr, &outer)) {
        return Ok(Transformed::no(LogicalPlan::Projection(projection)));
    }
    let mut rows = OuterRows::new(Arc::unwrap_or_clone(projection.input), names);
    let exprs = projection.expr.into_iter().map(|expr| rows.value(expr));
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    fields::project(rows.joined()?, exprs, &projection.schema, []).map(Transformed::yes)
}

/// Unnests the subqueries of a filter that DataFusion cannot unnest.
pub(super) fn unnest_filter(filter: Filter, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let outer = Arc::clone(filter.input.schema());
    if !contains_general(&filter.predicate, &outer) {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    // Conditions without subqueries leave fewer rows to evaluate subqueries for. Those on rows
    // further out are left above the joins, from where they can be moved out of this query.
    let (first, rest): (Vec<_>, Vec<_>) = split_conjunction_owned(filter.predicate)
        .into_iter()
        .partition(|part| is_plain(part).unwrap_or(false));
    let input = filtered(Arc::unwrap_or_clone(filter.input), first)?;
    let mut rows = OuterRows::new(input, names);
    let mut conditions = Vec::new();
    for part in rest {
        conditions.extend(rows.condition(part)?);
    }
    let plan = filtered(rows.joined()?, conditions)?;
    fields::restore(plan, &outer, []).map(Transformed::yes)
}

fn is_plain(condition: &Expr) -> Result<bool> {
    let is_other = condition.exists(|expr| {
        Ok(subquery_of(expr).is_some() || matches!(expr, Expr::OuterReferenceColumn(..)))
    })?;
    Ok(!is_other && !condition.is_volatile())
}

fn filtered(plan: LogicalPlan, conditions: Vec<Expr>) -> Result<LogicalPlan> {
    match conjunction(conditions) {
        Some(condition) => Filter::try_new(condition, Arc::new(plan)).map(LogicalPlan::Filter),
        None => Ok(plan),
    }
}

/// Outer rows, and the results of subqueries to join to them.
struct OuterRows<'a> {
    rows: LogicalPlan,
    joins: Vec<Joined>,
    names: &'a mut Names,
}

/// A plan to join to the outer rows.
struct Joined {
    plan: LogicalPlan,
    join_type: JoinType,
    conditions: Vec<Expr>,
}

/// The rows of a subquery for each row of its domain.
struct Evaluated {
    plan: LogicalPlan,
    /// The domain's columns in `plan`.
    keys: Vec<Expr>,
    /// The columns of the outer rows, in the same order.
    outer: Vec<Expr>,
}

impl<'a> OuterRows<'a> {
    fn new(rows: LogicalPlan, names: &'a mut Names) -> Self {
        Self { rows, joins: Vec::new(), names }
    }

    /// The outer rows, joined with the results.
    fn joined(self) -> Result<LogicalPlan> {
        self.joins.into_iter().try_fold(
            self.rows,
            |rows, Joined { plan, join_type, conditions }| {
                fields::join(rows, plan, join_type, conditions)
            },
        )
    }

    /// Unnests a condition that must be true; `None` if the joins imply it.
    fn condition(&mut self, condition: Expr) -> Result<Option<Expr>> {
        let is_of_join = |expr: &Expr| {
            matches!(expr, Expr::Exists(_) | Expr::InSubquery(_))
                && is_general(expr, self.rows.schema())
        };
        let (condition, inverts) = match condition {
            Expr::Not(inner) if is_of_join(&inner) => (*inner, true),
            condition => (condition, false),
        };
        match condition {
            expr if !is_of_join(&expr) => self.value(expr).map(Some),
            Expr::Exists(Exists { subquery, negated }) => {
                self.existing(subquery, negated != inverts)
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                self.containing(*expr, subquery, negated != inverts)?;
                Ok(None)
            }
            other => Ok(Some(other)),
        }
    }

    /// Keeps the rows for which a subquery returns a row.
    fn existing(&mut self, subquery: Subquery, negated: bool) -> Result<Option<Expr>> {
        if outer_columns(&subquery.subquery, self.rows.schema()).is_empty() {
            let found = self.has_rows(Arc::unwrap_or_clone(subquery.subquery))?;
            return Ok(Some(if negated { not(found) } else { found }));
        }
        let evaluated = self.evaluate(Arc::unwrap_or_clone(subquery.subquery))?;
        let join_type = if negated { JoinType::LeftAnti } else { JoinType::LeftSemi };
        self.join(evaluated, Vec::new(), join_type, Vec::new())?;
        Ok(None)
    }

    /// Adds the semi or anti join of `value [NOT] IN (subquery)`; NOT IN keeps the rows for which
    /// it is true, not unknown.
    fn containing(&mut self, value: Expr, subquery: Subquery, negated: bool) -> Result<()> {
        let evaluated = self.evaluate(Arc::unwrap_or_clone(subquery.subquery))?;
        let name = self.names.next("member");
        let member = first_column(&evaluated.plan).alias(&name);
        let equal = value.eq(named(&name));
        let (join_type, compared) = match negated {
            true => (JoinType::LeftAnti, Expr::IsNotFalse(Box::new(equal))),
            false => (JoinType::LeftSemi, equal),
        };
        self.join(evaluated, vec![member], join_type, vec![compared])
    }

    /// Replaces the subqueries in an expression by columns that are joined to the rows.
    fn value(&mut self, expr: Expr) -> Result<Expr> {
        let outer = Arc::clone(self.rows.schema());
        let replaced = expr.transform_up(|expr| {
            if !is_general(&expr, &outer) {
                return Ok(Transformed::no(expr));
            }
            let value = match expr {
                Expr::ScalarSubquery(subquery) => self.scalar(subquery)?,
                Expr::Exists(Exists { subquery, negated }) => {
                    let found = self.has_rows(Arc::unwrap_or_clone(subquery.subquery))?;
                    if negated { not(found) } else { found }
                }
                // A condition for which unknown is equivalent to false.
                Expr::InSubquery(InSubquery { expr, subquery, negated: false }) => {
                    let rows = subquery.subquery.as_ref().clone();
                    let equal = outer_reference(*expr, &outer)?.eq(first_column(&rows));
                    self.has_rows(filtered(rows, vec![equal])?)?
                }
                other => return Ok(Transformed::no(other)),
            };
            Ok(Transformed::yes(value))
        })?;
        Ok(replaced.data)
    }

    /// The value of a scalar subquery.
    fn scalar(&mut self, subquery: Subquery) -> Result<Expr> {
        let is_single = is_at_most_one_row(&subquery.subquery);
        let Evaluated { plan, keys, outer } =
            self.evaluate(Arc::unwrap_or_clone(subquery.subquery))?;
        let value = self.names.next("value");
        let column = first_column(&plan);
        if is_single {
            let evaluated = Evaluated { plan, keys, outer };
            let column = column.alias(&value);
            self.join(evaluated, vec![column], JoinType::Left, Vec::new())?;
            return Ok(named(&value));
        }
        let rows = self.names.next("rows");
        let first = any_value(column, &plan)?.alias(&value);
        let plan = grouped(plan, &keys, vec![first, count(lit(1_i64)).alias(&rows)])?;
        let (value, rows) = (named(&value), named(&rows));
        let columns = vec![value.clone(), rows.clone()];
        self.join(Evaluated { plan, keys, outer }, columns, JoinType::Left, Vec::new())?;
        Ok(SingleRow::function().call(vec![value, rows]))
    }

    /// True for the rows for which a subquery returns a row, and false for the others.
    fn has_rows(&mut self, plan: LogicalPlan) -> Result<Expr> {
        let Evaluated { plan, keys, outer } = self.evaluate(plan)?;
        let rows = self.names.next("rows");
        let plan = grouped(plan, &keys, vec![count(lit(1_i64)).alias(&rows)])?;
        let rows = named(&rows);
        self.join(Evaluated { plan, keys, outer }, vec![rows.clone()], JoinType::Left, Vec::new())?;
        Ok(rows.gt(lit(0_i64)).is_true())
    }

    fn evaluate(&mut self, plan: LogicalPlan) -> Result<Evaluated> {
        let outer = outer_columns(&plan, self.rows.schema());
        self.rows = stable(std::mem::take(&mut self.rows), &outer)?;
        let domain = Domain::new(&self.rows, outer, self.names)?;
        let Pushed { plan, keys } = push_down(plan, &domain, self.names)?;
        let of = |columns: &[Column]| columns.iter().cloned().map(Expr::Column).collect();
        Ok(Evaluated { plan, keys: of(&keys), outer: of(domain.outer()) })
    }

    /// Joins `columns` of evaluated rows to the outer rows of the same values that also satisfy
    /// `conditions`.
    fn join(
        &mut self,
        evaluated: Evaluated,
        mut columns: Vec<Expr>,
        join_type: JoinType,
        mut conditions: Vec<Expr>,
    ) -> Result<()> {
        let Evaluated { plan, keys, outer } = evaluated;
        let own: Vec<_> = keys.iter().map(|_| self.names.next("key")).collect();
        columns.extend(keys.into_iter().zip(&own).map(|(key, name)| key.alias(name)));
        conditions.extend(same(outer, own.iter().map(|name| named(name))));
        let right = Projection::try_new(columns, Arc::new(plan)).map(LogicalPlan::Projection)?;
        self.joins.push(Joined { plan: right, join_type, conditions });
        Ok(())
    }
}

fn first_column(plan: &LogicalPlan) -> Expr {
    Expr::Column(Column::from(plan.schema().qualified_field(0)))
}

/// The value of a group of one row: the minimum if the type has one, because a domain may depend on
/// a minimum (`repeatable`); else another aggregate.
fn any_value(column: Expr, plan: &LogicalPlan) -> Result<Expr> {
    let kind = column.get_type(plan.schema())?;
    match kind.is_numeric() || kind.is_temporal() || kind.is_string() {
        true => bound("min", column),
        false => Ok(first_value(column, Vec::new())),
    }
}

fn grouped(plan: LogicalPlan, keys: &[Expr], aggregates: Vec<Expr>) -> Result<LogicalPlan> {
    let grouped = Aggregate::try_new(Arc::new(plan), keys.to_vec(), aggregates)?;
    Ok(LogicalPlan::Aggregate(grouped))
}

//! Subqueries in ORDER BY, GROUP BY, aggregates, windows, DISTINCT ON, VALUES and conditions of
//! joins. They become columns of a projection below their node, or conditions of a filter above it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, DFSchema, Result, not_impl_err};
use datafusion::logical_expr::logical_plan::{
    Distinct, EmptyRelation, Filter, Join, Projection, Values,
};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, Subquery};

use super::fields::{self, Names, columns_of, conditions_of, named, without_internal};
use super::outer_rows::{unnest_filter, unnest_projection};
use super::references::{is_correlated, outer_columns, subquery_of};

/// Moves correlated subqueries out of such a node into a projection or filter, and unnests them
/// there; in VALUES, also subqueries that are not correlated.
pub(super) fn unnest(node: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Join(join) => in_join(join, names).map(Transformed::yes),
        LogicalPlan::Values(values) => in_values(values, names).map(Transformed::yes),
        LogicalPlan::Sort(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Distinct(Distinct::On(_)) => below(node, names).map(Transformed::yes),
        other => {
            not_impl_err!("a subquery that names columns of the outer query in {}", other.display())
        }
    }
}

/// Correlated subqueries taken out of expressions, each with the name of the column that replaces
/// it.
#[derive(Default)]
struct Lifted {
    values: Vec<(String, Expr)>,
}

impl Lifted {
    /// Replaces the correlated subqueries of an expression by columns.
    fn lift(&mut self, expr: Expr, names: &mut Names) -> Result<Transformed<Expr>> {
        expr.transform_down(|expr| match expr {
            expr if !is_correlated(&expr) => Ok(Transformed::no(expr)),
            Expr::ScalarSubquery(_) => {
                let name = names.next("value");
                self.values.push((name.clone(), expr));
                Ok(Transformed::yes(named(&name)))
            }
            other => not_impl_err!("{other} outside of conditions and values"),
        })
    }

    /// Adds the columns to a plan.
    fn below(self, input: LogicalPlan, names: &mut Names) -> Result<LogicalPlan> {
        if self.values.is_empty() {
            return Ok(input);
        }
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let values = self.values.into_iter().map(|(name, value)| value.alias(name));
        let exprs = columns.chain(values).collect();
        let projection = Projection::try_new(exprs, Arc::new(input))?;
        Ok(unnest_projection(projection, names)?.data)
    }
}

/// Evaluates the subqueries of a node in a projection below it.
fn below(node: LogicalPlan, names: &mut Names) -> Result<LogicalPlan> {
    let (before, width) = (Arc::clone(node.schema()), node.inputs()[0].schema().fields().len());
    let mut lifted = Lifted::default();
    let node = node.map_expressions(|expr| lifted.lift(expr, names))?.data;
    let mut input = node.inputs()[0].clone();
    if let LogicalPlan::Sort(_) = node {
        input = with_missing(input, &mut lifted, names)?;
    }
    let input = lifted.below(input, names)?;
    let added = input.schema().fields().len();
    let node = node.with_new_exprs(node.expressions(), vec![input])?;
    let columns = match &node {
        LogicalPlan::Sort(_) => columns_of(&before),
        LogicalPlan::Window(_) => {
            // Those that were added stand between the columns of the input and the windows.
            let columns = node.schema().columns().into_iter().enumerate();
            let own = columns.filter(|(place, _)| !(width..added).contains(place));
            without_internal(own.map(|(_, column)| column))
        }
        _ => columns_of(node.schema()),
    };
    let fields = columns_of(&before).into_iter();
    let pairs = columns.into_iter().zip(fields).map(|(column, field)| match column == field {
        true => Expr::Column(column),
        false => Expr::Column(column).alias_qualified(field.relation, field.name),
    });
    let projection = Projection::try_new(pairs.collect(), Arc::new(node))?;
    Ok(LogicalPlan::Projection(projection))
}

/// Adds the columns that subqueries in ORDER BY name, and the SELECT list does not return.
fn with_missing(input: LogicalPlan, lifted: &mut Lifted, names: &mut Names) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = input else { return Ok(input) };
    let mut added: Vec<(Column, String)> = Vec::new();
    for (_, value) in &lifted.values {
        let Some(subquery) = subquery_of(value) else { continue };
        for column in outer_columns(&subquery.subquery, projection.input.schema()) {
            let is_known = added.iter().any(|(known, _)| *known == column);
            if !is_known && !projection.schema.has_column(&column) {
                added.push((column, names.next("outer")));
            }
        }
    }
    for (_, value) in &mut lifted.values {
        if let Expr::ScalarSubquery(subquery) = value {
            *subquery = renamed(subquery, &added)?;
        }
    }
    let own = added.into_iter().map(|(column, name)| Expr::Column(column).alias(name));
    let exprs = projection.expr.into_iter().chain(own).collect();
    Projection::try_new(exprs, projection.input).map(LogicalPlan::Projection)
}

/// The subquery with other names for outer columns.
fn renamed(subquery: &Subquery, names: &[(Column, String)]) -> Result<Subquery> {
    let plan = subquery.subquery.as_ref().clone();
    let plan = plan.transform_down(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|expr| match expr {
                Expr::OuterReferenceColumn(field, column) => {
                    let name = names.iter().find(|(known, _)| *known == column);
                    let is_renamed = name.is_some();
                    let column = name.map_or(column, |(_, name)| Column::new_unqualified(name));
                    let reference = Expr::OuterReferenceColumn(field, column);
                    Ok(Transformed::new_transformed(reference, is_renamed))
                }
                other => Ok(Transformed::no(other)),
            })
        })
    })?;
    let outer_ref_columns = plan.data.all_out_ref_exprs();
    Ok(Subquery { subquery: Arc::new(plan.data), outer_ref_columns, ..subquery.clone() })
}

/// Evaluates subqueries in the condition of a join on the side whose columns they name; of an inner
/// join, on the pairs of rows if they name columns of both.
fn in_join(join: Join, names: &mut Names) -> Result<LogicalPlan> {
    let schema = Arc::clone(&join.schema);
    let (mut left, mut right) = (Lifted::default(), Lifted::default());
    let (mut conditions, mut above) = (Vec::new(), Vec::new());
    for condition in conditions_of(&join) {
        let mut is_of_both = false;
        let condition = condition.transform_down(|expr| {
            let Some(subquery) = subquery_of(&expr).filter(|_| is_correlated(&expr)) else {
                return Ok(Transformed::no(expr));
            };
            let names_columns =
                |side: &LogicalPlan| !outer_columns(&subquery.subquery, side.schema()).is_empty();
            match (names_columns(&join.left), names_columns(&join.right)) {
                (_, false) => left.lift(expr, names),
                (false, true) => right.lift(expr, names),
                (true, true) => {
                    is_of_both = true;
                    Ok(Transformed::no(expr))
                }
            }
        })?;
        match (is_of_both, join.join_type) {
            (false, _) => conditions.push(condition.data),
            (true, JoinType::Inner) => above.push(condition.data),
            (true, other) => {
                return not_impl_err!(
                    "a subquery in the condition of a {other} JOIN that names columns of both sides"
                );
            }
        }
    }
    let left = left.below(Arc::unwrap_or_clone(join.left), names)?;
    let right = right.below(Arc::unwrap_or_clone(join.right), names)?;
    let joined = fields::join(left, right, join.join_type, conditions)?;
    let joined = match conjunction(above) {
        Some(condition) => {
            unnest_filter(Filter::try_new(condition, Arc::new(joined))?, names)?.data
        }
        None => joined,
    };
    fields::restore(joined, &schema, [])
}

/// VALUES with subqueries, as a union of projections of one row.
fn in_values(values: Values, names: &mut Names) -> Result<LogicalPlan> {
    let row = |row: Vec<Expr>| {
        let schema = Arc::new(DFSchema::empty());
        let empty = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema });
        match fields::project(empty, row, &values.schema, [])? {
            LogicalPlan::Projection(row) => Ok(unnest_projection(row, names)?.data),
            other => Ok(other),
        }
    };
    fields::union(values.values.into_iter().map(row).collect::<Result<_>>()?)
}

//! An analyzer rule that renames the columns of a subquery in its correlated conditions, if their
//! names are ambiguous.
//!
//! DataFusion turns a correlated subquery into a join: it adds the subquery's columns in such
//! conditions to the subquery's result, and refers to all of them under one alias, by their bare
//! names. In `SELECT a.id FROM a JOIN b ON a.j = b.j WHERE b.id = o.id` both columns are then `id`,
//! and the condition is resolved to the wrong one. This rule gives `b.id` a second name at its
//! table in the subquery, and uses that in the condition:
//! ```text
//! SELECT a.id FROM a JOIN (SELECT *, id AS __id_1 FROM b) b ON a.j = b.j WHERE b.__id_1 = o.id
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::logical_plan::Projection;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::AnalyzerRule;

/// Analyzer rule that renames ambiguous columns of correlated conditions. It runs after comparisons
/// with subqueries are rewritten, which creates more subqueries.
#[derive(Debug)]
pub(super) struct CorrelatedNames;

impl AnalyzerRule for CorrelatedNames {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut given = 0;
        let named = plan.transform_down_with_subqueries(|node| name_in_node(node, &mut given))?;
        Ok(named.data)
    }

    fn name(&self) -> &str {
        "correlated_names"
    }
}

fn name_in_node(node: LogicalPlan, given: &mut usize) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Subquery(subquery) = node {
        let named = name_in_subquery(subquery, given)?;
        return Ok(named.update_data(LogicalPlan::Subquery));
    }
    node.map_expressions(|expr| {
        expr.transform_up(|expr| match expr {
            Expr::Exists(Exists { subquery, negated }) => {
                let named = name_in_subquery(subquery, given)?;
                Ok(named.update_data(|subquery| Expr::Exists(Exists { subquery, negated })))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let named = name_in_subquery(subquery, given)?;
                Ok(named.update_data(|subquery| {
                    Expr::InSubquery(InSubquery { expr, subquery, negated })
                }))
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let named = name_in_subquery(subquery, given)?;
                Ok(named.update_data(|subquery| {
                    Expr::SetComparison(SetComparison { expr, subquery, op, quantifier })
                }))
            }
            Expr::ScalarSubquery(subquery) => {
                Ok(name_in_subquery(subquery, given)?.update_data(Expr::ScalarSubquery))
            }
            expr => Ok(Transformed::no(expr)),
        })
    })
}

fn name_in_subquery(subquery: Subquery, given: &mut usize) -> Result<Transformed<Subquery>> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(Transformed::no(subquery));
    }
    let names = names(&subquery.subquery, given)?;
    if names.is_empty() {
        return Ok(Transformed::no(subquery));
    }
    let plan = Arc::unwrap_or_clone(subquery.subquery);
    let schema = Arc::clone(plan.schema());
    let named = plan.transform_down(|node| rename(node, &names))?.data;
    let named = named.transform_up(|node| node.recompute_schema().map(Transformed::yes))?.data;
    let named = match named.schema().fields().len() == schema.fields().len() {
        true => named,
        // No projection stands between the table and the subquery's result.
        false => {
            let columns = schema.iter().map(Expr::from).collect();
            LogicalPlan::Projection(Projection::try_new(columns, Arc::new(named))?)
        }
    };
    Ok(Transformed::yes(Subquery { subquery: Arc::new(named), ..subquery }))
}

/// The ambiguous columns of the correlated conditions of `plan`, with their new names. `given`
/// counts the names given in the whole statement.
fn names(plan: &LogicalPlan, given: &mut usize) -> Result<BTreeMap<Column, String>> {
    let mut correlated = BTreeSet::new();
    plan.apply(|node| {
        if let LogicalPlan::Filter(_) | LogicalPlan::Join(_) = node {
            node.apply_expressions(|expr| {
                let parts = split_conjunction(expr).into_iter();
                for part in parts.filter(|part| part.contains_outer()) {
                    correlated.extend(part.column_refs().into_iter().cloned());
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let returned = plan.schema().columns();
    let is_shared = |column: &&Column| {
        let others = correlated.iter().chain(&returned);
        column.relation.is_some()
            && others.into_iter().any(|other| other.name == column.name && other != *column)
    };
    let named = correlated.iter().filter(is_shared).map(|column| {
        *given += 1;
        (column.clone(), format!("__{}_{given}", column.name))
    });
    Ok(named.collect())
}

/// Adds columns of the new names to a table, or uses these columns in a correlated condition.
fn rename(node: LogicalPlan, names: &BTreeMap<Column, String>) -> Result<Transformed<LogicalPlan>> {
    match &node {
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::TableScan(_) => {
            let schema = node.schema();
            let own = names.iter().filter(|(column, _)| schema.has_column(column));
            let own: Vec<Expr> = own
                .map(|(column, name)| {
                    Expr::Column(column.clone()).alias_qualified(column.relation.clone(), name)
                })
                .collect();
            if own.is_empty() {
                return Ok(Transformed::no(node));
            }
            let columns = schema.iter().map(Expr::from).chain(own).collect();
            let named = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(node))?);
            Ok(Transformed::new(named, true, TreeNodeRecursion::Jump))
        }
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) => node.map_expressions(|expr| {
            if !expr.contains_outer() {
                return Ok(Transformed::no(expr));
            }
            let parts = split_conjunction_owned(expr).into_iter();
            let parts = parts.map(|part| match part.contains_outer() {
                true => Ok(by_new_names(part, names)?.data),
                false => Ok(part),
            });
            let all = conjunction(parts.collect::<Result<Vec<_>>>()?);
            Ok(Transformed::yes(all.unwrap_or_default()))
        }),
        _ => Ok(Transformed::no(node)),
    }
}

fn by_new_names(expr: Expr, names: &BTreeMap<Column, String>) -> Result<Transformed<Expr>> {
    expr.transform(|expr| match expr {
        Expr::Column(column) => Ok(match names.get(&column) {
            Some(name) => Transformed::yes(Expr::Column(Column::new(column.relation, name))),
            None => Transformed::no(Expr::Column(column)),
        }),
        expr => Ok(Transformed::no(expr)),
    })
}

//! Rewrite of a logical plan for enums: derives the enum of each column from the tables up, and
//! rewrites the expressions over them.

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, JoinType, Result};
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{DistinctOn, TableScan, Unnest};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Distinct, DmlStatement, Expr, LogicalPlan, Subquery, Union};
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;

use super::comparison::{self, ordered};
use super::field::{enum_of, list_enum_of};
use super::kinds::{Kind, Rows, Scopes, is_null, merged, text_of, with_texts};
use super::names::{of_field, snapshot_of};
use crate::file_tables::is_of_files;

/// Rewrites a plan so that casts, comparisons and orders of enums have their semantics. Must be
/// applied before types are coerced.
///
/// # Errors
/// For a text that is no label, and for an operation that enums do not have.
pub(in crate::session) fn rewrite(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    match snapshot_of(state) {
        None => Ok(plan),
        Some(snapshot) => {
            let mut rewriter = Rewriter { snapshot: &snapshot.0, scopes: Scopes::default() };
            Ok(rewriter.plan(plan)?.0.data)
        }
    }
}

/// Rewrites an expression over rows of `schema` as [`rewrite`] does a plan.
///
/// # Errors
/// As [`rewrite`].
pub(in crate::session) fn rewrite_expr(
    state: &SessionState,
    expr: Expr,
    schema: &DFSchema,
) -> Result<Expr> {
    let Some(snapshot) = snapshot_of(state) else { return Ok(expr) };
    let mut rewriter = Rewriter { snapshot: &snapshot.0, scopes: Scopes::default() };
    let kinds = schema.fields().iter().map(|field| rewriter.of_field(field));
    let kinds = kinds.collect::<Result<_>>()?;
    rewriter.scopes.rows.push(Rows { schema: Arc::new(schema.clone()), kinds, target: vec![] });
    Ok(rewriter.expr(expr)?.data)
}

/// Schema and name of the enum of each of a plan's columns, or of the elements of a column of
/// lists; `None` for columns of other types.
///
/// # Errors
/// As [`rewrite`].
pub(in crate::session) fn columns_of(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<Vec<Option<(String, String)>>> {
    let Some(snapshot) = snapshot_of(state) else {
        return Ok(vec![None; plan.schema().fields().len()]);
    };
    let mut rewriter = Rewriter { snapshot: &snapshot.0, scopes: Scopes::default() };
    let (_, kinds) = rewriter.plan(plan.clone())?;
    let id = |kind: Option<Kind>| match kind {
        Some(Kind::Value(of) | Kind::List(of)) => Some((of.schema.clone(), of.name.clone())),
        None => None,
    };
    Ok(kinds.into_iter().map(id).collect())
}

type Kinds = Vec<Option<Kind>>;

struct Rewriter<'a> {
    snapshot: &'a Snapshot,
    scopes: Scopes,
}

impl Rewriter<'_> {
    fn of_field(&self, field: &Field) -> Result<Option<Kind>> {
        of_field(self.snapshot, field)
    }

    /// Rewrites a plan, and returns the enums of its columns.
    fn plan(&mut self, plan: LogicalPlan) -> Result<(Transformed<LogicalPlan>, Kinds)> {
        let mut inputs = Vec::new();
        let plan = plan.map_children(|child| {
            let (child, kinds) = self.plan(child)?;
            let schema = Arc::clone(child.data.schema());
            inputs.push(Rows { schema, kinds, target: vec![] });
            Ok(child)
        })?;
        let below_is_changed = plan.transformed;
        let plan = plan.data;
        let rows = match &plan {
            LogicalPlan::TableScan(scan) => self.of_table(scan)?,
            LogicalPlan::Dml(change) => {
                Rows { target: self.of_target(change)?, ..joined(&inputs)? }
            }
            _ => joined(&inputs)?,
        };
        self.scopes.rows.push(rows);
        let rewritten = self.expressions(plan).and_then(|plan| {
            let is_changed = plan.transformed || below_is_changed;
            let plan = if is_changed { plan.data.recompute_schema()? } else { plan.data };
            let kinds = self.kinds(&plan, &inputs)?;
            Ok((Transformed::new_transformed(plan, is_changed), kinds))
        });
        self.scopes.rows.pop();
        rewritten
    }

    /// Rewrites the expressions of a node.
    fn expressions(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let names = NamePreserver::new(&plan);
        let is_sort = matches!(plan, LogicalPlan::Sort(_));
        let plan = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = self.expr(expr)?;
            let is_named = expr.transformed && !is_sort;
            Ok(if is_named { expr.update_data(|expr| name.restore(expr)) } else { expr })
        })?;
        plan.transform_data(|plan| match plan {
            LogicalPlan::Sort(mut sort) => {
                let is_changed = ordered(&mut sort.expr, &self.scopes);
                Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed))
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => of_distinct(distinct, &self.scopes),
            plan => Ok(Transformed::no(plan)),
        })
    }

    /// Rewrites an expression over the innermost rows.
    fn expr(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        expr.transform_up(|expr| {
            let expr = self.with_subquery(expr)?;
            if !comparison::concerns(&expr.data) {
                return Ok(expr);
            }
            let find = |field: &Field| of_field(self.snapshot, field);
            expr.transform_data(|expr| {
                let before = expr.clone();
                let expr = comparison::rewrite(expr, &self.scopes, &find)?;
                let is_changed = expr != before;
                Ok(Transformed::new_transformed(expr, is_changed))
            })
        })
    }

    /// Rewrites the subquery of an expression that is one.
    fn with_subquery(&mut self, mut expr: Expr) -> Result<Transformed<Expr>> {
        let subquery = match &mut expr {
            Expr::ScalarSubquery(subquery) => subquery,
            Expr::Exists(exists) => &mut exists.subquery,
            Expr::InSubquery(membership) => &mut membership.subquery,
            Expr::SetComparison(comparison) => &mut comparison.subquery,
            _ => return Ok(Transformed::no(expr)),
        };
        let (plan, kinds) = self.plan(subquery.subquery.as_ref().clone())?;
        let is_changed = plan.transformed;
        let plan = match is_changed {
            true => Arc::new(plan.data),
            false => Arc::clone(&subquery.subquery),
        };
        self.scopes.subqueries.push((Arc::clone(&plan), kinds.into_iter().next().flatten()));
        *subquery = subquery.with_plan(plan);
        Ok(Transformed::new_transformed(expr, is_changed))
    }

    /// All columns of a scanned table, also those that its projection leaves out, and their enums.
    fn of_table(&self, scan: &TableScan) -> Result<Rows> {
        let schema = scan.source.schema();
        let is_of_files =
            source_as_provider(&scan.source).is_ok_and(|table| is_of_files(table.as_ref()));
        let kinds = schema.fields().iter().map(|field| match is_of_files {
            true => Ok(None),
            false => self.of_field(field),
        });
        let kinds = kinds.collect::<Result<_>>()?;
        let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &schema)?;
        Ok(Rows { schema: Arc::new(schema), kinds, target: vec![] })
    }

    /// The columns of an enum in the target table of a change, by name.
    fn of_target(&self, change: &DmlStatement) -> Result<Vec<(String, Kind)>> {
        let mut columns = Vec::new();
        for field in change.target.schema().fields() {
            columns.extend(self.of_field(field)?.map(|kind| (field.name().clone(), kind)));
        }
        Ok(columns)
    }

    /// The enums of the columns that a node returns.
    fn kinds(&self, plan: &LogicalPlan, inputs: &[Rows]) -> Result<Kinds> {
        let of =
            |exprs: &[Expr]| exprs.iter().map(|expr| self.scopes.kind(expr)).collect::<Kinds>();
        let first = || inputs.first().map_or_else(Vec::new, |rows| rows.kinds.clone());
        let kinds = match plan {
            LogicalPlan::TableScan(scan) => self.of_scan(scan),
            LogicalPlan::Projection(projection) => of(&projection.expr),
            LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Subquery(Subquery { .. })
            | LogicalPlan::RecursiveQuery(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => first(),
            LogicalPlan::Distinct(Distinct::On(DistinctOn { select_expr, .. })) => of(select_expr),
            LogicalPlan::Aggregate(aggregate) => {
                let groups = grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter();
                let mut kinds: Kinds = groups.map(|expr| self.scopes.kind(expr)).collect();
                let calls = of(&aggregate.aggr_expr);
                let fields = aggregate.schema.fields().len();
                kinds.resize(fields.saturating_sub(calls.len()), None);
                kinds.extend(calls);
                kinds
            }
            LogicalPlan::Window(window) => {
                let mut kinds = first();
                kinds.extend(of(&window.window_expr));
                kinds
            }
            LogicalPlan::Join(join) => of_join(join.join_type, inputs),
            LogicalPlan::Union(union) => {
                let columns = 0..union.schema.fields().len();
                columns.map(|place| of_union(union, inputs, place)).collect()
            }
            LogicalPlan::Values(values) => {
                let columns = 0..values.schema.fields().len();
                let rows = || values.values.iter();
                let kind =
                    |place: usize| self.scopes.common(rows().filter_map(move |row| row.get(place)));
                columns.map(kind).collect()
            }
            LogicalPlan::Unnest(unnest) => of_unnest(unnest, inputs),
            plan => by_name(plan.schema(), inputs),
        };
        let mut kinds = kinds;
        kinds.resize(plan.schema().fields().len(), None);
        Ok(kinds)
    }

    fn of_scan(&self, scan: &TableScan) -> Kinds {
        let all = self.scopes.rows.last().map_or_else(Vec::new, |rows| rows.kinds.clone());
        match &scan.projection {
            None => all,
            Some(columns) => {
                columns.iter().map(|column| all.get(*column).cloned().flatten()).collect()
            }
        }
    }
}

/// Replaces enums by ranks in the keys of a DISTINCT ON and in its sort keys, which have to begin
/// with the same expressions.
fn of_distinct(distinct: DistinctOn, scopes: &Scopes) -> Result<Transformed<LogicalPlan>> {
    let DistinctOn { on_expr, select_expr, sort_expr, input, .. } = distinct;
    let mut groups: Vec<_> = on_expr.into_iter().map(|expr| expr.sort(true, false)).collect();
    let mut keys = sort_expr;
    let mut is_changed = ordered(&mut groups, scopes);
    if let Some(keys) = &mut keys {
        is_changed |= ordered(keys, scopes);
    }
    let groups = groups.into_iter().map(|key| key.expr).collect();
    let distinct = DistinctOn::try_new(groups, select_expr, keys, input)?;
    let plan = LogicalPlan::Distinct(Distinct::On(distinct));
    Ok(Transformed::new_transformed(plan, is_changed))
}

/// The columns of all inputs of a node, as one schema.
fn joined(inputs: &[Rows]) -> Result<Rows> {
    let mut schema = DFSchema::empty();
    let mut kinds = Vec::new();
    for rows in inputs {
        // Columns of one name are found in the first input, as in DataFusion's own rewrites.
        let known = schema.fields().len();
        schema.merge(&rows.schema);
        let is_whole = schema.fields().len() == known + rows.schema.fields().len();
        match is_whole {
            true => kinds.extend(rows.kinds.iter().cloned()),
            false => {
                let added = schema.iter().skip(known);
                let added = added.map(|(qualifier, field)| {
                    let place = rows.schema.index_of_column_by_name(qualifier, field.name());
                    place.and_then(|place| rows.kinds.get(place).cloned().flatten())
                });
                kinds.extend(added.collect::<Vec<_>>());
            }
        }
    }
    Ok(Rows { schema: Arc::new(schema), kinds, target: vec![] })
}

fn of_join(join: JoinType, inputs: &[Rows]) -> Kinds {
    let [left, right] = inputs else { return vec![] };
    let (left, right) = (left.kinds.iter().cloned(), right.kinds.iter().cloned());
    match join {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => left.collect(),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right.collect(),
        _ => left.chain(right).collect(),
    }
}

/// The enum of a column of a union, in which a literal text is of the enum of the other inputs.
fn of_union(union: &Union, inputs: &[Rows], place: usize) -> Option<Kind> {
    let (mut kinds, mut texts) = (Vec::new(), Vec::new());
    for (input, rows) in union.inputs.iter().zip(inputs) {
        let expr = match input.as_ref() {
            LogicalPlan::Projection(projection) => projection.expr.get(place),
            _ => None,
        };
        let expr = expr.map(|expr| expr.clone().unalias());
        match expr.as_ref().map(|expr| (is_null(expr), text_of(expr))) {
            Some((true, _)) => {}
            Some((_, Some(text))) => texts.push(text.to_owned()),
            _ => kinds.push(rows.kinds.get(place).cloned().flatten()),
        }
    }
    with_texts(merged(kinds.into_iter())?, texts.iter().map(String::as_str))
}

fn of_unnest(unnest: &Unnest, inputs: &[Rows]) -> Kinds {
    let Some(rows) = inputs.first() else { return vec![] };
    let is_list = |place: usize| unnest.list_type_columns.iter().any(|(list, _)| *list == place);
    let kind = |place: &usize| match rows.kinds.get(*place).cloned().flatten() {
        Some(Kind::List(of)) if is_list(*place) => Some(Kind::Value(of)),
        kind => kind,
    };
    unnest.dependency_indices.iter().map(kind).collect()
}

/// The enums of a node's columns, taken from the columns of the same names in its inputs.
fn by_name(schema: &DFSchema, inputs: &[Rows]) -> Kinds {
    let kind = |(qualifier, field): (Option<&datafusion::common::TableReference>, &Arc<Field>)| {
        inputs.iter().find_map(|rows| {
            let place = rows.schema.index_of_column_by_name(qualifier, field.name())?;
            rows.kinds.get(place).cloned().flatten()
        })
    };
    schema.iter().map(kind).collect()
}

/// The enum of a column of a table, or of the elements of its lists; `None` for a column of another
/// type.
///
/// # Errors
/// If the type has been dropped.
pub(super) fn of_column(state: &SessionState, field: &Field) -> Result<Option<Kind>> {
    match snapshot_of(state) {
        Some(snapshot) => of_field(&snapshot.0, field),
        None => match enum_of(field).or_else(|| list_enum_of(field)) {
            None => Ok(None),
            Some((schema, name)) => {
                Err(SqlError::Missing { name: format!("type {schema}.{name}") }.into())
            }
        },
    }
}

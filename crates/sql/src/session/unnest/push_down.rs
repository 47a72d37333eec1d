//! Push-down of a domain into a subquery, to the plans below which no outer reference is left.

mod groups;
mod joins;
mod limits;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, DFSchema, Result, TableReference, not_impl_err};
use datafusion::logical_expr::logical_plan::{
    Distinct, DistinctOn, EmptyRelation, Filter, SubqueryAlias, Union, Unnest, Values, Window,
};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr};

use super::domain::Domain;
use super::fields::{self, Names};

/// A plan whose rows belong to rows of a domain.
pub(super) struct Pushed {
    /// Returns the fields of the plan before, in the same order, and more after them.
    pub(super) plan: LogicalPlan,
    /// The columns of the domain.
    pub(super) keys: Vec<Column>,
}

/// Returns the rows of a plan for each row of a domain. References to the outer columns of the
/// domain become references to its columns; references to other outer columns stay.
///
/// # Errors
/// Names the construct for which there is no such plan.
pub(super) fn push_down(plan: LogicalPlan, domain: &Domain, names: &mut Names) -> Result<Pushed> {
    PushDown { domain, names }.plan(plan)
}

struct PushDown<'a> {
    domain: &'a Domain,
    names: &'a mut Names,
}

impl PushDown<'_> {
    fn plan(&mut self, plan: LogicalPlan) -> Result<Pushed> {
        if self.domain.is_empty() {
            return Ok(Pushed { plan, keys: Vec::new() });
        }
        if !self.is_named_in(&plan) {
            return self.crossed(plan);
        }
        match plan {
            LogicalPlan::Projection(projection) => {
                let input = self.plan(Arc::unwrap_or_clone(projection.input))?;
                self.projection(projection.expr, &projection.schema, input, None)
            }
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Subquery(subquery) => self.plan(Arc::unwrap_or_clone(subquery.subquery)),
            LogicalPlan::SubqueryAlias(alias) => {
                let input = self.plan(Arc::unwrap_or_clone(alias.input))?;
                aliased(input, alias.alias.clone())
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Pushed { plan, keys } = self.plan(Arc::unwrap_or_clone(input))?;
                Ok(Pushed { plan: LogicalPlan::Distinct(Distinct::All(Arc::new(plan))), keys })
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => self.distinct_on(distinct),
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                // The order of rows is lost in the joins above. A LIMIT keeps it itself.
                self.plan(Arc::unwrap_or_clone(sort.input))
            }
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Values(values) => self.values(values),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            LogicalPlan::RecursiveQuery(query) => not_impl_err!(
                "WITH RECURSIVE {} in a subquery that names columns of the outer query; write the \
                 recursion for all values of these columns, and join it",
                query.name
            ),
            other => not_impl_err!(
                "a subquery that names columns of the outer query in or below {}",
                other.display()
            ),
        }
    }

    /// Combines every row of a plan with every row of the domain. Conditions that follow are pushed
    /// into the join.
    fn crossed(&mut self, plan: LogicalPlan) -> Result<Pushed> {
        let (rows, keys) = (self.domain.rows(), self.domain.columns());
        let plan = match plan {
            LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema })
                if schema.fields().is_empty() =>
            {
                rows
            }
            plan => LogicalPlanBuilder::from(plan).cross_join(rows)?.build()?,
        };
        Ok(Pushed { plan, keys })
    }

    /// True if a plan names outer columns of the domain.
    fn is_named_in(&self, plan: &LogicalPlan) -> bool {
        plan.all_out_ref_exprs().iter().any(|expr| self.is_of_domain(expr))
    }

    fn is_of_domain(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::OuterReferenceColumn(_, column)
            if self.domain.place_of(column).is_some())
    }

    /// Replaces references to outer columns of the domain by columns of a plan below.
    fn bind(&self, expr: Expr, keys: &[Column]) -> Result<Expr> {
        let bound = expr.transform_up(|expr| match expr {
            Expr::OuterReferenceColumn(field, column) => Ok(match self.domain.place_of(&column) {
                Some(place) => Transformed::yes(Expr::Column(keys[place].clone())),
                None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            }),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(bound.data)
    }

    fn bind_all(&self, exprs: Vec<Expr>, keys: &[Column]) -> Result<Vec<Expr>> {
        exprs.into_iter().map(|expr| self.bind(expr, keys)).collect()
    }

    fn bind_sorts(&self, sorts: Vec<SortExpr>, keys: &[Column]) -> Result<Vec<SortExpr>> {
        let sorts = sorts.into_iter();
        sorts.map(|sort| Ok(SortExpr { expr: self.bind(sort.expr, keys)?, ..sort })).collect()
    }

    /// A projection of `exprs`, the domain's columns, and the column `passed` if there is one.
    fn projection(
        &self,
        exprs: Vec<Expr>,
        schema: &DFSchema,
        input: Pushed,
        passed: Option<&Column>,
    ) -> Result<Pushed> {
        let Pushed { plan, keys } = input;
        let exprs = self.bind_all(exprs, &keys)?;
        let extras = keys.iter().chain(passed).cloned().map(Expr::Column);
        let plan = fields::project(plan, exprs, schema, extras)?;
        Ok(Pushed { plan, keys })
    }

    fn filter(&mut self, filter: Filter) -> Result<Pushed> {
        let Pushed { plan, keys } = self.plan(Arc::unwrap_or_clone(filter.input))?;
        let predicate = self.bind(filter.predicate, &keys)?;
        let filter = Filter::try_new(predicate, Arc::new(plan))?;
        Ok(Pushed { plan: LogicalPlan::Filter(filter), keys })
    }

    /// DISTINCT ON per row of the domain.
    fn distinct_on(&mut self, distinct: DistinctOn) -> Result<Pushed> {
        let Pushed { plan, keys } = self.plan(Arc::unwrap_or_clone(distinct.input))?;
        let columns: Vec<_> = keys.iter().cloned().map(Expr::Column).collect();
        let on = columns.iter().cloned().chain(self.bind_all(distinct.on_expr, &keys)?);
        let select = self.bind_all(distinct.select_expr, &keys)?.into_iter();
        let select: Vec<_> = select.chain(columns.iter().cloned()).collect();
        let sort = match distinct.sort_expr {
            Some(sort) => {
                let first = columns.iter().map(|column| column.clone().sort(true, false));
                Some(first.chain(self.bind_sorts(sort, &keys)?).collect())
            }
            None => None,
        };
        let chosen = DistinctOn::try_new(on.collect(), select, sort, Arc::new(plan))?;
        let plan = LogicalPlan::Distinct(Distinct::On(chosen));
        let own = plan.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
        let extras = own[distinct.schema.fields().len()..].to_vec();
        let plan = fields::project(plan, own, &distinct.schema, extras)?;
        Ok(Pushed { plan, keys })
    }

    /// Windows over the rows of each row of the domain.
    fn window(&mut self, window: Window) -> Result<Pushed> {
        let width = window.input.schema().fields().len();
        let Pushed { plan, keys } = self.plan(Arc::unwrap_or_clone(window.input))?;
        let exprs = self.bind_all(window.window_expr, &keys)?.into_iter();
        let exprs = exprs.map(|expr| partitioned(expr, &keys)).collect::<Result<Vec<_>>>()?;
        let below = plan.schema().fields().len();
        let windows = LogicalPlan::Window(Window::try_new(exprs, Arc::new(plan))?);
        let columns = windows.schema().columns().into_iter().enumerate();
        let own = columns.filter(|(place, _)| !(width..below).contains(place));
        let columns: Vec<_> = own.map(|(_, column)| Expr::Column(column)).collect();
        let extras = keys.iter().cloned().map(Expr::Column);
        let plan = fields::project(windows, columns, &window.schema, extras)?;
        Ok(Pushed { plan, keys })
    }

    fn union(&mut self, union: Union) -> Result<Pushed> {
        let width = union.schema.fields().len();
        let keys: Vec<_> = (0..self.domain.width()).map(|_| self.names.next("key")).collect();
        let keys: Vec<_> = keys.into_iter().map(Column::new_unqualified).collect();
        let inputs = union.inputs.into_iter().map(|input| {
            let schema = Arc::clone(input.schema());
            let pushed = self.plan(Arc::unwrap_or_clone(input))?;
            let own = pushed.keys.into_iter().zip(&keys);
            let own = own.map(|(column, key)| Expr::Column(column).alias(&key.name));
            fields::restore(pushed.plan, &schema, own).map(Arc::new)
        });
        let union_of = Union::try_new_with_loose_types(inputs.collect::<Result<Vec<_>>>()?)?;
        let plan = LogicalPlan::Union(union_of);
        let columns: Vec<_> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let extras: Vec<_> = columns.iter().skip(width).cloned().collect();
        let plan = fields::project(plan, columns, &union.schema, extras)?;
        Ok(Pushed { plan, keys })
    }

    /// The rows of VALUES, each a projection of the domain.
    fn values(&mut self, values: Values) -> Result<Pushed> {
        let keys = self.domain.columns();
        let row = |row: Vec<Expr>| {
            let row = self.bind_all(row, &keys)?;
            let extras = keys.iter().cloned().map(Expr::Column);
            fields::project(self.domain.rows(), row, &values.schema, extras)
        };
        let plan = fields::union(values.values.into_iter().map(row).collect::<Result<_>>()?)?;
        Ok(Pushed { plan, keys })
    }

    fn unnest(&mut self, unnest: Unnest) -> Result<Pushed> {
        let Pushed { plan, keys } = self.plan(Arc::unwrap_or_clone(unnest.input))?;
        let plan = LogicalPlanBuilder::from(plan)
            .unnest_columns_with_options(unnest.exec_columns, unnest.options)?
            .build()?;
        Ok(Pushed { plan, keys })
    }
}

/// The plan under an alias, which the domain's columns get too.
fn aliased(input: Pushed, alias: TableReference) -> Result<Pushed> {
    let keys = input.keys.into_iter();
    let keys = keys.map(|key| Column::new(Some(alias.clone()), key.name)).collect();
    let plan = SubqueryAlias::try_new(Arc::new(input.plan), alias)?;
    Ok(Pushed { plan: LogicalPlan::SubqueryAlias(plan), keys })
}

/// A window function over partitions by the domain's columns as well.
fn partitioned(expr: Expr, keys: &[Column]) -> Result<Expr> {
    let partitioned = expr.transform_up(|expr| match expr {
        Expr::WindowFunction(mut call) => {
            let keys = keys.iter().cloned().map(Expr::Column);
            call.params.partition_by.splice(0..0, keys);
            Ok(Transformed::yes(Expr::WindowFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(partitioned.data)
}

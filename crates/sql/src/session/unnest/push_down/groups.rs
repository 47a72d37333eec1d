//! Aggregations of a subquery, per row of its domain.

use std::sync::Arc;

use datafusion::common::{Column, Result, ScalarValue, internal_datafusion_err, not_impl_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::logical_plan::{Aggregate, Projection};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Expr, GroupingSet, JoinType, LogicalPlan, lit};

use super::{PushDown, Pushed};
use crate::session::unnest::fields::{self, columns_of, named, same};

/// A result column of an aggregation, and its value for an empty input; `None` if that is null.
struct Value {
    column: Expr,
    default: Option<ScalarValue>,
}

impl PushDown<'_> {
    /// Groups by the domain's columns as well. The group of all rows, which exists even without
    /// rows, is restored for those rows of the domain that have none.
    pub(super) fn aggregate(&mut self, aggregate: Aggregate) -> Result<Pushed> {
        let fields = columns_of(&aggregate.schema);
        let is_of_all_rows = aggregate.group_expr.is_empty();
        let Pushed { plan, keys } = self.plan(Arc::unwrap_or_clone(aggregate.input))?;
        let of_domain: Vec<_> = keys.iter().cloned().map(Expr::Column).collect();
        let listed = grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned();
        let listed = self.bind_all(listed.collect(), &keys)?;
        let groups = self.bind_all(aggregate.group_expr, &keys)?.into_iter();
        let groups = groups.filter(|group| !of_domain.contains(group));
        let groups = of_domain.iter().cloned().chain(groups).collect();
        let aggregates = self.bind_all(aggregate.aggr_expr, &keys)?;
        let grouped = Aggregate::try_new(Arc::new(plan), groups, aggregates)?;
        let all = match grouped.group_expr.as_slice() {
            [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => {
                sets.iter().filter(|set| set.len() == keys.len()).count()
            }
            _ => usize::from(is_of_all_rows),
        };
        let values = values(&grouped, &listed)?;
        match all {
            0 => {
                let values = values.into_iter().map(|value| value.column).collect();
                let exprs = renamed(values, &fields).into_iter().chain(of_domain).collect();
                let input = Arc::new(LogicalPlan::Aggregate(grouped));
                let plan = LogicalPlan::Projection(Projection::try_new(exprs, input)?);
                Ok(Pushed { plan, keys })
            }
            1 => self.for_each_row(LogicalPlan::Aggregate(grouped), of_domain, values, &fields),
            _ => not_impl_err!(
                "the grouping set () more than once in a subquery that names columns of the outer \
                 query below it; write the sets as UNION ALL"
            ),
        }
    }

    /// Groups of all rows, with the aggregates of no rows where a row of the domain has no group.
    fn for_each_row(
        &mut self,
        grouped: LogicalPlan,
        keys: Vec<Expr>,
        values: Vec<Value>,
        fields: &[Column],
    ) -> Result<Pushed> {
        let own: Vec<_> = keys.iter().map(|_| self.names.next("key")).collect();
        let groups: Vec<_> = values.iter().map(|_| self.names.next("group")).collect();
        let columns = values.iter().map(|value| value.column.clone()).zip(&groups);
        let columns = columns.chain(keys.into_iter().zip(&own));
        let columns = columns.map(|(expr, name)| expr.alias(name)).collect();
        let right = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(grouped))?);
        let keys = self.domain.columns();
        let of_domain = keys.iter().cloned().map(Expr::Column);
        let conditions = same(of_domain.clone(), own.iter().map(|name| named(name)));
        let plan = fields::join(self.domain.rows(), right, JoinType::Left, conditions)?;
        let values = groups.iter().zip(values).map(|(name, value)| match value.default {
            Some(default) => coalesce(vec![named(name), lit(default)]),
            None => named(name),
        });
        let exprs = renamed(values.collect(), fields).into_iter().chain(of_domain).collect();
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?);
        Ok(Pushed { plan, keys })
    }
}

/// Gives expressions the names of columns.
fn renamed(exprs: Vec<Expr>, columns: &[Column]) -> Vec<Expr> {
    let pairs = exprs.into_iter().zip(columns);
    pairs.map(|(expr, it)| expr.alias_qualified(it.relation.clone(), &it.name)).collect()
}

/// The columns of the keys `listed` and of the aggregates.
fn values(grouped: &Aggregate, listed: &[Expr]) -> Result<Vec<Value>> {
    let keys = grouping_set_to_exprlist(&grouped.group_expr)?;
    let columns = grouped.schema.columns();
    let of_keys = listed.iter().map(|key| {
        let place = keys.iter().position(|it| *it == key);
        let place =
            place.ok_or_else(|| internal_datafusion_err!("{key} is no key of its group"))?;
        Ok(Value { column: Expr::Column(columns[place].clone()), default: None })
    });
    let first = columns.len() - grouped.aggr_expr.len();
    let of_aggregates = grouped.aggr_expr.iter().enumerate().map(|(number, expr)| {
        let place = first + number;
        let column = Expr::Column(columns[place].clone());
        let default = match expr.clone().unalias() {
            Expr::AggregateFunction(call) if call.func.name() == "grouping" => {
                // The set () has none of its arguments.
                Some(ScalarValue::Int32(Some((1 << call.params.args.len().min(30)) - 1)))
            }
            Expr::AggregateFunction(call) => {
                let kind = grouped.schema.field(place).data_type();
                Some(call.func.default_value(kind)?).filter(|value| !value.is_null())
            }
            _ => None,
        };
        Ok(Value { column, default })
    });
    of_keys.chain(of_aggregates).collect()
}

//! LIMIT and OFFSET of a subquery, per row of its domain.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, Result};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::logical_plan::{Filter, Limit};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt as _, FetchType, LogicalPlan, LogicalPlanBuilder, SkipType, SortExpr,
    cast, lit,
};

use super::{PushDown, Pushed, aliased};
use crate::session::unnest::fields;

impl PushDown<'_> {
    /// Numbers the rows of each row of the domain, and keeps those between the bounds.
    pub(super) fn limit(&mut self, limit: Limit) -> Result<Pushed> {
        let bounds = (limit.get_skip_type()?, limit.get_fetch_type()?);
        if let (SkipType::Literal(0), FetchType::Literal(None)) = bounds {
            return self.plan(Arc::unwrap_or_clone(limit.input));
        }
        let schema = Arc::clone(limit.input.schema());
        let (Pushed { plan, keys }, number) = self.numbered(Arc::unwrap_or_clone(limit.input))?;
        let number = cast(Expr::Column(number), DataType::Int64);
        let skip = limit.skip.map(|skip| *skip);
        let fetch = limit.fetch.map(|fetch| *fetch);
        let after = match (bounds.0, skip) {
            (SkipType::Literal(0), _) | (_, None) => None,
            (SkipType::Literal(skip), _) => Some(literal(skip)),
            (SkipType::UnsupportedExpr, Some(skip)) => {
                Some(cast(self.bind(skip, &keys)?, DataType::Int64))
            }
        };
        let until = match (bounds.1, fetch) {
            (FetchType::Literal(None), _) | (_, None) => None,
            (FetchType::Literal(Some(fetch)), _) => Some(literal(fetch)),
            (FetchType::UnsupportedExpr, Some(fetch)) => {
                Some(cast(self.bind(fetch, &keys)?, DataType::Int64))
            }
        };
        let place = match &after {
            Some(after) => number.clone() - after.clone(),
            None => number.clone(),
        };
        let conditions = [after.map(|it| number.gt(it)), until.map(|it| place.lt_eq(it))];
        let plan = match conjunction(conditions.into_iter().flatten()) {
            Some(kept) => LogicalPlan::Filter(Filter::try_new(kept, Arc::new(plan))?),
            None => plan,
        };
        let extras = keys.iter().cloned().map(Expr::Column);
        Ok(Pushed { plan: fields::restore(plan, &schema, extras)?, keys })
    }

    /// A plan with the number of each row among those of its row of the domain, in the order of the
    /// plan's rows.
    fn numbered(&mut self, plan: LogicalPlan) -> Result<(Pushed, Column)> {
        match plan {
            LogicalPlan::Projection(projection) => {
                let (input, number) = self.numbered(Arc::unwrap_or_clone(projection.input))?;
                let schema = &projection.schema;
                let pushed = self.projection(projection.expr, schema, input, Some(&number))?;
                Ok((pushed, number))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let (input, number) = self.numbered(Arc::unwrap_or_clone(alias.input))?;
                let number = Column::new(Some(alias.alias.clone()), number.name);
                Ok((aliased(input, alias.alias)?, number))
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let input = self.plan(Arc::unwrap_or_clone(sort.input))?;
                let order = self.bind_sorts(sort.expr, &input.keys)?;
                self.numbered_by(input, order)
            }
            plan => {
                let input = self.plan(plan)?;
                self.numbered_by(input, Vec::new())
            }
        }
    }

    fn numbered_by(&mut self, input: Pushed, order: Vec<SortExpr>) -> Result<(Pushed, Column)> {
        let Pushed { plan, keys } = input;
        let name = self.names.next("number");
        let of_domain = keys.iter().cloned().map(Expr::Column).collect();
        let number = row_number().partition_by(of_domain);
        let number = if order.is_empty() { number } else { number.order_by(order) };
        let number = number.build()?.alias(&name);
        let plan = LogicalPlanBuilder::from(plan).window([number])?.build()?;
        Ok((Pushed { plan, keys }, Column::new_unqualified(name)))
    }
}

fn literal(rows: usize) -> Expr {
    lit(i64::try_from(rows).unwrap_or(i64::MAX))
}

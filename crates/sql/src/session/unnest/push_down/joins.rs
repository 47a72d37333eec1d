//! Joins inside of a subquery, per row of its domain.

use std::sync::Arc;

use datafusion::common::{Column, Result, not_impl_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::logical_plan::{Join, Projection};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan};

use super::{PushDown, Pushed};
use crate::session::unnest::fields::{self, conditions_of, same};

impl PushDown<'_> {
    /// Pushes the domain into the sides that name its columns, and into a side whose unmatched rows
    /// the join keeps. If both sides have it, the join also compares its columns.
    pub(super) fn join(&mut self, join: Join) -> Result<Pushed> {
        let conditions = conditions_of(&join);
        let schema = Arc::clone(&join.schema);
        let join_type = join.join_type;
        let named = (self.is_named_in(&join.left), self.is_named_in(&join.right));
        let into = match join_type {
            JoinType::Inner if named == (false, false) => (true, false),
            JoinType::Inner => named,
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => (true, named.1),
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => (named.0, true),
            JoinType::Full => (true, true),
            JoinType::LeftMark | JoinType::RightMark => {
                return not_impl_err!("a mark join in a subquery");
            }
        };
        if join.null_aware {
            return not_impl_err!("a null-aware join in a subquery");
        }
        let left = self.side(Arc::unwrap_or_clone(join.left), into.0)?;
        let right = self.side(Arc::unwrap_or_clone(join.right), into.1)?;
        let right = if into == (true, true) { self.renamed(right)? } else { right };
        let of_left = left.keys.iter().cloned().map(Expr::Column);
        let of_right = right.keys.iter().cloned().map(Expr::Column);
        let either = if into.0 { &left.keys } else { &right.keys };
        let mut conditions = self.bind_all(conditions, either)?;
        if into == (true, true) {
            conditions.extend(same(of_left.clone(), of_right.clone()));
        }
        let keys = match join_type {
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => right.keys.clone(),
            _ => either.clone(),
        };
        let of_both = of_left.zip(of_right).map(|(left, right)| coalesce(vec![left, right]));
        let of_both: Vec<_> = of_both.collect();
        let plan = fields::join(left.plan, right.plan, join_type, conditions)?;
        if join_type == JoinType::Full {
            let keys: Vec<_> = keys.iter().map(|_| self.names.next("key")).collect();
            let extras = of_both.into_iter().zip(&keys).map(|(expr, name)| expr.alias(name));
            let plan = fields::restore(plan, &schema, extras)?;
            return Ok(Pushed { plan, keys: keys.iter().map(Column::new_unqualified).collect() });
        }
        let extras = keys.iter().cloned().map(Expr::Column);
        Ok(Pushed { plan: fields::restore(plan, &schema, extras)?, keys })
    }

    fn side(&mut self, plan: LogicalPlan, pushes: bool) -> Result<Pushed> {
        match pushes {
            true => self.plan(plan),
            false => Ok(Pushed { plan, keys: Vec::new() }),
        }
    }

    /// The plan with other names for the domain's columns, which the other side of a join has too.
    fn renamed(&mut self, side: Pushed) -> Result<Pushed> {
        let Pushed { plan, keys } = side;
        let names: Vec<_> = keys.iter().map(|_| self.names.next("key")).collect();
        let own = plan.schema().columns().into_iter().map(|column| {
            match keys.iter().position(|key| *key == column) {
                Some(place) => Expr::Column(column).alias(&names[place]),
                None => Expr::Column(column),
            }
        });
        let own = own.collect();
        let plan = Projection::try_new(own, Arc::new(plan))?;
        let keys = names.into_iter().map(Column::new_unqualified).collect();
        Ok(Pushed { plan: LogicalPlan::Projection(plan), keys })
    }
}

//! Planning of inner joins of many inputs.
//!
//! DataFusion's rule `eliminate_cross_join` compares each pair of keys with each pair of inputs,
//! and builds the joins below each join again, so that its time grows with the fourth power of the
//! number of inputs, and nothing can interrupt it. Where a plan joins many inputs, this module does
//! its work: it looks up the input of each side of a key once, and joins the inputs in the same
//! order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{
    Column, DFSchemaRef, JoinConstraint, JoinType, NullEquality, Result, internal_err,
};
use datafusion::logical_expr::logical_plan::{Filter, Join, Projection, build_join_schema};
use datafusion::logical_expr::utils::{can_hash, conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable as _, LogicalPlan, Operator, binary_expr,
};

use super::guards::{has_any, is_join};
use crate::interrupt;

/// Minimum number of inputs for which this module replaces DataFusion's rule.
const INPUTS_MIN: usize = 24;

/// True if a group of nested inner joins in a plan has at least [`INPUTS_MIN`] inputs.
///
/// # Errors
/// If the plan cannot be visited.
pub(super) fn are_in(plan: &LogicalPlan) -> Result<bool> {
    has_any(plan, |node| Ok(inputs(node) >= INPUTS_MIN))
}

/// The number of inputs of a group of nested inner joins; 1 for any other node.
fn inputs(plan: &LogicalPlan) -> usize {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            inputs(&join.left) + inputs(&join.right)
        }
        _ => 1,
    }
}

/// Rebuilds each group of nested inner joins of a plan: joins its inputs by the keys of the joins
/// and the equalities in the filter above them.
///
/// # Errors
/// If a join cannot be built; if the statement is cancelled.
pub(super) fn reordered(plan: LogicalPlan) -> Result<LogicalPlan> {
    interrupt::check()?;
    match plan {
        LogicalPlan::Filter(filter) if inputs(&filter.input) > 1 => {
            let Filter { input, predicate, .. } = filter;
            let conditions = split_conjunction_owned(predicate);
            Group::of(Arc::unwrap_or_clone(input), conditions)?.joined()
        }
        plan @ LogicalPlan::Join(_) if inputs(&plan) > 1 => Group::of(plan, Vec::new())?.joined(),
        plan => {
            let again = |plan| match has_any(&plan, is_join)? {
                true => reordered(plan).map(Transformed::yes),
                false => Ok(Transformed::no(plan)),
            };
            let plan = plan.map_uncorrelated_subqueries(again)?;
            let plan = plan.transform_sibling(|plan| plan.map_children(again))?;
            match plan.transformed {
                true => plan.data.recompute_schema(),
                false => Ok(plan.data),
            }
        }
    }
}

/// A group of nested inner joins, taken apart into inputs and conditions.
struct Group {
    inputs: Vec<LogicalPlan>,
    /// Schema of the original joins.
    schema: DFSchemaRef,
    keys: Vec<Key>,
    /// Conditions of the joins that are no keys.
    filters: Vec<Expr>,
    /// Conditions of the filter above the joins that are no keys.
    conditions: Vec<Expr>,
    null_equality: NullEquality,
}

/// A pair of equal expressions, each with the index of its input.
struct Key {
    sides: [(Expr, usize); 2],
}

impl Group {
    /// Takes the joins of `plan` apart. Equalities among `conditions`, those of the filter above
    /// them, become keys.
    fn of(plan: LogicalPlan, conditions: Vec<Expr>) -> Result<Self> {
        let null_equality = match &plan {
            LogicalPlan::Join(join) => join.null_equality,
            _ => NullEquality::NullEqualsNothing,
        };
        let schema = Arc::clone(plan.schema());
        let (mut inputs, mut pairs, mut filters) = (Vec::new(), Vec::new(), Vec::new());
        flatten(plan, &mut inputs, &mut pairs, &mut filters);
        let places = Places::of(&inputs);
        let (mut keys, mut known) = (Vec::new(), HashSet::new());
        let operator = match null_equality {
            NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
            NullEquality::NullEqualsNothing => Operator::Eq,
        };
        for (left, right) in pairs {
            match places.key(&left, &right) {
                Some(key) => add(key, &mut keys, &mut known),
                None => filters.push(binary_expr(left, operator, right)),
            }
        }
        let mut rest = Vec::new();
        for condition in conditions {
            match places.key_of(&condition, operator)? {
                Some(key) => add(key, &mut keys, &mut known),
                None => rest.push(condition),
            }
        }
        let inputs = inputs.into_iter().map(reordered).collect::<Result<_>>()?;
        Ok(Self { inputs, schema, keys, filters, conditions: rest, null_equality })
    }

    /// Joins the inputs, beginning with the first one. The next one is always the first that has a
    /// key with those already joined, or else the first that is left.
    fn joined(self) -> Result<LogicalPlan> {
        let mut keys_of = vec![Vec::new(); self.inputs.len()];
        for key in &self.keys {
            let [(one, first), (other, second)] = &key.sides;
            keys_of[*first].push((one, *second, other));
            keys_of[*second].push((other, *first, one));
        }
        let mut is_joined = vec![false; self.inputs.len()];
        let mut waiting: Vec<Option<LogicalPlan>> = self.inputs.into_iter().map(Some).collect();
        let mut left: Option<LogicalPlan> = None;
        for _ in 0..waiting.len() {
            interrupt::check()?;
            let open = || (0..waiting.len()).filter(|place| !is_joined[*place]);
            let has_key = |place: &usize| keys_of[*place].iter().any(|key| is_joined[key.1]);
            let Some(place) = open().find(has_key).or_else(|| open().next()) else { break };
            let on = keys_of[place].iter().filter(|(_, other, _)| is_joined[*other]);
            let on = on.map(|(own, _, other)| ((*other).clone(), (*own).clone()));
            let on: Vec<(Expr, Expr)> = on.collect();
            is_joined[place] = true;
            let Some(right) = waiting[place].take() else { continue };
            left = Some(match left {
                None => right,
                Some(left) => join(left, right, on, self.null_equality)?,
            });
        }
        let Some(mut plan) = left else {
            return internal_err!("a join without inputs");
        };
        if self.schema.as_ref() != plan.schema().as_ref() {
            let projection = Projection::new_from_schema(Arc::new(plan), self.schema);
            plan = LogicalPlan::Projection(projection);
        }
        for conditions in [self.filters, self.conditions] {
            if let Some(predicate) = conjunction(conditions) {
                plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?);
            }
        }
        Ok(plan)
    }
}

/// Takes joins apart into their inputs, keys and conditions.
fn flatten(
    plan: LogicalPlan,
    inputs: &mut Vec<LogicalPlan>,
    pairs: &mut Vec<(Expr, Expr)>,
    filters: &mut Vec<Expr>,
) {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            filters.extend(join.filter);
            pairs.extend(join.on);
            flatten(Arc::unwrap_or_clone(join.left), inputs, pairs, filters);
            flatten(Arc::unwrap_or_clone(join.right), inputs, pairs, filters);
        }
        plan => inputs.push(plan),
    }
}

fn add(key: Key, keys: &mut Vec<Key>, known: &mut HashSet<(Expr, Expr)>) {
    let [(one, _), (other, _)] = &key.sides;
    let is_known = known.contains(&(other.clone(), one.clone()));
    if !is_known && known.insert((one.clone(), other.clone())) {
        keys.push(key);
    }
}

fn join(
    left: LogicalPlan,
    right: LogicalPlan,
    on: Vec<(Expr, Expr)>,
    null_equality: NullEquality,
) -> Result<LogicalPlan> {
    let schema = build_join_schema(left.schema(), right.schema(), &JoinType::Inner)?;
    Ok(LogicalPlan::Join(Join {
        left: Arc::new(left),
        right: Arc::new(right),
        on,
        filter: None,
        join_type: JoinType::Inner,
        join_constraint: JoinConstraint::On,
        schema: Arc::new(schema),
        null_equality,
        null_aware: false,
    }))
}

/// The inputs of a group, by their columns.
struct Places<'a> {
    inputs: &'a [LogicalPlan],
    columns: HashMap<Column, usize>,
}

impl<'a> Places<'a> {
    fn of(inputs: &'a [LogicalPlan]) -> Self {
        let columns = inputs.iter().enumerate().flat_map(|(place, input)| {
            input.schema().columns().into_iter().map(move |column| (column, place))
        });
        Self { inputs, columns: columns.collect() }
    }

    /// The index of the input that has all columns of an expression; `None` if there is none, or
    /// the expression has no columns.
    fn place(&self, expr: &Expr) -> Option<usize> {
        let mut places = expr.column_refs().into_iter().map(|column| {
            let known = self.columns.get(column).copied();
            let has = |input: &LogicalPlan| input.schema().has_column(column);
            known.or_else(|| self.inputs.iter().position(has))
        });
        let first = places.next()??;
        places.all(|place| place == Some(first)).then_some(first)
    }

    /// The key of two expressions; `None` unless they are of different inputs.
    fn key(&self, left: &Expr, right: &Expr) -> Option<Key> {
        let (first, second) = (self.place(left)?, self.place(right)?);
        let sides = [(left.clone(), first), (right.clone(), second)];
        (first != second).then_some(Key { sides })
    }

    /// The key of a condition that is an equality of different inputs, of a type that can be
    /// hashed; `None` for any other, and if the joins compare by another `operator` than `=`.
    fn key_of(&self, condition: &Expr, operator: Operator) -> Result<Option<Key>> {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
            return Ok(None);
        };
        if operator != Operator::Eq || condition.is_volatile() {
            return Ok(None);
        }
        let Some(key) = self.key(left, right) else { return Ok(None) };
        let [(one, place), _] = &key.sides;
        let kind = one.get_type(self.inputs[*place].schema())?;
        Ok(can_hash(&kind).then_some(key))
    }
}

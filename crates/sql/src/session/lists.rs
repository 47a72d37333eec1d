//! Simplification of expressions by DataFusion's rule, without its incorrect merging of IN lists.
//!
//! DataFusion merges two lists that a value is compared with: `x IN (L) AND x IN (M)` becomes `x
//! IN` the members common to both, compared by their text. If there are none, the result is false,
//! or true for `x NOT IN (L) OR x NOT IN (M)`. Both are wrong if `x` or a member is null, and if
//! members are columns: two different columns may have the same value. Merging is right for lists
//! joined by OR, and for lists that are all NOT IN and joined by AND: they become one list with all
//! members.

use std::collections::{BTreeSet, HashMap};

use datafusion::common::tree_node::{
    Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion,
};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::simplify_expressions::{ExprSimplifier, SimplifyExpressions};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::scalar::Identity;

/// Optimizer rule that replaces DataFusion's `SimplifyExpressions`.
#[derive(Debug, Default)]
pub(super) struct Simplify(SimplifyExpressions);

impl OptimizerRule for Simplify {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !may_merge(&plan)? {
            return self.0.rewrite(plan, config);
        }
        let names = NamePreserver::new(&plan);
        let apart = plan.map_expressions(|expr| match expr {
            Expr::GroupingSet(_) => expr.map_children(|key| set_apart_named(key, &names)),
            expr => set_apart_named(expr, &names),
        })?;
        if !apart.transformed {
            return self.0.rewrite(apart.data, config);
        }
        let simple = self.0.rewrite(apart.data, config)?;
        // The rule may have put a projection over the node.
        let is_new = simple.transformed;
        let together = simple.data.transform_down(|node| node.map_expressions(put_back));
        Ok(Transformed::new_transformed(together.data()?, is_new))
    }
}

/// True if a node has an expression with two lists. This check costs less than saving the names of
/// expressions, which a rewrite needs.
fn may_merge(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found = has_two_lists(expr)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Simplifies a single expression.
///
/// # Errors
/// Errors of DataFusion, for a constant that cannot be computed.
pub(crate) fn simplify(simplifier: &ExprSimplifier, expr: Expr) -> Result<Expr> {
    let apart = set_apart(expr)?;
    let is_apart = apart.transformed;
    let simple = simplifier.simplify(apart.data)?;
    if is_apart { put_back(simple).data() } else { Ok(simple) }
}

/// As [`set_apart`], but the result keeps the name of the expression, which the wrapping changes.
fn set_apart_named(expr: Expr, names: &NamePreserver) -> Result<Transformed<Expr>> {
    let name = names.save(&expr);
    let apart = set_apart(expr)?;
    Ok(if apart.transformed { apart.update_data(|expr| name.restore(expr)) } else { apart })
}

/// Wraps lists that must not be merged, so that DataFusion does not see them together.
fn set_apart(mut expr: Expr) -> Result<Transformed<Expr>> {
    if !has_two_lists(&expr)? {
        return Ok(Transformed::no(expr));
    }
    let is_new = visit(&mut expr)?;
    Ok(Transformed::new_transformed(expr, is_new))
}

fn put_back(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match Identity::is(&expr) {
        true => Ok(Transformed::yes(Identity::argument(expr))),
        false => Ok(Transformed::no(expr)),
    })
}

/// True if an expression has two IN lists, or may get them: DataFusion turns equalities joined by
/// OR into a list.
fn has_two_lists(expr: &Expr) -> Result<bool> {
    let mut lists = 0;
    expr.apply(|part| {
        lists += match part {
            Expr::InList(_) => 1,
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: op @ (Operator::And | Operator::Or),
                right,
            }) => {
                let is_alternative = |expr| is_comparison(expr, *op == Operator::And);
                usize::from(is_alternative(left)) + usize::from(is_alternative(right))
            }
            _ => 0,
        };
        Ok(if lists > 1 { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(lists > 1)
}

/// The operator of a chain of AND or OR; `None` for any other expression.
fn chained(expr: &Expr) -> Option<Operator> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => Some(*op),
        _ => None,
    }
}

/// Wraps the lists in an expression that must not be merged; true if there were any.
fn visit(expr: &mut Expr) -> Result<bool> {
    let Some(operator) = chained(expr) else {
        let mut is_new = false;
        let visited = std::mem::take(expr).map_children(|mut child| {
            is_new |= visit(&mut child)?;
            Ok(Transformed::no(child))
        })?;
        *expr = visited.data;
        return Ok(is_new);
    };
    let parts = parts_of(expr, operator);
    let lists: Vec<_> = parts.iter().map(|part| part.list(operator)).collect();
    // Per compared value: the number of its lists, and of those that are IN.
    let mut groups: HashMap<&BTreeSet<Column>, (usize, usize)> = HashMap::new();
    for list in lists.iter().flatten() {
        let (all, including) = groups.entry(&list.value).or_default();
        *all += 1;
        *including += usize::from(!list.excludes);
    }
    // NOT around the chain turns AND into OR and IN into NOT IN: the same merges are right then.
    let is_joined_wrongly = |list: &List| match (operator, groups[&list.value]) {
        (_, (1, _)) => false,
        (Operator::And, (_, including)) => including > 0,
        (_, (all, including)) => including < all,
    };
    let mut is_new = false;
    for (part, list) in parts.into_iter().zip(&lists) {
        is_new |= visit(part.expr)?;
        if list.as_ref().is_some_and(is_joined_wrongly) {
            *part.expr = Identity::of(std::mem::take(part.expr));
            is_new = true;
        }
    }
    Ok(is_new)
}

/// An operand of a chain of AND or OR.
struct Part<'a> {
    expr: &'a mut Expr,
    /// True if the chain contains the negation of `expr`.
    negated: bool,
}

impl Part<'_> {
    /// Returns the operand as a list, if it may become one. A single comparison may become part of
    /// one with other operands: equalities joined by OR, and their negations joined by AND.
    fn list(&self, operator: Operator) -> Option<List> {
        let excludes = operator == Operator::And;
        let list = List::of(self.expr).or_else(|| {
            let is_part = is_comparison(self.expr, excludes != self.negated);
            let value = columns(self.expr);
            let one = is_part && value.len() == 1;
            one.then_some(List { value, excludes: excludes != self.negated })
        })?;
        Some(List { excludes: list.excludes != self.negated, ..list })
    }
}

/// The operands of a chain of `operator`, nested in any way. NOT of a chain of the other operator
/// belongs to it, since De Morgan's laws turn that into a chain of this operator.
fn parts_of(expr: &mut Expr, operator: Operator) -> Vec<Part<'_>> {
    let other = if operator == Operator::And { Operator::Or } else { Operator::And };
    let (mut parts, mut rest) = (Vec::new(), vec![Part { expr, negated: false }]);
    while let Some(Part { expr, negated }) = rest.pop() {
        let (own, opposite) = if negated { (other, operator) } else { (operator, other) };
        let continues = match &*expr {
            Expr::Not(inner) => {
                matches!(inner.as_ref(), Expr::Not(_)) || chained(inner) == Some(opposite)
            }
            chain => chained(chain) == Some(own),
        };
        if !continues {
            parts.push(Part { expr, negated });
            continue;
        }
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
                rest.push(Part { expr: right, negated });
                rest.push(Part { expr: left, negated });
            }
            Expr::Not(inner) => rest.push(Part { expr: inner, negated: !negated }),
            _ => {}
        }
    }
    parts
}

/// An expression that is, or may become, an IN list.
struct List {
    /// The columns of the value that is compared. Two expressions of one column may simplify to the
    /// same value.
    value: BTreeSet<Column>,
    /// True for NOT IN.
    excludes: bool,
}

impl List {
    fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::InList(list) => Some(Self { value: columns(&list.expr), excludes: list.negated }),
            Expr::Not(inner) => {
                Self::of(inner).map(|list| Self { excludes: !list.excludes, ..list })
            }
            expr => Self::of_chain(expr, chained(expr)?),
        }
    }

    /// The list that a chain of `operator` may become: equalities of one column and IN lists,
    /// joined by OR, or their negations, joined by AND. `None` for any other chain.
    fn of_chain(expr: &Expr, operator: Operator) -> Option<Self> {
        let excludes = operator == Operator::And;
        let (mut rest, mut value) = (vec![expr], BTreeSet::new());
        while let Some(next) = rest.pop() {
            match next {
                Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == operator => {
                    rest.extend([left.as_ref(), right.as_ref()]);
                }
                comparison if is_comparison(comparison, excludes) => {
                    value.append(&mut columns(comparison));
                }
                other => {
                    let list = Self::of(other).filter(|list| list.excludes == excludes);
                    value.append(&mut list?.value);
                }
            }
            if value.len() > 1 {
                return None;
            }
        }
        Some(Self { value, excludes })
    }
}

/// True for an equality, or for its negation if `negated`.
fn is_comparison(expr: &Expr, negated: bool) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }) => !negated,
        Expr::BinaryExpr(BinaryExpr { op: Operator::NotEq, .. }) => negated,
        Expr::Not(inner) => is_comparison(inner, !negated),
        _ => false,
    }
}

fn columns(expr: &Expr) -> BTreeSet<Column> {
    expr.column_refs().into_iter().cloned().collect()
}

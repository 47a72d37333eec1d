//! Rewrites the recursive subquery by which clients list all roles that the role of the outer row
//! is a member of. DataFusion plans no recursive query that refers to an outer query.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, JoinOperator, Query, Select, SelectItem, SetExpr,
    SetOperator, TableFactor,
};
use terrace_sql::session::call;

use super::names::{folded, last};
use super::tree::factors;

/// Returns `role_memberships(x)` for
///
/// ```sql
/// WITH RECURSIVE c AS (
///     SELECT r.oid, r.rolname FROM pg_roles r WHERE r.oid = x
///     UNION ALL
///     SELECT m.roleid, s.rolname
///     FROM c JOIN pg_auth_members m ON m.member = c.oid JOIN pg_roles s ON s.oid = m.roleid)
/// SELECT rolname FROM c
/// ```
///
/// and `None` for any other query.
pub(super) fn of_role(query: &Query) -> Option<Expr> {
    let with = query.with.as_ref().filter(|with| with.recursive)?;
    let [table] = with.cte_tables.as_slice() else { return None };
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } =
        table.query.body.as_ref()
    else {
        return None;
    };
    let (SetExpr::Select(first), SetExpr::Select(next), SetExpr::Select(names)) =
        (left.as_ref(), right.as_ref(), query.body.as_ref())
    else {
        return None;
    };
    let reads_names = names.selection.is_none()
        && names.projection.len() == 1
        && selects(names, "rolname")
        && only_table(names).is_some_and(|name| name == folded(&table.alias.name));
    let is_it = reads_names && selects(first, "rolname") && leads_up(next);
    let role = first_role(first).filter(|_| is_it)?;
    Some(call("role_memberships", [role]))
}

/// Returns `x` of `SELECT ... FROM pg_roles WHERE oid = x`.
fn first_role(first: &Select) -> Option<Expr> {
    let table = only_table(first)?;
    let TableFactor::Table { name, .. } = &first.from.first()?.relation else { return None };
    if !["pg_roles", "pg_authid"].contains(&last(name).as_str()) {
        return None;
    }
    let Some(Expr::BinaryOp { left, op: BinaryOperator::Eq, right }) = &first.selection else {
        return None;
    };
    let is_own = |expr: &Expr| match expr {
        Expr::CompoundIdentifier(parts) => {
            let mut parts = parts.iter().rev().map(folded);
            parts.next().is_some_and(|name| name == "oid")
                && parts.next().is_some_and(|name| name == table)
        }
        expr => is_column(expr, "oid"),
    };
    match (is_own(left), is_own(right)) {
        (true, false) => Some(right.as_ref().clone()),
        (false, true) => Some(left.as_ref().clone()),
        _ => None,
    }
}

/// True for a recursive part that joins `pg_auth_members` by its member: it finds the roles that
/// the previous roles are members of.
fn leads_up(next: &Select) -> bool {
    let is_memberships = |table: &TableFactor| match table {
        TableFactor::Table { name, .. } => last(name) == "pg_auth_members",
        _ => false,
    };
    let joins = next.from.iter().flat_map(|from| &from.joins);
    let mut conditions = joins.filter_map(|join| match &join.join_operator {
        JoinOperator::Join(JoinConstraint::On(condition))
        | JoinOperator::Inner(JoinConstraint::On(condition)) => Some(condition),
        _ => None,
    });
    let is_step = |condition: &Expr| match condition {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            let of =
                |member: &Expr, role: &Expr| is_column(member, "member") && is_column(role, "oid");
            of(left, right) || of(right, left)
        }
        _ => false,
    };
    factors(&next.from).any(is_memberships)
        && selects(next, "roleid")
        && (conditions.any(is_step) || next.selection.as_ref().is_some_and(is_step))
}

/// Returns the name of the only table in a FROM clause, by which its columns are qualified.
fn only_table(select: &Select) -> Option<String> {
    let [from] = select.from.as_slice() else { return None };
    match &from.relation {
        TableFactor::Table { name, alias, args: None, .. } if from.joins.is_empty() => {
            Some(alias.as_ref().map_or_else(|| last(name), |alias| folded(&alias.name)))
        }
        _ => None,
    }
}

/// True for a SELECT that returns a column of this name.
fn selects(select: &Select, name: &str) -> bool {
    select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) => is_column(expr, name),
        _ => false,
    })
}

/// True for a column of this name, qualified by any table or none.
fn is_column(expr: &Expr, name: &str) -> bool {
    match expr {
        Expr::Identifier(ident) => folded(ident) == name,
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|part| folded(part) == name),
        _ => false,
    }
}

//! Recursive queries: the forms that PostgreSQL evaluates.
//!
//! Each iteration of `WITH RECURSIVE t AS (base UNION ALL term)` evaluates the term over the rows
//! of the iteration before. The union of these rows is the answer only if the term returns more
//! rows for more rows of `t`. SQL refuses terms that need not do so, and PostgreSQL with it: those
//! that name `t` within a subquery of an expression, on the nullable side of an outer join, on the
//! right of EXCEPT, or below an aggregate. DataFusion evaluates some of them, without an end or
//! with the rows of one iteration in place of all, and drops clauses of a query with UNION. So:
//!
//! - WITH inside of a recursive query becomes a part of its base and of its term.
//! - A UNION in WITH RECURSIVE that does not name itself keeps its ORDER BY, LIMIT and WITH as the
//!   query of another.
//! - A chain of UNIONs in the base is a query of its own, so that none is balanced into the term.

use std::mem;
use std::ops::ControlFlow;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    Cte, JoinOperator, Query, Select, SetExpr, SetOperator, SetQuantifier, TableFactor,
    TableWithJoins, VisitorMut,
};
use terrace_table::error::SqlError;

use super::column_options::normalized;
use super::dialect::parsed_query;
use super::refusal::refused;
use super::walk::{Visitor, Walk};

/// Checks the recursive queries of a WITH RECURSIVE, and writes its queries out.
///
/// # Errors
/// [`SqlError::Recursion`] for a form that is not evaluated; [`SqlError::Refused`] for ORDER BY,
/// LIMIT and OFFSET of a recursive query.
pub(super) fn write_out(query: &mut Query) -> Result<(), SqlError> {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return Ok(()) };
    for table in &mut with.cte_tables {
        let name = normalized(table.alias.name.clone());
        if uses(&name, table.query.as_mut()) == 0 {
            keep_clauses(&mut table.query)?;
        } else {
            check(&name, &mut table.query)?;
            share_queries(&mut table.query)?;
        }
    }
    Ok(())
}

/// Refuses a plan with an aggregate over the rows of the iteration before.
///
/// # Errors
/// [`SqlError::Recursion`] for such a plan.
pub(super) fn check_plan(plan: &LogicalPlan) -> Result<(), SqlError> {
    let mut is_aggregated = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::RecursiveQuery(query) = node {
            is_aggregated |= aggregates(&query.recursive_term, &query.name)?;
        }
        Ok(if is_aggregated { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match is_aggregated {
        false => Ok(()),
        true => Err(SqlError::Recursion {
            what: "aggregate functions are not allowed in a recursive query's recursive term"
                .to_owned(),
        }),
    }
}

/// True if a SELECT of the term has an aggregate and the recursive name in its FROM.
fn aggregates(term: &LogicalPlan, name: &str) -> Result<bool> {
    term.exists(|node| {
        let LogicalPlan::Aggregate(aggregate) = node else { return Ok(false) };
        Ok(!aggregate.aggr_expr.is_empty() && reads(&aggregate.input, name))
    })
}

/// True if the FROM that a plan is of has the table of this name, outside of subqueries.
fn reads(plan: &LogicalPlan, name: &str) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => {
            scan.table_name.schema().is_none() && scan.table_name.table() == name
        }
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().any(|input| reads(input, name))
        }
        _ => false,
    }
}

/// Moves a UNION with ORDER BY, LIMIT or WITH into a subquery, so that the outer query has none of
/// these clauses.
fn keep_clauses(query: &mut Query) -> Result<(), SqlError> {
    let has_clauses = query.with.is_some()
        || query.order_by.is_some()
        || query.limit_clause.is_some()
        || query.fetch.is_some();
    if has_clauses && matches!(query.body.as_ref(), SetExpr::SetOperation { .. }) {
        let whole = mem::replace(query, parsed_query("SELECT 1")?);
        *query.body = SetExpr::Query(Box::new(whole));
    }
    Ok(())
}

/// Gives the queries of a WITH inside of a recursive query to its base and to its term.
fn share_queries(query: &mut Query) -> Result<(), SqlError> {
    let with = query.with.take();
    let SetExpr::SetOperation { left, right, .. } = query.body.as_mut() else { return Ok(()) };
    for (side, is_base) in [(left, true), (right, false)] {
        let is_chain = is_base && matches!(side.as_ref(), SetExpr::SetOperation { .. });
        if with.is_some() || is_chain {
            let mut whole = parsed_query("SELECT 1")?;
            whole.with.clone_from(&with);
            mem::swap(&mut whole.body, side);
            **side = SetExpr::Query(Box::new(whole));
        }
    }
    Ok(())
}

/// Refuses a query that names itself elsewhere than PostgreSQL allows.
fn check(name: &str, query: &mut Query) -> Result<(), SqlError> {
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = query.body.as_mut()
    else {
        let form = "non-recursive-term UNION [ALL] recursive-term";
        let what = match query.body.as_ref() {
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) => {
                format!("recursive query \"{name}\" must not contain data-modifying statements")
            }
            _ => format!("recursive query \"{name}\" does not have the form {form}"),
        };
        return Err(SqlError::Recursion { what });
    };
    let mut term = Term { name, references: 0 };
    term.refuse(left.as_mut(), "its non-recursive term")?;
    term.check_body(right)?;
    for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
        term.refuse(table.query.as_mut(), "a subquery")?;
    }
    let clauses = [
        ("ORDER BY", query.order_by.is_some()),
        ("LIMIT or OFFSET", query.limit_clause.is_some() || query.fetch.is_some()),
    ];
    match clauses.iter().find(|(_, is_there)| *is_there) {
        None => Ok(()),
        Some((clause, _)) => Err(refused(
            &format!("{clause} in the recursive query \"{name}\""),
            "give it to the query that reads the rows",
        )),
    }
}

/// The recursive term of a query, and the number of references to the query in it so far.
struct Term<'a> {
    name: &'a str,
    references: usize,
}

impl Term<'_> {
    /// Refuses a part that has a reference.
    fn refuse(&self, part: &mut dyn Walk, place: &str) -> Result<(), SqlError> {
        match uses(self.name, part) {
            0 => Ok(()),
            _ => Err(self.misplaced(&format!("within {place}"))),
        }
    }

    fn misplaced(&self, place: &str) -> SqlError {
        let what =
            format!("recursive reference to query \"{}\" must not appear {place}", self.name);
        SqlError::Recursion { what }
    }

    /// Counts a reference at a place that may have one.
    fn count(&mut self) -> Result<(), SqlError> {
        self.references += 1;
        match self.references {
            1 => Ok(()),
            _ => Err(self.misplaced("more than once")),
        }
    }

    fn check_query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        if let Some(with) = &mut query.with {
            let mut names = with.cte_tables.iter();
            if with.recursive && names.any(|table| is_named(table, self.name)) {
                return Ok(());
            }
            for table in &mut with.cte_tables {
                self.check_query(&mut table.query)?;
                if is_named(table, self.name) {
                    return Ok(());
                }
            }
        }
        let tail = uses(self.name, &mut query.order_by) + uses(self.name, &mut query.limit_clause);
        self.check_body(&mut query.body)?;
        match tail {
            0 => Ok(()),
            _ => Err(self.misplaced("within a subquery")),
        }
    }

    fn check_body(&mut self, body: &mut SetExpr) -> Result<(), SqlError> {
        match body {
            SetExpr::Select(select) => self.check_select(select),
            SetExpr::Query(query) => self.check_query(query),
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                let is_all =
                    matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
                match op {
                    SetOperator::Intersect if is_all => {
                        self.refuse(left.as_mut(), "INTERSECT")?;
                        self.refuse(right.as_mut(), "INTERSECT")?;
                    }
                    SetOperator::Except | SetOperator::Minus => {
                        if is_all {
                            self.refuse(left.as_mut(), "EXCEPT")?;
                        }
                        self.refuse(right.as_mut(), "EXCEPT")?;
                        self.check_body(left)?;
                    }
                    SetOperator::Union | SetOperator::Intersect => {
                        self.check_body(left)?;
                        self.check_body(right)?;
                    }
                }
                Ok(())
            }
            other => self.refuse(other, "a subquery"),
        }
    }

    fn check_select(&mut self, select: &mut Select) -> Result<(), SqlError> {
        let all = uses(self.name, select);
        let relations = uses(self.name, &mut select.from);
        select.from.iter_mut().try_for_each(|from| self.check_joins(from))?;
        match all > relations {
            false => Ok(()),
            true => Err(self.misplaced("within a subquery")),
        }
    }

    fn check_joins(&mut self, joined: &mut TableWithJoins) -> Result<(), SqlError> {
        let mut conditions = uses(self.name, joined);
        let mut operators = joined.joins.iter().map(|join| &join.join_operator);
        let is_nullable = operators.any(keeps_right);
        self.check_relation(&mut joined.relation, is_nullable)?;
        conditions -= uses(self.name, &mut joined.relation);
        for place in 0..joined.joins.len() {
            let (own, later) = joined.joins.split_at_mut(place + 1);
            let Some(own) = own.last_mut() else { continue };
            let mut later = later.iter().map(|join| &join.join_operator);
            let is_nullable = keeps_left(&own.join_operator) || later.any(keeps_right);
            self.check_relation(&mut own.relation, is_nullable)?;
            conditions -= uses(self.name, &mut own.relation);
        }
        match conditions {
            0 => Ok(()),
            _ => Err(self.misplaced("within a subquery")),
        }
    }

    fn check_relation(
        &mut self,
        relation: &mut TableFactor,
        is_nullable: bool,
    ) -> Result<(), SqlError> {
        if is_nullable {
            return self.refuse(relation, "an outer join");
        }
        if is_reference(relation, self.name) {
            return self.count();
        }
        match relation {
            TableFactor::Derived { subquery, .. } => self.check_query(subquery),
            TableFactor::NestedJoin { table_with_joins, .. } => self.check_joins(table_with_joins),
            TableFactor::Pivot { .. } => {
                // A pivot aggregates the rows of its table.
                self.refuse(relation, "PIVOT")
            }
            TableFactor::Unpivot { table, .. } => self.check_relation(table, false),
            other => self.refuse(other, "a subquery"),
        }
    }
}

/// True for a join that returns rows of its left side without a match, so that its right side is
/// nullable.
fn keeps_left(operator: &JoinOperator) -> bool {
    matches!(
        operator,
        JoinOperator::Left(_)
            | JoinOperator::LeftOuter(_)
            | JoinOperator::FullOuter(_)
            | JoinOperator::Anti(_)
            | JoinOperator::LeftAnti(_)
            | JoinOperator::OuterApply
    )
}

/// True for a join that returns rows of its right side without a match.
fn keeps_right(operator: &JoinOperator) -> bool {
    matches!(
        operator,
        JoinOperator::Right(_)
            | JoinOperator::RightOuter(_)
            | JoinOperator::FullOuter(_)
            | JoinOperator::RightAnti(_)
    )
}

/// True if a query of a WITH has a name.
fn is_named(table: &Cte, name: &str) -> bool {
    normalized(table.alias.name.clone()) == name
}

/// True for a table factor that names `name` without a schema.
fn is_reference(relation: &TableFactor, name: &str) -> bool {
    let TableFactor::Table { name: table, args: None, .. } = relation else { return false };
    match table.0.as_slice() {
        [part] => part.as_ident().is_some_and(|part| normalized(part.clone()) == name),
        _ => false,
    }
}

/// The number of relations of a part that are a name, and not one of a WITH inside of the part.
fn uses(name: &str, part: &mut (impl Walk + ?Sized)) -> usize {
    let mut uses = Uses { name, count: 0, hidden: 0 };
    let visitor: &mut Visitor<'_> = &mut uses;
    let _ = part.walk(visitor);
    uses.count
}

/// Counts references to a query.
struct Uses<'a> {
    name: &'a str,
    count: usize,
    /// The number of queries around the current node, from the one whose WITH has the name.
    hidden: usize,
}

impl VisitorMut for Uses<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.hidden > 0 {
            self.hidden += 1;
            return ControlFlow::Continue(());
        }
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        let hides = with.cte_tables.iter().position(|table| is_named(table, self.name));
        if let Some(place) = hides {
            self.hidden = 1;
            if !with.recursive {
                let before = with.cte_tables.iter_mut().take(place + 1);
                self.count += before.map(|it| uses(self.name, it.query.as_mut())).sum::<usize>();
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.hidden = self.hidden.saturating_sub(1);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<()> {
        self.count += usize::from(self.hidden == 0 && is_reference(relation, self.name));
        ControlFlow::Continue(())
    }
}

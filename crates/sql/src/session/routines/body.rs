//! Bodies of functions and macros, parsed for one use.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, LimitClause, Query, Select, SelectItem, SetExpr, Statement as SqlStatement,
    Value, VisitorMut,
};
use terrace_table::error::SqlError;

use super::routine::{Form, Routine};
use crate::session::dialect::parsed_query;
use crate::session::normalize::has_changes;
use crate::session::parse::parse;
use crate::session::refusal::refused;
use crate::session::row_locks;
use crate::session::walk::Walk;

/// The body of a routine.
#[expect(clippy::large_enum_variant, reason = "it lives while one call is written out")]
pub(super) enum Body {
    /// An expression, which has one value for each row of the caller.
    Value(Expr),
    /// A query, which returns rows.
    Rows(Box<Query>),
}

/// Parses the body of a routine. A function of one value whose query reads a table returns the
/// first row.
///
/// # Errors
/// Errors of the parser; [`SqlError::Refused`] for a text that is not one query.
pub(super) fn parsed(state: &SessionState, routine: &Routine) -> Result<Body, SqlError> {
    let function = match &routine.form {
        Form::Macro => return Ok(Body::Value(value(routine)?)),
        Form::TableMacro => return Ok(Body::Rows(query(&routine.body, routine)?)),
        Form::Function(function) => function,
    };
    if function.is_expression {
        let value = expression(&routine.body, routine)?;
        return Ok(match routine.returns_rows() {
            false => Body::Value(value),
            true => Body::Rows(query(&format!("SELECT {value}"), routine)?),
        });
    }
    let query = query(&routine.body, routine)?;
    if routine.returns_rows() {
        return Ok(Body::Rows(query));
    }
    match value_of(&query) {
        Some(value) if !has_aggregate(state, &mut value.clone()) => Ok(Body::Value(value)),
        _ => Ok(Body::Value(Expr::Subquery(first_row(state, query)?))),
    }
}

/// Parses an expression and normalizes it, as the parser of statements does.
pub(super) fn expression(text: &str, routine: &Routine) -> Result<Expr, SqlError> {
    let query = query(&format!("SELECT {text}"), routine)?;
    value_of(&query).ok_or_else(|| {
        let what = format!("{text} as the body of {}", routine.signature());
        refused(&what, "an expression is")
    })
}

/// Parses the body of a macro. It stands in a list, so that a series in it is a list and does not
/// return rows.
fn value(routine: &Routine) -> Result<Expr, SqlError> {
    let query = query(&format!("SELECT [{}\n]", routine.body), routine)?;
    match value_of(&query) {
        Some(Expr::Array(mut list)) if list.elem.len() == 1 => Ok(list.elem.remove(0)),
        _ => expression(&routine.body, routine),
    }
}

fn query(text: &str, routine: &Routine) -> Result<Box<Query>, SqlError> {
    let no_query = |instead: &str| {
        let what = format!("{} with the body {}", routine.signature(), text.trim());
        Err(refused(&what, instead))
    };
    let mut statements = parse(text)?.into_iter();
    let (first, second) = (statements.next(), statements.next());
    if second.is_some() {
        return no_query("one query is");
    }
    let statement = first.and_then(crate::session::statement::SessionStatement::into_sql);
    match statement {
        Some(Statement::Statement(statement)) => match *statement {
            SqlStatement::Query(mut query) if !has_changes(&query) => {
                row_locks::refuse(query.as_mut())?;
                Ok(query)
            }
            _ => no_query("a body is a query: it changes no rows and defines nothing"),
        },
        _ => no_query("a body is a query: SELECT ..."),
    }
}

/// The expression of a query that is nothing but `SELECT expression`.
fn value_of(query: &Query) -> Option<Expr> {
    let is_plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none();
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let Select { projection, from, selection, having, qualify, distinct, .. } = select.as_ref();
    let is_plain = is_plain
        && from.is_empty()
        && selection.is_none()
        && having.is_none()
        && qualify.is_none()
        && distinct.is_none()
        && has_no_groups(select);
    match projection.as_slice() {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] if is_plain => {
            Some(expr.clone())
        }
        _ => None,
    }
}

fn has_no_groups(select: &Select) -> bool {
    matches!(&select.group_by, GroupByExpr::Expressions(keys, modifiers)
        if keys.is_empty() && modifiers.is_empty())
}

/// Limits a query to its first row, unless it has one row at most.
fn first_row(state: &SessionState, mut query: Box<Query>) -> Result<Box<Query>, SqlError> {
    if has_one_row(state, &query) {
        return Ok(query);
    }
    let is_limited = query.limit_clause.is_some() || query.fetch.is_some();
    if is_limited {
        let mut outer = parsed_query("SELECT * FROM (SELECT 1) AS body")?;
        put_derived(&mut outer, query);
        query = Box::new(outer);
    }
    let one = Expr::Value(Value::Number("1".to_owned(), false).into());
    query.limit_clause =
        Some(LimitClause::LimitOffset { limit: Some(one), offset: None, limit_by: vec![] });
    Ok(query)
}

/// Puts a query in the place of the first derived table of another.
pub(super) fn put_derived(outer: &mut Query, inner: Box<Query>) {
    use datafusion::sql::sqlparser::ast::TableFactor;
    let SetExpr::Select(select) = outer.body.as_mut() else { return };
    let Some(from) = select.from.first_mut() else { return };
    if let TableFactor::Derived { subquery, .. } = &mut from.relation {
        *subquery = inner;
    }
}

/// True for a query with aggregates over all rows.
fn has_one_row(state: &SessionState, query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let is_one = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            has_aggregate(state, &mut expr.clone())
        }
        _ => false,
    };
    has_no_groups(select) && select.having.is_none() && select.projection.iter().any(is_one)
}

/// True if an expression has an aggregate outside of its subqueries.
pub(super) fn has_aggregate(state: &SessionState, expr: &mut Expr) -> bool {
    struct Search<'a>(&'a SessionState, usize);
    impl VisitorMut for Search<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.1 += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.1 -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            let name = function.name.to_string().to_lowercase();
            let is_aggregate = self.0.aggregate_functions().contains_key(&name);
            match is_aggregate && function.over.is_none() && self.1 == 0 {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    expr.walk(&mut Search(state, 0)).is_break()
}

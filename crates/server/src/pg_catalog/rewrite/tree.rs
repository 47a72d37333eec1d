//! Helpers for syntax trees: parsing of fragments, search, and replacement of expressions.

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Query, TableFactor, TableWithJoins, Value, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use terrace_sql::session::Walk;

/// Returns the tables of a FROM clause.
pub(super) fn factors(from: &[TableWithJoins]) -> impl Iterator<Item = &TableFactor> {
    from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    })
}

/// Parses a query that a rewrite has composed; `None` if it is malformed.
pub(super) fn query(text: &str) -> Option<Box<Query>> {
    let parser = Parser::new(&GenericDialect {}).try_with_sql(text);
    parser.and_then(|mut parser| parser.parse_query()).ok()
}

/// Parses an expression that a rewrite has composed; `None` if it is malformed.
pub(super) fn expression(text: &str) -> Option<Expr> {
    let parser = Parser::new(&GenericDialect {}).try_with_sql(text);
    parser.and_then(|mut parser| parser.parse_expr()).ok()
}

/// True for an expression, or an item of a SELECT, that contains a subquery.
pub(super) fn has_subquery(node: &mut impl Walk) -> bool {
    node.walk(&mut Subqueries).is_break()
}

/// A visitor that breaks at the first subquery.
struct Subqueries;

impl VisitorMut for Subqueries {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// Returns a break of the visit if `is` is true.
pub(super) fn found(is: bool) -> ControlFlow<()> {
    if is { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Returns the literal NULL.
pub(super) fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// Takes an expression out of its place and leaves a NULL there.
pub(super) fn take(expr: &mut Expr) -> Expr {
    mem::replace(expr, null())
}

/// Parses the text of a type.
pub(super) fn type_named(text: &str) -> Option<DataType> {
    let parser = Parser::new(&GenericDialect {}).try_with_sql(text);
    parser.and_then(|mut parser| parser.parse_data_type()).ok()
}

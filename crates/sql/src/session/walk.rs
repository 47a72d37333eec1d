//! Visitors of parsed statements.
//!
//! The walk over the SQL syntax tree is generic in its visitor, and about a thousand functions
//! long: the compiler would instantiate it for every visitor type. With dynamic visitors there is
//! one instance.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, LimitClause, NamedWindowDefinition, ObjectName, OrderBy, Query, Select, SelectItem,
    SetExpr, Statement as SqlStatement, TableFactor, TableWithJoins, ValueWithSpan, VisitMut,
    VisitorMut,
};

/// A visitor; it breaks to stop the walk.
pub type Visitor<'a> = dyn VisitorMut<Break = ()> + 'a;

/// A syntax node that visitors walk over.
pub trait Walk {
    /// Visits this node and all nodes below it, in order, until the visitor breaks.
    fn walk(&mut self, visitor: &mut Visitor<'_>) -> ControlFlow<()>;
}

/// Forwards every visit.
struct Passing<'a, 'v>(&'a mut Visitor<'v>);

macro_rules! pass_on {
    ($($visit:ident: $node:ty),* $(,)?) => {
        impl VisitorMut for Passing<'_, '_> {
            type Break = ();

            $(fn $visit(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$visit(node)
            })*
        }
    };
}

pass_on! {
    pre_visit_query: Query,
    post_visit_query: Query,
    pre_visit_select: Select,
    post_visit_select: Select,
    pre_visit_relation: ObjectName,
    post_visit_relation: ObjectName,
    pre_visit_table_factor: TableFactor,
    post_visit_table_factor: TableFactor,
    pre_visit_expr: Expr,
    post_visit_expr: Expr,
    pre_visit_statement: SqlStatement,
    post_visit_statement: SqlStatement,
    pre_visit_value: ValueWithSpan,
    post_visit_value: ValueWithSpan,
}

macro_rules! walk {
    ($($node:ty),* $(,)?) => {
        $(impl Walk for $node {
            fn walk(&mut self, visitor: &mut Visitor<'_>) -> ControlFlow<()> {
                self.visit(&mut Passing(visitor))
            }
        })*
    };
}

walk! {
    SqlStatement,
    Query,
    Select,
    SelectItem,
    Expr,
    NamedWindowDefinition,
    SetExpr,
    TableFactor,
    TableWithJoins,
    Vec<TableWithJoins>,
    Option<Expr>,
    Option<LimitClause>,
    Option<OrderBy>,
}

impl Walk for Statement {
    fn walk(&mut self, visitor: &mut Visitor<'_>) -> ControlFlow<()> {
        match self {
            Self::Statement(statement) => statement.as_mut().walk(visitor),
            Self::CopyTo(copy) => match &mut copy.source {
                CopyToSource::Query(query) => query.as_mut().walk(visitor),
                CopyToSource::Relation(_) => ControlFlow::Continue(()),
            },
            Self::Explain(explain) => explain.statement.walk(visitor),
            Self::CreateExternalTable(_) | Self::Reset(_) => ControlFlow::Continue(()),
        }
    }
}

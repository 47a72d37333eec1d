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

/// Forwards every visit to a dynamic visitor.
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

/// Visits expressions outside of the subqueries of a node, until the visit breaks.
pub struct OwnExprs<F> {
    visit: F,
    /// True to visit an expression before its parts.
    is_outermost_first: bool,
    queries: usize,
}

impl<F: FnMut(&mut Expr) -> ControlFlow<()>> OwnExprs<F> {
    /// Visits each expression before its parts.
    pub fn outermost_first(visit: F) -> Self {
        Self { visit, is_outermost_first: true, queries: 0 }
    }

    /// Visits each expression after its parts.
    pub fn innermost_first(visit: F) -> Self {
        Self { visit, is_outermost_first: false, queries: 0 }
    }

    fn visited(&mut self, expr: &mut Expr, is_before: bool) -> ControlFlow<()> {
        match self.queries == 0 && self.is_outermost_first == is_before {
            true => (self.visit)(expr),
            false => ControlFlow::Continue(()),
        }
    }
}

impl<F: FnMut(&mut Expr) -> ControlFlow<()>> VisitorMut for OwnExprs<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.visited(expr, true)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.visited(expr, false)
    }
}

/// Visits the columns of a SELECT, and then its conditions, until the visitor breaks.
pub fn walk_values(select: &mut Select, visitor: &mut Visitor<'_>) -> ControlFlow<()> {
    for item in &mut select.projection {
        item.walk(visitor)?;
    }
    for condition in [&mut select.selection, &mut select.having, &mut select.qualify] {
        condition.walk(visitor)?;
    }
    ControlFlow::Continue(())
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

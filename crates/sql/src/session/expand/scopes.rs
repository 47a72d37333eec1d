//! The WITH queries in scope at a part of a statement.

use datafusion::sql::sqlparser::ast::{Query, SetExpr, With};

/// The WITH clauses around a part, the innermost last.
#[derive(Default)]
pub(super) struct Scopes(Vec<Scope>);

#[derive(Default)]
struct Scope {
    with: Option<With>,
    /// Number of WITH queries that have been visited, and are in scope of the following ones.
    complete: usize,
}

impl Scope {
    fn is_complete(&self) -> bool {
        self.with.as_ref().is_none_or(|with| self.complete >= with.cte_tables.len())
    }
}

impl Scopes {
    /// Enters a query: a WITH query or another subquery of the query around it.
    pub(super) fn enter(&mut self, query: &Query) {
        self.0.push(Scope { with: query.with.clone(), complete: 0 });
    }

    /// Leaves a query, which is rewritten now, and in scope if it is a WITH query.
    pub(super) fn leave(&mut self, query: &Query) {
        self.0.pop();
        let Some(around) = self.0.last_mut().filter(|around| !around.is_complete()) else { return };
        let place = around.complete;
        around.complete += 1;
        if let Some(with) = &mut around.with {
            *with.cte_tables[place].query = query.clone();
        }
    }

    /// Adds the WITH queries in scope to a query.
    pub(super) fn within(&self, query: Query) -> Query {
        let mut inner = query;
        for scope in self.0.iter().rev() {
            let Some(with) = &scope.with else { continue };
            let mut with = with.clone();
            with.cte_tables.truncate(scope.complete);
            if with.cte_tables.is_empty() {
                continue;
            }
            let mut outer = inner.clone();
            if inner.with.is_some() {
                outer.body = Box::new(SetExpr::Query(Box::new(inner)));
                outer.order_by = None;
                outer.limit_clause = None;
            }
            outer.with = Some(with);
            inner = outer;
        }
        inner
    }
}

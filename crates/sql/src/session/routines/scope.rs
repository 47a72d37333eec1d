//! Names that the queries of a body have in scope: their relations, and the columns of these.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    Ident, Query, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitorMut,
};
use terrace_table::catalog::Snapshot;

use crate::names::resolve;
use crate::session::walk::Walk;

/// Names in scope of one query.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) relations: HashSet<String>,
    pub(super) columns: HashSet<String>,
    /// True if a relation may have columns that are not in `columns`.
    pub(super) has_more: bool,
}

/// Finds the names in scope of queries.
pub(super) struct Finder<'a> {
    state: &'a SessionState,
    snapshot: &'a Snapshot,
    /// The names of all WITH queries of the body, which hide tables.
    with: HashSet<String>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(
        state: &'a SessionState,
        snapshot: &'a Snapshot,
        body: &mut dyn Walk,
    ) -> Self {
        let mut search = With(HashSet::new());
        let _ = body.walk(&mut search);
        Self { state, snapshot, with: search.0 }
    }

    /// The names in scope of the SELECTs of a query, without those of the queries around it.
    pub(super) fn scope(&self, query: &Query) -> Scope {
        let mut scope = Scope::default();
        self.add_body(&query.body, &mut scope);
        scope
    }

    fn add_body(&self, body: &SetExpr, scope: &mut Scope) {
        match body {
            SetExpr::Select(select) => {
                select.from.iter().for_each(|from| self.add_joined(from, scope));
                scope.has_more |= !select.lateral_views.is_empty();
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.add_body(left, scope);
                self.add_body(right, scope);
            }
            _ => {}
        }
    }

    fn add_joined(&self, from: &TableWithJoins, scope: &mut Scope) {
        self.add(&from.relation, scope);
        from.joins.iter().for_each(|join| self.add(&join.relation, scope));
    }

    fn add(&self, factor: &TableFactor, scope: &mut Scope) {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let relation = alias.as_ref().map(|alias| normalized(&alias.name));
                let last = name.0.last().and_then(|part| part.as_ident()).map(normalized);
                let is_with =
                    name.0.len() == 1 && last.as_ref().is_some_and(|last| self.with.contains(last));
                scope.relations.extend(relation.or(last));
                let columns = match has_columns(alias.as_ref()) || is_with {
                    true => None,
                    false => self.columns(name),
                };
                match columns {
                    Some(columns) => scope.columns.extend(columns),
                    None => scope.has_more = true,
                }
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                scope.relations.extend(alias.as_ref().map(|alias| normalized(&alias.name)));
                self.add_joined(table_with_joins, scope);
            }
            TableFactor::Derived { alias, .. }
            | TableFactor::Table { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. } => {
                scope.relations.extend(alias.as_ref().map(|alias| normalized(&alias.name)));
                scope.has_more = true;
            }
            _ => scope.has_more = true,
        }
    }

    /// The columns of a table; `None` for a view, and for a relation outside of the catalog.
    fn columns(&self, name: &datafusion::sql::sqlparser::ast::ObjectName) -> Option<Vec<String>> {
        let reference = object_name_to_table_reference(name.clone(), true).ok()?;
        let found = resolve(self.state.config_options(), self.snapshot, reference);
        let (table, _) = self.snapshot.table(&found.schema, &found.table)?;
        Some(table.schema().fields().iter().map(|field| field.name().clone()).collect())
    }
}

fn has_columns(alias: Option<&TableAlias>) -> bool {
    alias.is_some_and(|alias| !alias.columns.is_empty())
}

/// A name, in lower case unless it is quoted.
pub(super) fn normalized(name: &Ident) -> String {
    IdentNormalizer::default().normalize(name.clone())
}

/// Collects the names of WITH queries.
struct With(HashSet<String>);

impl VisitorMut for With {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.extend(tables.map(|table| normalized(&table.alias.name)));
        ControlFlow::Continue(())
    }
}

//! Changes of rows behind WITH: its queries move into the queries of the change.
//!
//! ```text
//! WITH q AS (a) INSERT INTO t SELECT * FROM q  ->  INSERT INTO t WITH q AS (a) SELECT * FROM q
//! WITH q AS (a) UPDATE t SET x = q.y FROM q    ->  UPDATE t SET x = q.y
//!                                                  FROM (WITH q AS (a) SELECT * FROM q) AS q
//! ```

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Ident, Query, SetExpr, Statement as SqlStatement, TableFactor, Values, VisitorMut, With,
};
use terrace_table::error::SqlError;

use super::super::dialect::parsed_query;
use super::super::refusal::refused;
use super::super::walk::Walk;

/// Moves the queries of a WITH before a change of rows; leaves any other statement unchanged.
///
/// # Errors
/// [`SqlError::Refused`] if a query of the change has a WITH query of the same name.
pub(super) fn write_out(statement: &mut SqlStatement) -> Result<(), SqlError> {
    let SqlStatement::Query(query) = statement else { return Ok(()) };
    let is_change = matches!(
        query.body.as_ref(),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
    );
    if !is_change {
        return Ok(());
    }
    let Some(with) = query.with.take() else { return Ok(()) };
    let nothing =
        SetExpr::Values(Values { explicit_row: false, value_keyword: true, rows: vec![] });
    let (mut change, has_target) = match mem::replace(query.body.as_mut(), nothing) {
        SetExpr::Insert(change) => (change, false),
        SetExpr::Update(change) | SetExpr::Delete(change) | SetExpr::Merge(change) => {
            (change, true)
        }
        _ => return Ok(()),
    };
    let mut mover = Mover { with: &with, is_target: has_target, depth: 0, error: None };
    let _ = change.walk(&mut mover);
    match mover.error {
        Some(error) => Err(error),
        None => {
            *statement = change;
            Ok(())
        }
    }
}

/// Refuses a change of rows that is a query of WITH.
///
/// # Errors
/// [`SqlError::Refused`] for such a change.
pub(super) fn refuse_within(query: &Query) -> Result<(), SqlError> {
    let change = match query.body.as_ref() {
        SetExpr::Insert(_) => "an INSERT within WITH",
        SetExpr::Update(_) => "an UPDATE within WITH",
        SetExpr::Delete(_) => "a DELETE within WITH",
        SetExpr::Merge(_) => "a MERGE within WITH",
        _ => return Ok(()),
    };
    Err(refused(
        change,
        "run it as a statement of its own, before or behind the query and in the same transaction; \
         RETURNING gives its rows to the client",
    ))
}

/// Adds the queries of a WITH to the outermost queries of a change.
struct Mover<'a> {
    with: &'a With,
    /// True before the table that is changed, which comes first.
    is_target: bool,
    /// The number of queries around.
    depth: usize,
    error: Option<SqlError>,
}

impl Mover<'_> {
    fn add(&self, query: &mut Query) -> Result<(), SqlError> {
        let Some(own) = &mut query.with else {
            query.with = Some(self.with.clone());
            return Ok(());
        };
        let names: Vec<_> = own.cte_tables.iter().map(|it| normalized(&it.alias.name)).collect();
        let is_taken = |name: &Ident| names.contains(&normalized(name));
        let mut outer = self.with.cte_tables.iter().map(|it| &it.alias.name);
        if let Some(name) = outer.find(|name| is_taken(name)) {
            let what = format!("a WITH query {name} within the statement of another one");
            return Err(refused(&what, "give one of them another name"));
        }
        own.recursive |= self.with.recursive;
        own.cte_tables.splice(0..0, self.with.cte_tables.iter().cloned());
        Ok(())
    }

    /// The query that is a relation of the change, as a subquery.
    fn subquery(&self, table: &TableFactor) -> Result<Option<TableFactor>, SqlError> {
        let TableFactor::Table { name, alias, args: None, .. } = table else { return Ok(None) };
        let [part] = name.0.as_slice() else { return Ok(None) };
        let named = part.as_ident().map(normalized);
        let mut queries = self.with.cte_tables.iter();
        let query = queries.find(|it| named.as_ref() == Some(&normalized(&it.alias.name)));
        let Some(query) = query else { return Ok(None) };
        let query = &query.alias.name;
        let text = format!("SELECT * FROM (SELECT * FROM {query}) AS {query}");
        let SetExpr::Select(mut select) = *parsed_query(&text)?.body else { return Ok(None) };
        let mut subquery = select.from.pop().map(|from| from.relation);
        if let (Some(TableFactor::Derived { alias: own, .. }), Some(alias)) = (&mut subquery, alias)
        {
            *own = Some(alias.clone());
        }
        Ok(subquery)
    }
}

impl VisitorMut for Mover<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        if self.depth == 1
            && let Err(error) = self.add(query)
        {
            self.error = Some(error);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    /// The walk visits the subquery next, which gets the queries.
    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if self.depth > 0 || mem::take(&mut self.is_target) {
            return ControlFlow::Continue(());
        }
        match self.subquery(table) {
            Ok(Some(subquery)) => *table = subquery,
            Ok(None) => {}
            Err(error) => {
                self.error = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

fn normalized(name: &Ident) -> String {
    IdentNormalizer::default().normalize(name.clone())
}

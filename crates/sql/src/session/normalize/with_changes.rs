//! Changes of rows behind WITH, whose queries move into the queries of the change, and the places
//! where a query of WITH may be a change of rows itself (`parts`).
//!
//! ```text
//! WITH q AS (a) INSERT INTO t SELECT * FROM q  ->  INSERT INTO t WITH q AS (a) SELECT * FROM q
//! WITH q AS (a) UPDATE t SET x = q.y FROM q    ->  UPDATE t SET x = q.y
//!                                                  FROM (WITH q AS (a) SELECT * FROM q) AS q
//! ```

use std::mem;
use std::ops::ControlFlow;

use datafusion::common::not_impl_err;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Ident, Query, SetExpr, Statement as SqlStatement, TableFactor, Values, VisitorMut, With,
};
use terrace_table::error::SqlError;

use super::super::dialect::parsed_query;
use super::super::refusal::refused;
use super::super::walk::Walk;

/// Moves the queries of a WITH before a change of rows; leaves any other statement unchanged, and
/// one whose WITH has changes of rows.
///
/// # Errors
/// [`SqlError::Refused`] if a query of the change has a WITH query of the same name.
pub(in crate::session) fn write_out(statement: &mut SqlStatement) -> Result<(), SqlError> {
    let SqlStatement::Query(query) = statement else { return Ok(()) };
    if !is_change(query) || has_changes(query) {
        return Ok(());
    }
    let with = query.with.take();
    let nothing =
        SetExpr::Values(Values { explicit_row: false, value_keyword: true, rows: vec![] });
    let (mut change, has_target) = match mem::replace(query.body.as_mut(), nothing) {
        SetExpr::Insert(change) => (change, false),
        SetExpr::Update(change) | SetExpr::Delete(change) | SetExpr::Merge(change) => {
            (change, true)
        }
        _ => return Ok(()),
    };
    if let Some(with) = &with {
        let mut mover = Mover { with, is_target: has_target, depth: 0, error: None };
        let _ = change.walk(&mut mover);
        if let Some(error) = mover.error {
            return Err(error);
        }
    }
    *statement = change;
    Ok(())
}

/// True if a query is a change of rows.
pub(in crate::session) fn is_change(query: &Query) -> bool {
    matches!(
        query.body.as_ref(),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
    )
}

/// True if a query of a query's WITH is a change of rows.
pub(in crate::session) fn has_changes(query: &Query) -> bool {
    let mut queries = query.with.iter().flat_map(|with| &with.cte_tables);
    queries.any(|it| is_change(&it.query))
}

/// The place of a query in a statement, which decides whether its WITH may have changes of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::session) enum Place {
    /// The statement itself, also of PREPARE, EXPLAIN and CREATE TABLE AS.
    Top,
    /// The query of a view.
    View,
    /// The query of a cursor.
    Cursor,
    /// The query of a COPY to a file.
    File,
    /// A statement that DataFusion explains.
    Explained,
    /// A part of a statement.
    #[default]
    Inside,
}

impl Place {
    /// The place of the first query of a statement.
    pub(in crate::session) fn of(statement: &Statement) -> Self {
        match statement {
            Statement::Statement(statement) => Self::of_sql(statement),
            Statement::CopyTo(_) => Self::File,
            Statement::Explain(_) => Self::Explained,
            _ => Self::Inside,
        }
    }

    fn of_sql(statement: &SqlStatement) -> Self {
        match statement {
            SqlStatement::Query(_) | SqlStatement::CreateTable(_) => Self::Top,
            SqlStatement::Prepare { statement, .. } => Self::of_sql(statement),
            SqlStatement::CreateView(_) => Self::View,
            _ => Self::Inside,
        }
    }

    /// Refuses changes of rows in the WITH of a query of this place.
    fn check(self) -> Result<(), SqlError> {
        match self {
            Self::Top => Ok(()),
            Self::View => {
                Ok(not_impl_err!("views must not contain data-modifying statements in WITH")?)
            }
            Self::Cursor => Ok(not_impl_err!(
                "DECLARE CURSOR must not contain data-modifying statements in WITH"
            )?),
            Self::File => Err(refused(
                "a COPY to a file with data-modifying statements in WITH",
                "run CREATE TABLE AS with the query, and copy the table",
            )),
            Self::Explained => Err(refused(
                "this form of EXPLAIN with data-modifying statements in WITH",
                "say EXPLAIN, EXPLAIN (FORMAT JSON) or EXPLAIN (FORMAT SVG)",
            )),
            Self::Inside => Ok(not_impl_err!(
                "WITH clause containing a data-modifying statement must be at the top level"
            )?),
        }
    }
}

/// State of a walk over a statement that checks the places of changes of rows.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The place of the next query.
    next: Place,
    /// Number of changes of rows in the outermost WITH that the walk has not reached yet.
    expected: usize,
}

impl Places {
    /// The places of a statement whose first query has this one.
    pub(super) fn from(first: Place) -> Self {
        Self { next: first, expected: 0 }
    }

    /// Refuses a change of rows that is a query, or in the WITH of a query, unless the statement
    /// may have it there. Must be called with each query before those inside of it.
    ///
    /// # Errors
    /// [`SqlError::Refused`], and the errors of PostgreSQL.
    pub(super) fn check(&mut self, query: &Query) -> Result<(), SqlError> {
        let place = mem::take(&mut self.next);
        if is_change(query) && place != Place::Top {
            match self.expected.checked_sub(1) {
                Some(left) => self.expected = left,
                None => {
                    let instead = "name it in the WITH of the statement, and give it RETURNING";
                    return Err(refused("a change of rows as a subquery", instead));
                }
            }
        }
        if !has_changes(query) {
            return Ok(());
        }
        place.check()?;
        let queries = query.with.iter().flat_map(|with| &with.cte_tables);
        let mut changes = queries.map(|it| &it.query).filter(|query| is_change(query));
        self.expected = changes.clone().count();
        match changes.any(|query| matches!(query.body.as_ref(), SetExpr::Merge(_))) {
            true => Ok(not_impl_err!("MERGE not supported in WITH query")?),
            false => Ok(()),
        }
    }
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

//! Locks of the rows that a query reads: FOR UPDATE and FOR SHARE.
//!
//! ```text
//! SELECT ... FOR {UPDATE | NO KEY UPDATE | SHARE | KEY SHARE} [OF t, ...] [NOWAIT | SKIP LOCKED]
//! ```
//!
//! Rows have no identifiers that outlive their chunks, so whole tables are locked, before the
//! statement takes its snapshot. Then the clauses, which the planner does not support, are removed
//! from the statement.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::plan_datafusion_err;
use datafusion::logical_expr::AggregateUDF;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, FromTable, GroupByExpr, Ident, LockClause, NonBlock, ObjectName, Query, Select,
    SetExpr, Statement as SqlStatement, TableFactor, TableWithJoins, Value, VisitorMut, With,
};
use terrace_table::error::SqlError;

use super::column_options::normalized;
use super::refusal::refused;
use super::walk::{OwnExprs, Walk, walk_values};

/// The rows that the queries of a statement lock.
#[derive(Clone, Debug, Default)]
pub(super) struct RowLocks {
    pub(super) locks: Vec<RowLock>,
    /// The tables whose rows the statement updates or deletes.
    pub(super) changed: Vec<ObjectName>,
}

/// A relation whose rows a query locks.
#[derive(Clone, Debug)]
pub(super) struct RowLock {
    /// Number of the query in its statement, in the order of a walk.
    pub(super) query: usize,
    pub(super) relation: ObjectName,
    pub(super) wait: Wait,
}

/// The reaction of a query to a lock that another transaction holds. Of two clauses for one table,
/// the variant that is declared first applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wait {
    /// The statement fails.
    Never,
    /// The query returns no rows.
    Skip,
    /// The statement waits.
    ForLock,
}

impl Wait {
    fn of(clause: &LockClause) -> Self {
        match clause.nonblock {
            Some(NonBlock::Nowait) => Self::Never,
            Some(NonBlock::SkipLocked) => Self::Skip,
            None => Self::ForLock,
        }
    }
}

/// Refuses a query with a lock clause and a clause after which its rows are no rows of tables, such
/// as GROUP BY, as PostgreSQL does.
///
/// # Errors
/// [`SqlError::Refused`].
pub(super) fn check(query: &Query) -> Result<(), SqlError> {
    match query.locks.first() {
        Some(clause) => check_body(&query.body, &keywords(clause)),
        None => Ok(()),
    }
}

fn check_body(body: &SetExpr, clause: &str) -> Result<(), SqlError> {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::Query(query) => return check_body(&query.body, clause),
        SetExpr::SetOperation { .. } => {
            return Err(excluded(clause, "UNION, INTERSECT or EXCEPT"));
        }
        _ => return Err(excluded(clause, "VALUES")),
    };
    let groups = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
    };
    let is_distinct = matches!(select.distinct, Some(Distinct::Distinct | Distinct::On(_)));
    for (is_there, with) in [
        (is_distinct, "DISTINCT"),
        (groups, "GROUP BY"),
        (select.having.is_some(), "HAVING"),
        (select.qualify.is_some(), "QUALIFY"),
    ] {
        if is_there {
            return Err(excluded(clause, with));
        }
    }
    relations_of(&select.from).into_iter().try_for_each(|relation| match relation {
        TableFactor::Derived { subquery, .. } => check_body(&subquery.body, clause),
        _ => Ok(()),
    })
}

/// The error for a query with a lock of its rows that are not rows of tables.
fn excluded(clause: &str, with: &str) -> SqlError {
    let instead = "lock the rows by a query of their own, which returns them as they are stored";
    refused(&format!("{clause} with {with}"), instead)
}

fn keywords(clause: &LockClause) -> String {
    format!("FOR {}", clause.lock_type)
}

/// The rows that the queries of a statement lock; `None` if it has no such clause.
///
/// # Errors
/// [`SqlError::Refused`] for a query that aggregates, and for a lock of no table; if FROM lacks a
/// relation behind OF.
pub(super) fn find(
    aggregates: &HashMap<String, Arc<AggregateUDF>>,
    statement: &mut Statement,
) -> Result<Option<RowLocks>, SqlError> {
    let mut search = Search {
        aggregates,
        with: vec![],
        queries: 0,
        is_found: false,
        found: RowLocks::default(),
        error: None,
    };
    let _ = statement.walk(&mut search);
    match search.error {
        Some(error) => Err(error),
        None => Ok(search.is_found.then_some(search.found)),
    }
}

/// True if a statement whose formatted text is `text` may lock rows: a test that is cheaper than a
/// walk over the statement.
pub(super) fn may_be_in_text(text: &str) -> bool {
    text.contains("FOR UPDATE") || text.contains("FOR SHARE")
}

/// True for a statement whose queries may lock rows: a query or a change of rows.
pub(super) fn may_be_in(statement: &Statement) -> bool {
    use SqlStatement::{Delete, Insert, Merge, Query, Update};
    let Statement::Statement(statement) = statement else { return false };
    matches!(statement.as_ref(), Query(_) | Insert(_) | Update(_) | Delete(_) | Merge(_))
}

/// True for a query that changes no rows, also in its WITH.
pub(super) fn is_query(statement: &Statement) -> bool {
    let Statement::Statement(statement) = statement else { return false };
    let SqlStatement::Query(query) = statement.as_ref() else { return false };
    let with = query.with.iter().flat_map(|with| &with.cte_tables);
    let mut bodies = with.map(|named| &named.query.body).chain([&query.body]);
    !bodies.any(|body| {
        use SetExpr::{Delete, Insert, Merge, Update};
        matches!(body.as_ref(), Insert(_) | Update(_) | Delete(_) | Merge(_))
    })
}

/// True if a query of the statement locks rows.
pub(super) fn are_in(statement: &Statement) -> bool {
    let mut found = First(None);
    let _ = statement.clone().walk(&mut found);
    found.0.is_some()
}

/// Refuses FOR UPDATE and FOR SHARE in a statement or query for which no rows are locked.
///
/// # Errors
/// [`SqlError::Refused`].
pub(super) fn refuse(node: &mut impl Walk) -> Result<(), SqlError> {
    let mut found = First(None);
    let _ = node.walk(&mut found);
    found.0.map_or(Ok(()), |clause| {
        Err(refused(
            &format!("{clause} in a definition, PREPARE, COPY, SUMMARIZE or EXPLAIN ANALYZE"),
            "say it in a query or a change of rows",
        ))
    })
}

/// Removes the clauses from a statement. Makes the queries whose numbers are in `skipped` return no
/// rows.
pub(super) fn clear(statement: &mut Statement, skipped: &BTreeSet<usize>) {
    let _ = statement.walk(&mut Clear { open: vec![], queries: 0, skipped });
}

/// A copy of a prepared statement for planning, without its lock clauses if it `locks_rows`: each
/// run takes the locks.
pub(super) fn without(statement: &Statement, locks_rows: bool) -> Statement {
    let mut statement = statement.clone();
    if locks_rows {
        clear(&mut statement, &BTreeSet::new());
    }
    statement
}

/// The first clause of a statement.
struct First(Option<String>);

impl VisitorMut for First {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        match query.locks.first() {
            Some(clause) => {
                self.0 = Some(keywords(clause));
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        }
    }
}

struct Clear<'a> {
    /// Numbers of the queries around, the outermost first.
    open: Vec<usize>,
    queries: usize,
    skipped: &'a BTreeSet<usize>,
}

impl VisitorMut for Clear<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        query.locks.clear();
        self.open.push(self.queries);
        self.queries += 1;
        ControlFlow::Continue(())
    }

    /// Replaces the condition of a skipped query after its subqueries were counted.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(place) = self.open.pop()
            && self.skipped.contains(&place)
            && let Some(select) = select_of_mut(&mut query.body)
        {
            select.selection = Some(Expr::Value(Value::Boolean(false).into()));
        }
        ControlFlow::Continue(())
    }
}

struct Search<'a> {
    aggregates: &'a HashMap<String, Arc<AggregateUDF>>,
    /// Names of the WITH queries of each query around.
    with: Vec<Vec<String>>,
    queries: usize,
    is_found: bool,
    found: RowLocks,
    error: Option<SqlError>,
}

impl VisitorMut for Search<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<()> {
        self.found.changed.extend(changed_by(statement));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let place = self.queries;
        self.queries += 1;
        self.with.push(names_of(query.with.as_ref()));
        if query.locks.is_empty() {
            return ControlFlow::Continue(());
        }
        self.is_found = true;
        match self.add_query(place, query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.with.pop();
        ControlFlow::Continue(())
    }
}

impl Search<'_> {
    /// Adds the relations that the clauses of a query lock.
    fn add_query(&mut self, place: usize, query: &mut Query) -> Result<(), SqlError> {
        let clauses = query.locks.clone();
        let Some(select) = select_of_mut(&mut query.body) else { return Ok(()) };
        if let Some(clause) = clauses.first() {
            self.refuse_calls(select, &keywords(clause))?;
        }
        let relations = relations_of(&select.from);
        for clause in &clauses {
            let wait = Wait::of(clause);
            let Some(of) = &clause.of else {
                for relation in &relations {
                    self.add(place, relation, wait)?;
                }
                continue;
            };
            let name = of.to_string();
            let found = relations.iter().find(|relation| is_called(relation, of));
            let found = found.ok_or_else(|| {
                let clause = keywords(clause);
                plan_datafusion_err!(
                    "relation \"{name}\" in {clause} clause not found in FROM clause"
                )
            })?;
            let before = self.found.locks.len();
            self.add(place, found, wait)?;
            if self.found.locks.len() == before {
                let what = format!("{} OF {name}, which is no table", keywords(clause));
                return Err(refused(&what, "name a table or a view, or leave OF out"));
            }
        }
        Ok(())
    }

    /// Adds a relation, or those of a subquery. Functions and WITH queries have no rows to lock.
    fn add(&mut self, query: usize, relation: &TableFactor, wait: Wait) -> Result<(), SqlError> {
        match relation {
            TableFactor::Table { name, args: None, .. } if !self.is_with(name) => {
                self.found.locks.push(RowLock { query, relation: name.clone(), wait });
                Ok(())
            }
            TableFactor::Derived { subquery, .. } => {
                self.with.push(names_of(subquery.with.as_ref()));
                let relations = select_of(&subquery.body).map(|it| relations_of(&it.from));
                let mut relations = relations.into_iter().flatten();
                let added = relations.try_for_each(|relation| self.add(query, relation, wait));
                self.with.pop();
                added
            }
            _ => Ok(()),
        }
    }

    /// True for the name of a WITH query.
    fn is_with(&self, name: &ObjectName) -> bool {
        let [part] = name.0.as_slice() else { return false };
        let Some(name) = part.as_ident() else { return false };
        let name = normalized(name.clone());
        self.with.iter().flatten().any(|known| *known == name)
    }

    /// Refuses aggregate and window functions.
    fn refuse_calls(&self, select: &mut Select, clause: &str) -> Result<(), SqlError> {
        let mut found = None;
        let mut search = OwnExprs::outermost_first(|expr| {
            let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            let name = function.name.0.last().and_then(|part| part.as_ident());
            let name = name.map(|name| name.value.to_ascii_lowercase());
            if function.over.is_some() {
                found = Some("window functions");
            } else if name.is_some_and(|name| self.aggregates.contains_key(&name)) {
                found = Some("aggregate functions");
            }
            match found {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        });
        let _ = walk_values(select, &mut search);
        found.map_or(Ok(()), |with| Err(excluded(clause, with)))
    }
}

/// The table whose rows a statement updates or deletes.
fn changed_by(statement: &SqlStatement) -> Option<ObjectName> {
    let relation = match statement {
        SqlStatement::Update(update) => &update.table.relation,
        SqlStatement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            &from.first()?.relation
        }
        SqlStatement::Merge(merge) => &merge.table,
        _ => return None,
    };
    match relation {
        TableFactor::Table { name, .. } => Some(name.clone()),
        _ => None,
    }
}

fn names_of(with: Option<&With>) -> Vec<String> {
    let queries = with.into_iter().flat_map(|with| &with.cte_tables);
    queries.map(|query| normalized(query.alias.name.clone())).collect()
}

/// True for the relation that OF names: by its alias, or by the last part of its name.
fn is_called(relation: &TableFactor, of: &ObjectName) -> bool {
    let last = |name: &ObjectName| {
        let part = name.0.last().and_then(|part| part.as_ident());
        part.map(|name: &Ident| normalized(name.clone()))
    };
    let called = match relation {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => Some(normalized(alias.name.clone())),
        TableFactor::Table { name, alias: None, .. } => last(name),
        _ => None,
    };
    called.is_some() && called == last(of)
}

/// The relations of a FROM.
fn relations_of(from: &[TableWithJoins]) -> Vec<&TableFactor> {
    let mut relations = Vec::new();
    for joined in from {
        for relation in
            std::iter::once(&joined.relation).chain(joined.joins.iter().map(|join| &join.relation))
        {
            match relation {
                TableFactor::NestedJoin { table_with_joins, .. } => {
                    relations.extend(relations_of(std::slice::from_ref(table_with_joins.as_ref())));
                }
                relation => relations.push(relation),
            }
        }
    }
    relations
}

fn select_of(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => select_of(&query.body),
        _ => None,
    }
}

fn select_of_mut(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => select_of_mut(&mut query.body),
        _ => None,
    }
}

//! Logical plans of the parts of a statement.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::{not_impl_err, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::logical_plan::Statement as PlanStatement;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Cte, Query, SetExpr, Statement as SqlStatement, TableAlias, With,
};
use futures::future::BoxFuture;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;

use super::super::column_options::normalized;
use super::super::dialect::parsed_query;
use super::super::normalize::{is_change, move_with};
use super::super::returning;
use super::super::state::Session;
use super::names::{Queries, uses};
use super::node::{Part, PartsNode};
use super::rows::{PartTable, columns_of, function_name, query_text};

impl Session {
    /// The logical plan of a statement of several parts. Later parts name the rows of earlier ones
    /// as table functions of `state`.
    ///
    /// # Errors
    /// Errors of planning, and of a WITH that PostgreSQL refuses.
    pub(in super::super) fn plan_parts<'a>(
        &'a self,
        mut state: SessionState,
        snapshot: &'a Snapshot,
        statement: Statement,
    ) -> BoxFuture<'a, Result<LogicalPlan, SqlError>> {
        Box::pin(async move {
            let mut split = Split::new(statement)?;
            let mut parts = Vec::new();
            while let Some(next) = split.next_part()? {
                let NextPart { place, alias, statement } = next;
                let name = split.queries.names[place].clone();
                let plan = self.logical_plan(&state, snapshot, statement).await?;
                let plan = without_prepare(plan);
                let rows = split.define(place, alias, parts.len(), &plan)?;
                if let Some(schema) = &rows {
                    let (part, schema) = (parts.len(), Arc::clone(schema));
                    let table = Arc::new(PartTable { part, schema });
                    state.register_udtf(&function_name(part), table);
                }
                parts.push(Part { name, plan, rows });
            }
            let main = self.logical_plan(&state, snapshot, split.into_main()?).await?;
            Ok(with_parts(parts, main))
        })
    }
}

/// The plan of the statement of a PREPARE, or any other plan.
fn without_prepare(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::Statement(PlanStatement::Prepare(prepare)) => {
            Arc::unwrap_or_clone(prepare.input)
        }
        plan => plan,
    }
}

/// The plan of a statement with these parts before it, within its PREPARE if it has one.
fn with_parts(parts: Vec<Part>, main: LogicalPlan) -> LogicalPlan {
    match main {
        LogicalPlan::Statement(PlanStatement::Prepare(mut prepare)) => {
            let main = Arc::unwrap_or_clone(prepare.input);
            prepare.input = Arc::new(PartsNode { parts, main }.into_plan());
            LogicalPlan::Statement(PlanStatement::Prepare(prepare))
        }
        main => PartsNode { parts, main }.into_plan(),
    }
}

/// The next part of a statement.
struct NextPart {
    /// Its place in the WITH.
    place: usize,
    alias: TableAlias,
    statement: Statement,
}

/// A statement and its WITH, while the parts are taken from it.
struct Split {
    /// The statement, without its WITH.
    statement: Statement,
    is_recursive: bool,
    queries: Queries,
    /// The names that the statement uses, and those of queries that no part uses.
    main_uses: HashSet<String>,
    /// The queries that are parts of their own: changes, and those that several statements read.
    is_part: Vec<bool>,
    /// The queries that have not been looked at, in order.
    rest: VecDeque<Cte>,
    /// The queries that a later statement may have in its WITH, by place.
    defined: Vec<(usize, Cte)>,
}

impl Split {
    fn new(mut statement: Statement) -> Result<Self, SqlError> {
        let with = query_of(&mut statement).and_then(|query| query.with.take());
        let Some(With { recursive: is_recursive, mut cte_tables, .. }) = with else {
            return Err(SqlError::Task("a statement of several parts has no WITH".to_owned()));
        };
        let names = cte_tables.iter().map(|it| normalized(it.alias.name.clone())).collect();
        let uses_of = cte_tables.iter_mut().map(|it| uses(it.query.as_mut())).collect();
        let queries = Queries { names, uses: uses_of };
        let mut main_uses = uses(&mut statement);
        check(&cte_tables, &queries, &main_uses)?;
        let is_change = cte_tables.iter().map(|it| is_change(&it.query)).collect();
        let is_part = parts_of(&queries, &main_uses, is_change);
        // The statement has the queries that nothing reads, for their errors.
        let read = queries.uses.iter().chain([&main_uses]).flatten();
        let read: HashSet<_> = read.cloned().collect();
        let unread = queries.names.iter().zip(&is_part);
        let unread = unread.filter(|(name, is_part)| !**is_part && !read.contains(*name));
        main_uses.extend(unread.map(|(name, _)| name.clone()));
        let (rest, defined) = (cte_tables.into(), Vec::new());
        Ok(Self { statement, is_recursive, queries, main_uses, is_part, rest, defined })
    }

    /// The next part, in the order of the WITH.
    fn next_part(&mut self) -> Result<Option<NextPart>, SqlError> {
        while let Some(query) = self.rest.pop_front() {
            let place = self.queries.names.len() - self.rest.len() - 1;
            if !self.is_part[place] {
                self.defined.push((place, query));
                continue;
            }
            let alias = query.alias.clone();
            let with = self.with_for(&self.queries.uses[place]);
            let statement = match is_change(&query.query) {
                true => change_of(*query.query, with)?,
                false => SqlStatement::Query(Box::new(self.rows_of(query, with)?)),
            };
            let statement = self.prepared(statement);
            return Ok(Some(NextPart { place, alias, statement }));
        }
        Ok(None)
    }

    /// Makes the rows of a planned part known to the statements after it, and returns their
    /// columns; `None` if no statement reads them.
    fn define(
        &mut self,
        place: usize,
        mut alias: TableAlias,
        part: usize,
        plan: &LogicalPlan,
    ) -> Result<Option<SchemaRef>, SqlError> {
        let fields: Vec<FieldRef> = match (returning::of(plan), plan) {
            (Some(node), _) => node.marked_columns()?,
            (None, LogicalPlan::Dml(_)) => vec![],
            (None, plan) => plan.schema().fields().iter().map(Arc::clone).collect(),
        };
        let (name, given) = (&self.queries.names[place], alias.columns.len());
        if given > fields.len() {
            return Ok(plan_err!(
                "WITH query \"{name}\" has {} columns available but {given} columns specified",
                fields.len()
            )?);
        }
        let mut later = self.queries.uses.iter().skip(place + 1).chain([&self.main_uses]);
        if fields.is_empty() || !later.any(|uses| uses.contains(name)) {
            return Ok(None);
        }
        let names = alias.columns.drain(..).map(|column| normalized(column.name));
        let mut names: Vec<_> = names.collect();
        names.extend(fields.iter().skip(given).map(|field| field.name().clone()));
        let query = Box::new(parsed_query(&query_text(part, &names))?);
        let (from, materialized) = (None, None);
        let closing_paren_token = AttachedToken::empty();
        let query = Cte { alias, query, from, materialized, closing_paren_token };
        self.defined.push((place, query));
        Ok(Some(columns_of(&fields)))
    }

    /// The statement behind the WITH, with the queries that are no parts of their own.
    fn into_main(self) -> Result<Statement, SqlError> {
        let with = self.with_for(&self.main_uses);
        let mut statement = self.statement;
        if let Some(query) = query_of(&mut statement) {
            query.with = with;
        }
        if let Statement::Statement(statement) = &mut statement {
            move_with_of(statement)?;
        }
        Ok(statement)
    }

    /// The WITH of a statement with these uses.
    fn with_for(&self, uses: &HashSet<String>) -> Option<With> {
        let needed = self.queries.needed(uses, &self.is_part);
        let defined = self.defined.iter().filter(|(place, _)| needed[*place]);
        let cte_tables: Vec<_> = defined.map(|(_, query)| query.clone()).collect();
        let with_token = AttachedToken::empty();
        let recursive = self.is_recursive;
        (!cte_tables.is_empty()).then_some(With { with_token, recursive, cte_tables })
    }

    /// A query for the rows of a query of WITH.
    fn rows_of(&self, query: Cte, with: Option<With>) -> Result<Query, SqlError> {
        let mut rows = parsed_query(&format!("SELECT * FROM {}", query.alias.name))?;
        let mut cte_tables = with.map(|with| with.cte_tables).unwrap_or_default();
        cte_tables.push(query);
        let with_token = AttachedToken::empty();
        rows.with = Some(With { with_token, recursive: self.is_recursive, cte_tables });
        Ok(rows)
    }

    /// A part as a statement, or as that of a PREPARE if the whole statement is one.
    fn prepared(&self, part: SqlStatement) -> Statement {
        let part = match &self.statement {
            Statement::Statement(statement) => match statement.as_ref() {
                SqlStatement::Prepare { name, data_types, .. } => {
                    let (name, data_types) = (name.clone(), data_types.clone());
                    SqlStatement::Prepare { name, data_types, statement: Box::new(part) }
                }
                _ => part,
            },
            _ => part,
        };
        Statement::Statement(Box::new(part))
    }
}

/// The query that is a statement, also one of PREPARE or CREATE TABLE AS.
fn query_of(statement: &mut Statement) -> Option<&mut Query> {
    match statement {
        Statement::Statement(statement) => query_of_sql(statement),
        _ => None,
    }
}

fn query_of_sql(statement: &mut SqlStatement) -> Option<&mut Query> {
    match statement {
        SqlStatement::Query(query) => Some(query),
        SqlStatement::CreateTable(create) => create.query.as_deref_mut(),
        SqlStatement::Prepare { statement, .. } => query_of_sql(statement),
        _ => None,
    }
}

/// Moves the WITH before a change of rows, also one of PREPARE, into the queries of the change.
fn move_with_of(statement: &mut SqlStatement) -> Result<(), SqlError> {
    match statement {
        SqlStatement::Prepare { statement, .. } => move_with_of(statement),
        statement => move_with(statement),
    }
}

/// A change of rows, with the queries of a WITH before its own ones.
fn change_of(mut change: Query, outer: Option<With>) -> Result<SqlStatement, SqlError> {
    change.with = match (outer, change.with.take()) {
        (Some(mut outer), Some(inner)) => {
            let own: HashSet<_> =
                inner.cte_tables.iter().map(|it| normalized(it.alias.name.clone())).collect();
            outer.cte_tables.retain(|it| !own.contains(&normalized(it.alias.name.clone())));
            outer.cte_tables.extend(inner.cte_tables);
            outer.recursive |= inner.recursive;
            Some(outer)
        }
        (outer, inner) => outer.or(inner),
    };
    let mut statement = SqlStatement::Query(Box::new(change));
    move_with(&mut statement)?;
    Ok(statement)
}

/// The queries that are parts of their own: `is_change`, and those that several statements read.
fn parts_of(queries: &Queries, main: &HashSet<String>, is_change: Vec<bool>) -> Vec<bool> {
    let changes = queries.uses.iter().zip(&is_change).filter(|(_, is_change)| **is_change);
    let statements = changes.map(|(uses, _)| uses).chain([main]);
    let needed: Vec<_> = statements.map(|uses| queries.needed(uses, &is_change)).collect();
    let is_part = is_change.iter().enumerate().map(|(place, is_change)| {
        *is_change || needed.iter().filter(|needed| needed[place]).count() > 1
    });
    is_part.collect()
}

/// Refuses a WITH that PostgreSQL refuses.
fn check(ctes: &[Cte], queries: &Queries, main: &HashSet<String>) -> Result<(), SqlError> {
    for (place, query) in ctes.iter().enumerate() {
        let name = &queries.names[place];
        if queries.names[..place].contains(name) {
            return Ok(plan_err!("WITH query name \"{name}\" specified more than once")?);
        }
        if !is_change(&query.query) {
            continue;
        }
        let mut later = queries.uses.iter().skip(place + 1).chain([main]);
        if !returns_rows(&query.query) && later.any(|uses| uses.contains(name)) {
            return Ok(not_impl_err!("WITH query \"{name}\" does not have a RETURNING clause")?);
        }
    }
    Ok(())
}

fn returns_rows(change: &Query) -> bool {
    match change.body.as_ref() {
        SetExpr::Insert(SqlStatement::Insert(insert)) => insert.returning.is_some(),
        SetExpr::Update(SqlStatement::Update(update)) => update.returning.is_some(),
        SetExpr::Delete(SqlStatement::Delete(delete)) => delete.returning.is_some(),
        _ => false,
    }
}

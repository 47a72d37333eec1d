//! Rewrites, before planning, of parts of a query that depend on the columns or rows of its tables.
//!
//! - `COLUMNS(...)` and `* RENAME` become lists of columns, in a view every `*` (`stars`): it keeps
//!   the columns that its tables have when it is made.
//! - The lambda of a COLUMNS becomes a list of names (`name_lambdas`), and `s.*` of a struct the
//!   list of its fields (`struct_stars`).
//! - A PIVOT without values gets those of its keys (`pivots`).
//! - A name in an expression of ORDER BY becomes the column of FROM that has it (`sort_keys`).
//! - A name that is no column of FROM becomes the expression of the alias of that name (`aliases`),
//!   in statements that could not be planned as they are. The name of a relation of FROM becomes a
//!   struct of its columns (`whole_rows`).
//! - An unquoted name that is a column's except for the case of letters becomes that column
//!   (`letter_case`), in statements that could not be planned as they are.
//!
//! For each part, the innermost first, a query over its tables and the WITH queries in scope is
//! planned to find their columns, or run to find the values of a PIVOT.

mod aliases;
mod letter_case;
mod name_lambdas;
mod pivots;
mod planned;
mod scopes;
mod sort_keys;
mod stars;
mod struct_stars;
mod whole_rows;

use std::borrow::Cow;
use std::ops::ControlFlow;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, Sort};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Query, Select, Statement as SqlStatement, TableFactor, VisitorMut,
};
use terrace_table::error::SqlError;

use planned::planned;

use super::refusal::refused;
use super::state::Session;
use super::walk::Walk;
use super::{column_series, duplicate_names, order_by_all};
use crate::access::Rights;
use scopes::Scopes;
use stars::Column;

/// Maximum number of rewritten parts of a statement, which is traversed once for each.
const PARTS_MAX: usize = 1000;

/// Rewrites the parts of a statement that depend on its tables, except aliases.
///
/// # Errors
/// Errors of the queries over its tables; [`SqlError::Refused`] for a part that has no meaning.
pub(super) async fn write_out(
    session: &Session,
    state: &SessionState,
    rights: &Rights<'_>,
    statement: &mut Statement,
) -> Result<(), SqlError> {
    expand(session, state, rights, statement, false).await.map(drop)
}

/// Plans a statement. If that fails for an unknown name, replaces names that differ from a column's
/// by the case of letters, then the aliases in it, and plans it again. The inner error is that of
/// planning, the outer one that of the replacement.
///
/// # Errors
/// [`SqlError::Refused`] for an alias of a value that would be computed anew at each use.
pub(super) async fn plan(
    session: &Session,
    state: &SessionState,
    rights: &Rights<'_>,
    statement: &Statement,
) -> Result<Result<LogicalPlan, DataFusionError>, SqlError> {
    let mut planned = attempt(state, statement).await;
    let mut statement = Cow::Borrowed(statement);
    while let Err(error) = &planned
        && aliases::is_cause(error)
    {
        let written = statement.to_mut();
        let mut tables = vec![];
        for question in letter_case::questions(error, written) {
            tables.push(match question {
                Some(query) => columns(state, rights, query).await.ok(),
                None => None,
            });
        }
        if !letter_case::quote(error, &tables, written) {
            break;
        }
        planned = attempt(state, &statement).await;
    }
    let statement = statement.as_ref();
    if planned.is_err() {
        let mut renamed = statement.clone();
        if column_series::rename(&mut renamed) {
            let renamed = attempt(state, &renamed).await;
            // With its column found, the statement fails for its own reason.
            let is_found = planned.as_ref().is_err_and(aliases::is_cause)
                && !renamed.as_ref().is_err_and(aliases::is_cause);
            if renamed.is_ok() || is_found {
                return Ok(renamed);
            }
        }
    }
    if !planned.as_ref().is_err_and(aliases::is_cause) {
        return Ok(planned);
    }
    let mut written = statement.clone();
    if !expand(session, state, rights, &mut written, true).await? {
        return Ok(planned);
    }
    match attempt(state, &written).await {
        Err(error) if aliases::is_cause(&error) => Ok(planned),
        other => Ok(other),
    }
}

/// Plans a statement once. DataFusion finds only later that ORDER BY names a column that the rows
/// do not have.
async fn attempt(
    state: &SessionState,
    statement: &Statement,
) -> Result<LogicalPlan, DataFusionError> {
    let plan = duplicate_names::plan(state, statement).await?;
    let check = |node: &LogicalPlan| {
        let LogicalPlan::Sort(Sort { expr, input, .. }) = node else {
            return Ok(TreeNodeRecursion::Continue);
        };
        for key in expr {
            for column in key.expr.column_refs() {
                input.schema().index_of_column(column)?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply_with_subqueries(check)?;
    Ok(plan)
}

async fn expand(
    session: &Session,
    state: &SessionState,
    rights: &Rights<'_>,
    statement: &mut Statement,
    aliases: bool,
) -> Result<bool, SqlError> {
    let is_view = matches!(statement, Statement::Statement(statement)
        if matches!(statement.as_ref(), SqlStatement::CreateView(_)));
    let (mut answer, mut done, mut is_written, mut parts) = (None, 0, false, 0);
    let (mut sorted, mut checked) = (0, 0);
    loop {
        is_written |= matches!(answer, Some(Answer::Columns(_)));
        let mut writer = Writer {
            state,
            checked,
            structs: 0,
            aliases,
            is_view,
            scopes: Scopes::default(),
            answer,
            done,
            selects: 0,
            sorted,
            queries: 0,
            question: None,
            error: None,
        };
        let _ = statement.walk(&mut writer);
        let (question, error) = (writer.question.take(), writer.error.take());
        let selects = writer.selects;
        (sorted, checked) = (writer.sorted, writer.checked);
        if let Some(error) = error {
            return Err(error);
        }
        let Some(question) = question else { return Ok(is_written) };
        parts += 1;
        if parts > PARTS_MAX {
            return Err(refused(
                "a statement with so many COLUMNS, PIVOT or aliases",
                &format!("at most {PARTS_MAX} are possible"),
            ));
        }
        done = selects;
        answer = Some(match question {
            Question::Columns(query) => {
                match columns(state, rights, *query).await {
                    Ok(columns) => Answer::Columns(columns),
                    // The planner reports the error of a FROM itself.
                    Err(_) if aliases || is_view => Answer::Unknown,
                    Err(error) => return Err(error),
                }
            }
            Question::Inputs(query) => {
                // The planner reports the error of a FROM itself.
                let columns = columns(state, rights, *query).await;
                columns.map_or(Answer::Unknown, Answer::Columns)
            }
            Question::Values(query) => {
                Answer::Values(pivots::values(session, state, rights, *query).await?)
            }
        });
    }
}

/// A query whose columns or rows the next rewrite needs.
enum Question {
    /// The columns of the query are needed.
    Columns(Box<Query>),
    /// As `Columns`, for a FROM that may have columns of an outer query.
    Inputs(Box<Query>),
    /// The rows of the query are needed: the values of the key of a PIVOT.
    Values(Box<Query>),
}

/// The answer to the last question.
enum Answer {
    Columns(Vec<Column>),
    Values(pivots::Values),
    /// The query cannot be planned by itself; its part is left as it is.
    Unknown,
}

/// The columns of a query.
async fn columns(
    state: &SessionState,
    rights: &Rights<'_>,
    query: Query,
) -> Result<Vec<Column>, SqlError> {
    let plan = planned(state, rights, query).await?;
    let schema = plan.schema();
    let column = |(table, field): (Option<&TableReference>, &FieldRef)| Column {
        table: table.cloned(),
        name: field.name().clone(),
        data_type: field.data_type().clone(),
    };
    Ok(schema.iter().map(column).collect())
}

/// Visitor that rewrites the first part, which it has the answer for, and stops at the next part
/// with a question. Every traversal visits the statement from its beginning, so SELECTs and queries
/// that are done are skipped by their number.
struct Writer<'a> {
    state: &'a SessionState,
    /// Number of SELECTs with stars that may be of structs whose stars are done.
    checked: usize,
    /// Number of such SELECTs visited in this traversal.
    structs: usize,
    /// True to replace aliases and whole rows; false for the other parts.
    aliases: bool,
    /// True for the statement of a view, whose every `*` is written as a list of columns.
    is_view: bool,
    /// The WITH queries in scope at the visited node.
    scopes: Scopes,
    answer: Option<Answer>,
    /// Number of SELECTs that are done: their aliases or, in a view, their stars.
    done: usize,
    /// Number of SELECTs visited in this traversal.
    selects: usize,
    /// Number of queries whose ORDER BY is done.
    sorted: usize,
    /// Number of queries visited in this traversal.
    queries: usize,
    question: Option<Question>,
    error: Option<SqlError>,
}

impl Writer<'_> {
    fn ask(&mut self, question: Question) -> ControlFlow<()> {
        self.question = Some(question);
        ControlFlow::Break(())
    }

    /// Rewrites the ORDER BY of a query.
    fn sort_keys(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        if self.aliases || self.queries <= self.sorted {
            return ControlFlow::Continue(());
        }
        let Some(select) = sort_keys::select_of(query) else { return ControlFlow::Continue(()) };
        match self.answer.take() {
            Some(Answer::Columns(columns)) => {
                if let Err(error) = sort_keys::write_out(query, &columns) {
                    return self.goes_on(Err(error));
                }
            }
            Some(_) => {}
            None => {
                return match stars::question(select) {
                    Ok(asked) => {
                        let asked = self.scopes.within(asked);
                        self.ask(Question::Inputs(Box::new(asked)))
                    }
                    Err(error) => self.goes_on(Err(error)),
                };
            }
        }
        self.sorted = self.queries;
        ControlFlow::Continue(())
    }

    fn goes_on(&mut self, result: Result<(), SqlError>) -> ControlFlow<()> {
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl VisitorMut for Writer<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if !self.aliases {
            // The columns of some stars are known only now.
            order_by_all::write_out(query);
        }
        let flow = self.sort_keys(query);
        self.scopes.leave(query);
        flow
    }

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if self.aliases {
            return ControlFlow::Continue(());
        }
        loop {
            let asked = match pivots::question(table) {
                Ok(Some(query)) => query,
                Ok(None) => return ControlFlow::Continue(()),
                Err(error) => return self.goes_on(Err(error)),
            };
            if self.is_view {
                return self.goes_on(Err(refused(
                    "a view of a PIVOT without values",
                    "name the values: ON column IN (...)",
                )));
            }
            match self.answer.take() {
                Some(Answer::Values(values)) => pivots::answer(table, values),
                _ => {
                    let query = self.scopes.within(asked);
                    return self.ask(Question::Values(Box::new(query)));
                }
            }
        }
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let has_structs = !self.aliases && struct_stars::are_in(select);
        self.structs += usize::from(has_structs);
        let is_struct = has_structs && self.structs > self.checked;
        let is_needed = match self.aliases {
            false => {
                self.selects += usize::from(self.is_view);
                let is_next = self.is_view && self.selects > self.done;
                is_struct || stars::are_in(select) || (is_next && stars::has_plain(select))
            }
            true => {
                self.selects += 1;
                self.selects > self.done && (aliases::are_in(select) || whole_rows::are_in(select))
            }
        };
        if !is_needed {
            return ControlFlow::Continue(());
        }
        let written = match self.answer.take() {
            Some(Answer::Columns(columns)) if self.aliases => {
                whole_rows::write_out(select, &columns)
                    .and_then(|()| aliases::write_out(select, &columns, self.state))
            }
            Some(Answer::Columns(columns)) => struct_stars::write_out(select, &columns)
                .and_then(|()| name_lambdas::write_out(select, &columns, self.state))
                .and_then(|()| stars::write_out(select, &columns, self.is_view)),
            Some(Answer::Unknown) => Ok(()),
            _ => {
                self.selects = self.selects.saturating_sub(1);
                return match stars::question(select) {
                    Ok(query) => {
                        let query = Box::new(self.scopes.within(query));
                        // Most of these stars are of tables after all.
                        let is_sure = self.aliases || stars::are_in(select);
                        match is_struct && !is_sure {
                            true => self.ask(Question::Inputs(query)),
                            false => self.ask(Question::Columns(query)),
                        }
                    }
                    Err(error) => self.goes_on(Err(error)),
                };
            }
        };
        if has_structs {
            self.structs -= usize::from(!struct_stars::are_in(select));
            self.checked = self.structs;
        }
        self.goes_on(written)
    }
}

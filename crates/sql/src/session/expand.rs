//! Parts of a query that depend on the columns or rows of its tables, written out before planning.
//!
//! - `COLUMNS(...)` and `* RENAME` become lists of columns (`stars`).
//! - A PIVOT without values gets those of its keys (`pivots`).
//! - A name that is no column of FROM becomes the expression of that alias (`aliases`), in
//!   statements that could not be planned as they are.
//!
//! Each part asks a query about its tables, with the WITH queries in scope, innermost part first.

mod aliases;
mod pivots;
mod planned;
mod scopes;
mod stars;

use std::ops::ControlFlow;

use datafusion::common::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Query, Select, Statement as SqlStatement, TableFactor, VisitorMut,
};
use terrace_table::error::SqlError;

use planned::planned;

use super::refusal::refused;
use super::state::Session;
use super::walk::Walk;
use super::{column_series, duplicate_names};
use crate::access::Rights;
use scopes::Scopes;
use stars::Column;

/// Maximum number of parts of a statement: the statement is walked for each.
const PARTS_MAX: usize = 1000;

/// Writes out the parts of a statement that depend on its tables.
///
/// # Errors
/// Errors of the queries about its tables; [`SqlError::Refused`] for a part that has no meaning.
pub(super) async fn write_out(
    session: &Session,
    state: &SessionState,
    rights: &Rights<'_>,
    statement: &mut Statement,
) -> Result<(), SqlError> {
    expand(session, state, rights, statement, false).await.map(drop)
}

/// Plans a statement, with its aliases replaced if that fails for a name. The inner error is that
/// of planning.
///
/// # Errors
/// [`SqlError::Refused`] for an alias of a value that would be computed anew at each use.
pub(super) async fn plan(
    session: &Session,
    state: &SessionState,
    rights: &Rights<'_>,
    statement: &Statement,
) -> Result<Result<LogicalPlan, DataFusionError>, SqlError> {
    let planned = duplicate_names::plan(state, statement).await;
    if planned.is_err() {
        let mut renamed = statement.clone();
        if column_series::rename(&mut renamed) {
            let renamed = duplicate_names::plan(state, &renamed).await;
            if renamed.is_ok() {
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
    match duplicate_names::plan(state, &written).await {
        Err(error) if aliases::is_cause(&error) => Ok(planned),
        other => Ok(other),
    }
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
    let volatile = |name: &str| aliases::is_volatile(state, name);
    let (mut answer, mut done, mut is_written, mut parts) = (None, 0, false, 0);
    loop {
        is_written |= matches!(answer, Some(Answer::Columns(_)));
        let mut writer = Writer {
            aliases,
            is_view,
            volatile: &volatile,
            scopes: Scopes::default(),
            answer,
            done,
            selects: 0,
            question: None,
            error: None,
        };
        let _ = statement.walk(&mut writer);
        let (question, error) = (writer.question.take(), writer.error.take());
        let selects = writer.selects;
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
                    Err(_) if aliases => Answer::Unknown,
                    Err(error) => return Err(error),
                }
            }
            Question::Values(query) => {
                Answer::Values(pivots::values(session, state, rights, *query).await?)
            }
        });
    }
}

/// A query whose columns or rows are needed.
enum Question {
    Columns(Box<Query>),
    Values(Box<Query>),
}

/// The answer to the last question.
enum Answer {
    Columns(Vec<Column>),
    Values(pivots::Values),
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
    let columns = schema.columns().into_iter();
    Ok(columns.map(|column| Column { table: column.relation, name: column.name }).collect())
}

/// Writes out the first part for which it has an answer, and asks about the next.
struct Writer<'a> {
    aliases: bool,
    is_view: bool,
    /// True for a function whose result differs between calls.
    volatile: &'a (dyn Fn(&str) -> bool + Sync),
    scopes: Scopes,
    answer: Option<Answer>,
    /// The number of the SELECTs before, whose aliases are written out.
    done: usize,
    selects: usize,
    question: Option<Question>,
    error: Option<SqlError>,
}

impl Writer<'_> {
    fn ask(&mut self, question: Question) -> ControlFlow<()> {
        self.question = Some(question);
        ControlFlow::Break(())
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
        self.scopes.leave(query);
        ControlFlow::Continue(())
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
        let is_needed = match self.aliases {
            false => stars::are_in(select),
            true => {
                self.selects += 1;
                self.selects > self.done && aliases::are_in(select)
            }
        };
        if !is_needed {
            return ControlFlow::Continue(());
        }
        let written = match self.answer.take() {
            Some(Answer::Columns(columns)) if self.aliases => {
                aliases::write_out(select, &columns, self.volatile)
            }
            Some(Answer::Columns(columns)) => stars::write_out(select, &columns),
            Some(Answer::Unknown) => Ok(()),
            _ => {
                self.selects = self.selects.saturating_sub(1);
                return match stars::question(select) {
                    Ok(query) => {
                        let query = self.scopes.within(query);
                        self.ask(Question::Columns(Box::new(query)))
                    }
                    Err(error) => self.goes_on(Err(error)),
                };
            }
        };
        self.goes_on(written)
    }
}

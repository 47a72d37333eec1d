//! PREPARE, EXECUTE and DEALLOCATE: prepared statements under names.
//!
//! A statement is kept like one that a client has prepared through its protocol
//! ([`super::prepared`]): it is planned again once a table, a view or a function has changed.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result as DataFusionResult, ScalarValue, exec_datafusion_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::logical_plan::{Execute, Statement as PlanStatement};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use futures::future::BoxFuture;
use terrace_functions::lists::text_array;
use terrace_sys::sync::lock;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;

use super::column_options::normalized;
use super::expressions::Expressions;
use super::prepared_statement::Prepared;
use super::refusal::refused;
use super::state::{Planned, Session};

/// A statement about prepared statements.
pub(super) enum Named {
    /// PREPARE of a statement under a name.
    Prepare(String, Box<Statement>),
    /// DEALLOCATE of one statement.
    Deallocate(String),
    /// DEALLOCATE ALL.
    DeallocateAll,
}

/// Returns the PREPARE or DEALLOCATE that a statement is; `None` for any other statement.
pub(super) fn of(statement: &Statement) -> Option<Named> {
    let Statement::Statement(statement) = statement else { return None };
    match statement.as_ref() {
        SqlStatement::Prepare { name, statement, .. } => {
            let statement = Statement::Statement(statement.clone());
            Some(Named::Prepare(normalized(name.clone()), Box::new(statement)))
        }
        SqlStatement::Deallocate { name, .. } => Some(match name.quote_style {
            None if name.value.eq_ignore_ascii_case("all") => Named::DeallocateAll,
            _ => Named::Deallocate(normalized(name.clone())),
        }),
        _ => None,
    }
}

impl Session {
    /// The statement of a PREPARE under this name, in lower case unless it was quoted.
    #[must_use]
    pub fn named_statement(&self, name: &str) -> Option<Arc<Prepared>> {
        lock(&self.prepared).get(name).cloned()
    }

    /// Runs a PREPARE or DEALLOCATE: plans and keeps a statement, or drops kept ones.
    ///
    /// # Errors
    /// Errors of planning; if the name is taken, or unknown.
    pub(super) async fn act_on_named(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        named: Named,
        statement: Statement,
    ) -> Result<Planned, SqlError> {
        match named {
            Named::Prepare(name, inner) => {
                if lock(&self.prepared).contains_key(&name) {
                    let exists = exec_datafusion_err!("Prepared statement '{name}' already exists");
                    return Err(exists.into());
                }
                let plan = self.logical_plan(state, snapshot, statement).await?;
                let LogicalPlan::Statement(PlanStatement::Prepare(prepare)) = plan else {
                    return Err(SqlError::Task("a PREPARE has another plan".to_owned()));
                };
                let types = prepare.fields.iter().map(|field| Some(field.data_type().clone()));
                let types: Vec<_> = types.collect();
                let plan = Arc::unwrap_or_clone(prepare.input);
                let prepared = self.kept(*inner, plan, &types, state, snapshot)?;
                lock(&self.prepared).insert(name, Arc::new(prepared));
            }
            Named::Deallocate(name) => {
                let removed = lock(&self.prepared).remove(&name);
                removed.ok_or_else(|| missing(&name))?;
            }
            Named::DeallocateAll => lock(&self.prepared).clear(),
        }
        Ok(Planned::nothing())
    }

    /// Replaces an EXECUTE by the plan of its statement with its values.
    ///
    /// # Errors
    /// If the name is unknown; [`SqlError::Refused`] for a wrong number of values, and for one that
    /// is not constant; errors of planning.
    pub(super) fn executed<'a>(
        &'a self,
        state: &'a SessionState,
        execute: Execute,
    ) -> BoxFuture<'a, Result<LogicalPlan, SqlError>> {
        Box::pin(async move {
            let Execute { name, parameters } = execute;
            let prepared = lock(&self.prepared).get(&name).cloned();
            let prepared = prepared.ok_or_else(|| missing(&name))?;
            let types = prepared.parameters();
            if parameters.len() != types.len() {
                let what = format!("EXECUTE {name} with {} parameters", parameters.len());
                return Err(refused(&what, &format!("it has {}", types.len())));
            }
            let values = parameters.into_iter().zip(types);
            let values = values.map(|(value, data_type)| {
                Ok::<_, SqlError>(with_type(constant(state, value)?, data_type)?)
            });
            let values = values.collect::<Result<_, _>>()?;
            let snapshot = self.scope().snapshot(self.engine.catalog())?;
            self.plan_with_values(&prepared, values, state, &snapshot).await
        })
    }
}

fn missing(name: &str) -> SqlError {
    exec_datafusion_err!("Prepared statement '{name}' does not exist").into()
}

/// The value with the type of its parameter; an array may be written as a text.
fn with_type(value: ScalarValue, data_type: &DataType) -> DataFusionResult<ScalarValue> {
    match (value.try_as_str().flatten(), data_type) {
        (Some(text), DataType::List(_)) => text_array(text)?.cast_to(data_type),
        _ => value.cast_to(data_type),
    }
}

/// The value of a parameter.
fn constant(state: &SessionState, value: Expr) -> Result<ScalarValue, SqlError> {
    let written = value.to_string();
    let expressions = Expressions::new(state, &Arc::new(Schema::empty()))?;
    match expressions.simplified(value)?.unalias() {
        Expr::Literal(value, _) => Ok(value),
        _ => Err(refused(&format!("the parameter {written}"), "say a constant")),
    }
}

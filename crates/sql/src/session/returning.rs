//! RETURNING: the clause is planned as a node above the change, since DataFusion's planner has
//! none.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, TableReference, internal_err};
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::logical_plan::Statement as PlanStatement;
use datafusion::logical_expr::{
    DmlStatement, Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore,
};
use terrace_table::error::SqlError;
use terrace_table::write::ReturnedColumns;

use super::expressions::Expressions;
use super::refusal::refused;
use super::returned_columns::{Returned, returned};
use super::returning_clause::Clause;
use crate::access::RETURNING;
use crate::provider::StoredTable;

/// Adds a RETURNING clause to the plan of its statement.
///
/// # Errors
/// [`SqlError::Refused`] for an expression that is not possible there; errors of planning.
pub(super) fn add(
    state: &SessionState,
    plan: LogicalPlan,
    clause: Option<Clause>,
) -> Result<LogicalPlan, SqlError> {
    let Some(clause) = clause else { return Ok(plan) };
    match plan {
        LogicalPlan::Statement(PlanStatement::Prepare(mut prepare)) => {
            let input = Arc::unwrap_or_clone(prepare.input);
            prepare.input = Arc::new(add(state, input, Some(clause))?);
            Ok(LogicalPlan::Statement(PlanStatement::Prepare(prepare)))
        }
        LogicalPlan::Dml(change) => {
            let node = ReturningNode::new(state, change, &clause)?;
            Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
        }
        _ => Err(refused("RETURNING here", "leave it out")),
    }
}

/// A change of rows and the values that it returns of them.
pub(super) struct ReturningNode {
    change: LogicalPlan,
    /// Expressions over the columns of `rows`.
    values: Vec<Expr>,
    /// Columns of the statement's other tables that the expressions use.
    others: Vec<Column>,
    /// The columns of the table, then those of other tables.
    rows: SchemaRef,
    schema: DFSchemaRef,
}

impl ReturningNode {
    fn new(state: &SessionState, change: DmlStatement, clause: &Clause) -> Result<Self, SqlError> {
        let provider = source_as_provider(&change.target)?;
        let Some(stored) = provider.downcast_ref::<StoredTable>() else {
            let what = format!("RETURNING for {}", change.table_name);
            return Err(refused(&what, "only tables of the database return rows"));
        };
        let Returned { columns, others, rows } = returned(state, &change, stored.table(), clause)?;
        let expressions = Expressions::new(state, &rows)?;
        let (mut values, mut fields) = (Vec::new(), Vec::new());
        for (place, (name, value)) in columns.into_iter().enumerate() {
            let value = expressions.simplified(value)?;
            let data_type = expressions.physical(&value)?.data_type(&rows)?;
            // Columns of one name differ in their table.
            let table = TableReference::bare(format!("column {place}"));
            fields.push((Some(table), Arc::new(Field::new(name, data_type, true))));
            values.push(value);
        }
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        Ok(Self { change: LogicalPlan::Dml(change), values, others, rows, schema })
    }

    /// Compiles the returned columns.
    ///
    /// # Errors
    /// Errors of planning.
    pub(super) fn columns(&self, state: &SessionState) -> Result<ReturnedColumns, SqlError> {
        let expressions = Expressions::new(state, &self.rows)?;
        let values = self.values.iter().map(|value| expressions.physical(value));
        let schema: SchemaRef = Arc::new(Schema::new(self.schema.fields().clone()));
        Ok(ReturnedColumns { values: values.collect::<Result<_>>()?, schema })
    }

    /// Returns the columns of the statement's other tables that the values are computed from, in
    /// addition to those of the table.
    pub(super) fn others(&self) -> &[Column] {
        &self.others
    }

    /// Returns the columns as those of a relation: columns of the table keep the marks of their
    /// types.
    ///
    /// # Errors
    /// None, unless the table has lost a column.
    pub(super) fn marked_columns(&self) -> Result<Vec<FieldRef>> {
        let columns = self.values.iter().zip(self.schema.fields());
        let columns = columns.map(|(value, field)| {
            let Expr::Column(column) = value else { return Ok(Arc::clone(field)) };
            let marks = self.rows.field_with_name(&column.name)?.metadata().clone();
            Ok(Arc::new(field.as_ref().clone().with_metadata(marks)))
        });
        columns.collect()
    }

    /// Returns the change below the clause.
    pub(super) fn change(&self) -> &LogicalPlan {
        &self.change
    }
}

/// The node of a plan, if it is a RETURNING.
pub(super) fn of(plan: &LogicalPlan) -> Option<&ReturningNode> {
    match plan {
        LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
        _ => None,
    }
}

impl UserDefinedLogicalNodeCore for ReturningNode {
    /// Another name for values that need no column of the table, nor the right to read it.
    fn name(&self) -> &str {
        let columns = self.values.iter().flat_map(Expr::column_refs);
        let table = self.rows.fields().len() - self.others.len();
        let is_of_table =
            |column: &Column| self.rows.index_of(&column.name).is_ok_and(|place| place < table);
        match columns.into_iter().any(is_of_table) {
            true => RETURNING,
            false => "ReturningConstants",
        }
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.change]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    /// None: the expressions are over the columns of the table, and the input returns a count.
    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<_> = self.values.iter().map(ToString::to_string).collect();
        write!(f, "Returning: {}", values.join(", "))
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(change), true) => {
                let (values, others) = (self.values.clone(), self.others.clone());
                let (rows, schema) = (Arc::clone(&self.rows), Arc::clone(&self.schema));
                Ok(Self { change, values, others, rows, schema })
            }
            _ => internal_err!("RETURNING has one input"),
        }
    }
}

impl fmt::Debug for ReturningNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_for_explain(f)
    }
}

impl PartialEq for ReturningNode {
    fn eq(&self, other: &Self) -> bool {
        self.change == other.change && self.values == other.values && self.schema == other.schema
    }
}

impl Eq for ReturningNode {}

impl Hash for ReturningNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.change.hash(state);
        self.values.hash(state);
    }
}

impl PartialOrd for ReturningNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self == other {
            true => Some(Ordering::Equal),
            false => None,
        }
    }
}

//! A prepared statement, and the plan that is kept for its runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use terrace_sys::size::to_u64;
use terrace_table::error::SqlError;

use super::client_text::StatementText;
use super::constant::Constant;
use super::routines::routine::Routine;
use super::statement::SessionStatement;
use crate::sessions::HeldBytes;

/// The statements that a session has prepared by PREPARE, by name.
pub(super) type NamedStatements = Mutex<HashMap<String, Arc<Prepared>>>;

/// A planned statement with `$1`, `$2` and so on in place of values.
#[derive(Debug)]
pub struct Prepared {
    pub(super) statement: SessionStatement,
    /// The text of the statement; empty for a statement that has no plan of DataFusion.
    pub(super) text: StatementText,
    pub(super) parameters: Vec<DataType>,
    pub(super) schema: Option<SchemaRef>,
    /// The kept plan; `None` for a statement that is planned at each run.
    pub(super) plan: Option<Mutex<Kept>>,
    /// The row of a constant statement; `None` for a statement that has to run.
    pub(super) constant: Option<Constant>,
    /// True if a query of it locks the rows that it reads.
    pub(super) locks_rows: bool,
    pub(super) _held: HeldBytes,
}

/// A logical plan without versions of tables, and the context that its names were resolved in.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) plan: LogicalPlan,
    /// `Snapshot::changes` at planning: another value means that names may have other meanings.
    pub(super) changes: u64,
    pub(super) default_schema: String,
    /// The role whose rights the statement was planned with.
    pub(super) role: Option<Arc<str>>,
    /// The functions and macros of the session at planning.
    pub(super) routines: Vec<Routine>,
    /// True for a plan that reads files: it knows those that were there at planning.
    pub(super) reads_files: bool,
}

impl Prepared {
    /// The statement.
    #[must_use]
    pub fn statement(&self) -> &SessionStatement {
        &self.statement
    }

    /// The types of its parameters, `$1` first. A parameter whose type is undetermined is a text.
    #[must_use]
    pub fn parameters(&self) -> &[DataType] {
        &self.parameters
    }

    /// The columns of its rows; `None` for a statement that returns no rows: a definition, a
    /// setting, or a change of rows, whose only row is their number.
    #[must_use]
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// True for a statement that locks rows that it reads, until the end of its transaction.
    #[must_use]
    pub fn locks_rows(&self) -> bool {
        self.locks_rows
    }

    /// True for a statement that reads no table and returns the same single row in each run, under
    /// the settings that it was prepared with: `Session::known_rows`.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.constant.is_some()
    }
}

/// Estimated bytes of a logical plan: its nodes, their expressions, values and columns.
pub(super) fn plan_bytes(plan: &LogicalPlan) -> Result<u64, SqlError> {
    let mut bytes = 0;
    plan.apply_with_subqueries(|node| {
        let columns: usize = node.schema().fields().iter().map(|field| field.size()).sum();
        bytes += size_of::<LogicalPlan>() + columns;
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                bytes += match expr {
                    Expr::Literal(value, _) => size_of::<Expr>() + value.size(),
                    _ => size_of::<Expr>(),
                };
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(to_u64(bytes))
}

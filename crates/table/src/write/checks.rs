//! CHECK constraints: conditions that no row of a table may make false.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};

use super::block::{Columns, len};
use super::columns::with_columns;
use super::read::next_batch;
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::table::Table;

/// The compiled CHECK constraints of a table, for one statement.
#[derive(Clone, Debug, Default)]
pub struct Checks(Arc<[Check]>);

/// A compiled constraint.
#[derive(Clone, Debug)]
pub struct Check {
    /// Name of the constraint.
    pub name: String,
    /// Condition over the columns of the table. A row violates it if the result is false; a null
    /// does not.
    pub condition: Arc<dyn PhysicalExpr>,
}

impl Checks {
    /// Collects compiled constraints; of several that a row violates, the first is reported.
    #[must_use]
    pub fn new(checks: Vec<Check>) -> Self {
        Self(checks.into())
    }

    /// Returns true if there are no constraints.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses to write rows of a table whose constraints are not all among these.
    ///
    /// # Errors
    /// [`SqlError::Task`], for a fault of this program.
    pub(super) fn refuse_missing(&self, table: &Table) -> Result<(), SqlError> {
        let mut names = table.properties().checks.keys();
        match names.find(|name| !self.0.iter().any(|check| check.name == **name)) {
            None => Ok(()),
            Some(name) => Err(SqlError::Task(format!(
                "rows of {} were to be written without the check of {name}",
                table.full_name()
            ))),
        }
    }

    /// Checks the rows of a block.
    ///
    /// # Errors
    /// [`SqlError::CheckViolated`]; errors of the conditions.
    pub(super) fn check(&self, table: &Table, block: &Columns) -> Result<(), SqlError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let rows = with_columns(len(block), block.clone(), table.schema())?;
        self.0.iter().try_for_each(|check| check.check(table, &rows))
    }
}

impl Check {
    fn check(&self, table: &Table, rows: &RecordBatch) -> Result<(), SqlError> {
        let holds = self.condition.evaluate(rows)?.into_array(rows.num_rows())?;
        // A condition that is unknown holds, also one that is null by its type.
        if holds.data_type() == &DataType::Null {
            return Ok(());
        }
        let holds = holds.as_boolean_opt().ok_or_else(|| {
            DataFusionError::Plan(format!("the check {} is no truth value", self.name))
        })?;
        if holds.false_count() == 0 {
            return Ok(());
        }
        Err(SqlError::CheckViolated {
            table: table.name().to_owned(),
            constraint: self.name.clone(),
            is_new_row: true,
        })
    }

    /// Checks the rows of existing chunks of `table`.
    ///
    /// # Errors
    /// [`SqlError::CheckViolated`]; errors of the condition, the pool and the store.
    pub async fn check_chunks(
        &self,
        table: &Arc<Table>,
        chunks: &[Arc<Chunk>],
    ) -> Result<(), SqlError> {
        let read = collect_columns(&self.condition);
        let mut columns: Vec<usize> = read.iter().map(|column| column.index()).collect();
        columns.sort_unstable();
        if columns.is_empty() {
            // Any column tells the number of rows of a block.
            columns.push(0);
        }
        let reader = table.reader(columns)?;
        let condition = reassign_expr_columns(Arc::clone(&self.condition), reader.schema())?;
        let check = Self { condition, ..self.clone() };
        for chunk in chunks {
            let mut blocks = reader.open(chunk).await?;
            while let Some(rows) = next_batch(&mut blocks, reader.schema()).await? {
                check.check(table, &rows).map_err(of_existing_row)?;
            }
        }
        Ok(())
    }
}

/// The error of a constraint that an existing row violates.
fn of_existing_row(error: SqlError) -> SqlError {
    match error {
        SqlError::CheckViolated { table, constraint, .. } => {
            SqlError::CheckViolated { table, constraint, is_new_row: false }
        }
        error => error,
    }
}

//! DataFusion's sink for INSERT.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, not_impl_err};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};

use super::checks::Checks;
use super::returning::Terms;
use crate::table::Table;
use crate::transaction::Scope;

/// Sink that writes the rows of a plan to a table, all of them or none.
#[derive(Debug)]
pub struct TableSink {
    table: Arc<Table>,
    insert: InsertOp,
    checks: Checks,
    /// The table's columns, all nullable: the table itself rejects nulls, with the name of the
    /// column.
    schema: SchemaRef,
}

impl TableSink {
    /// Creates a sink that adds rows to `table`, or replaces all of its rows, once they are
    /// checked.
    ///
    /// # Errors
    /// If the statement replaces rows by key, which a table without keys cannot do.
    pub fn new(table: Arc<Table>, insert: InsertOp, checks: Checks) -> Result<Self> {
        match insert {
            InsertOp::Append | InsertOp::Overwrite => {
                let fields = table.schema().fields().iter();
                let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
                let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
                Ok(Self { table, insert, checks, schema })
            }
            InsertOp::Replace => not_impl_err!(
                "REPLACE INTO {}: tables have no keys; use INSERT INTO or INSERT OVERWRITE",
                table.full_name()
            ),
        }
    }
}

impl DisplayAs for TableSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableSink(table={}, {})", self.table.full_name(), self.insert)
    }
}

#[async_trait]
impl DataSink for TableSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        rows: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let (scope, memory) = (Scope::of(context), context.memory_pool());
        let terms = || Terms::from(self.checks.clone());
        let written = match self.insert {
            InsertOp::Overwrite => self.table.overwrite_in(&scope, rows, terms(), memory).await,
            _ => self.table.append_in(&scope, rows, terms(), memory).await,
        };
        Ok(written?)
    }
}

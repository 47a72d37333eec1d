//! The working table (the rows of the previous iteration), and the node that reads it.

use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use terrace_sys::sync::lock;

use super::backlog::Backlog;
use crate::memory::QueryExtension;
use crate::stream::generate;

/// The rows of the previous iteration, until the recursive term takes them.
#[derive(Debug, Default)]
pub(super) struct WorkTable(Mutex<Option<Backlog>>);

impl WorkTable {
    /// Replaces the rows by those of the last iteration.
    pub(super) fn fill(&self, rows: Backlog) {
        *lock(&self.0) = Some(rows);
    }

    /// Takes the rows; none if the table was not filled.
    fn take(&self) -> Option<Backlog> {
        lock(&self.0).take()
    }
}

/// Plan node that reads the working table once in each iteration. It has no metrics: those of each
/// iteration would accumulate for as long as the query runs.
#[derive(Debug)]
pub(super) struct PagedWorkTableExec {
    name: String,
    table: Arc<WorkTable>,
    /// For each output column its position in the table.
    columns: Arc<[usize]>,
    properties: Arc<PlanProperties>,
}

impl PagedWorkTableExec {
    /// Creates the node that replaces `stock`, which reads some columns of a table of this schema;
    /// `None` if their names are ambiguous, since DataFusion does not expose their positions.
    pub(super) fn new(
        stock: &WorkTableExec,
        schema: &SchemaRef,
        table: &Arc<WorkTable>,
    ) -> Option<Self> {
        let position = |name: &str| {
            let mut named =
                (0..schema.fields().len()).filter(|at| schema.field(*at).name() == name);
            named.next().filter(|_| named.next().is_none())
        };
        let fields = stock.schema();
        let columns = fields.fields().iter().map(|field| position(field.name()));
        Some(Self {
            name: stock.name().to_owned(),
            table: Arc::clone(table),
            columns: columns.collect::<Option<_>>()?,
            properties: Arc::clone(stock.properties()),
        })
    }

    /// Returns the same node over `table`, if this one reads `before`; else `None`.
    pub(super) fn instead(&self, before: &Arc<WorkTable>, table: &Arc<WorkTable>) -> Option<Self> {
        Arc::ptr_eq(&self.table, before).then(|| Self {
            name: self.name.clone(),
            table: Arc::clone(table),
            columns: Arc::clone(&self.columns),
            properties: Arc::clone(&self.properties),
        })
    }
}

impl DisplayAs for PagedWorkTableExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => write!(f, "name={}", self.name),
            _ => write!(f, "PagedWorkTableExec: name={}", self.name),
        }
    }
}

impl ExecutionPlan for PagedWorkTableExec {
    fn name(&self) -> &'static str {
        "PagedWorkTableExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        _partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = QueryExtension::find(&context)?;
        let missing = || internal_datafusion_err!("the working table {} is read twice", self.name);
        let mut rows = self.table.take().ok_or_else(missing)?;
        let columns = Arc::clone(&self.columns);
        Ok(generate("PagedWorkTableExec", &memory, self.schema(), move |emitter| async move {
            while let Some(batch) = rows.next().await? {
                emitter.emit(batch.project(&columns)?).await;
            }
            Ok(())
        }))
    }
}

//! Execution plans of write statements, which do nothing before they are executed.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::future::BoxFuture;
use futures::{FutureExt as _, stream};

use super::{Assignment, TableSink};
use crate::table::Table;
use crate::transaction::Scope;

/// Builds a plan that inserts the rows of `input` into `table` and returns their number.
///
/// # Errors
/// If this kind of insertion is not supported.
pub fn insert_plan(
    table: &Arc<Table>,
    input: Arc<dyn ExecutionPlan>,
    insert: InsertOp,
) -> Result<Arc<dyn ExecutionPlan>> {
    let sink = TableSink::new(table.clone(), insert)?;
    Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
}

/// Builds a plan that deletes the rows for which `filter` is true and returns their number.
#[must_use]
pub fn delete_plan(
    table: &Arc<Table>,
    filter: Option<Arc<dyn PhysicalExpr>>,
) -> Arc<dyn ExecutionPlan> {
    let what = match &filter {
        Some(filter) => format!("DeleteExec: table={}, filter={filter}", table.full_name()),
        None => format!("DeleteExec: table={}", table.full_name()),
    };
    let table = table.clone();
    CountExec::plan(what, move |context| {
        let (table, filter) = (table.clone(), filter.clone());
        async move {
            let (scope, memory) = (Scope::of(&context), context.memory_pool());
            Ok(table.delete_in(&scope, filter, memory).await?)
        }
        .boxed()
    })
}

/// Builds a plan that updates the rows for which `filter` is true and returns their number.
#[must_use]
pub fn update_plan(
    table: &Arc<Table>,
    assignments: Vec<Assignment>,
    filter: Option<Arc<dyn PhysicalExpr>>,
) -> Arc<dyn ExecutionPlan> {
    let mut what = format!("UpdateExec: table={}, set=[", table.full_name());
    for (index, Assignment { column, value }) in assignments.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        what += &format!("{separator}{}={value}", table.schema().field(*column).name());
    }
    what.push(']');
    if let Some(filter) = &filter {
        what += &format!(", filter={filter}");
    }
    let table = table.clone();
    CountExec::plan(what, move |context| {
        let (table, assignments, filter) = (table.clone(), assignments.clone(), filter.clone());
        async move {
            let (scope, memory) = (Scope::of(&context), context.memory_pool());
            Ok(table.update_in(&scope, assignments, filter, memory).await?)
        }
        .boxed()
    })
}

/// Builds a plan that removes all rows of `table` and returns their number.
#[must_use]
pub fn truncate_plan(table: &Arc<Table>) -> Arc<dyn ExecutionPlan> {
    let what = format!("TruncateExec: table={}", table.full_name());
    let table = table.clone();
    CountExec::plan(what, move |context| {
        let table = table.clone();
        async move { Ok(table.truncate_in(&Scope::of(&context)).await?) }.boxed()
    })
}

type Statement = dyn Fn(Arc<TaskContext>) -> BoxFuture<'static, Result<u64>> + Send + Sync;

/// Plan node that runs a statement and returns one row with the number of affected rows.
pub struct CountExec {
    what: String,
    statement: Arc<Statement>,
    properties: Arc<PlanProperties>,
}

impl CountExec {
    /// Builds a plan that runs `statement` and that EXPLAIN shows as `what`.
    pub fn plan<F>(what: String, statement: F) -> Arc<dyn ExecutionPlan>
    where
        F: Fn(Arc<TaskContext>) -> BoxFuture<'static, Result<u64>> + Send + Sync + 'static,
    {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(count_schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Arc::new(Self { what, statement: Arc::new(statement), properties: Arc::new(properties) })
    }
}

fn count_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)]))
}

impl fmt::Debug for CountExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl DisplayAs for CountExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl ExecutionPlan for CountExec {
    fn name(&self) -> &str {
        "CountExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("{} has no inputs", self.what),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("{} has one partition, not {partition}", self.what);
        }
        let statement = (self.statement)(context);
        let row = async move {
            let count: ArrayRef = Arc::new(UInt64Array::from(vec![statement.await?]));
            Ok(RecordBatch::try_new(count_schema(), vec![count])?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(count_schema(), stream::once(row))))
    }
}

//! Execution plans of write statements, which do nothing before they are executed.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _, Partitioning,
    PlanProperties, execute_stream,
};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};

use super::{Assignment, Checks, ReturnedColumns, Returning, TableSink, Terms};
use crate::table::Table;
use crate::transaction::Scope;

/// Conditions on the rows that a statement changes, and the columns of them that it returns.
#[derive(Clone, Debug, Default)]
pub struct Required {
    /// Constraints that the new rows must satisfy.
    pub checks: Checks,
    /// Columns that the statement returns; `None` if it returns the number of rows.
    pub returned: Option<ReturnedColumns>,
}

/// Builds a plan that inserts the rows of `input` into `table`, once they are checked, and returns
/// their number or their values.
///
/// # Errors
/// If this kind of insertion is not supported.
pub fn insert_plan(
    table: &Arc<Table>,
    input: Arc<dyn ExecutionPlan>,
    insert: InsertOp,
    required: Required,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Required { checks, returned } = required;
    let sink = TableSink::new(table.clone(), insert, checks.clone())?;
    // A sink reads one partition; the optimizer, which would add this, has seen the input alone.
    let input: Arc<dyn ExecutionPlan> = match input.output_partitioning().partition_count() {
        1 => input,
        _ => Arc::new(CoalescePartitionsExec::new(input)),
    };
    if returned.is_none() {
        return Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)));
    }
    let (what, table) = (format!("InsertExec: table={}", table.full_name()), Arc::clone(table));
    Ok(CountExec::changing(what, returned, move |context, returning| {
        let (table, input) = (Arc::clone(&table), Arc::clone(&input));
        let terms = Terms { checks: checks.clone(), returning };
        async move {
            let (scope, memory) = (Scope::of(&context), Arc::clone(context.memory_pool()));
            let rows = execute_stream(input, context)?;
            Ok(match insert {
                InsertOp::Overwrite => table.overwrite_in(&scope, rows, terms, &memory).await?,
                _ => table.append_in(&scope, rows, terms, &memory).await?,
            })
        }
        .boxed()
    }))
}

/// Builds a plan that deletes the rows for which `filter` is true and returns their number or their
/// values.
#[must_use]
pub fn delete_plan(
    table: &Arc<Table>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    returned: Option<ReturnedColumns>,
) -> Arc<dyn ExecutionPlan> {
    let what = match &filter {
        Some(filter) => format!("DeleteExec: table={}, filter={filter}", table.full_name()),
        None => format!("DeleteExec: table={}", table.full_name()),
    };
    let table = table.clone();
    CountExec::changing(what, returned, move |context, returning| {
        let (table, filter) = (table.clone(), filter.clone());
        let terms = Terms { checks: Checks::default(), returning };
        async move {
            let (scope, memory) = (Scope::of(&context), context.memory_pool());
            Ok(table.delete_in(&scope, filter, terms, memory).await?)
        }
        .boxed()
    })
}

/// Builds a plan that updates the rows for which `filter` is true, checks the new rows, and returns
/// their number or their values.
#[must_use]
pub fn update_plan(
    table: &Arc<Table>,
    assignments: Vec<Assignment>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    required: Required,
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
    let (table, Required { checks, returned }) = (table.clone(), required);
    CountExec::changing(what, returned, move |context, returning| {
        let (table, assignments, filter) = (table.clone(), assignments.clone(), filter.clone());
        let terms = Terms { checks: checks.clone(), returning };
        async move {
            let (scope, memory) = (Scope::of(&context), context.memory_pool());
            Ok(table.update_in(&scope, assignments, filter, terms, memory).await?)
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

type Statement =
    dyn Fn(Arc<TaskContext>, Option<Returning>) -> BoxFuture<'static, Result<u64>> + Send + Sync;

/// Result of a statement: the number of changed rows, nothing, or values of the changed rows.
enum Outcome {
    Count,
    Nothing,
    Rows(ReturnedColumns),
}

/// Plan node that runs a statement. It returns one row with the number of affected rows, values of
/// these rows, or nothing for a definition.
pub struct CountExec {
    what: String,
    statement: Arc<Statement>,
    outcome: Outcome,
    properties: Arc<PlanProperties>,
}

impl CountExec {
    /// Builds a plan that runs `statement` and that EXPLAIN shows as `what`.
    pub fn plan<F>(what: String, statement: F) -> Arc<dyn ExecutionPlan>
    where
        F: Fn(Arc<TaskContext>) -> BoxFuture<'static, Result<u64>> + Send + Sync + 'static,
    {
        Self::of(Outcome::Count, what, move |context, _| statement(context))
    }

    /// Builds a plan that runs `statement`, which changes rows. With `returned` columns it returns
    /// the rows that the statement adds to its second argument instead of their number.
    pub fn changing<F>(
        what: String,
        returned: Option<ReturnedColumns>,
        statement: F,
    ) -> Arc<dyn ExecutionPlan>
    where
        F: Fn(Arc<TaskContext>, Option<Returning>) -> BoxFuture<'static, Result<u64>>
            + Send
            + Sync
            + 'static,
    {
        Self::of(returned.map_or(Outcome::Count, Outcome::Rows), what, statement)
    }

    /// Builds a plan that runs a definition, which returns no rows.
    pub fn definition<F>(what: String, definition: F) -> Arc<dyn ExecutionPlan>
    where
        F: Fn(Arc<TaskContext>) -> BoxFuture<'static, Result<()>> + Send + Sync + 'static,
    {
        Self::of(Outcome::Nothing, what, move |context, _| {
            let defined = definition(context);
            async move { defined.await.map(|()| 0) }.boxed()
        })
    }

    fn of<F>(outcome: Outcome, what: String, statement: F) -> Arc<dyn ExecutionPlan>
    where
        F: Fn(Arc<TaskContext>, Option<Returning>) -> BoxFuture<'static, Result<u64>>
            + Send
            + Sync
            + 'static,
    {
        let schema = match &outcome {
            Outcome::Count => count_schema(),
            Outcome::Nothing => Arc::new(Schema::empty()),
            Outcome::Rows(columns) => Arc::clone(&columns.schema),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let (statement, properties) = (Arc::new(statement), Arc::new(properties));
        Arc::new(Self { what, statement, outcome, properties })
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
        let returning = match &self.outcome {
            Outcome::Rows(columns) => Some(Returning::new(columns, &context)?),
            _ => None,
        };
        let has_count = matches!(self.outcome, Outcome::Count);
        let statement = (self.statement)(context, returning.clone());
        let rows = async move {
            let count: ArrayRef = Arc::new(UInt64Array::from(vec![statement.await?]));
            let row = has_count.then(|| RecordBatch::try_new(count_schema(), vec![count]));
            let row = row.transpose()?.map(Ok);
            let returned = stream::iter(returning).flat_map(Returning::into_rows);
            Ok::<_, DataFusionError>(stream::iter(row).chain(returned))
        };
        let rows = stream::once(rows).try_flatten();
        let schema = Arc::clone(self.properties.eq_properties.schema());
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

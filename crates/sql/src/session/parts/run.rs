//! Execution of the parts of a statement.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, execute_stream,
};
use datafusion::prelude::SessionConfig;
use futures::StreamExt as _;
use terrace_exec::stream::generate;
use terrace_exec::{QueryExtension, QueryMemory, StoredBatches};
use terrace_table::catalog::Catalog;
use terrace_table::error::SqlError;
use terrace_table::transaction::{LockTimeout, Scope, Transaction};

use super::super::state::Planned;
use super::rows::{PartRows, emit};

/// The transaction of a statement of several parts: that of the session, or one of its own.
#[derive(Clone)]
pub(super) struct Open {
    transaction: Arc<Transaction>,
    limit: LockTimeout,
    /// True if the statement is a transaction by itself.
    is_alone: bool,
}

impl Open {
    /// Begins a transaction unless the statement is part of one.
    ///
    /// # Errors
    /// Those of a new transaction that refuses its first statement.
    pub(super) fn begin(catalog: &Arc<Catalog>, scope: &Scope) -> Result<Self, SqlError> {
        let (transaction, limit, is_alone) = match scope {
            Scope::Alone(limit) => (Arc::new(Transaction::begin(catalog, false)), limit, true),
            Scope::Within(transaction, limit) => (Arc::clone(transaction), limit, false),
        };
        if is_alone {
            transaction.statement()?;
        }
        Ok(Self { transaction, limit: limit.clone(), is_alone })
    }

    /// The scope of a statement in the transaction.
    pub(super) fn scope(&self) -> Scope {
        Scope::Within(Arc::clone(&self.transaction), self.limit.clone())
    }

    async fn commit(&self) -> Result<(), SqlError> {
        if self.is_alone {
            self.transaction.commit(&self.limit).await?;
        }
        Ok(())
    }
}

/// Rolls a transaction of the statement's own back when it is dropped, unless that has ended.
struct Ending<'a>(&'a Open);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if self.0.is_alone {
            self.0.transaction.roll_back();
        }
    }
}

/// A part: its plan, below which EXPLAIN shows the plan that it hides.
#[derive(Debug)]
pub(super) struct PartExec {
    name: String,
    plan: Arc<dyn ExecutionPlan>,
    /// The plan, and the one that it hides.
    shown: Vec<Arc<dyn ExecutionPlan>>,
}

impl PartExec {
    /// Creates a part that EXPLAIN shows under this name.
    pub(super) fn new(name: String, planned: Planned) -> Arc<Self> {
        let Planned { plan, watched } = planned;
        let hidden = watched.filter(|_| plan.children().is_empty());
        let shown = [Arc::clone(&plan)].into_iter().chain(hidden).collect();
        Arc::new(Self { name, plan, shown })
    }

    /// Runs the part to its end. Stores its rows, with the types of `schema`, if there is one.
    async fn run(
        &self,
        schema: Option<&SchemaRef>,
        memory: &Arc<dyn QueryMemory>,
        context: Arc<TaskContext>,
    ) -> Result<Option<StoredBatches>> {
        let mut stored = schema.map(|it| StoredBatches::new(memory.as_ref(), "Part", it));
        let mut rows = execute_stream(Arc::clone(&self.plan), context)?;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if let Some(stored) = &mut stored {
                let batch = with_schema(&batch, stored.schema())?;
                stored.append(batch)?;
            }
        }
        Ok(stored)
    }
}

/// Converts a batch to `schema`, whose columns may have other names, and other Arrow encodings of
/// the same types.
fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    let columns = columns.collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

impl DisplayAs for PartExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::TreeRender => Ok(()),
            _ => write!(f, "PartExec: {}", self.name),
        }
    }
}

impl ExecutionPlan for PartExec {
    fn name(&self) -> &'static str {
        "PartExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.shown.iter().collect()
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
        internal_err!("the parts of a statement are planned")
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.plan.execute(partition, context)
    }
}

/// A part that runs before the statement behind the WITH, and the columns of its rows if another
/// part reads them.
type Before = (Arc<PartExec>, Option<SchemaRef>);

/// Runs the parts of a statement one after another, applies their changes, and returns the rows of
/// the last one.
pub(super) struct PartsExec {
    parts: Arc<[Before]>,
    main: Arc<PartExec>,
    /// True if the last part makes a table.
    is_definition: bool,
    /// `None` if the statement is only shown.
    open: Option<Open>,
    children: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl PartsExec {
    pub(super) fn new(
        parts: Vec<Before>,
        main: Arc<PartExec>,
        is_definition: bool,
        open: Option<Open>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(main.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let children = parts.iter().map(|(part, _)| Arc::clone(part));
        let children = children.chain([Arc::clone(&main)]);
        let children = children.map(|part| -> Arc<dyn ExecutionPlan> { part }).collect();
        let (parts, properties) = (parts.into(), Arc::new(properties));
        Self { parts, main, is_definition, open, children, properties }
    }
}

/// The parts of a statement that runs.
struct Running {
    parts: Arc<[Before]>,
    main: Arc<PartExec>,
    is_definition: bool,
    open: Open,
    memory: Arc<dyn QueryMemory>,
}

impl Running {
    /// Runs the parts, commits their changes, and returns the rows of the last one. On an error
    /// nothing has changed; a transaction of several statements has to fail.
    async fn rows(&self, context: &TaskContext) -> Result<Option<StoredBatches>> {
        let ending = Ending(&self.open);
        let transaction = &self.open.transaction;
        let together = Arc::new(transaction.for_parts()?);
        let within = Scope::Within(Arc::clone(&together), self.open.limit.clone());
        let rows = Arc::new(PartRows::default());
        let of_parts = in_scope(context, &within, &rows);
        for (number, (part, schema)) in self.parts.iter().enumerate() {
            let stored = part.run(schema.as_ref(), &self.memory, Arc::clone(&of_parts)).await?;
            if let Some(stored) = stored {
                rows.put(number, Arc::new(stored));
            }
        }
        // A definition is no change of rows, and sees none of them.
        let of_main = match self.is_definition {
            true => in_scope(context, &self.open.scope(), &rows),
            false => of_parts,
        };
        let schema = self.main.schema();
        let returned = self.main.run(Some(&schema), &self.memory, of_main).await?;
        transaction.add_parts(&together)?;
        self.open.commit().await?;
        drop(ending);
        Ok(returned)
    }
}

/// A context for plans in another scope, which read the rows of parts.
fn in_scope(context: &TaskContext, scope: &Scope, rows: &Arc<PartRows>) -> Arc<TaskContext> {
    let config: SessionConfig = scope.put_in(context.session_config().clone());
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config.with_extension(Arc::clone(rows)),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    ))
}

impl fmt::Debug for PartsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartsExec").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

impl DisplayAs for PartsExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str("PartsExec"),
        }
    }
}

impl ExecutionPlan for PartsExec {
    fn name(&self) -> &'static str {
        "PartsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.children.iter().collect()
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
        internal_err!("the parts of a statement are planned")
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("PartsExec has one partition, and not {partition}");
        }
        let Some(open) = self.open.clone() else {
            return internal_err!("a statement of several parts is only shown");
        };
        let memory = QueryExtension::find(&context)?;
        let running = Running {
            parts: Arc::clone(&self.parts),
            main: Arc::clone(&self.main),
            is_definition: self.is_definition,
            open,
            memory: Arc::clone(&memory),
        };
        Ok(generate("PartsExec", &memory, self.schema(), move |emitter| async move {
            match running.rows(&context).await? {
                Some(rows) => emit(&rows, None, &emitter).await,
                None => Ok(()),
            }
        }))
    }
}

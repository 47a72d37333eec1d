//! Recursive queries, `WITH RECURSIVE t AS (... UNION ALL ...)`, with a working table in pages.
//!
//! The rows of one iteration are the *working table* of the next. DataFusion's node keeps both on
//! the heap and fails when they exceed its memory; [`PagedRecursionExec`] keeps rows that do not
//! fit its grant in blocks of unpinned pages. Each batch goes to the consumer as soon as it is
//! computed, so a query that never ends returns its first rows, holds two working tables, and can
//! be cancelled at any time.
//!
//! A recursion by UNION without ALL stays DataFusion's: the rows that it compares all others with
//! are counted, and end the query with an error if memory has no room for them.

mod backlog;
mod work_table;

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::{ReplaceChildrenOptions, reset_plan_states};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;

use crate::batch_limit::bounded;
use crate::delegate::node_of_stock;
use crate::memory::{MeteredGrant, QueryExtension};
use crate::stream::{Emitter, generate, give_way};
use backlog::Backlog;
use work_table::{PagedWorkTableExec, WorkTable};

type Node = Arc<dyn ExecutionPlan>;

/// Plan node of a recursive query whose working table may be in pages.
#[derive(Debug)]
pub struct PagedRecursionExec {
    /// The node that it replaces; its recursive term reads `table`.
    stock: Arc<RecursiveQueryExec>,
    table: Arc<WorkTable>,
    metrics: ExecutionPlanMetricsSet,
}

impl PagedRecursionExec {
    /// Returns the paged node that replaces `stock`; `None` if `stock` removes duplicate rows, or
    /// its recursive term reads the working table more than once.
    ///
    /// # Errors
    /// If the plan below cannot be changed.
    pub fn new(stock: &RecursiveQueryExec) -> Result<Option<Self>> {
        if stock.is_distinct() {
            return Ok(None);
        }
        let table = Arc::new(WorkTable::default());
        let (mut found, schema) = (0, stock.schema());
        let stands_in = stand_in(stock, |node| {
            let own = node.downcast_ref::<WorkTableExec>();
            let own = own.filter(|own| own.name() == stock.name())?;
            let reader = PagedWorkTableExec::new(own, &schema, &table)?;
            found += 1;
            Some(Arc::new(reader))
        })?;
        let node = Self { stock: stands_in, table, metrics: ExecutionPlanMetricsSet::new() };
        Ok((found <= 1).then_some(node))
    }

    /// Returns the node over other inputs, with a working table of its own.
    fn again(&self, stock: Node) -> Result<Node> {
        let any: Arc<dyn std::any::Any + Send + Sync> = stock;
        let Ok(stock) = any.downcast::<RecursiveQueryExec>() else {
            return internal_err!("a recursive query became something else");
        };
        let table = Arc::new(WorkTable::default());
        let stock = stand_in(&stock, |node| {
            let reader = node.downcast_ref::<PagedWorkTableExec>()?;
            Some(Arc::new(reader.instead(&self.table, &table)?))
        })?;
        Ok(Arc::new(Self { stock, table, metrics: ExecutionPlanMetricsSet::new() }))
    }
}

/// Returns the node with its working table's readers replaced by `reader`.
fn stand_in(
    stock: &RecursiveQueryExec,
    mut reader: impl FnMut(&dyn ExecutionPlan) -> Option<Node>,
) -> Result<Arc<RecursiveQueryExec>> {
    let term = Arc::clone(stock.recursive_term());
    let term = term.transform_up(|node| {
        Ok(match reader(node.as_ref()) {
            Some(reader) => Transformed::yes(reader),
            None => Transformed::no(node),
        })
    });
    let (name, term) = (stock.name().to_owned(), term.data()?);
    let base = Arc::clone(stock.static_term());
    Ok(Arc::new(RecursiveQueryExec::try_new(name, stock.schema(), base, term, false)?))
}

impl DisplayAs for PagedRecursionExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => Ok(()),
            _ => write!(f, "PagedRecursionExec: name={}", self.stock.name()),
        }
    }
}

impl ExecutionPlan for PagedRecursionExec {
    fn name(&self) -> &'static str {
        "PagedRecursionExec"
    }

    node_of_stock!();

    fn maintains_input_order(&self) -> Vec<bool> {
        self.stock.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.stock.benefits_from_input_partitioning()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Node>) -> Result<Node> {
        let stock: Node = Arc::clone(&self.stock) as _;
        #[expect(deprecated, reason = "the trait has it")]
        self.again(stock.with_new_children(children)?)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Node>,
        options: ReplaceChildrenOptions,
    ) -> Result<Node> {
        let stock: Node = Arc::clone(&self.stock) as _;
        self.again(stock.replace_children(children, options)?)
    }

    fn reset_state(self: Arc<Self>) -> Result<Node> {
        let stock: Node = Arc::clone(&self.stock) as _;
        self.again(stock)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a recursive query has one partition, and not {partition}");
        }
        let memory = QueryExtension::find(&context)?;
        let grant = memory.register("PagedRecursion");
        let grant = MeteredGrant::of(grant, &self.metrics, partition);
        let backlog = || Backlog::new(memory.space(), &grant, &self.schema());
        let run = Run {
            term: Arc::clone(self.stock.recursive_term()),
            table: Arc::clone(&self.table),
            backlog: backlog(),
            rows: self.stock.static_term().execute(0, Arc::clone(&context))?,
            metrics: BaselineMetrics::new(&self.metrics, partition),
            context,
        };
        let run = move |emitter| run.run(emitter);
        Ok(generate("PagedRecursionExec", &memory, self.schema(), run))
    }
}

/// The execution of a recursive query.
struct Run {
    term: Node,
    table: Arc<WorkTable>,
    /// The rows that this iteration has produced so far.
    backlog: Backlog,
    /// The stream of this iteration's rows.
    rows: SendableRecordBatchStream,
    context: Arc<TaskContext>,
    metrics: BaselineMetrics,
}

impl Run {
    async fn run(mut self, emitter: Emitter) -> Result<()> {
        loop {
            self.iterate(&emitter).await?;
            if self.backlog.is_empty() {
                return Ok(());
            }
            let next = self.backlog.empty();
            self.table.fill(std::mem::replace(&mut self.backlog, next));
            let term = reset_plan_states(Arc::clone(&self.term))?;
            // The stream of the previous iteration has ended, and the iteration with it.
            self.rows = term.execute(0, Arc::clone(&self.context))?;
            // Yields even after an iteration without a batch for the consumer.
            give_way().await;
        }
    }

    /// Emits the rows of an iteration, and keeps them for the next one.
    async fn iterate(&mut self, emitter: &Emitter) -> Result<()> {
        let ended =
            Box::pin(datafusion::physical_plan::EmptyRecordBatchStream::new(self.rows.schema()));
        let mut rows = bounded(std::mem::replace(&mut self.rows, ended));
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            self.backlog.let_go_if_suspended().await?;
            self.backlog.put(batch.clone())?;
            self.metrics.record_output(batch.num_rows());
            emitter.emit(batch).await;
        }
        Ok(())
    }
}

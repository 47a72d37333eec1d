//! Plan node of the hash aggregation in pages.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, ReplaceChildrenOptions,
};

use super::early_flush::Probe;
use super::options::AggregateOptions;
use super::program::Program;
use super::run;
use super::values;
use crate::batch_limit::bounded;
use crate::delegate::{node_of_stock, statistics_of_stock};
use crate::memory::QueryExtension;
use crate::rows::RowLayout;
use crate::stream::execute_input;

/// Hash aggregation that keeps its groups in pages of the pool; replaces an [`AggregateExec`].
#[derive(Clone, Debug)]
pub struct PagedAggregateExec {
    /// The node replaced: it defines the computation and the output.
    stock: Arc<AggregateExec>,
    options: AggregateOptions,
    /// True if no operator relies on the order of the output.
    any_order: bool,
    metrics: ExecutionPlanMetricsSet,
}

impl PagedAggregateExec {
    /// Returns a node that replaces `stock`, or `None` if DataFusion's node stays, for one of:
    ///
    /// - no GROUP BY, unless a state grows with the number of its values;
    /// - input ordered by all or some of the keys, which is aggregated as it streams;
    /// - a limit, which bounds the number of groups;
    /// - keys or states of a type that row pages cannot hold.
    #[must_use]
    pub fn replace(stock: &Arc<AggregateExec>) -> Option<Self> {
        Self::with_options(stock, AggregateOptions::default())
    }

    /// As [`PagedAggregateExec::replace`], for plans in which no operator relies on the order of
    /// the groups: also replaces a node whose input is ordered by some of the keys. That node holds
    /// all groups with equal values of these keys in memory, which may be all groups: those of a
    /// constant key.
    #[must_use]
    pub fn in_any_order(stock: &Arc<AggregateExec>) -> Option<Self> {
        Self::with(stock, AggregateOptions::default(), true)
    }

    /// As [`PagedAggregateExec::replace`], with options.
    #[must_use]
    pub fn with_options(stock: &Arc<AggregateExec>, options: AggregateOptions) -> Option<Self> {
        Self::with(stock, options, false)
    }

    fn with(
        stock: &Arc<AggregateExec>,
        options: AggregateOptions,
        any_order: bool,
    ) -> Option<Self> {
        let stock = Arc::clone(stock);
        let metrics = ExecutionPlanMetricsSet::new();
        let can = can_replace(&stock, any_order);
        can.then_some(Self { stock, options, any_order, metrics })
    }

    /// Returns the node that this one replaces.
    #[must_use]
    pub fn stock(&self) -> &Arc<AggregateExec> {
        &self.stock
    }
}

fn can_replace(stock: &AggregateExec, any_order: bool) -> bool {
    use AggregateMode::{Final, FinalPartitioned, Partial, Single, SinglePartitioned};
    // States that grow with their group are not bounded by the number of groups.
    let grows = stock.aggr_expr().iter().any(|function| values::grows(function));
    let mode =
        matches!(stock.mode(), Single | SinglePartitioned | Final | FinalPartitioned | Partial);
    mode && (grows || !stock.group_expr().is_true_no_grouping())
        && match stock.input_order_mode() {
            InputOrderMode::Linear => true,
            InputOrderMode::PartiallySorted(_) => any_order,
            InputOrderMode::Sorted => false,
        }
        && stock.limit_options().is_none()
        && rows_hold(stock)
}

/// Returns true if rows can hold the keys and all states.
fn rows_hold(stock: &AggregateExec) -> bool {
    let Ok(keys) = stock.group_expr().group_schema(&stock.input().schema()) else { return false };
    let mut types: Vec<DataType> =
        keys.fields().iter().map(|field| field.data_type().clone()).collect();
    for function in stock.aggr_expr() {
        let Ok(fields) = function.state_fields() else { return false };
        types.extend(fields.iter().map(|field| field.data_type().clone()));
    }
    RowLayout::new(&types, 0).is_ok()
}

impl DisplayAs for PagedAggregateExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(kind, DisplayFormatType::Default | DisplayFormatType::Verbose) {
            f.write_str("Paged")?;
        }
        self.stock.fmt_as(kind, f)?;
        if self.options.oblivious { f.write_str(", memory=oblivious") } else { Ok(()) }
    }
}

impl ExecutionPlan for PagedAggregateExec {
    fn name(&self) -> &str {
        "PagedAggregateExec"
    }

    node_of_stock!();

    statistics_of_stock!();

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.stock.required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        match self.any_order {
            true => vec![false],
            false => self.stock.maintains_input_order(),
        }
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stock = Arc::clone(&self.stock).replace_children(children, options)?;
        let Some(stock) = stock.downcast_ref::<AggregateExec>() else {
            return internal_err!("an AggregateExec became a {}", stock.name());
        };
        let stock = Arc::new(stock.clone());
        // With a child in another order, DataFusion's node may stream.
        Ok(match Self::with(&stock, self.options, self.any_order) {
            Some(node) => Arc::new(node),
            None => stock,
        })
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        use datafusion::physical_plan::ChildrenPropertiesMode::Recompute;
        self.replace_children(children, ReplaceChildrenOptions::new(Recompute))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = QueryExtension::find(&context)?;
        let program = Program::new(&self.stock, self.options)?;
        let input = execute_input(self.stock.input(), partition, Arc::clone(&context))?;
        let input = bounded(input);
        let config = context.session_config();
        let execution = &config.options().execution;
        let probe = Probe {
            rows: execution.skip_partial_aggregation_probe_rows_threshold,
            share: execution.skip_partial_aggregation_probe_ratio_threshold,
        };
        let setting = run::Setting {
            memory,
            partition,
            batch_rows: config.batch_size().max(1),
            probe,
            metrics: run::Metrics::new(&self.metrics, partition),
        };
        Ok(run::start(program, input, setting))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.stock.cardinality_effect()
    }
}

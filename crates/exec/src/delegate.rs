//! Delegation of a paged operator to the DataFusion node that it replaces (its *stock* node).
//!
//! Such an operator keeps that node in a field `stock` and its metrics in a field `metrics`. The
//! macros are used inside of its `impl ExecutionPlan`.

/// Delegates properties, inputs and expressions to the stock node; metrics are the operator's own.
macro_rules! node_of_stock {
    () => {
        fn properties(&self) -> &std::sync::Arc<datafusion::physical_plan::PlanProperties> {
            self.stock.properties()
        }

        fn input_distribution_requirements(
            &self,
        ) -> datafusion::physical_plan::InputDistributionRequirements {
            self.stock.input_distribution_requirements()
        }

        fn children(&self) -> Vec<&std::sync::Arc<dyn ExecutionPlan>> {
            self.stock.children()
        }

        fn apply_expressions(
            &self,
            f: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::common::Result<
                datafusion::common::tree_node::TreeNodeRecursion,
            >,
        ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            self.stock.apply_expressions(f)
        }

        fn metrics(&self) -> Option<datafusion::physical_plan::metrics::MetricsSet> {
            Some(self.metrics.clone_inner())
        }
    };
}

/// Delegates statistics to the stock node.
macro_rules! statistics_of_stock {
    () => {
        fn child_stats_requests(
            &self,
            partition: Option<usize>,
        ) -> Vec<datafusion::physical_plan::ChildStats> {
            self.stock.child_stats_requests(partition)
        }

        fn statistics_from_inputs(
            &self,
            inputs: &[std::sync::Arc<datafusion::common::stats::Statistics>],
            arguments: &datafusion::physical_plan::StatisticsArgs,
        ) -> datafusion::common::Result<std::sync::Arc<datafusion::common::stats::Statistics>> {
            self.stock.statistics_from_inputs(inputs, arguments)
        }
    };
}

pub(crate) use node_of_stock;
pub(crate) use statistics_of_stock;

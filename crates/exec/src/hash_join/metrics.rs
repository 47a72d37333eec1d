//! Metrics of a join, shown by `EXPLAIN ANALYZE`.

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, ScopedTimerGuard, Time,
};

/// The metrics of one partition of a join.
#[derive(Clone, Debug)]
pub(crate) struct JoinMetrics {
    baseline: BaselineMetrics,
    pub(crate) build_time: Time,
    pub(crate) build_rows: Count,
    probe_rows: Count,
}

impl JoinMetrics {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self {
            baseline: BaselineMetrics::new(set, partition),
            build_time: MetricBuilder::new(set).subset_time("build_time", partition),
            build_rows: MetricBuilder::new(set).counter("build_input_rows", partition),
            probe_rows: MetricBuilder::new(set).counter("input_rows", partition),
        }
    }

    pub(crate) fn output(&self, rows: usize) {
        self.baseline.record_output(rows);
    }

    pub(crate) fn probed(&self, rows: usize) {
        self.probe_rows.add(rows);
    }

    /// Returns the counter of the join's processor time, to which the build side adds its own.
    pub(crate) fn compute(&self) -> Time {
        self.baseline.elapsed_compute().clone()
    }

    pub(crate) fn join_timer(&self) -> ScopedTimerGuard<'_> {
        self.baseline.elapsed_compute().timer()
    }
}

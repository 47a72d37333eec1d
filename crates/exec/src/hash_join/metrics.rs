//! What `EXPLAIN ANALYZE` shows of a join.

use std::sync::Arc;

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, ScopedTimerGuard, Time,
};
use futures::future::BoxFuture;

use crate::Grant;

/// The metrics of one partition.
#[derive(Clone, Debug)]
pub(crate) struct JoinMetrics {
    baseline: BaselineMetrics,
    pub(crate) build_time: Time,
    pub(crate) build_rows: Count,
    probe_rows: Count,
    spilled_bytes: Count,
    peak_bytes: Gauge,
}

impl JoinMetrics {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self {
            baseline: BaselineMetrics::new(set, partition),
            build_time: MetricBuilder::new(set).subset_time("build_time", partition),
            build_rows: MetricBuilder::new(set).counter("build_input_rows", partition),
            probe_rows: MetricBuilder::new(set).counter("input_rows", partition),
            spilled_bytes: MetricBuilder::new(set).spilled_bytes(partition),
            peak_bytes: MetricBuilder::new(set).gauge("peak_pinned_bytes", partition),
        }
    }

    pub(crate) fn output(&self, rows: usize) {
        self.baseline.record_output(rows);
    }

    pub(crate) fn probed(&self, rows: usize) {
        self.probe_rows.add(rows);
    }

    pub(crate) fn join_timer(&self) -> ScopedTimerGuard<'_> {
        self.baseline.elapsed_compute().timer()
    }

    /// The grant, watched for the metrics.
    pub(crate) fn watch(&self, grant: Arc<dyn Grant>) -> Arc<dyn Grant> {
        Arc::new(Watched { grant, metrics: self.clone() })
    }
}

#[derive(Debug)]
struct Watched {
    grant: Arc<dyn Grant>,
    metrics: JoinMetrics,
}

impl Watched {
    fn note(&self) {
        let held = terrace_sys::size::to_usize(self.grant.held_bytes());
        self.metrics.peak_bytes.set_max(held);
    }
}

impl Grant for Watched {
    fn try_grow(&self, bytes: u64) -> bool {
        let grown = self.grant.try_grow(bytes);
        self.note();
        grown
    }

    fn grow(&self, bytes: u64) {
        self.grant.grow(bytes);
        self.note();
    }

    fn shrink(&self, bytes: u64) {
        if bytes > 0 {
            self.grant.shrink(bytes);
        }
    }

    fn hold_heap(&self, bytes: u64) {
        self.grant.hold_heap(bytes);
    }

    fn release_heap(&self, bytes: u64) {
        self.grant.release_heap(bytes);
    }

    fn held_bytes(&self) -> u64 {
        self.grant.held_bytes()
    }

    fn excess_bytes(&self) -> u64 {
        self.grant.excess_bytes()
    }

    fn suspended(&self) -> Option<BoxFuture<'static, ()>> {
        self.grant.suspended()
    }

    fn count_spilled(&self, bytes: u64) {
        if bytes > 0 {
            self.grant.count_spilled(bytes);
            self.metrics.spilled_bytes.add(terrace_sys::size::to_usize(bytes));
        }
    }
}

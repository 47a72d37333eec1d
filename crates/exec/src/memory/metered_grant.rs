//! A grant that records metrics of its operator.

use std::sync::Arc;

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder};
use futures::future::BoxFuture;
use terrace_sys::size::to_usize;

use super::grant::Grant;

/// Delegates to a grant, and counts the spilled bytes and the peak of held bytes for `EXPLAIN
/// ANALYZE`.
#[derive(Debug)]
pub(crate) struct MeteredGrant {
    grant: Arc<dyn Grant>,
    spilled_bytes: Count,
    peak_bytes: Gauge,
}

impl MeteredGrant {
    /// Wraps `grant` to record the metrics of one partition.
    pub(crate) fn of(
        grant: Arc<dyn Grant>,
        set: &ExecutionPlanMetricsSet,
        partition: usize,
    ) -> Arc<dyn Grant> {
        let spilled_bytes = MetricBuilder::new(set).spilled_bytes(partition);
        let peak_bytes = MetricBuilder::new(set).gauge("peak_pinned_bytes", partition);
        Arc::new(Self { grant, spilled_bytes, peak_bytes })
    }

    fn note(&self) {
        self.peak_bytes.set_max(to_usize(self.grant.held_bytes()));
    }
}

impl Grant for MeteredGrant {
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

    fn suspends(&self) -> BoxFuture<'static, ()> {
        self.grant.suspends()
    }

    fn count_spilled(&self, bytes: u64) {
        if bytes > 0 {
            self.grant.count_spilled(bytes);
            self.spilled_bytes.add(to_usize(bytes));
        }
    }
}

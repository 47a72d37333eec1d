//! Measurements of an operator that has run, from its DataFusion metrics.

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use terrace_sys::size::to_u64;

use super::operator::Measured;

/// Metrics of an operator's own time, beside `elapsed_compute`: an exchange measures the time that
/// it takes to distribute rows, a scan of files the time of its polls.
const TIMES: [&str; 2] = ["repartition_time", "time_elapsed_processing"];

/// The measurements of an operator that has run; `None` if it publishes none.
pub(super) fn measured(node: &dyn ExecutionPlan) -> Option<Measured> {
    let metrics = node.metrics()?;
    let bytes = |name| sum(&metrics, name).unwrap_or(0);
    let computing = metrics.elapsed_compute().map(to_u64);
    let nanos = TIMES.iter().filter_map(|name| sum(&metrics, name)).chain(computing).max();
    Some(Measured {
        rows: metrics.output_rows().map(to_u64),
        nanos,
        peak_bytes: bytes("peak_pinned_bytes"),
        spilled_bytes: metrics.spilled_bytes().map_or(0, to_u64),
        dram_bytes: bytes("bytes_from_dram"),
        remote_bytes: bytes("bytes_from_remote"),
        store_bytes: bytes("bytes_from_store"),
        file_bytes: bytes("bytes_scanned"),
    })
}

fn sum(metrics: &MetricsSet, name: &str) -> Option<u64> {
    metrics.sum_by_name(name).map(|value| to_u64(value.as_usize()))
}

//! Plans of running queries, as the governor reads them: their size, and their progress.

use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use terrace_exec::panics::catch;
use terrace_governor::query::{PlanSize, Progress, QueryPlan};
use terrace_sys::size::to_u64;
use terrace_table::scan::{ScanProgress, SegmentSource};
use terrace_table::write::CountExec;

use crate::session::on_stack;

/// Fraction of a scan's estimated rows that the size counts if a filter is above the scan, because
/// such a scan skips most segments without reading them.
const PRUNED_PART: f64 = 1.0 / 16.0;

/// A plan whose size and progress can be read while it runs.
pub(super) struct ObservedPlan(pub(super) Arc<dyn ExecutionPlan>);

impl QueryPlan for ObservedPlan {
    /// Estimates the size with the optimizer. If the optimizer panics nothing is known, and the
    /// plan is treated as one that writes, which does not wait.
    fn size(&self, text: &str) -> PlanSize {
        on_stack(text, || {
            let size = catch("the estimate of its rows", || estimated(&self.0));
            size.unwrap_or(PlanSize { rows: None, writes: true })
        })
    }

    fn progress(&self) -> Progress {
        let mut progress = Progress { rows_total: Some(0), ..Progress::default() };
        add_progress(&mut progress, &self.0);
        progress
    }
}

fn estimated(plan: &Arc<dyn ExecutionPlan>) -> PlanSize {
    // Statistics are cached by node, so the plan must stay alive while this is used.
    let estimates = StatisticsContext::new();
    let mut size = PlanSize { rows: Some(0.0), writes: false };
    add_size(&mut size, plan.as_ref(), false, &estimates);
    size
}

fn add_size(
    size: &mut PlanSize,
    node: &dyn ExecutionPlan,
    filtered: bool,
    estimates: &StatisticsContext,
) {
    size.writes |= node.is::<DataSinkExec>() || node.is::<CountExec>();
    let known = estimates.compute(node, &StatisticsArgs::new()).ok();
    let rows = known.and_then(|known| known.num_rows.get_value().copied());
    let pruned = filtered && node.is::<DataSourceExec>();
    let part = if pruned { PRUNED_PART } else { 1.0 };
    size.rows = size.rows.zip(rows).map(|(sum, rows)| sum + part * rows as f64);
    let filters = node.name() == "FilterExec" || filtered && node.children().len() == 1;
    for child in node.children() {
        add_size(size, child.as_ref(), filters, estimates);
    }
}

fn add_progress(progress: &mut Progress, plan: &Arc<dyn ExecutionPlan>) {
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        match scan.downcast_to_file_source::<SegmentSource>() {
            Some((_, source)) => add_table(progress, source.progress()),
            None => add_other(progress, scan),
        }
    }
    plan.children().into_iter().for_each(|child| add_progress(progress, child));
}

fn add_table(progress: &mut Progress, scan: &ScanProgress) {
    progress.rows += scan.rows();
    progress.rows_total = progress.rows_total.map(|total| total + scan.rows_total());
    progress.dram_bytes += scan.dram_bytes();
    progress.remote_bytes += scan.remote_bytes();
    progress.store_bytes += scan.store_bytes();
}

/// Scans of files count rows too; their total is known for formats with statistics.
fn add_other(progress: &mut Progress, scan: &DataSourceExec) {
    let rows = scan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0);
    progress.rows += to_u64(rows);
    let config = scan.data_source().downcast_ref::<FileScanConfig>();
    let total = config.and_then(|config| config.statistics().num_rows.get_value().copied());
    progress.rows_total = progress.rows_total.zip(total).map(|(sum, total)| sum + to_u64(total));
}

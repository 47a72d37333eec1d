//! Progress of a query, read from its plan.

use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use terrace_sys::size::to_u64;

use crate::scan::{ScanProgress, SegmentSource};

/// Progress summed over the scans of a plan.
///
/// Scans are not all of the work: a sort or an aggregate continues after its input was read. They
/// are the part that can be foreseen.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows read or skipped so far.
    pub rows: u64,
    /// Rows that all scans together will read or skip; `None` if one of them does not know.
    pub rows_total: Option<u64>,
    /// Bytes of tables that were in DRAM when they were requested.
    pub dram_bytes: u64,
    /// Bytes of tables that were in slower memory.
    pub remote_bytes: u64,
    /// Bytes of tables that came from the store.
    pub store_bytes: u64,
}

impl Progress {
    pub(super) fn of_plan(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut progress = Self { rows_total: Some(0), ..Self::default() };
        progress.add(plan);
        progress
    }

    /// Returns the part that is done, from 0 to 1, if it is known.
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {
        let total = self.rows_total.filter(|total| *total > 0)?;
        // Row counts stay far below 2^53, above which the conversion would round.
        Some((self.rows as f64 / total as f64).min(1.0))
    }

    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) {
        if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
            match scan.downcast_to_file_source::<SegmentSource>() {
                Some((_, source)) => self.add_table(source.progress()),
                None => self.add_other(scan),
            }
        }
        plan.children().into_iter().for_each(|child| self.add(child));
    }

    fn add_table(&mut self, scan: &ScanProgress) {
        self.rows += scan.rows();
        self.rows_total = self.rows_total.map(|total| total + scan.rows_total());
        self.dram_bytes += scan.dram_bytes();
        self.remote_bytes += scan.remote_bytes();
        self.store_bytes += scan.store_bytes();
    }

    /// Scans of files count rows too; their total is known for formats with statistics.
    fn add_other(&mut self, scan: &DataSourceExec) {
        let rows = scan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0);
        self.rows += to_u64(rows);
        let config = scan.data_source().downcast_ref::<FileScanConfig>();
        let total = config.and_then(|config| config.statistics().num_rows.get_value().copied());
        self.rows_total = self.rows_total.zip(total).map(|(sum, total)| sum + to_u64(total));
    }
}

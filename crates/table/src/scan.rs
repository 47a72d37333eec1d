//! Table scans: batches that point into the pages of the pool.
//!
//! A table is read through DataFusion's own `FileScanConfig` with a [`SegmentSource`] in it: each
//! chunk is one "file", partitions take chunks from a shared queue, and DataFusion's file machinery
//! (limits, projections, filter pushdown, statistics, distribution) applies unchanged. There are no
//! files; the object store that such a plan must name is never called.
//!
//! - A batch is one block of a chunk; its arrays hold the pins of their pages, or are copies if too
//!   much is pinned ([`terrace_governor::pins`], `read`).
//! - Only the segments of projected columns are fetched; fetches are asynchronous and never block a
//!   thread.
//! - Chunk pruning: chunks that cannot contain a matching row are not fetched. Their minima and
//!   maxima are compared with the query's filters, and with join and top-k filters as they tighten
//!   while the query runs (`prune`).
//! - Of compact segments, only the rows that pass the filters are decoded (`select`).
//! - Below a top-k operator, chunks with the best bounds come first (`order`).
//! - The chunks after the current one are prefetched meanwhile (`readahead`).

mod copy;
mod counters;
mod open;
mod options;
mod order;
mod prune;
mod read;
mod readahead;
mod select;
mod source;

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

use crate::chunk::Chunk;
use crate::table::{Table, TableVersion};

pub use counters::ScanProgress;
use options::ChunkNumber;
pub use options::ScanOptions;
pub use read::{Blocks, ChunkReader};
pub use source::SegmentSource;

/// URL of the object store that the plan of a scan has to name. It is never used.
pub const STORE_URL: &str = "terrace://pool";

/// Plans a scan of `version` of `table`. `projection` has indices of its columns; `None` means all.
///
/// # Errors
/// If the projection names columns that the table does not have.
pub fn plan(
    table: &Table,
    version: Arc<TableVersion>,
    projection: Option<&Vec<usize>>,
    limit: Option<usize>,
    options: &ScanOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let groups = file_groups(table, &version, options.partitions);
    let statistics = version.statistics().as_ref().clone();
    let name = format!("{}.{}", table.schema_name(), table.name());
    let source = SegmentSource::new(name, version, options);
    let config = FileScanConfigBuilder::new(ObjectStoreUrl::parse(STORE_URL)?, Arc::new(source))
        .with_file_groups(groups)
        .with_statistics(statistics)
        .with_projection_indices(projection.cloned())?
        .with_limit(limit)
        .build();
    Ok(DataSourceExec::from_data_source(config))
}

/// Assigns one group of neighbouring chunks to each partition. A group keeps the table's order, so
/// a scan that must preserve the order does.
fn file_groups(table: &Table, version: &TableVersion, partitions: usize) -> Vec<FileGroup> {
    let chunks = version.chunks.len();
    let groups = partitions.clamp(1, chunks.max(1));
    (0..groups)
        .map(|group| {
            let range = chunks * group / groups..chunks * (group + 1) / groups;
            let statistics = Arc::new(group_statistics(version, range.clone()));
            let files = range.map(|number| file(table, &version.chunks[number], number));
            FileGroup::new(files.collect()).with_statistics(statistics)
        })
        .collect()
}

fn file(table: &Table, chunk: &Chunk, number: usize) -> PartitionedFile {
    let path = format!("{}/{}/{}", table.schema_name(), table.id(), chunk.id);
    // A chunk whose columns are all constants has rows, too.
    PartitionedFile::new(path, chunk.extent_bytes().max(1)).with_extension(ChunkNumber(number))
}

/// Returns the statistics of a group: its share of the rows, and the columns as of the whole table.
/// They are all inexact, because a partition that is done takes chunks of the others.
fn group_statistics(version: &TableVersion, range: Range<usize>) -> Statistics {
    let rows = version.chunks[range].iter().map(|chunk| chunk.rows).sum();
    let whole = version.statistics().as_ref().clone();
    whole.with_num_rows(Precision::Exact(rows)).to_inexact()
}

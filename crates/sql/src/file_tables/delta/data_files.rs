//! Data files of a version of a table, by replay of its log.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, RecordBatch, StructArray};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use delta_kernel::engine::arrow_data::EngineDataArrowExt as _;
use delta_kernel::scan::state::{DvInfo, ScanFile};
use delta_kernel::scan::{PartitionValuesOptions, ScanMetadata, StatsOptions};
use delta_kernel::{KernelResult, SnapshotRef};

use super::columns::Columns;
use super::engine::LogEngine;
use super::errors::failed;
use crate::file_tables::found::FILES_MAX;

/// The data files of a version.
#[derive(Debug, Default)]
pub(super) struct DataFiles {
    /// The files.
    pub(super) files: Vec<DataFile>,
    /// Statistics of them, in their order, in runs of so many files. A run may have none.
    pub(super) statistics: Vec<(usize, Option<StructArray>)>,
}

/// A data file.
#[derive(Debug)]
pub(super) struct DataFile {
    /// The path as the log has it: below the directory of the table, or a URL; encoded.
    pub(super) path: String,
    /// Length in bytes.
    pub(super) bytes: u64,
    /// Time of the last change, in milliseconds since 1970.
    pub(super) modified: i64,
    /// Number of rows, with those that are deleted, if the log has it.
    pub(super) rows: Option<u64>,
    /// The deleted rows.
    pub(super) deletions: DvInfo,
    /// Number of the deleted rows.
    pub(super) deleted: u64,
    /// Values of the partition columns.
    pub(super) values: Vec<ScalarValue>,
}

impl DataFile {
    /// Number of rows that are not deleted, if the log has it.
    pub(super) fn rows_left(&self) -> Option<u64> {
        self.rows.and_then(|rows| rows.checked_sub(self.deleted))
    }
}

impl DataFiles {
    /// The data files of a version of the table `name`.
    ///
    /// # Errors
    /// Errors of the log, and too many files.
    pub(super) fn of(
        name: &str,
        snapshot: &SnapshotRef,
        columns: &Columns,
        engine: &LogEngine,
    ) -> Result<Self> {
        let failed = |error| failed(name, &error);
        let scan = Arc::clone(snapshot)
            .scan_builder()
            .with_stats(StatsOptions::all_struct())
            .with_partition_values(PartitionValuesOptions::with_struct())
            .without_row_transforms()
            .build()
            .map_err(failed)?;
        let mut all = Self::default();
        for replayed in scan.scan_metadata(engine).map_err(failed)? {
            let (found, facts) = replayed.and_then(taken).map_err(failed)?;
            if found.len() != facts.num_rows() {
                let (found, rows) = (found.len(), facts.num_rows());
                return internal_err!("{found} data files with facts of {rows}");
            }
            if all.files.len() + found.len() > FILES_MAX {
                return plan_err!(
                    "Delta table {name} has more than {FILES_MAX} data files; let the engine that \
                     wrote it compact them (OPTIMIZE)"
                );
            }
            all.add(name, found, &facts, columns)?;
        }
        Ok(all)
    }

    fn add(
        &mut self,
        name: &str,
        found: Vec<ScanFile>,
        facts: &RecordBatch,
        columns: &Columns,
    ) -> Result<()> {
        if found.is_empty() {
            return Ok(());
        }
        let statistics = structs(facts, "stats_parsed");
        let counts = statistics.and_then(|facts| facts.column_by_name("numRecords"));
        let values = values(facts, columns)?;
        self.statistics.push((found.len(), statistics.cloned()));
        for (row, file) in found.into_iter().enumerate() {
            let count = || counts.and_then(|counts| number(counts, row));
            let deleted = file.dv_info.cardinality().map_err(|error| failed(name, &error))?;
            let Ok(bytes) = u64::try_from(file.size) else {
                return plan_err!("Delta table {name} has a file of {} bytes", file.size);
            };
            self.files.push(DataFile {
                path: file.path,
                bytes,
                modified: file.modification_time,
                rows: file.stats.map(|known| known.num_records).or_else(count),
                deletions: file.dv_info,
                deleted: deleted.unwrap_or_default(),
                values: values.iter().map(|column| column[row].clone()).collect(),
            });
        }
        Ok(())
    }
}

/// The files of a part of the log, and the facts about each of them.
fn taken(replayed: ScanMetadata) -> KernelResult<(Vec<ScanFile>, RecordBatch)> {
    let found = replayed.visit_scan_files(vec![], |files, file| files.push(file))?;
    let facts = replayed.scan_files.apply_selection_vector()?;
    Ok((found, facts.try_into_record_batch()?))
}

fn structs<'a>(facts: &'a RecordBatch, name: &str) -> Option<&'a StructArray> {
    facts.column_by_name(name)?.as_any().downcast_ref()
}

/// The number of rows of a file.
fn number(counts: &ArrayRef, row: usize) -> Option<u64> {
    match ScalarValue::try_from_array(counts, row) {
        Ok(ScalarValue::Int64(count)) => count.and_then(|count| u64::try_from(count).ok()),
        _ => None,
    }
}

/// The values of each partition column, of the type that the planner sees.
fn values(facts: &RecordBatch, columns: &Columns) -> Result<Vec<Vec<ScalarValue>>> {
    let parsed = structs(facts, "partitionValues_parsed");
    let mut all = vec![];
    for (place, name) in columns.partitions.iter().enumerate() {
        let Some(data_type) = columns.constant_type(place) else {
            return internal_err!("the partition column {name} has no type");
        };
        let Some(values) = parsed.and_then(|parsed| parsed.column_by_name(name)) else {
            return internal_err!("the log has no values of the partition column {name}");
        };
        let values = (0..values.len()).map(|row| {
            ScalarValue::try_from_array(values, row).and_then(|value| value.cast_to(data_type))
        });
        all.push(values.collect::<Result<Vec<_>>>()?);
    }
    Ok(all)
}

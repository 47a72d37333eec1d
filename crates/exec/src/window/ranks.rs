//! Peer groups of the rows of a partition, across batches and blocks.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::compute::partition;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;

/// Groups of adjacent rows that are equal in some expressions, across batches.
#[derive(Debug)]
pub(crate) struct Groups {
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    converter: Option<RowConverter>,
    /// The values of the last row seen, if there was one and there are expressions.
    last: Option<OwnedRow>,
    begun: bool,
}

/// The groups of one batch.
#[derive(Debug)]
pub(crate) struct GroupsOf {
    pub(crate) ranges: Vec<Range<usize>>,
    /// True if the first group began in an earlier batch.
    pub(crate) continues: bool,
}

impl Groups {
    /// Creates groups of rows that are equal in all of `expressions`; without any, all rows are.
    pub(crate) fn new(expressions: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        Self { expressions, converter: None, last: None, begun: false }
    }

    /// Forgets earlier batches.
    pub(crate) fn restart(&mut self) {
        self.begun = false;
    }

    /// Returns the groups of the next batch, which has rows.
    ///
    /// # Errors
    /// If the expressions cannot be evaluated.
    pub(crate) fn next(&mut self, batch: &RecordBatch) -> Result<GroupsOf> {
        let rows = batch.num_rows();
        let value = |it: &Arc<dyn PhysicalExpr>| it.evaluate(batch)?.into_array(rows);
        let columns = self.expressions.iter().map(value).collect::<Result<Vec<ArrayRef>>>()?;
        let ranges = match columns[..] {
            [] => std::iter::once(0..rows).collect(),
            [..] => partition(&columns)?.ranges(),
        };
        let first = self.key(&columns, 0)?;
        let continues = std::mem::replace(&mut self.begun, true) && self.last == first;
        self.last = self.key(&columns, rows - 1)?;
        Ok(GroupsOf { ranges, continues })
    }

    fn key(&mut self, columns: &[ArrayRef], row: usize) -> Result<Option<OwnedRow>> {
        if columns.is_empty() {
            return Ok(None);
        }
        let converter = match &mut self.converter {
            Some(converter) => converter,
            none => {
                let fields = columns.iter().map(|it| SortField::new(it.data_type().clone()));
                none.insert(RowConverter::new(fields.collect())?)
            }
        };
        let one: Vec<_> = columns.iter().map(|column| column.slice(row, 1)).collect();
        Ok(Some(converter.convert_columns(&one)?.row(0).owned()))
    }
}

/// The peer groups in one block of a partition, with information from the blocks around it.
#[derive(Clone, Debug)]
pub(crate) struct BlockRanks {
    pub(crate) ranges: Vec<Range<usize>>,
    /// Index of the block's first row in the partition.
    pub(crate) start: u64,
    /// Index in the partition of the start of the first row's peer group, and the number of that
    /// group.
    pub(crate) first_start: u64,
    pub(crate) first_number: u64,
    /// Index in the partition of the end of the last row's peer group.
    pub(crate) last_end: u64,
}

impl BlockRanks {
    /// Returns an element per row: the `value` of the number of its peer group, from 1, and of the
    /// range of the group's rows in the partition.
    pub(crate) fn each<T: Clone>(&self, value: impl Fn(u64, Range<u64>) -> T) -> Vec<T> {
        let mut values = Vec::new();
        let last = self.ranges.len().saturating_sub(1);
        for (index, range) in self.ranges.iter().enumerate() {
            let begins =
                if index == 0 { self.first_start } else { self.start + range.start as u64 };
            let ends = if index == last { self.last_end } else { self.start + range.end as u64 };
            let value = value(self.first_number + index as u64, begins..ends);
            values.resize(values.len() + range.len(), value);
        }
        values
    }
}

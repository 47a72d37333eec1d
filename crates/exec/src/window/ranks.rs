//! Which rows of a partition are peers, as it is read in blocks.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::compute::partition;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;

/// Rows that agree in some expressions, across batches.
#[derive(Debug)]
pub(crate) struct Groups {
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    converter: Option<RowConverter>,
    /// The values of the last row seen, if a row was seen and there are expressions.
    last: Option<OwnedRow>,
    begun: bool,
}

/// The groups of one batch.
#[derive(Debug)]
pub(crate) struct GroupsOf {
    pub(crate) ranges: Vec<Range<usize>>,
    /// The first group began in an earlier batch.
    pub(crate) continues: bool,
}

impl Groups {
    /// Groups of rows that agree in all of `expressions`; without any, all rows do.
    pub(crate) fn new(expressions: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        Self { expressions, converter: None, last: None, begun: false }
    }

    /// Forgets what came before.
    pub(crate) fn restart(&mut self) {
        self.begun = false;
    }

    /// The groups of the next batch, which has rows.
    ///
    /// # Errors
    /// When the expressions cannot be evaluated.
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

/// The peers in one block of a partition, with what the blocks around it know.
#[derive(Clone, Debug)]
pub(crate) struct BlockRanks {
    pub(crate) ranges: Vec<Range<usize>>,
    /// Where in the partition the block begins.
    pub(crate) start: u64,
    /// Where in the partition the first row's peers begin, and the how many-th peers they are.
    pub(crate) first_start: u64,
    pub(crate) first_number: u64,
    /// Where in the partition the last row's peers end.
    pub(crate) last_end: u64,
}

impl BlockRanks {
    /// For each row, what `value` says of its peers: their number from 1, and their rows.
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

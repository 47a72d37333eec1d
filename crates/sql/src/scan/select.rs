//! Which rows of a block are worth decoding.
//!
//! Rows of compact segments cost time to decode. So the filters of a scan are applied here first,
//! by the columns they read: on the values of a dictionary, once per segment, where a column is
//! one, and on decoded columns elsewhere. The other columns are decoded for the rows that are left,
//! and not at all where none are.
//!
//! This removes rows that the operator above would remove, and need not remove all of them: that
//! operator applies its filter to what it gets. A filter of decoded columns that lets most rows
//! through is soon left to it, since applying it twice would cost more than it saves; and so is one
//! beside which there is nothing to decode.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{filter, prep_null_mask_filter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

use crate::segment::{Segment, SegmentError};

/// Rows that a filter is tried on before it is judged.
const TRIAL_ROWS: usize = 4 * 8192;
/// A filter that reads decoded columns stays in use while it takes out one row in this many.
const WORTHWHILE: usize = 4;
/// Dictionaries of more values than this are not looked at as a whole.
const DICTIONARY_VALUES: usize = 16_384;

/// The filters of a scan that can be applied to the columns it reads.
pub(super) struct RowFilter {
    conjuncts: Vec<Conjunct>,
}

/// One of the conditions that all have to hold.
struct Conjunct {
    condition: Arc<dyn PhysicalExpr>,
    /// Of the columns that the condition reads.
    schema: SchemaRef,
    /// Those columns, by their place among the columns that the scan reads.
    columns: Vec<usize>,
    rows: AtomicUsize,
    kept: AtomicUsize,
}

/// What was found out about the segments of one chunk.
#[derive(Default)]
pub(super) struct ChunkFacts {
    /// Per condition, for each value of a dictionary whether it holds; none of other columns.
    by_value: BTreeMap<usize, Option<Vec<bool>>>,
}

/// The rows that are left of a block.
pub(super) enum Left {
    /// So many that all are decoded.
    All,
    /// These.
    Some(BooleanBuffer),
    /// None.
    Nothing,
}

impl RowFilter {
    /// The conditions of `filter` over the columns with these numbers of a table with this schema.
    /// None where there is no such condition.
    pub(super) fn new(
        filter: Option<&Arc<dyn PhysicalExpr>>,
        table: &SchemaRef,
        columns: &[usize],
    ) -> Option<Self> {
        let conditions = split_conjunction(filter?);
        let conjuncts = conditions.into_iter().filter_map(|c| Conjunct::new(c, table, columns));
        let conjuncts: Vec<_> = conjuncts.collect();
        (!conjuncts.is_empty()).then_some(Self { conjuncts })
    }

    /// The rows of a block that may be wanted. Columns decoded for that are left in `decoded`.
    pub(super) fn rows(
        &self,
        segments: &[Segment],
        block: usize,
        facts: &mut ChunkFacts,
        decoded: &mut [Option<ArrayRef>],
    ) -> Result<Left, (usize, SegmentError)> {
        let mut left: Option<BooleanBuffer> = None;
        for (number, conjunct) in self.conjuncts.iter().enumerate() {
            let by_value = facts.of(number, conjunct, segments)?;
            let bits = match (by_value, conjunct.columns.first()) {
                (Some(wanted), _) if wanted.iter().all(|wanted| *wanted) => continue,
                (Some(wanted), _) if !wanted.contains(&true) => return Ok(Left::Nothing),
                (Some(wanted), Some(column)) => match segments[*column].compact() {
                    Some(compact) => {
                        compact.rows_with(block, wanted).map_err(|error| (*column, error))?
                    }
                    None => continue,
                },
                _ if !conjunct.is_worthwhile() || !conjunct.saves(segments, decoded) => continue,
                _ => match conjunct.of_block(segments, block, decoded)? {
                    Some(bits) => bits,
                    None => continue,
                },
            };
            conjunct.saw(&bits);
            let both = left.map_or_else(|| bits.clone(), |left| &left & &bits);
            if both.count_set_bits() == 0 {
                return Ok(Left::Nothing);
            }
            left = Some(both);
        }
        Ok(match left {
            // Where nearly all are left, decoding them all is the faster way.
            Some(bits) if bits.count_set_bits() * 4 <= bits.len() * 3 => Left::Some(bits),
            _ => Left::All,
        })
    }
}

impl ChunkFacts {
    /// For each value of the dictionary that the condition reads, whether it holds. None where it
    /// does not read just one dictionary.
    fn of(
        &mut self,
        number: usize,
        conjunct: &Conjunct,
        segments: &[Segment],
    ) -> Result<Option<&Vec<bool>>, (usize, SegmentError)> {
        Ok(match self.by_value.entry(number) {
            Entry::Occupied(known) => known.into_mut().as_ref(),
            Entry::Vacant(unknown) => unknown.insert(conjunct.by_value(segments)?).as_ref(),
        })
    }
}

impl Conjunct {
    /// A condition that says the same whenever it is asked, of columns that are read.
    fn new(
        condition: &Arc<dyn PhysicalExpr>,
        table: &SchemaRef,
        columns: &[usize],
    ) -> Option<Self> {
        let is_fickle = |expr: &Arc<dyn PhysicalExpr>| {
            Ok(expr.is_volatile_node()
                || expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some())
        };
        if condition.exists(is_fickle).unwrap_or(true) {
            return None;
        }
        let read = collect_columns(condition);
        let read = read.iter().map(|column| table.index_of(column.name()).ok());
        let mut read = read.collect::<Option<Vec<usize>>>()?;
        read.sort_unstable();
        let places = read.iter().map(|index| columns.iter().position(|column| column == index));
        let places = places.collect::<Option<Vec<_>>>().filter(|places| !places.is_empty())?;
        let schema: SchemaRef = Arc::new(table.project(&read).ok()?);
        let condition = reassign_expr_columns(Arc::clone(condition), &schema).ok()?;
        let (rows, kept) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Some(Self { condition, schema, columns: places, rows, kept })
    }

    fn saw(&self, bits: &BooleanBuffer) {
        self.rows.fetch_add(bits.len(), Ordering::Relaxed);
        self.kept.fetch_add(bits.count_set_bits(), Ordering::Relaxed);
    }

    fn is_worthwhile(&self) -> bool {
        let (rows, kept) = (self.rows.load(Ordering::Relaxed), self.kept.load(Ordering::Relaxed));
        rows < TRIAL_ROWS || (rows - kept.min(rows)) * WORTHWHILE >= rows
    }

    /// Whether there is a column to decode of which the condition may leave rows out.
    fn saves(&self, segments: &[Segment], decoded: &[Option<ArrayRef>]) -> bool {
        let others = segments.iter().zip(decoded).enumerate();
        let mut others = others.filter(|(column, _)| !self.columns.contains(column));
        others.any(|(_, (segment, decoded))| segment.compact().is_some() && decoded.is_none())
    }

    fn by_value(&self, segments: &[Segment]) -> Result<Option<Vec<bool>>, (usize, SegmentError)> {
        let [column] = self.columns[..] else { return Ok(None) };
        let Some(compact) = segments[column].compact() else { return Ok(None) };
        let values = compact.distinct_values().map_err(|error| (column, error))?;
        let Some(values) = values.filter(|values| values.len() <= DICTIONARY_VALUES) else {
            return Ok(None);
        };
        // What cannot be computed of a value may be computed of no row, which is not ours to say.
        Ok(self.holds(vec![values]).ok().map(|bits| bits.iter().collect()))
    }

    /// The rows of a block for which the condition holds; none where it cannot be computed.
    fn of_block(
        &self,
        segments: &[Segment],
        block: usize,
        decoded: &mut [Option<ArrayRef>],
    ) -> Result<Option<BooleanBuffer>, (usize, SegmentError)> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let array = match decoded[*column].take() {
                Some(array) => array,
                None => segments[*column].block(block).map_err(|error| (*column, error))?,
            };
            decoded[*column] = Some(Arc::clone(&array));
            arrays.push(array);
        }
        Ok(self.holds(arrays).ok())
    }

    fn holds(&self, arrays: Vec<ArrayRef>) -> Result<BooleanBuffer> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays)?;
        let holds = self.condition.evaluate(&batch)?.into_array(batch.num_rows())?;
        let holds = holds.as_boolean_opt().ok_or_else(|| {
            DataFusionError::Plan(format!("the condition {} is no truth value", self.condition))
        })?;
        Ok(match holds.null_count() {
            0 => holds.values().clone(),
            _ => prep_null_mask_filter(holds).values().clone(),
        })
    }
}

/// The columns of a block, of which those in `decoded` need not be read again.
pub(super) fn read(
    segments: &[Segment],
    block: usize,
    left: &Left,
    decoded: &mut [Option<ArrayRef>],
) -> Result<Vec<ArrayRef>, (usize, SegmentError)> {
    let mut arrays = Vec::with_capacity(segments.len());
    for (index, segment) in segments.iter().enumerate() {
        let array = match (decoded[index].take(), left, segment.compact()) {
            (Some(array), Left::Some(bits), _) => taken(&array, bits),
            (Some(array), ..) => Ok(array),
            (None, Left::Some(bits), Some(compact)) => compact.read(block, Some(bits)),
            (None, Left::Some(bits), None) => {
                segment.block(block).and_then(|array| taken(&array, bits))
            }
            (None, ..) => segment.block(block),
        };
        arrays.push(array.map_err(|error| (index, error))?);
    }
    Ok(arrays)
}

fn taken(array: &ArrayRef, bits: &BooleanBuffer) -> Result<ArrayRef, SegmentError> {
    Ok(filter(array, &BooleanArray::new(bits.clone(), None))?)
}

//! Row selection: the rows of a block that are worth decoding.
//!
//! Rows of compact segments take time to decode. So the filters of a scan are applied here first:
//! to the values of a dictionary column, once per segment, and to the decoded values of other
//! columns. The remaining columns are decoded only for the rows that are left, and not at all if
//! none are.
//!
//! Selection removes rows that an operator above would remove, and need not remove all of them:
//! that operator applies its filter to its input anyway. A filter over decoded columns that passes
//! most rows is soon left to the operator, since applying it twice would cost more than it saves;
//! so is a filter that saves the decoding of no other column. The filters of joins and top-k
//! operators are unknown before the scan begins, or become narrower while it runs. They are read
//! again for each chunk, and applied to plain segments too: filtered rows need not travel to the
//! operator that made the filter, through exchanges and other joins.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{filter, prep_null_mask_filter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use terrace_sys::sync::lock;

use crate::segment::{Segment, SegmentError};

/// Number of rows that a filter is tried on before its selectivity is judged.
const TRIAL_ROWS: usize = 4 * 8192;
/// A filter over decoded columns stays in use while it removes at least one row in this many.
const WORTHWHILE: usize = 4;
/// A condition is evaluated only on the remaining rows, if at most one row in this many remains.
const FEW: usize = 4;
/// Maximum number of values of a dictionary that is evaluated as a whole.
const DICTIONARY_VALUES: usize = 16_384;

/// The filters of a scan that can be applied to the columns it reads.
pub(super) struct RowFilter {
    /// Schema of the table, and the indices of the columns that are read.
    schema: SchemaRef,
    columns: Vec<usize>,
    fixed: Vec<Arc<Conjunct>>,
    changing: Vec<Changing>,
}

/// A dynamic filter, which an operator builds while the query runs.
struct Changing {
    filter: Arc<dyn PhysicalExpr>,
    latest: Mutex<Latest>,
}

/// The filter as of the last time it was read.
#[derive(Default)]
struct Latest {
    generation: Option<u64>,
    conjuncts: Vec<Arc<Conjunct>>,
}

/// One of the conditions that the filters join by AND, and the counts of its input and kept rows.
struct Conjunct {
    condition: Arc<dyn PhysicalExpr>,
    /// Schema of the columns that the condition reads.
    schema: SchemaRef,
    /// Those columns, by index among the columns that the scan reads.
    columns: Vec<usize>,
    /// True if the operator of the filter is not directly above the scan.
    is_remote: bool,
    rows: AtomicUsize,
    kept: AtomicUsize,
}

/// The conditions for the rows of one chunk, and results that hold for its segments.
#[derive(Default)]
pub(super) struct ChunkFacts {
    conjuncts: Option<Vec<Arc<Conjunct>>>,
    /// By condition: for each value of its dictionary, true if it matches; `None` for other
    /// columns.
    by_value: BTreeMap<usize, Option<Vec<bool>>>,
}

/// The rows of a block that are left by the filters.
pub(super) enum Left {
    /// All rows, or so many of them that decoding all is faster.
    All,
    /// The rows of this mask.
    Some(BooleanBuffer),
    /// No rows.
    Nothing,
}

impl RowFilter {
    /// Collects the conditions of `filter` over the columns with these indices of a table with this
    /// schema. `None` if there is no such condition.
    pub(super) fn new(
        filter: Option<&Arc<dyn PhysicalExpr>>,
        table: &SchemaRef,
        columns: &[usize],
    ) -> Option<Self> {
        let (schema, columns) = (Arc::clone(table), columns.to_vec());
        let mut rows = Self { schema, columns, fixed: Vec::new(), changing: Vec::new() };
        for condition in split_conjunction(filter?) {
            if condition.is::<DynamicFilterPhysicalExpr>() {
                let filter = Arc::clone(condition);
                rows.changing.push(Changing { filter, latest: Mutex::default() });
            } else {
                rows.fixed.extend(rows.conjunct(condition, false));
            }
        }
        (!rows.fixed.is_empty() || !rows.changing.is_empty()).then_some(rows)
    }

    fn conjunct(
        &self,
        condition: &Arc<dyn PhysicalExpr>,
        is_remote: bool,
    ) -> Option<Arc<Conjunct>> {
        Conjunct::new(condition, &self.schema, &self.columns, is_remote).map(Arc::new)
    }

    /// Returns true if the filter can remove rows of these segments before they are decoded.
    pub(super) fn fits(&self, segments: &[Segment]) -> bool {
        !self.changing.is_empty() || segments.iter().any(|segment| segment.compact().is_some())
    }

    /// Returns the conditions of the fixed filters, and the current ones of dynamic filters.
    fn conjuncts(&self) -> Vec<Arc<Conjunct>> {
        let mut conjuncts = self.fixed.clone();
        for Changing { filter, latest } in &self.changing {
            let mut latest = lock(latest);
            let generation = Some(filter.snapshot_generation());
            if latest.generation != generation {
                let now = filter.downcast_ref::<DynamicFilterPhysicalExpr>();
                let now = now.and_then(|filter| filter.current().ok());
                let now = now.as_ref().map(split_conjunction).into_iter().flatten();
                latest.conjuncts = now.filter_map(|now| self.conjunct(now, true)).collect();
                latest.generation = generation;
            }
            conjuncts.extend(latest.conjuncts.iter().cloned());
        }
        conjuncts
    }

    /// Returns the rows of a block that may match. Columns that were decoded for that are put into
    /// `decoded`, by index among the columns that the scan reads.
    pub(super) fn rows(
        &self,
        segments: &[Segment],
        block: usize,
        facts: &mut ChunkFacts,
        decoded: &mut [Option<ArrayRef>],
    ) -> Result<Left, (usize, SegmentError)> {
        let mut left: Option<BooleanBuffer> = None;
        let conjuncts = facts.conjuncts.take().unwrap_or_else(|| self.conjuncts());
        let rows = self.left_by(&conjuncts, segments, block, (&mut *facts, decoded), &mut left);
        facts.conjuncts = Some(conjuncts);
        if !rows? {
            return Ok(Left::Nothing);
        }
        Ok(match left {
            // If nearly all rows are left, decoding all of them is faster.
            Some(bits) if bits.count_set_bits() * 4 <= bits.len() * 3 => Left::Some(bits),
            _ => Left::All,
        })
    }

    /// Applies the conditions one after the other. Returns false when no row is left.
    fn left_by(
        &self,
        conjuncts: &[Arc<Conjunct>],
        segments: &[Segment],
        block: usize,
        (facts, decoded): (&mut ChunkFacts, &mut [Option<ArrayRef>]),
        left: &mut Option<BooleanBuffer>,
    ) -> Result<bool, (usize, SegmentError)> {
        for (number, conjunct) in conjuncts.iter().enumerate() {
            let by_value = facts.of(number, conjunct, segments)?;
            let bits = match (by_value, conjunct.columns.first()) {
                (Some(wanted), _) if wanted.iter().all(|wanted| *wanted) => continue,
                (Some(wanted), _) if !wanted.contains(&true) => return Ok(false),
                (Some(wanted), Some(column)) => match segments[*column].compact() {
                    Some(compact) => {
                        compact.rows_with(block, wanted).map_err(|error| (*column, error))?
                    }
                    None => continue,
                },
                _ if !conjunct.is_worthwhile() || !conjunct.saves(segments, decoded) => continue,
                _ => match conjunct.of_block(segments, block, left.as_ref(), decoded)? {
                    Some(bits) => bits,
                    None => continue,
                },
            };
            conjunct.saw(&bits, left.as_ref());
            let both = left.take().map_or_else(|| bits.clone(), |left| &left & &bits);
            if both.count_set_bits() == 0 {
                return Ok(false);
            }
            *left = Some(both);
        }
        Ok(true)
    }
}

impl ChunkFacts {
    /// Returns for each value of the dictionary that the condition reads true if it matches. `None`
    /// unless the condition reads exactly one dictionary column.
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
    /// Builds a condition over columns that are read; `None` for volatile and dynamic conditions.
    fn new(
        condition: &Arc<dyn PhysicalExpr>,
        table: &SchemaRef,
        columns: &[usize],
        is_remote: bool,
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
        Some(Self { condition, schema, columns: places, is_remote, rows, kept })
    }

    /// Counts the rows that the condition keeps, of those `left` by other conditions.
    fn saw(&self, bits: &BooleanBuffer, left: Option<&BooleanBuffer>) {
        let rows = left.map_or(bits.len(), BooleanBuffer::count_set_bits);
        let kept =
            left.map_or_else(|| bits.count_set_bits(), |left| (left & bits).count_set_bits());
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.kept.fetch_add(kept, Ordering::Relaxed);
    }

    fn is_worthwhile(&self) -> bool {
        let (rows, kept) = (self.rows.load(Ordering::Relaxed), self.kept.load(Ordering::Relaxed));
        rows < TRIAL_ROWS || (rows - kept.min(rows)) * WORTHWHILE >= rows
    }

    /// Returns true if evaluating the condition here can save work: the decoding of another column,
    /// or the transfer of rows to a remote operator.
    fn saves(&self, segments: &[Segment], decoded: &[Option<ArrayRef>]) -> bool {
        if self.is_remote {
            return true;
        }
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
        // An error for a value of the dictionary may concern no row; the operator above decides
        // that.
        Ok(self.holds(vec![values]).ok().map(|bits| bits.iter().collect()))
    }

    /// Returns the rows of a block for which the condition holds, `None` if it cannot be evaluated.
    /// If few rows are `left`, it is evaluated only for those.
    fn of_block(
        &self,
        segments: &[Segment],
        block: usize,
        left: Option<&BooleanBuffer>,
        decoded: &mut [Option<ArrayRef>],
    ) -> Result<Option<BooleanBuffer>, (usize, SegmentError)> {
        let few = left.filter(|left| left.count_set_bits() * FEW <= left.len());
        let mut arrays = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let segment = &segments[*column];
            let array = match (&decoded[*column], few, segment.compact()) {
                (Some(array), None, _) => Ok(Arc::clone(array)),
                (Some(array), Some(few), _) => taken(array, few),
                (None, Some(few), Some(compact)) => compact.read(block, Some(few)),
                (None, Some(few), None) => {
                    segment.block(block).and_then(|array| taken(&array, few))
                }
                (None, None, _) => segment.block(block),
            };
            let array = array.map_err(|error| (*column, error))?;
            if few.is_none() {
                decoded[*column] = Some(Arc::clone(&array));
            }
            arrays.push(array);
        }
        let Ok(holds) = self.holds(arrays) else { return Ok(None) };
        Ok(Some(match few {
            None => holds,
            Some(few) => spread(&holds, few),
        }))
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

/// Returns the rows `left` of all columns of a block; columns in `decoded` are not decoded again.
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

/// Returns as many bits as `of` has: the n-th bit of `holds` at the position of the n-th bit that
/// is set in `of`, and zeros elsewhere.
fn spread(holds: &BooleanBuffer, of: &BooleanBuffer) -> BooleanBuffer {
    let mut bits = BooleanBufferBuilder::new(of.len());
    bits.append_n(of.len(), false);
    for (row, _) in of.set_indices().zip(holds.iter()).filter(|(_, holds)| *holds) {
        bits.set_bit(row, true);
    }
    bits.finish()
}

fn taken(array: &ArrayRef, bits: &BooleanBuffer) -> Result<ArrayRef, SegmentError> {
    Ok(filter(array, &BooleanArray::new(bits.clone(), None))?)
}

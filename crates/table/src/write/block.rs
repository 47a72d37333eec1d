//! Division of a stream of batches into blocks, of limited rows and bytes.

use std::collections::VecDeque;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::buffer::MutableBuffer;
use datafusion::arrow::compute::{CastOptions, can_cast_types, cast_with_options, concat};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::util::display::FormatOptions;
use terrace_exec::floats::canonical_nans;

use super::texts;
use crate::chunk::{BLOCK_BYTES, BLOCK_ROWS};
use crate::error::SqlError;
use crate::segment::{BlockPlan, HeapBytes, Segment, SegmentError, SegmentPlan};

/// A batch that keeps at least this many times its own bytes alive is copied instead of held.
const SPARSE: usize = 8;
/// Batches up to this many bytes are always held, whatever they keep alive.
const SMALL_BYTES: usize = 64 << 10;

/// Cast options: a value that the target type cannot represent is an error.
pub(super) const STRICT: CastOptions<'_> =
    CastOptions { safe: false, format_options: FormatOptions::new() };

/// Some rows of a table, one array per column.
pub(super) type Columns = Vec<ArrayRef>;

/// Buffer that collects rows until they make a block.
pub(super) struct Blocker {
    table: String,
    schema: SchemaRef,
    pieces: VecDeque<Columns>,
    rows: usize,
    bytes: usize,
    /// True for rows whose texts have been converted for their columns already, such as those read
    /// from the table itself.
    is_of_table: bool,
}

impl Blocker {
    pub(super) fn new(table: String, schema: SchemaRef) -> Self {
        Self { table, schema, pieces: VecDeque::new(), rows: 0, bytes: 0, is_of_table: false }
    }

    /// Returns the same buffer, for rows whose texts have been converted already.
    pub(super) fn of_table(self) -> Self {
        Self { is_of_table: true, ..self }
    }

    /// Adds the rows of `batch` and returns the blocks they complete.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<Vec<Columns>, SqlError> {
        let mut rest = self.checked(batch)?;
        let mut blocks = Vec::new();
        while let rows @ 1.. = len(&rest) {
            let bytes = widest(&rest);
            let room = BLOCK_ROWS - self.rows;
            if self.rows > 0 && self.bytes + bytes.min(bytes / rows * room) > BLOCK_BYTES {
                self.flush(&mut blocks)?;
                continue;
            }
            let taken = rows.min(room);
            self.hold(slice(&rest, 0, taken))?;
            rest = slice(&rest, taken, rows - taken);
            if self.rows == BLOCK_ROWS || self.bytes > BLOCK_BYTES {
                self.flush(&mut blocks)?;
            }
        }
        Ok(blocks)
    }

    /// Returns the remaining rows.
    pub(super) fn finish(&mut self) -> Result<Vec<Columns>, SqlError> {
        let mut blocks = Vec::new();
        self.flush(&mut blocks)?;
        Ok(blocks)
    }

    /// Casts and checks the batch's columns for the table.
    fn checked(&self, batch: &RecordBatch) -> Result<Columns, SqlError> {
        let fields = self.schema.fields();
        if batch.num_columns() != fields.len() {
            return Err(self.other_columns(batch));
        }
        let mut columns = Vec::with_capacity(fields.len());
        for (field, column) in fields.iter().zip(batch.columns()) {
            let column = match column.data_type() == field.data_type() {
                true => column.clone(),
                false if !can_cast_types(column.data_type(), field.data_type()) => {
                    return Err(self.other_columns(batch));
                }
                // A value that does not fit is an error: as a null it would be lost.
                false => cast_with_options(column, field.data_type(), &STRICT)?,
            };
            let column = match self.is_of_table {
                true => column,
                false => texts::stored(&column, field)?,
            };
            if !field.is_nullable() && column.logical_null_count() > 0 {
                let (table, column) = (self.table.clone(), field.name().clone());
                return Err(SqlError::NotNull { table, column });
            }
            // All NaNs are stored as one, so that statistics and bitwise comparisons are right.
            columns.push(canonical_nans(&column)?);
        }
        Ok(columns)
    }

    fn other_columns(&self, batch: &RecordBatch) -> SqlError {
        let describe = |schema: &SchemaRef| {
            let columns = schema.fields().iter();
            let columns = columns.map(|field| format!("{} {}", field.name(), field.data_type()));
            format!("({})", columns.collect::<Vec<_>>().join(", "))
        };
        SqlError::Columns {
            table: self.table.clone(),
            expected: describe(&self.schema),
            found: describe(&batch.schema()),
        }
    }

    /// Keeps a piece, as a copy if it would keep much more alive than itself.
    fn hold(&mut self, piece: Columns) -> Result<(), SqlError> {
        let piece = piece.iter().zip(self.schema.fields()).map(|(column, field)| {
            compacted(column).map_err(|source| SqlError::Segment {
                table: self.table.clone(),
                column: field.name().clone(),
                source,
            })
        });
        let piece = piece.collect::<Result<Columns, _>>()?;
        self.rows += len(&piece);
        self.bytes += widest(&piece);
        self.pieces.push_back(piece);
        Ok(())
    }

    /// Joins the pieces into one block, or several if their dictionaries cannot be joined.
    fn flush(&mut self, blocks: &mut Vec<Columns>) -> Result<(), SqlError> {
        (self.rows, self.bytes) = (0, 0);
        let pieces = Vec::from(std::mem::take(&mut self.pieces));
        match pieces.len() {
            0 => {}
            1 => blocks.extend(pieces),
            _ => match joined(&pieces) {
                Some(block) => blocks.push(block),
                None => blocks.extend(pieces),
            },
        }
        Ok(())
    }
}

fn joined(pieces: &[Columns]) -> Option<Columns> {
    let columns = 0..pieces.first()?.len();
    let columns = columns.map(|column| {
        let parts: Vec<&dyn Array> = pieces.iter().map(|piece| piece[column].as_ref()).collect();
        concat(&parts).ok()
    });
    columns.collect()
}

/// Splits a block into its first and second half.
pub(super) fn halves(block: &Columns) -> [Columns; 2] {
    let (rows, half) = (len(block), len(block) / 2);
    [slice(block, 0, half), slice(block, half, rows - half)]
}

/// Returns the number of rows in a block.
pub(super) fn len(block: &Columns) -> usize {
    block.first().map_or(0, |column| column.len())
}

fn slice(block: &Columns, offset: usize, len: usize) -> Columns {
    block.iter().map(|column| column.slice(offset, len)).collect()
}

/// Returns the estimated bytes of the widest column.
fn widest(block: &Columns) -> usize {
    block.iter().map(|column| estimate(column)).max().unwrap_or(0)
}

/// Estimates the bytes that the rows of an array take in a segment, roughly and quickly.
fn estimate(array: &dyn Array) -> usize {
    match array.data_type() {
        DataType::Utf8View => {
            let lens = array.as_string_view().lengths();
            array.len() * 16 + lens.filter(|&len| len > 12).map(|len| len as usize).sum::<usize>()
        }
        DataType::BinaryView => {
            let lens = array.as_binary_view().lengths();
            array.len() * 16 + lens.filter(|&len| len > 12).map(|len| len as usize).sum::<usize>()
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = dictionary.values();
            let used = values.len().min(array.len());
            let per_value = estimate(values).checked_div(values.len()).unwrap_or(0);
            estimate(dictionary.keys()) + used * per_value
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(|c| estimate(c)).sum(),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (start, len) = range(list.value_offsets());
            array.len() * 4 + estimate(&list.values().slice(start, len))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let (start, len) = range(list.value_offsets());
            array.len() * 8 + estimate(&list.values().slice(start, len))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (start, len) = range(map.value_offsets());
            array.len() * 4 + estimate(&map.entries().slice(start, len))
        }
        DataType::FixedSizeList(..) => estimate(array.as_fixed_size_list().values()),
        _ => array.to_data().get_slice_memory_size().unwrap_or(0),
    }
}

fn range<O: datafusion::arrow::array::OffsetSizeTrait>(offsets: &[O]) -> (usize, usize) {
    let first = offsets.first().map_or(0, |offset| offset.as_usize());
    let last = offsets.last().map_or(0, |offset| offset.as_usize());
    (first, last - first)
}

/// Returns the array itself, or a copy of its rows if it keeps far more bytes alive than they take.
fn compacted(array: &ArrayRef) -> Result<ArrayRef, SegmentError> {
    let kept = array.get_buffer_memory_size();
    if kept <= SMALL_BYTES || kept / SPARSE <= estimate(array) {
        return Ok(array.clone());
    }
    // Encoding an array as a segment of one block compacts it, whatever its type.
    let plan = SegmentPlan::new(array.data_type(), vec![BlockPlan::of(array)?])?;
    let mut bytes = MutableBuffer::from_len_zeroed(plan.bytes());
    plan.write(&mut bytes)?;
    Segment::open_bytes(HeapBytes::bytes(bytes), array.data_type())?.block(0)
}

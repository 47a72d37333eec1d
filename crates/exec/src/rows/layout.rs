//! Layout of a row: the offsets of its parts.
//!
//! A row is `width` bytes: one slot per column, the widest first so that none straddles more
//! boundaries than it must, then one bit per column that is set if the value is null (a fresh page
//! is zero, so only nulls are written), then the operator's own bytes, from a multiple of eight on.

use std::sync::Arc;

use datafusion::arrow::array::new_null_array;
use datafusion::arrow::compute::can_cast_types;
use datafusion::arrow::datatypes::{ArrowNativeType, DataType};
use datafusion::arrow::row::{RowConverter, SortField};
use terrace_pool::{PAGE_MAX_BYTES, PAGE_MIN_BYTES};

use crate::{ExecError, Result};

/// Number of bits of a row address that index the rows of a page.
pub(super) const ROW_BITS: u32 = 16;
/// Bytes of the first pages of a collection: small operators hold little.
const FIRST_PAGES_BYTES: [usize; 2] = [16 << 10, 64 << 10];
/// Bytes of the pages after those.
pub(super) const PAGE_BYTES: usize = 256 << 10;

/// Storage of a column's values.
#[derive(Debug)]
pub(super) enum Kind {
    /// A byte, 0 or 1.
    Boolean,
    /// A native type of Arrow with this number of bytes.
    Fixed(usize),
    /// This number of bytes.
    Bytes(usize),
    /// Strings or binary: 16 bytes, with long values in a variable page.
    Variable,
    /// Variable, encoded by a `RowConverter`.
    Encoded(Encoding),
}

/// The encoding of nested values.
#[derive(Debug)]
pub(super) struct Encoding {
    pub(super) converter: RowConverter,
    /// The encoding of a null.
    pub(super) null: Box<[u8]>,
}

/// Width of a floating-point type, whose two zeros are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Float {
    Half,
    Single,
    Double,
}

/// One column of a row.
#[derive(Debug)]
pub(super) struct Column {
    /// The type outside of the row.
    pub(super) data_type: DataType,
    /// The type of the values in the row: without the dictionary, or binary if encoded.
    pub(super) stored: DataType,
    pub(super) kind: Kind,
    pub(super) float: Option<Float>,
    pub(super) offset: usize,
    pub(super) null_byte: usize,
    pub(super) null_mask: u8,
}

/// The layout of rows. Clones are the same layout.
#[derive(Clone, Debug)]
pub struct RowLayout(Arc<Parts>);

#[derive(Debug)]
pub(super) struct Parts {
    pub(super) columns: Vec<Column>,
    pub(super) width: usize,
    pub(super) extra_offset: usize,
}

impl RowLayout {
    /// Creates a layout for columns of `types` with `extra_bytes` of the operator's own in each
    /// row.
    ///
    /// # Errors
    /// [`ExecError::RowTooWide`] if not even one row fits a page, and [`ExecError::Type`] for a
    /// type that rows cannot hold.
    pub fn new(types: &[DataType], extra_bytes: usize) -> Result<Self> {
        let mut columns = types.iter().map(Column::new).collect::<Result<Vec<_>>>()?;
        let nulls_offset = place(&mut columns);
        let extra_offset = (nulls_offset + types.len().div_ceil(8)).next_multiple_of(8);
        let width = (extra_offset + extra_bytes).next_multiple_of(8).max(8);
        if width > PAGE_MAX_BYTES {
            return Err(ExecError::RowTooWide { columns: types.len(), width });
        }
        for (index, column) in columns.iter_mut().enumerate() {
            column.null_byte = nulls_offset + index / 8;
            column.null_mask = 1 << (index % 8);
        }
        Ok(Self(Arc::new(Parts { columns, width, extra_offset })))
    }

    /// Returns the bytes of a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.0.width
    }

    /// Returns true if some column has values in variable pages.
    #[must_use]
    pub fn has_variable(&self) -> bool {
        self.0.columns.iter().any(Column::is_variable)
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.0.columns.len()
    }

    pub(super) fn parts(&self) -> &Parts {
        &self.0
    }

    /// Returns the bytes of a page of one row.
    pub(super) fn page_bytes_min(&self) -> usize {
        self.0.width.next_multiple_of(PAGE_MIN_BYTES)
    }

    /// Returns the number of rows of a page of `bytes`.
    pub(super) fn rows_in(&self, bytes: usize) -> usize {
        (bytes / self.0.width).min(1 << ROW_BITS)
    }
}

/// Returns the bytes of the `nth` page.
pub(super) fn page_bytes(nth: usize) -> usize {
    FIRST_PAGES_BYTES.get(nth).copied().unwrap_or(PAGE_BYTES)
}

/// Assigns every column its offset, the widest first; returns the bytes of all.
fn place(columns: &mut [Column]) -> usize {
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(columns[*index].slot_bytes()));
    let mut offset = 0;
    for index in order {
        columns[index].offset = offset;
        offset += columns[index].slot_bytes();
    }
    offset
}

impl Column {
    fn new(data_type: &DataType) -> Result<Self> {
        let stored = match data_type {
            DataType::Dictionary(_, values) if can_cast_types(values, data_type) => values,
            data_type => data_type,
        };
        let kind = match stored {
            DataType::Boolean => Kind::Boolean,
            DataType::FixedSizeBinary(bytes @ 1..=32) => Kind::Bytes(bytes.as_usize()),
            stored if is_variable(stored) => Kind::Variable,
            stored => match stored.primitive_width() {
                Some(bytes) => Kind::Fixed(bytes),
                None => Kind::encoded(data_type)?,
            },
        };
        let stored = match kind {
            Kind::Encoded(_) => DataType::LargeBinary,
            _ => stored.clone(),
        };
        let float = match stored {
            DataType::Float16 => Some(Float::Half),
            DataType::Float32 => Some(Float::Single),
            DataType::Float64 => Some(Float::Double),
            _ => None,
        };
        let data_type = data_type.clone();
        Ok(Self { data_type, stored, kind, float, offset: 0, null_byte: 0, null_mask: 0 })
    }

    pub(super) fn is_variable(&self) -> bool {
        matches!(self.kind, Kind::Variable | Kind::Encoded(_))
    }

    pub(super) fn slot_bytes(&self) -> usize {
        match self.kind {
            Kind::Boolean => 1,
            Kind::Fixed(bytes) | Kind::Bytes(bytes) => bytes,
            Kind::Variable | Kind::Encoded(_) => 16,
        }
    }
}

impl Kind {
    fn encoded(data_type: &DataType) -> Result<Self> {
        let fields = vec![SortField::new(data_type.clone())];
        if !RowConverter::supports_fields(&fields) {
            return Err(ExecError::Type(data_type.clone()));
        }
        let converter = RowConverter::new(fields)?;
        let null = converter.convert_columns(&[new_null_array(data_type, 1)])?;
        let null = null.row(0).data().into();
        Ok(Self::Encoded(Encoding { converter, null }))
    }
}

fn is_variable(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
    )
}

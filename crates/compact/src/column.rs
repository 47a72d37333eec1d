//! An encoded column in borrowed bytes, and the decoding of its rows.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, make_array, new_empty_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_cast::cast;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use arrow_select::filter::filter;
use bytes::Bytes;
use vortex_array::arrays::dict::DictArraySlotsExt as _;
use vortex_array::arrays::primitive::PrimitiveArrayExt as _;
use vortex_array::arrays::{Dict, PrimitiveArray};
use vortex_array::buffer::BufferHandle;
use vortex_array::dtype::PType;
use vortex_array::serde::SerializedArray;
use vortex_array::{Canonical, ExecutionCtx};
use vortex_buffer::ByteBuffer;
use vortex_mask::Mask;
use vortex_session::registry::{Id, ReadContext};

use crate::CompactError;
use crate::encode::DESCRIPTION_BYTES;
use crate::error::guarded;
use crate::gather::{Codes, gather, unshared};
use crate::library::{SESSION, context};
use crate::storage::Storage;

/// Selection of the rows to decode.
#[derive(Clone, Debug)]
pub enum Rows {
    /// All rows of a range.
    All(Range<usize>),
    /// The rows of a range whose bit is set. The range has as many rows as there are bits.
    Selected(Range<usize>, BooleanBuffer),
}

/// An encoded column that was opened over its bytes; rows are decoded on request.
#[derive(Debug)]
pub struct Column {
    data_type: DataType,
    storage: Storage,
    rows: usize,
    tree: vortex_array::ArrayRef,
    /// Validity bitmap, if the column has nulls.
    valid: Option<Bytes>,
    /// Values of the dictionary, decoded on first use.
    dictionary: OnceLock<ArrayRef>,
}

impl Column {
    /// Opens a column of `rows` rows of `data_type` that was encoded to `description` and `body`.
    /// The body is read in place if it is aligned to [`BODY_ALIGNMENT`](crate::BODY_ALIGNMENT).
    ///
    /// # Errors
    /// [`CompactError`] if the description and body were not produced by
    /// [`encode`](crate::encode).
    pub fn open(
        description: &[u8],
        body: &Bytes,
        data_type: &DataType,
        rows: usize,
    ) -> Result<Self, CompactError> {
        let Description { storage, has_nulls, ids, tree } =
            Description::read(description, data_type)?;
        let null_bytes = if has_nulls { rows.div_ceil(8) } else { 0 };
        let buffer_bytes = body.len().checked_sub(null_bytes);
        let buffer_bytes =
            buffer_bytes.ok_or_else(|| CompactError::damaged("its bits are not all there"))?;
        let tree = guarded(|| {
            let buffers = ByteBuffer::from(body.slice(..buffer_bytes));
            let tree = ByteBuffer::copy_from(tree);
            let segment = BufferHandle::new_host(buffers);
            let tree = SerializedArray::from_flatbuffer_and_segment(tree, segment)?;
            Ok(tree.decode(&storage.dtype(), rows, &ReadContext::new(ids), &SESSION)?)
        })?;
        let valid = has_nulls.then(|| body.slice(buffer_bytes..));
        let data_type = data_type.clone();
        Ok(Self { data_type, storage, rows, tree, valid, dictionary: OnceLock::new() })
    }

    /// Returns the number of rows of the column.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Decodes the selected rows.
    ///
    /// # Errors
    /// [`CompactError`] if the rows are out of range or the bytes cannot be decoded.
    pub fn read(&self, rows: &Rows) -> Result<ArrayRef, CompactError> {
        let nulls = self.nulls(rows)?;
        let wanted = match rows {
            Rows::All(range) => range.len(),
            Rows::Selected(_, bits) => bits.count_set_bits(),
        };
        if wanted == 0 {
            return Ok(new_empty_array(&self.data_type));
        }
        guarded(|| {
            let mut context = context();
            if let Some((codes, values)) = self.dictionary(&mut context)? {
                let codes = codes_of(&chosen(&codes, rows)?, &mut context)?;
                return self.as_typed(&gather(values, &codes, nulls)?);
            }
            let decoded = chosen(&self.tree, rows)?.execute::<Canonical>(&mut context)?;
            self.as_typed(&self.to_arrow(decoded, nulls)?)
        })
    }

    /// Returns the values of the dictionary, if the column is a dictionary without nulls. A
    /// predicate can be evaluated once for each value instead of for each row
    /// ([`Column::rows_with`]).
    ///
    /// # Errors
    /// As [`Column::read`].
    pub fn distinct_values(&self) -> Result<Option<ArrayRef>, CompactError> {
        if self.valid.is_some() {
            return Ok(None);
        }
        guarded(|| match self.dictionary(&mut context())? {
            Some((_, values)) => self.as_typed(values).map(Some),
            None => Ok(None),
        })
    }

    /// Returns a bit for each row of a range, set if `wanted` is true for the row's value among
    /// [`Column::distinct_values`].
    ///
    /// # Errors
    /// As [`Column::read`], and if the column is not a dictionary.
    pub fn rows_with(
        &self,
        range: Range<usize>,
        wanted: &[bool],
    ) -> Result<BooleanBuffer, CompactError> {
        self.check(&range)?;
        guarded(|| {
            let mut context = context();
            let Some((codes, _)) = self.dictionary(&mut context)? else {
                return Err(CompactError::damaged("it is no dictionary"));
            };
            codes_of(&chosen(&codes, &Rows::All(range))?, &mut context)?.are_in(wanted)
        })
    }

    /// Returns the codes of all rows and the decoded values, if the column is a dictionary.
    fn dictionary(
        &self,
        context: &mut ExecutionCtx,
    ) -> Result<Option<(vortex_array::ArrayRef, &ArrayRef)>, CompactError> {
        let Some(tree) = self.tree.as_opt::<Dict>() else { return Ok(None) };
        let codes = tree.codes().clone();
        if let Some(values) = self.dictionary.get() {
            return Ok(Some((codes, values)));
        }
        let values = tree.values().clone().execute::<Canonical>(context)?;
        // Copies the text: rows that share the body's text would keep the page in memory.
        let values = unshared(&self.to_arrow(values, None)?);
        Ok(Some((codes, self.dictionary.get_or_init(|| values))))
    }

    fn check(&self, range: &Range<usize>) -> Result<(), CompactError> {
        match range.start <= range.end && range.end <= self.rows {
            true => Ok(()),
            false => Err(CompactError::damaged(format!("rows {range:?} of {}", self.rows))),
        }
    }

    /// Returns the validity bits of the rows, or `None` if none of them is null.
    fn nulls(&self, rows: &Rows) -> Result<Option<NullBuffer>, CompactError> {
        let (Rows::All(range) | Rows::Selected(range, _)) = rows;
        self.check(range)?;
        if let Rows::Selected(_, bits) = rows
            && bits.len() != range.len()
        {
            return Err(CompactError::damaged(format!("{} bits for {range:?}", bits.len())));
        }
        let Some(valid) = &self.valid else { return Ok(None) };
        // Copies only these bits, so that the decoded rows do not keep the page in memory.
        let bytes = valid.get(range.start / 8..range.end.div_ceil(8));
        let bytes = bytes.ok_or_else(|| CompactError::damaged("its bits are not all there"))?;
        let bits = BooleanBuffer::new(Buffer::from(bytes), range.start % 8, range.len());
        let bits = match rows {
            Rows::All(_) => bits,
            Rows::Selected(_, selected) => {
                let selected = arrow_array::BooleanArray::new(selected.clone(), None);
                let bits = filter(&arrow_array::BooleanArray::new(bits, None), &selected)?;
                let bits = arrow_array::cast::AsArray::as_boolean(&bits);
                bits.values().clone()
            }
        };
        Ok(Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0))
    }

    /// Converts decoded values to the closest Arrow array; text becomes an array of views.
    fn to_arrow(
        &self,
        decoded: Canonical,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, CompactError> {
        let (data_type, len, buffers) = match decoded {
            Canonical::Primitive(values) => {
                let len = values.len();
                let data_type = match self.storage {
                    Storage::Text | Storage::Bytes => return Err(self.other("numbers")),
                    _ => self.data_type.clone(),
                };
                (data_type, len, vec![self.words(&values)?])
            }
            Canonical::VarBinView(values) => {
                let len = values.len();
                let data_type = match self.storage {
                    Storage::Text => DataType::Utf8View,
                    Storage::Bytes => DataType::BinaryView,
                    _ => return Err(self.other("text")),
                };
                let parts = values.into_data_parts();
                let views = parts.views.try_into_host_sync()?.into_arrow_buffer();
                let mut buffers = vec![views];
                for buffer in parts.buffers.iter() {
                    buffers.push(buffer.try_to_host_sync()?.into_arrow_buffer());
                }
                (data_type, len, buffers)
            }
            _ => return Err(self.other("something else")),
        };
        if nulls.as_ref().is_some_and(|nulls| nulls.len() != len) {
            return Err(CompactError::damaged("its nulls are not as many as its values"));
        }
        let builder = ArrayData::builder(data_type).len(len).buffers(buffers).nulls(nulls);
        // SAFETY: numbers have one word of the type's width per row, which `words` has checked.
        // Views were built by the decoder over the bytes it decoded, or are those that were
        // encoded; both are in bounds. Text is valid UTF-8 if the body is intact, which its owner
        // guarantees: it was an array of text when it was encoded.
        Ok(make_array(unsafe { builder.build_unchecked() }))
    }

    /// Returns the words of decoded numbers, widened to the width of the Arrow type.
    fn words(&self, values: &PrimitiveArray) -> Result<Buffer, CompactError> {
        let words = values.buffer_handle().try_to_host_sync()?.into_arrow_buffer();
        let len = values.len();
        let wide: Buffer = match (self.storage, values.ptype()) {
            (Storage::Narrow32, PType::I32) => {
                Buffer::from_vec(words.typed_data::<i32>().iter().map(|v| i128::from(*v)).collect())
            }
            (Storage::Narrow64, PType::I64) => {
                Buffer::from_vec(words.typed_data::<i64>().iter().map(|v| i128::from(*v)).collect())
            }
            (Storage::Narrow32 | Storage::Narrow64, _) => return Err(self.other("other numbers")),
            _ => words,
        };
        let width = self.data_type.primitive_width().unwrap_or(0);
        match wide.len() == len * width {
            true => Ok(wide),
            false => Err(self.other("words of another width")),
        }
    }

    /// Casts the array to the column's type; text whose type has no views is copied.
    fn as_typed(&self, array: &ArrayRef) -> Result<ArrayRef, CompactError> {
        match array.data_type() == &self.data_type {
            true => Ok(Arc::clone(array)),
            false => Ok(cast(array, &self.data_type)?),
        }
    }

    fn other(&self, found: &str) -> CompactError {
        CompactError::damaged(format!("it holds {found} where {} was encoded", self.data_type))
    }
}

/// Returns the selected rows of a tree, still encoded.
fn chosen(
    tree: &vortex_array::ArrayRef,
    rows: &Rows,
) -> Result<vortex_array::ArrayRef, CompactError> {
    Ok(match rows {
        Rows::All(range) => tree.slice(range.clone())?,
        Rows::Selected(range, bits) => {
            let bits = vortex_buffer::BitBuffer::from(bits.clone());
            tree.slice(range.clone())?.filter(Mask::from_buffer(bits))?
        }
    })
}

fn codes_of(
    codes: &vortex_array::ArrayRef,
    context: &mut ExecutionCtx,
) -> Result<Codes, CompactError> {
    let codes = codes.clone().execute::<PrimitiveArray>(context)?;
    let words = codes.buffer_handle().try_to_host_sync()?.into_arrow_buffer();
    match codes.ptype() {
        PType::U8 => Ok(Codes::U8(words)),
        PType::U16 => Ok(Codes::U16(words)),
        PType::U32 => Ok(Codes::U32(words)),
        PType::U64 => Ok(Codes::U64(words)),
        other => Err(CompactError::damaged(format!("codes of type {other}"))),
    }
}

/// A parsed description.
struct Description<'a> {
    storage: Storage,
    has_nulls: bool,
    ids: Vec<Id>,
    tree: &'a [u8],
}

impl<'a> Description<'a> {
    fn read(bytes: &'a [u8], data_type: &DataType) -> Result<Self, CompactError> {
        let short = || CompactError::damaged("its description ends early");
        let Some((head, mut rest)) = bytes.split_first_chunk::<DESCRIPTION_BYTES>() else {
            return Err(short());
        };
        let [storage, has_nulls, ids_low, ids_high, tree @ ..] = *head;
        let storage = Storage::from_code(storage, data_type)?;
        let mut ids = Vec::new();
        for _ in 0..u16::from_le_bytes([ids_low, ids_high]) {
            let (len, after) = rest.split_first().ok_or_else(short)?;
            let (id, after) = after.split_at_checked(usize::from(*len)).ok_or_else(short)?;
            let id = std::str::from_utf8(id);
            ids.push(Id::new(id.map_err(|_| CompactError::damaged("a name that is no text"))?));
            rest = after;
        }
        let tree_bytes = usize::try_from(u32::from_le_bytes(tree)).map_err(|_| short())?;
        let tree = rest.get(..tree_bytes).ok_or_else(short)?;
        Ok(Self { storage, has_nulls: has_nulls != 0, ids, tree })
    }
}

//! Encodes a column into a description of its tree of encodings, the tree's buffers, and a bitmap.

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteViewType, Decimal128Type};
use arrow_array::{Array, ArrayRef, GenericByteViewArray};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::concat::concat;
use vortex_array::arrays::{PrimitiveArray, VarBinViewArray};
use vortex_array::buffer::BufferHandle;
use vortex_array::serde::SerializeOptions;
use vortex_array::validity::Validity;
use vortex_array::{ArrayContext, IntoArray};
use vortex_buffer::{Alignment, ByteBuffer};

use crate::CompactError;
use crate::error::guarded;
use crate::library::{COMPRESSOR, SESSION, context};
use crate::storage::Storage;

/// Alignment of a body that is read in place, without copying.
pub const BODY_ALIGNMENT: usize = 256;

/// Length of the head of a description: storage, null flag, number of encodings, length of the
/// tree.
pub(crate) const DESCRIPTION_BYTES: usize = 8;

/// An encoded column, ready to be written.
pub struct Encoded {
    description: Vec<u8>,
    buffers: Vec<ByteBuffer>,
    nulls: Option<Buffer>,
}

impl Encoded {
    /// Returns the description, which [`Column::open`](crate::Column::open) takes with the body.
    #[must_use]
    pub fn description(&self) -> &[u8] {
        &self.description
    }

    /// Returns the length of the body in bytes.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        let nulls = self.nulls.as_ref().map_or(0, Buffer::len);
        nulls + self.buffers.iter().map(ByteBuffer::len).sum::<usize>()
    }

    /// Writes the body to `out`, which has exactly its length: the buffers of the tree, then the
    /// validity bitmap.
    pub fn write_body(&self, out: &mut [u8]) {
        let nulls = self.nulls.as_ref().map(Buffer::as_slice);
        let pieces = self.buffers.iter().map(ByteBuffer::as_slice).chain(nulls);
        let mut at = 0;
        for piece in pieces {
            out[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
    }
}

/// Encodes the rows of `pieces`, which are of one type, as one column. Returns `None` if the type
/// is not encoded or no encoding makes the values smaller.
///
/// # Errors
/// [`CompactError`] if the encodings refuse the values.
pub fn encode(pieces: &[&dyn Array]) -> Result<Option<Encoded>, CompactError> {
    let Some(storage) = pieces.first().and_then(|piece| Storage::of(piece.data_type())) else {
        return Ok(None);
    };
    // Text with 32-bit offsets may exceed them when concatenated.
    let Ok(whole) = concat(pieces) else { return Ok(None) };
    let nulls = whole.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
    let Some((storage, values)) = values(&whole, storage, nulls.as_ref())? else {
        return Ok(None);
    };
    let ids = ArrayContext::empty();
    let buffers = guarded(|| {
        let tree = COMPRESSOR.compress(&values, &mut context())?;
        if tree.is_canonical() {
            return Ok(None);
        }
        let options = SerializeOptions { offset: 0, include_padding: true };
        Ok(Some(tree.serialize(&ids, &SESSION, &options)?))
    })?;
    let Some(mut buffers) = buffers else { return Ok(None) };
    // The serialized form ends with the tree and its length.
    buffers.pop();
    let Some(tree) = buffers.pop() else {
        return Err(CompactError::damaged("a tree of encodings without bytes"));
    };
    let ids: Vec<String> = ids.to_ids().iter().map(|id| id.as_str().to_owned()).collect();
    let description = describe(storage, nulls.is_some(), &ids, &tree)?;
    let nulls = nulls.map(|nulls| nulls.inner().sliced());
    Ok(Some(Encoded { description, buffers, nulls }))
}

/// Builds a description: storage, null flag, number of encodings, length of the tree; then the
/// names of the encodings; then the tree.
fn describe(
    storage: Storage,
    has_nulls: bool,
    ids: &[String],
    tree: &[u8],
) -> Result<Vec<u8>, CompactError> {
    let too_long = |_| CompactError::damaged("a description that is too long");
    let mut out = vec![storage.code(), u8::from(has_nulls)];
    out.extend(u16::try_from(ids.len()).map_err(too_long)?.to_le_bytes());
    out.extend(u32::try_from(tree.len()).map_err(too_long)?.to_le_bytes());
    for id in ids {
        out.push(u8::try_from(id.len()).map_err(too_long)?);
        out.extend(id.as_bytes());
    }
    out.extend(tree);
    Ok(out)
}

/// Converts values to the library's arrays. Null rows get values that add little to the encoding.
fn values(
    array: &ArrayRef,
    storage: Storage,
    nulls: Option<&NullBuffer>,
) -> Result<Option<(Storage, vortex_array::ArrayRef)>, CompactError> {
    Ok(Some(match storage {
        Storage::Text | Storage::Bytes => {
            let views = match storage {
                Storage::Text => cast(array, &DataType::Utf8View)?,
                _ => cast(array, &DataType::BinaryView)?,
            };
            let values = match storage {
                Storage::Text => of_views(views.as_string_view(), storage, nulls)?,
                _ => of_views(views.as_binary_view(), storage, nulls)?,
            };
            (storage, values)
        }
        Storage::Narrow32 | Storage::Narrow64 => {
            let values = array.as_primitive::<Decimal128Type>().values();
            match narrowed(values, nulls) {
                Some(narrowed) => narrowed,
                None => return Ok(None),
            }
        }
        _ => (storage, of_words(array, storage, nulls)),
    }))
}

fn of_words(
    array: &ArrayRef,
    storage: Storage,
    nulls: Option<&NullBuffer>,
) -> vortex_array::ArrayRef {
    let data = array.to_data();
    let len = data.len();
    macro_rules! filled {
        ($native:ty) => {{
            let values = &data.buffers()[0].typed_data::<$native>()[data.offset()..][..len];
            primitive(fill(values.to_vec(), nulls))
        }};
    }
    match storage {
        Storage::I8 => filled!(i8),
        Storage::I16 => filled!(i16),
        Storage::I64 | Storage::Narrow64 => filled!(i64),
        Storage::U8 | Storage::Bytes | Storage::Text => filled!(u8),
        Storage::U16 => filled!(u16),
        Storage::U32 => filled!(u32),
        Storage::U64 => filled!(u64),
        Storage::F32 => filled!(f32),
        Storage::F64 => filled!(f64),
        Storage::I32 | Storage::Narrow32 => filled!(i32),
    }
}

fn primitive<T: vortex_array::dtype::NativePType>(values: Vec<T>) -> vortex_array::ArrayRef {
    let values: vortex_buffer::Buffer<T> = values.into_iter().collect();
    PrimitiveArray::new(values, Validity::NonNullable).into_array()
}

/// Replaces every null by the previous value, leading nulls by the first value.
fn fill<T: ArrowNativeType>(mut values: Vec<T>, nulls: Option<&NullBuffer>) -> Vec<T> {
    let Some(nulls) = nulls else { return values };
    let first = nulls.valid_indices().next();
    let mut last = first.map_or_else(T::default, |row| values[row]);
    for (value, valid) in values.iter_mut().zip(nulls.iter()) {
        match valid {
            true => last = *value,
            false => *value = last,
        }
    }
    values
}

/// Narrows decimals to 32 or 64 bits. Returns `None` if 64 bits are too few.
fn narrowed(
    values: &[i128],
    nulls: Option<&NullBuffer>,
) -> Option<(Storage, vortex_array::ArrayRef)> {
    let values = fill(values.to_vec(), nulls);
    let range = values
        .iter()
        .fold((0, 0), |(min, max), value| (value.min(&min).to_owned(), *value.max(&max)));
    let (min, max): (i128, i128) = range;
    if i32::try_from(min).is_ok() && i32::try_from(max).is_ok() {
        #[expect(clippy::cast_possible_truncation, reason = "all of them fit")]
        let narrow = values.iter().map(|value| *value as i32).collect();
        return Some((Storage::Narrow32, primitive(narrow)));
    }
    if i64::try_from(min).is_ok() && i64::try_from(max).is_ok() {
        #[expect(clippy::cast_possible_truncation, reason = "all of them fit")]
        let narrow: Vec<i64> = values.iter().map(|value| *value as i64).collect();
        return Some((Storage::Narrow64, primitive(narrow)));
    }
    None
}

fn of_views<T: ByteViewType>(
    array: &GenericByteViewArray<T>,
    storage: Storage,
    nulls: Option<&NullBuffer>,
) -> Result<vortex_array::ArrayRef, CompactError> {
    let mut views: Vec<u128> = array.views().to_vec();
    if let Some(nulls) = nulls {
        let rows = views.iter_mut().zip(nulls.iter());
        rows.filter(|(_, valid)| !valid).for_each(|(view, _)| *view = 0);
    }
    let handle = |buffer: Buffer, alignment| {
        BufferHandle::new_host(ByteBuffer::from_arrow_buffer(buffer, alignment))
    };
    let buffers = array.data_buffers().iter().cloned();
    let buffers = buffers.map(|buffer| handle(buffer, Alignment::none()));
    let views = handle(Buffer::from_vec(views), Alignment::of::<u128>());
    let array = VarBinViewArray::new_handle(
        views,
        buffers.collect(),
        storage.dtype(),
        Validity::NonNullable,
    );
    Ok(array.into_array())
}

//! Lookup of dictionary values by their codes.

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer};
use arrow_data::ArrayData;

use crate::CompactError;

/// Maximum bytes of dictionary text that decoded rows share; longer text is copied. A few rows
/// would otherwise keep a long dictionary in memory, and their query would be charged for all of
/// it.
const SHARED_BYTES: usize = 64 << 10;

/// Codes of rows in a dictionary.
pub(crate) enum Codes {
    U8(Buffer),
    U16(Buffer),
    U32(Buffer),
    U64(Buffer),
}

macro_rules! by_width {
    ($codes:expr, $buffer:ident => $typed:ident, $work:expr) => {
        match $codes {
            Codes::U8($buffer) => {
                let $typed = $buffer.typed_data::<u8>();
                $work
            }
            Codes::U16($buffer) => {
                let $typed = $buffer.typed_data::<u16>();
                $work
            }
            Codes::U32($buffer) => {
                let $typed = $buffer.typed_data::<u32>();
                $work
            }
            Codes::U64($buffer) => {
                let $typed = $buffer.typed_data::<u64>();
                $work
            }
        }
    };
}

impl Codes {
    /// Returns a bit for each row, set if `wanted` is true for its code.
    pub(crate) fn are_in(
        &self,
        wanted: &[bool],
    ) -> Result<arrow_buffer::BooleanBuffer, CompactError> {
        by_width!(self, buffer => codes, {
            check(codes, wanted.len())?;
            let is_in = |row: usize| wanted[codes[row].as_usize()];
            Ok(arrow_buffer::BooleanBuffer::collect_bool(codes.len(), is_in))
        })
    }
}

/// Returns the values with these codes, from a dictionary of fixed-width values or of views.
pub(crate) fn gather(
    values: &ArrayRef,
    codes: &Codes,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, CompactError> {
    let data = values.to_data();
    let rows = by_width!(codes, buffer => codes, codes.len());
    let Some(words) = data.buffers().first() else {
        return Err(CompactError::damaged("a dictionary without values"));
    };
    let width = match data.data_type().primitive_width() {
        Some(width) => width,
        None => size_of::<u128>(),
    };
    let gathered = match width {
        1 => lookup::<u8>(words, &data, codes),
        2 => lookup::<u16>(words, &data, codes),
        4 => lookup::<u32>(words, &data, codes),
        8 => lookup::<u64>(words, &data, codes),
        _ => lookup::<u128>(words, &data, codes),
    }?;
    let mut buffers = data.buffers().to_vec();
    buffers[0] = gathered;
    let shared: usize = buffers[1..].iter().map(Buffer::len).sum();
    let builder = ArrayData::builder(data.data_type().clone()).len(rows);
    let builder = builder.buffers(buffers).nulls(nulls);
    // SAFETY: the first buffer has, for each row, one value or view of a valid array of the same
    // type; the other buffers are those of that array, to which its views point. There are as many
    // null bits as rows.
    let gathered = make_array(unsafe { builder.build_unchecked() });
    Ok(if shared > SHARED_BYTES { unshared(&gathered) } else { gathered })
}

fn lookup<V: ArrowNativeType>(
    words: &Buffer,
    data: &ArrayData,
    codes: &Codes,
) -> Result<Buffer, CompactError> {
    let values = &words.typed_data::<V>()[data.offset()..][..data.len()];
    by_width!(codes, buffer => codes, {
        check(codes, values.len())?;
        let gathered: Vec<V> = codes.iter().map(|code| values[code.as_usize()]).collect();
        Ok(Buffer::from_vec(gathered))
    })
}

fn check<C: ArrowNativeType + Ord>(codes: &[C], values: usize) -> Result<(), CompactError> {
    match codes.iter().max() {
        Some(most) if most.as_usize() >= values => {
            Err(CompactError::damaged(format!("code {most:?} of {values} values")))
        }
        _ => Ok(()),
    }
}

/// Copies text into its own buffers; returns other arrays as they are.
pub(crate) fn unshared(array: &ArrayRef) -> ArrayRef {
    use arrow_array::cast::AsArray;
    use std::sync::Arc;
    match array.data_type() {
        arrow_schema::DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        arrow_schema::DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => Arc::clone(array),
    }
}

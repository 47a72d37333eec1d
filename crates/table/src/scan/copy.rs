//! Deep copies of arrays, which share no buffer with the original.

use datafusion::arrow::array::{ArrayData, ArrayRef, make_array};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};

/// Copies every buffer of an array, including those of children and dictionaries.
///
/// Kernels that "copy" an array keep some parts by reference (dictionaries, the data of string
/// views), which would keep the page pinned that the copy is meant to release. Blocks of segments
/// hold only what their rows use, so a plain copy of the buffers is also the smallest.
pub(super) fn copy(array: &ArrayRef) -> ArrayRef {
    make_array(copy_data(&array.to_data()))
}

fn copy_data(data: &ArrayData) -> ArrayData {
    let buffers = data.buffers().iter().map(|buffer| Buffer::from(buffer.as_slice())).collect();
    let children = data.child_data().iter().map(copy_data).collect();
    let copied = data
        .clone()
        .into_builder()
        .nulls(data.nulls().map(copy_nulls))
        .buffers(buffers)
        .child_data(children);
    // SAFETY: the type, length, offset and children are those of a valid array, and every buffer
    // has the bytes of the buffer that it replaces.
    unsafe { copied.build_unchecked() }
}

fn copy_nulls(nulls: &NullBuffer) -> NullBuffer {
    let bits = Buffer::from(nulls.buffer().as_slice());
    NullBuffer::new(BooleanBuffer::new(bits, nulls.offset(), nulls.len()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{
        Array, BooleanArray, DictionaryArray, Int32Array, ListArray, StringArray, StringViewArray,
    };
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    fn addresses(data: &ArrayData) -> Vec<*const u8> {
        let own = data.buffers().iter().map(Buffer::as_ptr);
        let nulls = data.nulls().map(|nulls| nulls.buffer().as_ptr());
        own.chain(nulls).chain(data.child_data().iter().flat_map(addresses)).collect()
    }

    #[test]
    fn a_copy_is_equal_and_shares_no_buffer() {
        let words = ["a", "bb", "a string that is too long to be inlined in a view"];
        let lists = vec![Some(vec![Some(1), None]), None, Some(vec![Some(3)])];
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])),
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
            Arc::new(StringArray::from_iter_values(words)),
            Arc::new(StringViewArray::from_iter_values(words)),
            Arc::new(words.into_iter().collect::<DictionaryArray<Int32Type>>()),
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        ];
        for array in arrays {
            for array in [array.slice(0, 3), array.slice(1, 2)] {
                let copied = copy(&array);
                assert_eq!(&copied, &array);
                let (before, after) = (addresses(&array.to_data()), addresses(&copied.to_data()));
                assert!(before.iter().all(|address| !after.contains(address)), "{array:?}");
            }
        }
    }
}

//! Minimum, maximum and distinct values of string and binary views.
//!
//! A view contains the first four bytes of its value, and short values whole. So most values are
//! hashed and compared without reading their bytes.

use datafusion::arrow::array::{Array, GenericByteViewArray};
use datafusion::arrow::datatypes::ByteViewType;

use crate::sketch::{Sketch, hash_bytes, hash_view};

/// Maximum length of a value that is stored inside its view.
const INLINE_BYTES: usize = 12;

/// Adds every value to the sketch and returns the rows of the least and the greatest value.
pub(super) fn ordered_views<T: ByteViewType>(
    array: &GenericByteViewArray<T>,
    sketch: &mut Sketch,
) -> Option<(usize, usize)> {
    let mut range: Option<(Extreme<'_>, Extreme<'_>)> = None;
    let mut add = |row: usize| {
        let view = array.views()[row];
        let bytes: &[u8] = array.value(row).as_ref();
        sketch.add(match bytes.len() <= INLINE_BYTES {
            true => hash_view(view),
            false => hash_bytes(bytes),
        });
        let value = Extreme { row, view, bytes };
        let Some((least, greatest)) = &mut range else {
            range = Some((value, value));
            return;
        };
        if value.comes_before(least) {
            *least = value;
        } else if greatest.comes_before(&value) {
            *greatest = value;
        }
    };
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => (0..array.len()).for_each(add),
        Some(nulls) => nulls.valid_indices().for_each(&mut add),
    }
    range.map(|(least, greatest)| (least.row, greatest.row))
}

/// A candidate for the minimum or the maximum.
#[derive(Copy, Clone)]
struct Extreme<'a> {
    row: usize,
    view: u128,
    bytes: &'a [u8],
}

impl Extreme<'_> {
    #[inline]
    fn comes_before(&self, other: &Self) -> bool {
        let (mine, theirs) = (prefix(self.view), prefix(other.view));
        if mine != theirs {
            return mine < theirs;
        }
        // Equal views are equal values, which is common in columns with few distinct values.
        self.view != other.view && self.bytes < other.bytes
    }
}

/// Returns the first four bytes of a value as a number in the same order; shorter values are padded
/// with zeros.
#[inline]
fn prefix(view: u128) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the second field of a view")]
    let prefix = (view >> 32) as u32;
    prefix.swap_bytes()
}

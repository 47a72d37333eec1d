//! `string_split`: the parts of a text between separators.

use std::borrow::Cow;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use crate::scalar::{Call, Definition, Kind, Overload, Text, TextList};

pub(super) const FUNCTIONS: &[Definition] = &[Definition::new(
    "string_split",
    &[Overload::new(&[Kind::Text, Kind::Text], Kind::Texts, string_split)],
)
.alias(&["str_split", "split"])];

/// The parts of a text between separators: its characters if the separator is empty, and the text
/// itself without a separator.
fn string_split(call: &Call) -> Result<ArrayRef> {
    call.rows_of::<TextList>(|row| {
        let Some(text) = call.value::<Text>(0, row)? else { return Ok(None) };
        let part = |part| Some(Cow::Borrowed(part));
        Ok(Some(match call.value::<Text>(1, row)? {
            None => vec![part(text)],
            Some("") if text.is_empty() => vec![part(text)],
            Some("") => text.split_inclusive(|_: char| true).map(part).collect(),
            Some(separator) => text.split(separator).map(part).collect(),
        }))
    })
}

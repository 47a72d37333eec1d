//! Lists of texts as results.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::column::{Output, TextList, checked_bytes};

impl Output for TextList {
    type Value<'a> = Vec<Option<Cow<'a, str>>>;

    fn collect<'a>(
        values: impl Iterator<Item = Result<Option<Self::Value<'a>>>>,
        _: &DataType,
    ) -> Result<ArrayRef> {
        let mut lists = ListBuilder::new(StringBuilder::new());
        let mut bytes = 0;
        for value in values {
            let value = value?;
            for text in value.iter().flatten() {
                // One for the text itself, so that the number of texts is bounded as well.
                bytes = checked_bytes(bytes, text.as_ref().map_or(1, |text| text.len() + 1))?;
                lists.values().append_option(text.as_deref());
            }
            lists.append(value.is_some());
        }
        Ok(Arc::new(lists.finish()))
    }
}

//! Distinct elements of lists; nulls are left out, as in DuckDB.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, Int64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;

use super::elements::Lists;
use super::function::{Call, Definition};
use super::shape::{choose, list};
use crate::aggregates::canonical;

/// The functions of this file.
pub(super) fn functions() -> Vec<Definition> {
    vec![
        Definition {
            names: &["list_unique", "array_unique"],
            coerce: list,
            returns: |_| DataType::Int64,
            run: count,
        },
        Definition {
            names: &["array_distinct", "list_distinct"],
            coerce: list,
            returns: |given| given.first().cloned().unwrap_or(DataType::Null),
            run: distinct,
        },
    ]
}

/// Keys of the elements of lists, for comparisons.
struct Elements {
    keys: Rows,
    nulls: Option<NullBuffer>,
}

impl Elements {
    fn new(lists: &Lists) -> Result<Self> {
        let values = lists.values();
        let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
        let keys = converter.convert_columns(&[canonical(values)])?;
        Ok(Self { keys, nulls: values.logical_nulls() })
    }

    /// The indices of the distinct elements of a row, without nulls, at their first occurrences;
    /// `None` for a null list.
    fn first(&self, lists: &Lists, row: usize) -> Option<Vec<Option<usize>>> {
        let mut seen = HashSet::new();
        let is_valid = |at: &usize| self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*at));
        let valid = lists.range(row)?.filter(is_valid);
        Some(valid.filter(|at| seen.insert(self.keys.row(*at))).map(Some).collect())
    }
}

fn count(call: &Call) -> Result<ArrayRef> {
    let lists = Lists::new(&call.arguments[0])?;
    let elements = Elements::new(&lists)?;
    let count = |row| i64::try_from(elements.first(&lists, row)?.len()).ok();
    Ok(Arc::new((0..call.rows).map(count).collect::<Int64Array>()))
}

/// The different elements, in the order of their first occurrences.
fn distinct(call: &Call) -> Result<ArrayRef> {
    let elements = Elements::new(&Lists::new(&call.arguments[0])?)?;
    choose(call, |lists, row| Ok(elements.first(lists, row)))
}

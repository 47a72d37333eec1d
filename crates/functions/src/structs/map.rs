//! DuckDB's `map_from_entries(l)`: the map with the keys and values of a list of pairs.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::UInt64Array;
use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, MapArray, StructArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::aggregates::canonical;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct MapFromEntries {
    signature: Signature,
}

impl MapFromEntries {
    pub(super) fn function() -> Arc<ScalarUDF> {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Self { signature }))
    }
}

/// The type of the map of a list of pairs.
fn map_type(of: &DataType) -> Result<DataType> {
    if let DataType::List(entry) = of
        && let DataType::Struct(members) = entry.data_type()
        && let [key, value] = members.as_ref()
    {
        let entries = DataType::Struct(Fields::from(vec![
            Field::new("key", key.data_type().clone(), false),
            Field::new("value", value.data_type().clone(), true),
        ]));
        return Ok(DataType::Map(Arc::new(Field::new("entries", entries, false)), false));
    }
    plan_err!("map_from_entries takes a list of pairs, not {of}")
}

impl ScalarUDFImpl for MapFromEntries {
    fn name(&self) -> &str {
        "map_from_entries"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        map_type(given.first().unwrap_or(&DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let given = args.arg_fields.first().map_or(DataType::Null, |it| it.data_type().clone());
        Ok(Arc::new(Field::new(self.name(), map_type(&given)?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(list) = args.args.first() else {
            return exec_err!("map_from_entries takes a list");
        };
        let map = map_of(&list.to_array(args.number_rows)?, args.return_field.data_type())?;
        Ok(ColumnarValue::Array(map))
    }
}

fn map_of(array: &ArrayRef, of: &DataType) -> Result<ArrayRef> {
    let (Some(lists), DataType::Map(entries, _)) = (array.as_list_opt::<i32>(), of) else {
        return exec_err!("map_from_entries takes a list of pairs");
    };
    let pairs = lists.values().as_struct();
    let keys = pairs.column(0);
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
    let rows = converter.convert_columns(&[canonical(keys)])?;
    let (mut places, mut lengths) = (Vec::<u64>::new(), Vec::with_capacity(lists.len()));
    for row in 0..lists.len() {
        let mut seen = HashSet::new();
        let range = if lists.is_null(row) { 0..0 } else { range(lists.value_offsets(), row) };
        lengths.push(range.len());
        for place in range {
            if pairs.is_null(place) || keys.is_null(place) {
                return exec_err!("map_from_entries: the key of a map cannot be NULL");
            }
            if !seen.insert(rows.row(place)) {
                return exec_err!("map_from_entries: the keys of a map are different");
            }
            places.extend(u64::try_from(place));
        }
    }
    let entry = take(pairs, &UInt64Array::from(places), None)?;
    let DataType::Struct(fields) = entries.data_type() else {
        return exec_err!("map_from_entries returns a map");
    };
    let columns = entry.as_struct().columns().to_vec();
    let entry = StructArray::try_new(fields.clone(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = lists.nulls().cloned();
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, entry, nulls, false)?))
}

fn range(offsets: &[i32], row: usize) -> std::ops::Range<usize> {
    let place = |at: usize| offsets.get(at).and_then(|&at| usize::try_from(at).ok()).unwrap_or(0);
    place(row)..place(row + 1)
}

//! DuckDB's `map_extract(m, k)`: a list of the value of a key, empty without the key.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, MapArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::aggregates::canonical;
use crate::checked::rows;
use crate::lists::lists_at;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct MapExtract {
    signature: Signature,
    aliases: Vec<String>,
}

impl MapExtract {
    pub(super) fn function() -> Arc<ScalarUDF> {
        let signature = Signature::user_defined(Volatility::Immutable);
        let aliases = vec!["element_at".to_owned()];
        Arc::new(ScalarUDF::new_from_impl(Self { signature, aliases }))
    }
}

/// The types of the keys and of the values of a map.
fn entry_types(of: &DataType) -> Option<(DataType, DataType)> {
    let DataType::Map(entry, _) = of else { return None };
    let DataType::Struct(members) = entry.data_type() else { return None };
    let [key, value] = members.as_ref() else { return None };
    Some((key.data_type().clone(), value.data_type().clone()))
}

impl ScalarUDFImpl for MapExtract {
    fn name(&self) -> &str {
        "map_extract"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [map, key] => {
                Ok(vec![map.clone(), entry_types(map).map_or_else(|| key.clone(), |(key, _)| key)])
            }
            _ => Ok(given.to_vec()),
        }
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match given {
            [map, _] if map.is_null() => Ok(DataType::Null),
            [map, _] => match entry_types(map) {
                Some((_, value)) => Ok(DataType::new_list(value, true)),
                None => plan_err!("map_extract takes a map and a key, not {map}"),
            },
            _ => plan_err!("map_extract takes a map and a key"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = rows(&args);
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let [map, key] = args.args.as_slice() else {
            return exec_err!("map_extract takes a map and a key");
        };
        let (map, key) = (map.to_array(rows)?, key.to_array(rows)?);
        let values = match map.as_map_opt() {
            Some(maps) => extracted(maps, &key)?,
            None => return Ok(ColumnarValue::Array(map)),
        };
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}

/// The values of the key of each row; null for a null map, and no value for a null key, as in
/// DuckDB.
fn extracted(maps: &MapArray, keys: &ArrayRef) -> Result<ArrayRef> {
    let converter = RowConverter::new(vec![SortField::new(maps.key_type().clone())])?;
    let entries = converter.convert_columns(&[canonical(maps.keys())])?;
    let wanted = converter.convert_columns(&[canonical(keys)])?;
    let offset = |at: usize| {
        let offset = maps.value_offsets().get(at).copied();
        offset.and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0)
    };
    let places = (0..maps.len()).map(|row| {
        if maps.is_null(row) {
            return None;
        }
        let mut places = offset(row)..offset(row + 1);
        let found = places.find(|at| entries.row(*at) == wanted.row(row));
        Some(found.map(Some).into_iter().collect())
    });
    let places: Vec<Option<Vec<Option<usize>>>> = places.collect();
    let field: FieldRef = Arc::new(Field::new_list_field(maps.value_type().clone(), true));
    lists_at(&field, &places, maps.values())
}

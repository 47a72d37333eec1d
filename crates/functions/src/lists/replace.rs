//! PostgreSQL's `array_remove` and `array_replace`, which change all equal elements. NULL equals
//! NULL.

use datafusion::arrow::array::{Array as _, ArrayRef};
use datafusion::arrow::compute::{cast, concat};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;

use super::elements::{Lists, element_field, list_type, lists_at};
use super::function::{Call, Definition};
use crate::aggregates::canonical;

/// The functions of this file.
pub(super) fn functions() -> Vec<Definition> {
    let same = |given: &[DataType]| given.first().cloned().unwrap_or(DataType::Null);
    vec![
        Definition {
            names: &["array_remove", "list_remove"],
            coerce: |name, given| coerce(name, given, 1),
            returns: same,
            run: remove,
        },
        Definition {
            names: &["array_replace", "list_replace"],
            coerce: |name, given| coerce(name, given, 2),
            returns: same,
            run: replace,
        },
    ]
}

/// A list and values of the type of its elements.
fn coerce(name: &str, given: &[DataType], values: usize) -> Result<Vec<DataType>> {
    let list = given.first().and_then(list_type);
    let Some((list, true)) = list.map(|list| (list, given.len() == values + 1)) else {
        let plural = if values == 1 { "" } else { "s" };
        return plan_err!("{name} takes a list and {values} value{plural}");
    };
    let element = element_field(&list).map_or(DataType::Null, |field| field.data_type().clone());
    let all: Vec<_> = std::iter::once(element).chain(given.iter().skip(1).cloned()).collect();
    match type_union_resolution(&all) {
        Some(common) => {
            let list = DataType::new_list(common.clone(), true);
            Ok(std::iter::once(list).chain((0..values).map(|_| common.clone())).collect())
        }
        None => plan_err!("{name}: the list has elements of {}, not {}", all[0], all[1]),
    }
}

/// Keys by which elements and values are compared.
fn keys(lists: &Lists, values: &ArrayRef) -> Result<(Rows, Rows)> {
    let of = lists.values().data_type().clone();
    let converter = RowConverter::new(vec![SortField::new(of.clone())])?;
    let elements = converter.convert_columns(&[canonical(lists.values())])?;
    let values = converter.convert_columns(&[canonical(&cast(values, &of)?)])?;
    Ok((elements, values))
}

fn remove(call: &Call) -> Result<ArrayRef> {
    let lists = Lists::new(&call.arguments[0])?;
    let (elements, values) = keys(&lists, &call.arguments[1])?;
    let Some(field) = element_field(&call.output) else {
        return exec_err!("{} returns lists", call.name);
    };
    let kept = |row| {
        let places = lists.range(row)?;
        let kept = places.filter(|&place| elements.row(place) != values.row(row));
        Some(kept.map(Some).collect())
    };
    lists_at(field, &(0..call.rows).map(kept).collect::<Vec<_>>(), lists.values())
}

fn replace(call: &Call) -> Result<ArrayRef> {
    let lists = Lists::new(&call.arguments[0])?;
    let (elements, values) = keys(&lists, &call.arguments[1])?;
    let Some(field) = element_field(&call.output) else {
        return exec_err!("{} returns lists", call.name);
    };
    let old = lists.values();
    let all = concat(&[old.as_ref(), cast(&call.arguments[2], old.data_type())?.as_ref()])?;
    let changed = |row| {
        let places = lists.range(row)?;
        let place = |place| match elements.row(place) == values.row(row) {
            true => Some(old.len() + row),
            false => Some(place),
        };
        Some(places.map(place).collect())
    };
    lists_at(field, &(0..call.rows).map(changed).collect::<Vec<_>>(), &all)
}

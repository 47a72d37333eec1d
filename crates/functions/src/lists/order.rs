//! DuckDB's functions that sort lists: nulls are last unless told otherwise.

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, Int64Array};
use datafusion::arrow::compute::{SortOptions, cast};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, exec_err, plan_err};

use super::elements::{Lists, element_field, list_type, lists_at, lists_of};
use super::function::{Call, Definition};

/// The functions of this file.
pub(super) fn functions() -> Vec<Definition> {
    let same = |given: &[DataType]| given.first().cloned().unwrap_or(DataType::Null);
    vec![
        Definition {
            names: &["list_sort", "array_sort"],
            coerce,
            returns: same,
            run: |call| sort(call, false),
        },
        Definition {
            names: &["list_reverse_sort", "array_reverse_sort"],
            coerce,
            returns: same,
            run: |call| sort(call, true),
        },
        Definition {
            names: &["list_grade_up", "array_grade_up", "grade_up"],
            coerce,
            returns: |_| DataType::new_list(DataType::Int64, true),
            run: grade_up,
        },
    ]
}

fn coerce(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [list, options @ ..] if options.len() <= 2 => {
            let Some(list) = list_type(list) else {
                return plan_err!("{name} sorts a list, not {list}");
            };
            let options = options.iter().map(|_| DataType::Utf8);
            Ok(std::iter::once(list).chain(options).collect())
        }
        _ => plan_err!("{name} takes a list, and optionally 'DESC' and 'NULLS FIRST'"),
    }
}

/// An option of a call, which is the same in all rows.
fn option(call: &Call, at: usize) -> Option<String> {
    let option = call.arguments.get(at)?.as_string_opt::<i32>()?;
    (!option.is_empty() && option.is_valid(0)).then(|| option.value(0).to_ascii_uppercase())
}

/// The sort options in the arguments from `at` on, the order and the place of nulls, with
/// `descending` as default.
fn options(call: &Call, at: usize, descending: bool) -> Result<SortOptions> {
    let mut options = SortOptions { descending, nulls_first: false };
    for at in at..call.arguments.len() {
        match option(call, at).as_deref() {
            Some("ASC" | "ASCENDING") => options.descending = false,
            Some("DESC" | "DESCENDING") => options.descending = true,
            Some("NULLS FIRST") => options.nulls_first = true,
            Some("NULLS LAST") => options.nulls_first = false,
            other => {
                return exec_err!(
                    "{}: {:?} is no order: give 'ASC', 'DESC', 'NULLS FIRST' or 'NULLS LAST'",
                    call.name,
                    other.unwrap_or("NULL")
                );
            }
        }
    }
    Ok(options)
}

/// The indices of the elements of each list in sorted order; `None` for a null list.
fn orders(lists: &Lists, options: SortOptions) -> Result<Vec<Option<Vec<Option<usize>>>>> {
    let field = SortField::new_with_options(lists.values().data_type().clone(), options);
    let converter = RowConverter::new(vec![field])?;
    let keys = converter.convert_columns(&[ArrayRef::clone(lists.values())])?;
    let order = |row| {
        let mut places: Vec<usize> = lists.range(row)?.collect();
        places.sort_by(|&left, &right| keys.row(left).cmp(&keys.row(right)));
        Some(places.into_iter().map(Some).collect())
    };
    Ok((0..lists.rows()).map(order).collect())
}

fn sort(call: &Call, reverse: bool) -> Result<ArrayRef> {
    let lists = Lists::new(&call.arguments[0])?;
    let options = options(call, 1, reverse)?;
    let Some(field) = element_field(&call.output) else {
        return exec_err!("{} returns lists", call.name);
    };
    lists_at(field, &orders(&lists, options)?, lists.values())
}

/// `list_grade_up`: the positions, from 1, of the elements in sorted order.
fn grade_up(call: &Call) -> Result<ArrayRef> {
    let lists = Lists::new(&call.arguments[0])?;
    let orders = orders(&lists, options(call, 1, false)?)?;
    let Some(field) = element_field(&call.output) else {
        return exec_err!("{} returns lists", call.name);
    };
    let mut positions = Vec::new();
    for (row, order) in orders.iter().enumerate() {
        let begin = lists.range(row).map_or(0, |range| range.start);
        let places = order.iter().flatten().flatten();
        positions.extend(places.map(|place| i64::try_from(place + 1 - begin).unwrap_or(0)));
    }
    let lengths = orders.iter().map(|order| order.as_ref().map_or(0, Vec::len));
    let positions = cast(&Int64Array::from(positions), field.data_type())?;
    lists_of(field, lengths, positions, lists.nulls())
}

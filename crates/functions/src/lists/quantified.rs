//! Comparisons of a value with the elements of a list: `x = ANY(l)` is `compare_any(l, x, '=')`,
//! `x < ALL(l)` is `compare_all(l, x, '<')`.
//!
//! A comparison with null is unknown, and so is the result unless another element decides it. With
//! an empty list ANY is false and ALL is true, also for null.

use std::cmp::Ordering;
use std::mem;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, BooleanArray, make_comparator};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, in_list, lit};

use super::elements::{Lists, element_field, list_type};
use crate::adapter::{Scalar, function};
use crate::aggregates::canonical;
use crate::columns::durations;

/// The name of the function of ANY.
pub const ANY: &str = "compare_any";
/// The name of the function of ALL.
pub const ALL: &str = "compare_all";

/// Returns the functions.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![function(Quantified { is_any: true }), function(Quantified { is_any: false })]
}

/// A function of a list, a value, and the text of an operator.
#[derive(Debug)]
struct Quantified {
    is_any: bool,
}

/// The orders of two values for which an operator holds.
fn operator(text: &str) -> Option<fn(Ordering) -> bool> {
    Some(match text {
        "=" => Ordering::is_eq,
        "<>" => Ordering::is_ne,
        "<" => Ordering::is_lt,
        "<=" => Ordering::is_le,
        ">" => Ordering::is_gt,
        ">=" => Ordering::is_ge,
        _ => return None,
    })
}

impl Scalar for Quantified {
    fn name(&self) -> &'static str {
        if self.is_any { ANY } else { ALL }
    }

    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    fn coerce(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let [list, value, _] = given else {
            return plan_err!("{} takes a list, a value and an operator", self.name());
        };
        let of = list_type(list);
        let Some(element) = of.as_ref().and_then(element_field).map(|field| field.data_type())
        else {
            return plan_err!("{list} is no list; say ANY(ARRAY[...]), or cast it to a list");
        };
        let common = match (element.is_null(), value.is_null()) {
            (true, _) => Some(value.clone()),
            (_, true) => Some(element.clone()),
            _ => comparison_coercion(value, element),
        };
        match common {
            Some(common) => {
                Ok(vec![DataType::new_list(common.clone(), true), common, DataType::Utf8])
            }
            None => plan_err!("{value} cannot be compared with elements of {list}; cast one"),
        }
    }

    fn field(&self, given: &[DataType], constants: &[Option<&ScalarValue>]) -> Result<Field> {
        // A literal becomes a list once the types of columns are known.
        let is_literal = constants.first().is_some_and(|constant| constant.is_some());
        if !(is_literal && given.first().is_some_and(|list| list.is_string())) {
            self.coerce(given)?;
        }
        Ok(Field::new(self.name(), DataType::Boolean, true))
    }

    /// Simplifies `= ANY` and `<> ALL` of constants to IN and NOT IN, which scans evaluate.
    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [list, value, Expr::Literal(operator, _)] = args.as_mut_slice() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let is_membership = match operator.try_as_str().flatten() {
            Some("=") => self.is_any,
            Some("<>") => !self.is_any,
            _ => false,
        };
        let has_equal_values = |of: &DataType| {
            !of.is_floating() && !of.is_nested() && !of.is_null() && !is_interval(of)
        };
        if !is_membership || !info.get_data_type(value).is_ok_and(|of| has_equal_values(&of)) {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let members = match list {
            Expr::Literal(list, _) if list.is_null() => {
                let unknown = lit(ScalarValue::Boolean(None));
                return Ok(ExprSimplifyResult::Simplified(unknown));
            }
            Expr::Literal(list @ ScalarValue::List(_), _) => {
                let rows = ScalarValue::convert_array_to_scalar_vec(&*list.to_array()?)?;
                rows.into_iter().flatten().flatten().map(lit).collect::<Vec<_>>()
            }
            Expr::ScalarFunction(call) if call.name() == "make_array" => mem::take(&mut call.args),
            _ => return Ok(ExprSimplifyResult::Original(args)),
        };
        Ok(ExprSimplifyResult::Simplified(match members.is_empty() {
            true => lit(!self.is_any),
            false => in_list(mem::take(value), members, !self.is_any),
        }))
    }

    fn run(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let [list, value, ColumnarValue::Scalar(text)] = args.args.as_slice() else {
            return exec_err!("{} takes a list, a value and a constant operator", self.name());
        };
        let Some(holds) = text.try_as_str().flatten().and_then(operator) else {
            return exec_err!("{}: {text} is no comparison; say '='", self.name());
        };
        let ((list, is_one_list), (value, is_one_value)) = (column(list)?, column(value)?);
        let lists = Lists::new(&list)?;
        let (values, elements) = (comparable(&value)?, comparable(lists.values())?);
        if values.data_type().is_null() || elements.data_type().is_null() {
            return Ok(self.of_nulls(&lists, is_one_list, rows));
        }
        let options = SortOptions { descending: false, nulls_first: false };
        let compare = make_comparator(&values, &elements, options)?;
        let results = (0..rows).map(|row| {
            let places = lists.range(if is_one_list { 0 } else { row })?;
            let value = if is_one_value { 0 } else { row };
            let mut is_unknown = false;
            for place in places {
                if values.is_null(value) || elements.is_null(place) {
                    is_unknown = true;
                } else if holds(compare(value, place)) == self.is_any {
                    return Some(self.is_any);
                }
            }
            (!is_unknown).then_some(!self.is_any)
        });
        Ok(Arc::new(results.collect::<BooleanArray>()))
    }
}

impl Quantified {
    /// The results if all values or all elements are null.
    fn of_nulls(&self, lists: &Lists, is_one_list: bool, rows: usize) -> ArrayRef {
        let results = (0..rows).map(|row| {
            let places = lists.range(if is_one_list { 0 } else { row })?;
            places.is_empty().then_some(!self.is_any)
        });
        Arc::new(results.collect::<BooleanArray>())
    }
}

fn is_interval(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_))
}

/// The values of an argument, and true if it is one constant.
fn column(argument: &ColumnarValue) -> Result<(ArrayRef, bool)> {
    Ok(match argument {
        ColumnarValue::Array(values) => (Arc::clone(values), false),
        ColumnarValue::Scalar(value) => (value.to_array_of_size(1)?, true),
    })
}

/// Values whose order is that of SQL.
fn comparable(values: &ArrayRef) -> Result<ArrayRef> {
    match is_interval(values.data_type()) {
        true => durations(values),
        false => Ok(canonical(values)),
    }
}

//! Calls of functions, and loops over their arguments.

use std::sync::Arc;

use chrono::Offset as _;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray as _, TimestampMicrosecondArray, UInt32Array,
};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, FieldRef, TimestampMicrosecondType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, exec_datafusion_err, internal_datafusion_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use super::column::{Input, Output, view};
use super::kind::Kind;

/// A call of a function with one batch of arguments.
#[derive(Debug)]
pub(crate) struct Call {
    name: &'static str,
    arguments: Vec<Argument>,
    rows: usize,
    result: DataType,
    fields: Vec<FieldRef>,
    options: Arc<ConfigOptions>,
}

/// The values of an argument: one per row, or one for all.
#[derive(Debug)]
struct Argument {
    array: ArrayRef,
    /// For an argument of timestamps with time zone, the original array: `array` has local times.
    instants: Option<ArrayRef>,
    is_constant: bool,
}

impl Argument {
    fn row(&self, row: usize) -> usize {
        if self.is_constant { 0 } else { row }
    }

    fn is_null(&self, row: usize) -> bool {
        self.array.is_null(self.row(row)) || self.array.data_type().is_null()
    }
}

impl Call {
    /// The call of a function with arguments of these kinds; the last kind is that of all that
    /// follow.
    pub(super) fn new(
        name: &'static str,
        args: &ScalarFunctionArgs,
        kinds: &[Kind],
    ) -> Result<Self> {
        let is_constant = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let rows = match args.args.iter().all(is_constant) {
            true if !args.args.is_empty() => 1,
            _ => args.number_rows,
        };
        let argument = |(number, value): (usize, &ColumnarValue)| {
            let array = match value {
                ColumnarValue::Array(array) => Arc::clone(array),
                ColumnarValue::Scalar(scalar) => scalar.to_array_of_size(1)?,
            };
            let is_local = kinds.get(number).or(kinds.last()) == Some(&Kind::Timestamp);
            let local = if is_local { local_times(&array)? } else { None };
            let (array, instants) = match local {
                Some(local) => (local, Some(array)),
                None => (array, None),
            };
            Ok(Argument { array, instants, is_constant: is_constant(value) })
        };
        let arguments = args.args.iter().enumerate().map(argument).collect::<Result<_>>()?;
        let (result, fields) = (args.return_type().clone(), args.arg_fields.clone());
        let options = Arc::clone(&args.config_options);
        Ok(Self { name, arguments, rows, result, fields, options })
    }

    /// The name of the function.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The fields of the arguments.
    pub(crate) fn fields(&self) -> &[FieldRef] {
        &self.fields
    }

    /// The settings of the session.
    pub(crate) fn options(&self) -> &ConfigOptions {
        &self.options
    }

    /// The number of arguments.
    pub(crate) fn len(&self) -> usize {
        self.arguments.len()
    }

    /// The number of rows of the result.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The values of an argument: one per row, or one for all if it is constant.
    ///
    /// # Errors
    /// If there is no such argument.
    pub(crate) fn array(&self, argument: usize) -> Result<&ArrayRef> {
        Ok(&self.argument(argument)?.array)
    }

    /// The values of an argument, one per row.
    ///
    /// # Errors
    /// If there is no such argument.
    pub(crate) fn expanded(&self, argument: usize) -> Result<ArrayRef> {
        let argument = self.argument(argument)?;
        if !argument.is_constant || self.rows == 1 {
            return Ok(Arc::clone(&argument.array));
        }
        let first = UInt32Array::from_value(0, self.rows);
        Ok(take(&argument.array, &first, None)?)
    }

    /// True if the argument has one value for all rows.
    ///
    /// # Errors
    /// If there is no such argument.
    pub(crate) fn is_constant(&self, argument: usize) -> Result<bool> {
        Ok(self.argument(argument)?.is_constant)
    }

    /// True if the argument of a row is null.
    ///
    /// # Errors
    /// If there is no such argument.
    pub(crate) fn is_null(&self, argument: usize, row: usize) -> Result<bool> {
        Ok(self.argument(argument)?.is_null(row))
    }

    /// The value of an argument in a row; `None` if it is null.
    ///
    /// # Errors
    /// If there is no such argument, or if it has another type.
    pub(crate) fn value<A: Input>(
        &self,
        argument: usize,
        row: usize,
    ) -> Result<Option<A::Item<'_>>> {
        let argument = self.argument(argument)?;
        let is_null = argument.is_null(row);
        Ok((!is_null).then_some(A::item(view::<A>(&argument.array)?, argument.row(row))))
    }

    /// The time zone of an argument of instants, and its difference from UTC in microseconds in a
    /// row; `None` for local times.
    ///
    /// # Errors
    /// If there is no such argument.
    pub(crate) fn zone(&self, argument: usize, row: usize) -> Result<Option<(&str, i64)>> {
        let argument = self.argument(argument)?;
        let Some(instants) = &argument.instants else { return Ok(None) };
        let DataType::Timestamp(_, Some(zone)) = instants.data_type() else { return Ok(None) };
        let micros = |array: &ArrayRef| {
            let array = array.as_primitive_opt::<TimestampMicrosecondType>();
            array.map(|array| array.value(argument.row(row)))
        };
        let offset = micros(&argument.array).zip(micros(instants));
        Ok(offset.map(|(local, instant)| (&**zone, local - instant)))
    }

    fn argument(&self, argument: usize) -> Result<&Argument> {
        self.arguments
            .get(argument)
            .ok_or_else(|| internal_datafusion_err!("a function has no argument {argument}"))
    }

    /// The values of an argument by row.
    fn column<'a, A: Input>(
        &'a self,
        argument: usize,
    ) -> Result<impl Fn(usize) -> Option<A::Item<'a>>> {
        let argument = self.argument(argument)?;
        let view = view::<A>(&argument.array)?;
        Ok(move |row| (!argument.is_null(row)).then(|| A::item(view, argument.row(row))))
    }

    /// Collects a value for each row.
    ///
    /// # Errors
    /// Those of `value`, and if the result is too large.
    pub(crate) fn rows_of<'a, R: Output>(
        &'a self,
        value: impl FnMut(usize) -> Result<Option<R::Value<'a>>>,
    ) -> Result<ArrayRef> {
        R::collect((0..self.rows).map(value), &self.result)
    }

    /// Maps the rows of one argument; null stays null.
    ///
    /// # Errors
    /// Those of `map`, and if the argument has another type or the result is too large.
    pub(crate) fn map1<'a, A: Input, R: Output>(
        &'a self,
        mut map: impl FnMut(A::Item<'a>) -> Result<Option<R::Value<'a>>>,
    ) -> Result<ArrayRef> {
        let first = self.column::<A>(0)?;
        self.rows_of::<R>(|row| first(row).map_or(Ok(None), &mut map))
    }

    /// Maps the rows of two arguments; a row with a null is null.
    ///
    /// # Errors
    /// As [`Call::map1`].
    pub(crate) fn map2<'a, A: Input, B: Input, R: Output>(
        &'a self,
        mut map: impl FnMut(A::Item<'a>, B::Item<'a>) -> Result<Option<R::Value<'a>>>,
    ) -> Result<ArrayRef> {
        let (first, second) = (self.column::<A>(0)?, self.column::<B>(1)?);
        self.rows_of::<R>(|row| match (first(row), second(row)) {
            (Some(first), Some(second)) => map(first, second),
            _ => Ok(None),
        })
    }

    /// Maps the rows of three arguments; a row with a null is null.
    ///
    /// # Errors
    /// As [`Call::map1`].
    pub(crate) fn map3<'a, A: Input, B: Input, C: Input, R: Output>(
        &'a self,
        mut map: impl FnMut(A::Item<'a>, B::Item<'a>, C::Item<'a>) -> Result<Option<R::Value<'a>>>,
    ) -> Result<ArrayRef> {
        let (first, second) = (self.column::<A>(0)?, self.column::<B>(1)?);
        let third = self.column::<C>(2)?;
        self.rows_of::<R>(|row| match (first(row), second(row), third(row)) {
            (Some(first), Some(second), Some(third)) => map(first, second, third),
            _ => Ok(None),
        })
    }
}

/// The local times of instants in the time zone of their type; `None` for other values.
fn local_times(array: &ArrayRef) -> Result<Option<ArrayRef>> {
    let DataType::Timestamp(_, Some(zone)) = array.data_type() else { return Ok(None) };
    let zone: Tz = zone.parse()?;
    let out_of_range = || exec_datafusion_err!("a timestamp is out of range in its time zone");
    let Some(instants) = array.as_primitive_opt::<TimestampMicrosecondType>() else {
        return Ok(None);
    };
    let local = (0..instants.len()).map(|row| {
        let local = || {
            let instant = instants.value_as_datetime_with_tz(row, zone)?;
            let local = instant.naive_utc().checked_add_offset(instant.offset().fix())?;
            Some(local.and_utc().timestamp_micros())
        };
        match instants.is_null(row) {
            true => Ok(None),
            false => local().map(Some).ok_or_else(out_of_range),
        }
    });
    Ok(Some(Arc::new(local.collect::<Result<TimestampMicrosecondArray>>()?)))
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDateTime;

    use super::*;

    #[test]
    fn local_times_beyond_the_calendar_are_errors() {
        let last = NaiveDateTime::MAX.and_utc().timestamp_micros();
        let of = |zone: &str| {
            let instants = TimestampMicrosecondArray::from(vec![last]).with_timezone(zone);
            let instants: ArrayRef = Arc::new(instants);
            local_times(&instants)
        };
        assert!(of("-01:00").is_ok());
        let error = of("+01:00").expect_err("out of range").to_string();
        assert!(error.contains("out of range in its time zone"), "{error}");
    }
}

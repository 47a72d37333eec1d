//! `generate_series` and `range` of timestamps and decimals, as lists and for tables.
//!
//! DataFusion's functions generate integers, and timestamps in nanoseconds, of which a list beyond
//! 2262 is empty. A series of dates is one of timestamps, as in DuckDB.

use std::sync::Arc;

use chrono::DateTime;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, Decimal128Array, Int64Array, ListArray,
    TimestampMicrosecondArray, new_empty_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{cast, concat};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Field, IntervalMonthDayNano, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::{
    Result, ScalarValue, exec_datafusion_err, exec_err, internal_err, plan_err,
};
use datafusion::logical_expr::{ScalarFunctionArgs, ScalarUDF};

use super::limits::{self, BATCH_BYTES_MAX, LIST_MAX};
use crate::adapter::{Scalar, columns, function};
use crate::dates::{DAY, instant_of, local, micros, session_zone, sum, sum_in_zone};

/// Returns the types that the arguments of a series of timestamps or decimals are cast to; `None`
/// for arguments that are neither, such as integers.
///
/// # Errors
/// If `name` generates no series of these types, which are partly those of timestamps or decimals.
pub fn series_types(name: &str, given: &[DataType]) -> Result<Option<Vec<DataType>>> {
    let ends = given.get(..2).unwrap_or(given);
    if ends.iter().any(is_moment) || given.get(2).is_some_and(is_interval) {
        let is_end = |of: &DataType| is_moment(of) || of.is_string() || of.is_null();
        return match given {
            [start, stop, step]
                if is_end(start)
                    && is_end(stop)
                    && (is_interval(step) || step.is_string() || step.is_null()) =>
            {
                let moment = moment_of(ends);
                let step = DataType::Interval(IntervalUnit::MonthDayNano);
                Ok(Some(vec![moment.clone(), moment, step]))
            }
            _ => plan_err!(
                "{name} of timestamps takes the first, the last and an interval; cast them: \
                 {name}('2024-01-01'::timestamp, '2024-02-01', '1 day')"
            ),
        };
    }
    let scales = given.iter().map(|of| match of {
        DataType::Decimal128(_, scale @ 0..) => Some(*scale),
        integer if integer.is_integer() || integer.is_null() => Some(0),
        _ => None,
    });
    let is_decimal = |of: &DataType| matches!(of, DataType::Decimal128(..));
    match scales.collect::<Option<Vec<_>>>() {
        Some(scales) if matches!(given.len(), 2 | 3) && given.iter().any(is_decimal) => {
            let scale = scales.into_iter().max().unwrap_or_default();
            let decimal = DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale);
            Ok(Some(vec![decimal; given.len()]))
        }
        _ => Ok(None),
    }
}

fn is_interval(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_) | DataType::Duration(_))
}

fn is_moment(of: &DataType) -> bool {
    matches!(of, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

/// The type of a series between `ends`: microseconds, or nanoseconds if an end has them.
fn moment_of(ends: &[DataType]) -> DataType {
    let zone = ends.iter().find_map(|of| match of {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    });
    let is_nano = |of: &DataType| matches!(of, DataType::Timestamp(TimeUnit::Nanosecond, _));
    let unit = match ends.iter().any(is_nano) {
        true => TimeUnit::Nanosecond,
        false => TimeUnit::Microsecond,
    };
    DataType::Timestamp(unit, zone)
}

/// A series of timestamps or decimals.
#[derive(Clone, Debug)]
pub struct Series {
    name: String,
    data_type: DataType,
    /// The next value: the units since 1970 of a timestamp, or the digits of a decimal.
    next: Option<i128>,
    stop: i128,
    includes_stop: bool,
    is_descending: bool,
    step: Step,
}

/// The distance of two values of a series.
#[derive(Clone, Copy, Debug)]
enum Step {
    Constant(i128),
    /// An interval with months or days, of a local time or an instant in a time zone.
    Calendar {
        interval: IntervalMonthDayNano,
        zone: Option<Tz>,
        is_nano: bool,
    },
}

impl Series {
    /// Creates the series of the call of `name` with `arguments`, which have the types of
    /// [`series_types`]; `None` if one is null. With `includes_stop`, the second argument belongs
    /// to the series. Days and months of instants are those of `zone`.
    ///
    /// # Errors
    /// If the step is zero.
    pub fn new(
        name: &str,
        arguments: &[ScalarValue],
        includes_stop: bool,
        zone: Tz,
    ) -> Result<Option<Self>> {
        let (Some(start), Some(stop)) = (arguments.first(), arguments.get(1)) else {
            return internal_err!("{name} has two arguments");
        };
        let data_type = start.data_type();
        let step = match (&data_type, arguments.get(2)) {
            (DataType::Decimal128(_, scale), None) => {
                let one = 10_i128.pow(u32::try_from(*scale).unwrap_or_default());
                Some((Step::Constant(one), 1))
            }
            (_, Some(ScalarValue::Decimal128(digits, ..))) => {
                digits.map(|digits| (Step::Constant(digits), digits))
            }
            (DataType::Timestamp(unit, of), Some(ScalarValue::IntervalMonthDayNano(interval))) => {
                let (is_nano, zone) = (*unit == TimeUnit::Nanosecond, of.as_ref().map(|_| zone));
                interval.map(|interval| (Step::of(interval, zone, is_nano), mean(interval)))
            }
            (_, step) => return internal_err!("{name} has a step of {step:?}"),
        };
        let (Some(start), Some(stop), Some((step, sign))) = (number(start), number(stop), step)
        else {
            return Ok(None);
        };
        if sign == 0 || matches!(step, Step::Constant(0)) {
            return exec_err!("{name}: the step is zero");
        }
        let (name, next, is_descending) = (name.to_owned(), Some(start), sign < 0);
        Ok(Some(Self { name, data_type, next, stop, includes_stop, is_descending, step }))
    }

    /// Returns the type of the values.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Returns true if each value is less than the one before.
    #[must_use]
    pub fn is_descending(&self) -> bool {
        self.is_descending
    }

    /// Returns the next `rows` values, or fewer at the end of the series.
    ///
    /// # Errors
    /// If a value is not after the one before: `1 month -29 days` leads from a February to itself.
    pub fn take(&mut self, rows: usize) -> Result<ArrayRef> {
        let mut values = Vec::new();
        while values.len() < rows
            && let Some(value) = self.next.filter(|value| self.contains(*value))
        {
            values.push(value);
            // A value out of range is after the stop.
            self.next = self.step.after(value);
            if self.next.is_some_and(|next| (next < value) != self.is_descending || next == value) {
                return exec_err!(
                    "{}: the step does not lead on from the value {}",
                    self.name,
                    ScalarValue::try_from_array(&self.array(vec![value])?, 0)?
                );
            }
        }
        self.array(values)
    }

    fn contains(&self, value: i128) -> bool {
        let is_before = match self.is_descending {
            true => value > self.stop,
            false => value < self.stop,
        };
        is_before || (self.includes_stop && value == self.stop)
    }

    fn array(&self, values: Vec<i128>) -> Result<ArrayRef> {
        if let DataType::Decimal128(..) = self.data_type {
            let values = Decimal128Array::from_iter_values(values);
            return Ok(Arc::new(values.with_data_type(self.data_type.clone())));
        }
        let values = values.into_iter().map(|value| {
            i64::try_from(value)
                .map_err(|_| exec_datafusion_err!("{}: a timestamp is out of range", self.name))
        });
        let values = Int64Array::from(values.collect::<Result<Vec<_>>>()?);
        Ok(cast(&values, &self.data_type)?)
    }
}

impl Step {
    fn of(interval: IntervalMonthDayNano, zone: Option<Tz>, is_nano: bool) -> Self {
        let IntervalMonthDayNano { months, days, nanoseconds } = interval;
        if months == 0 && (days == 0 || zone.is_none()) {
            let nanos = i128::from(days) * i128::from(DAY) * 1_000 + i128::from(nanoseconds);
            return Self::Constant(if is_nano { nanos } else { nanos / 1_000 });
        }
        Self::Calendar { interval, zone, is_nano }
    }

    /// The value after `value`; `None` beyond the calendar.
    fn after(self, value: i128) -> Option<i128> {
        let (interval, zone, is_nano) = match self {
            Self::Constant(step) => return value.checked_add(step),
            Self::Calendar { interval, zone, is_nano } => (interval, zone, is_nano),
        };
        let value = i64::try_from(value).ok()?;
        let moment = match is_nano {
            true => DateTime::from_timestamp_nanos(value).naive_utc(),
            false => local(value).ok()?,
        };
        let next = match zone {
            None => sum(moment, interval)?,
            Some(zone) => sum_in_zone(moment, interval, zone)?,
        };
        match is_nano {
            true => next.and_utc().timestamp_nanos_opt().map(i128::from),
            false => Some(micros(next).into()),
        }
    }
}

/// The nanoseconds of an interval whose months have 30 days, by which PostgreSQL determines if a
/// series ascends.
fn mean(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * i128::from(DAY) * 1_000 + i128::from(interval.nanoseconds)
}

/// The number that a value is stored as.
fn number(value: &ScalarValue) -> Option<i128> {
    match value {
        ScalarValue::Decimal128(digits, ..) => *digits,
        ScalarValue::TimestampMicrosecond(units, _)
        | ScalarValue::TimestampNanosecond(units, _) => units.map(i128::from),
        _ => None,
    }
}

/// Returns the functions `range` and `generate_series`.
pub(super) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let [range, series] = limits::series();
    let range = List { name: "range", integers: range, includes_stop: false };
    let series = List { name: "generate_series", integers: series, includes_stop: true };
    [range, series].into_iter().map(function)
}

/// A function that returns a series as a list.
#[derive(Debug)]
struct List {
    name: &'static str,
    /// The function of the same name that evaluates calls with integers.
    integers: Arc<ScalarUDF>,
    /// True if a list has its second argument.
    includes_stop: bool,
}

impl Scalar for List {
    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Dates and local times beside an instant stay: they are instants of the session's time zone.
    fn coerce(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        if let Some(types) = series_types(self.name, given)? {
            let local = |(of, to): (&DataType, DataType)| match (of, to) {
                (
                    DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None),
                    DataType::Timestamp(unit, Some(_)),
                ) => DataType::Timestamp(unit, None),
                (_, to) => to,
            };
            return Ok(given.iter().zip(types).map(local).collect());
        }
        let is_integer = |of: &DataType| of.is_integer() || of.is_null();
        match given.len() {
            1..=3 if given.iter().all(is_integer) => Ok(vec![DataType::Int64; given.len()]),
            _ => {
                let given: Vec<_> = given.iter().map(ToString::to_string).collect();
                plan_err!(
                    "{} takes integers, decimals, or two timestamps and an interval, not {}",
                    self.name,
                    given.join(", ")
                )
            }
        }
    }

    fn field(&self, given: &[DataType], _: &[Option<&ScalarValue>]) -> Result<Field> {
        let types = match series_types(self.name, given)? {
            Some(types) => types,
            None => self.coerce(given)?,
        };
        let item = Field::new_list_field(types[0].clone(), true);
        Ok(Field::new(self.name, DataType::List(Arc::new(item)), true))
    }

    fn run(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let arguments = columns(args, rows)?;
        let given: Vec<_> = arguments.iter().map(|it| it.data_type().clone()).collect();
        let Some(types) = series_types(self.name, &given)? else {
            let args = ScalarFunctionArgs { number_rows: rows, ..args.clone() };
            return self.integers.invoke_with_args(args)?.into_array(rows);
        };
        let zone = session_zone(&args.config_options)?;
        let arguments = arguments.iter().zip(&types).map(|(values, to)| instants(values, to, zone));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let list_max = usize::try_from(LIST_MAX).unwrap_or(usize::MAX);
        let batch_bytes_max = usize::try_from(BATCH_BYTES_MAX).unwrap_or(usize::MAX);
        let mut total = 0;
        let mut lists = Vec::with_capacity(rows);
        for row in 0..rows {
            let values = arguments.iter().map(|it| ScalarValue::try_from_array(it, row));
            let values = values.collect::<Result<Vec<_>>>()?;
            let series = Series::new(self.name, &values, self.includes_stop, zone)?;
            let Some(mut series) = series else {
                lists.push(None);
                continue;
            };
            let values = series.take(list_max.saturating_add(1))?;
            total += values.get_buffer_memory_size();
            if values.len() > list_max || total > batch_bytes_max {
                return exec_err!(
                    "{0}: a list is too long: at most {list_max} elements, and {batch_bytes_max} \
                     bytes in a batch of rows, are possible; say FROM {0}(...) for rows",
                    self.name
                );
            }
            lists.push(Some(values));
        }
        let lengths = lists.iter().map(|list| list.as_ref().map_or(0, |list| list.len()));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let nulls: NullBuffer = lists.iter().map(Option::is_some).collect();
        let values: Vec<_> = lists.iter().flatten().map(|list| list.as_ref()).collect();
        let values = match values.is_empty() {
            true => new_empty_array(&types[0]),
            false => concat(&values)?,
        };
        let DataType::List(item) = args.return_field.data_type() else {
            return internal_err!("{} returns a list", self.name);
        };
        Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, Some(nulls))?))
    }
}

/// The instants of local times in a time zone, for arguments that are to be instants.
fn instants(values: &ArrayRef, to: &DataType, zone: Tz) -> Result<ArrayRef> {
    let (DataType::Timestamp(_, None), DataType::Timestamp(unit, Some(_))) =
        (values.data_type(), to)
    else {
        return Ok(Arc::clone(values));
    };
    let local_times = cast(values, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
    let local_times = local_times.as_primitive::<TimestampMicrosecondType>();
    let found = local_times.iter().map(|time| {
        let Some(time) = time else { return Ok(None) };
        let instant = instant_of(local(time)?, zone);
        let out_of_range = || exec_datafusion_err!("a timestamp is out of range in its time zone");
        Ok(Some(micros(instant.ok_or_else(out_of_range)?)))
    });
    let found = found.collect::<Result<TimestampMicrosecondArray>>()?;
    let utc = DataType::Timestamp(*unit, None);
    Ok(cast(&cast(&found, &utc)?, to)?)
}

//! Selection of the cell of an aggregate whose state is kept in the rows.

use std::sync::Arc;

use datafusion::arrow::array::ArrowNativeTypeOp;
use datafusion::arrow::datatypes::{
    ArrowNativeType, DataType, IntervalDayTime, IntervalMonthDayNano, IntervalUnit, i256,
};
use datafusion::common::Result;
use datafusion::functions_aggregate as functions;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use half::f16;

use super::avg::Avg;
use super::count::Count;
use super::flag::Flag;
use super::fold::Fold;
use super::interface::{Cell, Room};
use super::sum::Sum;
use crate::floats::Float;
use crate::functions::{Kind, Wide, array, kind, state_type, stock};

/// Returns the cell of an aggregate, and allocates its state in `room`; `None` if the state of
/// `function` is not of fixed size or has no cell, so that an accumulator must keep it.
///
/// # Errors
/// DataFusion's, if it rejects the aggregate.
pub(in super::super) fn choose(
    function: &Arc<AggregateFunctionExpr>,
    room: &mut Room,
) -> Result<Option<Box<dyn Cell>>> {
    let is = |other: Arc<AggregateUDF>| *stock(function.fun()) == *other;
    if function.expressions().len() != 1 || !function.groups_accumulator_supported() {
        return Ok(None);
    }
    let data_type = function.field().data_type().clone();
    let all = !function.is_distinct();
    Ok(if all && is(functions::count::count_udaf()) {
        Some(Box::new(Count::new(room)))
    } else if all && is(functions::sum::sum_udaf()) {
        match kind(function.fun()) {
            Some(Kind::Sum) => wide_sum(room, &data_type).or_else(|| sum(room, &data_type)),
            _ => sum(room, &data_type),
        }
    } else if all && is(functions::average::avg_udaf()) {
        let states = function.state_fields()?;
        avg(room, function, states.get(1).map(|field| field.data_type()))
    } else if is(functions::min_max::min_udaf()) {
        extreme::<Min>(room, &data_type)
    } else if is(functions::min_max::max_udaf()) {
        extreme::<Max>(room, &data_type)
    } else if is(functions::bool_and_or::bool_and_udaf()) {
        Some(Box::new(Flag::new(room, true)))
    } else if is(functions::bool_and_or::bool_or_udaf()) {
        Some(Box::new(Flag::new(room, false)))
    } else if is(functions::bit_and_or_xor::bit_and_udaf()) {
        bits::<And>(room, &data_type)
    } else if is(functions::bit_and_or_xor::bit_or_udaf()) {
        bits::<Or>(room, &data_type)
    } else if all && is(functions::bit_and_or_xor::bit_xor_udaf()) {
        bits::<Xor>(room, &data_type)
    } else {
        None
    })
}

/// Returns true if an aggregate counts every row: its one argument is a constant that is not null.
pub(in super::super) fn counts_rows(function: &AggregateFunctionExpr) -> bool {
    let arguments = function.expressions();
    let constant = |value: &Literal| !value.value().is_null();
    *stock(function.fun()) == *functions::count::count_udaf()
        && !function.is_distinct()
        && arguments.len() == 1
        && arguments[0].downcast_ref::<Literal>().is_some_and(constant)
}

type Chosen = Option<Box<dyn Cell>>;

/// Returns the cell of a sum whose state is wider than its result, as in [`crate::functions`].
fn wide_sum(room: &mut Room, result: &DataType) -> Chosen {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Duration, Int64, UInt64};
    let sum = state_type(result)?;
    Some(match result {
        Int64 | Duration(_) | Decimal64(..) => {
            Box::new(Sum::<i64, i128>::new(room, sum, result, i128::results))
        }
        UInt64 => Box::new(Sum::<u64, i128>::new(room, sum, result, i128::results)),
        Decimal32(..) => Box::new(Sum::<i32, i128>::new(room, sum, result, i128::results)),
        Decimal128(..) => Box::new(Sum::<i128, i128>::new(room, sum, result, i128::results)),
        Decimal256(..) => Box::new(Sum::<i256, i256>::new(room, sum, result, i256::results)),
        _ => return None,
    })
}

/// Returns the cell of a sum whose state has the type of its result.
fn sum(room: &mut Room, data_type: &DataType) -> Chosen {
    Some(match data_type {
        DataType::Int64 | DataType::Decimal64(..) | DataType::Duration(_) => {
            summed::<i64>(room, data_type)
        }
        DataType::UInt64 => summed::<u64>(room, data_type),
        DataType::Float64 => summed::<f64>(room, data_type),
        DataType::Decimal32(..) | DataType::Interval(IntervalUnit::YearMonth) => {
            summed::<i32>(room, data_type)
        }
        DataType::Decimal128(..) => summed::<i128>(room, data_type),
        DataType::Decimal256(..) => summed::<i256>(room, data_type),
        DataType::Interval(IntervalUnit::DayTime) => summed::<IntervalDayTime>(room, data_type),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            summed::<IntervalMonthDayNano>(room, data_type)
        }
        _ => return None,
    })
}

fn summed<T>(room: &mut Room, data_type: &DataType) -> Box<dyn Cell>
where
    T: ArrowNativeTypeOp + ArrowNativeType,
{
    let finish = |_: &str, sums: Vec<T>, nulls, result: &DataType| array(result, sums, nulls);
    Box::new(Sum::<T, T>::new(room, data_type.clone(), data_type, finish))
}

fn avg(
    room: &mut Room,
    function: &Arc<AggregateFunctionExpr>,
    sum_type: Option<&DataType>,
) -> Chosen {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Duration, Float64};
    let sum = sum_type?;
    // The result of a decimal average has the width of its argument.
    Some(match (function.field().data_type(), sum) {
        (Float64, Float64) => Box::new(Avg::<f64, f64>::new(room, sum, function)),
        (Float64, Decimal128(..)) => Box::new(Avg::<i64, i128, u64>::new(room, sum, function)),
        (Decimal32(..), Decimal64(..)) => Box::new(Avg::<i32, i64>::new(room, sum, function)),
        (Decimal32(..), Decimal128(..)) => Box::new(Avg::<i32, i128>::new(room, sum, function)),
        (Decimal64(..), Decimal64(..)) => Box::new(Avg::<i64, i64>::new(room, sum, function)),
        (Decimal64(..), Decimal128(..)) => Box::new(Avg::<i64, i128>::new(room, sum, function)),
        (Decimal128(..), Decimal128(..)) => Box::new(Avg::<i128, i128>::new(room, sum, function)),
        (Decimal128(..), Decimal256(..)) => Box::new(Avg::<i128, i256>::new(room, sum, function)),
        (Decimal256(..), Decimal256(..)) => Box::new(Avg::<i256, i256>::new(room, sum, function)),
        (Duration(_), Duration(_)) => Box::new(Avg::<i64, i64>::new(room, sum, function)),
        _ => return None,
    })
}

/// The choice between minimum and maximum. `replaces` and `replaces_float` return true if `new`
/// replaces the state `old`; `start` and `start_float` are the initial states.
trait Extreme: 'static {
    fn replaces<T: PartialOrd>(new: &T, old: &T) -> bool;
    fn replaces_float<T: Float>(new: T, old: T) -> bool;
    fn start<T: ArrowNativeTypeOp>() -> T;
    fn start_float<T: Float>() -> T;
}

struct Min;
struct Max;

impl Extreme for Min {
    fn replaces<T: PartialOrd>(new: &T, old: &T) -> bool {
        new < old
    }

    fn replaces_float<T: Float>(new: T, old: T) -> bool {
        old.is_above(new)
    }

    fn start<T: ArrowNativeTypeOp>() -> T {
        T::MAX_TOTAL_ORDER
    }

    fn start_float<T: Float>() -> T {
        T::NAN
    }
}

impl Extreme for Max {
    fn replaces<T: PartialOrd>(new: &T, old: &T) -> bool {
        new > old
    }

    fn replaces_float<T: Float>(new: T, old: T) -> bool {
        new.is_above(old)
    }

    fn start<T: ArrowNativeTypeOp>() -> T {
        T::MIN_TOTAL_ORDER
    }

    fn start_float<T: Float>() -> T {
        T::NEG_INFINITY
    }
}

fn extreme<E: Extreme>(room: &mut Room, data_type: &DataType) -> Chosen {
    use DataType::{
        Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, Duration, Int8, Int16, Int32,
        Int64, Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64,
    };
    Some(match data_type {
        Int8 => extremes::<E, i8>(room, data_type),
        Int16 => extremes::<E, i16>(room, data_type),
        Int32 | Date32 | Time32(_) | Decimal32(..) => extremes::<E, i32>(room, data_type),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
            extremes::<E, i64>(room, data_type)
        }
        UInt8 => extremes::<E, u8>(room, data_type),
        UInt16 => extremes::<E, u16>(room, data_type),
        UInt32 => extremes::<E, u32>(room, data_type),
        UInt64 => extremes::<E, u64>(room, data_type),
        Decimal128(..) => extremes::<E, i128>(room, data_type),
        Decimal256(..) => extremes::<E, i256>(room, data_type),
        DataType::Float16 => floats::<E, f16>(room, data_type),
        DataType::Float32 => floats::<E, f32>(room, data_type),
        DataType::Float64 => floats::<E, f64>(room, data_type),
        _ => return None,
    })
}

fn extremes<E: Extreme, T>(room: &mut Room, data_type: &DataType) -> Box<dyn Cell>
where
    T: ArrowNativeTypeOp + PartialOrd,
{
    let fold = |old: &mut T, new: T| {
        let replaces = E::replaces(&new, old);
        if replaces {
            *old = new;
        }
        replaces
    };
    Box::new(Fold::new(room, data_type, E::start::<T>(), fold))
}

fn floats<E: Extreme, T>(room: &mut Room, data_type: &DataType) -> Box<dyn Cell>
where
    T: ArrowNativeType + Float,
{
    let fold = |old: &mut T, new: T| {
        let replaces = E::replaces_float(new, *old);
        if replaces {
            *old = new.canonical();
        }
        replaces
    };
    Box::new(Fold::new(room, data_type, E::start_float::<T>(), fold))
}

/// An operation on the bits of two integers.
trait Bits: 'static {
    const START: i8;
    fn apply<T: Integer>(old: T, new: T) -> T;
}

struct And;
struct Or;
struct Xor;

impl Bits for And {
    const START: i8 = -1;
    fn apply<T: Integer>(old: T, new: T) -> T {
        old & new
    }
}

impl Bits for Or {
    const START: i8 = 0;
    fn apply<T: Integer>(old: T, new: T) -> T {
        old | new
    }
}

impl Bits for Xor {
    const START: i8 = 0;
    fn apply<T: Integer>(old: T, new: T) -> T {
        old ^ new
    }
}

trait Integer:
    ArrowNativeType
    + std::ops::BitAnd<Output = Self>
    + std::ops::BitOr<Output = Self>
    + std::ops::BitXor<Output = Self>
    + std::ops::Not<Output = Self>
{
}

impl<T> Integer for T where
    T: ArrowNativeType
        + std::ops::BitAnd<Output = T>
        + std::ops::BitOr<Output = T>
        + std::ops::BitXor<Output = T>
        + std::ops::Not<Output = T>
{
}

fn bits<B: Bits>(room: &mut Room, data_type: &DataType) -> Chosen {
    Some(match data_type {
        DataType::Int8 => combined::<B, i8>(room, data_type),
        DataType::Int16 => combined::<B, i16>(room, data_type),
        DataType::Int32 => combined::<B, i32>(room, data_type),
        DataType::Int64 => combined::<B, i64>(room, data_type),
        DataType::UInt8 => combined::<B, u8>(room, data_type),
        DataType::UInt16 => combined::<B, u16>(room, data_type),
        DataType::UInt32 => combined::<B, u32>(room, data_type),
        DataType::UInt64 => combined::<B, u64>(room, data_type),
        _ => return None,
    })
}

fn combined<B: Bits, T: Integer>(room: &mut Room, data_type: &DataType) -> Box<dyn Cell> {
    let zero = T::default();
    let start = if B::START == 0 { zero } else { !zero };
    let combine = |old: &mut T, new: T| {
        *old = B::apply(*old, new);
        true
    };
    Box::new(Fold::new(room, data_type, start, combine))
}

//! Sums of integers, decimals and durations that do not wrap around, and averages of integers
//! and decimals.

pub(super) mod average;
mod distinct;
mod groups;
mod types;

use std::fmt;
use std::marker::PhantomData;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Int64Type, TimeUnit, UInt64Type, i256,
};
use datafusion::common::{Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, GroupsAccumulator};

use super::wide::{Wide, natives, out_of_range};
use distinct::{distinct, sliding_distinct};
use groups::many;
pub(super) use groups::{nulls_of_taken, taken};
use types::Types;

/// Calls a generic function with the Arrow type of the result and the native type of the sums;
/// `None` for a result type whose sums are DataFusion's.
macro_rules! of_type {
    ($result:expr, $function:ident($($argument:expr),*)) => {
        match $result {
            DataType::Int64 => Some($function::<Int64Type, i128>($($argument),*)),
            DataType::UInt64 => Some($function::<UInt64Type, i128>($($argument),*)),
            DataType::Decimal32(..) => Some($function::<Decimal32Type, i128>($($argument),*)),
            DataType::Decimal64(..) => Some($function::<Decimal64Type, i128>($($argument),*)),
            DataType::Decimal128(..) => Some($function::<Decimal128Type, i128>($($argument),*)),
            DataType::Decimal256(..) => Some($function::<Decimal256Type, i256>($($argument),*)),
            DataType::Duration(TimeUnit::Second) => {
                Some($function::<DurationSecondType, i128>($($argument),*))
            }
            DataType::Duration(TimeUnit::Millisecond) => {
                Some($function::<DurationMillisecondType, i128>($($argument),*))
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                Some($function::<DurationMicrosecondType, i128>($($argument),*))
            }
            DataType::Duration(TimeUnit::Nanosecond) => {
                Some($function::<DurationNanosecondType, i128>($($argument),*))
            }
            _ => None,
        }
    };
}

/// Creates the accumulator of one group. `stock` is DataFusion's, which collects distinct values.
pub(super) fn accumulator(
    args: &AccumulatorArgs<'_>,
    stock: Box<dyn Accumulator>,
) -> Result<Box<dyn Accumulator>> {
    let types = Types::of(args);
    let made = match args.is_distinct {
        true => of_type!(args.return_type(), distinct(types, stock, total)),
        false => of_type!(args.return_type(), of_one(types)),
    };
    made.map_or_else(|| not_impl_err!("sum of {}", args.return_type()), Ok)
}

/// Creates the accumulator of a sliding window frame.
pub(super) fn sliding(args: &AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
    let types = Types::of(args);
    let made = match args.is_distinct {
        true => of_type!(args.return_type(), sliding_distinct(types, total)),
        false => of_type!(args.return_type(), of_one(types)),
    };
    made.map_or_else(|| not_impl_err!("sum of {}", args.return_type()), Ok)
}

/// Creates the accumulator of many groups; `None` for types whose sums are DataFusion's.
pub(super) fn groups(args: &AccumulatorArgs<'_>) -> Option<Box<dyn GroupsAccumulator>> {
    of_type!(args.return_type(), many(Types::of(args)))
}

/// Creates the accumulator of one sum.
fn of_one<V, S>(types: Types) -> Box<dyn Accumulator>
where
    V: ArrowPrimitiveType,
    V::Native: Into<S>,
    S: Wide,
{
    Box::new(one::<V, S>(types))
}

fn one<V, S: Wide>(types: Types) -> Sum<V, S> {
    Sum { types, sum: S::ZERO, count: 0, values: PhantomData }
}

/// Returns `sum` in the result type; null if `count`, the number of values, is 0.
fn total<S: Wide>(types: &Types, sum: S, count: u64) -> Result<ScalarValue> {
    types.result((count > 0).then_some(sum))
}

/// The sum of one group or of a window frame.
struct Sum<V, S> {
    types: Types,
    sum: S,
    count: u64,
    values: PhantomData<fn(V)>,
}

impl<V, S> fmt::Debug for Sum<V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sum({})", self.types.result)
    }
}

impl<V, S> Sum<V, S>
where
    V: ArrowPrimitiveType,
    V::Native: Into<S>,
    S: Wide,
{
    /// Returns the sum and the number of the values that are not null.
    fn of(&self, values: &[ArrayRef]) -> Result<(S, u64)> {
        let values = values[0].as_primitive::<V>();
        let count = terrace_sys::size::to_u64(values.len() - values.null_count());
        Ok((self.types.total(values)?, count))
    }
}

impl<V, S> Accumulator for Sum<V, S>
where
    V: ArrowPrimitiveType,
    V::Native: Into<S>,
    S: Wide,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = self.of(values)?;
        self.sum = self.types.add(self.sum, sum)?;
        self.count += count;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = self.of(values)?;
        let less = self.sum.sub_checked(sum);
        self.sum = less.map_err(|_| out_of_range("sum", &self.types.result))?;
        self.count -= count;
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let sums = natives::<S>(&states[0])?;
        for row in taken(states[0].nulls(), None, sums.len()) {
            self.sum = self.types.add(self.sum, sums[row])?;
            self.count += 1;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        total(&self.types, self.sum, self.count)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.types.state((self.count > 0).then_some(self.sum))?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

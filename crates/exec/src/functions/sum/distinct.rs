//! Sums and averages of distinct values.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::marker::PhantomData;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use datafusion::arrow::datatypes::{ArrowNativeType, ToByteSlice};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;

use super::types::{Finish, Types};
use crate::functions::wide::{Wide, array, out_of_range};

/// Creates the accumulator of a group, whose distinct values `stock` collects; `finish` computes
/// the result from their sum and number.
pub(super) fn distinct<V, S>(
    types: Types,
    stock: Box<dyn Accumulator>,
    finish: Finish<S>,
) -> Box<dyn Accumulator>
where
    V: ArrowPrimitiveType,
    V::Native: Into<S>,
    S: Wide,
{
    Box::new(Distinct { types, stock, finish, values: PhantomData::<fn(V)> })
}

/// Creates the accumulator of a sliding window frame.
pub(super) fn sliding_distinct<V, S>(types: Types, finish: Finish<S>) -> Box<dyn Accumulator>
where
    V: ArrowPrimitiveType,
    V::Native: Into<S>,
    S: Wide,
{
    let (sum, counts) = (S::ZERO, HashMap::new());
    Box::new(SlidingDistinct { types, sum, counts, finish, values: PhantomData::<fn(V)> })
}

/// A sum or average of the distinct values of a group, which DataFusion's accumulator collects.
struct Distinct<V, S> {
    types: Types,
    stock: Box<dyn Accumulator>,
    finish: Finish<S>,
    values: PhantomData<fn(V)>,
}

impl<V, S> fmt::Debug for Distinct<V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Distinct({:?})", self.stock)
    }
}

impl<V, S> Accumulator for Distinct<V, S>
where
    V: ArrowPrimitiveType,
    V::Native: Into<S>,
    S: Wide,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.stock.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.stock.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let states = self.stock.state()?;
        let [ScalarValue::List(list)] = states.as_slice() else {
            return internal_err!("the state of a sum of distinct values is no list");
        };
        let values = list.values().as_primitive::<V>();
        let count = terrace_sys::size::to_u64(values.len() - values.null_count());
        (self.finish)(&self.types, self.types.total(values)?, count)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.stock.state()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.stock.size()
    }
}

/// A sum or average of the distinct values of a sliding window frame.
struct SlidingDistinct<V: ArrowPrimitiveType, S> {
    types: Types,
    sum: S,
    /// Each value in the frame and its number of occurrences.
    counts: HashMap<Bits, (V::Native, usize)>,
    finish: Finish<S>,
    values: PhantomData<fn(V)>,
}

/// The bytes of an integer of up to 256 bits, padded with zeros.
type Bits = [u8; 32];

fn bits_of<T: ArrowNativeType>(value: T) -> Bits {
    let mut bits = [0; 32];
    let values = [value];
    let bytes = values.as_slice().to_byte_slice();
    bits[..bytes.len()].copy_from_slice(bytes);
    bits
}

impl<V: ArrowPrimitiveType, S> fmt::Debug for SlidingDistinct<V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlidingDistinct({})", self.types.result)
    }
}

impl<V, S> Accumulator for SlidingDistinct<V, S>
where
    V: ArrowPrimitiveType,
    V::Native: Into<S>,
    S: Wide,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<V>().iter().flatten() {
            let (_, count) = self.counts.entry(bits_of(value)).or_insert((value, 0));
            *count += 1;
            if *count == 1 {
                self.sum = self.types.add(self.sum, value.into())?;
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<V>().iter().flatten() {
            let Entry::Occupied(mut entry) = self.counts.entry(bits_of(value)) else { continue };
            entry.get_mut().1 -= 1;
            if entry.get().1 == 0 {
                entry.remove();
                let less = self.sum.sub_checked(value.into());
                self.sum = less.map_err(|_| out_of_range("sum", &self.types.result))?;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[values])?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let count = terrace_sys::size::to_u64(self.counts.len());
        (self.finish)(&self.types, self.sum, count)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.counts.values().map(|(value, _)| *value).collect();
        let values = array(&self.types.values, values, None)?;
        let values = (0..values.len()).map(|row| ScalarValue::try_from_array(&values, row));
        let values = values.collect::<Result<Vec<_>>>()?;
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.types.values))])
    }

    fn size(&self) -> usize {
        let entry = size_of::<(Bits, (V::Native, usize))>();
        size_of_val(self) + self.counts.capacity() * entry
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

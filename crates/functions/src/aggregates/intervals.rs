//! `avg` of intervals: their sum, divided by their number.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, BooleanArray, Int64Array, PrimitiveArray,
};
use datafusion::arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::definition::Definition;
use super::factory::Factory;
use crate::dates::quotient;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The name of the function, by which plans replace `avg`.
pub const INTERVAL_AVERAGE: &str = "avg_interval";

/// The state of a group: the number of intervals, and the sums of their months, days and
/// nanoseconds.
type State = [i64; 4];

const STATE: [&str; 4] = ["count", "months", "days", "nanoseconds"];

/// `avg_interval(x)`: the average of intervals.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct IntervalAverage;

impl Definition for IntervalAverage {
    fn name(&self) -> &'static str {
        INTERVAL_AVERAGE
    }

    fn coerce(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [DataType::Interval(_)] => Ok(vec![INTERVAL]),
            _ => plan_err!("{INTERVAL_AVERAGE} takes one interval"),
        }
    }

    fn result(&self, _: &[DataType]) -> DataType {
        INTERVAL
    }

    fn state(&self, _: &[DataType]) -> Vec<(&'static str, DataType)> {
        STATE.map(|name| (name, DataType::Int64)).to_vec()
    }

    fn factory(&self, _: &AccumulatorArgs<'_>) -> Result<Factory> {
        Ok(Arc::new(|| Ok(Box::new(Averages { states: Vec::new() }))))
    }
}

/// The states of groups.
struct Averages {
    states: Vec<State>,
}

fn out_of_range() -> DataFusionError {
    exec_datafusion_err!("interval out of range")
}

fn add(state: &mut State, other: &State) -> Result<()> {
    for (sum, value) in state.iter_mut().zip(other) {
        *sum = sum.checked_add(*value).ok_or_else(out_of_range)?;
    }
    Ok(())
}

fn average([count, months, days, nanos]: &State) -> Result<Option<IntervalMonthDayNano>> {
    if *count == 0 {
        return Ok(None);
    }
    let small = |sum: &i64| i32::try_from(*sum).map_err(|_| out_of_range());
    let sum = IntervalMonthDayNano::new(small(months)?, small(days)?, *nanos);
    #[expect(clippy::cast_precision_loss, reason = "there are fewer rows than 2^53")]
    let average = quotient(sum, *count as f64);
    average.map(Some).ok_or_else(out_of_range)
}

impl Averages {
    fn columns(states: &[State]) -> Vec<ArrayRef> {
        let column = |n: usize| states.iter().map(|state| state[n]).collect::<Vec<_>>();
        let columns = (0..STATE.len()).map(column);
        columns.map(|column| Arc::new(Int64Array::from(column)) as ArrayRef).collect()
    }
}

impl GroupsAccumulator for Averages {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.states.resize(total.max(self.states.len()), State::default());
        let intervals = values[0].as_primitive::<IntervalMonthDayNanoType>();
        for (row, &group) in groups.iter().enumerate() {
            let passes = filter.is_none_or(|it| it.is_valid(row) && it.value(row));
            if passes && intervals.is_valid(row) {
                let IntervalMonthDayNano { months, days, nanoseconds } = intervals.value(row);
                let other = [1, months.into(), days.into(), nanoseconds];
                add(&mut self.states[group], &other)?;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.states.resize(total.max(self.states.len()), State::default());
        let columns: Vec<_> =
            states.iter().map(|column| column.as_primitive::<Int64Type>()).collect();
        for (row, &group) in groups.iter().enumerate() {
            let mut other = State::default();
            for (field, column) in other.iter_mut().zip(&columns) {
                *field = column.value(row);
            }
            add(&mut self.states[group], &other)?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let states = emit.take_needed(&mut self.states);
        let averages = states.iter().map(average);
        let averages = averages.collect::<Result<PrimitiveArray<IntervalMonthDayNanoType>>>()?;
        Ok(Arc::new(averages))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(Self::columns(&emit.take_needed(&mut self.states)))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let mut each = Self { states: Vec::new() };
        let groups: Vec<usize> = (0..rows).collect();
        each.update_batch(values, &groups, filter, rows)?;
        Ok(Self::columns(&each.states))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.states.capacity() * size_of::<State>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The averages of PostgreSQL 15.
    #[test]
    fn averages_are_quotients_of_sums() {
        let hour = 3_600_000_000_000;
        assert_eq!(average(&[0; 4]).expect("none"), None);
        let of = |state: State| average(&state).expect("an average").expect("some");
        assert_eq!(of([2, 0, 3, 0]), IntervalMonthDayNano::new(0, 1, 12 * hour));
        assert_eq!(of([2, 1, 40, 0]), IntervalMonthDayNano::new(0, 35, 0));
        assert!(average(&[1, i64::MAX, 0, 0]).is_err());
    }
}

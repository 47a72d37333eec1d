//! Aggregates over one group with more values than memory holds: sorts the values in pages, and
//! computes the result from them in order.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, RecordBatch, UInt32Array, make_comparator, new_empty_array,
};
use datafusion::arrow::compute::{SortOptions, cast, concat, filter, is_not_null, partition, take};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, Literal, lit};
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};

use super::spill::Pages;
use super::values::{Wants, flatten};
use crate::floats::canonical;
use crate::sort::SortSizes;
use crate::sort::key::SortKeys;
use crate::sort::merge::{Merge, MergeContext};
use crate::sort::sorter::Sorter;
use crate::stream::give_way;

/// Rows per step when values are sorted or read in order.
const ROWS_AT_ONCE: usize = 8192;

/// Sorter of the values of one aggregate of one group, which computes the result from them.
#[derive(Debug)]
pub(super) struct Picker {
    wants: Wants,
    function: Arc<AggregateFunctionExpr>,
    input_schema: SchemaRef,
    pages: Pages,
    schema: SchemaRef,
    sorter: Sorter,
    count: usize,
}

impl Picker {
    /// Creates a picker for values that lists of `state_type` hold; the function's arguments are
    /// columns of `input_schema`.
    ///
    /// # Errors
    /// If the values are of a type that has no order.
    pub(super) fn new(
        wants: Wants,
        function: &Arc<AggregateFunctionExpr>,
        input_schema: &SchemaRef,
        state_type: &DataType,
        pages: &Pages,
    ) -> Result<Self> {
        let DataType::List(field) = state_type else {
            return internal_err!("a state of {state_type} is no list");
        };
        let field = Field::new("value", field.data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let sorter = sorter(&schema, pages)?;
        let (function, input_schema) = (Arc::clone(function), Arc::clone(input_schema));
        Ok(Self { wants, function, input_schema, pages: pages.clone(), schema, sorter, count: 0 })
    }

    /// Appends the values of `lists`, states of the aggregate; nulls are left out.
    ///
    /// # Errors
    /// If the pool has no page left.
    pub(super) async fn push(&mut self, lists: &ArrayRef) -> Result<()> {
        let values = flatten(lists)?;
        let values = match values.logical_null_count() {
            0 => values,
            _ => filter(&values, &is_not_null(&values)?)?,
        };
        // The two zeros are one value.
        let values = match self.wants {
            Wants::Mode { .. } | Wants::Rank { .. } => canonical(&values)?,
            _ => values,
        };
        for from in (0..values.len()).step_by(ROWS_AT_ONCE) {
            let values = values.slice(from, ROWS_AT_ONCE.min(values.len() - from));
            self.push_values(values).await?;
            give_way().await;
        }
        Ok(())
    }

    async fn push_values(&mut self, values: ArrayRef) -> Result<()> {
        self.count += values.len();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![values])?;
        self.sorter.push(batch).await
    }

    /// Returns the result.
    ///
    /// # Errors
    /// The aggregate's own, and when a page cannot be read.
    pub(super) async fn finish(self) -> Result<ArrayRef> {
        match self.wants {
            Wants::All => internal_err!("all values are no pick"),
            Wants::Distinct => self.fold_distinct().await,
            Wants::Middle { distinct } => {
                let mut this = if distinct { self.without_repeats().await? } else { self };
                let middle = this.count / 2;
                let places =
                    if this.count % 2 == 1 { middle..=middle } else { middle.max(1) - 1..=middle };
                let values = this.values_at(places.into_iter().collect()).await?;
                this.evaluate(None, values)
            }
            Wants::At { fraction, distinct } => {
                let mut this = if distinct { self.without_repeats().await? } else { self };
                let (places, fraction) = around(fraction, this.count);
                let values = this.values_at(places).await?;
                this.evaluate(Some(fraction), values)
            }
            Wants::Mode { last } => {
                let mut this = self;
                let value = this.mode(last).await?;
                this.evaluate(None, value)
            }
            Wants::Rank { fraction, descending, distinct } => {
                let mut this = if distinct { self.without_repeats().await? } else { self };
                let places = at_rank(fraction, descending, this.count);
                let value = this.values_at(places).await?;
                this.evaluate(None, value)
            }
        }
    }

    /// Feeds each distinct value to the aggregate without DISTINCT.
    async fn fold_distinct(mut self) -> Result<ArrayRef> {
        let mut plain = self.plain(None)?;
        let mut unlike = Unlike::default();
        let mut merge = self.sorter.finish().await?;
        loop {
            merge = self.sorter.adapt(merge).await?;
            let Some(values) = next(&mut merge).await? else { break };
            self.update(plain.as_mut(), None, &unlike.filter(&values)?)?;
            give_way().await;
        }
        plain.evaluate()?.to_array_of_size(1)
    }

    /// Returns a picker that has each distinct value of this one once.
    async fn without_repeats(mut self) -> Result<Self> {
        let mut unlike = Unlike::default();
        let mut merge = self.sorter.finish().await?;
        let state = DataType::List(Arc::clone(&self.schema.fields()[0]));
        let mut once =
            Self::new(self.wants, &self.function, &self.input_schema, &state, &self.pages)?;
        loop {
            merge = self.sorter.adapt(merge).await?;
            let Some(values) = next(&mut merge).await? else { return Ok(once) };
            once.push_values(unlike.filter(&values)?).await?;
        }
    }

    /// Returns the values at the positions `places` (ascending, from 0) of the sorted order; a
    /// position past the last value is left out.
    async fn values_at(&mut self, places: Vec<usize>) -> Result<ArrayRef> {
        let mut found: Vec<ArrayRef> = vec![new_empty_array(self.schema.field(0).data_type())];
        let (mut places, mut seen) = (places.into_iter().peekable(), 0);
        let mut merge = self.sorter.finish().await?;
        while places.peek().is_some() {
            merge = self.sorter.adapt(merge).await?;
            let Some(values) = next(&mut merge).await? else { break };
            while let Some(place) = places.next_if(|place| *place < seen + values.len()) {
                found.push(values.slice(place - seen, 1));
            }
            seen += values.len();
            give_way().await;
        }
        let found: Vec<&dyn Array> = found.iter().map(AsRef::as_ref).collect();
        Ok(concat(&found)?)
    }

    /// Returns the most frequent value; of several equally frequent ones the least, or the greatest
    /// if `last`.
    async fn mode(&mut self, last: bool) -> Result<ArrayRef> {
        let mut runs = Runs { last, ..Runs::default() };
        let mut merge = self.sorter.finish().await?;
        loop {
            merge = self.sorter.adapt(merge).await?;
            let Some(values) = next(&mut merge).await? else { break };
            runs.add(&values)?;
            give_way().await;
        }
        let mode = runs.finish();
        Ok(mode.unwrap_or_else(|| new_empty_array(self.schema.field(0).data_type())))
    }

    /// Returns the result of the aggregate over `values` alone, which determine it.
    fn evaluate(&self, fraction: Option<f64>, values: ArrayRef) -> Result<ArrayRef> {
        let mut plain = self.plain(fraction)?;
        if !values.is_empty() {
            self.update(plain.as_mut(), fraction, &values)?;
        }
        plain.evaluate()?.to_array_of_size(1)
    }

    /// Creates the aggregate without DISTINCT, with another fraction if one is given.
    fn plain(&self, fraction: Option<f64>) -> Result<Box<dyn Accumulator>> {
        let mut arguments = self.function.expressions();
        if let (Some(fraction), Some(second)) = (fraction, arguments.get_mut(1)) {
            *second = lit(fraction);
        }
        let function = Arc::new(self.function.fun().clone());
        let plain = AggregateExprBuilder::new(function, arguments)
            .schema(Arc::clone(&self.input_schema))
            .alias(self.function.name());
        plain.build()?.create_accumulator()
    }

    fn update(
        &self,
        plain: &mut dyn Accumulator,
        fraction: Option<f64>,
        values: &ArrayRef,
    ) -> Result<()> {
        let mut columns = Vec::new();
        for (n, argument) in self.function.expressions().iter().enumerate() {
            let wanted = argument.data_type(&self.input_schema)?;
            columns.push(match (n, argument.downcast_ref::<Literal>(), fraction) {
                (0, _, _) if *values.data_type() == wanted => Arc::clone(values),
                (0, _, _) => cast(values, &wanted)?,
                (1, _, Some(fraction)) => {
                    ScalarValue::from(fraction).to_array_of_size(values.len())?
                }
                (_, Some(literal), _) => literal.value().to_array_of_size(values.len())?,
                _ => return internal_err!("{} of several columns", self.function.name()),
            });
        }
        plain.update_batch(&columns)
    }
}

fn sorter(schema: &SchemaRef, pages: &Pages) -> Result<Sorter> {
    let key = PhysicalSortExpr {
        expr: Arc::new(Column::new("value", 0)),
        options: SortOptions::default(),
    };
    let keys = SortKeys::new(schema, &LexOrdering::from([key]))?;
    let context = MergeContext {
        width: keys.stored(1).len(),
        keys: Arc::new(keys),
        space: pages.space.clone(),
        grant: Arc::clone(&pages.grant),
        sizes: SortSizes::default(),
    };
    Ok(Sorter::new(context, None))
}

async fn next(merge: &mut Merge) -> Result<Option<ArrayRef>> {
    let columns = merge.next_columns(ROWS_AT_ONCE).await?;
    Ok(columns.and_then(|(_, mut columns)| columns.pop()))
}

/// Returns the positions (from 0) of the values to interpolate for the percentile `fraction` of
/// `count` values, and the fraction to interpolate them with: one position if the percentile is a
/// value, none if `count` is 0.
fn around(fraction: f64, count: usize) -> (Vec<usize>, f64) {
    #[allow(clippy::cast_precision_loss, reason = "as DataFusion computes it")]
    let at = fraction * count.saturating_sub(1) as f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to the count")]
    let (lower, upper) = (at.floor() as usize, at.ceil() as usize);
    match (count, lower == upper) {
        (0, _) => (Vec::new(), fraction),
        (_, true) => (vec![lower], fraction),
        (_, false) => (vec![lower, upper], at - at.floor()),
    }
}

/// Returns the position (from 0) of the discrete percentile of `count` sorted values: the first one
/// whose cumulative share is at least `fraction`, counted from the end if `descending`. Empty if
/// `count` is 0.
fn at_rank(fraction: f64, descending: bool, count: usize) -> Vec<usize> {
    #[allow(clippy::cast_precision_loss, reason = "as the function computes it")]
    let at = (fraction * count as f64).ceil();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to the count")]
    let rank = (at as usize).clamp(1, count.max(1)) - 1;
    let place = if descending { count.checked_sub(rank + 1) } else { Some(rank) };
    place.filter(|place| *place < count).into_iter().collect()
}

/// The longest run of equal values among sorted ones.
#[derive(Debug, Default)]
struct Runs {
    /// True to choose the last of several longest runs, false for the first.
    last: bool,
    longest: Option<(ArrayRef, usize)>,
    current: Option<(ArrayRef, usize)>,
}

impl Runs {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        for run in partition(&[Arc::clone(values)])?.ranges() {
            let len = run.len();
            if run.start == 0
                && let Some((value, before)) = &mut self.current
                && make_comparator(value, values, SortOptions::default())?(0, 0) == Ordering::Equal
            {
                *before += len;
                continue;
            }
            self.close();
            self.current = Some((values.slice(run.start, 1), len));
        }
        Ok(())
    }

    fn close(&mut self) {
        let Some((value, len)) = self.current.take() else { return };
        let is_longest = match &self.longest {
            Some((_, longest)) => len > *longest || (self.last && len == *longest),
            None => true,
        };
        if is_longest {
            self.longest = Some((value, len));
        }
    }

    fn finish(mut self) -> Option<ArrayRef> {
        self.close();
        self.longest.map(|(value, _)| value)
    }
}

/// Filter that drops each value equal to the one before it, also across batches.
#[derive(Debug, Default)]
struct Unlike {
    last: Option<ArrayRef>,
}

impl Unlike {
    fn filter(&mut self, values: &ArrayRef) -> Result<ArrayRef> {
        let options = SortOptions::default();
        let among = make_comparator(values, values, options)?;
        let first = match &self.last {
            Some(last) => make_comparator(last, values, options)?(0, 0) != Ordering::Equal,
            None => true,
        };
        let differs = |row: &usize| match row.checked_sub(1) {
            Some(before) => among(before, *row) != Ordering::Equal,
            None => first,
        };
        let kept = (0..values.len()).filter(differs).map(|row| u32::try_from(row).unwrap_or(0));
        let kept = take(values, &UInt32Array::from_iter_values(kept), None)?;
        self.last = values.len().checked_sub(1).map(|last| values.slice(last, 1));
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_of_a_fraction_is_the_first_that_reaches_it() {
        assert_eq!(at_rank(0.5, false, 0), Vec::<usize>::new());
        assert_eq!(at_rank(0.0, false, 4), vec![0]);
        assert_eq!(at_rank(0.5, false, 5), vec![2]);
        assert_eq!(at_rank(0.25, true, 4), vec![3]);
        assert_eq!(at_rank(1.0, false, 4), vec![3]);
    }

    #[test]
    fn the_longest_run_goes_across_batches() {
        use datafusion::arrow::array::Int32Array;
        for (last, expected) in [(false, 2), (true, 4)] {
            let mut runs = Runs { last, ..Runs::default() };
            for batch in [vec![1, 2, 2], vec![2, 3], vec![4, 4, 4], vec![5]] {
                let batch: ArrayRef = Arc::new(Int32Array::from(batch));
                runs.add(&batch).expect("values");
            }
            let mode = runs.finish().expect("a run");
            assert_eq!(mode.as_ref(), &Int32Array::from(vec![expected]) as &dyn Array);
        }
    }

    #[test]
    fn a_fraction_is_between_two_places() {
        assert_eq!(around(0.5, 0), (vec![], 0.5));
        assert_eq!(around(0.5, 1), (vec![0], 0.5));
        assert_eq!(around(0.5, 4), (vec![1, 2], 0.5));
        assert_eq!(around(0.25, 5), (vec![1], 0.25));
        assert_eq!(around(1.0, 5), (vec![4], 1.0));
    }
}

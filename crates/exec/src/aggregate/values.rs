//! Aggregates whose state is a list of all values of a group, or of its distinct values.
//!
//! Such a state grows with its group. It is spilled in pieces, each a state of its own, so that it
//! fits pages whatever its length. A group larger than memory is not reassembled: its values are
//! sorted, and the result is computed from them in order ([`super::oversized_group`]).

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MutableArrayData, make_array, new_empty_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate as functions;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Literal;

use crate::functions::{is_list, stock};

/// Maximum number of values in a piece.
const PIECE_VALUES: usize = 1 << 16;

/// Key of field metadata: a function of another crate sets it on its state fields to declare that
/// they are lists of the group's values, which may be cut into pieces, each a state of its own.
pub const KEEPS_VALUES: &str = "terrace.keeps_values";

/// The values of a group that the result of an aggregate depends on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Wants {
    /// All values: the result is made of them.
    All,
    /// Each distinct value, once.
    Distinct,
    /// The middle value or two, of all values or of the distinct ones, for the median.
    Middle { distinct: bool },
    /// The values next to the continuous percentile `fraction`.
    At { fraction: f64, distinct: bool },
    /// The most frequent value; of several equally frequent ones the least, or the greatest if
    /// `last`.
    Mode { last: bool },
    /// The discrete percentile: the first value whose cumulative share is at least `fraction`.
    Rank { fraction: f64, descending: bool, distinct: bool },
}

impl Wants {
    /// Returns true if the result can be computed from the values in order, without holding all of
    /// them.
    pub(super) fn is_in_order(self) -> bool {
        self != Self::All
    }
}

/// Returns the values of a group that the result of `function` depends on; `None` if its states are
/// not lists of values.
pub(super) fn wants(function: &AggregateFunctionExpr, state_types: &[DataType]) -> Option<Wants> {
    let lists = state_types.iter().all(|state| matches!(state, DataType::List(_)));
    if !lists || state_types.is_empty() {
        return None;
    }
    let stock = stock(function.fun());
    let is = |other: Arc<AggregateUDF>| stock.name() == other.name();
    let distinct = function.is_distinct();
    let plain = state_types.len() == 1 && !function.ignore_nulls();
    if is_list(stock) {
        return Some(Wants::All);
    }
    if keeps_values(function) {
        return Some(in_order(function, state_types).unwrap_or(Wants::All));
    }
    if plain && is(functions::median::median_udaf()) {
        return Some(Wants::Middle { distinct });
    }
    if plain && is(functions::percentile_cont::percentile_cont_udaf()) {
        return fraction(function).map(|fraction| Wants::At { fraction, distinct });
    }
    let sums = is(functions::count::count_udaf())
        || is(functions::sum::sum_udaf())
        || is(functions::average::avg_udaf());
    (plain && distinct && sums).then_some(Wants::Distinct)
}

/// Returns true if a function declares that its states are values ([`KEEPS_VALUES`]).
fn keeps_values(function: &AggregateFunctionExpr) -> bool {
    let Ok(fields) = function.state_fields() else { return false };
    fields.iter().all(|field| field.metadata().contains_key(KEEPS_VALUES))
}

/// Returns the values that the result of a function with [`KEEPS_VALUES`] depends on, if it can be
/// computed from values in order; else `None`.
fn in_order(function: &AggregateFunctionExpr, state_types: &[DataType]) -> Option<Wants> {
    let [DataType::List(values)] = state_types else { return None };
    let (name, distinct) = (function.fun().name(), function.is_distinct());
    if values.data_type().is_nested() {
        return None;
    }
    let descending = is_descending(function);
    match name {
        "mode" if !distinct => Some(Wants::Mode { last: descending }),
        "percentile_cont" if values.data_type().is_floating() => {
            fraction(function).map(|fraction| Wants::At { fraction, distinct })
        }
        "quantile_disc" => {
            let fraction = literal_fraction(function)?;
            Some(Wants::Rank { fraction, descending, distinct })
        }
        _ => None,
    }
}

/// Returns true for `array_agg` and `string_agg` with ORDER BY and without DISTINCT.
pub(crate) fn is_ordered_list(function: &AggregateFunctionExpr) -> bool {
    is_list(stock(function.fun())) && !function.order_bys().is_empty() && !function.is_distinct()
}

/// Returns `array_agg` or `string_agg` without its ORDER BY if `input` already has that order, so
/// that values are appended as they come; `None` for any other function or order.
///
/// # Errors
/// DataFusion's, if it cannot create the function.
pub(super) fn in_input_order(
    function: &AggregateFunctionExpr,
    input: &EquivalenceProperties,
    input_schema: &SchemaRef,
) -> Result<Option<Arc<AggregateFunctionExpr>>> {
    if !is_ordered_list(function) || function.is_reversed() {
        return Ok(None);
    }
    if !input.ordering_satisfy(function.order_bys().iter().cloned())? {
        return Ok(None);
    }
    let stock = Arc::new(function.fun().clone());
    let plain = AggregateExprBuilder::new(stock, function.expressions())
        .schema(Arc::clone(input_schema))
        .alias(function.name())
        .with_ignore_nulls(function.ignore_nulls());
    Ok(Some(Arc::new(plain.build()?)))
}

/// Returns true if the state of an aggregate grows with its group.
pub(super) fn grows(function: &AggregateFunctionExpr) -> bool {
    let Ok(fields) = function.state_fields() else { return false };
    let types: Vec<_> = fields.iter().map(|field| field.data_type().clone()).collect();
    is_list(stock(function.fun())) || wants(function, &types).is_some()
}

/// Returns the literal fraction of a percentile, counted from the least value; `None` if the second
/// argument is no constant.
fn fraction(function: &AggregateFunctionExpr) -> Option<f64> {
    let fraction = literal_fraction(function)?;
    Some(if is_descending(function) { 1.0 - fraction } else { fraction })
}

fn literal_fraction(function: &AggregateFunctionExpr) -> Option<f64> {
    let arguments = function.expressions();
    let literal = arguments.get(1)?.downcast_ref::<Literal>()?;
    match literal.value().cast_to(&DataType::Float64) {
        Ok(ScalarValue::Float64(fraction)) => fraction,
        _ => None,
    }
}

fn is_descending(function: &AggregateFunctionExpr) -> bool {
    function.order_bys().first().is_some_and(|key| key.options.descending)
}

/// The states of all groups outside of their rows, indexed by group, to be written in pieces.
#[derive(Debug)]
pub(super) struct States {
    columns: Vec<StateColumn>,
    /// Maximum number of values in a piece.
    most: usize,
}

/// One column of states, indexed by group.
#[derive(Debug)]
pub(super) struct StateColumn {
    pub(super) array: ArrayRef,
    /// The state of a group of which no row is taken, in one row; `None` for a list, which is cut
    /// into pieces.
    pub(super) neutral: Option<ArrayRef>,
}

impl States {
    /// Creates states whose lists are cut into pieces of about `piece_bytes` bytes.
    pub(super) fn new(columns: Vec<StateColumn>, piece_bytes: usize) -> Self {
        let of = |column: &StateColumn| {
            let lists = column.lists()?;
            let (bytes, values) = (lists.values().get_buffer_memory_size(), lists.values().len());
            Some(piece_bytes / (bytes / values.max(1)).max(1))
        };
        let most = columns.iter().filter_map(of).min();
        Self { columns, most: most.unwrap_or(PIECE_VALUES).clamp(1, PIECE_VALUES) }
    }

    /// Returns the number of values in a group's longest list.
    fn len(&self, group: usize) -> usize {
        let lists = self.columns.iter().filter_map(StateColumn::lists);
        lists.map(|lists| to_len(lists.value_length(group))).max().unwrap_or(0)
    }

    /// Returns the number of pieces that a group's states are cut into.
    pub(super) fn pieces(&self, group: usize) -> usize {
        self.len(group).div_ceil(self.most).max(1)
    }

    /// Returns the number of leading `picks` (group and piece), at least 1 and at most `rows`, that
    /// have no more values together than one piece.
    pub(super) fn at_once(&self, picks: &[(usize, usize)], rows: usize) -> usize {
        let mut values = 0;
        let fits = picks.iter().take(rows).take_while(|(group, _)| {
            values += self.len(*group).min(self.most);
            values <= self.most
        });
        fits.count().max(1)
    }

    /// Returns one column per state with a row for each of `picks` (group and piece). Pieces after
    /// the first have the neutral state where a state is not a list.
    pub(super) fn take(&self, picks: &[(usize, usize)]) -> Result<Vec<ArrayRef>> {
        self.columns.iter().map(|column| column.take(picks, self.most)).collect()
    }
}

impl StateColumn {
    fn lists(&self) -> Option<&ListArray> {
        if self.neutral.is_some() { None } else { self.array.as_list_opt() }
    }

    fn take(&self, picks: &[(usize, usize)], most: usize) -> Result<ArrayRef> {
        if let Some(neutral) = &self.neutral {
            let place = |pick: &(usize, usize)| if pick.1 == 0 { (0, pick.0) } else { (1, 0) };
            let places: Vec<_> = picks.iter().map(place).collect();
            return Ok(interleave(&[&self.array, neutral], &places)?);
        }
        let Some(lists) = self.lists() else {
            return internal_err!("a state of {} cannot be cut", self.array.data_type());
        };
        let data = lists.values().to_data();
        let mut values = MutableArrayData::new(vec![&data], false, picks.len());
        let mut offsets = vec![0_i32];
        for (group, piece) in picks {
            let ends = lists.value_offsets();
            let (start, end) = (to_len(ends[*group]), to_len(ends[*group + 1]));
            let from = (start + piece * most).min(end);
            if !lists.is_null(*group) {
                values.try_extend(0, from, (from + most).min(end))?;
            }
            offsets.push(i32::try_from(values.len()).unwrap_or(i32::MAX));
        }
        let DataType::List(field) = lists.data_type() else {
            return internal_err!("a list of {}", lists.data_type());
        };
        let nulls = lists.nulls().map(|nulls| {
            picks.iter().map(|(group, _)| nulls.is_valid(*group)).collect::<NullBuffer>()
        });
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let values = make_array(values.freeze());
        Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, nulls)?))
    }
}

fn to_len(offset: i32) -> usize {
    usize::try_from(offset).unwrap_or(0)
}

/// Concatenates the values of all lists of an array that are not null.
pub(super) fn flatten(lists: &ArrayRef) -> Result<ArrayRef> {
    let Some(lists) = lists.as_list_opt::<i32>() else {
        return internal_err!("{} is no list", lists.data_type());
    };
    if lists.null_count() == 0 {
        let ends = lists.value_offsets();
        let (Some(first), Some(last)) = (ends.first(), ends.last()) else {
            return Ok(new_empty_array(&lists.value_type()));
        };
        return Ok(lists.values().slice(to_len(*first), to_len(last - first)));
    }
    let data = lists.values().to_data();
    let mut values = MutableArrayData::new(vec![&data], false, data.len());
    for row in (0..lists.len()).filter(|row| lists.is_valid(*row)) {
        let ends = lists.value_offsets();
        values.try_extend(0, to_len(ends[row]), to_len(ends[row + 1]))?;
    }
    Ok(make_array(values.freeze()))
}

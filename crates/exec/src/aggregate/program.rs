//! Program of an aggregation: keys, arguments, and their evaluation.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{
    ConstExpr, EquivalenceProperties, GroupsAccumulatorAdapter, PhysicalExpr,
};
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateOutputMode, PhysicalGroupBy, aggregate_expressions,
    evaluate_group_by,
};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::cell::{self, Cell, Input, Room};
use super::options::AggregateOptions;
use super::oversized_group::Picker;
use super::spill::Pages;
use super::values::{self, Wants};
use crate::floats::all_canonical;
use crate::sort::piece::array_bytes;

/// The computation of a node, for one of its partitions.
#[derive(Debug)]
pub(super) struct Program {
    group_by: PhysicalGroupBy,
    input_schema: SchemaRef,
    /// Schema of the functions' arguments; not the input's if the input is states.
    value_schema: SchemaRef,
    output_schema: SchemaRef,
    key_types: Vec<DataType>,
    aggregates: Vec<Aggregate>,
    /// True if the input has states of a partial aggregation, not values.
    merges: bool,
    /// True if the output has states for another aggregation to merge, not results.
    hands_on: bool,
    options: AggregateOptions,
}

/// One aggregate function of the node, with its arguments and its filter.
#[derive(Debug)]
pub(super) struct Aggregate {
    pub(super) function: Arc<AggregateFunctionExpr>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    pub(super) state_types: Vec<DataType>,
    /// The values of a group that the result depends on, if the state is a list of values.
    pub(super) wants: Option<Wants>,
}

/// Returns the order of the rows within a group: that of the input, in which the group's keys are
/// constant. DataFusion leaves the keys out of the order that it requires of the input.
fn order_in_groups(stock: &AggregateExec) -> Result<EquivalenceProperties> {
    let mut order = stock.input().equivalence_properties().clone();
    let keys = stock.group_expr();
    if !keys.has_grouping_set() {
        order.add_constants(keys.input_exprs().into_iter().map(ConstExpr::from))?;
    }
    Ok(order)
}

/// One accumulator for every aggregate, each of which converts rows to states.
pub(super) type Converters = Vec<Box<dyn GroupsAccumulator>>;

/// Location of the states of an aggregate: in the row of the group, or in an accumulator.
pub(super) enum State {
    /// In the rows of the groups.
    Cell(Box<dyn Cell>),
    /// In an accumulator outside of the rows, indexed by the number of the group.
    Beside(Box<dyn GroupsAccumulator>),
    /// Not in this table: a [`Picker`] sorts the values of the only group.
    Aside,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cell(cell) => cell.fmt(f),
            Self::Beside(_) => f.write_str("Beside"),
            Self::Aside => f.write_str("Aside"),
        }
    }
}

/// The keys of a batch for one grouping set, and the arguments of every aggregate.
#[derive(Clone, Debug)]
pub(super) struct Evaluated {
    pub(super) keys: Vec<ArrayRef>,
    pub(super) arguments: Arc<[Arguments]>,
    /// True if the arguments are states.
    pub(super) states: bool,
}

/// The arguments (or states) of one aggregate for one batch, and the rows that its filter admits.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) filter: Option<BooleanArray>,
}

impl Arguments {
    pub(super) fn input(&self, states: bool) -> Input<'_> {
        Input { columns: &self.columns, filter: self.filter.as_ref(), states }
    }
}

impl Program {
    /// Compiles the computation of a node that can be replaced.
    ///
    /// # Errors
    /// DataFusion's, for the node's expressions.
    pub(super) fn new(stock: &AggregateExec, options: AggregateOptions) -> Result<Self> {
        let input_schema = stock.input().schema();
        let group_by = stock.group_expr().clone();
        let keys = group_by.group_schema(&input_schema)?;
        let mut key_types: Vec<_> =
            keys.fields().iter().map(|field| field.data_type().clone()).collect();
        if key_types.is_empty() {
            // Without keys all rows have the same one.
            key_types.push(DataType::Boolean);
        }
        let hands_on = stock.mode().output_mode() == AggregateOutputMode::Partial;
        let value_schema = stock.input_schema();
        let merges = stock.mode().input_mode() == AggregateInputMode::Partial;
        let count = group_by.num_group_exprs();
        let arguments = aggregate_expressions(stock.aggr_expr(), stock.mode(), count)?;
        let order = order_in_groups(stock)?;
        let in_order = |function: &Arc<AggregateFunctionExpr>| match merges || hands_on {
            // States are exchanged with operators that know the function with its ORDER BY.
            true => Ok(None),
            false => values::in_input_order(function, &order, &value_schema),
        };
        let aggregates = stock.aggr_expr().iter().zip(arguments).zip(stock.filter_expr());
        let aggregates = aggregates.map(|((function, mut arguments), filter)| {
            let filter = filter.clone().filter(|_| !merges);
            let plain = in_order(function)?;
            if let Some(plain) = &plain {
                arguments.truncate(plain.expressions().len());
            }
            let function = plain.as_ref().unwrap_or(function);
            Aggregate::new(function, arguments, filter, merges)
        });
        let aggregates = aggregates.collect::<Result<_>>()?;
        let output_schema = stock.schema();
        Ok(Self {
            group_by,
            input_schema,
            value_schema,
            output_schema,
            key_types,
            aggregates,
            merges,
            hands_on,
            options,
        })
    }

    pub(super) fn output_schema(&self) -> &SchemaRef {
        &self.output_schema
    }

    pub(super) fn options(&self) -> AggregateOptions {
        self.options
    }

    pub(super) fn key_types(&self) -> &[DataType] {
        &self.key_types
    }

    pub(super) fn aggregates(&self) -> &[Aggregate] {
        &self.aggregates
    }

    /// Returns true if there are no keys: there is one group, also without input.
    pub(super) fn has_no_keys(&self) -> bool {
        self.group_by.is_true_no_grouping()
    }

    /// Returns true if the output has states, for another aggregation to merge.
    pub(super) fn hands_on(&self) -> bool {
        self.hands_on
    }

    /// Returns true if a partition whose rows have one hash can be computed by [`Picker`]s: an
    /// aggregate reads its values in order, and no key is nested. DataFusion skips nulls when it
    /// hashes nested keys, so that different keys may have the same hash.
    pub(super) fn picks(&self) -> bool {
        self.aggregates.iter().any(Aggregate::is_in_order)
            && !self.key_types.iter().any(DataType::is_nested)
    }

    /// Creates the states of all aggregates; `room` allocates those in the rows. With `aside`, the
    /// aggregates that read their values in order have [`State::Aside`].
    pub(super) fn states(&self, room: &mut Room, aside: bool) -> Result<Vec<State>> {
        let state = |aggregate: &Aggregate| match aside && aggregate.is_in_order() {
            true => Ok(State::Aside),
            false => aggregate.state(room),
        };
        self.aggregates.iter().map(state).collect()
    }

    /// Returns one element per aggregate: a picker if it is computed from values in order, else
    /// `None`.
    pub(super) fn pickers(&self, pages: &Pages) -> Result<Vec<Option<Picker>>> {
        let picker = |aggregate: &Aggregate| {
            let wants = aggregate.wants.filter(|wants| wants.is_in_order());
            let schema = &self.value_schema;
            let state = &aggregate.state_types[0];
            wants.map(|wants| Picker::new(wants, &aggregate.function, schema, state, pages))
        };
        self.aggregates.iter().map(|aggregate| picker(aggregate).transpose()).collect()
    }

    /// Returns the state columns of a group of which no row is taken, one row each; `None` if the
    /// state of `aggregate` is a list of values.
    pub(super) fn neutral(&self, aggregate: &Aggregate) -> Result<Option<Vec<ArrayRef>>> {
        if aggregate.wants.is_some() {
            return Ok(None);
        }
        let mut state = aggregate.accumulator()?;
        let null = |argument: Arc<dyn PhysicalExpr>| {
            Ok(new_null_array(&argument.data_type(&self.value_schema)?, 1))
        };
        let arguments = aggregate.of_rows().into_iter().map(null);
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        state.update_batch(&arguments, &[0], Some(&BooleanArray::from(vec![false])), 1)?;
        Ok(Some(state.state(EmitTo::All)?))
    }

    /// Returns the converters of rows to states, one per aggregate; `None` if rows cannot be passed
    /// through: a state grows with its group, there are grouping sets, or the node is not a partial
    /// aggregation of values.
    pub(super) fn converters(&self) -> Result<Option<Converters>> {
        let is_bounded = |it: &Aggregate| !values::grows(&it.function);
        let can = self.hands_on && !self.merges && self.group_by.is_single();
        if !can || !self.aggregates.iter().all(is_bounded) {
            return Ok(None);
        }
        let converters = self.aggregates.iter().map(Aggregate::accumulator);
        converters.collect::<Result<_>>().map(Some)
    }

    /// Returns the output of a batch that is passed through: every row as a group of its own, with
    /// its keys and states.
    pub(super) fn convert(
        &self,
        batch: &RecordBatch,
        converters: &Converters,
    ) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.output_schema.fields().len());
        for keys in evaluate_group_by(&self.group_by, batch)? {
            columns.extend(all_canonical(&keys)?);
        }
        for (aggregate, converter) in self.aggregates.iter().zip(converters) {
            let Arguments { columns: arguments, filter } =
                evaluate(&aggregate.of_rows(), aggregate.filter.as_ref(), batch)?;
            columns.extend(converter.convert_to_state(&arguments, filter.as_ref())?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.output_schema), columns)?)
    }

    /// Evaluates keys and arguments of a batch; returns one element per grouping set.
    pub(super) fn evaluate(&self, batch: &RecordBatch) -> Result<Vec<Evaluated>> {
        let arguments =
            self.aggregates.iter().map(|it| evaluate(&it.arguments, it.filter.as_ref(), batch));
        let arguments: Arc<[Arguments]> = arguments.collect::<Result<Vec<_>>>()?.into();
        let sets = match self.has_no_keys() {
            true => vec![no_keys(batch.num_rows())],
            false => evaluate_group_by(&self.group_by, batch)?,
        };
        sets.iter().map(|keys| Evaluated::new(keys, &arguments, self.merges)).collect()
    }

    /// Returns the groups that exist even without input, one row each: those of empty grouping
    /// sets, or the only group if there are no keys. All arguments are filtered out.
    pub(super) fn without_input(&self) -> Result<Vec<Evaluated>> {
        let none = self.aggregates.iter().map(|aggregate| aggregate.none(&self.input_schema));
        if self.has_no_keys() && !self.merges {
            let arguments: Arc<[Arguments]> = none.collect::<Result<Vec<_>>>()?.into();
            return Ok(vec![Evaluated::new(&no_keys(1), &arguments, false)?]);
        }
        let groups = self.group_by.groups();
        let is_empty = |group: &Vec<bool>| group.iter().all(|null| *null);
        if !self.group_by.has_grouping_set() || !groups.iter().any(is_empty) {
            return Ok(Vec::new());
        }
        let fields = self.input_schema.fields().iter();
        let fields: Vec<Field> =
            fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let nulls = fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect();
        let one = RecordBatchOptions::new().with_row_count(Some(1));
        let schema = Arc::new(Schema::new(fields));
        let row = RecordBatch::try_new_with_options(schema, nulls, &one)?;
        let arguments: Arc<[Arguments]> = none.collect::<Result<Vec<_>>>()?.into();
        let sets = evaluate_group_by(&self.group_by, &row)?;
        let empty = sets.iter().zip(groups).filter(|(_, group)| is_empty(group));
        empty.map(|(keys, _)| Evaluated::new(keys, &arguments, false)).collect()
    }
}

fn evaluate(
    arguments: &[Arc<dyn PhysicalExpr>],
    filter: Option<&Arc<dyn PhysicalExpr>>,
    batch: &RecordBatch,
) -> Result<Arguments> {
    let array = |expression: &Arc<dyn PhysicalExpr>| {
        expression.evaluate(batch)?.into_array(batch.num_rows())
    };
    let columns = arguments.iter().map(array).collect::<Result<_>>()?;
    let filter = filter.map(array).transpose()?;
    Ok(Arguments { columns, filter: filter.map(|filter| filter.as_boolean().clone()) })
}

/// Returns the constant key column that stands for an empty GROUP BY.
fn no_keys(rows: usize) -> Vec<ArrayRef> {
    vec![Arc::new(BooleanArray::new(BooleanBuffer::new_unset(rows), None))]
}

impl Evaluated {
    fn new(keys: &[ArrayRef], arguments: &Arc<[Arguments]>, states: bool) -> Result<Self> {
        // The two zeros are one group, which is displayed as 0.0, and all NaNs are one.
        let keys = all_canonical(keys)?;
        Ok(Self { keys, arguments: Arc::clone(arguments), states })
    }

    pub(super) fn rows(&self) -> usize {
        self.keys.first().map_or(0, |key| key.len())
    }

    /// Returns the approximate bytes of the keys.
    pub(super) fn bytes(&self) -> usize {
        self.keys.iter().map(array_bytes).sum()
    }

    /// Returns `rows` rows beginning with row `from`, without a copy.
    pub(super) fn slice(&self, from: usize, rows: usize) -> Self {
        let slice = |arrays: &[ArrayRef]| arrays.iter().map(|it| it.slice(from, rows)).collect();
        let arguments = self.arguments.iter().map(|arguments| Arguments {
            columns: slice(&arguments.columns),
            filter: arguments.filter.as_ref().map(|filter| filter.slice(from, rows)),
        });
        Self { keys: slice(&self.keys), arguments: arguments.collect(), states: self.states }
    }
}

impl Aggregate {
    fn new(
        function: &Arc<AggregateFunctionExpr>,
        mut arguments: Vec<Arc<dyn PhysicalExpr>>,
        filter: Option<Arc<dyn PhysicalExpr>>,
        merges: bool,
    ) -> Result<Self> {
        if !merges && cell::counts_rows(function) {
            arguments.clear();
        }
        let fields = function.state_fields()?;
        let state_types: Vec<_> = fields.iter().map(|field| field.data_type().clone()).collect();
        let wants = values::wants(function, &state_types);
        Ok(Self { function: Arc::clone(function), arguments, filter, state_types, wants })
    }

    fn state(&self, room: &mut Room) -> Result<State> {
        if let Some(cell) = cell::choose(&self.function, room)? {
            return Ok(State::Cell(cell));
        }
        Ok(State::Beside(self.accumulator()?))
    }

    fn accumulator(&self) -> Result<Box<dyn GroupsAccumulator>> {
        if self.function.groups_accumulator_supported() {
            return self.function.create_groups_accumulator();
        }
        let function = Arc::clone(&self.function);
        let create = move || function.create_accumulator();
        Ok(Box::new(GroupsAccumulatorAdapter::new(create)))
    }

    /// Returns the inputs of DataFusion's accumulator: the arguments, and the expressions of ORDER
    /// BY.
    fn of_rows(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let order = self.function.order_bys().iter().map(|sort| Arc::clone(&sort.expr));
        self.function.expressions().into_iter().chain(order).collect()
    }

    fn is_in_order(&self) -> bool {
        self.wants.is_some_and(Wants::is_in_order)
    }

    /// Returns the arguments of one row that is not taken.
    fn none(&self, schema: &Schema) -> Result<Arguments> {
        let null = |expression: &Arc<dyn PhysicalExpr>| {
            Ok(new_null_array(&expression.data_type(schema)?, 1))
        };
        let columns = self.arguments.iter().map(null).collect::<Result<_>>()?;
        Ok(Arguments { columns, filter: Some(BooleanArray::from(vec![false])) })
    }
}

//! What an aggregation computes: keys, arguments, and what becomes of them.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::utils::normalize_float_zero;
use datafusion::logical_expr::GroupsAccumulator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{GroupsAccumulatorAdapter, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, PhysicalGroupBy, aggregate_expressions, evaluate_group_by,
};

use super::cell::{self, Cell, Input, Room};

/// The computation of a node, for one of its partitions.
#[derive(Debug)]
pub(super) struct Program {
    group_by: PhysicalGroupBy,
    input_schema: SchemaRef,
    output_schema: SchemaRef,
    key_types: Vec<DataType>,
    aggregates: Vec<Aggregate>,
    /// The input has states, not values.
    merges: bool,
}

/// One aggregate.
#[derive(Debug)]
pub(super) struct Aggregate {
    pub(super) function: Arc<AggregateFunctionExpr>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    pub(super) state_types: Vec<DataType>,
}

/// Where the states of an aggregate are.
pub(super) enum State {
    /// In the rows.
    Cell(Box<dyn Cell>),
    /// Beside the rows, by the number of the group.
    Beside(Box<dyn GroupsAccumulator>),
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cell(cell) => cell.fmt(f),
            Self::Beside(_) => f.write_str("Beside"),
        }
    }
}

/// A batch, evaluated: keys and the arguments of every aggregate.
#[derive(Debug)]
pub(super) struct Evaluated {
    pub(super) keys: Vec<ArrayRef>,
    pub(super) arguments: Arc<[Arguments]>,
    /// The arguments are states.
    pub(super) states: bool,
}

/// The arguments of one aggregate for one batch.
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
    /// The computation of a node that can be replaced.
    ///
    /// # Errors
    /// What DataFusion says of the node's expressions.
    pub(super) fn new(stock: &AggregateExec) -> Result<Self> {
        let input_schema = stock.input().schema();
        let group_by = stock.group_expr().clone();
        let keys = group_by.group_schema(&input_schema)?;
        let key_types = keys.fields().iter().map(|field| field.data_type().clone()).collect();
        let merges = stock.mode().input_mode() == AggregateInputMode::Partial;
        let count = group_by.num_group_exprs();
        let arguments = aggregate_expressions(stock.aggr_expr(), stock.mode(), count)?;
        let aggregates = stock.aggr_expr().iter().zip(arguments).zip(stock.filter_expr());
        let aggregates = aggregates.map(|((function, arguments), filter)| {
            let filter = filter.clone().filter(|_| !merges);
            Aggregate::new(function, arguments, filter, merges)
        });
        let aggregates = aggregates.collect::<Result<_>>()?;
        let output_schema = stock.schema();
        Ok(Self { group_by, input_schema, output_schema, key_types, aggregates, merges })
    }

    pub(super) fn output_schema(&self) -> &SchemaRef {
        &self.output_schema
    }

    pub(super) fn key_types(&self) -> &[DataType] {
        &self.key_types
    }

    pub(super) fn aggregates(&self) -> &[Aggregate] {
        &self.aggregates
    }

    /// Fresh states, those in the rows from `room` on.
    pub(super) fn states(&self, room: &mut Room) -> Result<Vec<State>> {
        self.aggregates.iter().map(|aggregate| aggregate.state(room)).collect()
    }

    /// Evaluates a batch, once for every grouping set.
    pub(super) fn evaluate(&self, batch: &RecordBatch) -> Result<Vec<Evaluated>> {
        let arguments = self.aggregates.iter().map(|aggregate| aggregate.evaluate(batch));
        let arguments: Arc<[Arguments]> = arguments.collect::<Result<Vec<_>>>()?.into();
        let sets = evaluate_group_by(&self.group_by, batch)?;
        Ok(sets.iter().map(|keys| Evaluated::new(keys, &arguments, self.merges)).collect())
    }

    /// The groups that there are even without input: those of empty grouping sets. Their arguments
    /// are all filtered out.
    pub(super) fn without_input(&self) -> Result<Vec<Evaluated>> {
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
        let none = self.aggregates.iter().map(|aggregate| aggregate.none(&self.input_schema));
        let arguments: Arc<[Arguments]> = none.collect::<Result<Vec<_>>>()?.into();
        let sets = evaluate_group_by(&self.group_by, &row)?;
        let empty = sets.iter().zip(groups).filter(|(_, group)| is_empty(group));
        Ok(empty.map(|(keys, _)| Evaluated::new(keys, &arguments, false)).collect())
    }
}

impl Evaluated {
    fn new(keys: &[ArrayRef], arguments: &Arc<[Arguments]>, states: bool) -> Self {
        // The two zeros are one group, and it is shown as 0.0.
        let keys = keys.iter().map(normalize_float_zero).collect();
        Self { keys, arguments: Arc::clone(arguments), states }
    }

    pub(super) fn rows(&self) -> usize {
        self.keys.first().map_or(0, |key| key.len())
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
        let state_types = fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Self { function: Arc::clone(function), arguments, filter, state_types })
    }

    fn state(&self, room: &mut Room) -> Result<State> {
        if let Some(cell) = cell::choose(&self.function, room)? {
            return Ok(State::Cell(cell));
        }
        if self.function.groups_accumulator_supported() {
            return Ok(State::Beside(self.function.create_groups_accumulator()?));
        }
        let function = Arc::clone(&self.function);
        let create = move || function.create_accumulator();
        Ok(State::Beside(Box::new(GroupsAccumulatorAdapter::new(create))))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<Arguments> {
        let array = |expression: &Arc<dyn PhysicalExpr>| {
            expression.evaluate(batch)?.into_array(batch.num_rows())
        };
        let columns = self.arguments.iter().map(array).collect::<Result<_>>()?;
        let filter = self.filter.as_ref().map(array).transpose()?;
        Ok(Arguments { columns, filter: filter.map(|filter| filter.as_boolean().clone()) })
    }

    /// Arguments of one row that is not taken.
    fn none(&self, schema: &Schema) -> Result<Arguments> {
        let null = |expression: &Arc<dyn PhysicalExpr>| {
            Ok(new_null_array(&expression.data_type(schema)?, 1))
        };
        let columns = self.arguments.iter().map(null).collect::<Result<_>>()?;
        Ok(Arguments { columns, filter: Some(BooleanArray::from(vec![false])) })
    }
}

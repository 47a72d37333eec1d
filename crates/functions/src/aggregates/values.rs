//! The values of every group, kept as they come.
//!
//! The accumulator is that of DataFusion's `array_agg`: it refers to the rows of the input by
//! number and takes eight bytes a row beside the values themselves.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, ListArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::Result;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use super::factory::{Factory, list_of};

/// Computes the results of groups from the lists of their values.
pub(super) type Finish = Arc<dyn Fn(&ListArray) -> Result<ArrayRef> + Send + Sync>;

/// The values of groups that are not null, and the function of them.
pub(super) struct Values {
    lists: Box<dyn GroupsAccumulator>,
    finish: Finish,
}

impl Values {
    pub(super) fn new(values: &DataType, finish: Finish) -> Result<Self> {
        Ok(Self { lists: lists(values)?, finish })
    }

    /// Returns the factory of accumulators over values of a type.
    pub(super) fn factory(
        values: &DataType,
        finish: impl Fn(&ListArray) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Factory {
        let (values, finish): (_, Finish) = (values.clone(), Arc::new(finish));
        Arc::new(move || Ok(Box::new(Self::new(&values, Arc::clone(&finish))?)))
    }
}

/// Creates an accumulator of lists of the values that are not null.
pub(super) fn lists(values: &DataType) -> Result<Box<dyn GroupsAccumulator>> {
    let field: FieldRef = Arc::new(Field::new("value", values.clone(), true));
    let schema = Schema::new(vec![Arc::clone(&field)]);
    let value: Arc<dyn PhysicalExpr> = Arc::new(Column::new("value", 0));
    array_agg_udaf().create_groups_accumulator(AccumulatorArgs {
        return_field: Arc::new(Field::new("values", list_of(values.clone()), true)),
        schema: &schema,
        ignore_nulls: true,
        order_bys: &[],
        is_reversed: false,
        name: "values",
        is_distinct: false,
        exprs: &[value],
        expr_fields: &[field],
    })
}

impl GroupsAccumulator for Values {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.lists.update_batch(&values[..1], groups, filter, total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.lists.merge_batch(states, groups, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        (self.finish)(self.lists.evaluate(emit)?.as_list())
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.lists.state(emit)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.lists.convert_to_state(&values[..1], filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.lists.size()
    }
}

//! The values of every group, kept as they come.
//!
//! The accumulator is that of DataFusion's `array_agg`: it refers to the rows of the input by
//! number and takes eight bytes a row beside the values themselves.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::Result;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use super::factory::{Factory, list_of};

/// Minimum number of rows between two trims of the lists; more if the lists keep more values.
const ROWS_BETWEEN_TRIMS: usize = 1 << 16;

/// Computes the results of groups from the lists of their values.
pub(super) type Finish = Arc<dyn Fn(&ListArray) -> Result<ArrayRef> + Send + Sync>;

/// Accumulator of the values of each group that are not null; `finish` computes the results.
pub(super) struct Values {
    lists: Box<dyn GroupsAccumulator>,
    finish: Finish,
    trim: Option<Trim>,
}

/// Counters of an accumulator that keeps only a part of the values of each group.
struct Trim {
    /// Values kept by the last trim, and rows since.
    kept: usize,
    rows: usize,
}

impl Values {
    pub(super) fn new(values: &DataType, finish: Finish) -> Result<Self> {
        Ok(Self { lists: lists(values)?, finish, trim: None })
    }

    /// Creates an accumulator that from time to time replaces the lists of values by what `finish`
    /// returns for them, which must be lists of a part of the values.
    pub(super) fn trimmed(values: &DataType, finish: Finish) -> Result<Self> {
        let trim = Some(Trim { kept: 0, rows: 0 });
        Ok(Self { lists: lists(values)?, finish, trim })
    }

    /// Returns the factory of accumulators over values of a type.
    pub(super) fn factory(
        values: &DataType,
        finish: impl Fn(&ListArray) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Factory {
        let (values, finish): (_, Finish) = (values.clone(), Arc::new(finish));
        Arc::new(move || Ok(Box::new(Self::new(&values, Arc::clone(&finish))?)))
    }

    /// Counts values that were added, and trims the lists if there are many.
    fn added(&mut self, rows: usize) -> Result<()> {
        let Some(trim) = &mut self.trim else { return Ok(()) };
        trim.rows += rows;
        if trim.rows > ROWS_BETWEEN_TRIMS.max(trim.kept) {
            let lists = self.evaluate(EmitTo::All)?;
            let groups: Vec<usize> = (0..lists.len()).collect();
            let kept = lists.as_list_opt::<i32>().map_or(0, |lists| lists.values().len());
            self.trim = Some(Trim { kept, rows: 0 });
            self.lists.merge_batch(&[lists], &groups, groups.len())?;
        }
        Ok(())
    }
}

/// Creates an accumulator of lists of the values that are not null.
fn lists(values: &DataType) -> Result<Box<dyn GroupsAccumulator>> {
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
        self.lists.update_batch(&values[..1], groups, filter, total)?;
        self.added(groups.len())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.lists.merge_batch(states, groups, total)?;
        let values = states.first().and_then(|lists| lists.as_list_opt::<i32>());
        self.added(values.map_or(0, |lists| lists.values().len()))
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        if let (Some(trim), EmitTo::All) = (&mut self.trim, emit) {
            *trim = Trim { kept: 0, rows: 0 };
        }
        (self.finish)(self.lists.evaluate(emit)?.as_list())
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        match self.trim {
            Some(_) => Ok(vec![self.evaluate(emit)?]),
            None => self.lists.state(emit),
        }
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

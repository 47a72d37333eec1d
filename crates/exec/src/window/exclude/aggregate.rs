//! Aggregate functions over frames that exclude rows.
//!
//! The result of each row is computed from an empty state: for a long part of its frame, the states
//! of whole blocks of rows, which are computed once per partition, are merged into it, and the rows
//! before and after these blocks are added.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, BooleanArray};
use datafusion::arrow::compute::{filter, prep_null_mask_filter};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, PartitionEvaluator, Signature, Volatility, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, Literal};

use super::rows::{Exclusion, Peers};

/// Rows of a block whose state is kept.
const BLOCK_ROWS: usize = 256;

/// An aggregate function whose frames exclude rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExcludingAggregate {
    function: Arc<AggregateUDF>,
    exclusion: Exclusion,
    is_distinct: bool,
    ignores_nulls: bool,
    is_filtered: bool,
    signature: Signature,
}

impl ExcludingAggregate {
    /// Creates the function that computes `function` over frames with an exclusion.
    #[must_use]
    pub fn new(function: Arc<AggregateUDF>, exclusion: Exclusion) -> Self {
        let signature = Signature::user_defined(Volatility::Immutable);
        Self {
            function,
            exclusion,
            is_distinct: false,
            ignores_nulls: false,
            is_filtered: false,
            signature,
        }
    }

    /// If true, rows whose arguments occurred before in the frame are ignored (DISTINCT).
    #[must_use]
    pub fn with_distinct(mut self, is_distinct: bool) -> Self {
        self.is_distinct = is_distinct;
        self
    }

    /// If true, rows whose argument is null are ignored (IGNORE NULLS).
    #[must_use]
    pub fn with_ignored_nulls(mut self, ignores_nulls: bool) -> Self {
        self.ignores_nulls = ignores_nulls;
        self
    }

    /// If true, the last argument is a condition, and rows for which it is not true are ignored
    /// (FILTER).
    #[must_use]
    pub fn with_filter(mut self, is_filtered: bool) -> Self {
        self.is_filtered = is_filtered;
        self
    }

    /// Returns the number of arguments of the aggregate function, out of `given` ones.
    fn arguments(&self, given: usize) -> usize {
        given.saturating_sub(usize::from(self.is_filtered))
    }

    /// Builds the aggregate function over columns of its arguments; literals stay literals.
    fn over(&self, given: &[Arc<dyn PhysicalExpr>], fields: &[FieldRef]) -> Result<Function> {
        let count = self.arguments(given.len());
        let columns = fields.iter().take(count).enumerate();
        let columns = columns.map(|(place, field)| {
            let field = field.as_ref().clone().with_name(format!("argument {place}"));
            Arc::new(field)
        });
        let schema = Arc::new(Schema::new(columns.collect::<Vec<FieldRef>>()));
        let arguments =
            given.iter().take(count).enumerate().map(|(place, expr)| match expr.is::<Literal>() {
                true => Arc::clone(expr),
                false => {
                    let column = Column::new(schema.field(place).name(), place);
                    Arc::new(column) as Arc<dyn PhysicalExpr>
                }
            });
        let arguments = arguments.collect();
        let function = AggregateExprBuilder::new(Arc::clone(&self.function), arguments)
            .schema(schema)
            .alias(self.function.name())
            .with_distinct(self.is_distinct)
            .with_ignore_nulls(self.ignores_nulls)
            .build()?;
        Ok(Function { function, arguments: count })
    }
}

impl WindowUDFImpl for ExcludingAggregate {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Types were coerced for the aggregate function.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let fields = args.input_fields();
        let field = self.function.return_field(&fields[..self.arguments(fields.len())])?;
        let data_type = field.data_type().clone();
        Ok(Arc::new(Field::new(args.name(), data_type, self.function.is_nullable())))
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Evaluator {
            function: self.over(args.input_exprs(), args.input_fields())?,
            exclusion: self.exclusion,
            is_filtered: self.is_filtered,
            peers: Peers::default(),
            input: None,
            last: None,
        }))
    }
}

/// An aggregate function, and the number of its arguments.
#[derive(Debug)]
struct Function {
    function: AggregateFunctionExpr,
    arguments: usize,
}

/// Computes the rows of one partition, in order.
#[derive(Debug)]
struct Evaluator {
    function: Function,
    exclusion: Exclusion,
    is_filtered: bool,
    peers: Peers,
    input: Option<Input>,
    /// The rows of the last frame, and their value.
    last: Option<([Range<usize>; 3], ScalarValue)>,
}

impl PartitionEvaluator for Evaluator {
    fn uses_window_frame(&self) -> bool {
        true
    }

    fn evaluate(&mut self, values: &[ArrayRef], frame: &Range<usize>) -> Result<ScalarValue> {
        let (arguments, rest) = values.split_at(self.function.arguments);
        let (condition, keys) = rest.split_at(usize::from(self.is_filtered));
        let rows = values.first().map_or(0, |values| values.len());
        let (row, peers) = self.peers.next(keys, rows)?;
        let input = match &mut self.input {
            Some(input) => input,
            none => none.insert(Input::new(arguments, condition.first())?),
        };
        let parts = self.exclusion.remaining(frame, row, &peers).map(|part| input.kept(&part));
        if let Some((last, value)) = &self.last
            && *last == parts
        {
            return Ok(value.clone());
        }
        let mut state = self.function.function.create_accumulator()?;
        for part in &parts {
            input.add(state.as_mut(), part, &self.function.function)?;
        }
        let value = state.evaluate()?;
        self.last = Some((parts, value.clone()));
        Ok(value)
    }
}

/// The arguments of the rows of a partition that satisfy the condition.
#[derive(Debug)]
struct Input {
    arguments: Vec<ArrayRef>,
    /// Number of rows before each row that satisfy the condition; `None` without a condition.
    kept_before: Option<Vec<usize>>,
    /// The states of all blocks, one column for each part of a state, once they are needed.
    blocks: Option<Vec<ArrayRef>>,
}

impl Input {
    fn new(arguments: &[ArrayRef], condition: Option<&ArrayRef>) -> Result<Self> {
        let Some(condition) = condition else {
            return Ok(Self { arguments: arguments.to_vec(), kept_before: None, blocks: None });
        };
        let condition = condition_of(condition)?;
        let kept = arguments.iter().map(|argument| Ok(filter(argument, &condition)?));
        let mut before = vec![0];
        let mut count = 0;
        before.extend(condition.values().iter().map(|is_kept| {
            count += usize::from(is_kept);
            count
        }));
        Ok(Self {
            arguments: kept.collect::<Result<_>>()?,
            kept_before: Some(before),
            blocks: None,
        })
    }

    /// The places of the rows of a part among those that satisfy the condition.
    fn kept(&self, part: &Range<usize>) -> Range<usize> {
        let place = |row: usize| match &self.kept_before {
            Some(before) => before.get(row).copied().unwrap_or(0),
            None => row,
        };
        place(part.start)..place(part.end)
    }

    /// Adds rows to a state.
    fn add(
        &mut self,
        state: &mut dyn Accumulator,
        part: &Range<usize>,
        function: &AggregateFunctionExpr,
    ) -> Result<()> {
        if part.len() < 2 * BLOCK_ROWS {
            return self.update(state, part);
        }
        let first = part.start.div_ceil(BLOCK_ROWS);
        let behind = part.end / BLOCK_ROWS;
        self.update(state, &(part.start..first * BLOCK_ROWS))?;
        let blocks: Vec<_> =
            self.blocks(function)?.iter().map(|it| it.slice(first, behind - first)).collect();
        state.merge_batch(&blocks)?;
        self.update(state, &(behind * BLOCK_ROWS..part.end))
    }

    fn update(&self, state: &mut dyn Accumulator, part: &Range<usize>) -> Result<()> {
        if part.is_empty() {
            return Ok(());
        }
        let slice = |argument: &ArrayRef| argument.slice(part.start, part.len());
        state.update_batch(&self.arguments.iter().map(slice).collect::<Vec<_>>())
    }

    /// The states of all whole blocks.
    fn blocks(&mut self, function: &AggregateFunctionExpr) -> Result<&[ArrayRef]> {
        if self.blocks.is_none() {
            let rows = self.arguments.first().map_or(0, |argument| argument.len());
            let mut columns: Vec<Vec<ScalarValue>> = Vec::new();
            for block in 0..rows / BLOCK_ROWS {
                let mut state = function.create_accumulator()?;
                self.update(state.as_mut(), &(block * BLOCK_ROWS..(block + 1) * BLOCK_ROWS))?;
                let values = state.state()?;
                columns.resize_with(values.len(), Vec::new);
                columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
            }
            let columns = columns.into_iter().map(ScalarValue::iter_to_array);
            self.blocks = Some(columns.collect::<Result<_>>()?);
        }
        Ok(self.blocks.as_deref().unwrap_or_default())
    }
}

/// The condition of each row; not true where it is null.
fn condition_of(condition: &ArrayRef) -> Result<BooleanArray> {
    let condition = as_boolean_array(condition)?;
    Ok(match condition.null_count() {
        0 => condition.clone(),
        _ => prep_null_mask_filter(condition),
    })
}

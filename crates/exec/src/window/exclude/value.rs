//! `first_value`, `last_value` and `nth_value` of frames that exclude rows.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{PartitionEvaluator, Signature, Volatility, WindowUDFImpl};
use datafusion::physical_expr::expressions::Literal;

use super::rows::{Exclusion, Peers};

/// The row of a frame whose value is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pick {
    /// The first row.
    First,
    /// The last row.
    Last,
    /// The row whose number is the second argument; from the end if that is negative.
    Nth,
}

impl Pick {
    /// Returns the row that the window function `name` picks; `None` for other functions.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let all = [Self::First, Self::Last, Self::Nth];
        all.into_iter().find(|pick| pick.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::First => "first_value",
            Self::Last => "last_value",
            Self::Nth => "nth_value",
        }
    }
}

/// Window function that returns the argument's value in one row of a frame that excludes rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExcludingValue {
    pick: Pick,
    exclusion: Exclusion,
    signature: Signature,
}

impl ExcludingValue {
    /// Creates the function that picks a value of frames with an exclusion.
    #[must_use]
    pub fn new(pick: Pick, exclusion: Exclusion) -> Self {
        let signature = Signature::user_defined(Volatility::Immutable);
        Self { pick, exclusion, signature }
    }
}

impl WindowUDFImpl for ExcludingValue {
    fn name(&self) -> &str {
        self.pick.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Types were coerced for the function that it replaces.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let Some(value) = args.get_input_field(0) else {
            return plan_err!("{} has no argument", self.name());
        };
        Ok(Arc::new(Field::new(args.name(), value.data_type().clone(), true)))
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let number = match self.pick {
            Pick::First => 1,
            Pick::Last => -1,
            Pick::Nth => {
                let number = args.input_exprs().get(1).and_then(|it| it.downcast_ref::<Literal>());
                let number = number.map(|it| it.value().cast_to(&DataType::Int64)).transpose()?;
                match number {
                    Some(ScalarValue::Int64(Some(number))) => number,
                    _ => return plan_err!("the number of nth_value must be a constant"),
                }
            }
        };
        Ok(Box::new(Evaluator {
            arguments: args.input_exprs().len(),
            number,
            ignores_nulls: args.ignore_nulls(),
            exclusion: self.exclusion,
            peers: Peers::default(),
        }))
    }
}

/// Picks the value of each row of one partition, in order.
#[derive(Debug)]
struct Evaluator {
    arguments: usize,
    /// Number of the row in its frame, from 1; from the end if it is negative.
    number: i64,
    ignores_nulls: bool,
    exclusion: Exclusion,
    peers: Peers,
}

impl PartitionEvaluator for Evaluator {
    fn uses_window_frame(&self) -> bool {
        true
    }

    fn evaluate(&mut self, values: &[ArrayRef], frame: &Range<usize>) -> Result<ScalarValue> {
        let (arguments, keys) = values.split_at(self.arguments);
        let Some(values) = arguments.first() else {
            return exec_err!("a function that picks a value has no argument");
        };
        let (row, peers) = self.peers.next(keys, values.len())?;
        let rows = self.exclusion.remaining(frame, row, &peers).into_iter().flatten();
        let nulls = values.logical_nulls().filter(|_| self.ignores_nulls);
        let mut rows = rows.filter(|row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row)));
        let skipped = usize::try_from(self.number.unsigned_abs()).unwrap_or(usize::MAX);
        let picked = match (skipped.checked_sub(1), self.number > 0) {
            (None, _) => None,
            (Some(skipped), true) => rows.nth(skipped),
            (Some(skipped), false) => rows.rev().nth(skipped),
        };
        match picked {
            Some(row) => ScalarValue::try_from_array(values, row),
            None => ScalarValue::try_from(values.data_type()),
        }
    }
}

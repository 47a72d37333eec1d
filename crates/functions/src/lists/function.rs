//! Scalar functions of lists.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ScalarFunctionArgs;

use crate::adapter::{Scalar, columns};

/// A function: its names, its types, and its implementation.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) names: &'static [&'static str],
    /// The types that arguments are cast to, from those that are given.
    pub(super) coerce: fn(&str, &[DataType]) -> Result<Vec<DataType>>,
    /// The type of the result.
    pub(super) returns: fn(&[DataType]) -> DataType,
    pub(super) run: fn(&Call) -> Result<ArrayRef>,
}

/// Evaluated arguments of a call.
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) arguments: Vec<ArrayRef>,
    pub(super) rows: usize,
    pub(super) output: DataType,
}

impl Scalar for Definition {
    fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.names.get(1..).unwrap_or_default()
    }

    fn coerce(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        (self.coerce)(self.name(), given)
    }

    fn field(&self, given: &[DataType], _: &[Option<&ScalarValue>]) -> Result<Field> {
        let given = (self.coerce)(self.name(), given)?;
        Ok(Field::new(self.name(), (self.returns)(&given), true))
    }

    fn run(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        (self.run)(&Call {
            name: self.name(),
            arguments: columns(args, rows)?,
            rows,
            output: args.return_field.data_type().clone(),
        })
    }
}

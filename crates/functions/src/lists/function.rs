//! Scalar functions of lists.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

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

impl Definition {
    pub(super) fn function(self) -> Arc<ScalarUDF> {
        let aliases = self.names.iter().skip(1).map(|&name| name.to_owned()).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Function { definition: self, aliases, signature }))
    }
}

/// Evaluated arguments of a call.
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) arguments: Vec<ArrayRef>,
    pub(super) rows: usize,
    pub(super) output: DataType,
}

#[derive(Debug)]
struct Function {
    definition: Definition,
    aliases: Vec<String>,
    signature: Signature,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.definition.names == other.definition.names
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.names.hash(state);
    }
}

impl Function {
    fn first_name(&self) -> &'static str {
        self.definition.names.first().copied().unwrap_or_default()
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.first_name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The planner replaces errors of this function by one that lists signatures, so wrong types
    /// are refused by [`Self::return_type`].
    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let coerced = (self.definition.coerce)(self.first_name(), given);
        Ok(coerced.unwrap_or_else(|_| given.to_vec()))
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        let given = (self.definition.coerce)(self.first_name(), given)?;
        Ok((self.definition.returns)(&given))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arguments = args.args.into_iter().map(|arg| arg.into_array(rows));
        let call = Call {
            name: self.first_name(),
            arguments: arguments.collect::<Result<_>>()?,
            rows,
            output: args.return_field.data_type().clone(),
        };
        let result = (self.definition.run)(&call)?;
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
            false => Ok(ColumnarValue::Array(result)),
        }
    }
}

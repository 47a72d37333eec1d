//! Functions that give floating-point numbers that are equal in SQL the same bits.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExpressionPlacement, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use terrace_exec::floats::{canonical, canonical_nans};

use crate::unary::{apply_to_one, name_of_one, type_of_one};

/// Purpose for which a number is made canonical, which decides about the sign of zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    /// For output: a NaN has no sign, a zero keeps its sign.
    Value,
    /// For comparisons, sorts and look-ups: a zero has no sign either.
    Key,
}

/// Gives equal numbers equal bits; leaves other values unchanged.
///
/// In a plan it has the name of its argument, so that columns have the same names as without it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Canonical {
    purpose: Purpose,
    signature: Signature,
}

impl Canonical {
    fn of(purpose: Purpose, expr: Expr) -> Expr {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { purpose, signature }).call(vec![expr])
    }

    /// Makes the NaN of a computed number canonical. The processor may return a NaN with a sign,
    /// which sorts below all numbers in Arrow's order.
    pub fn value(expr: Expr) -> Expr {
        Self::of(Purpose::Value, expr)
    }

    /// Makes a number canonical as a key of a sort, a window or a look-up, where zeros are equal
    /// too.
    pub fn key(expr: Expr) -> Expr {
        match expr {
            Expr::Literal(value, metadata) if !is_odd(&value) => Expr::Literal(value, metadata),
            expr => Self::of(Purpose::Key, expr),
        }
    }

    /// Unwraps an expression of [`Canonical::value`]; leaves any other unchanged.
    pub fn argument_of_value(expr: Expr) -> Expr {
        match expr {
            Expr::ScalarFunction(mut call)
                if call.func.inner().downcast_ref::<Self>().is_some_and(Self::is_for_value)
                    && call.args.len() == 1 =>
            {
                call.args.swap_remove(0)
            }
            expr => expr,
        }
    }

    fn is_for_value(&self) -> bool {
        self.purpose == Purpose::Value
    }

    fn apply(&self, array: &ArrayRef) -> Result<ArrayRef> {
        match self.purpose {
            Purpose::Value => canonical_nans(array),
            Purpose::Key => canonical(array),
        }
    }
}

/// True if [`Canonical::key`] may change the bits of a literal, or its type is no floating-point
/// type.
fn is_odd(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float64(Some(value)) => value.is_nan() || *value == 0.0,
        ScalarValue::Float32(Some(value)) => value.is_nan() || *value == 0.0,
        ScalarValue::Float64(None) | ScalarValue::Float32(None) => false,
        _ => true,
    }
}

impl ScalarUDFImpl for Canonical {
    fn name(&self) -> &str {
        match self.purpose {
            Purpose::Value => "canonical_nan",
            Purpose::Key => "canonical_float",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        name_of_one(self.name(), args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        type_of_one(self.name(), arg_types)
    }

    fn is_strict(&self) -> bool {
        true
    }

    /// NaNs with a sign only come from computations, which are wrapped by this function, so it
    /// preserves the order of its argument.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |input| input.sort_properties))
    }

    fn preserves_lex_ordering(&self, _: &[ExprProperties]) -> Result<bool> {
        Ok(false)
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        match args {
            [ExpressionPlacement::Literal] => ExpressionPlacement::Literal,
            _ => ExpressionPlacement::KeepInPlace,
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        apply_to_one(self.name(), &args.args, |array| self.apply(array))
    }
}

//! Arithmetic of integers and decimals that fails on overflow.
//!
//! DataFusion's `+`, `-` and `*` wrap around where a result does not fit its type, also when it
//! folds constants. These functions replace them in a logical plan: they have the operators' types
//! and names, and return an error instead. Quotients of decimals have more digits (`quotient`).
//! Floating-point numbers are not divided by zero (`zero`).

mod quotient;
mod zero;

use std::fmt::{self, Write as _};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Datum};
use datafusion::arrow::compute::kernels::numeric::{add, div, mul, neg, rem, sub};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr_common::datum::apply;

use quotient::{divide, quotient_type};
use zero::refuse_zeros;

/// A sum, difference, product or quotient of decimals that fails on overflow, or a quotient or
/// remainder of floating-point numbers that fails for a divisor of zero.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CheckedArithmetic {
    operator: Operator,
    signature: Signature,
}

impl CheckedArithmetic {
    /// Returns the function that replaces `operator` for operands of these types; none if nothing
    /// can overflow, or for an operator that is not `+`, `-`, `*`, `/` of decimals, or `/` and `%`
    /// of floating-point numbers.
    #[must_use]
    pub fn of(operator: Operator, left: &DataType, right: &DataType) -> Option<ScalarUDF> {
        let known = match operator {
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                can_overflow(left) && can_overflow(right)
            }
            Operator::Divide if quotient_type(left, right).is_some() => true,
            Operator::Divide | Operator::Modulo => {
                left == right && matches!(left, DataType::Float32 | DataType::Float64)
            }
            _ => false,
        };
        let signature = Signature::any(2, Volatility::Immutable);
        known.then(|| ScalarUDF::new_from_impl(Self { operator, signature }))
    }

    /// Returns the operator that this function replaces.
    #[must_use]
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Returns the type of the result for operands of the types `left` and `right`.
    ///
    /// # Errors
    /// Operands of types that the operator does not accept.
    pub fn result_type(&self, left: &DataType, right: &DataType) -> Result<DataType> {
        match quotient_type(left, right) {
            Some(quotient) if self.operator == Operator::Divide => Ok(quotient),
            _ => BinaryTypeCoercer::new(left, &self.operator, right).get_result_type(),
        }
    }
}

/// Appends the name of an operand. The name of a long sum is written once, not copied at each
/// level.
fn push_name(name: &mut String, expr: &Expr) {
    if let Expr::ScalarFunction(call) = expr
        && let Some(inner) = call.func.inner().downcast_ref::<CheckedArithmetic>()
        && let [left, right] = call.args.as_slice()
    {
        push_name(name, left);
        let _ = write!(name, " {} ", inner.operator);
        push_name(name, right);
        return;
    }
    // Writing to a text cannot fail, and a name that cannot be made is an error where it is
    // requested.
    let _ = write!(name, "{}", expr.schema_name());
}

/// Returns true if arithmetic with values of a type can overflow it.
fn can_overflow(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_decimal()
}

impl ScalarUDFImpl for CheckedArithmetic {
    fn name(&self) -> &str {
        match self.operator {
            Operator::Plus => "checked_add",
            Operator::Minus => "checked_subtract",
            Operator::Divide => "checked_divide",
            Operator::Modulo => "checked_remainder",
            _ => "checked_multiply",
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        self.schema_name(args)
    }

    /// Returns the name of an expression with the operator, so that column names do not change.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [left, right] = args else { return internal_err!("{} takes 2 values", self.name()) };
        let mut name = String::new();
        push_name(&mut name, left);
        let _ = write!(name, " {} ", self.operator);
        push_name(&mut name, right);
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let [left, right] = arg_types else {
            return internal_err!("{} takes 2 values", self.name());
        };
        self.result_type(left, right)
    }

    /// Returns unbounded bounds in the type of the result: without the type, DataFusion does not
    /// find the order of an expression over this one.
    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        let [left, right] = inputs else { return internal_err!("{} takes 2 values", self.name()) };
        let of = self.result_type(&left.data_type(), &right.data_type());
        Interval::make_unbounded(&of.unwrap_or(DataType::Null))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("{} takes 2 values", self.name());
        };
        let what = Overflow { data_type: args.return_type(), operator: self.operator };
        let computed = apply(left, right, |left: &dyn Datum, right: &dyn Datum| {
            let result = match self.operator {
                Operator::Divide if what.data_type.is_floating() => {
                    refuse_zeros(left, right)?;
                    div(left, right)?
                }
                Operator::Divide => return divide(left, right, what.data_type),
                Operator::Modulo => {
                    refuse_zeros(left, right)?;
                    rem(left, right)?
                }
                Operator::Plus => add(left, right)?,
                Operator::Minus => sub(left, right)?,
                _ => mul(left, right)?,
            };
            check_precision(&result)?;
            Ok(result)
        });
        computed.or_else(|error| match error.find_root() {
            DataFusionError::ArrowError(arrow, _) if is_overflow(arrow) => {
                exec_err!("{what}")
            }
            _ => Err(error),
        })
    }
}

/// The negative of an integer, which fails on overflow.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CheckedNegation {
    signature: Signature,
}

impl CheckedNegation {
    /// Returns the function that replaces the unary operator `-`.
    #[must_use]
    pub fn function() -> ScalarUDF {
        ScalarUDF::new_from_impl(Self { signature: Signature::any(1, Volatility::Immutable) })
    }
}

impl ScalarUDFImpl for CheckedNegation {
    fn name(&self) -> &str {
        "checked_negate"
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        self.schema_name(args)
    }

    /// Returns the name of an expression with the sign.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [operand] = args else { return internal_err!("{} takes 1 value", self.name()) };
        Ok(format!("(- {})", operand.schema_name()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let [operand] = arg_types else { return internal_err!("{} takes 1 value", self.name()) };
        Ok(operand.clone())
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        let [operand] = inputs else { return internal_err!("{} takes 1 value", self.name()) };
        Interval::make_unbounded(&operand.data_type())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let what = Overflow { data_type: args.return_type(), operator: Operator::Minus };
        let [operand] = args.args.as_slice() else {
            return internal_err!("{} takes 1 value", self.name());
        };
        let negated = |array: &dyn Array| {
            neg(array).or_else(|error| match error {
                error if is_overflow(&error) => exec_err!("{what}"),
                error => Err(error.into()),
            })
        };
        match operand {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(negated(array)?)),
            ColumnarValue::Scalar(scalar) => {
                let array = negated(&scalar.to_array_of_size(1)?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
        }
    }
}

/// The message for a result that does not fit its type.
struct Overflow<'a> {
    data_type: &'a DataType,
    operator: Operator,
}

impl fmt::Display for Overflow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data_type, operator } = self;
        write!(
            f,
            "numeric value out of range: the result of {operator} does not fit {data_type}; cast \
             an operand to a wider type, such as DECIMAL(38, 0) or DOUBLE"
        )
    }
}

fn is_overflow(error: &ArrowError) -> bool {
    matches!(error, ArrowError::ArithmeticOverflow(_))
}

/// Rejects decimals of more digits than their type has. Only the widest types can have them: the
/// result of an operation has a digit more than its operands, up to that width.
fn check_precision(array: &ArrayRef) -> Result<(), ArrowError> {
    let checked = match array.data_type() {
        DataType::Decimal128(DECIMAL128_MAX_PRECISION, _) => {
            let array = array.as_primitive::<Decimal128Type>();
            array.validate_decimal_precision(DECIMAL128_MAX_PRECISION)
        }
        DataType::Decimal256(DECIMAL256_MAX_PRECISION, _) => {
            let array = array.as_primitive::<Decimal256Type>();
            array.validate_decimal_precision(DECIMAL256_MAX_PRECISION)
        }
        _ => Ok(()),
    };
    checked.map_err(|error| ArrowError::ArithmeticOverflow(error.to_string()))
}

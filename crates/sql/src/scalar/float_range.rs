//! The check before a cast to a floating-point number that the value is not too large for it.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use terrace_table::unary::{apply_to_one, name_of_one, type_of_one};

/// Checks the operand of a cast to a floating-point number, a text or a number of double precision,
/// and returns it. A finite value beyond the range of the type is an error, as in PostgreSQL and
/// DuckDB; for `TRY_CAST` it becomes null. Arrow's cast returns infinity.
///
/// In a plan it has the name of its argument, so that the cast has the same name as without it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct InFloatRange {
    is_real: bool,
    is_lenient: bool,
    signature: Signature,
}

impl InFloatRange {
    pub(crate) fn function(to: &DataType, is_lenient: bool) -> ScalarUDF {
        let signature = Signature::any(1, Volatility::Immutable);
        let is_real = *to == DataType::Float32;
        ScalarUDF::new_from_impl(Self { is_real, is_lenient, signature })
    }

    /// True if a value of the type `from` may be finite and too large for `to`.
    pub(crate) fn is_needed(from: &DataType, to: &DataType) -> bool {
        match to {
            DataType::Float32 => from.is_string() || *from == DataType::Float64,
            DataType::Float64 => from.is_string(),
            _ => false,
        }
    }

    fn type_name(&self) -> &'static str {
        if self.is_real { "real" } else { "double precision" }
    }

    fn fits(&self, value: f64) -> bool {
        !value.is_finite() || !self.is_real || is_real(value)
    }

    /// True unless a text denotes a number that is too large.
    fn text_fits(&self, text: &str) -> bool {
        // A number below 10^38 is a REAL.
        if text.len() <= 38 && !text.contains(['e', 'E']) {
            return true;
        }
        let text = text.trim_ascii();
        let is_infinity = text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
        let is_too_large = match text.parse::<f64>() {
            Ok(value) => value.is_infinite() || !self.fits(value),
            // The cast refuses it.
            Err(_) => false,
        };
        is_infinity || !is_too_large
    }

    fn error(&self, value: &str) -> DataFusionError {
        exec_datafusion_err!("{value} is out of range for type {}", self.type_name())
    }

    fn checked(&self, array: &ArrayRef) -> Result<ArrayRef> {
        if let Some(values) = array.as_primitive_opt::<Float64Type>() {
            let too_large = |value: &f64| !self.fits(*value);
            let Some(value) = values.iter().flatten().find(too_large) else {
                return Ok(Arc::clone(array));
            };
            if !self.is_lenient {
                return Err(self.error(&value.to_string()));
            }
            return Ok(Arc::new(values.unary_opt::<_, Float64Type>(|value| {
                Some(value).filter(|value| self.fits(*value))
            })));
        }
        let views = cast(array, &DataType::Utf8View)?;
        let texts = views.as_string_view();
        let Some(text) = texts.iter().flatten().find(|text| !self.text_fits(text)) else {
            return Ok(Arc::clone(array));
        };
        if !self.is_lenient {
            return Err(self.error(&format!("{text:?}")));
        }
        let texts = texts.iter().map(|text| text.filter(|text| self.text_fits(text)));
        let texts: StringViewArray = texts.collect();
        Ok(cast(&texts, array.data_type())?)
    }
}

/// True if a finite number is not rounded to an infinite one of single precision.
#[allow(clippy::cast_possible_truncation, reason = "the question is whether it fits")]
fn is_real(value: f64) -> bool {
    (value as f32).is_finite()
}

impl ScalarUDFImpl for InFloatRange {
    fn name(&self) -> &str {
        "in_float_range"
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        apply_to_one(self.name(), &args.args, |array| self.checked(array))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finite_texts_beyond_the_range_do_not_fit() {
        let of = |is_real| InFloatRange {
            is_real,
            is_lenient: false,
            signature: Signature::any(1, Volatility::Immutable),
        };
        for (text, double, real) in [
            ("1e400", false, false),
            ("-1e400", false, false),
            ("1e39", true, false),
            ("3.4028235e38", true, true),
            ("1", true, true),
            ("infinity", true, true),
            ("-Infinity", true, true),
            ("1e-400", true, true),
            ("one", true, true),
        ] {
            assert_eq!(of(false).text_fits(text), double, "{text}");
            assert_eq!(of(true).text_fits(text), real, "{text}");
        }
        assert!(!of(false).text_fits(&"9".repeat(400)));
    }
}

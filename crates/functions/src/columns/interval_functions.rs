//! Functions that replace comparisons and casts of intervals, JSONB and bytes in plans.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, BinaryArray, Decimal128Array, IntervalMonthDayNanoArray,
};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::arrow::util::display::{FormatOptions, array_value_to_string};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::interval::duration;
use super::interval_parse::parse_interval;
use super::readable::readable_values;
use crate::json::key;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// Cast options: a value that the target type cannot represent is an error.
const STRICT: CastOptions<'_> = CastOptions { safe: false, format_options: FormatOptions::new() };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    /// The duration of an interval, by which intervals are compared.
    Key,
    /// The bytes by which values of JSONB are compared.
    JsonKey,
    /// PostgreSQL's text of an interval or of bytes.
    Text,
    /// The interval that a text denotes.
    OfText,
    /// As [`Self::OfText`], with null in place of errors.
    OfTextOrNull,
}

/// Returns an expression for the number by which PostgreSQL compares intervals: its nanoseconds,
/// with days of 24 hours and months of 30 days. A text is parsed as an interval.
#[must_use]
pub fn interval_key(expr: Expr) -> Expr {
    call(Form::Key, expr)
}

/// Returns an expression for bytes that compare as PostgreSQL compares values of JSONB.
#[must_use]
pub fn jsonb_key(expr: Expr) -> Expr {
    call(Form::JsonKey, expr)
}

/// Returns an expression for the text of an interval or of bytes as PostgreSQL writes it:
/// `1 mon 2 days`, `\x00ff`.
#[must_use]
pub fn readable_text(expr: Expr) -> Expr {
    call(Form::Text, expr)
}

/// Returns an expression that parses a text as an interval; other texts are errors. Arrow's cast
/// does not parse hours and minutes such as `04:05`.
#[must_use]
pub fn interval_of_text(expr: Expr) -> Expr {
    call(Form::OfText, expr)
}

/// Returns an expression that parses a text as an interval, with null for other texts.
#[must_use]
pub fn try_interval_of_text(expr: Expr) -> Expr {
    call(Form::OfTextOrNull, expr)
}

/// Parses texts as intervals, with null for any other text.
///
/// # Errors
/// If the values are no texts.
pub fn intervals_of_texts(texts: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast_with_options(texts, &DataType::Utf8View, &STRICT)?;
    let texts = texts.as_string_view().iter();
    Ok(Arc::new(texts.map(|text| parse_interval(text?)).collect::<IntervalMonthDayNanoArray>()))
}

/// The intervals of texts, or of intervals of other units.
fn intervals(values: &ArrayRef) -> Result<ArrayRef> {
    if !values.data_type().is_string() {
        return Ok(cast_with_options(values, &INTERVAL, &STRICT)?);
    }
    let found = intervals_of_texts(values)?;
    match (0..values.len()).find(|row| found.is_null(*row) && values.is_valid(*row)) {
        None => Ok(found),
        Some(row) => {
            let text = array_value_to_string(values, row)?;
            exec_err!("invalid input syntax for type interval: {text:?}")
        }
    }
}

/// Returns the durations of intervals, by which they are compared.
///
/// # Errors
/// For a text that denotes no interval.
pub(crate) fn durations(values: &ArrayRef) -> Result<ArrayRef> {
    let values = intervals(values)?;
    let values = values.as_primitive::<IntervalMonthDayNanoType>();
    let keys: Decimal128Array = values.iter().map(|it| it.map(duration)).collect();
    Ok(Arc::new(keys.with_precision_and_scale(38, 0)?))
}

fn json_keys(values: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast_with_options(values, &DataType::Utf8View, &STRICT)?;
    let keys = texts.as_string_view().iter().map(|text| {
        let key = text.map(key).transpose();
        key.map_err(|error| exec_datafusion_err!("invalid input syntax for type json: {error}"))
    });
    let keys: Vec<_> = keys.collect::<Result<_>>()?;
    Ok(Arc::new(keys.iter().map(Option::as_deref).collect::<BinaryArray>()))
}

fn call(form: Form, expr: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(OfValue { form, signature }).call(vec![expr])
}

/// A function of one value that is shown by the name of its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfValue {
    form: Form,
    signature: Signature,
}

impl OfValue {
    fn apply(&self, values: &ArrayRef) -> Result<ArrayRef> {
        Ok(match self.form {
            Form::Key => durations(values)?,
            Form::JsonKey => json_keys(values)?,
            Form::Text => readable_values(values)?,
            Form::OfText => intervals(values)?,
            Form::OfTextOrNull => intervals_of_texts(values)?,
        })
    }
}

impl ScalarUDFImpl for OfValue {
    fn name(&self) -> &str {
        match self.form {
            Form::Key => "interval_key",
            Form::JsonKey => "jsonb_key",
            Form::Text => "readable_text",
            Form::OfText => "interval_of_text",
            Form::OfTextOrNull => "try_interval_of_text",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match (self.form, args) {
            // A key beside its value needs a name of its own.
            (Form::Key | Form::JsonKey, [value]) => {
                Ok(format!("{}({})", self.name(), value.schema_name()))
            }
            (_, [value]) => Ok(value.schema_name().to_string()),
            _ => plan_err!("{} takes 1 value", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.form {
            Form::Key => DataType::Decimal128(38, 0),
            Form::JsonKey => DataType::Binary,
            Form::Text => DataType::Utf8,
            Form::OfText | Form::OfTextOrNull => INTERVAL,
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(self.apply(values)?)),
            [ColumnarValue::Scalar(value)] => {
                let values = self.apply(&value.to_array_of_size(1)?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?))
            }
            _ => plan_err!("{} takes 1 value", self.name()),
        }
    }
}

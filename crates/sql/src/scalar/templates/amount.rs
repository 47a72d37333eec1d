//! `to_number`, which reads a number by a template, as in PostgreSQL.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray as _, Decimal128Array, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::numbers::{Digits, NumberTemplate};
use super::parse::is_text;

const NAME: &str = "to_number";
/// Precision of the result, a DECIMAL.
const PRECISION: u8 = 38;
/// Scale of the result, in digits after the point, if the template is not a constant.
const SCALE: u8 = 10;

/// `to_number(text, template)`: the number of a text such as `12,454.8-` by a template such as
/// `99G999D9S`, with as many digits behind the point as the template has.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ToNumber {
    signature: Signature,
}

impl ToNumber {
    pub(crate) fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ToNumber {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [text, template] if is_text(text) && is_text(template) => {
                Ok(vec![DataType::Utf8, DataType::Utf8])
            }
            _ => plan_err!("{NAME} takes a text and a template, such as '1,234.5' and '9G999D9'"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type of {NAME} depends on its template")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let template = args.scalar_arguments.get(1).copied().flatten();
        let template = template.and_then(|template| template.try_as_str().flatten());
        // Errors belong to the evaluation.
        let template = template.and_then(|template| NumberTemplate::parsed(template).ok());
        let scale = template.map_or(SCALE, |template| {
            u8::try_from(template.digits_behind()).unwrap_or(PRECISION).min(PRECISION)
        });
        let number = DataType::Decimal128(PRECISION, i8::try_from(scale).unwrap_or(0));
        Ok(Arc::new(Field::new(NAME, number, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [text, template] = args.args.as_slice() else {
            return plan_err!("{NAME} takes a text and a template");
        };
        let DataType::Decimal128(_, scale) = *args.return_type() else {
            return exec_err!("{NAME} returns decimals, not {}", args.return_type());
        };
        let is_constant = [text, template].iter().all(|it| matches!(it, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let column = |value: &ColumnarValue| -> Result<StringArray> {
            let texts = cast(&value.to_array(rows)?, &DataType::Utf8)?;
            Ok(texts.as_string::<i32>().clone())
        };
        let (texts, templates) = (column(text)?, column(template)?);
        let mut known: Option<(&str, NumberTemplate)> = None;
        let numbers = texts.iter().zip(&templates).map(|(text, template)| {
            // An empty template gives null, as in PostgreSQL.
            let both = text.zip(template.filter(|template| !template.is_empty()));
            let Some((text, template)) = both else { return Ok(None) };
            let parsed = match &known {
                Some((of, parsed)) if *of == template => parsed,
                _ => &known.insert((template, NumberTemplate::parsed(template)?)).1,
            };
            number(&parsed.read(text)?, text, scale).map(Some)
        });
        let numbers = numbers.collect::<Result<Decimal128Array>>()?;
        let numbers = numbers.with_precision_and_scale(PRECISION, scale)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&numbers, 0)?),
            false => ColumnarValue::Array(Arc::new(numbers)),
        })
    }
}

/// The number of the digits of a text, at a scale.
fn number(digits: &Digits, text: &str, scale: i8) -> Result<i128> {
    if !digits.has_digits() {
        return exec_err!("{NAME} finds no digits of the template in {text:?}");
    }
    let number = digits.at_scale(usize::try_from(scale).unwrap_or(0));
    number.ok_or_else(|| {
        exec_datafusion_err!("{NAME}: the number of {text:?} has more than {PRECISION} digits")
    })
}
